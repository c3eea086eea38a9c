//! What the program logs.

use serde_json::Value;
use sqlx::Executor;
use testbed::StopSignal;

use crate::commits::Gate;
use crate::database::END_SESSIONS;
use crate::lab::{Lab, wait_until};
use crate::program::Program;

fn lines(program: &Program) -> Vec<Value> {
    // The first line of the tail may have lost its beginning.
    program.process.log_tail().lines().filter_map(|line| serde_json::from_str(line).ok()).collect()
}

/// Returns the fields of a span around a line.
fn span<'a>(line: &'a Value, name: &str) -> &'a Value {
    line["spans"].as_array().unwrap().iter().find(|span| span["name"] == name).unwrap_or_else(|| panic!("{line}"))
}

#[tokio::test]
async fn the_log_names_the_lock_token_and_order_of_a_purchase() {
    let lab = Lab::new().await;
    let envs = [("LOG_FORMAT", "json"), ("RUST_LOG", "info,demo_service=debug")];
    let program = Program::start(&lab, StopSignal::Terminate, &[], &envs).await;
    program.put_on_sale(7, 5, "zk-mutex").await.assert_ok();
    let bought = program.buy(7, "zk-mutex").await;
    bought.assert_ok();

    let mut logged = Vec::new();
    wait_until(async || {
        logged = lines(&program);
        logged.iter().any(|line| line["message"] == "sold")
    })
    .await;
    let find = |message| logged.iter().find(|line| line["message"] == message).unwrap_or_else(|| panic!("{logged:?}"));
    let token = bought.body["token"].to_string();
    let acquire = span(find("the wait for a lock is over"), "acquire");
    assert!(acquire["session"].as_str().unwrap().starts_with("0x"), "{acquire}");
    assert_eq!(acquire["token"], token.as_str());
    let purchase = span(find("sold"), "purchase");
    assert_eq!(purchase["strategy"], "zk-mutex");
    assert_eq!(purchase["goods_no"], "[7]");
    assert_eq!(purchase["token"], token.as_str());
    assert_eq!(purchase["order_id"], bought.body["order_id"]);
}

#[tokio::test]
async fn ordinary_purchases_are_logged_only_when_asked_for() {
    let lab = Lab::new().await;
    let mut program =
        Program::start(&lab, StopSignal::Terminate, &[], &[("LOG_FORMAT", "json"), ("RUST_LOG", "")]).await;
    program.put_on_sale(1, 1, "zk-mutex").await.assert_ok();
    program.buy(1, "zk-mutex").await.assert_ok();
    program.buy(1, "zk-mutex").await.assert_problem(409, "sold-out");
    program.buy(2, "zk-mutex").await.assert_problem(404, "unknown-goods");
    program.process.request_stop();
    assert!(program.process.wait().await.unwrap().success());
    let logged = lines(&program);
    let messages: Vec<_> = logged.iter().map(|line| line["message"].as_str().unwrap()).collect();
    let [ready, stopping, stopped] = messages[..] else { panic!("{messages:?}") };
    assert_eq!((ready, stopped), ("ready", "stopped"));
    assert!(stopping.starts_with("shutting down"), "{stopping}");
}

#[tokio::test]
async fn the_log_says_why_the_outcome_of_a_purchase_is_unknown() {
    let lab = Lab::new().await;
    let program = Program::start(&lab, StopSignal::Terminate, &[], &[("LOG_FORMAT", "json")]).await;
    Gate::before_commits(&lab, "orders", "insert").await;
    for (goods_no, strategy) in (1..).zip(["pg-conditional", "pg-merge", "zk-merge", "zk-owner"]) {
        program.put_on_sale(goods_no, 5, strategy).await.assert_ok();
        let gate = Gate::close(&lab).await;
        let buyer = program.spawn_buy(goods_no, strategy);
        lab.wait_for_statement("active", "commit").await;
        lab.connect().await.execute(END_SESSIONS).await.unwrap();
        buyer.await.unwrap().assert_problem(503, "outcome-unknown");
        gate.open().await;
        let is_said = |line: &Value| {
            let text = line.to_string();
            text.contains("outcome unknown") && text.contains(strategy) && text.contains("terminating connection")
        };
        wait_until(async || lines(&program).iter().any(|line| line.to_string().contains(strategy))).await;
        assert!(lines(&program).iter().any(is_said), "{strategy}: {:?}", lines(&program));
    }
}
