//! Purchases at a shop by the real JMeter, k6 and Locust, and what their logs tell.
//!
//! Each engine runs on two "machines" of its own kind: two JMeter workers, two execution segments of k6, two Locust workers.

// C39

mod alike;
mod picky;
mod runs;

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::PathBuf;
use std::thread;
use std::time::Duration;

use loadgen::engines::{EngineLog, LoggedOutcome, LoggedRequest};
use nix::sys::signal::Signal;
use tokio::runtime::Runtime;

use self::runs::{PROPERTIES, export, in_time, k6, locust, read, run_plan};
use crate::jmeter::start_worker;
use crate::shops::{STOCK, ShopProcess, answer, client, start_on_sqlite};
use crate::support::{Running, TestFolder};

const USERS: usize = 40;

/// A running shop, and its file.
struct OpenShop {
    folder: TestFolder,
    shop: ShopProcess,
    /// Where its pages have their values.
    field: &'static str,
}

impl OpenShop {
    fn course(args: &str) -> OpenShop {
        OpenShop::start("course_shop", "/data", args)
    }

    fn start(name: &str, field: &'static str, args: &str) -> OpenShop {
        let folder = TestFolder::new();
        let shop = start_on_sqlite(&format!("{name}.py"), &folder, args);
        let text = shop.file(&format!("{name}.toml"), &[]);
        // The engines read no books.
        let text = text.split("[books]").next().unwrap();
        fs::write(folder.path("shop.toml"), text).unwrap();
        OpenShop { folder, shop, field }
    }

    fn reset(&self) {
        let reset = answer(client().post(format!("{}/reset", self.shop.url())));
        assert_eq!(block_on(reset).0, 200);
    }

    /// Returns each order of the books with its buyer.
    fn books(&self) -> BTreeMap<String, String> {
        let (_, page) = block_on(answer(client().get(format!("{}/orders", self.shop.url()))));
        let orders = page.pointer(self.field).unwrap()["orders"].as_array().unwrap();
        let text = |value: &serde_json::Value| value.as_str().unwrap().to_owned();
        orders.iter().map(|order| (text(&order["order"]), text(&order["buyer"]))).collect()
    }

    /// Expects that the logs have every buyer once, and every order of the books.
    fn assert_logged(&self, logs: &[EngineLog], is_right: bool) {
        assert!(logs.iter().all(|log| log.answers_seen));
        let requests: Vec<&LoggedRequest> = logs.iter().flat_map(|log| &log.requests).collect();
        let buyers: BTreeSet<usize> =
            requests.iter().map(|request| request.buyer.as_ref().unwrap().parse().unwrap()).collect();
        assert_eq!((requests.len(), buyers), (USERS, (0..USERS).collect()), "{requests:#?}");
        let is = |outcome| move |request: &&&LoggedRequest| request.outcome == Some(outcome);
        let sold = requests.iter().filter(is(LoggedOutcome::Sold));
        let told: BTreeMap<String, String> =
            sold.map(|request| (request.order.clone().unwrap(), request.buyer.clone().unwrap())).collect();
        assert_eq!(told, self.books(), "{requests:#?}");
        assert_eq!(requests.iter().filter(is(LoggedOutcome::SoldOut)).count(), USERS - told.len(), "{requests:#?}");
        assert!(if is_right { told.len() == STOCK } else { told.len() > STOCK }, "{told:#?}");
        let intended: BTreeSet<_> = requests.iter().map(|request| request.intended.unwrap()).collect();
        assert_eq!(intended.len(), 1, "all machines have one start");
        for request in requests {
            let label = if self.field.is_empty() { "Flask and SQLite" } else { "course on flash sales" };
            assert_eq!((&*request.label, request.trial), (label, Some(7)));
            // A clock of milliseconds may round down. The parts of a request that k6 adds up overlap on a busy machine.
            assert!(request.started + Duration::from_millis(100) >= request.intended.unwrap(), "{request:?}");
        }
    }

    /// Exports the purchases for an engine into this file.
    fn export(&self, engine: &str, file: &str) -> PathBuf {
        export(&self.folder, engine, file, USERS)
    }
}

fn block_on<T>(future: impl Future<Output = T>) -> T {
    Runtime::new().unwrap().block_on(future)
}

const HALVES: [&str; 2] = ["0:1/2", "1/2:1"];

#[test]
fn two_segments_of_k6_sell_exactly_the_stock_of_a_course() {
    let open = OpenShop::course("");
    let script = open.export("k6", "sale.js");
    let [json, csv] = in_time(|| open.reset(), |start| k6(&open.folder, &script, start, &HALVES));
    let logs = read(&json);
    open.assert_logged(&logs, true);
    // The first question for the outcome comes after 200 ms.
    let sold = logs.iter().flat_map(|log| &log.requests).filter(|request| request.order.is_some());
    assert!(sold.into_iter().all(|request| request.duration >= Duration::from_millis(200)));
    let rounded: Vec<_> = read(&csv).into_iter().flat_map(|log| log.requests).map(|request| request.order).collect();
    let exact: Vec<_> = logs.into_iter().flat_map(|log| log.requests).map(|request| request.order).collect();
    assert_eq!(rounded, exact, "both formats have the same purchases");
}

#[test]
fn k6_sees_that_a_wrong_shop_oversells() {
    let open = OpenShop::start("shop", "", "--wrong --meet");
    let script = open.export("k6", "sale.js");
    let [json, _] = in_time(|| open.reset(), |start| k6(&open.folder, &script, start, &HALVES));
    let logs = read(&json);
    open.assert_logged(&logs, false);
    // Without the purchases, the log is one of any script.
    let plain: Vec<PathBuf> = json
        .iter()
        .map(|path| {
            let text = fs::read_to_string(path).unwrap();
            let lines = text.lines().filter(|line| !line.contains("\"purchase\""));
            let plain = path.with_extension("plain");
            fs::write(&plain, lines.map(|line| format!("{line}\n")).collect::<String>()).unwrap();
            plain
        })
        .collect();
    let outcomes = |logs: &[EngineLog]| {
        let outcomes = logs.iter().flat_map(|log| &log.requests).map(|request| request.outcome.unwrap() as u8);
        let mut outcomes: Vec<u8> = outcomes.collect();
        outcomes.sort_unstable();
        outcomes
    };
    let by_status = read(&plain);
    assert!(by_status.iter().all(|log| !log.answers_seen));
    assert_eq!(outcomes(&by_status), outcomes(&logs));
}

#[test]
fn two_locust_workers_sell_exactly_the_stock_of_a_course() {
    let open = OpenShop::course("");
    let script = open.export("locust", "locustfile.py");
    let logs = read(&in_time(|| open.reset(), |start| locust(&open.folder, &script, start, USERS)));
    open.assert_logged(&logs, true);
}

#[test]
fn locust_sees_that_a_wrong_shop_oversells() {
    let open = OpenShop::start("shop", "", "--wrong --meet");
    let script = open.export("locust", "locustfile.py");
    let logs = read(&in_time(|| open.reset(), |start| locust(&open.folder, &script, start, USERS)));
    open.assert_logged(&logs, false);
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
    open.assert_logged(&read(&in_time(|| open.reset(), run)), true);
    for (_, worker) in workers {
        worker.signal(Signal::SIGTERM);
        worker.wait();
    }
}

#[test]
fn jmeter_sees_that_a_wrong_shop_oversells() {
    let open = OpenShop::start("shop", "", "--wrong --meet");
    let plan = open.export("jmeter", "sale.jmx");
    let run = |start: &str| {
        let args = [format!("-JSTART_AT={start}"), "-JTRIAL=7".to_owned()];
        run_plan(&open.folder, &plan, &args, USERS)
    };
    open.assert_logged(&read(&in_time(|| open.reset(), run)), false);
}
