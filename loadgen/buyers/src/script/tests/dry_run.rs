//! What an observer is shown.

use std::collections::BTreeSet;
use std::sync::Arc;

use axum::Router;
use axum::http::StatusCode;
use axum::routing::{any, get as on_get};
use reqwest::Method;

use super::shop::{client, echo, get, post, request, script, serve, steps, template, with_header};
use crate::script::{Body, Customer, Doubt, Exchange, FormPart, Script, ScriptRequest, ShopOutcome, Values};

/// Lets a buyer sign up and buy, and returns its exchanges. Its value `secret` is secret.
async fn observed(script: &Script, url: &str, secret: &str) -> (Vec<Exchange>, ShopOutcome) {
    let values = [("url", url), ("secret", secret)].map(|(name, value)| (name.to_owned(), value.to_owned()));
    let secrets = Arc::new(BTreeSet::from(["secret".to_owned(), "token".to_owned()]));
    let mut buyer = Customer::new(3, Values::from(values)).with_secrets(secrets);
    let mut exchanges = Vec::new();
    let mut observer = |exchange: &Exchange| exchanges.push(exchange.clone());
    let mut client = client();
    buyer.sign_up(script, &mut client, Some(&mut observer)).await.unwrap();
    let decision = buyer.purchase(script, &mut client, Some(&mut observer)).await;
    (exchanges, decision.outcome)
}

#[tokio::test]
async fn every_exchange_is_shown_with_how_it_was_read() {
    let login = on_get(async || (StatusCode::FOUND, [("location", "/done"), ("set-cookie", "a=1; Path=/")]));
    let done = on_get(async || "{\"phone\":\"p\"}");
    let buy = any(async || (StatusCode::CREATED, [("x-order", "9")], "made"));
    let url = serve(Router::new().route("/login", login).route("/done", done).route("/buy", buy)).await;
    let buy = with_header(post("{{url}}/buy?n={{number}}", "phone={{phone}}"), "x-a", "{{number}}");
    let mut script = script(vec![buy], "header:x-order");
    let login = ScriptRequest { follows: true, ..get("{{url}}/login") };
    script.sign_up = steps(vec![login], &[("phone", "$.phone")]);
    let (exchanges, _) = observed(&script, &url, "none").await;
    let readings: Vec<_> = exchanges.iter().map(|exchange| exchange.reading.clone()).collect();
    assert_eq!(
        readings,
        [format!("redirected to {url}/done"), "a success, so the buyer goes on".to_owned(), "sold".to_owned()]
    );
    assert_eq!(exchanges[1].taken, Values::from([("phone".to_owned(), "p".to_owned())]));
    let Exchange { origin, request, answer, .. } = &exchanges[2];
    assert_eq!(
        (origin.as_str(), &request.method, &request.body),
        ("shop.toml:12", &Method::POST, &"phone=p".to_owned())
    );
    assert_eq!(request.url, format!("{url}/buy?n=3"));
    let has = |headers: &[(String, String)], name: &str, value: &str| {
        headers.iter().any(|header| *header == (name.to_owned(), value.to_owned()))
    };
    assert!(has(&request.headers, "x-a", "3") && has(&request.headers, "cookie", "a=1"), "{request:?}");
    let answer = answer.as_ref().unwrap();
    assert_eq!((answer.status, answer.body.as_str()), (201, "made"));
    assert!(has(&answer.headers, "x-order", "9"), "{answer:?}");
}

#[tokio::test]
async fn a_secret_is_nowhere_in_an_exchange() {
    let login = on_get(async || "{\"token\":\"t0k\\\"en\"}");
    let url = serve(Router::new().route("/login", login).fallback(echo)).await;
    let body = "{\"s\":\"{{secret}}\",\"t\":\"{{token}}\"}";
    let buy = with_header(post("{{url}}/{{secret}}?t={{token}}", body), "x-a", "Bearer {{secret}}");
    let mut script = script(vec![buy], "$.none");
    script.sign_up = steps(vec![get("{{url}}/login")], &[("token", "$.token")]);
    let (exchanges, outcome) = observed(&script, &url, "hunter/2").await;
    assert_eq!((outcome, exchanges.len()), (ShopOutcome::Sold { order: None }, 2));
    let shown = format!("{exchanges:?}");
    assert!(!shown.contains("hunter") && !shown.contains("t0k"), "{shown}");
    assert_eq!(exchanges[1].request.url, format!("{url}/…?t=…"));
    assert!(exchanges[1].request.headers.contains(&("x-a".to_owned(), "Bearer …".to_owned())));
    assert_eq!(exchanges[0].taken["token"], "…");
}

#[tokio::test]
async fn a_password_in_a_url_is_hidden() {
    let url = serve(Router::new().fallback(echo)).await;
    let with_password = url.replace("http://", "http://me:hunter@");
    let (exchanges, _) = observed(&script(vec![get("{{url}}/")], "$.none"), &with_password, "none").await;
    assert_eq!(exchanges[0].request.url, format!("{url}/"));
    assert_eq!(exchanges[0].request.headers, [("authorization".to_owned(), "…".to_owned())]);
}

#[tokio::test]
async fn a_secret_is_nowhere_in_a_problem() {
    let url = serve(Router::new().fallback(echo)).await;
    let (exchanges, outcome) = observed(&script(vec![get("{{secret}}/buy")], "$.none"), &url, "hunter2").await;
    let ShopOutcome::Unknown(doubt @ Doubt::Url { .. }) = outcome else { panic!("{outcome:?}") };
    assert_eq!(doubt.to_string(), "shop.toml:12: `…/buy` is no URL: relative URL without a base");
    assert!(exchanges.is_empty(), "nothing was sent");
}

#[tokio::test]
async fn a_request_without_an_answer_is_shown() {
    let url = "http://127.0.0.1:0";
    let (exchanges, outcome) = observed(&script(vec![get("{{url}}/buy")], "$.none"), url, "none").await;
    let ShopOutcome::Unknown(doubt) = outcome else { panic!("{outcome:?}") };
    assert_eq!(exchanges.len(), 1);
    assert_eq!((&exchanges[0].answer, &exchanges[0].reading), (&None, &doubt.to_string()));
}

#[tokio::test]
async fn a_form_is_shown_part_by_part() {
    let url = serve(Router::new().fallback(echo)).await;
    let mime = Some("text/csv".to_owned());
    let file = FormPart { name: "a".to_owned(), value: template("1"), file_name: Some("a.csv".to_owned()), mime };
    let text = FormPart { name: "b".to_owned(), value: template("{{secret}}"), file_name: None, mime: None };
    let form = ScriptRequest { body: Body::Form(vec![file, text]), ..request(Method::POST, "{{url}}/") };
    let (exchanges, _) = observed(&script(vec![form], "$.none"), &url, "hunter2").await;
    assert_eq!(exchanges[0].request.body, "a=1;filename=a.csv;type=text/csv\nb=…");
}

#[tokio::test]
async fn a_long_body_is_shown_in_part() {
    let url = serve(Router::new().route("/buy", on_get(async || "é".repeat(20_000)))).await;
    let (exchanges, _) = observed(&script(vec![get("{{url}}/buy")], "$.none"), &url, "none").await;
    assert_eq!(exchanges[0].answer.as_ref().unwrap().body, "é".repeat(16 * 1024));
}
