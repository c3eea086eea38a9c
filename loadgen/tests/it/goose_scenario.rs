//! The example `goose_scenario`: a scenario of goose in the place of the buyers of a shop file.

use std::fs;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

use axum::extract::State;
use axum::http::StatusCode;
use axum::routing::post;
use axum::{Json, Router};
use nix::sys::signal::Signal;
use serde_json::{Value, json};
use tokio::net::TcpListener;

use crate::shops::{STOCK, start_on_sqlite};
use crate::support::{Finished, PATIENCE, Running, TestFolder, eventually, finish, goose_scenario};

/// A shop that answers the requests of the example at once.
#[derive(Debug, Default)]
struct PromptShop {
    stock: AtomicI64,
    /// The buyer that cannot log in.
    stranger: Option<&'static str>,
    /// Whether purchases never end.
    hangs: bool,
}

impl PromptShop {
    /// Starts the shop, and writes its file without the parts that the scenario replaces.
    async fn start(self, folder: &TestFolder, name: &str, rest: &str) {
        let routes = Router::new()
            .route("/reset", post(reset))
            .route("/user/login", post(log_in))
            .route("/voucher-order/seckill/1", post(buy))
            .with_state(Arc::new(self));
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        tokio::spawn(async move { axum::serve(listener, routes).await });
        let text = format!(
            "[shop]\nname = \"{name}\"\nurls = [\"{url}\"]\nstock = {STOCK}\n[sale]\nrequests = [\"curl -X POST \
             {{{{url}}}}/reset\"]\n{rest}"
        );
        fs::write(folder.path(&format!("{name}.toml")), text).unwrap();
    }
}

async fn reset(State(shop): State<Arc<PromptShop>>) {
    shop.stock.store(i64::try_from(STOCK).unwrap(), Ordering::SeqCst);
}

async fn log_in(State(shop): State<Arc<PromptShop>>, body: String) -> Result<Json<Value>, StatusCode> {
    let is_stranger = shop.stranger.is_some_and(|stranger| body == format!("phone={stranger}"));
    if is_stranger { Err(StatusCode::FORBIDDEN) } else { Ok(Json(json!({ "data": body }))) }
}

async fn buy(State(shop): State<Arc<PromptShop>>) -> Json<Value> {
    if shop.hangs {
        std::future::pending::<()>().await;
    }
    Json(match shop.stock.fetch_sub(1, Ordering::SeqCst) {
        left if left > 0 => json!({ "data": { "orderId": left.to_string() } }),
        _ => json!({ "errorMsg": "库存不足" }),
    })
}

/// Runs the example with few buyers and one trial.
fn check(folder: &TestFolder, args: &[&str]) -> Finished {
    let few = ["--users", "30", "--trials", "1", "--no-warm-up"];
    finish(&mut folder.program(goose_scenario(), few.iter().chain(args)))
}

// C47
#[test]
fn a_scenario_at_a_right_shop_passes_by_its_books() {
    let folder = TestFolder::new();
    let shop = start_on_sqlite("course_shop.py", &folder, "");
    let text = shop.file("course_shop.toml", &[("stock = 100", "stock = 10")]);
    // The scenario replaces the tables from [buyers] to [outcome].
    let (before, buyers) = text.split_once("[buyers]").unwrap();
    let (_, books) = buyers.split_once("[books]").unwrap();
    let (books, _) = books.split_once("[books.sql]").unwrap();
    fs::write(folder.path("shop.toml"), format!("{before}[books]{books}")).unwrap();
    let finished = check(&folder, &["shop.toml"]);
    finished.assert_kept();
    assert!(finished.stdout.contains("sold exactly the 10 units"), "{}", finished.stdout);
    let trial = &folder.report()["trials"][0];
    assert_eq!((&trial["answers"]["sold"], &trial["answers"]["sold_out"]), (&json!(10), &json!(20)));
    assert_eq!((&trial["audit"]["sold"], &trial["evidence"]), (&json!(10), &json!("pages")));
    let log = fs::read_to_string(folder.path("report/results.jtl")).unwrap();
    assert_eq!((log.matches(",sold,").count(), log.matches(",sold_out,").count()), (10, 20), "{log}");
    assert!(!log.contains("SocketException"), "{log}");
}

// C47
#[test]
fn a_scenario_at_a_wrong_shop_fails_without_a_script() {
    let folder = TestFolder::new();
    let shop = start_on_sqlite("course_shop.py", &folder, "--wrong --meet");
    let text = shop.file("course_shop.toml", &[("stock = 100", "stock = 10")]);
    fs::write(folder.path("shop.toml"), text.split("[books.sql]").next().unwrap()).unwrap();
    let finished = check(&folder, &["shop.toml"]);
    assert_eq!(finished.code, Some(2), "{}{}", finished.stdout, finished.stderr);
    let name = "course on flash sales";
    for expected in [
        format!("verdict: promise broken by {name}, by the shop's own pages: "),
        format!("no reproduction of {name}: a scenario sends its requests, and no script of curl can\n"),
        format!("made at {name}: what the scenario \"course\" does before it buys and "),
    ] {
        assert!(finished.stdout.contains(&expected), "{expected}{}", finished.stdout);
    }
    assert!(!folder.path("report/reproduction").exists());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_scenario_buys_at_each_of_several_shops() {
    let folder = TestFolder::new();
    PromptShop::default().start(&folder, "old", "").await;
    PromptShop::default().start(&folder, "new", "").await;
    check(&folder, &["old.toml", "new.toml", "--ramp-up", "100ms"]).assert_kept();
    for trial in folder.report()["trials"].as_array().unwrap() {
        assert_eq!((&trial["answers"]["sold"], &trial["evidence"]), (&json!(10), &json!("answers")), "{trial:#}");
    }
}

// C47
#[tokio::test(flavor = "multi_thread")]
async fn the_buyer_whose_login_fails_is_named() {
    let folder = TestFolder::new();
    let shop = PromptShop { stranger: Some("17"), ..PromptShop::default() };
    shop.start(&folder, "shop", "").await;
    let expected = "error: buyer 17 did not come to the rendezvous: its transaction \"log in\" failed: HTTP status client error \
                    (403 Forbidden); correct the scenario, or look at the shop\n";
    check(&folder, &["shop.toml"]).assert_error(3, expected);
    assert!(!folder.path("report/report.json").exists());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_scenario_refuses_what_buys_again_and_again() {
    let folder = TestFolder::new();
    PromptShop::default().start(&folder, "shop", "").await;
    for (args, flag) in [(&["--rate", "9"][..], "--rate"), (&["--duration", "1s"], "--duration")] {
        let expected =
            format!("error: a scenario buys once, and {flag} needs buyers that buy again and again; give --users");
        check(&folder, &[&["shop.toml"], args].concat()).assert_error(64, &expected);
    }
    let expected = "error: the check would send at least 30 requests, and the most are 29";
    check(&folder, &["shop.toml", "--requests-max", "29"]).assert_error(64, expected);
}

#[tokio::test(flavor = "multi_thread")]
async fn ctrl_c_ends_a_scenario_and_cleans_up() {
    let folder = TestFolder::new();
    let shop = PromptShop { hangs: true, ..PromptShop::default() };
    shop.start(&folder, "shop", "[clean]\ncommand = \"echo cleaned >cleaned\"\n").await;
    let users = (STOCK + 1).to_string();
    let running = Running::start(&mut folder.program(goose_scenario(), ["shop.toml", "--users", &users]));
    eventually("a trial runs", PATIENCE, || folder.path("report/results.jtl").exists());
    running.signal(Signal::SIGINT);
    assert_eq!(running.wait().0.code(), Some(130));
    assert_eq!(fs::read_to_string(folder.path("cleaned")).unwrap(), "cleaned\n");
}
