//! Clients that read or write slowly, idle, or send what is no request.

use std::net::SocketAddr;
use std::time::Duration;

use reqwest::Method;
use serde_json::json;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpSocket, TcpStream};
use tokio::task::JoinSet;
use tokio::time::{interval, timeout};

use crate::lab::{Lab, Shop};

/// Longer than anything here takes when it does happen.
const PATIENCE: Duration = Duration::from_secs(30);

/// Sends bytes, and returns everything that the service says until it closes the connection.
async fn talk(address: SocketAddr, bytes: &str) -> String {
    let mut stream = TcpStream::connect(address).await.unwrap();
    stream.write_all(bytes.as_bytes()).await.unwrap();
    let mut answer = String::new();
    timeout(PATIENCE, stream.read_to_string(&mut answer)).await.expect("the service closes").unwrap();
    answer
}

/// Returns the largest file of the page of the document.
async fn largest_file(shop: &Shop) -> String {
    let page = shop.request(Method::GET, "/docs/").send().await.unwrap().text().await.unwrap();
    let files = page.split('"').filter(|part| part.ends_with(".js") || part.ends_with(".css"));
    let mut largest = (0, String::new());
    for file in files {
        let path = format!("/docs/{}", file.trim_start_matches("./"));
        let bytes = shop.request(Method::GET, &path).send().await.unwrap().bytes().await.unwrap();
        largest = largest.max((bytes.len(), path));
    }
    assert!(largest.0 > 100_000, "{largest:?}");
    largest.1
}

/// Starts a client that asks for a file many times and reads nothing. Its system keeps little for it.
async fn ask_and_never_read(address: SocketAddr, path: &str) -> TcpStream {
    let socket = TcpSocket::new_v4().unwrap();
    socket.set_recv_buffer_size(4096).unwrap();
    let mut stream = socket.connect(address).await.unwrap();
    let requests = format!("GET {path} HTTP/1.1\r\nhost: lab\r\n\r\n").repeat(20);
    stream.write_all(requests.as_bytes()).await.unwrap();
    stream
}

/// Goal: clients that never read their answers shut out neither buyers nor probes. Method: there are more of them than may be
/// connected.
// S64
#[tokio::test(flavor = "multi_thread")]
async fn clients_that_never_read_shut_out_no_buyer() {
    let (_lab, instance) = Lab::with_instance(&["--connections-max", "30"]).await;
    let shop = Shop::without_keep_alive(instance.address);
    shop.put_on_sale(1, 50, "pg-conditional").await.assert_ok();
    let path = largest_file(&instance).await;
    let mut clients = Vec::new();
    for _ in 0..10 {
        for _ in 0..10 {
            clients.push(ask_and_never_read(instance.address, &path).await);
        }
        shop.get("/healthz").await.assert_ok();
        shop.buy(1, "pg-conditional").await.assert_ok();
    }
}

/// Sends the body of a buyer byte by byte, one every second. Returns the answer.
async fn order_slowly(address: SocketAddr) -> String {
    let mut stream = TcpStream::connect(address).await.unwrap();
    let body = r#"{"quantity":1}"#;
    let head = format!(
        "POST /goods/1/orders HTTP/1.1\r\nhost: lab\r\nidempotency-key: slow\r\ncontent-type: application/json\r\n\
         content-length: {}\r\n\r\n",
        body.len()
    );
    stream.write_all(head.as_bytes()).await.unwrap();
    let (mut from_service, mut to_service) = stream.split();
    let dribble = async {
        let mut seconds = interval(Duration::from_secs(1));
        for byte in body.bytes() {
            seconds.tick().await;
            if to_service.write_all(&[byte]).await.is_err() {
                break;
            }
        }
        std::future::pending::<()>().await;
    };
    let mut answer = vec![0; 4096];
    let length = tokio::select! {
        read = from_service.read(&mut answer) => read.unwrap(),
        () = dribble => unreachable!("it ends with the answer"),
    };
    String::from_utf8_lossy(&answer[..length]).into_owned()
}

/// Goal: a body that comes slowly takes no slot. Method: one client for each slot sends slowly, and a buyer buys until all of
/// them are answered.
// S64
#[tokio::test(flavor = "multi_thread")]
async fn clients_with_slow_bodies_do_not_shut_out_a_buyer() {
    let (lab, instance) = Lab::with_instance(&["--concurrency-max", "5"]).await;
    instance.put_on_sale(1, 1_000_000, "pg-conditional").await.assert_ok();
    let mut slow: JoinSet<_> = (0..5).map(|_| order_slowly(instance.address)).collect();
    let mut bought = 0;
    while !slow.is_empty() {
        instance.buy(1, "pg-conditional").await.assert_ok();
        bought += 1;
        while let Some(answer) = slow.try_join_next() {
            let answer = answer.unwrap();
            assert!(answer.starts_with("HTTP/1.1 408") && answer.contains("body-timeout"), "{answer}");
        }
    }
    assert_eq!(lab.assert_adds_up(1, "slow bodies").await, bought, "nothing was sold to the others");
    assert_eq!(instance.metric("seckill_requests_shed_total").await, Some(0.0));
}

#[tokio::test]
async fn a_request_has_exactly_one_host() {
    let (lab, instance) = Lab::with_instance(&[]).await;
    instance.put_on_sale(1, 5, "").await.assert_ok();
    for path in ["/healthz", "/goods-stock/1", "/nowhere"] {
        for hosts in ["", "host: lab\r\nhost: lab\r\n", "host: one\r\nhost: two\r\n"] {
            let request = format!("GET {path} HTTP/1.1\r\n{hosts}connection: close\r\n\r\n");
            let answer = talk(instance.address, &request).await;
            assert!(answer.starts_with("HTTP/1.1 400") && answer.contains("invalid-host"), "{answer}");
        }
    }
    let answer = talk(instance.address, "GET /healthz HTTP/1.1\r\nhost: lab\r\nconnection: close\r\n\r\n").await;
    assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
    // An earlier version of the protocol has no such header.
    let answer = talk(instance.address, "GET /healthz HTTP/1.0\r\n\r\n").await;
    assert!(answer.contains(" 200 OK\r\n"), "{answer}");
    assert_eq!(lab.orders().await, 0);
}

// S83
#[tokio::test]
async fn an_array_is_not_read_as_an_object() {
    let (lab, instance) = Lab::with_instance(&[]).await;
    instance.put_on_sale(1, 5, "").await.assert_ok();
    for (path, body) in [
        ("/orders", json!([[[5, 1]]])),
        ("/orders", json!([[{ "goods_no": 1, "quantity": 1 }]])),
        ("/orders", json!({ "lines": [[1, 1]] })),
        ("/orders", json!([])),
        ("/goods/1/orders", json!([1])),
        ("/goods/1/orders", json!([])),
    ] {
        instance.post(path, Some("key"), &body).await.assert_problem(422, "invalid-body");
    }
    for body in [json!([9]), json!([9, "zk-mutex"]), json!([])] {
        instance.put_sale(1, &body).await.assert_problem(422, "invalid-body");
    }
    assert_eq!((lab.orders().await, lab.keys().await), (0, 0));
    assert_eq!(instance.get("/goods/1").await.body["stock_initial"], 5);
}

#[tokio::test]
async fn a_listener_for_operators_has_what_buyers_must_not_reach() {
    let (lab, instance) = Lab::with_instance(&["--operators-listen", "127.0.0.1:0"]).await;
    let operators = instance.operators.as_ref().unwrap();
    assert_ne!(operators.address, instance.address);
    operators.put_on_sale(1, 5, "").await.assert_ok();
    operators.admin_get("/admin/history").await.assert_ok();
    instance.buy(1, "").await.assert_ok();
    assert!(operators.metric("seckill_requests_in_flight").await.is_some());
    let buyers: &Shop = &instance;
    for shop in [operators, buyers] {
        shop.get("/healthz").await.assert_ok();
        shop.get("/readyz").await.assert_ok();
    }

    for path in ["/goods/1", "/goods-stock/1", "/orders/1", "/docs/"] {
        operators.get(path).await.assert_refusal(404, "about:blank");
    }
    for path in ["/goods/1/orders", "/orders"] {
        operators.post(path, Some("key"), &json!({ "quantity": 1 })).await.assert_refusal(404, "about:blank");
    }
    instance.put_on_sale(1, 9, "").await.assert_refusal(404, "about:blank");
    instance.admin_get("/admin/history").await.assert_refusal(404, "about:blank");
    instance.get("/metrics").await.assert_refusal(404, "about:blank");
    assert_eq!(lab.assert_adds_up(1, "operators").await, 1);

    // The document of a listener names what this listener serves.
    let paths = async |shop: &Shop| {
        let document = shop.get("/openapi.json").await.body;
        document["paths"].as_object().unwrap().keys().cloned().collect::<Vec<_>>()
    };
    let is_for_operators = |path: &String| path.starts_with("/admin") || path == "/metrics";
    assert!(!paths(buyers).await.iter().any(is_for_operators));
    assert_eq!(paths(operators).await.iter().filter(|path| is_for_operators(path)).count(), 3);
}
