//! Redirects, which the buyer follows by itself.

use axum::Router;
use axum::extract::Path;
use axum::http::StatusCode;
use axum::routing::any;

use super::shop::{buy_once, echo, get, pattern, post, script, serve, sold, with_header};
use crate::script::{Doubt, Script, ScriptRequest, ShopOutcome};

/// Redirects `/STATUS` to `/target`, with a cookie, and `/on/NUMBER` to the next number.
fn redirecting() -> Router {
    let redirect = async |Path(status): Path<u16>| {
        let status = StatusCode::from_u16(status).unwrap();
        (status, [("location", "../target?a=b"), ("set-cookie", "seen=yes; Path=/")])
    };
    let on = async |Path(number): Path<u32>| (StatusCode::FOUND, [("location", format!("/on/{}", number + 1))]);
    Router::new().route("/by/{status}", any(redirect)).route("/on/{number}", any(on)).route("/target", any(echo))
}

fn following(request: ScriptRequest, order: &str) -> Script {
    script(vec![ScriptRequest { follows: true, ..request }], order)
}

#[tokio::test]
async fn a_redirect_is_followed_with_the_cookies_of_the_way() {
    let url = serve(redirecting()).await;
    let decision = buy_once(&following(get("{{url}}/by/302"), "$.headers.cookie"), &url).await;
    assert_eq!((decision.outcome, decision.requests), (sold("seen=yes"), 2));
    let decision = buy_once(&following(get("{{url}}/by/302"), "$.uri"), &url).await;
    assert_eq!(decision.outcome, sold("/target?a=b"));
}

#[tokio::test]
async fn a_post_becomes_a_get_as_with_curl() {
    let url = serve(redirecting()).await;
    for (status, method, body, kind) in [
        (301, "GET", "", None),
        (302, "GET", "", None),
        (303, "GET", "", None),
        (307, "POST", "b=0", Some("text/x")),
        (308, "POST", "b=0", Some("text/x")),
    ] {
        let post = with_header(post(&format!("{{{{url}}}}/by/{status}"), "b={{number}}"), "content-type", "text/x");
        let outcome = async |order: &str| buy_once(&following(post.clone(), order), &url).await.outcome;
        assert_eq!(outcome("$.method").await, sold(method), "{status}");
        assert_eq!(outcome("$.body").await, sold(body), "{status}");
        let kind = ShopOutcome::Sold { order: kind.map(str::to_owned) };
        assert_eq!(outcome("$.headers['content-type']").await, kind, "{status}");
    }
}

#[tokio::test]
async fn a_redirect_that_is_not_followed_is_an_answer() {
    let url = serve(redirecting()).await;
    let mut script = script(vec![get("{{url}}/by/303")], "header:location");
    script.meanings.sold = vec![pattern(&[303], &[])];
    let decision = buy_once(&script, &url).await;
    assert_eq!((decision.outcome, decision.requests), (sold("../target?a=b"), 1));
}

#[tokio::test]
async fn a_redirect_to_another_host_is_refused() {
    let other = serve(Router::new().route("/", any(echo))).await;
    let location = format!("{other}/");
    let away = any(async move || (StatusCode::FOUND, [("location", location)]));
    let url = serve(Router::new().route("/buy", away)).await;
    let decision = buy_once(&following(get("{{url}}/buy"), "$.id"), &url).await;
    let doubt = Doubt::Elsewhere { origin: "shop.toml:12".to_owned(), from: url.clone(), to: other.clone() };
    let expected =
        format!("shop.toml:12: {url} redirects to {other}, and requests go only to the addresses of the file");
    assert_eq!(doubt.to_string(), expected);
    assert_eq!((decision.outcome, decision.requests), (ShopOutcome::Unknown(doubt), 1));
}

#[tokio::test]
async fn a_redirect_to_no_web_page_is_refused() {
    let away = any(async || (StatusCode::FOUND, [("location", "mailto:a@b")]));
    let broken = any(async || (StatusCode::FOUND, [("location", "http://[")]));
    let url = serve(Router::new().route("/away", away).route("/broken", broken)).await;
    let origin = "shop.toml:12".to_owned();
    let decision = buy_once(&following(get("{{url}}/away"), "$.id"), &url).await;
    let elsewhere = Doubt::Elsewhere { origin: origin.clone(), from: url.clone(), to: "mailto:".to_owned() };
    assert_eq!(decision.outcome, ShopOutcome::Unknown(elsewhere));
    let decision = buy_once(&following(get("{{url}}/broken"), "$.id"), &url).await;
    let location = Doubt::Location { origin, location: "http://[".to_owned() };
    assert_eq!(decision.outcome, ShopOutcome::Unknown(location));
}

#[tokio::test]
async fn redirects_that_do_not_end_are_given_up() {
    let url = serve(redirecting()).await;
    let decision = buy_once(&following(get("{{url}}/on/0"), "$.id"), &url).await;
    let doubt = Doubt::Redirects { origin: "shop.toml:12".to_owned(), most: 10 };
    assert_eq!((decision.outcome, decision.requests), (ShopOutcome::Unknown(doubt), 11));
}
