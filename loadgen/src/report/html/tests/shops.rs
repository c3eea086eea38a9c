//! The page of a check of shops that files describe.

use std::collections::BTreeSet;

use super::{all, assert_sound, data, page, texts};
use crate::audit::shop::{BooksRead, Evidence};
use crate::report::{Findings, Report, fixture, markdown, shop_fixture};
use crate::trial::record::Reproduction;

/// Words of the service of the lab that no page about other shops may have.
pub(crate) const OF_LAB: [&str; 19] = [
    "strateg",
    "ZooKeeper",
    "Postgres",
    "mntr",
    "notification",
    "instance",
    "lock",
    "--stock",
    "business",
    "the service's log",
    "herd",
    "hand-over",
    "fencing",
    "token",
    "waiter",
    "simulat",
    "permit",
    "loadgen compare",
    "seckill lab",
];

fn words_of_lab(text: &str) -> Vec<&'static str> {
    // The load model is a closed burst, and a block is no lock.
    let text = text.to_lowercase().replace("block", "").replace("clock", "");
    OF_LAB.into_iter().filter(|word| text.contains(&word.to_lowercase())).collect()
}

fn all_reports() -> [Report; 3] {
    [shop_fixture::right_shop(), shop_fixture::wrong_shop(), shop_fixture::wrong_shop_beside_right()]
}

#[test]
fn no_word_of_the_lab_is_left() {
    for report in all_reports() {
        let page = page(&report);
        let text = texts(&page, "title, header, main, footer p").join("\n");
        assert_eq!(words_of_lab(&text), [""; 0], "{text}");
        let labels: Vec<&str> = all(&page, "[aria-label]").iter().filter_map(|with| with.attr("aria-label")).collect();
        assert_eq!(words_of_lab(&labels.join("\n")), [""; 0], "{labels:?}");
    }
}

#[test]
fn the_script_that_shows_the_fault_is_on_the_page() {
    let script = "#!/bin/sh\ncurl 'http://a/?b=1&c=2' &\n".to_owned();
    let reproduction = Reproduction {
        shop: "early answers".to_owned(),
        buyers: 2,
        crowd: "2 buyers at the same instant".to_owned(),
        wrong: 3,
        tries: 4,
        script,
    };
    let report = Report { reproductions: vec![reproduction.clone()], ..shop_fixture::wrong_shop() };
    let page = page(&report);
    let shown: String = all(&page, "pre.script")[0].text().collect();
    assert_eq!(shown, reproduction.script);
    let told = "2 buyers at the same instant were enough: early answers sold wrongly in 3 of 4 tries. This script does the same.";
    assert!(texts(&page, "#reproduction p").contains(&told.to_owned()), "{:?}", texts(&page, "#reproduction p"));
    assert_sound(&page, 4);
    let text = markdown::render(&report, &report.metrics());
    assert!(text.contains(&format!("{told}\n\n```sh\n{}```\n", reproduction.script)), "{text}");
}

#[test]
fn a_shop_without_a_reproduction_is_named_with_the_reason() {
    let line = "no reproduction of Node was found: bursts of 2 to 300 buyers, 4 tries each, did not show it";
    let report = Report { unreproduced: vec![line.to_owned()], ..shop_fixture::wrong_shop() };
    let page = page(&report);
    assert_eq!(texts(&page, "#reproduction p"), [line]);
    assert_sound(&page, 4);
    let text = markdown::render(&report, &report.metrics());
    assert!(text.contains(&format!("\n## How to reproduce it\n\n- {line}\n\n## How to read it\n")), "{text}");
}

#[test]
fn a_page_of_shops_is_sound() {
    for report in all_reports() {
        assert_sound(&page(&report), 4);
    }
}

#[test]
fn the_title_says_how_many_shops_are_checked() {
    let titles = all_reports().map(|report| texts(&page(&report), "h1").join(""));
    assert_eq!(titles, ["Check of Flask", "Check of Node", "Check: Flask against Node"]);
    let three = Report::of(shop_fixture::of_shops(&["A", "B", "C"]));
    assert_eq!(texts(&page(&three), "h1"), ["Check: 3 shops compared"]);
}

#[test]
fn a_page_of_shops_has_no_part_that_they_cannot_fill() {
    for report in all_reports() {
        let page = page(&report);
        let parts: Vec<&str> = all(&page, "main section").iter().filter_map(|part| part.attr("id")).collect();
        let expected = ["verdict", "sale", "sold", "latency", "generator", "thresholds", "guide", "environment"];
        assert_eq!(parts, expected);
        assert_eq!(texts(&page, ".absent"), [""; 0], "every chart has something to show");
    }
}

#[test]
fn what_relates_shops_needs_two_of_them() {
    let of = |report: &Report| -> BTreeSet<String> {
        let page = page(report);
        let columns = texts(&page, "#table-latency thead th").into_iter();
        columns.chain(all(&page, "figure").iter().filter_map(|chart| chart.attr("id")).map(str::to_owned)).collect()
    };
    let one = of(&shop_fixture::right_shop());
    let two = of(&Report::of(shop_fixture::of_shops(&["Flask", "Node"])));
    let only_two: Vec<&String> = two.difference(&one).collect();
    assert_eq!(only_two, ["Rank", "Ratio to the refer\u{ad}ence", "ratios"]);
}

#[test]
fn the_page_says_by_what_each_shop_was_checked() {
    let mut findings = shop_fixture::of_shops(&["Flask", "Node"]);
    for trial in findings.trials.iter_mut().filter(|trial| trial.strategy == "Node") {
        trial.evidence = Some(Evidence::Database);
        trial.unseen.clear();
    }
    let page = page(&Report::of(findings));
    assert_eq!(texts(&page, "#table-sold thead th")[..3], ["Shop", "Checked by", "Kept"]);
    assert_eq!(texts(&page, "#table-sold td:nth-child(2)"), ["the shop's own pages", "the database"]);
    let gaps: Vec<String> =
        texts(&page, ".details li").into_iter().filter(|line| line.starts_with("not checked")).collect();
    assert!(gaps.len() == 1 && gaps[0].starts_with("not checked of Flask: which buyer has no order"), "{gaps:?}");
}

#[test]
fn figures_of_books_that_were_not_read_are_absent() {
    let mut findings = shop_fixture::of_shops(&["Flask"]);
    let books = ["Lost updates worst", "Ledger trials not balanced", "Indeterminate orders"];
    for (stock, orders, expected) in [
        (true, true, ["0", "0", "0"]),
        (true, false, ["0", "–", "–"]),
        (false, true, ["–", "0", "0"]),
        (false, false, ["–", "–", "–"]),
    ] {
        findings.trials.iter_mut().for_each(|trial| trial.books_read = Some(BooksRead { stock, orders }));
        let report = Report::of(Findings { trials: findings.trials.clone(), ..shop_fixture::of_shops(&["Flask"]) });
        let page = page(&report);
        let titles = texts(&page, "#table-sold thead th").into_iter().map(|title| title.replace('\u{ad}', ""));
        let cells = texts(&page, "#table-sold tbody th, #table-sold tbody td");
        let shown: Vec<String> =
            titles.zip(cells).filter(|(title, _)| books.contains(&title.as_str())).map(|(_, cell)| cell).collect();
        assert_eq!(shown, expected);
    }
}

#[test]
fn the_limit_per_buyer_is_shown_if_a_shop_has_one() {
    let of_limit = |report: &Report| {
        texts(&page(report), "#table-sold thead th").contains(&"Over the limit buyers, worst".to_owned())
    };
    assert!(!of_limit(&shop_fixture::right_shop()), "Flask has no limit");
    assert!(of_limit(&shop_fixture::wrong_shop()), "Node has one");
}

#[test]
fn a_check_of_several_numbers_of_users_shows_how_it_scales() {
    let mut report = shop_fixture::right_shop();
    let mut few = report.results[0].clone();
    few.users = 30;
    report.results.insert(0, few);
    report.schedule.users = vec![30, 300];
    let page = page(&report);
    let charts: Vec<&str> = all(&page, "#scaling figure").iter().filter_map(|chart| chart.attr("id")).collect();
    assert_eq!(charts, ["scale-median", "scale-goodput"]);
}

#[test]
fn the_data_of_the_charts_say_that_they_are_of_shops() {
    assert_eq!(data(&page(&shop_fixture::right_shop()))["subject"], "shop");
    assert_eq!(data(&page(&fixture::report()))["subject"], "strategy");
}

#[test]
fn a_check_that_ended_at_once_has_a_page_too() {
    let mut findings = shop_fixture::of_shops(&["Flask"]);
    findings.trials.truncate(1);
    let ended = crate::judge::verdict::EndedEarly { exit_code: 130, reason: "interrupted".to_owned() };
    findings.ended_early = Some(ended);
    let page = page(&Report::of(findings));
    assert_sound(&page, 4);
    let commands = texts(&page, ".absent code");
    assert!(
        !commands.is_empty() && commands.iter().all(|command| command.starts_with("loadgen check SHOP")),
        "{commands:?}"
    );
}
