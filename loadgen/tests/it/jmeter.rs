//! Exported plans, run by the real JMeter: on one machine, and on two that are controlled by a third one.

// C33

use std::collections::BTreeMap;
use std::fs;
use std::net::SocketAddr;
use std::path::Path;
use std::process::Command;
use std::sync::{Arc, Mutex};

use axum::Router;
use axum::extract::{ConnectInfo, State};
use axum::http::{StatusCode, Uri};
use nix::sys::signal::Signal;

use crate::support::{PATIENCE, Running, TestFolder, eventually, exports, finish, free_port};

const USERS: usize = 120;
const STOCK: usize = 60;

/// Prepares JMeter in a folder of its own for the files that it leaves.
pub(crate) fn jmeter(folder: &Path) -> Command {
    let shim = Path::new(env!("CARGO_MANIFEST_DIR")).with_file_name("jmeter/JMeter.java");
    let mut jmeter = testbed::jmeter(&shim).unwrap_or_else(|error| panic!("{error}"));
    fs::create_dir_all(folder).unwrap();
    jmeter.current_dir(folder).arg("-j").arg(folder.join("jmeter.log"));
    jmeter
}

/// One sample, by the names of the columns.
type LoggedSample = BTreeMap<String, String>;

/// A running service with less stock than its buyers want.
struct Sale {
    folder: TestFolder,
    service: Running,
    variables: BTreeMap<String, String>,
}

impl Sale {
    fn open() -> Sale {
        let folder = TestFolder::new();
        let stock = STOCK.to_string();
        let up = ["up", "--instances", "2", "--zk-sessions", "60", "--lock-wait", "60s", "--stock", &stock];
        let service = Running::start(&mut folder.throwaway_lab(up));
        let variables = exports(&service.until_stdout("# what was sold"));
        Sale { folder, service, variables }
    }

    fn urls(&self) -> Vec<&str> {
        self.variables["SECKILL_URLS"].split(',').collect()
    }

    /// Exports a plan for all instances and runs it. Returns its log of results.
    fn run(&self, load: &str, args: &[String]) -> Vec<LoggedSample> {
        run_at(&self.folder, &self.variables["SECKILL_URLS"], load, args)
    }

    /// Starts a sale of a SKU for this strategy.
    fn put(&self, goods_no: i64, strategy: &str) {
        let url = format!("{}/admin/goods/{goods_no}", self.urls()[0]);
        let request = reqwest::Client::new().put(url).bearer_auth(&self.variables["ADMIN_TOKEN"]);
        let answer =
            block_on(request.json(&serde_json::json!({ "stock": STOCK, "strategy": strategy })).send()).unwrap();
        assert_eq!(answer.status().as_u16(), 200);
    }

    /// Expects that exactly the stock was sold, by the answers to JMeter and by the database.
    fn assert_sold_exactly_the_stock(&self, samples: &[LoggedSample]) {
        let count = |column: &str, value: &str| samples.iter().filter(|sample| sample[column] == value).count();
        assert_eq!(samples.len(), USERS);
        assert_eq!(
            (count("responseCode", "200"), count("responseCode", "409")),
            (STOCK, USERS - STOCK),
            "{samples:#?}"
        );
        assert_eq!(count("success", "true"), USERS, "whoever is told that everything is sold has an answer");
        let ordered = "select coalesce(sum(quantity), 0)::bigint from order_lines";
        let ordered: i64 = block_on(async {
            let pool = sqlx::PgPool::connect(&self.variables["DATABASE_URL"]).await.unwrap();
            sqlx::query_scalar(ordered).fetch_one(&pool).await.unwrap()
        });
        assert_eq!(ordered, i64::try_from(STOCK).unwrap());
    }

    fn close(self) {
        self.service.signal(Signal::SIGINT);
        assert_eq!(self.service.wait().0.code(), Some(0));
    }
}

/// Exports a plan for these instances and runs it. Returns its log of results.
fn run_at(folder: &TestFolder, target: &str, load: &str, args: &[String]) -> Vec<LoggedSample> {
    let [plan, results] = ["seckill.jmx", "result.jtl"].map(|name| folder.path(name));
    let mut export = folder.lab(["export", "jmeter", "--target", target]);
    let exported = finish(export.args(load.split(' ')).arg("--out").arg(&plan));
    assert_eq!((exported.code, exported.stdout.as_str()), (Some(0), ""), "{}", exported.stderr);
    // JMeter would append to an old log.
    let _ = fs::remove_file(&results);
    let mut jmeter = jmeter(&folder.path("jmeter"));
    jmeter.arg("-n").arg("-t").arg(&plan).arg("-l").arg(&results);
    // By default, 2.13 writes neither.
    for column in ["print_field_names", "url"] {
        jmeter.arg(format!("-Jjmeter.save.saveservice.{column}=true"));
    }
    let (status, stdout) = Running::start(jmeter.args(args)).wait();
    assert!(status.success(), "{stdout}");
    let mut reader = csv::Reader::from_path(results).unwrap_or_else(|error| panic!("{error}: {stdout}"));
    reader.deserialize().collect::<Result<_, _>>().unwrap()
}

/// Returns the requests that buy. Expects `warm_ups` others, all answered.
fn purchases(samples: Vec<LoggedSample>, warm_ups: usize) -> Vec<LoggedSample> {
    let (warm_up, purchases): (Vec<LoggedSample>, Vec<LoggedSample>) =
        samples.into_iter().partition(|sample| sample["label"] == "warm-up: no purchase");
    assert_eq!(warm_up.len(), warm_ups, "{warm_up:#?}");
    assert!(warm_up.iter().all(|sample| sample["responseCode"] == "200"), "{warm_up:#?}");
    purchases
}

fn block_on<T>(future: impl Future<Output = T>) -> T {
    tokio::runtime::Runtime::new().unwrap().block_on(future)
}

/// Counts the samples of each of these targets.
fn asked(samples: &[LoggedSample], urls: &[&str], goods: &[i64]) -> Vec<usize> {
    let at = |url: &str, goods: i64| {
        let target = format!("{url}/goods-stock/{goods}?strategy=");
        samples.iter().filter(|sample| sample["URL"].starts_with(&target)).count()
    };
    urls.iter().flat_map(|url| goods.iter().map(|goods| at(url, *goods))).collect()
}

fn burst() -> String {
    format!("--users {USERS} --strategies zk-mutex --lock-wait 60s")
}

#[test]
fn an_exported_plan_lets_jmeter_sell_exactly_the_stock() {
    let sale = Sale::open();
    sale.put(1, "zk-mutex");
    let samples = purchases(sale.run(&burst(), &[]), USERS);
    sale.assert_sold_exactly_the_stock(&samples);
    assert_eq!(asked(&samples, &sale.urls(), &[1]), [USERS / 2; 2], "buyers take turns in the instances");
    assert!(samples.iter().all(|sample| sample["threadName"].starts_with("buyers 1-")), "{samples:#?}");
    sale.close();
}

#[test]
fn jmeter_asks_for_each_ticket_until_it_is_decided() {
    let sale = Sale::open();
    sale.put(1, "pg-queue");
    let samples = purchases(sale.run(&burst().replace("zk-mutex", "pg-queue"), &[]), USERS);
    let (asking, bought): (Vec<_>, Vec<_>) =
        samples.into_iter().partition(|sample| sample["label"] == "GET /tickets/{ticket}");
    let decided = |samples: Vec<LoggedSample>| samples.into_iter().filter(|sample| sample["responseCode"] != "202");
    assert!(asking.iter().all(|sample| sample["success"] == "true"), "{asking:#?}");
    assert!(bought.iter().any(|sample| sample["responseCode"] == "202"), "{bought:#?}");
    let decided: Vec<_> = decided(asking).chain(decided(bought)).collect();
    sale.assert_sold_exactly_the_stock(&decided);
    sale.close();
}

/// Goal: the time for a ticket begins with the answer. Method: the pace of a thread is slower than that time, so a time that began with
/// the wait for the pace would be over.
#[test]
fn jmeter_leaves_a_ticket_that_nobody_decides() {
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let listener = runtime.block_on(tokio::net::TcpListener::bind(("127.0.0.1", 0))).unwrap();
    let target = format!("http://{}", listener.local_addr().unwrap());
    let ticket = r#"{"ticket":7,"goods_no":1,"sale":7,"quantity":1}"#;
    let shop = Router::new().fallback(async move || (StatusCode::ACCEPTED, ticket));
    runtime.spawn(async move { axum::serve(listener, shop).await });
    let load = "--users 2 --rate 1 --duration 5s --strategies pg-queue";
    let samples = run_at(&TestFolder::new(), &target, load, &["-JaskWithin=900".to_owned()]);
    let mut is_asked_of: BTreeMap<&str, Vec<bool>> = BTreeMap::new();
    for sample in samples.iter().filter(|sample| sample["threadName"].starts_with("buyers")) {
        is_asked_of.entry(&sample["threadName"]).or_default().push(sample["label"] == "GET /tickets/{ticket}");
    }
    assert_eq!(is_asked_of.len(), 2);
    for is_asked in is_asked_of.values() {
        assert!(is_asked.iter().filter(|is_asked| !**is_asked).count() > 1, "{samples:#?}");
        assert!(is_asked.windows(2).all(|two| two[0] || two[1]), "a ticket is not asked for: {samples:#?}");
    }
}

#[test]
fn jmeter_runs_the_plans_of_all_other_models_to_their_end() {
    let sale = Sale::open();
    [1, 2].into_iter().for_each(|goods_no| sale.put(goods_no, "pg-conditional"));
    for (load, samples_min, samples_max) in [
        ("--users 12 --ramp-up 1s", 12, 12),
        // Long enough for a thread to ask again, even on a busy machine.
        ("--users 4 --duration 5s", 5, usize::MAX),
        // Twenty requests per second, by ten threads that ask four times each. On a busy machine the end comes before the
        // last ones.
        ("--users 10 --rate 20 --duration 2s", 10, 40),
    ] {
        let samples = sale.run(&format!("{load} --strategies pg-conditional --goods 2"), &[]);
        let warm_ups = usize::from(!load.contains("--users 4"));
        assert_warmed_up(&samples);
        let samples = purchases(samples, warm_ups);
        assert!((samples_min..=samples_max).contains(&samples.len()), "{load}: {} samples", samples.len());
        assert!(samples.iter().all(|sample| sample["success"] == "true"), "{load}: {samples:#?}");
        let targets = asked(&samples, &sale.urls(), &[1, 2]);
        assert_eq!(targets.iter().sum::<usize>(), samples.len(), "{load}: {samples:#?}");
        let least = targets.iter().min().unwrap();
        let most = targets.iter().max().unwrap();
        // A thread may take another target before it notices that the time is over.
        assert!(most - least <= 4, "{load}: every request takes the next target, but there were {targets:?}");
    }
    sale.close();
}

/// Expects that JMeter had loaded its classes before the first buyer asked. Otherwise the threads that start meanwhile would
/// ask at the same instant and ignore their pace.
fn assert_warmed_up(samples: &[LoggedSample]) {
    let ms = |sample: &LoggedSample, column: &str| sample[column].parse::<u64>().unwrap();
    let (warm_ups, buyers): (Vec<&LoggedSample>, Vec<&LoggedSample>) =
        samples.iter().partition(|sample| sample["label"] == "warm-up: no purchase");
    let first = buyers.into_iter().map(|sample| ms(sample, "timeStamp")).min().unwrap();
    let ended = |sample: &&LoggedSample| ms(sample, "timeStamp") + ms(sample, "elapsed") <= first;
    assert!(warm_ups.iter().all(ended), "{first}: {warm_ups:#?}");
}

/// The requests at these paths, by the address of each connection.
type Asked = Arc<Mutex<BTreeMap<SocketAddr, Vec<String>>>>;
/// The answers to purchases, the last one first.
type ScriptedAnswers = Arc<Mutex<Vec<(StatusCode, &'static str)>>>;

/// Answers like a shop behind a proxy, with another answer to each purchase.
async fn answer(
    State((asked, answers)): State<(Asked, ScriptedAnswers)>,
    ConnectInfo(peer): ConnectInfo<SocketAddr>,
    uri: Uri,
) -> (StatusCode, &'static str) {
    asked.lock().unwrap().entry(peer).or_default().push(uri.path().to_owned());
    if uri.path() == "/healthz" { (StatusCode::OK, "") } else { answers.lock().unwrap().pop().unwrap() }
}

#[test]
fn only_the_shop_itself_tells_jmeter_that_all_is_sold() {
    let receipt = r#"{"goods_no":1,"sale":7,"order_id":12,"quantity":1,"remaining":99}"#;
    let sold_out = r#"{"type":"urn:seckill-lab:problem:sold-out","title":"t","status":409,"detail":"d"}"#;
    let other = r#"{"type":"urn:seckill-lab:problem:new-one","title":"t","status":409,"detail":"d"}"#;
    let refused = r#"{"type":"urn:seckill-lab:problem:lock-timeout","title":"t","status":503,"detail":"d"}"#;
    let ok = StatusCode::OK;
    let conflict = StatusCode::CONFLICT;
    let right = [(ok, receipt), (conflict, sold_out)];
    let wrong = [
        (conflict, other),
        (conflict, "<html>"),
        (conflict, ""),
        (ok, "sold!"),
        (StatusCode::SERVICE_UNAVAILABLE, refused),
    ];
    let answers = [&right[..], &wrong].concat();
    let asked = Asked::default();
    let users = answers.len();
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let listener = runtime.block_on(tokio::net::TcpListener::bind(("127.0.0.1", 0))).unwrap();
    let target = format!("http://{}", listener.local_addr().unwrap());
    let shop = Router::new().fallback(answer).with_state((Arc::clone(&asked), Arc::new(Mutex::new(answers))));
    let shop = shop.into_make_service_with_connect_info::<SocketAddr>();
    runtime.spawn(async move { axum::serve(listener, shop).await });

    let load = format!("--users {users} --strategies zk-mutex");
    let samples = purchases(run_at(&TestFolder::new(), &target, &load, &[]), users);
    let mut answered: Vec<_> = samples.iter().map(|sample| (&*sample["responseCode"], &*sample["success"])).collect();
    answered.sort_unstable();
    let conflicts = [("409", "false"), ("409", "false"), ("409", "false"), ("409", "true")];
    assert_eq!(answered, [&[("200", "false"), ("200", "true")], &conflicts[..], &[("503", "false")]].concat());
    // Every thread buys over the connection that its warm-up has opened.
    let asked = asked.lock().unwrap();
    let expected = ["/healthz", "/goods-stock/1"].map(str::to_owned);
    assert_eq!((asked.len(), asked.values().all(|paths| *paths == expected)), (users, true), "{asked:#?}");
}

/// Starts a worker, and waits until it can be reached. Returns its port.
pub(crate) fn start_worker(folder: &Path, args: &[String]) -> (u16, Running) {
    let port = free_port();
    let mut worker = jmeter(folder);
    worker.arg("-s").arg(format!("-Jserver_port={port}")).args(args);
    let worker = Running::start(worker.arg(format!("-Jserver.rmi.localport={}", free_port())));
    // Only its log tells when it can be reached.
    let is_bound = |log: &str| log.contains(&format!("Bound to registry on port {port}"));
    let log = folder.join("jmeter.log");
    eventually("a worker can be reached", PATIENCE, || fs::read_to_string(&log).is_ok_and(|log| is_bound(&log)));
    (port, worker)
}

#[test]
fn two_remote_jmeter_workers_sell_exactly_the_stock() {
    let sale = Sale::open();
    sale.put(1, "zk-mutex");
    let workers: Vec<(u16, Running)> = (0..2)
        .map(|_| {
            let folder = sale.folder.path(&format!("worker-{}", free_port()));
            start_worker(&folder, &[])
        })
        .collect();
    let remote = workers.iter().map(|(port, _)| format!("127.0.0.1:{port}")).collect::<Vec<_>>().join(",");
    let samples = sale.run(&burst(), &["-R".to_owned(), remote, format!("-Gthreads={}", USERS / workers.len())]);
    sale.assert_sold_exactly_the_stock(&purchases(samples, USERS));
    for (port, worker) in workers {
        worker.until_stdout(&format!("Finished the test on host 127.0.0.1:{port}"));
        worker.signal(Signal::SIGTERM);
        worker.wait();
    }
    sale.close();
}
