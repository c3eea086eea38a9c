//! What is done once for all buyers: the stock is put on sale, and the books are read.

use std::collections::BTreeMap;
use std::process::Stdio;
use std::sync::Arc;
use std::time::Duration;

use buyers::script::{Customer, Doubt, Observer, ScriptRequest, Source, Steps};
use reqwest::redirect::{Attempt, Policy};
use reqwest::{Certificate, Client, ClientBuilder, Url};
use tokio::process::Command as Process;

use super::address::address;
use super::described::{ANSWER_WITHIN, PageNumber, ShellCommand, Shop, Statements, Task};
use crate::error::Error;

/// The longest time for a command.
const COMMAND_WITHIN: Duration = Duration::from_secs(120);
/// How much of the output of a failed command is shown.
const OUTPUT_SHOWN_CHARS: usize = 2000;

/// The most redirects that a user of a scenario follows for one request.
const REDIRECTS_MAX: usize = 10;

/// The name under which a number of a page is taken.
const NUMBER_ON_PAGE: &str = "number on the page";

/// Makes a client for a shop. It follows no redirect and keeps no cookie: the buyers do.
///
/// # Errors
///
/// The certificate of the shop file cannot be read.
pub(crate) fn client(shop: &Shop) -> Result<Client, Error> {
    built(builder(shop)?.redirect(Policy::none()))
}

/// Makes a client for one user of a scenario. It keeps the user's cookies. It follows redirects to the addresses of the shop, and
/// refuses others.
///
/// # Errors
///
/// The certificate of the shop file cannot be read.
pub(crate) fn client_of_user(shop: &Shop) -> Result<Client, Error> {
    let own = shop.urls.clone();
    let within = Policy::custom(move |attempt| follow(attempt, &own));
    built(builder(shop)?.cookie_store(true).redirect(within))
}

fn follow(attempt: Attempt<'_>, own: &[Url]) -> reqwest::redirect::Action {
    if attempt.previous().len() > REDIRECTS_MAX {
        return attempt.error(format!("redirected more than {REDIRECTS_MAX} times"));
    }
    if own.iter().any(|own| own.origin() == attempt.url().origin()) {
        return attempt.follow();
    }
    let to = address(attempt.url());
    attempt.error(format!("redirected to {to}, and requests go only to the addresses of the file"))
}

fn built(builder: ClientBuilder) -> Result<Client, Error> {
    builder.build().map_err(|error| Error::Generator(format!("could not build the HTTP client: {error}")))
}

fn builder(shop: &Shop) -> Result<ClientBuilder, Error> {
    let mut builder = Client::builder().no_proxy().timeout(ANSWER_WITHIN);
    if !shop.is_encrypted() {
        // A machine without certificates, such as a small container, can make no other client.
        builder = builder.tls_certs_only([]);
    } else if let Some(pem) = &shop.certificate {
        let certificates = Certificate::from_pem_bundle(pem).map_err(|error| {
            let what = program::chain(&error.without_url());
            Error::Usage(format!("the certificate of [shop] cannot be read: {what}; name a file of PEM"))
        })?;
        builder = builder.tls_certs_merge(certificates);
    }
    Ok(builder)
}

/// Does what a part of a shop file says, such as `[sale]`.
///
/// # Errors
///
/// [`Error::Shop`] when an answer is no success or a command fails, and errors of the database.
pub(crate) async fn carry_out(
    task: &Task,
    part: &str,
    shop: &Shop,
    client: &Client,
    observer: Observer<'_>,
) -> Result<(), Error> {
    match task {
        Task::Requests(requests) => {
            let steps = Steps { requests: requests.clone(), take: BTreeMap::new() };
            let mut customer = of_all(shop);
            let sent = customer.errand(part, &steps, &mut client.clone(), observer).await;
            sent.map_err(|cause| failure(part, &cause))
        }
        Task::Command(command) => run(command, part).await,
        Task::Sql(Statements { url, statements }) => url.run(statements).await,
    }
}

/// Reads a number on a page of the shop.
///
/// # Errors
///
/// [`Error::Shop`] when the page does not answer, or has no whole number there.
pub(super) async fn number_on(
    page: &PageNumber,
    shop: &Shop,
    client: &Client,
    observer: Observer<'_>,
) -> Result<i64, Error> {
    let PageNumber { request, source } = page;
    let take = BTreeMap::from([(NUMBER_ON_PAGE.to_owned(), source.clone())]);
    let mut customer = of_all(shop);
    let steps = Steps { requests: vec![request.clone()], take };
    let asked = customer.errand("[books]", &steps, &mut client.clone(), observer).await;
    asked.map_err(|cause| match &cause {
        Doubt::NothingTaken { from, .. } => {
            Error::Shop(format!("{}: the answer has nothing at {from}; name where the number is", request.origin))
        }
        cause => failure("[books]", cause),
    })?;
    let text = customer.values().get(NUMBER_ON_PAGE).map_or("", String::as_str);
    text.trim().parse().map_err(|_| no_number(request, source, text))
}

fn no_number(request: &ScriptRequest, source: &Source, text: &str) -> Error {
    Error::Shop(format!(
        "{}: the answer has {text:?} at {source}, and the books need a whole number; name the number in the answer",
        request.origin
    ))
}

/// Makes the buyer that stands for all: it has no line of the CSV.
fn of_all(shop: &Shop) -> Customer {
    Customer::new(0, shop.values()).with_secrets(Arc::new(shop.secrets.names().clone()))
}

fn failure(part: &str, cause: &Doubt) -> Error {
    Error::Shop(match cause {
        Doubt::NoSuccess { .. } => format!("{cause}; correct the request, or add --location for a redirect"),
        Doubt::NoAnswer { .. } | Doubt::Timeout => format!("{part} failed: {cause}; is the shop running?"),
        other => format!("{part} failed: {other}"),
    })
}

/// Runs a command in a shell. Its output is shown only if it fails.
async fn run(command: &ShellCommand, part: &str) -> Result<(), Error> {
    let mut process = Process::new("sh");
    process.arg("-c").arg(&command.text).stdin(Stdio::null()).kill_on_drop(true);
    if !command.folder.as_os_str().is_empty() {
        process.current_dir(&command.folder);
    }
    let within = COMMAND_WITHIN.as_secs();
    let ended = tokio::time::timeout(COMMAND_WITHIN, process.output()).await;
    let ended =
        ended.map_err(|_| Error::Shop(format!("the command of {part} did not end within {within} s; shorten it")))?;
    let output = ended.map_err(|error| Error::Shop(format!("the command of {part} did not start: {error}")))?;
    if output.status.success() {
        return Ok(());
    }
    let text = [output.stdout, output.stderr].concat();
    let text = String::from_utf8_lossy(&text);
    let skipped = text.chars().count().saturating_sub(OUTPUT_SHOWN_CHARS);
    let shown: String = text.chars().skip(skipped).collect();
    Err(Error::Shop(format!(
        "the command of {part} failed ({}); its output ends with:\n{}",
        output.status,
        shown.trim_end()
    )))
}

#[cfg(test)]
mod tests {
    use axum::Router;
    use axum::http::{HeaderMap, StatusCode};
    use axum::routing::get;
    use tokio::net::TcpListener;

    use super::*;
    use crate::shop::keys::ShopText;
    use crate::shop::read::parse;

    /// Makes the client of a user at a shop that redirects from `/in` to itself, and from `/out` to another host.
    async fn user() -> (Client, String) {
        let routes = Router::new()
            .route("/in", get(|| async { (StatusCode::FOUND, [("location", "/cart"), ("set-cookie", "id=7")]) }))
            .route("/cart", get(|headers: HeaderMap| async move { headers["cookie"].to_str().unwrap().to_owned() }))
            .route("/out", get(|| async { (StatusCode::FOUND, [("location", "http://shop.invalid/?token=a")]) }))
            .route("/round", get(|| async { (StatusCode::FOUND, [("location", "/round")]) }));
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        tokio::spawn(async move { axum::serve(listener, routes).await });
        let text = format!(
            "[shop]\nname = \"a\"\nurls = [\"{url}\"]\nstock = 1\n[sale]\ncommand = \"true\"\n[buy]\nrequests = [\"curl \
             {url}\"]\nsold = [{{ status = 200 }}]\n"
        );
        let shop = parse(ShopText { name: "shop.toml", text: &text }, &|_| None).unwrap();
        (client_of_user(&shop).unwrap(), url)
    }

    #[tokio::test]
    async fn a_user_is_redirected_within_the_shop_alone() {
        let (client, url) = user().await;
        let cart = client.get(format!("{url}/in")).send().await.unwrap();
        assert_eq!(cart.text().await.unwrap(), "id=7");
        for (path, expected) in [
            ("/out", "redirected to http://shop.invalid, and requests go only to the addresses of the file"),
            ("/round", "redirected more than 10 times"),
        ] {
            let refused = client.get(format!("{url}{path}")).send().await.unwrap_err();
            let refused = program::chain(&refused);
            assert!(refused.ends_with(expected), "{refused}");
        }
    }
}
