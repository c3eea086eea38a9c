//! `loadgen judge` over logs of `loadgen check` itself, and what it refuses. The engines are in `engines`.

// C46

use std::fs;

use serde_json::Value;

use crate::shops::{ShopProcess, start_on_sqlite};
use crate::support::{Finished, TestFolder, finish};

/// A shop that runs, and the report of a check of it.
struct JudgedShop {
    folder: TestFolder,
    _shop: ShopProcess,
    report: Value,
}

impl JudgedShop {
    fn of(args: &[&str]) -> JudgedShop {
        let folder = TestFolder::new();
        let shop = start_on_sqlite("shop.py", &folder, "");
        let text = shop.file("shop.toml", &[("stock = 100", "stock = 10")]);
        fs::write(folder.path("shop.toml"), text).unwrap();
        finish(folder.loadgen(["check", "shop.toml"]).args(args)).assert_kept();
        let report = folder.report();
        JudgedShop { folder, _shop: shop, report }
    }

    fn judge(&self, args: &[&str]) -> Finished {
        let log = ["judge", "report/results.jtl", "--shop", "shop.toml"];
        finish(self.folder.loadgen(log).args(args))
    }

    fn judgement(&self) -> Value {
        serde_json::from_slice(&fs::read(self.folder.path("judged/report.json")).unwrap()).unwrap()
    }
}

/// Returns the answers of each trial.
fn answers(report: &Value) -> Vec<Value> {
    let trial =
        |trial: &Value| [&trial["block"], &trial["users"], &trial["answers"], &trial["warm_up"]].map(Value::clone);
    report["trials"].as_array().unwrap().iter().map(|one| Value::from(trial(one).to_vec())).collect()
}

#[test]
fn the_log_of_a_check_is_judged_as_the_check_was() {
    let checked = JudgedShop::of(&["--users", "45,90", "--trials", "2", "--seed", "4"]);
    checked.judge(&["--no-books", "--warm-ups", "1"]).assert_kept();
    let judged = checked.judgement();
    let [mut own, mut logs] = [answers(&checked.report), answers(&judged)];
    // A check draws the order in a block, and a log has the order of time.
    own.sort_by_key(Value::to_string);
    logs.sort_by_key(Value::to_string);
    assert_eq!(own, logs);
    for (own, log) in checked.report["results"].as_array().unwrap().iter().zip(judged["results"].as_array().unwrap()) {
        assert_eq!((&own["users"], &own["answers"]), (&log["users"], &log["answers"]));
        for figure in ["/sold/max", "/sold_out/p50", "/sold_out/max"] {
            let times = |result: &Value| result["latency"]["response"].pointer(figure).unwrap().as_f64().unwrap();
            let [exact, whole] = [own, log].map(times);
            // A start and a duration are each rounded down to whole milliseconds, and two histograms keep three digits.
            let digits = 0.002 * exact;
            let expected = -digits - 0.5..digits + 2.5;
            assert!(expected.contains(&(exact - whole)), "{figure}: {exact} and {whole}");
        }
    }
    let told = judged["caveats"].to_string();
    assert!(told.contains("the load is of JMeter or loadgen: 405 purchases in 1 log"), "{told}");
    assert!(
        judged["verdict"]["details"].to_string().contains("the books: --no-books was given"),
        "{}",
        judged["verdict"]
    );
}

#[test]
fn the_books_are_of_the_last_trial_alone() {
    let checked = JudgedShop::of(&["--users", "30", "--trials", "2", "--no-warm-up"]);
    checked.judge(&[]).assert_kept();
    let judged = checked.judgement();
    let evidence: Vec<&Value> = judged["trials"].as_array().unwrap().iter().map(|trial| &trial["evidence"]).collect();
    assert_eq!(evidence, ["answers", "database"]);
    let told = judged["verdict"]["details"].to_string();
    assert!(told.contains("the books: they are of the last trial alone"), "{told}");
    assert!(told.contains("the orders: --before does not name the books from before the sale"), "{told}");
}

#[test]
fn books_of_another_sale_are_refused() {
    let checked = JudgedShop::of(&["--users", "30", "--trials", "1", "--no-warm-up"]);
    let log = fs::read_to_string(checked.folder.path("report/results.jtl")).unwrap();
    // A day earlier, by the start and by the intended start.
    let earlier = |line: &str| {
        let mut fields: Vec<String> = line.split(',').map(str::to_owned).collect();
        for column in [0, 18] {
            let ms: f64 = fields[column].parse().unwrap();
            fields[column] = format!("{:.0}", ms - 86_400_000.0);
        }
        fields.join(",")
    };
    let head = log.lines().next().unwrap().to_owned();
    let lines: Vec<String> = std::iter::once(head).chain(log.lines().skip(1).map(earlier)).collect();
    fs::write(checked.folder.path("old.jtl"), lines.join("\n") + "\n").unwrap();
    finish(&mut checked.folder.loadgen(["judge", "--shop", "shop.toml", "--put-on-sale", "before.json"]));
    let late = checked.judge(&[]);
    late.assert_error(3, "the stock was put on sale again after the load, or nothing was sold");
    late.assert_error(3, "judge with --no-books");
    let judge = ["judge", "old.jtl", "--shop", "shop.toml", "--before", "before.json"];
    let before = finish(&mut checked.folder.loadgen(judge));
    before.assert_error(64, "the books of Flask and SQLite in --before were noted after the load");
}

#[test]
fn a_missing_log_proves_nothing_and_hides_no_fault() {
    let checked = JudgedShop::of(&["--users", "30", "--trials", "1", "--no-warm-up", "--seed", "1"]);
    let log = fs::read_to_string(checked.folder.path("report/results.jtl")).unwrap();
    let lines: Vec<&str> = log.lines().collect();
    let is_sold = |line: &&&str| line.contains(",sold,");
    let lost: Vec<&str> = lines.iter().filter(is_sold).take(4).copied().collect();
    let half: String = lines.iter().filter(|line| !lost.contains(line)).map(|line| format!("{line}\n")).collect();
    fs::write(checked.folder.path("half.jtl"), half).unwrap();
    let judge = |args: &[&str]| finish(checked.folder.loadgen(["judge", "half.jtl", "--shop", "shop.toml"]).args(args));
    for args in [&[][..], &["--no-books"], &["--users", "30"]] {
        let judged = judge(args);
        assert_eq!(judged.code, Some(3), "{args:?}: {}{}", judged.stdout, judged.stderr);
        let blames_the_shop = judged.stdout.contains("fewer --users") || judged.stdout.contains("of 26 requests");
        assert!(!blames_the_shop, "{}", judged.stdout);
    }
    let judged = checked.judge(&["--users", "30", "--threshold", "errors>50%"]);
    assert_eq!(judged.code, Some(1), "{}{}", judged.stdout, judged.stderr);
    assert_eq!(checked.judgement()["thresholds"][0]["rule"], "errors>50%");
}

#[test]
fn what_cannot_be_judged_is_refused_with_its_remedy() {
    let folder = TestFolder::new();
    let url = "http://127.0.0.1:9";
    let shop = format!(
        "[shop]\nname = \"a\"\nurls = [\"{url}\"]\nstock = 10\n[sale]\nrequests = [\"curl {{{{url}}}}/reset\"]\n[buy]\nrequests = \
         [\"curl {{{{url}}}}/buy\"]\nsold = [{{ status = 201 }}]\n"
    );
    fs::write(folder.path("shop.toml"), shop).unwrap();
    fs::write(folder.path("a.jtl"), "timeStamp,elapsed,label,responseCode,success\n1,2,buy,201,true\n").unwrap();
    fs::write(folder.path("no.json"), "{}").unwrap();
    let judge = |args: &[&str]| finish(folder.loadgen(["judge", "--shop", "shop.toml"]).args(args));
    judge(&[]).assert_error(64, "<RESULTS>");
    judge(&["gone.jtl", "--no-books"]).assert_error(3, "gone.jtl");
    judge(&["shop.toml", "--no-books"]).assert_error(64, "begins no log that can be read");
    judge(&["a.jtl", "--before", "no.json"]).assert_error(64, "no.json has no books from before a sale");
    judge(&["a.jtl", "--clock", "b.jtl=3ms"]).assert_error(64, "--clock names b.jtl, which is no log here");
    judge(&["a.jtl", "--clock", "3ms"]).assert_error(64, "write a log and a time");
    judge(&["a.jtl", "--label", "pay"]).assert_error(64, "it has \"buy\"");
    judge(&["a.jtl", "--warm-ups", "1"]).assert_error(64, "a has 1 trial with 1 user, so none is left");
    judge(&["a.jtl", "./a.jtl"]).assert_error(64, "a log is named twice");
    judge(&["a.jtl", "--no-books", "--out", "."]).assert_error(64, "the log a.jtl lies in the folder of the report");
    judge(&["a.jtl", "--shop", "shop.toml"]).assert_error(64, "two shops are named \"a\"");
    judge(&["--put-on-sale", "before.json"]).assert_error(3, "is the shop running?");
    assert!(!folder.path("before.json").exists() && !folder.path("judged").exists(), "nothing was made");
}
