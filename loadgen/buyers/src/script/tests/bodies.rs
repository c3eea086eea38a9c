//! URLs, headers, cookies and bodies, as a server gets them.

use axum::Router;
use axum::http::StatusCode;
use axum::routing::get as on_get;
use reqwest::Method;

use super::shop::{
    buy_once, buyer, client, echo, get, post, request, script, serve, sold, steps, template, with_header,
};
use crate::script::{Body, Customer, Doubt, FormPart, ScriptRequest, ShopOutcome, Values};

/// Lets a buyer with a value `v` buy once at a server that answers with what it was asked.
async fn asked_with(value: &str, request: ScriptRequest, order: &str) -> ShopOutcome {
    let url = serve(Router::new().fallback(echo)).await;
    let values = [("url", url.as_str()), ("v", value)].map(|(name, value)| (name.to_owned(), value.to_owned()));
    let mut buyer = Customer::new(0, Values::from(values));
    buyer.purchase(&script(vec![request], order), &mut client(), None).await.outcome
}

#[tokio::test]
async fn a_value_is_encoded_in_a_url_and_nowhere_else() {
    let request = post("{{url}}/a/{{v}}?b={{v}}", "{\"v\":\"{{v}}\"}");
    let request = with_header(request, "x-v", "{{v}}");
    let value = "a/b &=%?#";
    let encoded = "a%2Fb%20%26%3D%25%3F%23";
    let uri = format!("/a/{encoded}?b={encoded}");
    assert_eq!(asked_with(value, request.clone(), "$.uri").await, sold(&uri));
    assert_eq!(asked_with(value, request.clone(), "$.body").await, sold("{\"v\":\"a/b &=%?#\"}"));
    assert_eq!(asked_with(value, request, "$.headers['x-v']").await, sold(value));
}

#[tokio::test]
async fn a_text_is_sent_with_the_type_of_its_header() {
    let request = with_header(post("{{url}}/", "phone={{v}}"), "content-type", "application/x-www-form-urlencoded");
    assert_eq!(asked_with("1", request.clone(), "$.body").await, sold("phone=1"));
    let kind = "$.headers['content-type']";
    assert_eq!(asked_with("1", request, kind).await, sold("application/x-www-form-urlencoded"));
}

#[tokio::test]
async fn a_form_is_sent_in_its_parts() {
    let part = |name: &str, file_name: Option<&str>, mime: Option<&str>| FormPart {
        name: name.to_owned(),
        value: template("<{{v}}>"),
        file_name: file_name.map(str::to_owned),
        mime: mime.map(str::to_owned),
    };
    let parts = vec![part("a", None, None), part("b", Some("b.csv"), Some("text/csv"))];
    let form = ScriptRequest { body: Body::Form(parts), ..request(Method::POST, "{{url}}/") };
    let form = with_header(form, "content-type", "multipart/form-data");
    let ShopOutcome::Sold { order: Some(body) } = asked_with("ü", form.clone(), "$.body").await else { panic!() };
    let border = body.lines().next().unwrap().trim_start_matches("--");
    let expected = format!(
        "--{border}\r\nContent-Disposition: form-data; name=\"a\"\r\n\r\n<ü>\r\n\
         --{border}\r\nContent-Disposition: form-data; name=\"b\"; filename=\"b.csv\"\r\nContent-Type: text/csv\r\n\r\n\
         <ü>\r\n--{border}--\r\n"
    );
    assert_eq!(body, expected);
    let ShopOutcome::Sold { order: Some(kind) } = asked_with("", form, "$.headers['content-type']").await else {
        panic!()
    };
    assert!(kind.starts_with("multipart/form-data; boundary="), "{kind}");
}

#[tokio::test]
async fn a_part_of_no_media_type_is_refused() {
    let part = FormPart { name: "a".to_owned(), value: template(""), file_name: None, mime: Some("text".to_owned()) };
    let form = ScriptRequest { body: Body::Form(vec![part]), ..request(Method::POST, "{{url}}/") };
    let doubt = Doubt::MediaType { origin: "shop.toml:12".to_owned(), name: "a".to_owned() };
    assert_eq!(asked_with("", form, "$.body").await, ShopOutcome::Unknown(doubt));
}

#[tokio::test]
async fn a_header_with_a_line_break_is_refused() {
    let request = with_header(get("{{url}}/"), "x-v", "{{v}}");
    let doubt = Doubt::Header { origin: "shop.toml:12".to_owned(), name: "x-v".to_owned() };
    assert_eq!(asked_with("a\r\nx-w: b", request, "$.uri").await, ShopOutcome::Unknown(doubt));
}

#[tokio::test]
async fn a_url_that_is_none_is_refused() {
    let outcome = asked_with("nowhere", get("{{v}}/buy"), "$.uri").await;
    let ShopOutcome::Unknown(doubt) = outcome else { panic!("{outcome:?}") };
    assert_eq!(doubt.to_string(), "shop.toml:12: `nowhere/buy` is no URL: relative URL without a base");
}

#[tokio::test]
async fn a_cookie_of_the_shop_replaces_one_of_the_script() {
    let login = on_get(async || (StatusCode::OK, [("set-cookie", "session=new; Path=/")]));
    let url = serve(Router::new().route("/login", login).fallback(echo)).await;
    let buy = with_header(get("{{url}}/buy"), "cookie", "a=1; session=old");
    let mut script = script(vec![buy], "$.headers.cookie");
    assert_eq!(buy_once(&script, &url).await.outcome, sold("a=1; session=old"));
    script.sign_up = steps(vec![get("{{url}}/login")], &[]);
    assert_eq!(buy_once(&script, &url).await.outcome, sold("a=1; session=new"));
}

#[tokio::test]
async fn a_cookie_goes_only_where_the_shop_says() {
    let login = on_get(async || (StatusCode::OK, [("set-cookie", "a=1; Path=/cart")]));
    let url = serve(Router::new().route("/login", login).fallback(echo)).await;
    let mut buyer = buyer(0, &url);
    let mut client = client();
    let mut in_cart = script(vec![get("{{url}}/cart/1")], "$.headers.cookie");
    in_cart.sign_up = steps(vec![get("{{url}}/login")], &[]);
    buyer.sign_up(&in_cart, &mut client, None).await.unwrap();
    assert_eq!(buyer.purchase(&in_cart, &mut client, None).await.outcome, sold("a=1"));
    let elsewhere = script(vec![get("{{url}}/pay")], "$.headers.cookie");
    let decision = buyer.purchase(&elsewhere, &mut client, None).await;
    assert_eq!(decision.outcome, ShopOutcome::Sold { order: None });
}
