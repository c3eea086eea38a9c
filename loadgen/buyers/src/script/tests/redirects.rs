//! Redirects, which the buyer follows by itself.

use axum::Router;
use axum::extract::Path;
use axum::http::StatusCode;
use axum::http::header::LOCATION;
use axum::routing::any;

use super::shop::{buy_once, buyer, client, echo, get, pattern, post, script, serve, sold, steps, with_header};
use crate::script::{Doubt, Pattern, Script, ScriptRequest, ShopOutcome};

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
    let headers = vec![(LOCATION, "/target".to_owned())];
    script.meanings.sold = vec![Pattern { headers, ..pattern(&[303], &[]) }];
    let decision = buy_once(&script, &url).await;
    assert_eq!((decision.outcome, decision.requests), (sold("../target?a=b"), 1));
    // Without that pattern, the buyer tells where it was sent.
    script.meanings.sold.clear();
    let ShopOutcome::Unknown(doubt) = buy_once(&script, &url).await.outcome else { panic!("no pattern matches") };
    let expected = "answered 303 to /target, which no pattern of sold, sold-out, over-limit, refused or queued matches";
    assert_eq!(doubt.to_string(), expected);
}

/// A purchase whose first request is answered by this status, and is not followed.
fn after_a_form(status: u16) -> Script {
    script(vec![post(&format!("{{{{url}}}}/by/{status}"), "b=0"), get("{{url}}/target")], "$.uri")
}

#[tokio::test]
async fn a_form_that_redirects_was_taken() {
    let url = serve(redirecting()).await;
    for status in [302, 303] {
        let decision = buy_once(&after_a_form(status), &url).await;
        assert_eq!((decision.outcome, decision.requests), (sold("/target"), 2), "{status}");
    }
    for status in [301, 307, 308] {
        let interrupted = Doubt::Interrupted { origin: "shop.toml:12".to_owned(), status };
        let decision = buy_once(&after_a_form(status), &url).await;
        assert_eq!((decision.outcome, decision.requests), (ShopOutcome::Unknown(interrupted), 1), "{status}");
    }
    let mut ended = after_a_form(302);
    ended.meanings.sold_out = vec![Pattern { headers: vec![(LOCATION, "/target".to_owned())], ..Pattern::default() }];
    assert_eq!(buy_once(&ended, &url).await.outcome, ShopOutcome::SoldOut, "a pattern comes first");
}

#[tokio::test]
async fn a_login_may_redirect_and_an_errand_may_not() {
    let url = serve(redirecting()).await;
    let login = |status: u16| steps(vec![get(&format!("{{{{url}}}}/by/{status}"))], &[]);
    let mut after_login = script(vec![get("{{url}}/target")], "$.headers.cookie");
    after_login.sign_up = login(302);
    assert_eq!(buy_once(&after_login, &url).await.outcome, sold("seen=yes"));
    let refused = buyer(0, &url).errand("[sale]", &login(302), &mut client(), None).await.unwrap_err();
    assert_eq!(refused.to_string(), "shop.toml:12: answered 302, and [sale] needs 2xx");
    after_login.sign_up = login(301);
    let refused = buyer(0, &url).sign_up(&after_login, &mut client(), None).await.unwrap_err().cause;
    assert_eq!(refused, Doubt::NotSignedUp { origin: "shop.toml:12".to_owned(), status: 301 });
}

#[tokio::test]
async fn a_form_that_leads_elsewhere_or_nowhere_is_refused() {
    let away = any(async || (StatusCode::FOUND, [("location", "http://shop.invalid/")]));
    let nowhere = any(async || StatusCode::FOUND);
    let url = serve(Router::new().route("/away", away).route("/nowhere", nowhere)).await;
    let outcome = async |path: &str| {
        let form = script(vec![get(&format!("{{{{url}}}}{path}")), get("{{url}}/none")], "$.id");
        buy_once(&form, &url).await.outcome
    };
    let to = "http://shop.invalid".to_owned();
    let elsewhere = Doubt::Elsewhere { origin: "shop.toml:12".to_owned(), from: url.clone(), to };
    assert_eq!(outcome("/away").await, ShopOutcome::Unknown(elsewhere));
    let interrupted = Doubt::Interrupted { origin: "shop.toml:12".to_owned(), status: 302 };
    assert_eq!(outcome("/nowhere").await, ShopOutcome::Unknown(interrupted));
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
