//! A database, a ZooKeeper namespace and any number of instances of the service in this process.

use std::ffi::OsString;
use std::net::SocketAddr;
use std::ops::Deref;
use std::time::Duration;

use demo_service::config::Config;
use demo_service::http::server::Server;
use demo_service::secrets::Secret;
use demo_service::strategy::registry;
use reqwest::{Method, RequestBuilder, Response, StatusCode};
use serde_json::{Value, json};
use sqlx::{Connection, PgConnection};
use testbed::{Postgres, PostgresConfig, Proxy, TestChroot, TestDatabase};
use tokio::sync::oneshot;
use tokio::task::JoinHandle;
use zk_recipes::{MultiGuard, MultiLock, Mutex, Session, SessionConfig};

use crate::redis::shared_redis;

pub(crate) const TOKEN: &str = "the token of these tests";

/// Keys that a test can wait for the end of, and times that go with them.
pub(crate) const SHORT_LIVED_KEYS: [&str; 8] =
    ["--lock-wait", "1s", "--db-timeout", "2s", "--http-timeout", "2500ms", "--key-lifetime", "5100ms"];

/// Waits that no buyer outlasts.
pub(crate) const PATIENT: [&str; 6] = ["--lock-wait", "50s", "--db-timeout", "55s", "--http-timeout", "60s"];
/// Waits that outlast every test.
pub(crate) const ENDLESS: [&str; 6] = ["--lock-wait", "5m", "--db-timeout", "6m", "--http-timeout", "7m"];

/// A condition that has not come true by then never will.
pub(crate) const CONDITION_WITHIN: Duration = Duration::from_secs(120);

pub(crate) struct Lab {
    /// Where the test finds the database.
    pub(crate) database_url: String,
    /// Where the service finds it: behind a proxy, if there is one.
    pub(crate) service_database_url: String,
    pub(crate) zookeeper: String,
    pub(crate) redis: String,
    _database: Option<TestDatabase>,
    _postgres: Option<Postgres>,
    _chroot: Option<TestChroot>,
}

impl Lab {
    pub(crate) async fn new() -> Self {
        let (database, chroot) = tokio::try_join!(TestDatabase::create(), TestChroot::create()).unwrap();
        let lab = Self::at(database.url().to_owned(), chroot.connect_string().to_owned(), shared_redis().await.url());
        Self { _database: Some(database), _chroot: Some(chroot), ..lab }
    }

    /// Makes a lab with an instance.
    pub(crate) async fn with_instance(arguments: &[&str]) -> (Self, Instance) {
        let lab = Self::new().await;
        let instance = lab.start(arguments).await;
        (lab, instance)
    }

    /// Makes a lab on a Postgres server of the test's own.
    pub(crate) async fn on_postgres(database_url: String) -> Self {
        let chroot = TestChroot::create().await.unwrap();
        let lab = Self::at(database_url, chroot.connect_string().to_owned(), shared_redis().await.url());
        Self { _chroot: Some(chroot), ..lab }
    }

    /// Makes a lab on a ZooKeeper server of the test's own.
    pub(crate) async fn on_zookeeper(zookeeper: String) -> Self {
        let database = TestDatabase::create().await.unwrap();
        let lab = Self::at(database.url().to_owned(), zookeeper, shared_redis().await.url());
        Self { _database: Some(database), ..lab }
    }

    /// Makes a lab on a Postgres server of its own. The service reaches the server through the proxy, the test directly.
    pub(crate) async fn behind_proxy() -> (Self, Proxy) {
        let postgres = Postgres::start(PostgresConfig::default()).await.unwrap();
        let url = postgres.url("postgres");
        let mut lab = Self { _postgres: Some(postgres), ..Self::on_postgres(url).await };
        let proxy = lab.put_proxy_before_postgres().await;
        (lab, proxy)
    }

    /// Lets instances that start from now on reach Postgres through a proxy.
    pub(crate) async fn put_proxy_before_postgres(&mut self) -> Proxy {
        let (_, behind_user) = self.database_url.split_once('@').unwrap();
        let (server, _) = behind_user.split_once('/').unwrap();
        let proxy = Proxy::start(server).await.unwrap();
        self.service_database_url = self.database_url.replace(server, &proxy.connect_string());
        proxy
    }

    pub(crate) fn at(database_url: String, zookeeper: String, redis: String) -> Self {
        let service_database_url = database_url.clone();
        Self { database_url, service_database_url, zookeeper, redis, _database: None, _postgres: None, _chroot: None }
    }

    pub(crate) fn config(&self, arguments: &[&str]) -> Config {
        let servers = ["demo-service", "--database-url", &self.service_database_url, "--zookeeper", &self.zookeeper];
        let defaults =
            ["--listen", "127.0.0.1:0", "--db-connections", "5", "--instance", "it", "--redis-url", &self.redis];
        let defaults = defaults.chunks(2).filter(|pair| !arguments.contains(&pair[0])).flatten();
        let words = servers.iter().chain(defaults).chain(arguments).map(OsString::from);
        Config { admin_token: Secret::new(TOKEN.to_owned()), ..Config::parse_from_env(words).unwrap() }
    }

    pub(crate) async fn start(&self, arguments: &[&str]) -> Instance {
        Instance::start(self.config(arguments)).await
    }

    pub(crate) async fn connect(&self) -> PgConnection {
        PgConnection::connect(&self.database_url).await.unwrap()
    }

    pub(crate) async fn units_ordered(&self, goods_no: i64, sale: i64) -> i64 {
        let sql = "select coalesce(sum(quantity), 0)::bigint from order_lines where goods_no = $1 and sale = $2";
        let query = sqlx::query_scalar(sql).bind(goods_no).bind(sale);
        query.fetch_one(&mut self.connect().await).await.unwrap()
    }

    pub(crate) async fn orders(&self) -> i64 {
        sqlx::query_scalar("select count(*) from orders").fetch_one(&mut self.connect().await).await.unwrap()
    }

    /// Asserts that each unit of the current sale of a SKU is either on hand or ordered, and returns how many are ordered.
    pub(crate) async fn assert_adds_up(&self, goods_no: i64, context: &str) -> i64 {
        let sql = "select stock_initial, units_left(goods), (select coalesce(sum(quantity), 0)::bigint from order_lines as line
                       where line.goods_no = goods.goods_no and line.sale = goods.sale)
                   from goods where goods_no = $1";
        let query = sqlx::query_as(sql).bind(goods_no);
        let (stock, on_hand, ordered): (i64, i64, i64) = query.fetch_one(&mut self.connect().await).await.unwrap();
        assert!(ordered <= stock, "{context}: {ordered} of {stock} units of SKU {goods_no} were sold");
        assert_eq!(on_hand + ordered, stock, "{context}: SKU {goods_no}, {on_hand} on hand, {ordered} ordered");
        ordered
    }

    /// Puts a SKU on sale as no instance does: without a guard.
    pub(crate) async fn put_on_sale_unguarded(&self, goods_no: i64, stock: i64) {
        let sql = "insert into goods (goods_no, sale, stock_initial, on_hand) values ($1, 1, $2, $2)";
        sqlx::query(sql).bind(goods_no).bind(stock).execute(&mut self.connect().await).await.unwrap();
    }
}

impl Lab {
    /// Holds the mutexes that a strategy takes for these goods.
    pub(crate) async fn hold_locks(&self, strategy: &str, goods: &[i64]) -> MultiGuard {
        let session = Session::connect(&self.zookeeper, SessionConfig::default()).await.unwrap();
        let paths = goods.iter().map(|goods_no| lock_path(strategy, *goods_no));
        MultiLock::from_paths(&session, paths).unwrap().acquire().await.unwrap()
    }

    /// Waits until the queue of a strategy's mutex has `length` contenders, the holder included.
    pub(crate) async fn wait_for_queue(&self, strategy: &str, goods_no: i64, length: usize) {
        let session = Session::connect(&self.zookeeper, SessionConfig::default()).await.unwrap();
        let mutex = Mutex::new(&session, &lock_path(strategy, goods_no)).unwrap();
        wait_until(async || mutex.participants().await.unwrap().len() == length).await;
    }
}

/// Returns the path in ZooKeeper where a strategy locks a SKU.
pub(crate) fn lock_path(strategy: &str, goods_no: i64) -> String {
    format!("{}/{goods_no}", lock_folder(strategy))
}

/// Returns the folder of a strategy's locks in ZooKeeper. It has the name of the family. The folder of `zk-semaphore` has the
/// name of the strategy, because the semaphore protects nothing.
pub(crate) fn lock_folder(strategy: &str) -> String {
    let folder = if strategy == "zk-semaphore" { strategy } else { registry::find(strategy).unwrap().family };
    format!("/seckill/{folder}")
}

/// Returns whether the orders of a strategy say how many units they left. Where buyers write different rows, none of them knows.
pub(crate) fn tells_what_is_left(strategy: &str) -> bool {
    !["pg-units", "pg-buckets", "pg-reserve"].contains(&strategy)
}

/// Waits for a condition, looking again every few milliseconds.
pub(crate) async fn wait_until(mut condition: impl AsyncFnMut() -> bool) {
    let waited = tokio::time::timeout(CONDITION_WITHIN, async {
        while !condition().await {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    });
    waited.await.expect("the condition should come true");
}

/// An instance of the service in this process.
pub(crate) struct Instance {
    shop: Shop,
    /// The listener for operators, if it has one.
    pub(crate) operators: Option<Shop>,
    stop: oneshot::Sender<()>,
    task: JoinHandle<()>,
}

/// An instance of the service as its clients know it, wherever it runs.
pub(crate) struct Shop {
    pub(crate) address: SocketAddr,
    pub(crate) client: reqwest::Client,
}

impl Deref for Instance {
    type Target = Shop;

    fn deref(&self) -> &Shop {
        &self.shop
    }
}

impl Instance {
    pub(crate) async fn start(config: Config) -> Self {
        let server = Server::start(config).await.unwrap();
        let shop = Shop::at(server.address());
        let operators = server.operators_address().map(Shop::at);
        let (stop, stopped) = oneshot::channel::<()>();
        // Dropping the sender stops the instance, too.
        let task = tokio::spawn(server.serve(async { stopped.await.unwrap_or(()) }));
        Self { shop, operators, stop, task }
    }

    /// Asks it to stop, and returns the task that ends when it has.
    pub(crate) fn request_stop(self) -> JoinHandle<()> {
        drop(self.stop);
        self.task
    }
}

impl Shop {
    pub(crate) fn at(address: SocketAddr) -> Self {
        Self { address, client: reqwest::Client::new() }
    }

    /// Makes a client that has a connection of its own for every request.
    pub(crate) fn without_keep_alive(address: SocketAddr) -> Self {
        Self { address, client: reqwest::Client::builder().pool_max_idle_per_host(0).build().unwrap() }
    }

    pub(crate) fn request(&self, method: Method, path: &str) -> RequestBuilder {
        self.client.request(method, format!("http://{}{path}", self.address))
    }

    pub(crate) async fn get(&self, path: &str) -> Answer {
        Answer::of(self.request(Method::GET, path).send().await.unwrap()).await
    }

    /// Starts the next sale of a SKU under a strategy, or under the default one if that is empty.
    pub(crate) async fn put_on_sale(&self, goods_no: i64, stock: i64, strategy: &str) -> Answer {
        let mut body = json!({ "stock": stock });
        if !strategy.is_empty() {
            body["strategy"] = json!(strategy);
        }
        self.put_sale(goods_no, &body).await
    }

    /// Starts the next sale of a SKU as that body says.
    pub(crate) async fn put_sale(&self, goods_no: i64, body: &Value) -> Answer {
        let request = self.request(Method::PUT, &format!("/admin/goods/{goods_no}")).bearer_auth(TOKEN);
        Answer::of(request.json(body).send().await.unwrap()).await
    }

    pub(crate) async fn admin_get(&self, path: &str) -> Answer {
        Answer::of(self.request(Method::GET, path).bearer_auth(TOKEN).send().await.unwrap()).await
    }

    /// Buys one unit. A ticket is asked until it is decided.
    pub(crate) async fn buy(&self, goods_no: i64, strategy: &str) -> Answer {
        self.decided(self.get(&format!("/goods-stock/{goods_no}?strategy={strategy}")).await).await
    }

    pub(crate) async fn post(&self, path: &str, key: Option<&str>, body: &Value) -> Answer {
        let mut request = self.request(Method::POST, path).json(body);
        if let Some(key) = key {
            request = request.header("idempotency-key", key);
        }
        Answer::of(request.send().await.unwrap()).await
    }

    /// Buys some units of one SKU under a key. A ticket is asked until it is decided.
    pub(crate) async fn order(&self, goods_no: i64, quantity: i64, strategy: &str, key: &str) -> Answer {
        let path = format!("/goods/{goods_no}/orders?strategy={strategy}");
        self.decided_order(self.post(&path, Some(key), &json!({ "quantity": quantity })).await).await
    }

    /// Starts a purchase that runs beside the test.
    pub(crate) fn spawn_buy(&self, goods_no: i64, strategy: &str) -> JoinHandle<Answer> {
        let shop = self.another();
        let strategy = strategy.to_owned();
        tokio::spawn(async move { shop.buy(goods_no, &strategy).await })
    }

    /// Starts an order that runs beside the test.
    pub(crate) fn spawn_order(&self, goods_no: i64, quantity: i64, strategy: &str, key: &str) -> JoinHandle<Answer> {
        let shop = Self::at(self.address);
        let strategy = strategy.to_owned();
        let key = key.to_owned();
        tokio::spawn(async move { shop.order(goods_no, quantity, &strategy, &key).await })
    }

    /// Returns the value of one series of `/metrics`, given as it is written there.
    pub(crate) async fn metric(&self, series: &str) -> Option<f64> {
        let text = self.request(Method::GET, "/metrics").send().await.unwrap().text().await.unwrap();
        let line = text.lines().find_map(|line| line.strip_prefix(series)?.strip_prefix(' '))?;
        Some(line.parse().unwrap())
    }

    /// Returns how many purchases of a strategy ended like that.
    pub(crate) async fn outcomes(&self, strategy: &str, outcome: &str) -> Option<f64> {
        self.metric(&format!(r#"seckill_deductions_total{{strategy="{strategy}",outcome="{outcome}"}}"#)).await
    }

    /// Waits until `count` purchases of a strategy wait for a lock or a batch.
    pub(crate) async fn wait_for_waiting(&self, strategy: &str, count: usize) {
        let series = format!(r#"seckill_queue_depth{{strategy="{strategy}"}}"#);
        let count = f64::from(u32::try_from(count).unwrap());
        wait_until(async || self.metric(&series).await == Some(count)).await;
    }
}

/// Makes the body of a purchase of several SKUs, given by their numbers and quantities.
pub(crate) fn cart(lines: &[(i64, i64)]) -> Value {
    let line = |(goods_no, quantity): &(i64, i64)| json!({ "goods_no": goods_no, "quantity": quantity });
    let lines: Vec<_> = lines.iter().map(line).collect();
    json!({ "lines": lines })
}

/// A response, read to its end.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: StatusCode,
    pub(crate) headers: reqwest::header::HeaderMap,
    pub(crate) body: Value,
}

impl Answer {
    pub(crate) async fn of(response: Response) -> Self {
        let status = response.status();
        let headers = response.headers().clone();
        let text = response.text().await.unwrap();
        let body = if text.is_empty() { Value::Null } else { serde_json::from_str(&text).unwrap() };
        Self { status, headers, body }
    }

    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name).map(|value| value.to_str().unwrap())
    }

    /// Returns the last part of the type of a problem of our own.
    pub(crate) fn problem(&self) -> Option<&str> {
        self.body["type"].as_str()?.strip_prefix("urn:seckill-lab:problem:")
    }

    #[track_caller]
    pub(crate) fn assert_created(&self) {
        assert_eq!(self.status, StatusCode::CREATED, "{self:?}");
        let location = format!("/orders/{}", self.body["order_id"]);
        assert_eq!(self.header("location"), Some(&*location), "{self:?}");
    }

    /// Asserts that this answer is an earlier one given again.
    #[track_caller]
    pub(crate) fn assert_replay_of(&self, first: &Self) {
        assert_eq!(self.header("idempotent-replayed"), Some("true"), "{self:?}");
        assert_eq!((self.status, &self.body), (first.status, &first.body));
        assert_eq!(self.header("location"), first.header("location"));
    }

    /// Asserts a whole problem of our own, and that only those of 503 that promise that nothing was written say when to
    /// come again.
    #[track_caller]
    pub(crate) fn assert_problem(&self, status: u16, kind: &str) {
        self.assert_refusal(status, &format!("urn:seckill-lab:problem:{kind}"));
        let retryable = status == 503 && !["outcome-unknown", "request-timeout"].contains(&kind);
        assert_eq!(self.header("retry-after"), retryable.then_some("1"), "{self:?}");
    }

    /// Asserts a problem of that type, from any part of the service.
    #[track_caller]
    pub(crate) fn assert_refusal(&self, status: u16, problem_type: &str) {
        assert_eq!(self.status.as_u16(), status, "{self:?}");
        assert_eq!(self.header("content-type"), Some("application/problem+json"), "{self:?}");
        assert_eq!(self.header("cache-control"), Some("no-store"), "{self:?}");
        assert_eq!(self.body["type"], problem_type, "{self:?}");
        assert_eq!(self.body["status"], status, "{self:?}");
        for member in ["title", "detail"] {
            assert!(self.body[member].as_str().is_some_and(|text| !text.is_empty()), "{member} of {self:?}");
        }
    }

    #[track_caller]
    pub(crate) fn assert_ok(&self) {
        assert_eq!(self.status, StatusCode::OK, "{self:?}");
        assert_eq!(self.header("cache-control"), Some("no-store"), "{self:?}");
    }
}
