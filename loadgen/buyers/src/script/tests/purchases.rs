//! Sign-up, purchase, and what is unknown.

use std::time::Duration;

use axum::Router;
use axum::extract::Query;
use axum::http::{HeaderMap, StatusCode};
use axum::response::IntoResponse;
use axum::routing::{any, get as on_get, post as on_post};
use goose::config::GooseConfiguration;
use goose::goose::GooseUser;
use reqwest::Method;
use serde_json::json;
use tokio::net::TcpListener;

use super::shop::{
    buy_once, buyer, client, echo, get, pattern, post, request, script, serve, sold, steps, with_header,
};
use crate::script::{Doubt, MissingValue, ShopOutcome};

type Numbers = Query<std::collections::BTreeMap<String, String>>;

#[tokio::test]
async fn a_buyer_keeps_its_cookies_and_no_other_has_them() {
    let login = async |query: Numbers| [("set-cookie", format!("session=of-{}; Path=/; HttpOnly", query["phone"]))];
    let url = serve(Router::new().route("/login", on_get(login)).route("/buy", any(echo))).await;
    let mut script = script(vec![get("{{url}}/buy")], "$.headers.cookie");
    script.sign_up = steps(vec![get("{{url}}/login?phone={{number}}")], &[]);
    let mut client = client();
    let mut buyers = [buyer(0, &url), buyer(1, &url), buyer(2, &url)];
    for buyer in &mut buyers[..2] {
        buyer.sign_up(&script, &mut client, None).await.unwrap();
    }
    let expected = [sold("session=of-0"), sold("session=of-1"), ShopOutcome::Sold { order: None }];
    for (buyer, expected) in buyers.iter_mut().zip(expected) {
        assert_eq!(buyer.purchase(&script, &mut client, None).await.outcome, expected);
    }
}

#[tokio::test]
async fn values_are_taken_from_json_headers_and_cookies() {
    let login = async || ([("x-token", "h"), ("set-cookie", "c=k; Path=/none")], "{\"data\":{\"token\":\"j\"}}");
    let url = serve(Router::new().route("/login", on_post(login)).route("/buy", any(echo))).await;
    let buy = with_header(get("{{url}}/buy"), "authorization", "{{json}}-{{header}}-{{cookie}}");
    let mut script = script(vec![buy], "$.headers.authorization");
    let take = [("json", "$.data.token"), ("header", "header:X-Token"), ("cookie", "cookie:c")];
    script.sign_up = steps(vec![post("{{url}}/login", "phone={{number}}")], &take);
    assert_eq!(buy_once(&script, &url).await.outcome, sold("j-h-k"));
}

#[tokio::test]
async fn a_buyer_that_cannot_sign_up_is_named() {
    let url = serve(Router::new().route("/login", on_get(async || StatusCode::UNAUTHORIZED))).await;
    let mut script = script(Vec::new(), "$.id");
    script.sign_up = steps(vec![get("{{url}}/login")], &[]);
    let refused = buyer(17, &url).sign_up(&script, &mut client(), None).await.unwrap_err();
    let expected = "buyer 17 could not sign up: shop.toml:12: answered 401, and a sign-up needs 2xx, or a redirect by 302 or 303; \
                    --dry-run shows the requests and answers of one buyer";
    assert_eq!(refused.to_string(), expected);
}

#[tokio::test]
async fn a_sign_up_without_its_value_is_refused() {
    let url = serve(Router::new().route("/login", any(echo))).await;
    let mut script = script(Vec::new(), "$.id");
    script.sign_up = steps(vec![get("{{url}}/login")], &[("token", "$.data.token")]);
    let refused = buyer(0, &url).sign_up(&script, &mut client(), None).await.unwrap_err();
    assert_eq!(refused.cause.to_string(), "no answer has `token`, which is taken from $.data.token");
}

#[tokio::test]
async fn a_200_that_says_no_success_is_sold_out() {
    let url =
        serve(Router::new().route("/buy", on_post(async || "{\"success\":false,\"errorMsg\":\"库存不足\"}"))).await;
    let mut script = script(vec![post("{{url}}/buy", "")], "$.data");
    script.meanings.sold = vec![pattern(&[200], &[("$.success", json!(true))])];
    script.meanings.sold_out = vec![pattern(&[], &[("$.errorMsg", json!("库存不足"))])];
    let decision = buy_once(&script, &url).await;
    assert_eq!(decision.outcome, ShopOutcome::SoldOut);
    assert_eq!((decision.status, decision.requests), (Some(200), 1));
    assert!(decision.first_byte.unwrap() <= decision.ended);
}

#[tokio::test]
async fn an_answer_that_no_meaning_names_is_unknown() {
    let url = serve(Router::new().route("/buy", on_get(async || StatusCode::IM_A_TEAPOT))).await;
    let decision = buy_once(&script(vec![get("{{url}}/buy")], "$.id"), &url).await;
    let ShopOutcome::Unknown(doubt) = decision.outcome else { panic!("{decision:?}") };
    assert_eq!(
        doubt.to_string(),
        "answered 418, which no pattern of sold, sold-out, over-limit, refused or queued matches"
    );
    assert_eq!(decision.status, Some(418));
}

#[tokio::test]
async fn a_refusal_is_no_doubt() {
    let url = serve(Router::new().route("/buy", on_get(async || StatusCode::SERVICE_UNAVAILABLE))).await;
    let decision = buy_once(&script(vec![get("{{url}}/buy")], "$.id"), &url).await;
    assert_eq!((decision.outcome, decision.status), (ShopOutcome::Refused, Some(503)));
}

#[tokio::test]
async fn a_later_request_has_values_of_an_earlier_one() {
    let cart = async |query: Numbers| format!("{{\"cart\":{}}}", query["number"]);
    let url = serve(Router::new().route("/cart", on_get(cart)).route("/pay/{cart}", any(echo))).await;
    let mut script = script(Vec::new(), "$.uri");
    let requests = vec![get("{{url}}/cart?number=4{{number}}"), get("{{url}}/pay/{{cart}}")];
    script.buy = steps(requests, &[("cart", "$.cart")]);
    let decision = buy_once(&script, &url).await;
    assert_eq!((decision.outcome, decision.requests), (sold("/pay/40"), 2));
}

#[tokio::test]
async fn an_earlier_answer_ends_the_purchase_or_is_a_success() {
    let answer = async |query: Numbers| StatusCode::from_u16(query["status"].parse().unwrap()).unwrap();
    let url = serve(Router::new().route("/cart", on_get(answer)).route("/pay", any(echo))).await;
    let cart = |status: u16| vec![get(&format!("{{{{url}}}}/cart?status={status}")), get("{{url}}/pay")];
    let interrupted = Doubt::Interrupted { origin: "shop.toml:12".to_owned(), status: 500 };
    for (status, outcome, requests) in [
        (202, sold("/pay"), 2),
        (409, ShopOutcome::SoldOut, 1),
        (503, ShopOutcome::Refused, 1),
        (500, ShopOutcome::Unknown(interrupted), 1),
    ] {
        let decision = buy_once(&script(cart(status), "$.uri"), &url).await;
        assert_eq!((decision.outcome, decision.requests), (outcome, requests), "{status}");
    }
}

#[tokio::test]
async fn a_missing_value_is_named_and_nothing_is_sent() {
    let decision = buy_once(&script(vec![get("{{url}}/{{sku}}")], "$.id"), "http://127.0.0.1:1").await;
    let missing = MissingValue { name: "sku".to_owned() };
    let doubt = Doubt::Missing { origin: "shop.toml:12".to_owned(), missing };
    assert_eq!((decision.outcome, decision.requests), (ShopOutcome::Unknown(doubt), 0));
}

#[tokio::test]
async fn an_answer_that_does_not_come_in_time_is_a_timeout() {
    let hang = async || std::future::pending::<StatusCode>().await;
    let url = serve(Router::new().route("/buy", on_get(hang))).await;
    let mut buy = get("{{url}}/buy");
    buy.within = Some(Duration::from_millis(20));
    let decision = buy_once(&script(vec![buy], "$.id"), &url).await;
    assert_eq!(decision.outcome, ShopOutcome::Unknown(Doubt::Timeout));
    assert_eq!((decision.status, decision.first_byte), (None, None));
    assert!(Doubt::Timeout.is_timeout());
}

#[tokio::test]
async fn a_connection_that_ends_is_no_answer() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    tokio::spawn(async move {
        while let Ok((connection, _)) = listener.accept().await {
            drop(connection);
        }
    });
    let decision = buy_once(&script(vec![get("{{url}}/buy?secret")], "$.id"), &url).await;
    let ShopOutcome::Unknown(doubt @ Doubt::NoAnswer { .. }) = decision.outcome else { panic!("{decision:?}") };
    assert!(!doubt.is_timeout() && !doubt.to_string().contains("secret"), "{doubt}");
}

#[tokio::test]
async fn a_long_answer_is_counted_whole_and_not_read_as_json() {
    let long = async || format!("\"{}\"", "a".repeat(2 << 20)).into_response();
    let url = serve(Router::new().route("/buy", on_get(long))).await;
    let mut script = script(vec![get("{{url}}/buy")], "$");
    script.meanings.sold = vec![pattern(&[], &[("$", json!("a"))])];
    let decision = buy_once(&script, &url).await;
    let expected = ShopOutcome::Unknown(Doubt::Unnamed { status: 200, location: None, is_cut: true });
    assert_eq!(decision.outcome, expected);
    assert!(decision.received_bytes > 2 << 20, "{}", decision.received_bytes);
}

#[tokio::test]
async fn every_header_is_sent_as_often_as_it_stands_there() {
    let count = async |headers: HeaderMap| format!("{}", headers.get_all("x-a").iter().count());
    let url = serve(Router::new().route("/buy", on_get(count))).await;
    let buy = with_header(with_header(get("{{url}}/buy"), "x-a", "1"), "x-a", "2");
    assert_eq!(buy_once(&script(vec![buy], "$"), &url).await.outcome, sold("2"));
}

#[tokio::test]
async fn goose_sends_the_requests_of_a_buyer() {
    let url = serve(Router::new().route("/buy", any(echo))).await;
    let mut configuration = GooseConfiguration::default();
    configuration.no_metrics = true;
    let mut user = GooseUser::single(url.parse().unwrap(), &configuration).unwrap();
    user.client = client();
    // Goose itself knows no OPTIONS.
    for method in [Method::POST, Method::OPTIONS] {
        let script = script(vec![request(method.clone(), "{{url}}/buy")], "$.method");
        let decision = buyer(0, &url).purchase(&script, &mut user, None).await;
        assert_eq!(decision.outcome, sold(method.as_str()));
    }
}

#[tokio::test]
async fn a_purchase_may_run_as_a_task_of_its_own() {
    let url = serve(Router::new().route("/buy/{number}", any(echo))).await;
    let script = std::sync::Arc::new(script(vec![get("{{url}}/buy/{{number}}")], "$.uri"));
    let client = client();
    let tasks = (0..9).map(|number| {
        let script = std::sync::Arc::clone(&script);
        let mut buyer = buyer(number, &url);
        let mut client = client.clone();
        async move { buyer.purchase(&script, &mut client, None).await.outcome }
    });
    let outcomes = tokio::task::JoinSet::from_iter(tasks).join_all().await;
    assert!((0..9).all(|number| outcomes.contains(&sold(&format!("/buy/{number}")))), "{outcomes:?}");
}

#[tokio::test]
async fn a_second_purchase_knows_no_order_of_the_first() {
    let url = serve(Router::new().route("/buy", any(echo))).await;
    let mut buyer = buyer(0, &url);
    let first = script(vec![get("{{url}}/buy")], "$.uri");
    assert_eq!(buyer.purchase(&first, &mut client(), None).await.outcome, sold("/buy"));
    let second = script(vec![get("{{url}}/buy")], "$.none");
    let decision = buyer.purchase(&second, &mut client(), None).await;
    assert_eq!(decision.outcome, ShopOutcome::Sold { order: None });
    assert_eq!(buyer.values().get("order"), None);
}
