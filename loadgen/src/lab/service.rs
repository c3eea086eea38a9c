//! The service's HTTP interface, apart from the purchases themselves: strategies, stock, metrics, readiness.

use std::time::Duration;

use reqwest::{Client, RequestBuilder, Response, StatusCode};
use serde::{Deserialize, Serialize};
use testbed::Counters;

use crate::error::Error;
use crate::lab::cpu::ProcessCpu;
use crate::lab::strategy::{Strategy, StrategyList};

/// Administrative requests are small and wait for nothing, so a longer time is a fault.
const ANSWER_WITHIN: Duration = Duration::from_secs(30);
/// Characters of an unexpected answer that an error quotes.
const BODY_SHOWN_CHARS: usize = 200;

/// Every instance of the service, and the token that opens its administrative routes.
#[derive(Debug, Clone)]
pub(crate) struct Service {
    pub(super) client: Client,
    urls: Vec<String>,
    pub(super) admin_token: String,
}

/// Stock of a SKU, as `GET /goods/{goods_no}` tells it.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub(crate) struct Goods {
    pub(crate) goods_no: i64,
    pub(crate) sale: i64,
    pub(crate) stock_initial: i64,
    pub(crate) on_hand: i64,
    /// The family of strategies that may write the sale.
    pub(crate) guard: Option<String>,
    /// The default strategy of its buyers.
    pub(crate) strategy: Option<String>,
    /// Most units that one buyer may have.
    #[serde(default)]
    pub(crate) per_buyer: Option<i64>,
}

/// The metrics of all instances at one moment.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Metrics {
    /// The counts of each instance.
    pub(crate) counters: Vec<Counters>,
    /// The processor time of each instance that tells it.
    pub(crate) cpu: Vec<ProcessCpu>,
}

#[derive(Serialize)]
struct Reset<'a> {
    stock: u32,
    strategy: &'a str,
    // A service of an earlier version refuses a member that it does not know.
    #[serde(skip_serializing_if = "Option::is_none")]
    per_buyer: Option<u32>,
}

impl Service {
    /// Takes the service at these base URLs, of which there is at least one.
    pub(crate) fn new(urls: Vec<String>, admin_token: String) -> Result<Service, Error> {
        // The service has no TLS. A machine without certificates, such as a small container, can make no other client.
        let client = Client::builder()
            .no_proxy()
            .tls_certs_only([])
            .timeout(ANSWER_WITHIN)
            .build()
            .map_err(|error| Error::Generator(format!("could not build the HTTP client: {error}")))?;
        Ok(Service { client, urls, admin_token })
    }

    /// Returns the base URLs of the instances.
    pub(crate) fn urls(&self) -> &[String] {
        &self.urls
    }

    /// Asks the first instance for its strategies.
    pub(crate) async fn strategies(&self) -> Result<Vec<Strategy>, Error> {
        let url = format!("{}/strategies", self.first());
        let list: StrategyList = json("GET", &url, self.client.get(&url)).await?;
        Ok(list.strategies)
    }

    /// Opens a new sale of the SKU with this many units for this strategy, and makes sure that every instance sees it.
    pub(crate) async fn reset(
        &self,
        goods_no: i64,
        stock: u32,
        per_buyer: Option<u32>,
        strategy: &Strategy,
    ) -> Result<Goods, Error> {
        let url = format!("{}/admin/goods/{goods_no}", self.first());
        let Strategy { name, family, .. } = strategy;
        let body = Reset { stock, strategy: name, per_buyer };
        let request = self.client.put(&url).bearer_auth(&self.admin_token).json(&body);
        let opened: Goods = json("PUT", &url, request).await?;
        let units = i64::from(stock);
        let asked = Goods {
            goods_no,
            sale: opened.sale,
            stock_initial: units,
            on_hand: units,
            guard: Some(family.clone()),
            strategy: Some(name.clone()),
            per_buyer: per_buyer.map(i64::from),
        };
        if opened != asked {
            return Err(Error::Reset(format!(
                "asked for {units} units of SKU {goods_no}, sold by {name}, but the service has {opened:?}"
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

    /// Reads the metrics of all instances.
    pub(crate) async fn metrics(&self) -> Result<Metrics, Error> {
        let mut counters = Vec::with_capacity(self.urls.len());
        let mut cpu = Vec::with_capacity(self.urls.len());
        for instance in &self.urls {
            let text = self.metrics_text(instance).await?;
            counters.push(Counters::from_prometheus(&text));
            let cpu_s = text.lines().find_map(|line| line.strip_prefix("process_cpu_seconds_total ")?.parse().ok());
            cpu.extend(cpu_s.map(|cpu_s| ProcessCpu { process: instance.clone(), cpu_s }));
        }
        Ok(Metrics { counters, cpu })
    }

    /// Reads the metrics of an instance as text.
    pub(super) async fn metrics_text(&self, instance: &str) -> Result<String, Error> {
        let url = format!("{instance}/metrics");
        let response = answer("GET", &url, self.client.get(&url)).await?;
        response.text().await.map_err(failed("GET", &url, "broke off"))
    }

    /// Asks an instance whether it can serve.
    pub(crate) async fn is_ready(&self, instance: &str) -> bool {
        let request = self.client.get(format!("{instance}/readyz"));
        request.send().await.is_ok_and(|response| response.status() == StatusCode::OK)
    }

    /// Buys a unit at an instance. Returns whether it was sold, or whether a ticket was given for it.
    pub(crate) async fn sells(&self, instance: &str, goods_no: i64) -> bool {
        let request = self.client.get(format!("{instance}/goods-stock/{goods_no}"));
        request.send().await.is_ok_and(|response| response.status().is_success())
    }

    fn first(&self) -> &str {
        self.urls.first().map_or("", String::as_str)
    }
}

pub(super) async fn json<T: for<'de> Deserialize<'de>>(
    method: &'static str,
    url: &str,
    request: RequestBuilder,
) -> Result<T, Error> {
    let response = answer(method, url, request).await?;
    response.json().await.map_err(failed(method, url, "gave an answer that cannot be read"))
}

/// Sends a request. Returns the answer if it is a 200.
async fn answer(method: &'static str, url: &str, request: RequestBuilder) -> Result<Response, Error> {
    let response = request.send().await.map_err(failed(method, url, "had no answer"))?;
    let status = response.status();
    if status == StatusCode::OK {
        return Ok(response);
    }
    let body = response.text().await.unwrap_or_default();
    let problem = serde_json::from_str::<Problem>(&body);
    let said: String = problem.map_or(body, |problem| problem.detail).chars().take(BODY_SHOWN_CHARS).collect();
    let remedy = match status {
        StatusCode::UNAUTHORIZED => "; does the service have the same ADMIN_TOKEN?",
        StatusCode::NOT_FOUND if url.contains("/admin/") => {
            ": the service has no administration at this address; give it ADMIN_TOKEN, or name the address of its \
             --operators-listen"
        }
        _ => "",
    };
    let what = format!("answered {status} {}{remedy}", said.trim_end());
    Err(Error::Service { method, url: url.to_owned(), what, source: None })
}

/// What an instance answers if it refuses something.
#[derive(Deserialize)]
struct Problem {
    detail: String,
}

fn failed(method: &'static str, url: &str, what: &'static str) -> impl FnOnce(reqwest::Error) -> Error {
    let url = url.to_owned();
    // The error names the URL itself already.
    move |source| Error::Service { method, url, what: what.to_owned(), source: Some(source.without_url()) }
}

#[cfg(test)]
mod tests {
    use std::sync::{Arc, Mutex};

    use axum::Router;
    use tokio::net::TcpListener;

    use super::*;
    use crate::lab::strategy::tests::strategy;
    use crate::lab::strategy::{Mechanism, Promise, Wakes};

    /// Starts a service that gives this answer to every request. Returns it with the bodies that it receives.
    async fn service(answer: &'static str) -> (Service, Arc<Mutex<Vec<String>>>) {
        let bodies = Arc::new(Mutex::new(Vec::new()));
        let noted = Arc::clone(&bodies);
        let handler = move |body: String| {
            noted.lock().unwrap().push(body);
            async move { ([("content-type", "application/json")], answer) }
        };
        let listener = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        tokio::spawn(async move { axum::serve(listener, Router::new().fallback(handler)).await });
        (Service::new(vec![url], "token".to_owned()).unwrap(), bodies)
    }

    #[tokio::test]
    async fn a_sale_is_opened_for_the_strategy_that_sells_it() {
        let mutex = Strategy {
            family: "zk-queue".to_owned(),
            ..strategy("zk-mutex", Promise::SafeWhileSessionLives, Mechanism::Zookeeper, Wakes::One)
        };
        let opened =
            r#"{"goods_no":1,"sale":7,"stock_initial":9,"on_hand":9,"guard":"zk-queue","strategy":"zk-mutex"}"#;
        let (right, bodies) = service(opened).await;
        assert_eq!(right.reset(1, 9, None, &mutex).await.unwrap().sale, 7);
        assert_eq!(bodies.lock().unwrap()[0], r#"{"stock":9,"strategy":"zk-mutex"}"#);

        for wrong in [
            r#"{"goods_no":1,"sale":7,"stock_initial":9,"on_hand":9}"#,
            r#"{"goods_no":1,"sale":7,"stock_initial":9,"on_hand":9,"guard":"pg-row","strategy":"pg-conditional"}"#,
            r#"{"goods_no":1,"sale":7,"stock_initial":8,"on_hand":8,"guard":"zk-queue","strategy":"zk-mutex"}"#,
        ] {
            let (service, _) = service(wrong).await;
            let error = service.reset(1, 9, None, &mutex).await.unwrap_err().to_string();
            assert!(error.starts_with("asked for 9 units of SKU 1, sold by zk-mutex, but the service has"), "{error}");
        }
    }
}
