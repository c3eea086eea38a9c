//! `loadgen capacity` at a shop whose capacity is known.

use std::fs;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use axum::extract::State;
use axum::http::StatusCode;
use axum::routing::post;
use axum::{Json, Router};
use serde_json::{Value, json};
use tokio::net::TcpListener;

use crate::support::{Finished, TestFolder, finish};

/// Purchases a second that the shop serves.
const SERVED_PER_S: f64 = 100.0;
/// Purchases that the shop serves at once after a pause. They are those of half a second, so a busy machine takes none away.
const AT_ONCE: f64 = 50.0;

/// A shop that refuses what comes faster than it serves: a bucket of tokens.
struct LimitedShop {
    /// Tokens, and when they were counted.
    tokens: Mutex<(f64, Instant)>,
    served_per_s: f64,
}

impl LimitedShop {
    /// Starts the shop, and writes its file.
    async fn start(folder: &TestFolder, served_per_s: f64) {
        let shop = LimitedShop { tokens: Mutex::new((AT_ONCE, Instant::now())), served_per_s };
        let routes = Router::new().route("/buy", post(buy)).route("/reset", post(reset)).with_state(Arc::new(shop));
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        tokio::spawn(async move { axum::serve(listener, routes).await });
        let text = format!(
            "[shop]\nname = \"limited\"\nurls = [\"http://{address}\"]\nstock = 100000\n[sale]\nrequests = [\"curl -X POST \
             {{{{url}}}}/reset\"]\n[buy]\nrequests = [\"curl -X POST {{{{url}}}}/buy\"]\nsold = [{{ status = 201 }}]\n"
        );
        fs::write(folder.path("shop.toml"), text).unwrap();
    }
}

/// Fills the bucket, so that all trials begin alike.
async fn reset(State(shop): State<Arc<LimitedShop>>) -> StatusCode {
    *shop.tokens.lock().unwrap() = (AT_ONCE, Instant::now());
    StatusCode::NO_CONTENT
}

async fn buy(State(shop): State<Arc<LimitedShop>>) -> (StatusCode, Json<Value>) {
    let mut tokens = shop.tokens.lock().unwrap();
    let earned = tokens.1.elapsed().as_secs_f64() * shop.served_per_s;
    *tokens = ((tokens.0 + earned).min(AT_ONCE), Instant::now());
    if tokens.0 < 1.0 {
        return (StatusCode::SERVICE_UNAVAILABLE, Json(json!({})));
    }
    tokens.0 -= 1.0;
    (StatusCode::CREATED, Json(json!({})))
}

fn search(folder: &TestFolder, args: &[&str]) -> Finished {
    let common = ["capacity", "shop.toml", "--arrivals", "constant", "--length", "1s", "--users", "50"];
    finish(&mut folder.loadgen(common.iter().chain(args)))
}

fn found(folder: &TestFolder) -> Value {
    let text = fs::read_to_string(folder.path("report/capacity.json")).unwrap();
    serde_json::from_str(&text).unwrap()
}

// C45
#[tokio::test(flavor = "multi_thread")]
async fn the_capacity_of_a_shop_lies_within_its_interval() {
    let folder = TestFolder::new();
    LimitedShop::start(&folder, SERVED_PER_S).await;
    let finished = search(&folder, &["--until", "errors<10%", "--margin", "20%", "--lowest", "20"]);
    let report = found(&folder);
    let found = &report["results"][0]["rules"][0]["capacity"];
    let bound = |name: &str| found[name].as_f64().unwrap_or(f64::INFINITY);
    // A trial of a second serves what it has at once and what it earns, and may refuse a tenth.
    let truth = (AT_ONCE + SERVED_PER_S * Duration::from_secs(1).as_secs_f64()) / 0.9;
    assert_eq!((finished.code, &found["end"]), (Some(0), &json!("bounded")), "{}{}", finished.stdout, finished.stderr);
    assert!(bound("low") <= truth && truth <= bound("high"), "{truth}: {found}");
    assert!(bound("high") <= 1.5 * bound("low") + 1e-6, "{found}");
    let text = fs::read_to_string(folder.path("report/capacity.md")).unwrap();
    assert!(text.contains("- errors<10% is held at ") && text.contains("| per second | s | due |"), "{text}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_search_says_where_its_range_ends() {
    let folder = TestFolder::new();
    LimitedShop::start(&folder, SERVED_PER_S).await;
    let above = search(&folder, &["--until", "errors<10%", "--lowest", "10", "--highest", "20", "--margin", "30%"]);
    assert_eq!(above.code, Some(0), "{}{}", above.stdout, above.stderr);
    assert!(
        above.stdout.contains("errors<10% is held at the highest rate that was tried, 20.0 a second"),
        "{}",
        above.stdout
    );
    let none = search(&folder, &["--until", "errors<10%", "--lowest", "400", "--highest", "500", "--margin", "30%"]);
    assert_eq!(none.code, Some(1), "{}{}", none.stdout, none.stderr);
    assert!(none.stdout.contains("errors<10%: no rate holds, not even the lowest, 400 a second"), "{}", none.stdout);
}

#[test]
fn a_search_that_cannot_begin_says_why() {
    let folder = TestFolder::new();
    for (args, expected) in [
        (&["--until", "oversold==0"][..], "a rate is searched by p50, p90, p95, p99, p999 or errors"),
        (&["--until", "p99<10s"], "p99<10s with this margin needs trials of at least "),
        (&["--until", "p99<1ms", "--lowest", "9", "--highest", "9"], "no rate lies between 9 and 9 per second"),
        (&["--until", "p99<1ms", "--stock", "9"], "unexpected argument '--stock'"),
        (&["--until", "p99<1ms", "--instances", "9"], "cannot be used with"),
        (&["--until", "p99<1ms"], "the shop shop.toml cannot be read"),
    ] {
        search(&folder, args).assert_error(64, expected);
    }
}
