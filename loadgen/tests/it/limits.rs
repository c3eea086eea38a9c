//! A limit per buyer, at shops that a file describes and at the service of the lab.

use std::fs;

use serde_json::json;

use crate::broken::Broken;
use crate::checked::{assert_ends_with, run_script};
use crate::compare::{figure, result};
use crate::plain_shop::{BOOKS, Limit, PlainShop, STOCK, check, write};
use crate::support::{TestFolder, finish};

/// Starts a shop whose buyers may have one unit each, and writes its file.
async fn write_limited(folder: &TestFolder, limit: Option<Limit>) {
    write(folder, "shop", &PlainShop { limit, ..PlainShop::right() }.start().await, BOOKS);
    let text = fs::read_to_string(folder.path("shop.toml")).unwrap();
    let text = text
        .replace("[sale]", "per-buyer = 1\n[sale]")
        .replace("order = ", "over-limit = [{ status = 403 }]\norder = ");
    fs::write(folder.path("shop.toml"), text).unwrap();
}

// C50
#[tokio::test(flavor = "multi_thread")]
async fn buyers_who_press_three_times_try_the_limit() {
    let folder = TestFolder::new();
    let presses = ["shop.toml", "--requests-per-buyer", "3"];
    write_limited(&folder, Some(Limit::Kept)).await;
    check(&folder, &presses).assert_kept();
    let report = folder.report();
    let answers = &report["trials"][0]["answers"];
    assert_eq!([&answers["sold"], &answers["over_limit"]], [10, 20]);
    assert_eq!(report["plan"]["model_described"], "closed burst, 30 users at the same instant, 3 requests each");
    assert!(!report["results"][0]["unseen"].to_string().contains("the limit per buyer"));

    // There are fewer buyers than units, so some buyer gets a second unit.
    write_limited(&folder, None).await;
    let wrong = check(&folder, &[&presses[..], &["--users", "5"]].concat());
    assert_ends_with(&wrong, 2);
    let fault = "got more than the one unit that a buyer may have";
    assert!(wrong.stdout.contains(fault), "{}", wrong.stdout);
    let script = "report/reproduction/shop.sh";
    let found =
        format!("reproduction: sh {script}: 1 buyer with 3 purchases each at the same instant, wrong in 4 of 4 tries");
    assert!(wrong.stdout.contains(&found), "{}", wrong.stdout);
    let (code, told) = run_script(&folder, script, "2");
    assert_eq!((code, told.contains("WRONG: these buyers were told of more than 1: 0 \n")), (Some(1), true), "{told}");
}

// C50
#[tokio::test(flavor = "multi_thread")]
async fn a_shop_that_refuses_first_purchases_by_its_limit_fails() {
    let folder = TestFolder::new();
    write_limited(&folder, Some(Limit::DeniedToAll)).await;
    let denied = check(&folder, &["shop.toml", "--no-reproduction"]);
    assert_ends_with(&denied, 2);
    assert_eq!(folder.report()["trials"][0]["audit"]["undersold"], STOCK);
}

// C42
#[tokio::test(flavor = "multi_thread")]
async fn a_limit_that_nobody_tried_is_not_checked() {
    let folder = TestFolder::new();
    write(&folder, "shop", &PlainShop::right().start().await, BOOKS);
    let text = fs::read_to_string(folder.path("shop.toml")).unwrap();
    fs::write(folder.path("shop.toml"), text.replace("[sale]", "per-buyer = 2\n[sale]")).unwrap();
    let told = "the limit per buyer: no buyer asked for more than 2 units";
    for (args, code, is_unseen) in [(&[][..], 0, true), (&["--users", "1", "--duration", "1s"], 2, false)] {
        let finished = check(&folder, &[&["shop.toml"], args].concat());
        assert_ends_with(&finished, code);
        assert_eq!(finished.stdout.contains(told), is_unseen, "{}", finished.stdout);
    }
    let no_script =
        "no reproduction of shop: the fault needs buyers that buy again, and each buyer of a script buys once";
    assert_eq!(folder.report()["unreproduced"], json!([no_script]));
    let fault = "up to 1 buyer got more than the 2 units that a buyer may have";
    assert!(folder.report()["results"][0]["faults"].to_string().contains(fault));
}

// C50
#[test]
fn a_limit_per_buyer_is_kept_by_the_row_and_not_by_counting() {
    let folder = TestFolder::new();
    let args = "compare --users 10 --stock 100 --trials 1 --no-warm-up --instances 2 --strategies pg-conditional,pg-counted-limit \
                --per-buyer 1 --requests-per-buyer 3 --business-time 100ms";
    let finished = finish(&mut folder.loadgen(args.split_whitespace()));
    finished.assert_kept();
    assert!(finished.stdout.contains("pg-counted-limit sold more than the limit to up to "), "{}", finished.stdout);
    let report = folder.report();
    let [right, control] = ["pg-conditional", "pg-counted-limit"].map(|name| result(&report, name));
    assert_eq!((figure(right, "over_limit"), &right["answers"]["over_limit"]), (Some(0.0), &json!(20)));
    assert!(figure(control, "over_limit") > Some(0.0));
    assert_eq!(report["plan"]["per_buyer"], 1);
    let page = fs::read_to_string(folder.path("report/report.html")).unwrap();
    assert!(page.contains("Over the limit"));
}

// C50
#[test]
fn the_audit_of_a_database_names_the_sale_beyond_its_limit() {
    let broken = Broken::start();
    broken.assert_kept("pg-buckets");
    let breakage = "update sales set per_buyer = 1; update orders set buyer = 'ann'";
    broken.assert_audit_tells(breakage, "of SKU 1: more units than one buyer may have: 1 buyer\n");
    broken.stop();
}
