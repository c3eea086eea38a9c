//! A shop that notes every request, and answers each buyer in another way.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use axum::Router;
use axum::body::to_bytes;
use axum::extract::{Request, State};
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use tokio::net::TcpListener;
use tokio::runtime::Runtime;

/// The number of an order, which no floating-point number has.
pub(super) const ORDER: &str = "1234567890123456789";
/// A secret, which only the environment of an engine has.
pub(super) const KEY: &str = "k3y-of-picky";

/// The border between the parts of a form.
const BOUNDARY: &str = "loadgen-form-7d9f2c51";

/// The requests of each buyer, by its phone.
type Requests = Arc<Mutex<BTreeMap<String, Vec<String>>>>;

/// A running shop.
pub(super) struct PickyShop {
    pub(super) url: String,
    requests: Requests,
    /// The shop ends with it.
    _runtime: Runtime,
}

impl PickyShop {
    pub(super) fn start() -> PickyShop {
        let runtime = Runtime::new().unwrap();
        let listener = runtime.block_on(TcpListener::bind(("127.0.0.1", 0))).unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let requests = Requests::default();
        let routes = Router::new().fallback(answer).with_state(Arc::clone(&requests));
        runtime.spawn(async move { axum::serve(listener, routes).await });
        PickyShop { url, requests, _runtime: runtime }
    }

    /// Returns the requests of each buyer since the last call.
    pub(super) fn requests(&self) -> BTreeMap<String, Vec<String>> {
        std::mem::take(&mut self.requests.lock().unwrap())
    }
}

async fn answer(State(requests): State<Requests>, request: Request) -> Response {
    let (head, body) = request.into_parts();
    let body = String::from_utf8(to_bytes(body, usize::MAX).await.unwrap().to_vec()).unwrap();
    let header = |name: &str| head.headers.get(name).map_or("", |value| value.to_str().unwrap()).to_owned();
    let session = header("cookie").strip_prefix("session=s-").unwrap_or_default().to_owned();
    let phone = body.strip_prefix("phone=").filter(|_| head.uri.path() == "/login").unwrap_or(&session).to_owned();
    let line = format!("{} {} {} {} {body}", head.method, head.uri, header("x-key"), header("content-type"));
    let line = line.replace("; boundary=", " ").replace(BOUNDARY, "BORDER").trim_end().to_owned();
    let count = {
        let mut requests = requests.lock().unwrap();
        let noted = requests.entry(phone.clone()).or_default();
        noted.push(line);
        noted.len()
    };
    of(head.uri.path(), &phone, count).await
}

/// Answers the request number `count` of this buyer.
async fn of(path: &str, phone: &str, count: usize) -> Response {
    let json =
        |status: StatusCode, body: String| (status, [("content-type", "application/json")], body).into_response();
    match (path, phone) {
        ("/login", _) => {
            let cookie = format!("session=s-{phone}; Path=/");
            let headers =
                [("set-cookie", cookie), ("x-ticket", format!("t-{phone}")), ("location", "/shop".to_owned())];
            // A form is answered by a redirect, which is a success without being followed.
            let status = if phone == "page" { StatusCode::FOUND } else { StatusCode::OK };
            (status, headers, r#"{"data":{"list":[1,{"id":9007199254740993}]}}"#).into_response()
        }
        ("/cart", "nowhere") => StatusCode::SEE_OTHER.into_response(),
        ("/cart", "away") => redirect("http://shop.invalid/cart"),
        ("/cart", "turned") => redirect("/order/17/turned?x=1"),
        ("/cart", "page") => redirect("../basket"),
        ("/cart", "busy") => StatusCode::TOO_MANY_REQUESTS.into_response(),
        ("/cart" | "/wait", _) => StatusCode::NO_CONTENT.into_response(),
        (_, "page") => page("/order/17/thanks?x=1", "Thank you, ü"),
        (_, "other") => page("/order/17/thanks?x=1", "Sold out, ü"),
        (_, "long") => page("/thanks", &format!("{}Thank you, ü", "é".repeat(600_000))),
        (_, "late") => std::future::pending().await,
        (_, "broken") => json(StatusCode::OK, r#"{"code":2}"#.to_owned()),
        (_, "empty") => json(StatusCode::GONE, r#"["sold", 5e-1, {"out": true}]"#.to_owned()),
        (path, "17") if path.starts_with("/orders/") && count > 5 => {
            json(StatusCode::OK, r#"{"code":1.0,"state":["x",{"a b":"done"}]}"#.to_owned())
        }
        _ => json(StatusCode::ACCEPTED, format!(r#"{{"order":{ORDER}}}"#)),
    }
}

fn redirect(location: &'static str) -> Response {
    (StatusCode::SEE_OTHER, [("Location", location)]).into_response()
}

fn page(result: &str, text: &str) -> Response {
    let headers = [("content-type", "text/html; charset=utf-8"), ("x-result", result)];
    (headers, format!("<h1>{text}</h1>")).into_response()
}

/// Returns the requests that a buyer should have sent, without those that repeat.
pub(super) fn expected(phone: &str) -> Vec<String> {
    let name = match phone {
        "17" => ("a, \"b\" ü&c", "a%2C%20%22b%22%20%C3%BC%26c"),
        "late" => ("x", "x"),
        "broken" => ("y", "y"),
        "empty" => ("z", "z"),
        "forever" => ("w", "w"),
        "page" => ("a", "a"),
        "other" => ("b", "b"),
        "long" => ("c", "c"),
        "away" => ("d", "d"),
        "turned" => ("e", "e"),
        "nowhere" => ("f", "f"),
        _ => ("v", "v"),
    };
    let form = format!(
        "--BORDER\r\nContent-Disposition: form-data; name=\"note\"\r\n\r\nfor {}\r\n--BORDER\r\nContent-Disposition: form-data; \
         name=\"memo\"; filename=\"memo.txt\"\r\nContent-Type: text/plain\r\n\r\ns-{phone}\r\n--BORDER--",
        name.0
    );
    let mut expected = vec![
        format!("POST /login {KEY} application/x-www-form-urlencoded phone={phone}"),
        format!("POST /cart {KEY} multipart/form-data BORDER {form}"),
        format!(
            "POST /buy/t-{phone}?name={}  application/json {{\"id\":9007199254740993,\"phone\":\"{phone}\"}}",
            name.1
        ),
        "GET /wait".to_owned(),
        format!("GET /orders/{ORDER}"),
    ];
    expected.truncate(match phone {
        "17" | "forever" => 5,
        "busy" | "away" | "turned" | "nowhere" => 2,
        _ => 3,
    });
    expected
}
