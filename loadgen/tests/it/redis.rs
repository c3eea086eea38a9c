//! Strategies that need a Redis.

use std::fs;

use crate::compare::{figure, result};
use crate::support::{TestFolder, finish};

// C52
#[test]
fn strategies_of_redis_are_compared_on_a_redis_of_their_own() {
    let folder = TestFolder::new();
    let args = "compare --users 20 --stock 10 --trials 1 --no-warm-up --instances 2 --business-time 2ms \
                --strategies redis-lock,redis-lock-fenced";
    let mut command = folder.throwaway_lab(args.split_whitespace());
    finish(command.env_remove("REDIS_URL")).assert_kept();
    let report = folder.report();
    for strategy in ["redis-lock", "redis-lock-fenced"] {
        let result = result(&report, strategy);
        assert_eq!((&result["mechanism"], &result["finding"]), (&"redis".into(), &"kept".into()), "{result:#}");
        assert_eq!(figure(result, "oversold"), Some(0.0), "{result:#}");
    }
    let environment = &report["environment"];
    assert!(environment["redis_version"].as_str().is_some_and(|version| version.contains('.')), "{environment:#}");
    assert_eq!(environment["servers_throwaway"], true);
    let processes = report["trials"][0]["cpu"].as_array().unwrap();
    assert!(processes.iter().any(|process| process["process"] == "redis"), "{processes:?}");
    let page = fs::read_to_string(folder.path("report/report.html")).unwrap();
    assert!(page.contains("while the lock lives") && page.contains("Redis"));
    assert!(folder.is_clean(), "something is left");
}

// C52
#[test]
fn a_redis_is_looked_for_only_if_a_strategy_needs_one() {
    let folder = TestFolder::new();
    let run = |strategy: &str| {
        let args =
            ["run", strategy, "--users", "3", "--stock", "2", "--trials", "1", "--no-warm-up", "--instances", "1"];
        let mut command = folder.throwaway_lab(args);
        finish(command.env_remove("REDIS_URL").env("REDIS_BIN", folder.path("tmp")))
    };
    run("redis-lock").assert_error(64, "error: REDIS_BIN names ");
    let without = run("pg-conditional");
    assert!(without.stderr.contains("with 3 users: sold 2, oversold 0"), "{}", without.stderr);
    assert!(folder.report()["environment"]["redis_version"].is_null());
}
