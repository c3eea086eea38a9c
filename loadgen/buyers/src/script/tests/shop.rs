//! A shop on a free port of this machine, and scripts for it.

use std::collections::BTreeMap;

use axum::body::to_bytes;
use axum::extract::Request;
use axum::response::IntoResponse;
use axum::{Json, Router};
use reqwest::redirect::Policy;
use reqwest::{Client, Method};
use serde_json::{Value, json};
use tokio::net::TcpListener;

use crate::script::{
    Body, Customer, Decision, JsonPath, Meanings, Pattern, Script, ScriptRequest, ShopOutcome, Source, Steps, Template,
    Values,
};

/// Serves a shop until the test ends, and returns its URL.
pub(super) async fn serve(router: Router) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move { axum::serve(listener, router).await });
    format!("http://{address}")
}

/// Answers with what it was asked.
pub(super) async fn echo(request: Request) -> impl IntoResponse {
    let (parts, body) = request.into_parts();
    let body = to_bytes(body, usize::MAX).await.unwrap();
    let headers = parts.headers.iter().map(|(name, value)| (name.as_str(), value.to_str().unwrap()));
    Json(json!({
        "method": parts.method.as_str(),
        "uri": parts.uri.to_string(),
        "headers": headers.collect::<BTreeMap<_, _>>(),
        "body": String::from_utf8_lossy(&body),
    }))
}

/// Makes the client that all buyers share.
pub(super) fn client() -> Client {
    Client::builder().no_proxy().redirect(Policy::none()).build().unwrap()
}

pub(super) fn template(text: &str) -> Template {
    Template::parse(text).unwrap()
}

pub(super) fn request(method: Method, url: &str) -> ScriptRequest {
    ScriptRequest {
        origin: "shop.toml:12".to_owned(),
        method,
        url: template(url),
        headers: Vec::new(),
        body: Body::Empty,
        follows: false,
        within: None,
    }
}

pub(super) fn get(url: &str) -> ScriptRequest {
    request(Method::GET, url)
}

pub(super) fn post(url: &str, body: &str) -> ScriptRequest {
    ScriptRequest { body: Body::Text(template(body)), ..request(Method::POST, url) }
}

pub(super) fn with_header(mut request: ScriptRequest, name: &'static str, value: &str) -> ScriptRequest {
    request.headers.push((name.parse().unwrap(), template(value)));
    request
}

pub(super) fn steps(requests: Vec<ScriptRequest>, take: &[(&str, &str)]) -> Steps {
    let take = take.iter().map(|(name, source)| ((*name).to_owned(), Source::parse(source).unwrap()));
    Steps { requests, take: take.collect() }
}

pub(super) fn pattern(statuses: &[u16], values: &[(&str, Value)]) -> Pattern {
    let values = values.iter().map(|(path, value)| (JsonPath::parse(path).unwrap(), value.clone()));
    Pattern { statuses: statuses.to_vec(), values: values.collect(), ..Pattern::default() }
}

/// Returns a script that reads answers by their status, and the number of the order at a source.
pub(super) fn script(buy: Vec<ScriptRequest>, order: &str) -> Script {
    let meanings = Meanings {
        sold: vec![pattern(&[200, 201], &[])],
        sold_out: vec![pattern(&[409, 410], &[])],
        over_limit: Vec::new(),
        refused: vec![pattern(&[429, 503], &[])],
        queued: vec![pattern(&[202], &[])],
    };
    let order = Some(Source::parse(order).unwrap());
    Script { sign_up: Steps::default(), buy: steps(buy, &[]), outcome: None, meanings, order }
}

/// Makes the buyer with this number at the shop with this URL.
pub(super) fn buyer(number: usize, url: &str) -> Customer {
    Customer::new(number, Values::from([("url".to_owned(), url.to_owned())]))
}

/// Lets a new buyer sign up and buy once.
pub(super) async fn buy_once(script: &Script, url: &str) -> Decision {
    let mut buyer = buyer(0, url);
    let mut client = client();
    buyer.sign_up(script, &mut client, None).await.unwrap();
    buyer.purchase(script, &mut client, None).await
}

pub(super) fn sold(order: &str) -> ShopOutcome {
    ShopOutcome::Sold { order: Some(order.to_owned()) }
}
