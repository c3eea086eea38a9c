//! Two builds of the service in one comparison.

use std::fs;
use std::path::Path;

use serde_json::Value;

use crate::support::{Finished, TestFolder, demo_service, finish, write_program};

/// Compares two programs under a load of a few buyers.
fn compare(folder: &TestFolder, builds: [(&str, &Path); 2], flags: &str) -> Finished {
    let args = format!("compare --users 24 --stock 20 --instances 1 --no-warm-up --seed 7 --quiet {flags}");
    let mut command = folder.loadgen(args.split_whitespace());
    for (name, program) in builds {
        command.arg("--demo-service").arg(format!("{name}={}", program.display()));
    }
    finish(&mut command)
}

fn rows(report: &Value) -> Vec<&Value> {
    report["builds"]["rows"].as_array().unwrap().iter().collect()
}

/// Writes a program that is the service with a longer business time. It replaces the flag, because the service refuses a second
/// one.
fn write_slow_service(path: &Path) {
    let real = demo_service().display();
    let slow = "for word; do shift; [ \"$previous\" = --business-time ] && word=100ms; set -- \"$@\" \"$word\"; previous=$word; done";
    write_program(path, &format!("{slow}; exec '{real}' \"$@\""));
}

// C13
#[test]
fn a_build_is_not_worse_than_itself() {
    let folder = TestFolder::new();
    let flags = "--trials 6 --business-time 1ms --strategies zk-mutex,pg-conditional";
    let finished = compare(&folder, [("A", demo_service()), ("B", demo_service())], flags);
    let report = folder.report();
    // The statistics may be wrong once in twenty comparisons. `make false-verdicts` counts how often they are.
    let worse = rows(&report).iter().filter(|row| row["conclusion"] == "worse").count();
    let expected: &[i32] = if worse > 0 { &[1] } else { &[0, 4] };
    assert!(expected.contains(&finished.code.unwrap()), "{}{}", finished.stdout, finished.stderr);

    let builds = report["plan"]["builds"].as_array().unwrap();
    let names: Vec<&str> = builds.iter().map(|build| build["name"].as_str().unwrap()).collect();
    assert_eq!((names, builds[1]["program"].as_str()), (vec!["A", "B"], demo_service().to_str()));
    let service = report["environment"]["service"].as_array().unwrap();
    let told = service.iter().map(|build| (build["name"].as_str().unwrap(), build["profile"].as_str().unwrap()));
    assert_eq!(told.collect::<Vec<_>>(), [("A", "debug"), ("B", "debug")]);
    // Every strategy was run with both builds, one after the other, and every trial was audited.
    let trials = report["trials"].as_array().unwrap();
    assert_eq!(trials.len(), 6 * 2 * 2);
    for pair in trials.chunks(2) {
        let [one, other] = [&pair[0], &pair[1]];
        assert_eq!((&one["strategy"], &one["block"]), (&other["strategy"], &other["block"]));
        assert!(one["build"] != other["build"], "{pair:#?}");
        assert!(pair.iter().all(|trial| trial["audit"]["sold"] == 20 && trial["settled"] == true), "{pair:#?}");
    }
    let results = report["results"].as_array().unwrap();
    let of: Vec<_> = results
        .iter()
        .map(|result| (result["strategy"].as_str().unwrap(), result["build"].as_str().unwrap()))
        .collect();
    let both = |name| [(name, "A"), (name, "B")];
    assert_eq!(of, [both("zk-mutex"), both("pg-conditional")].concat());
    assert!(results.iter().all(|result| result["kept"] == true), "{results:#?}");
    assert!(rows(&report).len() >= 12, "{report:#}");
    let commits = rows(&report).into_iter().find(|row| row["figure"] == "commits_per_sale").unwrap();
    assert!((commits["ratio"]["value"].as_f64().unwrap() - 1.0).abs() < 0.1, "{commits:#}");

    let written = |name: &str| fs::read_to_string(folder.path("report").join(name)).unwrap();
    assert!(written("diff.md").starts_with("### seckill lab, B against A: "), "{}", written("diff.md"));
    for text in [&finished.stdout, &written("report.md"), &written("report.html"), &written("results.jtl")] {
        assert!(text.contains("zk-mutex of A") && text.contains("zk-mutex of B"), "{text}");
    }
    assert!(folder.path("report/hgrm/zk-mutex.B.hgrm").exists());
    let again = finish(&mut folder.loadgen(["report", "report/report.json", "--out", "again"]));
    assert_eq!(again.code, Some(0), "{}", again.stderr);
    assert_eq!(fs::read_to_string(folder.path("again/diff.md")).unwrap(), written("diff.md"));
    assert!(folder.is_clean(), "something is left");
}

// C13
#[test]
fn a_build_that_is_slower_is_worse() {
    let folder = TestFolder::new();
    let slow = folder.path("slow-service");
    write_slow_service(&slow);
    let finished = compare(
        &folder,
        [("old", demo_service()), ("new", &slow)],
        // On a busy machine, a moment of it may turn one pair around.
        "--trials 10 --business-time 1ms --strategies zk-mutex",
    );
    assert_eq!(finished.code, Some(1), "{}{}", finished.stdout, finished.stderr);
    let expected = "verdict: new against old: worse: Sold units/s of zk-mutex with 24 users";
    assert!(finished.stdout.contains(expected), "{}", finished.stdout);
    let report = folder.report();
    let of = |figure: &str| rows(&report).into_iter().find(|row| row["figure"] == figure).unwrap().clone();
    assert_eq!((&of("p50")["conclusion"], &of("p50")["unit"]), (&"worse".into(), &"pair".into()));
    assert!(of("p50")["ratio"]["low"].as_f64().unwrap() > 1.0, "{:#}", of("p50"));
    assert_eq!(of("commits_per_sale")["conclusion"], "same", "{:#}", of("commits_per_sale"));
    assert!(report["results"].as_array().unwrap().iter().all(|result| result["kept"] == true), "{report:#}");
    assert!(folder.is_clean(), "something is left");
}

#[test]
fn builds_that_cannot_be_compared_are_refused() {
    let folder = TestFolder::new();
    let service = demo_service().display().to_string();
    let other = folder.path("other-service");
    let list = r#"{"strategies":[{"name":"zk-mutex","promise":"safe-while-session-lives","mechanism":"zookeeper",
        "family":"zk-queue","wakes":"one","summary":"s","permits":1,"headline":true}]}"#;
    write_program(&other, &format!("cat <<'END'\n{list}\nEND"));
    let a = format!("A={service}");
    let b = format!("B={service}");
    let other = format!("B={}", other.display());
    for (args, code, expected) in [
        (
            &["compare", "--demo-service", &a, "--demo-service", &other][..],
            64,
            "the build B does not offer unguarded, local-mutex",
        ),
        (
            &["compare", "--strategies", "zk-nope", "--demo-service", &a, "--demo-service", &other],
            64,
            "no strategy is named \"zk-nope\"",
        ),
        (&["compare", "--demo-service", &a, "--demo-service", "B=/nowhere"], 3, "demo-service not found at /nowhere"),
        (&["compare", "--demo-service", &a], 64, "two builds are compared, each with a name"),
        (&["compare", "--demo-service", &a, "--demo-service", &a], 64, "both builds have the name A"),
        (&["run", "zk-mutex", "--demo-service", &a, "--demo-service", &b], 64, "`loadgen run` takes one build"),
        (&["up", "--demo-service", &a, "--demo-service", &b], 64, "`loadgen up` takes one build"),
        (&["export", "k6", "--demo-service", &a, "--demo-service", &b], 64, "`loadgen export` takes one build"),
        (&["strategies", "--demo-service", &a], 64, "`loadgen strategies` takes one build"),
        (&["compare", "--target", "http://a:1", "--demo-service", &a, "--demo-service", &b], 64, "cannot be used with"),
    ] {
        let finished = finish(&mut folder.loadgen_throwaway(args));
        assert_eq!(finished.code, Some(code), "{args:?}: {}", finished.stderr);
        assert!(finished.stderr.contains(expected), "{args:?}: {}", finished.stderr);
        assert!(!finished.stderr.contains("starting") && folder.is_clean(), "{args:?} has started something");
    }
}
