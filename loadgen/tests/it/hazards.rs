//! Comparisons under hazards: what is lost when Redis forgets, a stream is cut, or an instance dies.

use serde_json::{Value, json};

use crate::compare::figure;
use crate::support::{TestFolder, finish};

/// Returns the result of a strategy under a hazard.
fn under<'a>(report: &'a Value, strategy: &str, hazard: &str) -> &'a Value {
    let results = report["results"].as_array().unwrap();
    results.iter().find(|result| result["strategy"] == strategy && result["hazard"] == hazard).unwrap()
}

// `redis-killed` is in chapter 7 of the tutorial.
// C55
#[test]
fn a_gate_that_loses_orders_has_told_buyers_of_them() {
    let folder = TestFolder::new();
    let args = "compare --strategies redis-gate,redis-gate-confirmed --hazards stream-trimmed --users 60 \
                --stock 100 --rate 60 --duration 3s --lock-wait 2s --trials 1 --no-warm-up --instances 2";
    let mut command = folder.throwaway_lab(args.split_whitespace());
    let finished = finish(command.env_remove("REDIS_URL"));
    finished.assert_kept();
    let opening = "Under 1 hazard, no strategy oversold, and redis-gate told buyers \"sold\" without an order.";
    assert!(finished.stdout.contains(opening), "{}", finished.stdout);
    let report = folder.report();
    let [gate, confirmed] = ["redis-gate", "redis-gate-confirmed"].map(|name| under(&report, name, "stream-trimmed"));
    assert!(figure(gate, "told_without_order") > Some(0.0), "{gate:#}");
    assert_eq!(gate["figures"]["books_agree"]["value"], "not reached", "{gate:#}");
    assert_eq!(figure(confirmed, "told_without_order"), Some(0.0), "{confirmed:#}");
    assert!(figure(confirmed, "left_open") > Some(0.0), "{confirmed:#}");
    assert_eq!(confirmed["figures"]["books_agree"], Value::Null, "it is answered at the commit: {confirmed:#}");
    for result in [gate, confirmed] {
        assert_eq!((&result["finding"], figure(result, "oversold")), (&json!("kept"), Some(0.0)), "{result:#}");
        assert_eq!(result["rank"], Value::Null);
    }
    assert!(folder.is_clean(), "something is left");
}

// C55
#[test]
fn an_instance_that_is_killed_serves_again_in_its_trial() {
    let folder = TestFolder::new();
    let args = "run pg-conditional --hazards instance-killed --users 60 --stock 100 --rate 60 --duration 3s --trials 1 \
                --no-warm-up --instances 2";
    let finished = finish(&mut folder.loadgen(args.split_whitespace()));
    finished.assert_kept();
    let report = folder.report();
    let strike = &report["trials"][0]["strike"];
    assert!(strike["over_after_ms"].as_f64() > Some(0.0), "{strike:#}");
    let killed = under(&report, "pg-conditional", "instance-killed");
    assert_eq!(figure(killed, "oversold"), Some(0.0));
    assert!(figure(killed, "left_open") > Some(0.0), "an instance dies in a transaction: {killed:#}");
    assert!(folder.is_clean(), "something is left");
}

// C55
#[test]
fn a_hazard_that_does_not_strike_proves_nothing() {
    let folder = TestFolder::new();
    let args = "run pg-conditional --hazards instance-killed --users 9 --stock 1000 --rate 20 --duration 500ms --trials 1 \
                --no-warm-up --instances 1";
    let finished = finish(&mut folder.loadgen(args.split_whitespace()));
    assert_eq!(finished.code, Some(3), "{}", finished.stderr);
    assert!(finished.stdout.contains("hazards that did not strike before the load was over"), "{}", finished.stdout);
}

/// Goal: a hazard that comes when all is sold proves nothing. Method: a loop goes on after a small stock is gone, and another channel
/// would have to take units that the row does not have.
// C55
#[test]
fn a_hazard_that_comes_after_the_last_unit_proves_nothing() {
    let folder = TestFolder::new();
    let args = "run redis-gate --hazards orders-refused --users 20 --stock 7 --duration 1s --trials 1 --no-warm-up --instances 1";
    let finished = finish(folder.throwaway_lab(args.split_whitespace()).env_remove("REDIS_URL"));
    assert_eq!(finished.code, Some(3), "{}", finished.stderr);
    assert!(
        finished.stdout.contains("did not strike before the load was over or the stock was gone"),
        "{}",
        finished.stdout
    );
}

// C55
#[test]
fn hazards_that_cannot_strike_are_refused_with_the_remedy() {
    let folder = TestFolder::new();
    for (args, expected) in [
        ("run redis-gate --hazards stream-trimmed", "a burst is over before a hazard can strike; give a --rate"),
        ("run pg-merge --rate 9 --hazards redis-killed", "redis-killed can strike no strategy that is compared"),
        (
            "compare --strategies redis-gate,pg-merge --rate 9 --hazards redis-killed",
            "none of these hazards can strike pg-merge; add instance-killed",
        ),
        ("run unguarded --rate 9 --hazards instance-killed", "unguarded sells wrongly without any hazard"),
        ("export k6 --strategies pg-merge --hazards instance-killed", "an exported load strikes no server"),
        ("export k6 --shop shop.toml --hazards instance-killed", "an exported load strikes no server"),
        ("export k6 --shop shop.toml --abandon 30%", "an exported load pays as the file of the shop says"),
        ("export k6 --shop shop.toml --per-buyer 1", "the file of a shop has the limit per buyer"),
        ("run pg-merge --rate 9 --hazards fire", "invalid value 'fire'"),
    ] {
        finish(&mut folder.loadgen(args.split_whitespace())).assert_error(64, expected);
    }
    let with_redis = "run redis-gate --rate 9 --hazards stream-trimmed".split(' ');
    let mut command = folder.throwaway_lab(with_redis);
    finish(command.env("REDIS_URL", "redis://127.0.0.1:1/")).assert_error(64, "unset REDIS_URL, or remove --hazards");
}
