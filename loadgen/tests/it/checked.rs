//! Trials of `loadgen check`: right and wrong shops, and everything that ends a check before or during them.

use std::fs;
use std::process::Command;
use std::sync::atomic::AtomicI64;

use nix::sys::signal::Signal;
use serde_json::{Value, json};

use crate::plain_shop::{BOOKS, PlainShop, STOCK, check, write};
use crate::shops::{ShopProcess, start_on_sqlite};
use crate::support::{Finished, PATIENCE, Running, TestFolder, eventually, finish};

/// Checks a shop of `tests/shops`, whose file is left without what names a database.
fn check_process(folder: &TestFolder, shop: &ShopProcess, file: &str) -> Finished {
    check_process_with(folder, shop, file, &[])
}

/// Checks such a shop with these replacements in its file.
pub(crate) fn check_process_with(
    folder: &TestFolder,
    shop: &ShopProcess,
    file: &str,
    replaced: &[(&str, &str)],
) -> Finished {
    let text = shop.file(file, &[&[("stock = 100", "stock = 10")], replaced].concat());
    let text = text.split("[books.sql]").next().unwrap();
    fs::write(folder.path("shop.toml"), text).unwrap();
    check(folder, &["shop.toml"])
}

/// Expects this exit status. A generator that is the bottleneck on a busy machine ends with 4 in place of 0.
pub(crate) fn assert_ends_with(finished: &Finished, code: i32) {
    if code == 0 {
        finished.assert_kept();
    } else {
        assert_eq!(finished.code, Some(code), "{}{}", finished.stdout, finished.stderr);
    }
}

pub(crate) fn run_script(folder: &TestFolder, script: &str, tries: &str) -> (Option<i32>, String) {
    let output = Command::new("sh").arg(folder.path(script)).arg(tries).output().unwrap();
    (output.status.code(), String::from_utf8(output.stdout).unwrap())
}

#[test]
fn a_shop_that_sells_its_stock_passes_by_its_books() {
    let folder = TestFolder::new();
    let shop = start_on_sqlite("shop.py", &folder, "");
    let finished = check_process(&folder, &shop, "shop.toml");
    finished.assert_kept();
    let report = folder.report();
    let trial = &report["trials"][0];
    assert_eq!((&trial["audit"]["sold"], &trial["evidence"]), (&json!(10), &json!("pages")));
    assert_eq!(report["plan"]["shops"][0]["urls"], json!([shop.url()]));
    let log = fs::read_to_string(folder.path("report/results.jtl")).unwrap();
    assert_eq!(log.matches(",sold,").count(), 10, "{log}");
    assert!(log.lines().next().unwrap().ends_with(",trial,intended,outcome,buyer,order"), "{log}");
    assert!(finished.stdout.contains("made at Flask and SQLite: 0 sign-ups and 10 purchases; its file has no [clean]"));
}

// C43
#[test]
fn a_shop_that_oversells_fails_with_a_script_that_shows_it() {
    let folder = TestFolder::new();
    let shop = start_on_sqlite("shop.py", &folder, "--wrong --meet");
    let finished = check_process(&folder, &shop, "shop.toml");
    assert_eq!(finished.code, Some(2), "{}{}", finished.stdout, finished.stderr);
    let script = "report/reproduction/Flask_and_SQLite.sh";
    let expected = format!("reproduction: sh {script}: 2 buyers at the same instant, wrong in 4 of 4 tries\n");
    assert!(finished.stdout.contains(&expected), "{}", finished.stdout);
    let (code, told) = run_script(&folder, script, "3");
    assert_eq!(code, Some(1), "{told}");
    assert!(told.contains("WRONG: the stock fell by 1, and 2 were sold"), "{told}");
    let text = fs::read_to_string(folder.path(script)).unwrap();
    let quick = check(&folder, &["shop.toml", "--no-reproduction", "--out", "quick"]);
    assert_eq!((quick.code, quick.stdout.contains("reproduction: ")), (Some(2), false), "{}", quick.stdout);
    drop(shop);
    let right = start_on_sqlite("shop.py", &folder, "");
    fs::write(folder.path(script), text.replace(&address(&text), right.url())).unwrap();
    let (code, told) = run_script(&folder, script, "1");
    assert_eq!((code, told.ends_with("nothing was sold wrongly\n")), (Some(0), true), "{told}");
}

// C43
#[tokio::test(flavor = "multi_thread")]
async fn a_fault_that_is_not_seen_again_is_told_without_a_script() {
    for (args, sought) in [(&["shop.toml"][..], true), (&["shop.toml", "--no-reproduction"], false)] {
        let folder = TestFolder::new();
        let shop = PlainShop { errs_once: true.into(), ..PlainShop::right() };
        write(&folder, "shop", &shop.start().await, BOOKS);
        let finished = check(&folder, args);
        assert_eq!(finished.code, Some(2), "{}{}", finished.stdout, finished.stderr);
        let line = "no reproduction of shop was found: bursts of 2 to 30 buyers, 4 tries each, did not show it";
        assert_eq!(finished.stdout.contains(&format!("{line}\n")), sought, "{}", finished.stdout);
        let report = folder.report();
        assert_eq!(report["unreproduced"], if sought { json!([line]) } else { json!([]) });
        let page = fs::read_to_string(folder.path("report/report.html")).unwrap();
        let markdown = fs::read_to_string(folder.path("report/report.md")).unwrap();
        assert_eq!((page.contains(line), markdown.contains(line)), (sought, sought));
    }
}

/// Returns the address that a script buys at.
fn address(script: &str) -> String {
    let line = script.lines().find(|line| line.starts_with("# Sends requests to ")).unwrap();
    line["# Sends requests to ".len()..].split(' ').next().unwrap().to_owned()
}

// C42
#[test]
fn buyers_that_log_in_and_wait_in_a_queue_are_judged() {
    for (args, code) in [("", 0), ("--wrong --meet", 2)] {
        let folder = TestFolder::new();
        let shop = start_on_sqlite("course_shop.py", &folder, args);
        let finished = check_process(&folder, &shop, "course_shop.toml");
        assert_ends_with(&finished, code);
        if code == 2 {
            let (code, told) = run_script(&folder, "report/reproduction/course_on_flash_sales.sh", "3");
            assert_eq!(code, Some(1), "{told}");
        }
    }
}

// C42
#[test]
fn a_shop_that_loses_orders_after_its_answers_is_found() {
    for (args, code) in [("--loses 0.2", 2), ("", 0)] {
        let folder = TestFolder::new();
        let shop = start_on_sqlite("early_shop.py", &folder, args);
        let finished = check_process(&folder, &shop, "early_shop.toml");
        assert_ends_with(&finished, code);
        let lost = if code == 2 { 2 } else { 0 };
        assert_eq!(folder.report()["trials"][0]["audit"]["confirmations_unfounded"], lost);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_verdict_asks_to_correct_a_source_without_orders() {
    let folder = TestFolder::new();
    write(&folder, "shop", &PlainShop::right().start().await, BOOKS);
    let text = fs::read_to_string(folder.path("shop.toml")).unwrap();
    fs::write(folder.path("shop.toml"), text.replace("$.order\"", "$.data.id\"")).unwrap();
    let finished = check(&folder, &["shop.toml"]);
    finished.assert_kept();
    let expected = "no answer that sold has the order of order = \"$.data.id\": correct the path, or remove order";
    let told = finished.stdout.lines().find(|line| line.contains("not checked of shop: ")).unwrap();
    assert!(told.contains(expected), "{told}");
}

// C42
#[tokio::test(flavor = "multi_thread")]
async fn without_books_the_answers_are_the_evidence() {
    let folder = TestFolder::new();
    let url = PlainShop::right().start().await;
    let buy = format!("curl -X POST {url}/buy");
    let reset = format!("curl -X POST {url}/reset");
    let stock = STOCK.to_string();
    let finished = check(&folder, &["--buy", &buy, "--reset", &reset, "--stock", &stock, "--sold", "201"]);
    finished.assert_kept();
    assert_eq!(folder.report()["trials"][0]["evidence"], "answers");
    // Of a shop with more units than it says, the answers tell of too many.
    let less = (STOCK - 3).to_string();
    let finished = check(&folder, &["--buy", &buy, "--reset", &reset, "--stock", &less, "--sold", "201"]);
    assert_eq!(finished.code, Some(2), "{}{}", finished.stdout, finished.stderr);
    assert_eq!(folder.report()["trials"][0]["audit"]["oversold"], 3);
    // A pattern that matches every answer looks like a shop that sells to everybody.
    let unread = ["--buy", &buy, "--reset", &reset, "--stock", &stock, "--sold", "201", "--sold", "409"];
    let told = check(&folder, &unread).stdout;
    assert!(told.contains("whether other answers mean something else: all 30 were read as sold"), "{told}");
}

// C42
#[tokio::test(flavor = "multi_thread")]
async fn fewer_purchases_than_units_prove_no_right_sale() {
    let folder = TestFolder::new();
    let url = PlainShop::right().start().await;
    write(&folder, "shop", &url, "");
    finish(&mut folder.loadgen(["check", "shop.toml", "--users", "10"])).assert_error(
        64,
        "error: 10 users cannot buy more than the 10 units of shop, and without [books] nothing else can show a fault; raise \
         --users above 10, or lower stock",
    );
    let told = "overselling: 4 purchases cannot sell more than 10 units; let more buyers come";
    let few = ["--rate", "20", "--arrivals", "constant", "--duration", "200ms"];
    let by_answers = check(&folder, &[&["shop.toml"][..], &few].concat());
    assert_eq!(by_answers.code, Some(3), "{}{}", by_answers.stdout, by_answers.stderr);
    assert!(
        by_answers.stdout.contains(&format!("not everything was checked of shop ({told})")),
        "{}",
        by_answers.stdout
    );
    // Two buyers that take the same unit leave a trace in the books.
    write(&folder, "shop", &url, BOOKS);
    let by_books = check(&folder, &[&["shop.toml"][..], &few].concat());
    by_books.assert_kept();
    assert!(by_books.stdout.contains(told), "{}", by_books.stdout);
}

#[tokio::test(flavor = "multi_thread")]
async fn two_shops_are_compared_block_by_block() {
    let folder = TestFolder::new();
    write(&folder, "old", &PlainShop::right().start().await, BOOKS);
    write(&folder, "new", &PlainShop::right().start().await, BOOKS);
    let finished = check(&folder, &["old.toml", "new.toml", "--rate", "200", "--duration", "200ms"]);
    finished.assert_kept();
    let report = folder.report();
    let names = |list: &Value, key: &str| -> Vec<String> {
        list.as_array().unwrap().iter().map(|one| one[key].as_str().unwrap().to_owned()).collect()
    };
    assert_eq!(names(&report["results"], "strategy"), ["old", "new"]);
    assert_eq!(names(&report["plan"]["shops"], "name"), ["old", "new"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_rule_about_every_shop_needs_no_name() {
    let folder = TestFolder::new();
    write(&folder, "shop", &PlainShop::right().start().await, BOOKS);
    check(&folder, &["shop.toml", "--threshold", "errors<1%"]).assert_kept();
    assert_eq!(folder.report()["thresholds"][0]["rule"], "errors<1%");
    let crossed = check(&folder, &["shop.toml", "--threshold", "shop goodput>1000000000"]);
    assert_eq!(crossed.code, Some(1), "{}", crossed.stdout);
}

/// Expects a check to be refused in its first trial.
async fn assert_ends(shop: PlainShop, rest: &str, args: &[&str], expected: &str) {
    let folder = TestFolder::new();
    write(&folder, "shop", &shop.start().await, rest);
    check(&folder, &[&["shop.toml"], args].concat()).assert_error(3, expected);
    assert!(!folder.path("report/report.json").exists());
}

const LOGIN: &str = "[buyers]\nrequests = [\"curl {{url}}/login -d buyer={{number}}\"]\n";

// C44
#[tokio::test(flavor = "multi_thread")]
async fn a_reset_that_does_not_restore_the_stock_is_named() {
    let shop = PlainShop { restored: STOCK - 1, ..PlainShop::default() };
    let expected =
        "error: shop: the page of [books] has 9 units after [sale], and [shop] has stock = 10; let [sale] restore";
    assert_ends(shop, BOOKS, &[], expected).await;
}

// C44
#[tokio::test(flavor = "multi_thread")]
async fn a_reset_that_lies_is_found_by_answers_alone() {
    let shop = PlainShop { reset_lies: true, ..PlainShop::default() };
    let expected =
        "error: shop: nothing was sold after [sale], and 30 buyers were told \"sold out\"; let [sale] restore 10 units";
    assert_ends(shop, "", &[], expected).await;
    let folder = TestFolder::new();
    let shop = PlainShop { reset_lies: true, stock: AtomicI64::new(STOCK - 1), ..PlainShop::default() };
    write(&folder, "shop", &shop.start().await, "");
    let told = check(&folder, &["shop.toml"]).stdout;
    let expected = "up to 1 unit was left although buyers were told \"sold out\" (or [sale] has not restored the stock";
    assert!(told.contains(expected), "{told}");
}

// C44
#[tokio::test(flavor = "multi_thread")]
async fn a_page_whose_stock_never_moves_is_no_fault_of_the_sale() {
    let shop = PlainShop { is_cached: true, ..PlainShop::right() };
    let expected =
        "error: shop: the page of [books] stock still has all 10 units after 10 were sold; name a page that is not";
    assert_ends(shop, BOOKS, &[], expected).await;
}

// C44
#[tokio::test(flavor = "multi_thread")]
async fn books_that_change_before_anybody_buys_are_named() {
    let shop = PlainShop { shrinks: true, ..PlainShop::right() };
    let expected =
        "error: the books of shop changed before anybody bought: 10 units left, 0 orders, then 8 units left, 0 orders";
    assert_ends(shop, BOOKS, &[], expected).await;
}

// C44
#[tokio::test(flavor = "multi_thread")]
async fn the_buyer_that_cannot_log_in_is_named() {
    let shop = PlainShop { stranger: Some("17"), ..PlainShop::right() };
    let expected = "error: buyer 17 could not sign up: shop.toml:12: answered 403, and a sign-up needs 2xx";
    assert_ends(shop, LOGIN, &[], expected).await;
}

// C44
#[tokio::test(flavor = "multi_thread")]
async fn a_shop_that_is_down_ends_the_check() {
    let shop = PlainShop { is_down: true, ..PlainShop::right() };
    let expected =
        "of the 30 purchases at shop failed, and the check ends at 50\u{202f}%: answered 502, which no pattern";
    assert_ends(shop, BOOKS, &[], expected).await;
    let unlimited = PlainShop { is_down: true, ..PlainShop::right() };
    let folder = TestFolder::new();
    write(&folder, "shop", &unlimited.start().await, BOOKS);
    let finished = check(&folder, &["shop.toml", "--stop-at", "100%"]);
    assert_eq!(finished.code, Some(3), "{}{}", finished.stdout, finished.stderr);
    assert_eq!(folder.report()["results"][0]["finding"], "refused-or-failed");
}

// C44
#[tokio::test(flavor = "multi_thread")]
async fn a_check_sends_no_more_requests_than_it_may() {
    let shop = PlainShop::right();
    let expected = "error: the check has sent the greatest number of requests; allow more by --requests-max";
    assert_ends(shop, BOOKS, &["--duration", "2s", "--requests-max", "100"], expected).await;
    let folder = TestFolder::new();
    write(&folder, "shop", "http://127.0.0.1:1", BOOKS);
    check(&folder, &["shop.toml", "--requests-max", "29"]).assert_error(
        64,
        "error: the check would send at least 30 requests, and the most are 29; give fewer --users or --trials",
    );
}

#[test]
fn mistakes_are_found_before_a_request_is_sent() {
    let folder = TestFolder::new();
    write(&folder, "shop", "http://127.0.0.1:1", BOOKS);
    let text = fs::read_to_string(folder.path("shop.toml")).unwrap();
    fs::write(folder.path("more.toml"), text.replace("\"shop\"", "\"more\"").replace("stock = 10", "stock = 11"))
        .unwrap();
    fs::write(folder.path("buyers.csv"), "phone\n1\n2\n").unwrap();
    write(&folder, "csv", "http://127.0.0.1:1", "[buyers]\ncsv = \"buyers.csv\"\n");
    for (args, expected) in [
        (&["shop.toml", "shop.toml"][..], "two shops are named \"shop\"; give each its own name in [shop]"),
        (
            &["shop.toml", "more.toml"],
            "shop has stock = 10, and more has stock = 11; shops are compared with the same stock",
        ),
        (&["csv.toml"], "buyers.csv has 2 buyers, and the load needs 30; add lines to it, or give fewer users"),
        (&["shop.toml", "--threshold", "p99=1s"], "one of <, <=, ==, >= and > is expected here"),
        (&["shop.toml", "--threshold", "shpo p99<1s"], "is about nothing that is compared: shop with 30 users"),
        (
            &["shop.toml", "--threshold", "p99<1s"],
            "needs the times of 1000 sold units, and 1 trial can sell 10; give more stock in the shop file or more --trials",
        ),
        (&["shop.toml", "--rate", "9", "--goose-report", "md"], "goose cannot report a load with a rate"),
    ] {
        check(&folder, args).assert_error(64, expected);
    }
    check(&folder, &["shop.toml"]).assert_error(3, "error: [sale] failed: no answer: ");
}

// C44
#[tokio::test(flavor = "multi_thread")]
async fn ctrl_c_in_the_middle_cleans_up_and_keeps_nothing_half() {
    let folder = TestFolder::new();
    let shop = PlainShop { hangs: true, ..PlainShop::right() };
    let clean = "[clean]\ncommand = \"echo cleaned >cleaned\"\n";
    write(&folder, "shop", &shop.start().await, clean);
    let running = Running::start(&mut folder.loadgen(["check", "shop.toml", "--users", "11"]));
    eventually("a trial runs", PATIENCE, || folder.path("report/results.jtl").exists());
    running.signal(Signal::SIGINT);
    assert_eq!(running.wait().0.code(), Some(130));
    assert_eq!(fs::read_to_string(folder.path("cleaned")).unwrap(), "cleaned\n");
    let report = folder.report();
    assert_eq!((&report["ended_early"]["exit_code"], &report["trials"]), (&json!(130), &json!([])));
}
