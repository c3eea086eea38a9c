//! The page without its script.

mod shops;

use std::collections::BTreeSet;
use std::path::Path;

use scraper::{ElementRef, Html, Selector};

use super::render;
use crate::judge::metrics::METRICS;
use crate::judge::result::StrategyResult;
use crate::judge::thresholds::Threshold;
use crate::report::{Report, fixture, json};

const HOSTILE: &str = "</script><img src=x onerror=\"alert('sold')\">";

fn page(report: &Report) -> Html {
    let page = Html::parse_document(&render(report, METRICS).unwrap());
    assert_eq!(page.errors, Vec::<std::borrow::Cow<str>>::new());
    page
}

fn all<'a>(page: &'a Html, selector: &str) -> Vec<ElementRef<'a>> {
    page.select(&Selector::parse(selector).unwrap()).collect()
}

fn text(element: ElementRef<'_>) -> String {
    of_plain_blanks(&element.text().collect::<String>())
}

fn of_plain_blanks(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

fn texts(page: &Html, selector: &str) -> Vec<String> {
    all(page, selector).into_iter().map(text).collect()
}

fn data(page: &Html) -> serde_json::Value {
    serde_json::from_str(&all(page, "script#data")[0].inner_html()).unwrap()
}

/// Returns a report with rules, of which one is crossed.
fn with_thresholds() -> Report {
    let rules = ["zk-mutex p50<250ms", "zk-* oversold==0", "unguarded oversold==0"];
    let thresholds = rules.iter().map(|rule| Threshold::parse(rule).unwrap()).collect();
    let findings = fixture::findings(None, fixture::report().trials);
    Report::of(crate::report::Findings { thresholds, ..findings })
}

#[test]
fn the_sentence_comes_first_and_nothing_is_left_out() {
    let report = with_thresholds();
    let page = page(&report);
    assert_eq!(texts(&page, "main p")[0], report.verdict.sentence);
    assert_eq!(texts(&page, ".banner li"), report.verdict.reasons);
    let caveats: Vec<String> = report.caveats.iter().map(|caveat| of_plain_blanks(caveat)).collect();
    assert_eq!(texts(&page, ".caveats li"), caveats);
    let rules: Vec<String> = texts(&page, "#table-thresholds tbody th");
    assert_eq!(rules, report.thresholds.iter().map(|threshold| threshold.rule.clone()).collect::<Vec<_>>());
    for table in ["sold", "latency", "outcomes", "database", "processes", "generator"] {
        let names = texts(&page, &format!("#table-{table} tbody tr:not(.group) th"));
        for result in &report.results {
            assert!(names.contains(&result.strategy), "{table} has no {}: {names:?}", result.strategy);
        }
    }
    let herd = texts(&page, "#table-herd tbody tr:not(.group) th");
    assert_eq!(herd, ["zk-naive", "zk-mutex"]);
}

#[test]
fn a_run_without_a_fault_has_no_banner_and_every_other_has_one() {
    let clean = page(&fixture::report());
    assert!(all(&clean, ".banner:not(noscript .banner)").is_empty() && !all(&clean, ".reasons li").is_empty());
    let interrupted = page(&fixture::interrupted());
    assert_eq!(texts(&interrupted, ".banner-title"), ["! Ended early: interrupted (1 of 36 trials)"]);
    let broken = Report::of(fixture::findings(None, vec![fixture::trial("zk-mutex", 0, 100, 103)]));
    let page = page(&broken);
    assert_eq!(texts(&page, ".banner.grave .banner-title"), ["✗ A promise was broken"]);
    assert!(texts(&page, ".banner p").contains(&"Exit code 2.".to_owned()));
}

#[test]
fn a_strategy_that_sold_wrongly_is_apart_and_has_no_rank() {
    let page = page(&fixture::report());
    for table in ["sold", "latency"] {
        assert_eq!(texts(&page, &format!("#table-{table} tbody.apart tr:not(.group) th")), ["unguarded"]);
    }
    assert_eq!(texts(&page, "#table-latency tbody.apart td:nth-child(2)"), ["–"]);
    let ranked = texts(&page, "#table-latency tbody:not(.apart) td:nth-child(2)");
    assert_eq!(ranked, ["1", "2", "3"], "they stand in their order");
}

#[test]
fn two_builds_come_first_and_both_are_shown_everywhere() {
    let report = fixture::builds("zk-mutex");
    let page = page(&report);
    assert_eq!(texts(&page, "main section h2")[1], "One build against the other");
    assert_eq!(texts(&page, "#table-builds tbody td.bad"), ["worse"; 4]);
    assert_eq!(all(&page, "#table-builds tbody tr").len(), report.builds.as_ref().unwrap().rows.len());
    let sold = texts(&page, "#table-sold tbody tr:not(.group) th");
    assert!(sold.contains(&"zk-mutex of base".to_owned()) && sold.contains(&"zk-mutex of head".to_owned()), "{sold:?}");
    assert_eq!(data(&page)["strategies"].as_array().unwrap().len(), 8);
    let text = texts(&page, "main").concat();
    assert!(text.contains("head: target/head/demo-service") && text.contains("Build, pair"), "{text}");
    let alone = texts(&self::page(&fixture::report()), "main").concat();
    assert!(!alone.contains("Build, pair") && !alone.contains("against the other"), "{alone}");
}

#[test]
fn the_page_is_sound() {
    assert!(!Html::parse_document("<p></i>").errors.is_empty(), "the parser tells what is wrong");
    for report in [fixture::report(), fixture::interrupted(), with_thresholds(), fixture::builds("zk-mutex")] {
        assert_sound(&page(&report), 9);
    }
}

/// Panics if an id is there twice, a link leads nowhere, a table has rows of different lengths, or a chart has no words. `charts`:
/// the fewest charts.
fn assert_sound(page: &Html, charts: usize) {
    let ids: Vec<&str> = all(page, "[id]").iter().filter_map(|element| element.attr("id")).collect();
    assert_eq!(ids.iter().collect::<BTreeSet<_>>().len(), ids.len(), "{ids:?}");
    for element in all(page, "[aria-labelledby]") {
        assert!(ids.contains(&element.attr("aria-labelledby").unwrap()), "{}", element.html());
    }
    for link in all(page, "nav a, a.skip") {
        assert!(ids.contains(&link.attr("href").unwrap().trim_start_matches('#')), "{}", link.html());
    }
    for table in all(page, "table") {
        let count = |selector: &str| table.select(&Selector::parse(selector).unwrap()).count();
        assert_eq!((count("caption"), count("th:not([scope])")), (1, 0), "{}", table.html());
        assert!(count("tbody tr:not(.group)") > 0, "{}", table.html());
        let columns = count("thead th");
        for row in table.select(&Selector::parse("tbody tr:not(.group)").unwrap()) {
            assert_eq!(row.child_elements().count(), columns, "{}", row.html());
        }
    }
    let figures = all(page, "figure");
    assert!(figures.len() >= charts, "{}", figures.len());
    for figure in figures {
        let has = |selector: &str| figure.select(&Selector::parse(selector).unwrap()).next().is_some();
        assert!(has("figcaption") && has("h3"), "{}", figure.html());
        assert_ne!(has(".plot"), has(".absent"), "{}", figure.html());
        if has(".plot") {
            assert!(has("figcaption p") && has("figcaption details li"), "{}", figure.html());
        }
    }
}

#[test]
fn nothing_is_fetched_from_anywhere() {
    let page = page(&fixture::report());
    for element in all(&page, "[src], [href]") {
        let address = element.attr("src").or(element.attr("href")).unwrap();
        assert!(address.starts_with('#') || address == "data:,", "{address}");
    }
    let style = text(all(&page, "style")[0]);
    assert!(!style.contains("url(") && !style.contains("@import"));
    let policy = all(&page, "meta[http-equiv=Content-Security-Policy]")[0].attr("content").unwrap();
    assert!(policy.starts_with("default-src 'none';") && !policy.contains("http"), "{policy}");
}

#[test]
fn hostile_texts_stay_texts() {
    let scripts = all(&page(&fixture::report()), "script").len();
    let mut report = fixture::report();
    for result in &mut report.results {
        result.strategy = result.strategy.replace("zk-mutex", HOSTILE);
        result.reference = result.reference.as_ref().map(|reference| reference.replace("zk-mutex", HOSTILE));
    }
    for trial in &mut report.trials {
        trial.strategy = trial.strategy.replace("zk-mutex", HOSTILE);
    }
    report.caveats.push(HOSTILE.to_owned());
    report.verdict.sentence.push_str(HOSTILE);
    report.schedule.model_described.push_str(HOSTILE);
    report.environment.cpu_model = Some(HOSTILE.to_owned());
    let page = page(&report);
    assert!(all(&page, "img").is_empty() && all(&page, "[onerror]").is_empty());
    assert_eq!(all(&page, "script").len(), scripts);
    assert!(texts(&page, "#table-sold tbody th").contains(&HOSTILE.to_owned()));
    assert!(texts(&page, ".caveats li").contains(&HOSTILE.to_owned()));
    assert_eq!(data(&page)["strategies"][2], HOSTILE);
}

#[test]
fn the_load_model_stands_beside_every_latency() {
    let report = fixture::report();
    let page = page(&report);
    for table in ["#table-latency", "#table-outcomes", "#table-handovers", "#quantiles", "#medians", "#ratios"] {
        assert_eq!(texts(&page, &format!("{table} .model")).join("; "), report.schedule.model_described, "{table}");
    }
}

#[test]
fn a_chart_without_data_says_why_and_what_gives_them() {
    let interrupted = page(&fixture::interrupted());
    let absent = |page: &Html, chart: &str| texts(page, &format!("#{chart} .absent")).join(" ");
    for chart in ["quantiles", "medians", "ratios", "stock", "entered", "herd-notifications", "scale", "cpu"] {
        let sentence = absent(&interrupted, chart);
        assert!(sentence.contains("To get it: loadgen compare --"), "{chart}: {sentence}");
        assert!(all(&interrupted, &format!("#{chart}[data-chart]")).is_empty());
    }
    assert_eq!(absent(&interrupted, "oversell"), "", "the warm-up was audited");
    let alone = fixture::report().trials.into_iter().filter(|trial| trial.strategy == "zk-mutex").collect();
    let alone = page(&Report::of(fixture::findings(None, alone)));
    assert!(absent(&alone, "ratios").starts_with("There is nothing to compare the reference with"));
    assert_eq!(absent(&alone, "medians"), "");
}

/// Returns the report with further pairs of a number of users and a number of its trials, in the order of a real report:
/// strategy by strategy.
fn with_users(others: &[(u32, u32)]) -> Report {
    let mut report = fixture::report();
    let of_strategy = |own: StrategyResult| {
        let mut results: Vec<StrategyResult> =
            others.iter().map(|&(users, trials)| StrategyResult { users, trials, ..own.clone() }).collect();
        results.push(own);
        results.sort_by_key(|result| result.users);
        results
    };
    report.results = report.results.into_iter().flat_map(of_strategy).collect();
    report.schedule.users.extend(others.iter().map(|(users, _)| users));
    report.schedule.users.sort_unstable();
    report
}

#[test]
fn several_numbers_of_users_can_be_chosen_and_are_told_apart() {
    let page = page(&with_users(&[(30, 9)]));
    assert_eq!(data(&page)["strategies"].as_array().unwrap().len(), 4);
    let levels: Vec<_> = all(&page, "#levels input").iter().map(|input| input.attr("value").unwrap()).collect();
    assert_eq!(levels, ["30", "300"]);
    let names = texts(&page, "#table-sold tbody tr:not(.group) th");
    assert!(names.contains(&"zk-mutex @30".to_owned()) && names.contains(&"zk-mutex @300".to_owned()), "{names:?}");
    for chart in ["scale-median", "scale-goodput", "scale-notifications"] {
        assert_eq!(all(&page, &format!("#{chart}[data-chart]")).len(), 1, "{chart}");
    }
    let expected = &data(&page)["expected"];
    assert_eq!(expected[0]["wakes"], "one");
    assert_eq!(expected[1]["points"][0], serde_json::json!([30, 14.5]));
}

#[test]
fn a_number_of_users_without_a_trial_cannot_be_chosen() {
    let several = page(&with_users(&[(30, 9), (1000, 0)]));
    let levels: Vec<_> = all(&several, "#levels input").iter().map(|input| input.attr("value").unwrap()).collect();
    assert_eq!(levels, ["30", "300"]);
    assert_eq!(all(&several, "#levels input[checked]")[0].attr("value"), Some("300"));
    assert_eq!(data(&several)["levels"], serde_json::json!([30, 300]));

    let one = page(&with_users(&[(1000, 0)]));
    assert!(all(&one, "#levels").is_empty());
    assert_eq!(data(&one)["levels"], serde_json::json!([300]));
}

#[test]
fn a_simulation_is_shown_or_the_page_says_how_to_get_one() {
    let without = page(&fixture::report());
    let sentence = texts(&without, "#simulation .absent").join(" ");
    assert!(sentence.contains("loadgen simulate --out simulation.json"), "{sentence}");
    let report = json::read(Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/it/report.json"))).unwrap();
    let page = page(&report);
    for chart in ["simulated-time", "simulated-notifications", "simulated-bytes"] {
        assert_eq!(texts(&page, &format!("#{chart}[data-chart] li")).len(), 4, "{chart}: a line a recipe");
    }
    let simulation = report.simulation.unwrap();
    let shown = texts(&page, "#table-simulation tbody th");
    let figures: usize = simulation.recipes.iter().map(|recipe| recipe.deviations.len()).sum();
    assert_eq!(shown.len(), figures + 2, "{shown:?}");
    let said = texts(&page, "#simulations .prose");
    assert!(simulation.caveats.iter().all(|caveat| said.contains(caveat)), "{said:?}");
}

#[test]
fn the_licences_of_the_libraries_are_in_the_page() {
    let licences = texts(&page(&fixture::report()), "footer pre");
    assert_eq!(licences.len(), 2);
    assert!(licences.iter().all(|licence| licence.contains("this permission notice appear in all copies")));
}
