//! Scenarios of goose, run by goose at a small shop.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use axum::Router;
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse, Response};
use axum::routing::post;
use goose::goose::{GooseUser, Scenario, Transaction, TransactionResult};
use goose::transaction;
use reqwest::{Client, Url};
use tokio::net::TcpListener;

use super::*;
use crate::Error;
use crate::load::{Load, LoadResult, Purchase};
use crate::model::LoadModel;
use crate::sample::ByOutcome;

const USERS: usize = 6;
const STOCK: usize = 4;
/// No test takes as long: a buyer that does not come is found without a wait.
const NEVER: Duration = Duration::from_secs(600);

/// A shop that sells to buyers with a cookie of its login.
#[derive(Debug, Default)]
struct CookieShop {
    sold: AtomicUsize,
    /// The paths of the requests, in their order.
    asked: Mutex<Vec<&'static str>>,
}

async fn log_in_at(State(shop): State<Arc<CookieShop>>, buyer: String) -> Response {
    shop.asked.lock().unwrap().push("/login");
    if buyer == "17" {
        return StatusCode::FORBIDDEN.into_response();
    }
    [("set-cookie", format!("buyer={buyer}"))].into_response()
}

async fn buy_at(State(shop): State<Arc<CookieShop>>, headers: HeaderMap) -> Response {
    shop.asked.lock().unwrap().push("/buy");
    let cookie = headers.get("cookie").and_then(|cookie| cookie.to_str().ok());
    let Some(buyer) = cookie.and_then(|cookie| cookie.strip_prefix("buyer=")) else {
        return StatusCode::UNAUTHORIZED.into_response();
    };
    match shop.sold.fetch_add(1, Ordering::SeqCst) {
        sold if sold < STOCK => (StatusCode::CREATED, format!("order of {buyer}")).into_response(),
        _ => StatusCode::CONFLICT.into_response(),
    }
}

/// Starts the shop below a path, and returns it with its address.
async fn start() -> (Arc<CookieShop>, Url) {
    let shop = Arc::new(CookieShop::default());
    let routes = Router::new().route("/shop/login", post(log_in_at)).route("/shop/buy", post(buy_at));
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/shop", listener.local_addr().unwrap());
    let routes = routes.with_state(Arc::clone(&shop));
    tokio::spawn(async move { axum::serve(listener, routes).await });
    (shop, Url::parse(&url).unwrap())
}

async fn log_in(user: &mut GooseUser) -> TransactionResult {
    user.post("login", user.weighted_users_index.to_string()).await?.response?.error_for_status()?;
    Ok(())
}

async fn buy(user: &mut GooseUser) -> TransactionResult {
    let purchase = rendezvous().await;
    let answer = user.post("buy", "").await?.response?;
    match answer.status() {
        StatusCode::CREATED => purchase.sold(Some(answer.text().await?)),
        StatusCode::CONFLICT => purchase.sold_out(),
        other => purchase.refused(other.to_string()),
    }
    Ok(())
}

fn scenario(transactions: impl IntoIterator<Item = Transaction>) -> Scenario {
    transactions.into_iter().fold(Scenario::new("test"), Scenario::register_transaction)
}

fn load(scenario: Scenario, url: Url, users: usize, model: LoadModel) -> Load {
    let client = || Client::builder().no_proxy().cookie_store(true).build().unwrap();
    let clients = (0..users).map(|_| client()).collect();
    Load {
        purchase: Purchase::Scenario(ScenarioPurchase { scenario, urls: vec![url], clients }),
        users,
        model,
        seed: 1,
        answer_within: NEVER,
        arrive_within: NEVER,
        goose_report: None,
        log_max: 100,
    }
}

/// Lets the users buy in a burst at a new shop.
async fn burst(users: usize, transactions: impl IntoIterator<Item = Transaction>) -> Result<LoadResult, Error> {
    let (_, url) = start().await;
    crate::run(load(scenario(transactions), url, users, LoadModel::BURST)).await
}

/// Returns the error that ends a burst.
async fn failure(users: usize, transactions: impl IntoIterator<Item = Transaction>) -> String {
    burst(users, transactions).await.unwrap_err().to_string()
}

/// Expects that all purchases of a burst are errors for this reason.
async fn assert_problem(transactions: impl IntoIterator<Item = Transaction>, expected: &str) {
    let tally = burst(USERS, transactions).await.unwrap().tally;
    assert_eq!(tally.answers(), ByOutcome { error: USERS as u64, ..ByOutcome::default() });
    assert_eq!(tally.problems, [expected]);
}

// C47
#[tokio::test(flavor = "multi_thread")]
async fn all_users_of_a_scenario_log_in_before_one_buys() {
    let (shop, url) = start().await;
    let scenario = scenario([transaction!(log_in).set_on_start(), transaction!(buy)]);
    // A scenario may have pauses, which no user of a rendezvous makes.
    let scenario = scenario.set_wait_time(NEVER, NEVER).unwrap();
    let tally = crate::run(load(scenario, url, USERS, LoadModel::BURST)).await.unwrap().tally;
    let answers = tally.answers();
    assert_eq!((answers.sold, answers.sold_out, answers.total()), (4, 2, 6));
    let asked = shop.asked.lock().unwrap().clone();
    assert_eq!(asked, [["/login"; USERS], ["/buy"; USERS]].concat());
    for receipt in &tally.told[0].sold_to {
        assert_eq!(receipt.order.as_deref(), Some(format!("order of {}", receipt.buyer)).as_deref());
    }
    assert!(tally.samples.iter().all(|sample| sample.started < sample.ended), "{:?}", tally.samples);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_users_of_a_ramp_log_in_first_and_keep_their_starts() {
    let (shop, url) = start().await;
    let scenario = scenario([transaction!(log_in), transaction!(buy)]);
    let ramp = LoadModel::Ramp { ramp_up_ms: 100, requests_per_buyer: 1 };
    let tally = crate::run(load(scenario, url, USERS, ramp)).await.unwrap().tally;
    let mut intended: Vec<u128> = tally.samples.iter().map(|sample| sample.intended.as_millis()).collect();
    intended.sort_unstable();
    assert_eq!(intended, [0, 20, 40, 60, 80, 100]);
    assert!(tally.samples.iter().all(|sample| sample.started >= sample.intended), "{:?}", tally.samples);
    assert_eq!(shop.asked.lock().unwrap()[..USERS], ["/login"; USERS]);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_buyer_whose_transaction_fails_is_named() {
    let transactions = [transaction!(log_in).set_name("log in").set_on_start(), transaction!(buy)];
    let expected = "buyer 17 did not come to the rendezvous: its transaction \"log in\" failed: HTTP status client error (403 \
                    Forbidden); correct the scenario, or look at the shop";
    assert_eq!(failure(18, transactions).await, expected);
}

// C47
#[tokio::test(flavor = "multi_thread")]
async fn a_scenario_without_the_rendezvous_ends_at_once() {
    async fn some_come(user: &mut GooseUser) -> TransactionResult {
        if user.weighted_users_index != 3 { buy(user).await } else { Ok(()) }
    }
    async fn in_a_task(_: &mut GooseUser) -> TransactionResult {
        tokio::spawn(async { rendezvous().await.sold(None) }).await.unwrap();
        Ok(())
    }
    let expected =
        "ended the scenario without the rendezvous; call rendezvous() in the transaction that buys, and in no task";
    for transactions in [transaction!(log_in), transaction!(some_come), transaction!(in_a_task)] {
        let found = failure(USERS, [transactions]).await;
        assert!(found.contains(expected), "{found}");
    }
    let none: [Transaction; 0] = [];
    assert!(failure(USERS, none).await.contains(expected));
}

// C47
#[tokio::test(flavor = "multi_thread")]
async fn a_purchase_without_a_word_is_an_error_with_its_cause() {
    async fn silent(_: &mut GooseUser) -> TransactionResult {
        let _purchase = rendezvous().await;
        Ok(())
    }
    async fn forgetful(_: &mut GooseUser) -> TransactionResult {
        std::mem::forget(rendezvous().await);
        Ok(())
    }
    async fn fails(user: &mut GooseUser) -> TransactionResult {
        let purchase = rendezvous().await;
        user.post("buy?token=secret", "").await?.response?.error_for_status()?;
        purchase.sold(None);
        Ok(())
    }
    let expected = "the scenario did not say what the buyer was told";
    assert_problem([transaction!(silent)], expected).await;
    assert_problem([transaction!(forgetful)], expected).await;
    let expected = "transaction 1 failed: HTTP status client error (401 Unauthorized)";
    assert_problem([transaction!(fails)], expected).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_purchase_may_end_in_a_later_transaction() {
    #[derive(Clone)]
    struct Kept(Arc<Mutex<Option<BegunPurchase>>>);
    async fn begins(user: &mut GooseUser) -> TransactionResult {
        user.set_session_data(Kept(Arc::new(Mutex::new(Some(rendezvous().await)))));
        Ok(())
    }
    async fn ends(user: &mut GooseUser) -> TransactionResult {
        let kept = user.get_session_data_unchecked::<Kept>();
        kept.0.lock().unwrap().take().unwrap().refused("closed");
        Ok(())
    }
    let tally = burst(USERS, [transaction!(begins), transaction!(ends)]).await.unwrap().tally;
    assert_eq!(tally.answers(), ByOutcome { refused: USERS as u64, ..ByOutcome::default() });
    assert_eq!(tally.problems, ["refused: closed"]);
    // Nobody takes it, so the session drops it with its user.
    let tally = burst(USERS, [transaction!(begins)]).await.unwrap().tally;
    assert_eq!(tally.answers().error, USERS as u64);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_purchase_that_takes_too_long_is_a_timeout() {
    async fn hangs(_: &mut GooseUser) -> TransactionResult {
        let _purchase = rendezvous().await;
        std::future::pending().await
    }
    let (_, url) = start().await;
    let load = load(scenario([transaction!(hangs)]), url, USERS, LoadModel::BURST);
    let tally = crate::run(Load { answer_within: Duration::from_millis(50), ..load }).await.unwrap().tally;
    assert_eq!(tally.answers(), ByOutcome { timeout: USERS as u64, ..ByOutcome::default() });
    assert_eq!(tally.problems, ["the buyer was told nothing within 50ms"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_scenario_that_breaks_the_rules_is_told_the_rule() {
    async fn panics(_: &mut GooseUser) -> TransactionResult {
        panic!("planted")
    }
    let twice = [transaction!(buy), transaction!(buy)];
    let found = failure(USERS, twice).await;
    assert!(
        found.contains("came to the rendezvous again, and a scenario buys once; call rendezvous() in one"),
        "{found}"
    );
    let found = failure(1, [transaction!(panics).set_name("oops")]).await;
    assert_eq!(found, "buyer 0: transaction \"oops\" panicked; let it return an error");
    let (_, url) = start().await;
    let endless = LoadModel::Loop { duration_ms: 100, ramp_up_ms: 0 };
    let found = crate::run(load(scenario([transaction!(buy)]), url, USERS, endless)).await.unwrap_err();
    assert_eq!(found.to_string(), "a scenario buys once; let its users come in a burst or a ramp");
}

#[tokio::test]
async fn outside_of_a_check_nobody_waits() {
    rendezvous().await.sold(None);
    rendezvous().await.sold_out();
    rendezvous().await.refused("closed");
    drop(rendezvous().await);
}
