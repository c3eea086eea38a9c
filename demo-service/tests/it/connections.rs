//! How long connections are kept, which of them are taken back, and clients that end only their side of one.

use std::net::SocketAddr;
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::timeout;

use crate::lab::{ENDLESS, Instance, Lab, Shop, wait_until};

/// Longer than anything here takes when it does happen.
const PATIENCE: Duration = Duration::from_secs(60);

const PROBE: &str = "GET /healthz HTTP/1.1\r\nhost: lab\r\n\r\n";

const PURCHASE: &str = "GET /goods-stock/1 HTTP/1.1\r\nhost: lab\r\n\r\n";

/// A connection of a client that writes its requests by hand.
struct Client(TcpStream);

impl Client {
    async fn connect(address: SocketAddr) -> Self {
        Self(TcpStream::connect(address).await.unwrap())
    }

    async fn say(&mut self, bytes: &str) {
        self.0.write_all(bytes.as_bytes()).await.unwrap();
    }

    /// Sends a request, and returns the beginning of the answer. It is empty if the connection was closed.
    async fn ask(&mut self, request: &str) -> String {
        // A closed connection may refuse the request already.
        let _ = self.0.write_all(request.as_bytes()).await;
        let mut answer = vec![0; 4096];
        let length = timeout(PATIENCE, self.0.read(&mut answer)).await.expect("an answer or the end").unwrap_or(0);
        String::from_utf8_lossy(&answer[..length]).into_owned()
    }

    /// Waits until the service closes the connection. Returns what it has said before.
    async fn ended(&mut self) -> String {
        let mut said = String::new();
        // A reset is an end, too.
        let _ = timeout(PATIENCE, self.0.read_to_string(&mut said)).await.expect("the service closes");
        said
    }

    /// Sends a request, and ends the client's side. Returns all that the service says.
    async fn ask_and_end(&mut self, request: &str) -> String {
        self.say(request).await;
        self.0.shutdown().await.unwrap();
        self.ended().await
    }
}

async fn silent(instance: &Instance, count: usize) -> Vec<Client> {
    let mut clients = Vec::new();
    for _ in 0..count {
        clients.push(Client::connect(instance.address).await);
    }
    clients
}

#[track_caller]
fn assert_ok(answer: &str) {
    assert!(answer.starts_with("HTTP/1.1 200"), "{answer:?}");
}

/// Goal: a connection without a request is kept for longer than a head may take. Method: a connection is idle while another
/// one is cut off for its head, which began later.
// S65
#[tokio::test]
async fn an_idle_connection_is_kept_longer_than_a_slow_head() {
    let (lab, instance) = Lab::with_instance(&[]).await;
    instance.put_on_sale(1, 5, "").await.assert_ok();
    let mut fresh = Client::connect(instance.address).await;
    let mut used = Client::connect(instance.address).await;
    let mut slow = Client::connect(instance.address).await;
    assert_ok(&used.ask(PROBE).await);
    assert_ok(&slow.ask(PROBE).await);
    slow.say("GET /healthz HTTP/1.1\r\nhost: half").await;
    assert_eq!(slow.ended().await, "");
    assert_ok(&used.ask(PURCHASE).await);
    assert_ok(&fresh.ask(PURCHASE).await);
    assert_eq!(lab.assert_adds_up(1, "idle connections").await, 2);
}

/// Goal: silent clients shut out neither buyers nor probes. Method: there are many more of them than may be connected.
// S64
#[tokio::test]
async fn silent_clients_shut_out_neither_buyers_nor_probes() {
    let (_lab, instance) = Lab::with_instance(&["--connections-max", "16"]).await;
    let shop = Shop::without_keep_alive(instance.address);
    shop.put_on_sale(1, 1_000, "").await.assert_ok();
    let mut crowd = silent(&instance, 200).await;
    for _ in 0..20 {
        shop.buy(1, "").await.assert_ok();
        shop.get("/healthz").await.assert_ok();
        crowd.append(&mut silent(&instance, 10).await);
    }
}

// S64
#[tokio::test]
async fn clients_that_only_probe_shut_out_no_buyer() {
    let (_lab, instance) = Lab::with_instance(&["--connections-max", "16"]).await;
    let shop = Shop::without_keep_alive(instance.address);
    shop.put_on_sale(1, 1_000, "").await.assert_ok();
    let mut probing = silent(&instance, 16).await;
    for _ in 0..20 {
        for client in &mut probing {
            let answer = client.ask(PROBE).await;
            if answer.is_empty() {
                *client = Client::connect(instance.address).await;
            }
        }
        shop.buy(1, "").await.assert_ok();
    }
}

// S64
#[tokio::test]
async fn clients_with_half_a_body_shut_out_no_buyer() {
    let (_lab, instance) = Lab::with_instance(&["--connections-max", "16"]).await;
    let shop = Shop::without_keep_alive(instance.address);
    shop.put_on_sale(1, 1_000, "").await.assert_ok();
    let half = "POST /orders HTTP/1.1\r\nhost: lab\r\nidempotency-key: half\r\ncontent-length: 14\r\n\r\n";
    let mut crowd = Vec::new();
    for _ in 0..100 {
        let mut client = Client::connect(instance.address).await;
        client.say(half).await;
        crowd.push(client);
    }
    shop.get("/healthz").await.assert_ok();
    shop.buy(1, "").await.assert_ok();
}

/// Goal: clients that ask for the servers shut out no probe while those are silent. Method: there are many more of them than may
/// be connected.
// S64, S66
#[tokio::test]
async fn clients_that_ask_for_servers_shut_out_no_probe() {
    let (lab, postgres) = Lab::behind_proxy().await;
    let instance = lab.start(&["--connections-max", "16"]).await;
    let shop = Shop::without_keep_alive(instance.address);
    shop.get("/readyz").await.assert_ok();
    postgres.blackhole();
    let mut crowd = Vec::new();
    for _ in 0..100 {
        let mut client = Client::connect(instance.address).await;
        client.say("GET /readyz HTTP/1.1\r\nhost: lab\r\n\r\n").await;
        crowd.push(client);
    }
    shop.get("/healthz").await.assert_ok();
    let mut sent_away = 0;
    for client in &mut crowd {
        let answer = client.ask("").await;
        assert!(answer.starts_with("HTTP/1.1 503"), "{answer:?}");
        sent_away += u32::from(answer.contains("overloaded") && answer.contains("connection: close"));
    }
    assert!(sent_away > 0, "the room of those who waited was needed");
}

/// Goal: refused purchases are not worth the connection of a buyer. Method: the connections with refused ones are newer.
// S66
#[tokio::test]
async fn a_malformed_purchase_shuts_out_no_buyer() {
    let (_lab, instance) = Lab::with_instance(&["--connections-max", "4"]).await;
    let shop = Shop::without_keep_alive(instance.address);
    shop.put_on_sale(1, 5, "").await.assert_ok();
    let mut buyer = Client::connect(instance.address).await;
    assert_ok(&buyer.ask(PURCHASE).await);
    let malformed = "POST /orders HTTP/1.1\r\nhost: lab\r\nidempotency-key: key\r\n\
                     content-type: application/json\r\ncontent-length: 2\r\n\r\n{}";
    let mut crowd = silent(&instance, 3).await;
    for (client, request) in
        crowd.iter_mut().zip([malformed, malformed, "GET /goods-stock/2 HTTP/1.1\r\nhost: lab\r\n\r\n"])
    {
        let answer = client.ask(request).await;
        assert!(answer.starts_with("HTTP/1.1 4"), "{answer:?}");
    }
    shop.get("/healthz").await.assert_ok();
    assert_ok(&buyer.ask(PURCHASE).await);
}

/// Goal: a new connection replaces the one whose last purchase is longest ago.
// S66
#[tokio::test]
async fn a_buyer_keeps_its_connection_while_others_come() {
    let (_lab, instance) = Lab::with_instance(&["--connections-max", "4"]).await;
    let shop = Shop::without_keep_alive(instance.address);
    shop.put_on_sale(1, 1_000, "").await.assert_ok();
    let mut earlier = Client::connect(instance.address).await;
    assert_ok(&earlier.ask(PURCHASE).await);
    let mut buyer = Client::connect(instance.address).await;
    assert_ok(&buyer.ask(PURCHASE).await);
    for _ in 0..5 {
        let _crowd = silent(&instance, 20).await;
        assert_ok(&buyer.ask(PURCHASE).await);
        shop.get("/healthz").await.assert_ok();
    }
    // Three newer buyers replace the one that bought first.
    let mut newer = Vec::new();
    for _ in 0..3 {
        let mut client = Client::connect(instance.address).await;
        assert_ok(&client.ask(PURCHASE).await);
        newer.push(client);
    }
    assert_eq!(earlier.ended().await, "");
    for client in newer.iter_mut().chain([&mut buyer]) {
        assert_ok(&client.ask(PURCHASE).await);
    }
}

/// Goal: no connection replaces one on whose request the service works.
// S66
#[tokio::test]
async fn a_purchase_under_way_keeps_its_connection() {
    let (lab, instance) = Lab::with_instance(&[&["--connections-max", "4"][..], &ENDLESS].concat()).await;
    let shop = Shop::without_keep_alive(instance.address);
    shop.put_on_sale(1, 5, "zk-mutex").await.assert_ok();
    let held = lab.hold_locks("zk-mutex", &[1]).await;
    let mut buyer = Client::connect(instance.address).await;
    buyer.say(PURCHASE).await;
    lab.wait_for_queue("zk-mutex", 1, 2).await;
    let _crowd = silent(&instance, 50).await;
    shop.get("/healthz").await.assert_ok();
    held.release().await.unwrap();
    assert_ok(&buyer.ask("").await);
    assert_eq!(lab.assert_adds_up(1, "under way").await, 1);
}

/// Goal: a client with as many connections as it may have gets a further one for another, if one of them waits.
// S68
#[tokio::test]
async fn a_client_has_no_more_connections_than_it_may() {
    let (lab, instance) = Lab::with_instance(&[&["--connections-per-client", "3"][..], &ENDLESS].concat()).await;
    Shop::without_keep_alive(instance.address).put_on_sale(1, 5, "zk-mutex").await.assert_ok();
    let mut crowd = silent(&instance, 3).await;
    let mut buyers = Vec::new();
    let held = lab.hold_locks("zk-mutex", &[1]).await;
    for (number, idle) in (2..).zip(&mut crowd) {
        let mut buyer = Client::connect(instance.address).await;
        buyer.say(PURCHASE).await;
        lab.wait_for_queue("zk-mutex", 1, number).await;
        assert_eq!(idle.ended().await, "");
        buyers.push(buyer);
    }
    // All of them are at work.
    assert_eq!(Client::connect(instance.address).await.ask(PROBE).await, "");
    held.release().await.unwrap();
    for buyer in &mut buyers {
        assert_ok(&buyer.ask("").await);
    }
    assert_eq!(lab.assert_adds_up(1, "one client").await, 3);
}

// S69
#[tokio::test]
async fn a_client_that_ends_its_side_is_answered() {
    let (lab, instance) = Lab::with_instance(&ENDLESS).await;
    instance.put_on_sale(1, 5, "zk-mutex").await.assert_ok();
    let answer = Client::connect(instance.address).await.ask_and_end(PROBE).await;
    assert!(answer.contains("HTTP/1.1 200") && answer.ends_with(r#"{"status":"alive"}"#), "{answer}");

    let body = r#"{"quantity":1}"#;
    let order = format!(
        "POST /goods/1/orders HTTP/1.1\r\nhost: lab\r\nidempotency-key: half\r\ncontent-type: application/json\r\n\
         content-length: {}\r\n\r\n{body}",
        body.len()
    );
    let answer = Client::connect(instance.address).await.ask_and_end(&order).await;
    assert!(answer.contains("HTTP/1.1 201"), "{answer}");

    // A large answer, to a client that ended its side long before it has read all of it.
    let page = "GET /openapi.json HTTP/1.1\r\nhost: lab\r\n\r\n";
    let answer = Client::connect(instance.address).await.ask_and_end(page).await;
    assert!(answer.contains("HTTP/1.1 200") && answer.ends_with('}'), "{answer}");

    let held = lab.hold_locks("zk-mutex", &[1]).await;
    let mut buyer = Client::connect(instance.address).await;
    buyer.say(PURCHASE).await;
    lab.wait_for_queue("zk-mutex", 1, 2).await;
    buyer.0.shutdown().await.unwrap();
    // The service asks whether the client is still there.
    let mut interim = [0; 4];
    timeout(PATIENCE, buyer.0.read_exact(&mut interim)).await.unwrap().unwrap();
    held.release().await.unwrap();
    let answer = buyer.ended().await;
    assert!(answer.contains("HTTP/1.1 200"), "{answer}");
    assert_eq!(lab.assert_adds_up(1, "half-closed").await, 2);
}

// S70
#[tokio::test]
async fn a_body_that_ends_too_early_is_refused_at_once() {
    let (_lab, instance) = Lab::with_instance(&[]).await;
    for (framing, body) in
        [("content-length: 14", ""), ("content-length: 14", r#"{"quan"#), ("transfer-encoding: chunked", "e\r\n{")]
    {
        let half = format!(
            "POST /goods/1/orders HTTP/1.1\r\nhost: lab\r\nidempotency-key: half\r\ncontent-type: application/json\r\n\
             {framing}\r\n\r\n{body}"
        );
        let answer = Client::connect(instance.address).await.ask_and_end(&half).await;
        assert!(
            answer.contains("HTTP/1.1 400") && answer.contains("could not be read to its end"),
            "{framing} {body}: {answer}"
        );
    }
}

/// Goal: a buyer that is gone waits no longer. Method: it ends its side first, so the service asks whether it is still there.
// S69
#[tokio::test]
async fn a_client_that_ends_its_side_and_leaves_waits_no_longer() {
    let (lab, instance) = Lab::with_instance(&ENDLESS).await;
    instance.put_on_sale(1, 5, "zk-mutex").await.assert_ok();
    let held = lab.hold_locks("zk-mutex", &[1]).await;
    for request in [PURCHASE, "GET /goods-stock/1 HTTP/1.0\r\n\r\n"].repeat(10) {
        let mut buyer = Client::connect(instance.address).await;
        buyer.say(request).await;
        lab.wait_for_queue("zk-mutex", 1, 2).await;
        buyer.0.shutdown().await.unwrap();
        drop(buyer);
        lab.wait_for_queue("zk-mutex", 1, 1).await;
    }
    held.release().await.unwrap();
    wait_until(async || instance.outcomes("zk-mutex", "client_gone").await == Some(20.0)).await;
    assert_eq!(lab.assert_adds_up(1, "gone").await, 0);
}
