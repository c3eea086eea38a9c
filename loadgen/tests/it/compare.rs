//! Whole comparisons, and their reports.

use std::fs;
use std::path::Path;

use serde_json::Value;

use crate::support::{TestFolder, finish};

pub(crate) fn result<'a>(report: &'a Value, strategy: &str) -> &'a Value {
    let results = report["results"].as_array().unwrap();
    results.iter().find(|result| result["strategy"] == strategy).unwrap()
}

/// Returns a figure of a result, by its key.
pub(crate) fn figure(result: &Value, key: &str) -> Option<f64> {
    result["figures"][key]["value"].as_f64()
}

// C1
#[test]
fn every_headline_strategy_keeps_its_promise_under_a_burst() {
    let folder = TestFolder::new();
    let args = "compare --users 60 --stock 30 --trials 1 --no-warm-up --business-time 5ms --seed 7".split(' ');
    let finished = finish(&mut folder.lab(args));
    let report = folder.report();

    finished.assert_kept();
    assert_eq!(report["verdict"]["exit_code"], finished.code.unwrap());
    assert_eq!(report["schema"], "seckill-report/6");
    assert_eq!((&report["ended_early"], &report["plan"]["seed"]), (&Value::Null, &Value::from(7)));

    for (strategy, oversells) in [
        ("unguarded", true),
        ("local-mutex", true),
        ("zk-naive", false),
        ("zk-mutex", false),
        ("zk-handoff", false),
        ("zk-cohort", false),
        ("pg-conditional", false),
    ] {
        let result = result(&report, strategy);
        assert_eq!(result["kept"], true, "{result:#}");
        assert_eq!(figure(result, "unbalanced"), Some(0.0), "{result:#}");
        assert_eq!(figure(result, "out_of_sequence"), Some(0.0), "{result:#}");
        let has_tokens = strategy.starts_with("zk-");
        assert_eq!(figure(result, "tokens_out_of_order"), has_tokens.then_some(0.0), "{result:#}");
        assert!(figure(result, "sold_out_after").unwrap() > 0.0, "{result:#}");
        assert_eq!(figure(result, "oversold").unwrap() > 0.0, oversells, "{result:#}");
        assert_eq!(result["rank"].is_null(), oversells, "{result:#}");
        assert_eq!(figure(result, "undersold"), Some(0.0), "{result:#}");
        assert_eq!(result["answers"]["error"], 0, "{result:#}");
        assert_eq!(result["answers"]["timeout"], 0, "{result:#}");
        let sold = &result["latency"]["response"]["sold"];
        assert!(sold["n"].as_u64().unwrap() >= 30, "{result:#}");
        assert!(sold["p50"].as_f64().unwrap() > 0.0, "{result:#}");
        assert!(sold["p99"].is_null(), "sixty values cannot carry it: {result:#}");
        assert!(figure(result, "commits_per_sale").unwrap() >= 1.0, "{result:#}");
        assert!(figure(result, "cpu_per_request").unwrap() > 0.0, "{result:#}");
    }
    assert_eq!(report["trials"].as_array().unwrap().len(), 7);
    assert!(report["trials"].as_array().unwrap().iter().all(|trial| trial["settled"] == true), "{report:#}");
    assert_herd(&report);
    assert_history(&report);

    let table: Vec<&str> = finished.stdout.lines().collect();
    assert!(
        table[0].starts_with("closed burst, 60 users at the same instant, one request each; stock 30; instances 3"),
        "{}",
        finished.stdout
    );
    assert!(!finished.stdout.contains("launched"), "goose printed into the table: {}", finished.stdout);
    assert_eq!(finished.stderr.lines().filter(|line| line.starts_with("trial ")).count(), 7, "{}", finished.stderr);
    let written = |name: &str| fs::read_to_string(folder.path("report").join(name)).unwrap();
    assert!(written("report.md").starts_with("# seckill lab: comparison"));
    let sentence = report["verdict"]["sentence"].as_str().unwrap();
    assert!(sentence.starts_with("With 60 users, 5 strategies sold exactly the 30 units"), "{sentence}");
    assert_eq!(written("results.jtl").lines().count(), 1 + 7 * 60, "a header, and a line a request");
    assert!(
        written("hgrm/zk-mutex.hgrm").contains("Total count    =           30]"),
        "{}",
        written("hgrm/zk-mutex.hgrm")
    );
    assert!(folder.is_clean(), "something is left");
}

/// Expects that a release of the queue woke one waiter, and a release of the naive lock all waiters.
fn assert_herd(report: &Value) {
    let queue = result(report, "zk-mutex");
    assert_eq!(queue["notifications_expected"], 59);
    assert!(figure(queue, "notifications").unwrap() <= 59.0, "{queue:#}");
    let herd = result(report, "zk-naive");
    assert_eq!(herd["notifications_expected"], 60 * 59 / 2);
    let notifications = figure(herd, "notifications").unwrap();
    assert!(notifications > 2.0 * 59.0 && notifications <= 60.0 * 59.0 / 2.0, "{herd:#}");
    for (strategy, releases) in [("zk-mutex", 60), ("zk-naive", 60), ("pg-conditional", 0)] {
        let trials = report["trials"].as_array().unwrap();
        let trial = trials.iter().find(|trial| trial["strategy"] == strategy).unwrap();
        assert_eq!(trial["zookeeper"]["releases"], releases, "{trial:#}");
    }
}

/// Expects that the locks excluded, and that the order in which they served is known.
fn assert_history(report: &Value) {
    for strategy in ["zk-naive", "zk-mutex", "zk-handoff", "zk-cohort"] {
        let result = result(report, strategy);
        let figures = ["overlaps", "inside_max", "token_regressions"].map(|key| figure(result, key));
        assert_eq!(figures, [Some(0.0), Some(1.0), Some(0.0)], "{result:#}");
        assert!(figure(result, "handovers").unwrap() > 30.0, "{result:#}");
    }
    assert_eq!(figure(result(report, "unguarded"), "overlaps"), None);
    assert!(figure(result(report, "unguarded"), "inside_max").unwrap() > 1.0);
    // Buyers who ask within a few milliseconds of each other reach ZooKeeper in any order. So the number of pairs that were
    // served in another order has no bound.
    let inversions = figure(result(report, "zk-naive"), "inversion_share").unwrap();
    assert!(inversions > 0.0 && inversions < 1.0, "the herd serves in any order: {inversions}");
}

#[test]
fn every_load_model_sells_what_there_is_and_says_what_it_is() {
    let folder = TestFolder::new();
    for (flags, model, expected) in [
        ("--users 40 --ramp-up 300ms", "ramp", "closed ramp, 40 users within 300ms"),
        ("--users 8 --duration 600ms", "loop", "closed loop, 8 users for 600ms"),
        ("--users 200 --rate 200 --duration 500ms", "open", "open, 200 Poisson arrivals a second for 500ms"),
    ] {
        let args = format!(
            "compare --strategies pg-row-lock --instances 2 --stock 10 --goods 2 --trials 1 --no-warm-up --business-time 20ms {flags}"
        );
        let finished = finish(&mut folder.lab(args.split(' ')));
        let report = folder.report();
        finished.assert_kept();
        assert_eq!(report["plan"]["model"]["kind"], model);
        assert!(finished.stdout.starts_with(expected), "{}", finished.stdout);
        let caveats = report["caveats"].as_array().unwrap().iter().map(|caveat| caveat.as_str().unwrap());
        let told: Vec<&str> =
            caveats.filter(|caveat| caveat.starts_with("most requests came after everything was sold")).collect();
        match model {
            "ramp" => assert_eq!(told, Vec::<&str>::new(), "more buyers than units are what a flash sale is"),
            "open" => {
                assert!(told[0].contains("cover only the beginning (pg-row-lock); raise --stock above "), "{told:?}")
            }
            _ => {}
        }
        let trial = &report["trials"][0];
        assert_eq!((&trial["audit"]["sold"], trial["sales"].as_array().unwrap().len()), (&20.into(), 2), "{trial:#}");
        let answers = trial["answers"].as_object().unwrap().values().map(|count| count.as_u64().unwrap());
        assert_eq!(trial["generator"]["requests"], answers.sum::<u64>(), "{trial:#}");
    }
    assert!(folder.is_clean(), "something is left");
}

// C16
#[test]
fn buyers_who_are_not_let_in_are_the_slowest_and_prove_nothing() {
    let folder = TestFolder::new();
    let args = "run zk-mutex --instances 1 --users 2 --rate 300 --arrivals constant --duration 1s --stock 1000 \
        --business-time 20ms --trials 1 --no-warm-up --seed 3";
    let run = |more: &[&str]| finish(&mut folder.lab(args.split_whitespace().chain(more.iter().copied())));
    let rules = ["--threshold", "zk-mutex p50<10m", "--threshold", "zk-mutex dropped_share<=1%"];
    let finished = run(&rules);
    assert_eq!(finished.code, Some(3), "{}", finished.stdout);
    let unproved = "verdict: nothing can be said of zk-mutex (";
    assert!(finished.stdout.contains(unproved), "{}", finished.stdout);
    let crossed = "verdict: threshold crossed: zk-mutex p50<10m: zk-mutex with 2 users is not reached";
    assert!(finished.stdout.contains(crossed), "{}", finished.stdout);
    assert!(finished.stdout.contains("threshold crossed: zk-mutex dropped_share<=1%: "), "{}", finished.stdout);
    let report = folder.report();
    let of_strategy = result(&report, "zk-mutex");
    assert_eq!((&of_strategy["finding"], &of_strategy["kept"]), (&"arrivals-dropped".into(), &Value::Null));
    assert_eq!(of_strategy["figures"]["p50"]["value"], "not reached", "{of_strategy:#}");
    let generator = &report["trials"][0]["generator"];
    let started = generator["requests"].as_u64().unwrap();
    let dropped = generator["dropped"].as_u64().unwrap();
    assert_eq!(started + dropped, 300, "{generator:#}");
    // The lock is held for 20 ms, so about fifty buyers are served per second.
    assert!(dropped > 150 && generator["dropped_busy"].as_u64().unwrap() > 100, "{generator:#}");
    assert_eq!(report["trials"][0]["latency"]["response"]["sold"]["unserved"], dropped);
    let caveat = format!("{dropped} arrivals found no user free");
    assert!(report["caveats"].as_array().unwrap().iter().any(|text| text.as_str().unwrap().starts_with(&caveat)));

    let allowed = run(&["--dropped-max", "100%"]);
    allowed.assert_kept();
    let report = folder.report();
    let of_strategy = result(&report, "zk-mutex");
    assert_eq!((&of_strategy["kept"], &of_strategy["rank"]), (&true.into(), &Value::Null), "{of_strategy:#}");
}

#[test]
fn thresholds_are_checked_before_the_run_and_after_it() {
    let folder = TestFolder::new();
    let args = |rule: &'static str| {
        let flags = "compare --users 10 --stock 5 --instances 1 --trials 1 --no-warm-up --strategies pg-conditional";
        flags.split(' ').chain(["--threshold", rule]).collect::<Vec<_>>()
    };
    let run = |rule| finish(&mut folder.lab(args(rule)));
    let earlier = folder.path("report/report.json");
    fs::create_dir(folder.path("report")).unwrap();
    fs::write(&earlier, "of yesterday").unwrap();
    let idle = run("zk-* oversold==0");
    assert_eq!(idle.code, Some(64), "{}", idle.stderr);
    assert_eq!(fs::read_to_string(&earlier).unwrap(), "of yesterday", "nothing has begun yet");
    assert!(idle.stderr.contains("is about nothing that is compared: pg-conditional with"), "{}", idle.stderr);
    let crossed = run("pg-* goodput>1000000");
    assert_eq!(crossed.code, Some(1), "{}", crossed.stderr);
    let expected = "verdict: threshold crossed: pg-* goodput>1000000: pg-conditional with 10 users is ";
    assert!(crossed.stdout.contains(expected), "{}", crossed.stdout);
    assert_eq!(folder.report()["thresholds"][0]["is_met"], false);
}

// C29
#[test]
fn a_report_is_rendered_again_compared_and_audited_afterwards() {
    let folder = TestFolder::new();
    let args =
        "compare --users 20 --stock 10 --instances 1 --trials 6 --no-warm-up --strategies zk-mutex,pg-conditional";
    let finished = finish(&mut folder.lab(args.split(' ')));
    finished.assert_kept();
    let written = fs::read_to_string(folder.path("report/report.md")).unwrap();
    fs::remove_file(folder.path("report/report.md")).unwrap();

    let rendered = finish(&mut folder.loadgen(["report", "report"]));
    assert_eq!(rendered.code, Some(0), "{}", rendered.stderr);
    assert_eq!(fs::read_to_string(folder.path("report/report.md")).unwrap(), written);

    // Results that were edited by hand are ignored: they are derived from the trials.
    let mut edited = folder.report();
    edited["verdict"]["sentence"] = "Everything is lost.".into();
    edited["results"][0]["kept"] = false.into();
    edited["results"][0]["figures"]["oversold"]["value"] = 7.into();
    fs::write(folder.path("edited.json"), edited.to_string()).unwrap();
    let rendered = finish(&mut folder.loadgen(["report", "edited.json", "--out", "again"]));
    assert_eq!(rendered.code, Some(0), "{}", rendered.stderr);
    assert_eq!(fs::read_to_string(folder.path("again/report.md")).unwrap(), written);

    let same = finish(&mut folder.loadgen(["diff", "report", "report/report.json"]));
    assert_eq!(same.code, Some(0), "{}", same.stderr);
    let cannot_tell = "verdict: times: cannot tell from one run each; give at least four runs per side";
    assert!(same.stdout.contains(cannot_tell), "{}", same.stdout);
    let json = finish(&mut folder.loadgen(["diff", "--json", "report", "report"]));
    let json: Value = serde_json::from_str(&json.stdout).unwrap();
    assert_eq!((&json["schema"], &json["exit_code"]), (&"seckill-diff/1".into(), &0.into()));
    let build = &folder.report()["environment"]["service"][0];
    assert_eq!((&build["version"], &build["profile"]), (&env!("CARGO_PKG_VERSION").into(), &"debug".into()), "{build}");

    // A folder of several runs is one side.
    let side = folder.path("side");
    for run in ["1", "2"] {
        fs::create_dir_all(side.join(run)).unwrap();
        let mut report = folder.report();
        report["generated_at"] = format!("2026-01-02T03:04:0{run}Z").into();
        fs::write(side.join(run).join("report.json"), report.to_string()).unwrap();
    }
    let of_two = finish(&mut folder.loadgen(["diff", "side", "report"]));
    assert!(of_two.stdout.contains("verdict: times: cannot tell from 2 and 1 runs"), "{}", of_two.stdout);
    let none = finish(&mut folder.loadgen(["diff", "tmp", "report"]));
    none.assert_error(64, "neither it nor a folder in it has a report.json");

    // Runs of different plans are not compared by mistake.
    let mut slower = folder.report();
    slower["plan"]["business_time"] = "9ms".into();
    fs::write(folder.path("slower.json"), slower.to_string()).unwrap();
    let other = finish(&mut folder.loadgen(["diff", "report", "slower.json"]));
    other.assert_error(64, "business time was \"2ms\" and is \"9ms\"");

    let none = finish(&mut folder.loadgen(["report", "nowhere.json"]));
    none.assert_error(64, "nowhere.json is no report that can be read");
}

// A device that is always full.
// C22
#[cfg(target_os = "linux")]
#[test]
fn a_full_disk_costs_the_folder_and_not_the_figures() {
    let folder = TestFolder::new();
    fs::create_dir(folder.path("report")).unwrap();
    std::os::unix::fs::symlink("/dev/full", folder.path("report/report.json.unfinished")).unwrap();
    let args = "compare --users 10 --stock 5 --instances 1 --trials 1 --no-warm-up --strategies pg-conditional";
    let finished = finish(&mut folder.lab(args.split(' ')));
    assert_eq!(finished.code, Some(3), "{}", finished.stderr);
    assert!(finished.stdout.contains("verdict: every strategy kept its promise"), "{}", finished.stdout);
    let expected = "could not write report/report.json: No space left on device";
    assert!(finished.stderr.contains(expected), "{}", finished.stderr);
    assert_eq!(fs::read_to_string(folder.path("report/results.jtl")).unwrap().lines().count(), 11);
    let (_, instead) = finished.stderr.rsplit_once("the report is in ").unwrap();
    let instead = Path::new(instead.trim());
    let report: Value = serde_json::from_str(&fs::read_to_string(instead.join("report.json")).unwrap()).unwrap();
    assert_eq!(report["results"][0]["kept"], true);
    fs::remove_dir_all(instead).unwrap();
    assert!(folder.is_clean(), "something is left");
}

#[test]
fn buyers_who_are_all_but_refused_prove_nothing() {
    let folder = TestFolder::new();
    let args = "compare --users 30 --stock 20 --trials 1 --no-warm-up --instances 1 --strategies zk-mutex --business-time 50ms \
        --lock-wait 1ms";
    let finished = finish(&mut folder.lab(args.split_whitespace()));
    assert_eq!(finished.code, Some(3), "{}", finished.stderr);
    assert!(finished.stdout.contains("verdict: nothing can be said of zk-mutex ("), "{}", finished.stdout);
    assert!(finished.stdout.contains("raise --lock-wait"), "{}", finished.stdout);
    let report = folder.report();
    let result = result(&report, "zk-mutex");
    assert_eq!((&result["finding"], &result["kept"]), (&"refused-or-failed".into(), &Value::Null), "{result:#}");
    assert!(result["rank"].is_null() && result["reference"].is_null(), "{report:#}");
    assert_eq!(report["verdict"]["exit_code"], 3);
    assert_eq!((&result["bad_trials"], &result["inconclusive_trials"]), (&0.into(), &1.into()), "{result:#}");
    assert_eq!(figure(result, "notifications_per_release"), None, "{result:#}");
    assert_eq!(report["trials"][0]["problems"], serde_json::json!(["refused: lock-timeout"]), "{report:#}");
}

// C10
#[test]
fn a_control_that_does_not_oversell_fails_the_comparison() {
    let folder = TestFolder::new();
    // With fewer buyers than units, nothing can be oversold.
    let args = "compare --users 3 --stock 9 --trials 1 --instances 1 --strategies unguarded --quiet".split(' ');
    let finished = finish(&mut folder.lab(args));
    assert_eq!(finished.code, Some(1), "{}", finished.stderr);
    assert_eq!(finished.stderr, "", "it was asked to be quiet");
    assert!(finished.stdout.contains("the load was too weak to prove anything"), "{}", finished.stdout);
    assert_eq!(result(&folder.report(), "unguarded")["finding"], "load-too-weak");
}

#[test]
fn a_slow_trial_can_be_explained_from_the_log() {
    let folder = TestFolder::new();
    let args = "run zk-mutex --users 3 --stock 3 --trials 1 --no-warm-up --instances 1 --quiet".split(' ');
    let finished = finish(folder.lab(args).env("RUST_LOG", "loadgen=debug"));
    assert_eq!(finished.code, Some(0), "{}", finished.stderr);
    for phase in ["open the sales", "count before", "load", "settle", "count after", "read the history", "audit"] {
        let ended = |line: &str| line.contains(&format!(":{phase}: ")) && line.contains("time.idle=");
        assert!(finished.stderr.lines().any(ended), "{phase}: {}", finished.stderr);
    }
    let refused = finish(folder.loadgen(["strategies"]).env("RUST_LOG", "loadgen=loud"));
    refused.assert_error(64, "RUST_LOG is not a log filter");
}
