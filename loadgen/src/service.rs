//! The service's HTTP interface, apart from the purchases themselves: strategies, stock, metrics, readiness.

use std::time::Duration;

use reqwest::{Client, RequestBuilder, Response, StatusCode};
use serde::{Deserialize, Serialize};

use crate::error::Error;
use crate::herd::Counters;
use crate::strategies::Strategy;

/// Administrative requests are small and wait for nothing; longer than this, something is wrong.
const ANSWER_WITHIN: Duration = Duration::from_secs(30);
/// How much of an unexpected answer goes into an error.
const BODY_SHOWN_CHARS: usize = 200;

/// Every instance of the service, and the token that opens its administrative routes.
#[derive(Debug, Clone)]
pub(crate) struct Service {
    client: Client,
    urls: Vec<String>,
    admin_token: String,
}

/// Stock of a SKU, as `GET /goods/{goods_no}` tells it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
pub(crate) struct Goods {
    pub(crate) sale: i64,
    pub(crate) stock_initial: i64,
    pub(crate) on_hand: i64,
}

#[derive(Deserialize)]
struct StrategyList {
    strategies: Vec<Strategy>,
}

#[derive(Serialize)]
struct Reset {
    stock: u32,
}

impl Service {
    /// The service at these base URLs, of which there is at least one.
    ///
    /// # Errors
    ///
    /// [`Error::Generator`] when no HTTP client can be made.
    pub(crate) fn new(urls: Vec<String>, admin_token: String) -> Result<Service, Error> {
        let client = Client::builder()
            .no_proxy()
            .timeout(ANSWER_WITHIN)
            .build()
            .map_err(|error| Error::Generator(format!("no HTTP client: {error}")))?;
        Ok(Service { client, urls, admin_token })
    }

    /// Base URLs of the instances.
    pub(crate) fn urls(&self) -> &[String] {
        &self.urls
    }

    /// The strategies that the first instance lists.
    ///
    /// # Errors
    ///
    /// [`Error::Service`] when there is no or no such answer.
    ///
    /// # Cancel safety
    ///
    /// Cancelling loses nothing.
    pub(crate) async fn strategies(&self) -> Result<Vec<Strategy>, Error> {
        let url = format!("{}/strategies", self.first());
        let list: StrategyList = json("GET", &url, self.client.get(&url)).await?;
        Ok(list.strategies)
    }

    /// Opens a new sale of the SKU with this many units, and makes sure that every instance sees it.
    ///
    /// # Errors
    ///
    /// [`Error::Service`] when a request fails, [`Error::Reset`] when the stock is not as asked for.
    ///
    /// # Cancel safety
    ///
    /// The sale may be open all the same.
    pub(crate) async fn reset(&self, goods_no: i64, stock: u32) -> Result<Goods, Error> {
        let url = format!("{}/admin/goods/{goods_no}", self.first());
        let request = self.client.put(&url).bearer_auth(&self.admin_token).json(&Reset { stock });
        let opened: Goods = json("PUT", &url, request).await?;
        let asked = i64::from(stock);
        if (opened.stock_initial, opened.on_hand) != (asked, asked) {
            return Err(Error::Reset(format!(
                "asked for {asked} units of SKU {goods_no}, but the service has {opened:?}"
            )));
        }
        for instance in &self.urls {
            let url = format!("{instance}/goods/{goods_no}");
            let seen: Goods = json("GET", &url, self.client.get(&url)).await?;
            if seen != opened {
                let advice = "all instances must share one database, and nobody else may sell this SKU meanwhile";
                return Err(Error::Reset(format!(
                    "{instance} sees {seen:?} right after a reset to {opened:?}; {advice}"
                )));
            }
        }
        Ok(opened)
    }

    /// The metrics of all instances, added up.
    ///
    /// # Errors
    ///
    /// [`Error::Service`] when an instance does not answer.
    ///
    /// # Cancel safety
    ///
    /// Cancelling loses nothing.
    pub(crate) async fn metrics(&self) -> Result<Counters, Error> {
        let mut all = Vec::with_capacity(self.urls.len());
        for instance in &self.urls {
            let url = format!("{instance}/metrics");
            let response = answer("GET", &url, self.client.get(&url)).await?;
            let text = response.text().await.map_err(failed("GET", &url, "broke off"))?;
            all.push(Counters::from_prometheus(&text));
        }
        Ok(Counters::sum(all))
    }

    /// Whether an instance says that it can serve.
    ///
    /// # Cancel safety
    ///
    /// Cancelling loses nothing.
    pub(crate) async fn is_ready(&self, instance: &str) -> bool {
        let request = self.client.get(format!("{instance}/readyz"));
        request.send().await.is_ok_and(|response| response.status() == StatusCode::OK)
    }

    fn first(&self) -> &str {
        self.urls.first().map_or("", String::as_str)
    }
}

async fn json<T: for<'de> Deserialize<'de>>(
    method: &'static str,
    url: &str,
    request: RequestBuilder,
) -> Result<T, Error> {
    let response = answer(method, url, request).await?;
    response.json().await.map_err(failed(method, url, "gave an answer that cannot be read"))
}

/// The answer, if it is a 200.
async fn answer(method: &'static str, url: &str, request: RequestBuilder) -> Result<Response, Error> {
    let response = request.send().await.map_err(failed(method, url, "had no answer"))?;
    let status = response.status();
    if status == StatusCode::OK {
        return Ok(response);
    }
    let body: String = response.text().await.unwrap_or_default().chars().take(BODY_SHOWN_CHARS).collect();
    let what = format!("answered {status} {body}").trim_end().to_owned();
    Err(Error::Service { method, url: url.to_owned(), what, source: None })
}

fn failed(method: &'static str, url: &str, what: &str) -> impl FnOnce(reqwest::Error) -> Error {
    let (url, what) = (url.to_owned(), what.to_owned());
    // The error names the URL itself already.
    move |source| Error::Service { method, url, what, source: Some(source.without_url()) }
}
