//! The page of a report in a real browser.
//!
//! `report.json` is from a real comparison, made by
//! `loadgen compare --strategies unguarded,zk-naive,zk-mutex --users 24,48 --stock 20 --trials 6 --seed 7`, with what
//! `loadgen simulate --waiters 10..3000 --measure 10,30,100,300 --seed 1` predicted.

use std::collections::BTreeMap;
use std::fs;
use std::path::PathBuf;

use serde_json::{Value, json};

use crate::browser::Browser;
use crate::support::{TestFolder, finish};

pub(crate) const REPORT: &str = include_str!("report.json");
const AXE: &str = include_str!("vendor/axe.min.js");

const ENTER: char = '\u{e007}';
const ESCAPE: char = '\u{e00c}';
const UP: char = '\u{e013}';
const RIGHT: char = '\u{e014}';
const DOWN: char = '\u{e015}';

/// Selects the charts that must be drawn.
pub(crate) const DRAWN: &str =
    "[...document.querySelectorAll('figure[data-chart] .plot')].every((plot) => plot.querySelector('svg'))";

/// Makes the page of a report with the program.
pub(crate) fn page(folder: &TestFolder, report: &str) -> PathBuf {
    fs::write(folder.path("report.json"), report).unwrap();
    let made = finish(&mut folder.loadgen(["report", "report.json"]));
    assert_eq!(made.code, Some(0), "{}", made.stderr);
    folder.path("report.html")
}

/// Returns the report with its first strategy under another name.
fn renamed(name: &str) -> String {
    REPORT.replace("\"unguarded\"", &json!(name).to_string())
}

#[tokio::test]
async fn every_chart_is_drawn_and_nothing_is_asked_for() {
    let folder = TestFolder::new();
    let browser = Browser::start(&folder).await;
    let page = page(&folder, REPORT);
    browser.open(&page).await;
    browser.until(DRAWN).await;
    let marks = "return Object.fromEntries([...document.querySelectorAll('figure[data-chart]')].map((figure) =>
        [figure.id, figure.querySelectorAll('.plot svg .s, .plot svg .simulated').length]));";
    let marks = browser.run(marks).await;
    let drawn = marks.as_object().unwrap();
    assert!(drawn.values().all(|count| count.as_u64().unwrap() > 0), "{marks:#}");
    for chart in [
        "oversell",
        "quantiles",
        "medians",
        "ratios",
        "stock",
        "entered",
        "herd-notifications",
        "scale-median",
        "cpu",
        "simulated-time",
    ] {
        assert!(drawn.contains_key(chart), "{chart}: {marks:#}");
    }
    let trials = "return document.querySelectorAll('#oversell .s').length;";
    assert_eq!(browser.run(trials).await, 3 * 7, "every trial with the largest number of users is a dot");

    assert_eq!(browser.console().await, Vec::<String>::new());
    assert_eq!(browser.run("return performance.getEntriesByType('resource').length;").await, 0);
    let own = format!("file://{}", page.display());
    let asked: Vec<String> = browser
        .requests()
        .await
        .into_iter()
        .filter(|url| url.starts_with("file:") || url.starts_with("http"))
        .collect();
    assert_eq!(asked, [own]);
    browser.close().await;
}

#[tokio::test]
async fn the_page_is_accessible_and_fits_phones_and_wide_screens() {
    let folder = TestFolder::new();
    let browser = Browser::start(&folder).await;
    browser.open(&page(&folder, REPORT)).await;
    let mut grounds = Vec::new();
    for (scheme, width) in [("light", 1400), ("light", 360), ("dark", 360), ("dark", 1400)] {
        browser.prefer_scheme(scheme).await;
        browser.set_width(width).await;
        let fits = format!(
            "[...document.querySelectorAll('.plot svg')].every((svg) => svg.getBoundingClientRect().right <= {width})"
        );
        browser.until(&format!("innerWidth === {width} && {DRAWN} && {fits}")).await;
        let beyond = "return document.documentElement.scrollWidth - document.documentElement.clientWidth;";
        assert_eq!(browser.run(beyond).await, 0, "{scheme}, {width} wide");
        grounds.push(browser.run("return getComputedStyle(document.body).backgroundColor;").await);

        browser.run(AXE).await;
        let rules = "axe.run({ runOnly: ['wcag2a', 'wcag2aa', 'wcag21a', 'wcag21aa', 'wcag22aa', 'best-practice'] })
            .then(({ violations }) => violations.map(({ id, help, nodes }) =>
                ({ id, help, nodes: nodes.map(({ html, failureSummary }) => `${html} ${failureSummary}`) })))";
        let violations = browser.promised(rules).await;
        assert_eq!(violations, json!([]), "{scheme}, {width} wide: {violations:#}");
    }
    assert!(grounds[0] == grounds[1] && grounds[2] == grounds[3] && grounds[0] != grounds[2], "{grounds:?}");

    browser.set_width(1280).await;
    browser.until(&format!("innerWidth === 1280 && {DRAWN}")).await;
    let too_wide =
        "return [...document.querySelectorAll('.scroll')].filter((area) => area.scrollWidth > area.clientWidth)
        .map((area) => area.querySelector('table').id);";
    assert_eq!(browser.run(too_wide).await, json!([]), "1280 wide");

    browser.set_width(360).await;
    browser.until("document.querySelector('.table[data-scrolls=more]') !== null").await;
    let hint = "return getComputedStyle(document.querySelector('.table[data-scrolls=more] .hint')).display;";
    assert_eq!(browser.run(hint).await, "block", "a table that is too wide says so");
    browser.close().await;
}

/// Hides a strategy in every chart, and shows it again.
async fn hide_and_show(browser: &Browser) {
    let visible = |marks: &str| {
        let script = format!(
            "return Object.fromEntries([...document.querySelectorAll('figure[data-chart]:not([id^=simulated])')]
                .map((figure) => [figure.id, [...figure.querySelectorAll('.plot svg {marks}')]
                    .filter((mark) => getComputedStyle(mark).display !== 'none').length]));"
        );
        async move { serde_json::from_value::<BTreeMap<String, u64>>(browser.run(&script).await).unwrap() }
    };
    let marks = visible(".s1").await;
    let names = visible(".names").await;
    assert!(marks.values().all(|count| *count > 0), "{marks:?}");
    let rows = [("cpu", 3), ("herd-notifications", 2), ("medians", 3), ("oversell", 3), ("ratios", 1)];
    for (chart, count) in rows {
        assert_eq!(names[chart], count, "{names:?}");
    }
    let of_nobody = "return [...document.querySelectorAll(':is(#cpu, #herd-notifications, #medians) [data-mark]')]
        .filter((mark) => ['dot', 'link', 'rect', 'text'].includes(mark.dataset.mark))
        .filter((mark) => !/ s[0-9]/.test(mark.className.baseVal)).length;";
    assert_eq!(browser.run(of_nobody).await, 0, "marks that belong to no strategy");
    browser.run("document.querySelectorAll('#legend button')[1].focus();").await;
    browser.press(' ').await;
    browser.until("document.querySelectorAll('#legend button')[1].getAttribute('aria-pressed') === 'false'").await;
    let left = visible(".s1").await;
    assert!(left.values().all(|count| *count == 0), "{left:?}");
    let left = visible(".names").await;
    for (chart, count) in rows {
        assert_eq!(left[chart], count - 1, "{chart}: {left:?}");
    }
    browser.press(' ').await;
    browser.until("document.querySelectorAll('#legend button')[1].getAttribute('aria-pressed') === 'true'").await;
    assert_eq!((visible(".s1").await, visible(".names").await), (marks, names));
}

#[tokio::test]
async fn everything_can_be_done_with_the_keyboard() {
    let folder = TestFolder::new();
    let browser = Browser::start(&folder).await;
    browser.prefer_scheme("light").await;
    browser.open(&page(&folder, REPORT)).await;
    browser.until(DRAWN).await;

    let lines = "document.querySelector('#quantiles path').getAttribute('d')";
    let before = browser.run(&format!("return {lines};")).await;
    browser.run("document.getElementById('scheme').focus();").await;
    browser.press(ENTER).await;
    browser.until("document.documentElement.dataset.scheme === 'dark'").await;
    let pressed = "return document.getElementById('scheme').getAttribute('aria-pressed');";
    assert_eq!(browser.run(pressed).await, "true");
    assert_eq!(browser.run(&format!("return {lines};")).await, before, "the charts are as they were");

    // From point to point of a chart.
    browser.run("document.querySelector('#medians .plot').focus();").await;
    browser.press(RIGHT).await;
    let tip = || async { browser.run("return document.querySelector('#medians .tip').textContent;").await };
    let first = tip().await;
    assert!(first.as_str().unwrap().contains(" ms"), "{first}");
    browser.press(DOWN).await;
    assert_ne!(tip().await, first);
    browser.press(ESCAPE).await;
    assert_eq!(tip().await, "");

    hide_and_show(&browser).await;

    // Another number of users.
    let dots = "document.querySelector('#medians .plot').innerHTML";
    let of_most = browser.run(&format!("return {dots};")).await;
    browser.run("document.querySelector('#levels input:checked').focus();").await;
    browser.press(UP).await;
    browser.until("document.querySelector('#levels input:checked').value === '24'").await;
    assert_ne!(browser.run(&format!("return {dots};")).await, of_most);

    // A table in another order, and back.
    let names = "[...document.querySelectorAll('#table-database tbody:first-of-type tr:not(.group) th')].map((th) => th.textContent)";
    let order = browser.run(&format!("return {names};")).await;
    browser.run("document.querySelectorAll('#table-database thead button')[0].focus();").await;
    browser.press(ENTER).await;
    browser.press(ENTER).await;
    let mut sorted: Vec<String> = serde_json::from_value(order).unwrap();
    sorted.sort_by(|a, b| b.cmp(a));
    assert_eq!(browser.run(&format!("return {names};")).await, json!(sorted));
    let direction = "return document.querySelector('#table-database th').getAttribute('aria-sort');";
    assert_eq!(browser.run(direction).await, "descending");
    browser.close().await;
}

#[tokio::test]
async fn a_hostile_name_stays_a_name() {
    const NAME: &str = "<img src=x onerror=\"document.title='sold'\">";
    const END: &str = "</script></title><script>document.title='sold'</script>";
    let folder = TestFolder::new();
    let browser = Browser::start(&folder).await;
    let mut report: Value = serde_json::from_str(&renamed(NAME)).unwrap();
    report["ended_early"] = json!({ "exit_code": 3, "reason": END });
    browser.open(&page(&folder, &report.to_string())).await;
    browser.until(DRAWN).await;
    let banner = browser.run("return document.querySelector('.banner-title').textContent;").await;
    assert!(banner.as_str().unwrap().contains(END), "{banner}");
    assert_eq!(browser.run("return document.querySelector('#legend button').textContent;").await, NAME);
    browser.run("document.querySelector('#oversell .plot').focus();").await;
    browser.press(RIGHT).await;
    let tip = browser.run("return document.querySelector('#oversell .tip').textContent;").await;
    assert!(tip.as_str().unwrap().starts_with(NAME), "{tip}");
    assert_eq!(browser.run("return [document.images.length, document.title === 'sold'];").await, json!([0, false]));
    assert_eq!(browser.console().await, Vec::<String>::new());
    browser.close().await;
}

#[tokio::test]
async fn a_number_of_users_without_medians_has_its_other_charts() {
    let folder = TestFolder::new();
    let browser = Browser::start(&folder).await;
    let mut report: Value = serde_json::from_str(REPORT).unwrap();
    for trial in report["trials"].as_array_mut().unwrap().iter_mut().filter(|trial| trial["users"] == 24) {
        trial["latency"]["response"]["sold"] = trial["latency"]["response"]["timeout"].clone();
    }
    browser.open(&page(&folder, &report.to_string())).await;
    browser.until(DRAWN).await;
    // Removed, so that a later chart must have been drawn for this number.
    browser.run("document.querySelector('#cpu .plot').replaceChildren();").await;
    browser.run("document.querySelector('#levels input:checked').focus();").await;
    browser.press(UP).await;
    browser.until("document.querySelector('#medians .plot .absent') !== null").await;
    browser.until("document.querySelector('#cpu .plot svg') !== null").await;
    assert_eq!(browser.console().await, Vec::<String>::new());
    browser.close().await;
}

#[tokio::test]
async fn a_run_that_was_ended_at_once_has_a_page_as_well() {
    let folder = TestFolder::new();
    let browser = Browser::start(&folder).await;
    let mut report: Value = serde_json::from_str(REPORT).unwrap();
    let trials = report["trials"].as_array().unwrap().clone();
    report["ended_early"] = json!({ "exit_code": 130, "reason": "interrupted" });
    report["trials"] = json!([trials[0]]);
    browser.open(&page(&folder, &report.to_string())).await;
    browser.until(DRAWN).await;
    browser
        .until("document.querySelector('.banner') !== null && document.querySelectorAll('.absent code').length > 3")
        .await;
    assert_eq!(browser.console().await, Vec::<String>::new());
    browser.close().await;
}
