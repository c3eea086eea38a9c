//! A shop with books in a file of SQLite, which is as wrong as its fault says, and whose scripts are run.

use std::fmt::Write as _;
use std::path::PathBuf;
use std::process::Stdio;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use axum::extract::{RawQuery, State};
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use axum::{Json, Router};
use serde_json::{Value, json};
use sqlx::{AssertSqlSafe, ConnectOptions as _, Row as _};
use sqlx_sqlite::{SqliteConnectOptions, SqliteConnection};
use tempfile::TempDir;
use tokio::net::TcpListener;
use tokio::process::Command;
use tokio::sync::{Mutex, watch};

use crate::shop::{Crowd, read, reproduction};

/// Units on sale.
const STOCK: usize = 5;

/// The books by pages, and by the database.
pub(super) const PAGES: &str = "stock = { request = \"curl {{url}}/books\", value = \"$.left\" }\norders = { request = \"curl \
                                {{url}}/books\", count = \"$.orders\" }\n";
pub(super) const DATABASE: &str = "[books.sql]\nurl = \"sqlite:shop.db\"\nstock = \"select stock from goods\"\norders = \"select \
                                   id, buyer, units from orders\"\n";

/// What is wrong with a shop.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum BookedFault {
    Nothing,
    /// Every second sale leaves the stock as it was.
    LosesUpdates,
    /// Every buyer is told the order of the first one.
    TellsOneOrder,
    /// Every purchase makes two orders.
    BooksTwice,
    /// Every second buyer is told an order that the books have by another number.
    TellsAnotherOrder,
    /// Every order has two units.
    BooksTwoUnits,
    /// Nobody is served.
    RefusesAll,
    /// Buyers with units in stock are told "sold out".
    HidesUnits,
    /// A reset restores one unit less.
    RestoresLess,
    /// No answer has a meaning.
    Fails,
    /// No purchase ends.
    Hangs,
}

/// A shop that runs in this process.
pub(super) struct BookedShop {
    folder: TempDir,
    state: Arc<Served>,
    url: String,
}

/// What a shop has.
struct Served {
    fault: BookedFault,
    database: Mutex<SqliteConnection>,
    /// The secrets that a reset and a purchase need.
    keys: [&'static str; 2],
    bought: AtomicUsize,
    hanging: watch::Sender<usize>,
    seen: Mutex<Vec<String>>,
}

impl BookedShop {
    /// Starts a shop. Its books have an order of buyer 0 from an earlier sale, and a reset restores the stock only.
    pub(super) async fn start(fault: BookedFault) -> BookedShop {
        BookedShop::with_keys(fault, ["", ""]).await
    }

    /// Starts a shop that wants these secrets for a reset and for a purchase.
    pub(super) async fn with_keys(fault: BookedFault, keys: [&'static str; 2]) -> BookedShop {
        let folder = tempfile::tempdir().unwrap();
        let options = SqliteConnectOptions::new().filename(folder.path().join("shop.db")).create_if_missing(true);
        let mut database = options.connect().await.unwrap();
        let made = "create table goods (stock); insert into goods values (0); create table orders (id, buyer, units); insert \
                    into orders values ('old', '0', 1)";
        sqlx::raw_sql(made).execute(&mut database).await.unwrap();
        let state = Arc::new(Served {
            fault,
            database: Mutex::new(database),
            keys,
            bought: AtomicUsize::new(0),
            hanging: watch::Sender::new(0),
            seen: Mutex::default(),
        });
        let routes = Router::new()
            .route("/reset", post(reset))
            .route("/buy", post(buy))
            .route("/books", get(books))
            .with_state(Arc::clone(&state));
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        tokio::spawn(async move { axum::serve(listener, routes).await });
        BookedShop { folder, state, url }
    }

    pub(super) fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// Returns the file of the shop with these books.
    pub(super) fn file(&self, books: &str) -> String {
        let mut text = format!(
            "[shop]\nname = \"a shop\"\nurls = [\"{}\"]\nstock = {STOCK}\nper-buyer = 1\n[sale]\nrequests = [\"curl -X POST \
             {{{{url}}}}/reset\"]\n[buy]\nrequests = [\"curl {{{{url}}}}/buy -d buyer={{{{number}}}}\"]\nsold = [{{ status = 201 \
             }}]\norder = \"$.order\"\n",
            self.url
        );
        if !books.is_empty() {
            let _ = write!(text, "[books]\nquiet = \"1ms\"\n{books}");
        }
        text
    }

    /// Writes the script of a shop file into the folder.
    pub(super) fn write(&self, file: &str, buyers: usize) -> String {
        let path = self.path("shop.toml");
        std::fs::write(&path, file).unwrap();
        let script = reproduction(&read(&path).unwrap(), Crowd { buyers, purchases: 1 }, "seen");
        std::fs::write(self.path("script.sh"), &script).unwrap();
        script
    }

    /// Returns the command that runs the script. Its temporary folder is empty at its end.
    pub(super) fn command(&self, tries: &str) -> Command {
        std::fs::create_dir_all(self.path("tmp")).unwrap();
        let mut command = Command::from(testbed::with_default_signals("sh"));
        command.arg(self.path("script.sh")).arg(tries).env("TMPDIR", self.path("tmp"));
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).kill_on_drop(true);
        command
    }

    /// Runs the script of two buyers. Returns its exit status, and what it says.
    pub(super) async fn run(&self, file: &str) -> (Option<i32>, String) {
        self.write(file, 2);
        self.finish(self.command("2")).await
    }

    pub(super) async fn finish(&self, mut command: Command) -> (Option<i32>, String) {
        let output = command.output().await.unwrap();
        assert!(self.is_clean());
        let text = [output.stdout, output.stderr].concat();
        (output.status.code(), String::from_utf8(text).unwrap())
    }

    /// Tells whether the temporary folder is empty.
    pub(super) fn is_clean(&self) -> bool {
        self.path("tmp").read_dir().unwrap().next().is_none()
    }

    /// Waits until this number of purchases is under way.
    pub(super) async fn until_hanging(&self, purchases: usize) {
        let mut hanging = self.state.hanging.subscribe();
        let reached = hanging.wait_for(|now| *now == purchases);
        tokio::time::timeout(Duration::from_secs(60), reached).await.unwrap().unwrap();
    }

    /// Returns the queries and bodies of all purchases.
    pub(super) async fn seen(&self) -> Vec<String> {
        self.state.seen.lock().await.clone()
    }
}

impl Served {
    async fn run(&self, sql: String) {
        sqlx::raw_sql(AssertSqlSafe(sql)).execute(&mut *self.database.lock().await).await.unwrap();
    }

    async fn number(&self, sql: &'static str) -> i64 {
        sqlx::query(sql).fetch_one(&mut *self.database.lock().await).await.unwrap().get(0)
    }
}

/// Tells whether a request has a secret.
fn has_key(headers: &HeaderMap, key: &str) -> bool {
    key.is_empty() || headers.get("x-api-key").is_some_and(|given| given == key)
}

async fn reset(State(shop): State<Arc<Served>>, headers: HeaderMap) -> StatusCode {
    if !has_key(&headers, shop.keys[0]) {
        return StatusCode::FORBIDDEN;
    }
    let stock = if shop.fault == BookedFault::RestoresLess { STOCK - 1 } else { STOCK };
    shop.run(format!("update goods set stock = {stock}")).await;
    StatusCode::NO_CONTENT
}

/// Counts a purchase that is under way, until the buyer goes away.
struct Hanging(Arc<Served>);

impl Drop for Hanging {
    fn drop(&mut self) {
        self.0.hanging.send_modify(|purchases| *purchases -= 1);
    }
}

async fn buy(State(shop): State<Arc<Served>>, RawQuery(query): RawQuery, headers: HeaderMap, body: String) -> Response {
    if !has_key(&headers, shop.keys[1]) {
        return StatusCode::FORBIDDEN.into_response();
    }
    shop.seen.lock().await.extend(query.into_iter().chain([body.clone()]));
    let fault = shop.fault;
    if fault == BookedFault::Hangs {
        shop.hanging.send_modify(|purchases| *purchases += 1);
        let _hanging = Hanging(shop);
        return std::future::pending().await;
    }
    let number = shop.bought.fetch_add(1, Ordering::SeqCst);
    if fault == BookedFault::RefusesAll {
        return StatusCode::TOO_MANY_REQUESTS.into_response();
    }
    if fault == BookedFault::Fails {
        return StatusCode::BAD_GATEWAY.into_response();
    }
    if fault == BookedFault::HidesUnits || shop.number("select stock from goods").await == 0 {
        return StatusCode::CONFLICT.into_response();
    }
    let is_second = number % 2 == 1;
    if !(fault == BookedFault::LosesUpdates && is_second) {
        shop.run("update goods set stock = stock - 1".to_owned()).await;
    }
    // More than 53 bits, as many shops have.
    let order = 1_790_000_000_000_000_000 + number as u64;
    let buyer = body.strip_prefix("buyer=").unwrap_or("a buyer").to_owned();
    let units = if fault == BookedFault::BooksTwoUnits { 2 } else { 1 };
    shop.run(format!("insert into orders values ('{order}', '{buyer}', {units})")).await;
    if fault == BookedFault::BooksTwice {
        shop.run(format!("insert into orders values ('{order}0', '{buyer}', 1)")).await;
    }
    let told = match fault {
        BookedFault::TellsOneOrder => 1_790_000_000_000_000_000,
        BookedFault::TellsAnotherOrder if is_second => order + 1_000_000,
        _ => order,
    };
    (StatusCode::CREATED, Json(json!({ "order": told }))).into_response()
}

async fn books(State(shop): State<Arc<Served>>) -> Json<Value> {
    let left = shop.number("select stock from goods").await;
    let orders = shop.number("select count(*) from orders").await;
    Json(json!({ "left": left, "orders": orders }))
}
