//! Purchases at a shop by the real JMeter, k6 and Locust, what their logs tell, and how they are judged.
//!
//! Each engine runs on two "machines" of its own kind: two JMeter workers, two execution segments of k6, two Locust workers.

// C39, C46

mod alike;
mod picky;
mod runs;

use std::collections::BTreeSet;
use std::fs;
use std::path::PathBuf;
use std::thread;
use std::time::Duration;

use loadgen::engines::{LoggedRequest, NO_PURCHASE};
use nix::sys::signal::Signal;
use serde_json::{Value, json};

use self::runs::{PROPERTIES, export, in_time, k6, locust, read, run_plan};
use crate::jmeter::start_worker;
use crate::shops::{STOCK, ShopProcess, start_on_sqlite};
use crate::support::{Finished, Running, TestFolder, finish};

const USERS: usize = 40;

/// A running shop, and its file.
struct OpenShop {
    folder: TestFolder,
    _shop: ShopProcess,
    /// Its name in the logs.
    label: &'static str,
}

impl OpenShop {
    fn course(args: &str) -> OpenShop {
        OpenShop::start("course_shop", "course on flash sales", args)
    }

    fn wrong() -> OpenShop {
        OpenShop::start("shop", "Flask and SQLite", "--wrong --meet")
    }

    fn start(name: &str, label: &'static str, args: &str) -> OpenShop {
        let folder = TestFolder::new();
        let shop = start_on_sqlite(&format!("{name}.py"), &folder, args);
        let text = shop.file(&format!("{name}.toml"), &[("stock = 100", "stock = 10")]);
        fs::write(folder.path("shop.toml"), text).unwrap();
        OpenShop { folder, _shop: shop, label }
    }

    /// Puts the stock on sale, and notes the books from before.
    fn put_on_sale(&self) {
        let ended = finish(&mut self.folder.loadgen(["judge", "--shop", "shop.toml", "--put-on-sale", "before.json"]));
        assert_eq!(ended.code, Some(0), "{}", ended.stderr);
        assert!(ended.stdout.starts_with(&format!("on sale: {STOCK} units at {}\n", self.label)), "{}", ended.stdout);
    }

    /// Judges logs. Returns the report.
    fn judge(&self, logs: &[PathBuf], args: &[&str]) -> (Finished, Value) {
        let mut judge = self.folder.loadgen(["judge", "--shop", "shop.toml", "--out", "judged"]);
        let ended = finish(judge.args(logs).args(args));
        let report = self.folder.path("judged/report.json");
        let report = fs::read(report).unwrap_or_else(|_| panic!("{}{}", ended.stdout, ended.stderr));
        (ended, serde_json::from_slice(&report).unwrap())
    }

    /// Expects that the logs have every buyer once, and that their judgement is right by the books of the database.
    fn assert_judged(&self, paths: &[PathBuf], is_right: bool) {
        let logs = read(paths);
        assert!(logs.iter().all(|log| log.answers_seen));
        let requests: Vec<&LoggedRequest> = logs.iter().flat_map(|log| &log.requests).collect();
        let buyers: BTreeSet<usize> =
            requests.iter().map(|request| request.buyer.as_ref().unwrap().parse().unwrap()).collect();
        assert_eq!((requests.len(), buyers), (USERS, (0..USERS).collect()), "{requests:#?}");
        let intended: BTreeSet<_> = requests.iter().map(|request| request.intended.unwrap()).collect();
        assert_eq!(intended.len(), 1, "all machines have one start");
        for request in requests {
            assert_eq!((&*request.label, request.trial), (self.label, Some(7)));
            // A clock of milliseconds may round down. The parts of a request that k6 adds up overlap on a busy machine.
            assert!(request.started + Duration::from_millis(100) >= request.intended.unwrap(), "{request:?}");
        }
        let (ended, report) = self.judge(paths, &["--before", "before.json"]);
        let trial = &report["trials"][0];
        let sold = trial["answers"]["sold"].as_u64().unwrap();
        assert_eq!(sold + trial["answers"]["sold_out"].as_u64().unwrap(), USERS as u64, "{}", trial["answers"]);
        // Every order that a buyer was told of is in the database, and no other one.
        assert_eq!(trial["audit"]["sold"].as_u64(), Some(sold), "{}", trial["audit"]);
        assert_eq!((&trial["ledger_balanced"], &trial["evidence"]), (&json!(true), &json!("database")));
        let words = if is_right {
            // On a busy machine the engine is the bottleneck.
            ended.assert_kept();
            "sold exactly the 10 units"
        } else {
            assert_eq!(ended.code, Some(2), "{}", ended.stdout);
            "sold wrongly in the one trial"
        };
        let oversold = if is_right { 0 } else { sold - STOCK as u64 };
        assert_eq!(trial["audit"]["oversold"].as_u64(), Some(oversold), "{}", ended.stdout);
        assert!(ended.stdout.contains(words), "{}", ended.stdout);
        let clocks = report["caveats"].to_string().contains("of each other, clocks not compared");
        assert_eq!(clocks, paths.len() > 1, "{}", report["caveats"]);
    }

    /// Exports the purchases for an engine into this file.
    fn export(&self, engine: &str, file: &str) -> PathBuf {
        export(&self.folder, engine, file, USERS)
    }
}

const HALVES: [&str; 2] = ["0:1/2", "1/2:1"];

#[test]
fn two_segments_of_k6_sell_exactly_the_stock_of_a_course() {
    let open = OpenShop::course("");
    let script = open.export("k6", "sale.js");
    let [json, csv] = in_time(|| open.put_on_sale(), |start| k6(&open.folder, &script, start, &HALVES));
    open.assert_judged(&json, true);
    let logs = read(&json);
    // The first question for the outcome comes after 200 ms.
    let sold = logs.iter().flat_map(|log| &log.requests).filter(|request| request.order.is_some());
    assert!(sold.into_iter().all(|request| request.duration >= Duration::from_millis(200)));
    let rounded: Vec<_> = read(&csv).into_iter().flat_map(|log| log.requests).map(|request| request.order).collect();
    let exact: Vec<_> = logs.into_iter().flat_map(|log| log.requests).map(|request| request.order).collect();
    assert_eq!(rounded, exact, "both formats have the same purchases");
}

#[test]
fn k6_sees_that_a_wrong_shop_oversells() {
    let open = OpenShop::wrong();
    let script = open.export("k6", "sale.js");
    let [json, _] = in_time(|| open.put_on_sale(), |start| k6(&open.folder, &script, start, &HALVES));
    open.assert_judged(&json, false);
    // Without the purchases, the log is one of any script.
    let plain: Vec<PathBuf> = json
        .iter()
        .map(|path| {
            let text = fs::read_to_string(path).unwrap();
            let text = text.replace(NO_PURCHASE, "");
            let lines = text.lines().filter(|line| !line.contains("\"purchase\""));
            let plain = path.with_extension("plain");
            fs::write(&plain, lines.map(|line| format!("{line}\n")).collect::<String>()).unwrap();
            plain
        })
        .collect();
    let counts = |report: &Value| report["trials"][0]["answers"].clone();
    let (ended, by_answers) = open.judge(&json, &["--no-books"]);
    assert!(ended.stdout.contains("by answers alone") && ended.code == Some(2), "{}", ended.stdout);
    let (ended, by_status) = open.judge(&plain, &["--no-books"]);
    assert!(ended.stdout.contains("by statuses alone, answers not seen"), "{}", ended.stdout);
    assert_eq!((counts(&by_status), ended.code), (counts(&by_answers), Some(2)));
}

#[test]
fn two_locust_workers_sell_exactly_the_stock_of_a_course() {
    let open = OpenShop::course("");
    let script = open.export("locust", "locustfile.py");
    let logs = in_time(|| open.put_on_sale(), |start| locust(&open.folder, &script, start, USERS));
    open.assert_judged(&logs, true);
}

#[test]
fn locust_sees_that_a_wrong_shop_oversells() {
    let open = OpenShop::wrong();
    let script = open.export("locust", "locustfile.py");
    let logs = in_time(|| open.put_on_sale(), |start| locust(&open.folder, &script, start, USERS));
    open.assert_judged(&logs, false);
}

#[test]
fn two_jmeter_workers_sell_exactly_the_stock_of_a_course() {
    let open = OpenShop::course("");
    let plan = open.export("jmeter", "sale.jmx");
    let worker = &|offset: usize| {
        let own = [format!("-JOFFSET={offset}"), format!("-JTHREADS={}", USERS / 2)];
        let args: Vec<String> = PROPERTIES.map(str::to_owned).into_iter().chain(own).collect();
        start_worker(&open.folder.path(&format!("worker-{offset}")), &args)
    };
    let workers: Vec<(u16, Running)> = thread::scope(|scope| {
        let workers = [0, USERS / 2].map(|offset| scope.spawn(move || worker(offset)));
        workers.into_iter().map(|worker| worker.join().unwrap()).collect()
    });
    let remote = workers.iter().map(|(port, _)| format!("127.0.0.1:{port}")).collect::<Vec<_>>().join(",");
    let run = |start: &str| {
        let args = ["-R".to_owned(), remote.clone(), format!("-GSTART_AT={start}"), "-GTRIAL=7".to_owned()];
        run_plan(&open.folder, &plan, &args, USERS)
    };
    open.assert_judged(&in_time(|| open.put_on_sale(), run), true);
    for (_, worker) in workers {
        worker.signal(Signal::SIGTERM);
        worker.wait();
    }
}

#[test]
fn jmeter_sees_that_a_wrong_shop_oversells() {
    let open = OpenShop::wrong();
    let plan = open.export("jmeter", "sale.jmx");
    let run = |start: &str| {
        let args = [format!("-JSTART_AT={start}"), "-JTRIAL=7".to_owned()];
        run_plan(&open.folder, &plan, &args, USERS)
    };
    open.assert_judged(&in_time(|| open.put_on_sale(), run), false);
}
