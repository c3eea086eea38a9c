//! How the tests run JMeter, k6 and Locust.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::thread;
use std::time::{Duration, SystemTime};

use buyers::script::{Meanings, Pattern};
use loadgen::engines::{self, EngineLog};

use super::picky;
use crate::jmeter::jmeter;
use crate::support::{Finished, PATIENCE, Running, TestFolder, eventually, finish, free_port};

/// Properties that every JMeter of a run needs.
pub(super) const PROPERTIES: [&str; 3] = [
    "-Jsample_variables=trial,intended,outcome,buyer,order",
    "-Jjmeter.save.saveservice.print_field_names=true",
    "-Jhttpclient4.retrycount=0",
];

/// Times from now to the start, in seconds. A machine that is too slow for one takes the next one.
pub(super) const LEADS_S: [u64; 6] = [4, 8, 16, 32, 64, 128];

pub(super) fn export(folder: &TestFolder, engine: &str, file: &str, users: usize) -> PathBuf {
    let out = folder.path(file);
    let users = users.to_string();
    let mut export = folder.loadgen(["export", engine, "--shop", "shop.toml", "--users", &users, "--out", file]);
    let exported = finish(export.env("KEY", picky::KEY));
    assert_eq!((exported.code, exported.stdout.as_str()), (Some(0), ""), "{}", exported.stderr);
    out
}

/// Runs an engine until the start is far enough ahead: `run` gets the start, and returns nothing if it was over too early.
pub(super) fn in_time<T>(reset: impl Fn(), mut run: impl FnMut(&str) -> Option<T>) -> T {
    let mut runs = LEADS_S.iter().filter_map(|lead_s| {
        reset();
        run(&humantime::format_rfc3339_seconds(SystemTime::now() + Duration::from_secs(*lead_s)).to_string())
    });
    runs.next().expect("every start was over before the engine was ready")
}

/// Returns a program of the environment of engines.
pub(super) fn program(name: &str) -> Command {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).with_file_name("target/engines-python/bin").join(name);
    assert!(path.is_file(), "{} not found; run: make deps-test", path.display());
    Command::new(path)
}

pub(super) fn meanings() -> Meanings {
    let named = |status| vec![Pattern { statuses: vec![status], ..Pattern::default() }];
    Meanings { sold: named(201), sold_out: named(409), over_limit: named(403), refused: named(503), queued: named(202) }
}

pub(super) fn read(paths: &[PathBuf]) -> Vec<EngineLog> {
    engines::read(paths, &meanings()).unwrap_or_else(|error| panic!("{error}"))
}

/// Tells whether a run was refused because of its start. Panics if it failed for another reason.
pub(super) fn is_late(ended: &[Finished]) -> bool {
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
pub(super) fn k6(folder: &TestFolder, script: &Path, start: &str, parts: &[&str]) -> Option<[Vec<PathBuf>; 2]> {
    let machine = |number: usize, part: &str| {
        let mut k6 = program("k6");
        k6.args(["run", "--quiet", "--no-usage-report", "--address", "127.0.0.1:0", "--execution-segment", part]);
        for (format, at) in
            [("json", folder.path(&format!("{number}.json"))), ("csv", folder.path(&format!("{number}.csv")))]
        {
            k6.arg("--out").arg(format!("{format}={}", at.display()));
        }
        k6.env("K6_CSV_TIME_FORMAT", "unix_nano").env("START_AT", start).env("TRIAL", "7").env("KEY", picky::KEY);
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

/// Lets Locust buy with a master and two workers. Returns their logs.
pub(super) fn locust(folder: &TestFolder, script: &Path, start: &str, users: usize) -> Option<Vec<PathBuf>> {
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

/// Runs a plan. Returns its log, or nothing if it has fewer purchases.
pub(super) fn run_plan(folder: &TestFolder, plan: &Path, args: &[String], purchases: usize) -> Option<Vec<PathBuf>> {
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
