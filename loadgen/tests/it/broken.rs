//! A running service that tests break: by triggers in its database, and by a proxy that falsifies answers.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};

use axum::Router;
use axum::body::Bytes;
use axum::extract::State;
use axum::http::{HeaderMap, Method, StatusCode, Uri};
use axum::response::{IntoResponse, Response};
use serde_json::Value;
use sqlx::{Connection, PgConnection};
use tokio::runtime::Runtime;

use crate::support::{Finished, Running, TestFolder, exports, finish};

/// The strategies that sell in batches.
pub(crate) const BATCHES: [&str; 3] = ["pg-merge", "zk-merge", "zk-owner"];

/// Changes an answer, by the path of its request: the status and the body.
type Falsify = Box<dyn FnMut(&str, u16, &mut Value) -> u16 + Send>;

/// A running service, and a proxy in front of it that may falsify answers.
pub(crate) struct Broken {
    folder: TestFolder,
    pub(crate) client: TestFolder,
    running: Running,
    pub(crate) variables: BTreeMap<String, String>,
    proxy: SocketAddr,
    falsify: Arc<Mutex<Falsify>>,
    runtime: Runtime,
}

#[derive(Clone)]
struct Proxy {
    service: String,
    client: reqwest::Client,
    falsify: Arc<Mutex<Falsify>>,
}

impl Broken {
    pub(crate) fn start() -> Broken {
        let folder = TestFolder::new();
        let client = TestFolder::new();
        let up = ["up", "--instances", "1", "--business-time", "0ms"];
        let running = Running::start(&mut folder.throwaway_lab(up));
        let variables = exports(&running.until_stdout("# what was sold"));
        let falsify: Arc<Mutex<Falsify>> = Arc::new(Mutex::new(Box::new(|_, status, _| status)));
        let runtime = Runtime::new().unwrap();
        let proxy = Proxy {
            service: variables["SECKILL_URLS"].clone(),
            client: reqwest::Client::builder().no_proxy().build().unwrap(),
            falsify: Arc::clone(&falsify),
        };
        let listener = runtime.block_on(tokio::net::TcpListener::bind(("127.0.0.1", 0))).unwrap();
        let address = listener.local_addr().unwrap();
        let router = Router::new().fallback(pass_on).with_state(proxy);
        runtime.spawn(async move { axum::serve(listener, router).await });
        Broken { folder, client, running, variables, proxy: address, falsify, runtime }
    }

    /// Lets the proxy falsify answers in this way from now on.
    pub(crate) fn falsify(&self, falsify: impl FnMut(&str, u16, &mut Value) -> u16 + Send + 'static) {
        *self.falsify.lock().unwrap() = Box::new(falsify);
    }

    pub(crate) fn execute(&self, statements: &'static str) {
        self.runtime.block_on(async {
            let mut connection = PgConnection::connect(&self.variables["DATABASE_URL"]).await.unwrap();
            sqlx::raw_sql(statements).execute(&mut connection).await.unwrap();
            connection.close().await.unwrap();
        });
    }

    /// Compares through the proxy, and returns the exit code with the report.
    pub(crate) fn compare(&self, strategy: &str) -> (Option<i32>, Value) {
        let finished = self.run(strategy, &self.url());
        assert!(finished.code.is_some(), "{}", finished.stderr);
        (finished.code, self.client.report())
    }

    /// Compares at these URLs.
    pub(crate) fn run(&self, strategy: &str, urls: &str) -> Finished {
        self.run_with(strategy, urls, &[])
    }

    /// Compares at these URLs with more arguments.
    pub(crate) fn run_with(&self, strategy: &str, urls: &str, more: &[&str]) -> Finished {
        let args = ["run", strategy, "--users", "12", "--stock", "6", "--trials", "1", "--no-warm-up", "--target"];
        finish(self.client.loadgen(args).arg(urls).args(more).envs(&self.variables))
    }

    /// Audits the database.
    pub(crate) fn audit(&self, args: &[&str]) -> Finished {
        finish(self.client.loadgen(["audit"]).args(args).envs(&self.variables))
    }

    /// Returns the URL of the proxy.
    pub(crate) fn url(&self) -> String {
        format!("http://{}", self.proxy)
    }

    /// Compares, and expects this of the audit.
    pub(crate) fn assert_found(&self, what: &str, expected: impl Fn(&Value) -> bool) {
        self.assert_found_of("zk-mutex", what, expected);
    }

    /// Compares this strategy, and expects this of the audit.
    pub(crate) fn assert_found_of(&self, strategy: &str, what: &str, expected: impl Fn(&Value) -> bool) {
        let (code, report) = self.compare(strategy);
        assert_eq!(code, Some(2), "{what}: {report:#}");
        assert_eq!(report["results"][0]["finding"], "broken", "{what}: {report:#}");
        assert!(expected(&report["trials"][0]), "{what}: {:#}", report["trials"][0]);
    }

    /// Expects the strategies that sell in batches to be right as long as nothing is broken.
    pub(crate) fn assert_kept_by_batches(&self) {
        for strategy in BATCHES {
            let (code, report) = self.compare(strategy);
            assert!([Some(0), Some(4)].contains(&code), "an honest service: {report:#}");
            let audit = &report["trials"][0]["audit"];
            let has_tokens = strategy.starts_with("zk-");
            let tokens = if has_tokens { 0.into() } else { Value::Null };
            assert_eq!((&audit["out_of_sequence"], &audit["tokens_out_of_order"]), (&0.into(), &tokens), "{audit:#}");
            assert_eq!(audit["overtaken_in_batch"].as_u64().unwrap_or(0), 0, "{audit:#}");
        }
    }

    pub(crate) fn stop(self) {
        self.running.signal(nix::sys::signal::Signal::SIGINT);
        let (status, _) = self.running.wait();
        assert_eq!(status.code(), Some(0));
        assert!(self.folder.is_clean() && self.client.is_clean(), "something is left");
    }
}

/// Passes a request on, and its answer back, falsified.
async fn pass_on(State(proxy): State<Proxy>, method: Method, uri: Uri, headers: HeaderMap, body: Bytes) -> Response {
    let url = format!("{}{uri}", proxy.service);
    let mut request = proxy.client.request(method, url).body(body);
    for name in ["authorization", "content-type", "idempotency-key"] {
        if let Some(value) = headers.get(name) {
            request = request.header(name, value);
        }
    }
    let answer = request.send().await.unwrap();
    let status = answer.status().as_u16();
    let text = answer.text().await.unwrap();
    let Ok(mut body) = serde_json::from_str::<Value>(&text) else {
        return (StatusCode::from_u16(status).unwrap(), text).into_response();
    };
    let status = (proxy.falsify.lock().unwrap())(uri.path(), status, &mut body);
    let content_type = [("content-type", "application/json")];
    (StatusCode::from_u16(status).unwrap(), content_type, body.to_string()).into_response()
}

/// Changes one answer that sold, and no other one.
pub(crate) fn once(
    mut change: impl FnMut(&mut Value) -> u16 + Send,
) -> impl FnMut(&str, u16, &mut Value) -> u16 + Send {
    let mut is_done = false;
    move |path, status, body| {
        if path.starts_with("/goods-stock/") && status == 200 && !is_done {
            is_done = true;
            return change(body);
        }
        status
    }
}
