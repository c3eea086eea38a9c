//! A shop with every kind of request and answer: all engines send the same there, and read the same.

use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::thread;

use loadgen::engines::{EngineLog, LoggedOutcome, LoggedRequest};

use super::picky::{self, PickyShop};
use super::runs::{export, in_time, k6, locust, program, read, run_plan};
use crate::support::{TestFolder, finish};

/// The buyers of the picky shop, in the order of its CSV file.
const PICKY: [(&str, LoggedOutcome); 12] = [
    ("17", LoggedOutcome::Sold),
    ("late", LoggedOutcome::Timeout),
    ("broken", LoggedOutcome::Error),
    ("empty", LoggedOutcome::SoldOut),
    ("forever", LoggedOutcome::Timeout),
    ("busy", LoggedOutcome::Refused),
    ("page", LoggedOutcome::Sold),
    ("other", LoggedOutcome::Error),
    ("long", LoggedOutcome::Error),
    ("away", LoggedOutcome::Error),
    ("turned", LoggedOutcome::Refused),
    ("nowhere", LoggedOutcome::Error),
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

// C40
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
    requests.sort_by_key(|request| request.buyer.as_ref().unwrap().parse::<usize>().unwrap());
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
