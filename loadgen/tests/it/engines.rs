//! Purchases at a shop by the real JMeter, k6 and Locust, and what their logs tell.
//!
//! Each engine runs on two "machines" of its own kind: two JMeter workers, two execution segments of k6, two Locust workers.

mod picky;

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::thread;
use std::time::{Duration, SystemTime};

use buyers::script::{Meanings, Pattern};
use loadgen::engines::{self, EngineLog, LoggedOutcome, LoggedRequest};
use nix::sys::signal::Signal;
use tokio::runtime::Runtime;

use self::picky::PickyShop;
use crate::jmeter::{jmeter, start_worker};
use crate::shops::{STOCK, ShopProcess, answer, client, start_on_sqlite};
use crate::support::{Finished, PATIENCE, Running, TestFolder, eventually, finish, free_port};

const USERS: usize = 40;

/// Properties that every JMeter of a run needs.
const PROPERTIES: [&str; 3] = [
    "-Jsample_variables=trial,intended,outcome,buyer,order",
    "-Jjmeter.save.saveservice.print_field_names=true",
    "-Jhttpclient4.retrycount=0",
];

/// Times from now to the start, in seconds. A machine that is too slow for one takes the next one.
const LEADS_S: [u64; 6] = [4, 8, 16, 32, 64, 128];

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
            // A clock of milliseconds may round down.
            assert!(request.started + Duration::from_millis(2) >= request.intended.unwrap(), "{request:?}");
        }
    }

    /// Exports the purchases for an engine into this file.
    fn export(&self, engine: &str, file: &str) -> PathBuf {
        export(&self.folder, engine, file, USERS)
    }
}

fn export(folder: &TestFolder, engine: &str, file: &str, users: usize) -> PathBuf {
    let out = folder.path(file);
    let users = users.to_string();
    let mut export = folder.loadgen(["export", engine, "--shop", "shop.toml", "--users", &users, "--out", file]);
    let exported = finish(export.env("KEY", picky::KEY));
    assert_eq!((exported.code, exported.stdout.as_str()), (Some(0), ""), "{}", exported.stderr);
    out
}

fn block_on<T>(future: impl Future<Output = T>) -> T {
    Runtime::new().unwrap().block_on(future)
}

/// Runs an engine until the start is far enough ahead: `run` gets the start, and returns nothing if it was over too early.
fn in_time<T>(reset: impl Fn(), mut run: impl FnMut(&str) -> Option<T>) -> T {
    let mut runs = LEADS_S.iter().filter_map(|lead_s| {
        reset();
        run(&humantime::format_rfc3339_seconds(SystemTime::now() + Duration::from_secs(*lead_s)).to_string())
    });
    runs.next().expect("every start was over before the engine was ready")
}

/// Returns a program of the environment of engines.
fn program(name: &str) -> Command {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).with_file_name("target/engines-python/bin").join(name);
    assert!(path.is_file(), "{} not found; run: make deps-test", path.display());
    Command::new(path)
}

fn meanings() -> Meanings {
    let named = |status| vec![Pattern { statuses: vec![status], values: Vec::new() }];
    Meanings { sold: named(201), sold_out: named(409), refused: named(503), queued: named(202) }
}

fn read(paths: &[PathBuf]) -> Vec<EngineLog> {
    engines::read(paths, &meanings()).unwrap_or_else(|error| panic!("{error}"))
}

/// Tells whether a run was refused because of its start. Panics if it failed for another reason.
fn is_late(ended: &[Finished]) -> bool {
    for Finished { code, stdout, stderr } in ended {
        let output = format!("{stdout}{stderr}");
        if output.contains("is over; set START_AT") {
            return true;
        }
        assert_eq!(*code, Some(0), "{output}");
    }
    false
}

/// Lets k6 buy as two machines. Returns their logs in JSON and in CSV.
fn k6(folder: &TestFolder, script: &Path, start: &str, parts: &[&str]) -> Option<[Vec<PathBuf>; 2]> {
    let machine = |number: usize, part: &str| {
        let mut k6 = program("k6");
        k6.args(["run", "--quiet", "--no-usage-report", "--address", "127.0.0.1:0", "--execution-segment", part]);
        for (format, at) in
            [("json", folder.path(&format!("{number}.json"))), ("csv", folder.path(&format!("{number}.csv")))]
        {
            k6.arg("--out").arg(format!("{format}={}", at.display()));
        }
        k6.env("START_AT", start).env("TRIAL", "7").env("KEY", picky::KEY).env("K6_CSV_TIME_FORMAT", "unix_nano");
        if parts.len() > 1 {
            k6.args(["--execution-segment-sequence", "0,1/2,1"]);
        }
        finish(k6.current_dir(folder.path("")).arg(script))
    };
    let ended: Vec<Finished> = thread::scope(|scope| {
        let machines: Vec<_> =
            (1..).zip(parts).map(|(number, part)| scope.spawn(move || machine(number, part))).collect();
        machines.into_iter().map(|machine| machine.join().unwrap()).collect()
    });
    if is_late(&ended) {
        return None;
    }
    let logs = |end: &str| (1..=parts.len()).map(|number| folder.path(&format!("{number}.{end}"))).collect();
    Some([logs("json"), logs("csv")])
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

/// Lets Locust buy with a master and two workers. Returns their logs.
fn locust(folder: &TestFolder, script: &Path, start: &str, users: usize) -> Option<Vec<PathBuf>> {
    let port = free_port().to_string();
    let start_one = |args: &[&str]| {
        let mut locust = program("locust");
        locust.arg("-f").arg(script).args(["--headless", "--only-summary"]).args(args).current_dir(folder.path(""));
        let settings = [
            ("START_AT", start),
            ("TRIAL", "7"),
            ("WORKERS", "2"),
            ("KEY", picky::KEY),
            ("PYTHONDONTWRITEBYTECODE", "1"),
        ];
        Running::start(locust.envs(settings))
    };
    let users = users.to_string();
    let bind = ["--master", "--master-bind-host", "127.0.0.1", "--master-bind-port", &port, "--expect-workers", "2"];
    let master = [&bind[..], &["-u", &users, "-r", &users]].concat();
    let worker = ["--worker", "--master-host", "127.0.0.1", "--master-port", &port];
    let mut all = [start_one(&master), start_one(&worker), start_one(&worker)];
    eventually("locust ends", PATIENCE, || all.iter_mut().any(Running::has_ended));
    let [master, workers @ ..] = all;
    // The master ends first, and then it ends its workers. A process that refuses its start ends alone.
    let logs = ["purchases-0.csv", "purchases-1.csv"].map(|name| folder.path(name));
    if !logs.iter().all(|log| log.is_file()) {
        return None;
    }
    for process in [master].into_iter().chain(workers) {
        let (status, output) = process.wait();
        assert!(status.success(), "{output}");
    }
    Some(logs.to_vec())
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

/// Runs a plan. Returns its log, or nothing if it has fewer purchases.
fn run_plan(folder: &TestFolder, plan: &Path, args: &[String], purchases: usize) -> Option<Vec<PathBuf>> {
    let log = folder.path("purchases.jtl");
    // JMeter would append to an old log.
    let _ = fs::remove_file(&log);
    let mut jmeter = jmeter(&folder.path("jmeter"));
    jmeter.current_dir(folder.path("")).arg("-n").arg("-t").arg(plan).arg("-l").arg(&log);
    let (status, stdout) = Running::start(jmeter.args(PROPERTIES).args(args).env("KEY", picky::KEY)).wait();
    assert!(status.success(), "{stdout}");
    let lines = fs::read_to_string(&log).unwrap();
    let count = lines.lines().skip(1).filter(|line| !line.contains(engines::NO_PURCHASE)).count();
    (count == purchases).then(|| vec![log])
}

#[test]
fn two_jmeter_workers_sell_exactly_the_stock_of_a_course() {
    let open = OpenShop::course("");
    let plan = open.export("jmeter", "sale.jmx");
    let workers: Vec<(u16, Running)> = [0, USERS / 2]
        .into_iter()
        .map(|offset| {
            let own = [format!("-JOFFSET={offset}"), format!("-JTHREADS={}", USERS / 2)];
            let args: Vec<String> = PROPERTIES.map(str::to_owned).into_iter().chain(own).collect();
            start_worker(&open.folder.path(&format!("worker-{offset}")), &args)
        })
        .collect();
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

/// The buyers of the picky shop, in the order of its CSV file.
const PICKY: [(&str, LoggedOutcome); 6] = [
    ("17", LoggedOutcome::Sold),
    ("late", LoggedOutcome::Timeout),
    ("broken", LoggedOutcome::Error),
    ("empty", LoggedOutcome::SoldOut),
    ("forever", LoggedOutcome::Timeout),
    ("busy", LoggedOutcome::Refused),
];

/// Lets an engine buy at a picky shop of its own, and checks what it sent and logged.
fn buy_at_picky(engine: &str, file: &str, run: impl Fn(&TestFolder, &Path, &str) -> Option<Vec<PathBuf>>) {
    let folder = TestFolder::new();
    let shop = PickyShop::start();
    let files = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/it/engines");
    let text = fs::read_to_string(files.join("picky.toml")).unwrap().replace("http://127.0.0.1:8000", &shop.url);
    fs::write(folder.path("shop.toml"), text).unwrap();
    fs::copy(files.join("picky.csv"), folder.path("picky.csv")).unwrap();
    let exported = export(&folder, engine, file, PICKY.len());
    assert!(!fs::read_to_string(&exported).unwrap().contains(picky::KEY), "a secret is written out");
    let logs = in_time(|| drop(shop.requests()), |start| run(&folder, &exported, start));
    assert_picky(&shop, &read(&logs));
}

#[test]
fn all_engines_send_the_same_and_read_the_same() {
    thread::scope(|scope| {
        scope.spawn(|| {
            buy_at_picky("k6", "sale.js", |folder, script, start| {
                Some(k6(folder, script, start, &["0:1"])?[0].clone())
            });
        });
        scope.spawn(|| {
            buy_at_picky("locust", "locustfile.py", |folder, file, start| locust(folder, file, start, PICKY.len()));
        });
        buy_at_picky("jmeter", "sale.jmx", |folder, plan, start| {
            run_plan(folder, plan, &[format!("-JSTART_AT={start}")], PICKY.len())
        });
    });
}

fn assert_picky(shop: &PickyShop, logs: &[EngineLog]) {
    let mut requests: Vec<&LoggedRequest> = logs.iter().flat_map(|log| &log.requests).collect();
    requests.sort_by_key(|request| request.buyer.clone());
    let outcomes: Vec<_> = requests.iter().map(|request| request.outcome.unwrap()).collect();
    assert_eq!(outcomes, PICKY.map(|(_, outcome)| outcome), "{requests:#?}");
    assert_eq!(requests[0].order.as_deref(), Some(picky::ORDER));
    assert_eq!((&*requests[0].label, requests[3].status), ("picky & exact", Some(410)));
    // A connection that stays silent ends after two seconds, and a queue after one.
    for (buyer, at_least_s) in [(1, 2), (4, 1)] {
        let duration = requests[buyer].duration.as_secs_f64();
        assert!(duration >= f64::from(at_least_s) * 0.95 && duration < 60.0, "{:?}", requests[buyer]);
    }
    let mut sent = shop.requests();
    for (phone, _) in PICKY {
        let mut sent = sent.remove(phone).unwrap_or_default();
        let expected = picky::expected(phone);
        // A queued buyer repeats the last two.
        let repeated = if sent.len() > expected.len() { sent.split_off(expected.len()) } else { Vec::new() };
        assert_eq!(sent, expected, "{phone}");
        assert!(repeated.iter().all(|line| expected[3..].contains(line)), "{repeated:?}");
    }
    assert!(sent.is_empty(), "{sent:#?}");
}

/// Returns the last line of a run of the exported file in this environment.
fn refused(command: &mut Command, environment: &[(&str, &str)]) -> String {
    let ended = finish(
        command.env_remove("START_AT").envs(environment.iter().copied().map(|(name, value)| (name, OsStr::new(value)))),
    );
    assert_ne!(ended.code, Some(0));
    format!("{}{}", ended.stdout, ended.stderr)
}

#[test]
fn a_run_without_a_start_or_a_secret_is_refused() {
    let folder = TestFolder::new();
    let files = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/it/engines");
    fs::copy(files.join("picky.toml"), folder.path("shop.toml")).unwrap();
    fs::copy(files.join("picky.csv"), folder.path("picky.csv")).unwrap();
    let script = export(&folder, "k6", "sale.js", 6);
    let file = export(&folder, "locust", "locustfile.py", 6);
    for (environment, expected) in [
        (&[("KEY", "k")][..], "the start is an instant such as 2026-11-27T12:00:00Z; set"),
        (&[("KEY", "k"), ("START_AT", "soon")], "START_AT is \\\"soon\\\", and the start is an instant"),
        (&[("START_AT", "2099-01-01T00:00:00Z"), ("KEY", "")], "the environment has no variable KEY; set it"),
        (&[("KEY", "k"), ("START_AT", "2020-01-01T00:00:00Z")], "the start 2020-01-01T00:00:00Z is over; set START_AT"),
    ] {
        let k6 = refused(program("k6").args(["run", "--quiet", "--address", "127.0.0.1:0"]).arg(&script), environment);
        assert!(k6.contains(expected), "{k6}");
        let locust =
            refused(program("locust").arg("-f").arg(&file).arg("--headless").current_dir(folder.path("")), environment);
        assert!(locust.contains(&expected.replace("\\\"", "\"")), "{locust}");
    }
}
