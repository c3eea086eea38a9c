//! Buyers that wait in a queue.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use axum::Router;
use axum::extract::Path;
use axum::http::StatusCode;
use axum::response::IntoResponse;
use axum::routing::{get as on_get, post as on_post};

use super::shop::{buy_once, echo, get, post, script, serve, sold, steps};
use crate::script::{Doubt, Poll, Script, ShopOutcome};

const HOUR: Duration = Duration::from_secs(3600);

/// Returns a script whose buyers ask every millisecond.
fn asking(url: &str, order: &str, within: Duration) -> Script {
    let poll = Poll { steps: steps(vec![get(url)], &[]), every: Duration::from_millis(1), within };
    Script { outcome: Some(poll), ..script(vec![post("{{url}}/buy", "")], order) }
}

/// Answers "queued" to a purchase, and to the first questions for its outcome.
fn queue(ticket: &'static str, questions: u32, then: (StatusCode, &'static str)) -> Router {
    let asked = Arc::new(AtomicU32::new(0));
    let outcome = async move |Path(_): Path<String>| match asked.fetch_add(1, Ordering::SeqCst) {
        number if number < questions => (StatusCode::ACCEPTED, "{\"id\":\"waiting\"}").into_response(),
        _ => then.into_response(),
    };
    let buy = on_post(async move || (StatusCode::ACCEPTED, ticket));
    Router::new().route("/buy", buy).route("/orders/{order}", on_get(outcome))
}

#[tokio::test]
async fn a_queued_buyer_asks_until_it_is_told() {
    let url = serve(queue("{\"id\":17}", 2, (StatusCode::OK, "{\"id\":18}"))).await;
    let decision = buy_once(&asking("{{url}}/orders/{{order}}", "$.id", HOUR), &url).await;
    assert_eq!(decision.outcome, sold("17"));
    assert_eq!((decision.status, decision.requests), (Some(200), 4));
}

#[tokio::test]
async fn the_outcome_tells_the_order_if_the_queue_did_not() {
    let url = serve(queue("{}", 1, (StatusCode::OK, "{\"id\":18}"))).await;
    let decision = buy_once(&asking("{{url}}/orders/{{number}}", "$.id", HOUR), &url).await;
    assert_eq!(decision.outcome, sold("18"));
}

#[tokio::test]
async fn a_queued_buyer_may_be_told_that_nothing_is_left() {
    let url = serve(queue("{}", 1, (StatusCode::GONE, ""))).await;
    let decision = buy_once(&asking("{{url}}/orders/x", "$.id", HOUR), &url).await;
    assert_eq!((decision.outcome, decision.status), (ShopOutcome::SoldOut, Some(410)));
}

#[tokio::test]
async fn a_buyer_that_stays_queued_gives_up_in_time() {
    let url = serve(queue("{}", u32::MAX, (StatusCode::OK, ""))).await;
    let within = Duration::from_millis(50);
    let decision = buy_once(&asking("{{url}}/orders/x", "$.id", within), &url).await;
    let doubt = Doubt::StillQueued { within };
    assert_eq!(doubt.to_string(), "still queued after 50ms, the time of [outcome] within");
    assert!(doubt.is_timeout());
    assert_eq!(decision.outcome, ShopOutcome::Unknown(doubt));
}

#[tokio::test]
async fn a_question_that_hangs_ends_with_the_time_of_the_queue() {
    let hang = on_get(async || std::future::pending::<StatusCode>().await);
    let buy = on_post(async || StatusCode::ACCEPTED);
    let url = serve(Router::new().route("/buy", buy).route("/orders", hang)).await;
    let within = Duration::from_millis(50);
    let decision = buy_once(&asking("{{url}}/orders", "$.id", within), &url).await;
    assert_eq!(decision.outcome, ShopOutcome::Unknown(Doubt::StillQueued { within }));
}

#[tokio::test]
async fn an_outcome_that_no_meaning_names_is_unknown() {
    let url = serve(queue("{}", 0, (StatusCode::NOT_FOUND, ""))).await;
    let decision = buy_once(&asking("{{url}}/orders/x", "$.id", HOUR), &url).await;
    assert_eq!(decision.outcome, ShopOutcome::Unknown(Doubt::Unnamed { status: 404, location: None, is_cut: false }));
}

#[tokio::test]
async fn a_queue_without_a_question_is_unknown() {
    let url = serve(queue("{}", 0, (StatusCode::OK, "")).fallback(echo)).await;
    let decision = buy_once(&script(vec![post("{{url}}/buy", "")], "$.id"), &url).await;
    assert_eq!(decision.outcome, ShopOutcome::Unknown(Doubt::NoPoll));
}
