//! Exported scripts, checked by a compiler that knows k6's types and evaluated by a JavaScript engine.
//!
//! k6 itself does not run here. `engines.rs` runs it with the purchases at a shop.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::{Value, json};

use crate::support::{TestFolder, finish};

const REMEDY: &str = "run: make deps-test";

/// Returns a folder that these tests share.
fn shared(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/k6").join(name)
}

/// Makes a folder with scripts, and with a module of this name that they can import.
fn scripts(exports: &[(&str, &str)], module: &str, at: &Path) -> TestFolder {
    let folder = TestFolder::new();
    for (file, args) in exports {
        let mut export = folder.lab(["export", "k6"]);
        if !args.contains("--strategies") {
            export.args(["--strategies", "zk-mutex"]);
        }
        for rule in ["zk-* p99<250ms", "zk-* oversold==0", "pg-* errors==0"] {
            export.args(["--threshold", rule]);
        }
        let exported = finish(export.args(args.split_whitespace()).arg("--out").arg(folder.path(file)));
        assert_eq!((exported.code, exported.stdout.as_str()), (Some(0), ""), "{}", exported.stderr);
    }
    let link = folder.path("node_modules").join(module);
    fs::create_dir_all(link.parent().unwrap()).unwrap();
    symlink(at, link).unwrap();
    folder
}

fn output_of(command: &mut Command) -> String {
    let output = command.output().unwrap_or_else(|error| panic!("{command:?} cannot be run; {REMEDY}: {error}"));
    let stdout = String::from_utf8_lossy(&output.stdout);
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{command:?}: {stdout}{stderr}");
    stdout.into_owned()
}

// C34
#[test]
fn scripts_of_every_load_model_ask_of_k6_what_its_types_have() {
    let installed = Path::new(env!("CARGO_MANIFEST_DIR")).with_file_name("target/k6-types/node_modules");
    let compiler = installed.join("typescript/bin/tsc");
    assert!(compiler.is_file(), "{} not found; {REMEDY}", compiler.display());
    let exports = [
        ("burst.js", "--users 9 --strategies zk-mutex,pg-conditional"),
        ("ramp.js", "--ramp-up 1500ms --goods 3"),
        ("loop.js", "--duration 10s --target http://a:1,http://b/shop"),
        ("ramped-loop.js", "--duration 10s --ramp-up 2s"),
        ("open.js", "--rate 50.5 --duration 5s"),
    ];
    let folder = scripts(&exports, "@types/k6", &installed.join("@types/k6"));
    let of_shop = folder.path("shop.js");
    let shop = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/it/engines/picky.toml");
    let mut export = folder.loadgen(["export", "k6", "--users", "3", "--shop"]);
    let exported = finish(export.arg(shop).arg("--out").arg(&of_shop).env("KEY", "any"));
    assert_eq!((exported.code, exported.stdout.as_str()), (Some(0), ""), "{}", exported.stderr);
    let mut node = Command::new("node");
    node.current_dir(folder.path(""))
        .arg(compiler)
        .args("--noEmit --allowJs --checkJs --strict --noUnusedLocals --noUnusedParameters".split(' '));
    node.args("--target es2020 --lib es2020 --module esnext --moduleResolution bundler --types k6".split(' '));
    output_of(node.args(exports.map(|(file, _)| folder.path(file))).arg(of_shop));
}

/// Returns the options of a script, and its calls of k6 in these iterations.
fn evaluate(args: &str, environment: &Value, iterations: &[Value]) -> Value {
    let folder = scripts(&[("seckill.mjs", args)], "k6", &shared("noting"));
    let mut node = Command::new("node");
    node.current_dir(folder.path("")).arg(shared("evaluate.mjs"));
    let input = json!({ "environment": environment, "iterations": iterations });
    serde_json::from_str(&output_of(node.arg(input.to_string()))).unwrap()
}

/// Describes an iteration of a user who is given this answer.
fn iteration(user: u32, iteration: u32, status: u16, body: &str) -> Value {
    json!({ "user": user, "iteration": iteration, "answers": [answer(status, body)] })
}

fn answer(status: u16, body: &str) -> Value {
    json!({ "status": status, "body": body })
}

/// Returns the URLs that were asked, in order.
fn urls(evaluated: &Value) -> Vec<&str> {
    evaluated["requests"].as_array().unwrap().iter().map(|request| request["url"].as_str().unwrap()).collect()
}

#[test]
fn the_environment_changes_the_load_and_rules_of_a_script() {
    let burst = "--users 300 --strategies zk-mutex,pg-conditional";
    let evaluated = evaluate(burst, &json!({}), &[]);
    let sale = &evaluated["options"]["scenarios"]["sale"];
    assert_eq!(
        (&sale["executor"], &sale["vus"], &sale["iterations"]),
        (&"per-vu-iterations".into(), &300.into(), &1.into())
    );
    // Three seconds for the start, 80 for an answer, 30 for the end.
    assert_eq!(sale["maxDuration"], "113000ms");
    let thresholds = |sold: [&str; 2]| json!({ "sold_ms": ["p(99)<250"], "sold": sold });
    assert_eq!(evaluated["options"]["thresholds"], thresholds(["count<=100", "count>0"]));
    let evaluated = evaluate(burst, &json!({ "GOODS": "1,2" }), &[]);
    assert_eq!(evaluated["options"]["thresholds"], thresholds(["count<=200", "count>0"]));

    let environment = json!({ "USERS": "7", "STRATEGY": "pg-conditional", "START_AT": "4102444800000" });
    let evaluated = evaluate(burst, &environment, &[iteration(2, 0, 200, "{}")]);
    assert_eq!(evaluated["options"]["scenarios"]["sale"]["vus"], 7);
    assert_eq!(evaluated["options"]["thresholds"], json!({ "errors": ["rate==0"] }));
    assert_eq!(evaluated["data"]["start"], 4_102_444_800_000_u64);
    assert!(evaluated["slept_s"][0].as_f64().unwrap() > 1e6, "it waits for the instant that it was told");
    assert_eq!(urls(&evaluated), ["http://127.0.0.1:8080/goods-stock/1?strategy=pg-conditional"]);

    let evaluated = evaluate(burst, &json!({ "STRATEGY": "" }), &[iteration(1, 0, 200, "{}")]);
    assert_eq!(evaluated["options"]["thresholds"], json!({}));
    assert_eq!(urls(&evaluated), ["http://127.0.0.1:8080/goods-stock/1?strategy="]);

    let evaluated = evaluate("--ramp-up 1500ms", &json!({ "RAMP_UP_MS": "600000" }), &[]);
    assert_eq!(evaluated["options"]["scenarios"]["sale"]["maxDuration"], "713000ms");
}

// C34
#[test]
fn users_of_a_script_alternate_instances_and_then_goods() {
    let targets = ["http://a:1/goods-stock/5", "http://b:80/shop/goods-stock/5", "http://a:1/goods-stock/6"];
    let targets = targets.map(|target| format!("{target}?strategy=zk-mutex"));
    let args = "--target http://a:1,http://b/shop --goods 2 --goods-no 5 --users 2";
    let [first, second] = [(1, 0), (2, 0)].map(|(user, number)| iteration(user, number, 200, "{}"));
    let again = iteration(1, 1, 200, "{}");
    for model in ["--duration 5s", "--rate 10"] {
        let evaluated =
            evaluate(&format!("{args} {model}"), &json!({}), &[first.clone(), second.clone(), again.clone()]);
        assert_eq!(urls(&evaluated), targets, "{model}");
    }
    let evaluated = evaluate(args, &json!({}), &[first, second]);
    assert_eq!(urls(&evaluated), targets[..2]);
}

// C34
#[test]
fn a_script_tells_answers_apart_as_loadgen_does() {
    let problem = |slug: &str| format!(r#"{{"type":"urn:seckill-lab:problem:{slug}","status":503}}"#);
    let iterations = [
        iteration(1, 0, 200, r#"{"order_id":1,"quantity":1}"#),
        iteration(2, 0, 409, &problem("sold-out")),
        iteration(3, 0, 503, &problem("lock-timeout")),
        iteration(4, 0, 503, &problem("outcome-unknown")),
        iteration(5, 0, 503, "<html>"),
        iteration(6, 0, 409, "<html>"),
        iteration(7, 0, 0, ""),
    ];
    let evaluated = evaluate("--duration 1s", &json!({}), &iterations);
    let metrics = &evaluated["metrics"];
    assert_eq!(metrics["sold"], json!([1, 0, 0, 0, 0, 0, 0]));
    assert_eq!(metrics["sold_out"], json!([0, 1, 0, 0, 0, 0, 0]));
    assert_eq!(metrics["refused"], json!([0, 0, 1, 0, 0, 0, 0]));
    assert_eq!(metrics["errors"], json!([0, 0, 0, 1, 1, 1, 1]));
    assert_eq!(metrics["sold_ms"].as_array().unwrap().len(), 1);
    assert_eq!(evaluated["checks"], json!([true, true, false, false, false, false, false]));
    assert_eq!(evaluated["slept_s"].as_array().unwrap().len(), 1, "only who had no answer at all pauses");
    let params = &evaluated["requests"][0]["params"];
    assert_eq!((&params["timeout"], &params["responseCallback"]), (&"80000ms".into(), &json!([200, 202, 409])));
}

// C34
#[test]
fn a_script_asks_for_a_ticket_until_it_is_decided() {
    let ticket = answer(202, r#"{"ticket":7,"goods_no":1,"sale":1,"quantity":1}"#);
    let sold = answer(200, r#"{"order_id":1,"quantity":1}"#);
    let answers = json!([ticket, ticket, ticket, sold]);
    let evaluated = evaluate("--duration 1s", &json!({}), &[json!({ "user": 1, "iteration": 0, "answers": answers })]);
    assert_eq!(urls(&evaluated)[1..], ["http://127.0.0.1:8080/tickets/7"; 3]);
    assert_eq!((&evaluated["metrics"]["sold"], &evaluated["checks"]), (&json!([1]), &json!([true])));
    assert_eq!(evaluated["slept_s"], json!([0.01, 0.02, 0.04]), "it asks more and more seldom");

    let away = answer(503, r#"{"type":"urn:seckill-lab:problem:database-unavailable"}"#);
    let restarted = answer(503, r#"{"type":"urn:seckill-lab:problem:sale-restarted"}"#);
    let answers = json!([ticket, away, restarted]);
    let evaluated = evaluate("--duration 1s", &json!({}), &[json!({ "user": 1, "iteration": 0, "answers": answers })]);
    assert_eq!(urls(&evaluated).len(), 3, "a question that fails is asked again");
    assert_eq!(evaluated["metrics"]["refused"], json!([1]));
}
