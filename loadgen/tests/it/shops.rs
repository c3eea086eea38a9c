//! Shops in other people's style, from `tests/shops`: how tests start them, and whether each is as right or wrong as it says.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::thread;
use std::time::{Duration, Instant};

use reqwest::{Client, RequestBuilder};
use serde_json::Value;
use testbed::TestDatabase;
use tokio::task::JoinSet;

use crate::support::{PATIENCE, TestFolder, lines};

/// The address that the shop files have.
const ADDRESS: &str = "http://127.0.0.1:8000";
pub(crate) const STOCK: usize = 10;
const BUYERS: usize = 50;
const POLL: Duration = Duration::from_millis(20);
/// What the course says of a purchase that is not made.
const SOLD_OUT: &str = "库存不足";
const TWICE: &str = "不能重复下单";
const NOT_LOGGED_IN: &str = "请先登录";

/// A shop that runs. It ends with this value and with this process, because it ends with the pipe to its standard input.
pub(crate) struct ShopProcess {
    program: String,
    child: Child,
    output: Receiver<String>,
    url: String,
}

impl ShopProcess {
    /// Starts a program of `tests/shops` on a free port, and waits until it listens.
    pub(crate) fn start(program: &str, args: &[&str]) -> ShopProcess {
        let interpreter = if program.ends_with(".js") { PathBuf::from("node") } else { python() };
        let mut command = Command::new(&interpreter);
        command.arg(shops().join(program)).args(["--port", "0"]).args(args).env("PYTHONDONTWRITEBYTECODE", "1");
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap_or_else(|error| {
            panic!("{} cannot be run; run: make deps-test: {error}", interpreter.display());
        });
        let (_, output) = lines(child.stdout.take().unwrap());
        let mut shop = ShopProcess { program: program.to_owned(), child, output, url: String::new() };
        shop.url = shop.output.recv_timeout(PATIENCE).unwrap_or_else(|_| panic!("{program} tells no URL"));
        shop
    }

    /// Returns the address of the shop, without a slash at its end.
    pub(crate) fn url(&self) -> &str {
        &self.url
    }

    /// Returns the text of a shop file of `tests/shops`, with the address of this shop and with these further replacements.
    pub(crate) fn file(&self, name: &str, replacements: &[(&str, &str)]) -> String {
        let mut text = fs::read_to_string(shops().join(name)).unwrap();
        for (old, new) in [(ADDRESS, self.url())].iter().chain(replacements) {
            assert!(text.contains(old), "{name} has no {old}");
            text = text.replace(old, new);
        }
        text
    }

    /// Closes the pipe. Returns whether every process of the shop has ended: each has a share of the standard output.
    fn end(&mut self) -> bool {
        drop(self.child.stdin.take());
        loop {
            match self.output.recv_timeout(PATIENCE) {
                Ok(_) => {}
                Err(error) => return error == RecvTimeoutError::Disconnected,
            }
        }
    }
}

impl Drop for ShopProcess {
    fn drop(&mut self) {
        let has_ended = self.end();
        // Nothing happens to a process that has ended.
        let _ = self.child.kill();
        let _ = self.child.wait();
        assert!(has_ended || thread::panicking(), "{} outlives the pipe to it", self.program);
    }
}

fn shops() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/shops")
}

fn python() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).with_file_name("target/shops-python/bin/python")
}

/// Starts a shop in Python with a database of SQLite in this folder.
pub(crate) fn start_on_sqlite(program: &str, folder: &TestFolder, args: &str) -> ShopProcess {
    start_on(program, folder.path("shop.db").to_str().unwrap(), args)
}

fn start_on(program: &str, database: &str, args: &str) -> ShopProcess {
    let stock = STOCK.to_string();
    let args = ["--stock", &stock, "--database", database].into_iter().chain(args.split_whitespace());
    ShopProcess::start(program, &args.collect::<Vec<_>>())
}

pub(crate) fn client() -> Client {
    Client::builder().no_proxy().build().unwrap()
}

/// Sends a request, and returns the status and the JSON of its answer.
pub(crate) async fn answer(request: RequestBuilder) -> (u16, Value) {
    let response = request.send().await.unwrap();
    let status = response.status().as_u16();
    (status, response.json().await.unwrap())
}

fn post(client: &Client, url: String, form: String) -> RequestBuilder {
    client.post(url).header("content-type", "application/x-www-form-urlencoded").body(form)
}

/// Lets every buyer buy at once. Returns the orders of the buyers that were told "sold".
async fn buy_at_once(url: &str) -> Vec<String> {
    let client = client();
    let mut answers = JoinSet::new();
    for buyer in 0..BUYERS {
        answers.spawn(answer(post(&client, format!("{url}/buy"), format!("buyer={buyer}"))));
    }
    let answers = answers.join_all().await;
    assert!(answers.iter().all(|(status, _)| [201, 409].contains(status)), "{answers:?}");
    answers.into_iter().filter(|(status, _)| *status == 201).map(|(_, body)| body["order"].to_string()).collect()
}

/// Returns the stock and the orders that the pages of a shop show. The field is where it puts them.
async fn books(url: &str, field: &str) -> (usize, BTreeSet<String>) {
    let client = client();
    let (_, stock) = answer(client.get(format!("{url}/stock"))).await;
    let (_, orders) = answer(client.get(format!("{url}/orders"))).await;
    let orders = orders.pointer(field).unwrap();
    let listed: BTreeSet<_> = orders["orders"].as_array().unwrap().iter().map(|one| one["order"].to_string()).collect();
    assert_eq!(orders["count"], listed.len());
    (stock.pointer(field).unwrap()["stock"].as_u64().unwrap().try_into().unwrap(), listed)
}

fn set(orders: Vec<String>) -> BTreeSet<String> {
    let count = orders.len();
    let orders = BTreeSet::from_iter(orders);
    assert_eq!(orders.len(), count, "a number of an order is told twice");
    orders
}

/// Sells twice. Expects each sale to sell its stock, and the books to have each order that was told.
async fn assert_right(shop: &ShopProcess) {
    for _ in 0..2 {
        let (status, reset) = answer(client().post(format!("{}/reset", shop.url()))).await;
        assert_eq!((status, &reset["stock"]), (200, &STOCK.into()));
        let told = set(buy_at_once(shop.url()).await);
        assert_eq!(told.len(), STOCK);
        assert_eq!(books(shop.url(), "").await, (0, told));
    }
}

/// Expects more orders than units, told and in the books.
async fn assert_oversells(shop: &ShopProcess) {
    let told = set(buy_at_once(shop.url()).await);
    assert!(told.len() > STOCK, "{told:?}");
    assert_eq!(books(shop.url(), "").await.1, told);
}

#[tokio::test]
async fn a_conditional_update_sells_exactly_the_stock() {
    let folder = TestFolder::new();
    assert_right(&start_on_sqlite("shop.py", &folder, "")).await;
    let database = TestDatabase::create().await.unwrap();
    assert_right(&start_on("shop.py", database.url(), "")).await;
}

#[tokio::test]
async fn two_buyers_that_read_the_same_stock_buy_the_same_unit() {
    let folder = TestFolder::new();
    assert_oversells(&start_on_sqlite("shop.py", &folder, "--wrong --meet")).await;
    let database = TestDatabase::create().await.unwrap();
    assert_oversells(&start_on("shop.py", database.url(), "--wrong --meet")).await;
}

#[tokio::test]
async fn two_processes_with_a_copy_of_the_stock_oversell() {
    let stock = STOCK.to_string();
    let shop = ShopProcess::start("shop.js", &["--stock", &stock]);
    assert_oversells(&shop).await;
    assert_right(&ShopProcess::start("shop.js", &["--stock", &stock, "--one-process"])).await;
}

#[tokio::test]
async fn two_halves_of_the_stock_are_never_oversold() {
    let shop = ShopProcess::start("shop.js", &["--stock", &STOCK.to_string(), "--halves"]);
    let told = set(buy_at_once(shop.url()).await);
    let (left, orders) = books(shop.url(), "").await;
    assert_eq!((told.len() + left, told), (STOCK, orders));
}

#[tokio::test]
async fn an_early_shop_says_sold_before_the_order_exists() {
    let folder = TestFolder::new();
    let shop = start_on_sqlite("early_shop.py", &folder, "--delay-ms 600000");
    assert_eq!(set(buy_at_once(shop.url()).await).len(), STOCK);
    assert_eq!(books(shop.url(), "").await, (STOCK, BTreeSet::new()));
}

#[tokio::test]
async fn an_early_shop_loses_its_share_of_the_orders() {
    for (share, lost) in [("0", 0), ("0.2", 2)] {
        let folder = TestFolder::new();
        let shop = start_on_sqlite("early_shop.py", &folder, &format!("--loses {share}"));
        let told = set(buy_at_once(shop.url()).await);
        assert_eq!(told.len(), STOCK);
        let deadline = Instant::now() + PATIENCE;
        let orders = loop {
            let (left, orders) = books(shop.url(), "").await;
            if left == lost && orders.len() == STOCK - lost {
                break orders;
            }
            assert!(Instant::now() < deadline, "{left} units and {} orders", orders.len());
            tokio::time::sleep(POLL).await;
        };
        assert!(orders.is_subset(&told));
    }
}

/// Logs a buyer of the course in.
async fn log_in(client: &Client, url: &str, phone: usize) -> String {
    let (_, told) = answer(post(client, format!("{url}/user/login"), format!("phone={phone}"))).await;
    told["data"].as_str().unwrap().to_owned()
}

/// Buys from the course, and polls until the purchase is decided. Returns the order, or the reason against it.
async fn buy_by_ticket(client: Client, url: String, token: String) -> Result<String, String> {
    let buy = client.post(format!("{url}/voucher-order/seckill/1")).header("authorization", token);
    let mut told = answer(buy).await;
    let ticket = told.1["data"].clone();
    let deadline = Instant::now() + PATIENCE;
    loop {
        assert_eq!(told.0, 200);
        if told.1["success"] == false {
            return Err(told.1["errorMsg"].as_str().unwrap().to_owned());
        }
        if told.1["data"]["status"] == "sold" {
            assert_eq!(told.1["data"]["orderId"], ticket);
            return Ok(ticket.to_string());
        }
        assert!(Instant::now() < deadline, "{told:?}");
        tokio::time::sleep(POLL).await;
        told = answer(client.get(format!("{url}/orders/{}", ticket.as_str().unwrap()))).await;
    }
}

/// Logs these buyers in, and lets them buy from the course at once. Returns the orders, and the reasons against the others.
async fn take_the_course(shop: &ShopProcess, phones: impl Iterator<Item = usize>) -> (Vec<String>, BTreeSet<String>) {
    let client = client();
    let mut tokens = Vec::new();
    for phone in phones {
        tokens.push(log_in(&client, shop.url(), phone).await);
    }
    let buy = |token| buy_by_ticket(client.clone(), shop.url().to_owned(), token);
    let purchases: JoinSet<_> = tokens.into_iter().map(buy).collect();
    let mut orders = Vec::new();
    let mut reasons = BTreeSet::new();
    for outcome in purchases.join_all().await {
        match outcome {
            Ok(order) => orders.push(order),
            Err(reason) => {
                reasons.insert(reason);
            }
        }
    }
    (orders, reasons)
}

#[tokio::test]
async fn a_course_sells_its_stock_and_one_unit_to_each_buyer() {
    let folder = TestFolder::new();
    let shop = start_on_sqlite("course_shop.py", &folder, "");
    let (orders, reasons) = take_the_course(&shop, [7; BUYERS].into_iter()).await;
    assert_eq!((orders.len(), reasons), (1, BTreeSet::from([TWICE.to_owned()])));
    answer(client().post(format!("{}/reset", shop.url()))).await;
    let (orders, reasons) = take_the_course(&shop, 0..BUYERS).await;
    assert_eq!((orders.len(), reasons), (STOCK, BTreeSet::from([SOLD_OUT.to_owned()])));
    assert_eq!(books(shop.url(), "/data").await, (0, set(orders)));
    let stranger = buy_by_ticket(client(), shop.url().to_owned(), "guess".to_owned()).await;
    assert_eq!(stranger, Err(NOT_LOGGED_IN.to_owned()));
}

#[tokio::test]
async fn a_wrong_course_oversells_even_to_a_single_buyer() {
    let folder = TestFolder::new();
    let shop = start_on_sqlite("course_shop.py", &folder, "--wrong --meet");
    let (orders, reasons) = take_the_course(&shop, [7; BUYERS].into_iter()).await;
    assert!(orders.len() > STOCK && !reasons.contains(TWICE), "{orders:?} {reasons:?}");
    assert_eq!(books(shop.url(), "/data").await.1, set(orders));
}

#[test]
fn every_shop_file_takes_the_address_of_a_running_shop() {
    let shop = ShopProcess::start("shop.js", &["--one-process"]);
    let files =
        ["course_shop.toml", "early_shop.toml", "form_shop.toml", "shop.toml", "shop_js.toml", "shop_postgres.toml"];
    for name in files {
        let text = shop.file(name, &[("stock = 100", "stock = 7")]);
        let table: toml::Table = toml::from_str(&text).unwrap();
        let described = table["shop"].as_table().unwrap();
        assert_eq!(described["urls"].as_array().unwrap()[0].as_str(), Some(shop.url()), "{name}");
        assert_eq!(described["stock"].as_integer(), Some(7), "{name}");
    }
    let there = fs::read_dir(shops()).unwrap().map(|file| file.unwrap().file_name().into_string().unwrap());
    let there: BTreeSet<_> = there.filter(|name| name.ends_with(".toml")).collect();
    assert_eq!(there, files.map(str::to_owned).into());
}
