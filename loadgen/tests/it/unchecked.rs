//! A promise that was not checked does not count as kept, neither in a comparison nor in an audit.

use serde_json::Value;
use testbed::TestChroot;
use tokio::runtime::Runtime;

use crate::broken::Broken;
use crate::support::{TestFolder, finish};

/// Changes every page of the history.
fn of_history(mut change: impl FnMut(&mut Value) + Send) -> impl FnMut(&str, u16, &mut Value) -> u16 + Send {
    move |path, status, body| {
        if path == "/admin/history" {
            change(body);
        }
        status
    }
}

/// Compares, and expects that nothing was found and this was not checked.
fn assert_unchecked(broken: &Broken, strategy: &str, expected: &str) {
    let (code, report) = broken.compare(strategy);
    assert_eq!(code, Some(3), "{expected}: {report:#}");
    let result = &report["results"][0];
    assert_eq!((&result["finding"], &result["kept"]), (&"unchecked".into(), &Value::Null), "{result:#}");
    let told = report["verdict"]["reasons"][0].as_str().unwrap();
    assert!(told.starts_with("not everything was checked of") && told.contains(expected), "{told}");
}

// C2
#[test]
fn a_history_that_is_not_whole_is_not_clean() {
    let broken = Broken::start();
    let records = |body: &mut Value| body["records"].as_array().unwrap().clone();
    broken.falsify(of_history(|body| body["records"] = Value::Array(Vec::new())));
    assert_unchecked(&broken, "zk-mutex", "orders without their section in the history: 6");
    assert_unchecked(&broken, "pg-row-lock", "orders without their section in the history: 6");

    broken.falsify(of_history(move |body| {
        let half = records(body).into_iter().filter(|record| record["order_id"].as_i64().is_none_or(|id| id % 2 == 0));
        body["records"] = half.collect();
    }));
    assert_unchecked(&broken, "zk-mutex", "orders without their section in the history: 3");

    broken.falsify(of_history(|body| body["dropped_total"] = body["recorded_total"].clone()));
    assert_unchecked(&broken, "zk-mutex", "sections that the instances no longer have");
    broken.stop();
}

// C2
#[test]
fn an_instance_that_is_another_one_afterwards_is_told() {
    let broken = Broken::start();
    let mut asked = 0;
    broken.falsify(of_history(move |body| {
        asked += 1;
        body["history_id"] = format!("life {asked}").into();
    }));
    for strategy in ["zk-mutex", "pg-function"] {
        assert_unchecked(
            &broken,
            strategy,
            "instances that were restarted, share a URL, or do not identify themselves: 1",
        );
    }
    // Orders of another instance behind the same URL, which was never asked.
    broken.falsify(of_history(|body| body["instance"] = "another".into()));
    assert_unchecked(&broken, "pg-function", "orders of instances that no URL names: 6");
    broken.stop();
}

// C4
#[test]
fn an_instance_that_is_named_twice_is_refused() {
    let broken = Broken::start();
    let proxy = broken.url();
    let direct = broken.variables["SECKILL_URLS"].clone();
    let twice = broken.run("zk-mutex", &format!("{proxy},{direct}"));
    twice.assert_error(64, "are one instance");
    let twice = broken.audit(&["--target", &format!("{proxy},{direct}")]);
    assert_eq!(twice.code, Some(64), "{}{}", twice.stdout, twice.stderr);
    broken.stop();
}

// C4
#[test]
fn another_zookeeper_than_the_service_s_is_refused() {
    let mut broken = Broken::start();
    let runtime = Runtime::new().unwrap();
    let other = runtime.block_on(TestChroot::create()).unwrap();
    broken.variables.insert("ZOOKEEPER_CONNECT".to_owned(), other.connect_string().to_owned());
    let refused = broken.run("zk-mutex", &broken.url());
    refused.assert_error(64, "is not the one of the service: it has no service");
    broken.stop();
}

// C3
#[test]
fn a_lock_under_which_no_two_buyers_met_proves_nothing() {
    let folder = TestFolder::new();
    let args = "run zk-mutex --users 1 --stock 1 --trials 1 --no-warm-up --instances 1".split(' ');
    let finished = finish(&mut folder.lab(args));
    assert_eq!(finished.code, Some(1), "{}{}", finished.stdout, finished.stderr);
    assert!(finished.stdout.contains("load too weak"), "{}", finished.stdout);
    assert!(finished.stdout.contains("No two buyers met under the lock of zk-mutex"), "{}", finished.stdout);
    assert_eq!(folder.report()["trials"][0]["history"]["contended"], 0);
}

/// Audits SKU 1, and expects the exit status and this line.
fn assert_audit(broken: &Broken, args: &[&str], code: i32, expected: &str) {
    let audited = broken.audit(args);
    assert_eq!(audited.code, Some(code), "{expected}: {}{}", audited.stdout, audited.stderr);
    assert!(audited.stdout.contains(expected), "{expected}: {}", audited.stdout);
}

// C2
#[test]
fn books_that_do_not_say_everything_do_not_pass_the_audit() {
    let broken = Broken::start();
    let url = broken.url();
    let (code, report) = broken.compare("zk-mutex");
    assert!([Some(0), Some(4)].contains(&code), "{report:#}");
    let of_books = ["--goods-no", "1"];
    let of_locks = ["--goods-no", "1", "--target", &url];
    assert_audit(&broken, &of_books, 0, "verdict: nothing wrong in 2 sales");
    assert_audit(&broken, &of_books, 0, "not checked without --target: whether the locks excluded");
    assert_audit(&broken, &of_locks, 0, "verdict: nothing wrong in 2 sales");

    broken.execute("update goods set sale = sale + 1 where goods_no = 1");
    assert_audit(&broken, &of_books, 3, "not checked: sales whose final stock is missing in the ledger: 1");
    broken.execute("update goods set sale = sale - 1 where goods_no = 1");
    broken.execute("create table kept as select * from sales; delete from sales where goods_no = 1 and sale = 2");
    assert_audit(&broken, &of_books, 3, "not checked: sales whose initial stock is missing in the ledger: 1");
    broken.execute("insert into sales select * from kept on conflict do nothing");
    assert_audit(&broken, &of_books, 0, "verdict: nothing wrong in 2 sales");

    broken.execute("insert into orders (strategy, instance) values ('zk-mutex', 'lab-1')");
    assert_audit(&broken, &of_books, 2, "has no line");
    broken.execute(
        "delete from orders where not exists (select from order_lines where order_lines.order_id = orders.order_id)",
    );

    // The first order: its false token is still the lowest, but its section has the true one.
    broken.execute("update order_lines set token = token - 1 where order_id = (select min(order_id) from order_lines)");
    assert_audit(&broken, &of_locks, 3, "not checked: orders without their section in the history: 1");
    broken.execute(
        "update order_lines set token = token - 1000000 where order_id = (select max(order_id) from order_lines)",
    );
    assert_audit(&broken, &of_books, 3, "not checked: orders under an older token");
    assert_audit(&broken, &of_locks, 2, "verdict: wrong: sale 2 of SKU 1");
    broken.stop();
}

// C2
#[test]
fn one_order_without_its_units_left_is_told() {
    let broken = Broken::start();
    broken.compare("zk-mutex");
    broken.execute("update order_lines set remaining = null where order_id = (select max(order_id) from order_lines)");
    let audited = broken.audit(&["--goods-no", "1", "--sale", "2"]);
    assert_eq!(audited.code, Some(3), "{}", audited.stdout);
    for expected in [
        "not checked: orders that do not say how many units they left: 1",
        "not checked: orders whose transaction is unknown, as after a restore of the database: 1",
        "verdict: nothing wrong was found, and not everything was checked: sale 2 of SKU 1",
    ] {
        assert!(audited.stdout.contains(expected), "{expected}: {}", audited.stdout);
    }
    broken.stop();
}
