//! Nothing on the page of a report hides anything else, on a phone and on a wide screen.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use crate::browser::Browser;
use crate::page::{DRAWN, REPORT, page};
use crate::support::TestFolder;

const WIDTHS: [u32; 2] = [390, 1280];

/// The overlaps in the charts: texts on texts, markers and bars on texts, texts beyond the chart, and markers that hide the
/// whole interval of their strategy.
const HIDDEN: &str = "
    const found = [];
    const box = (element) => element.getBoundingClientRect();
    const meet = (a, b) => Math.min(a.right, b.right) - Math.max(a.left, b.left) > 1
        && Math.min(a.bottom, b.bottom) - Math.max(a.top, b.top) > 1;
    const holds = (outer, inner) => inner.left >= outer.left - 0.5 && inner.right <= outer.right + 0.5
        && inner.top >= outer.top - 0.5 && inner.bottom <= outer.bottom + 0.5;
    for (const figure of document.querySelectorAll('figure[data-chart]')) {
        const plot = figure.querySelector('.plot');
        const all = (selector) => [...plot.querySelectorAll(selector)].filter((one) => box(one).width + box(one).height > 0);
        const texts = all('svg text').filter((text) => text.textContent.trim() !== '');
        const told = (what, ...names) => found.push(`${figure.id}: ${what} ${names.join(' | ')}`);
        const markers = all('[data-mark=dot]:not(.interval) > *');
        texts.forEach((text, place) => {
            const own = box(text);
            if (own.left < box(plot).left - 1 || own.right > box(plot).right + 1) told('beyond', text.textContent);
            for (const other of texts.slice(place + 1)) {
                if (meet(own, box(other))) told('text on text', text.textContent, other.textContent);
            }
            // Bars contain the letters of their parts.
            if (text.parentElement.classList.contains('letters')) return;
            for (const mark of [...markers, ...all('[data-mark=rect] > *, [data-mark=area] > *')]) {
                const wide = mark.parentElement.dataset.mark === 'rect' && !/ s[0-9]/.test(mark.parentElement.getAttribute('class'));
                if (!wide && meet(own, box(mark))) told('mark on text', text.textContent);
            }
        });
        const ofStrategy = (mark) => (mark.parentElement.getAttribute('class') || '').match(/ s[0-9]+/)?.[0];
        for (const bar of plot.querySelectorAll('[data-mark=link][class*=\" s\"] > path')) {
            const hides = (marker) => ofStrategy(marker) === ofStrategy(bar) && holds(box(marker), box(bar));
            const ends = all('[data-mark=dot].interval > *').filter((end) => ofStrategy(end) === ofStrategy(bar));
            for (const marker of markers.filter(hides)) {
                if (!ends.some((end) => !holds(box(marker), box(end)))) told('marker on interval', ofStrategy(bar));
            }
        }
    }
    return found;";

/// Returns the report with copies of a strategy under other names, whose lines end at the same points. One strategy sells far
/// too much.
fn crowded() -> Value {
    let mut report: Value = serde_json::from_str(REPORT).unwrap();
    for name in ["zk-handoff", "zk-cohort-linger", "zk-mutex-early-release", "pg-conditional"] {
        let renamed = |one: &Value| {
            let mut copy = one.clone();
            copy["strategy"] = name.into();
            copy
        };
        let add = |list: &mut Value| {
            let list = list.as_array_mut().unwrap();
            let copies: Vec<Value> = list.iter().filter(|one| one["strategy"] == "zk-mutex").map(renamed).collect();
            list.extend(copies);
        };
        add(&mut report["trials"]);
        add(&mut report["results"]);
        report["plan"]["blocks"].as_array_mut().unwrap().iter_mut().for_each(|block| add(&mut block["trials"]));
    }
    for trial in report["trials"].as_array_mut().unwrap().iter_mut().filter(|trial| trial["strategy"] == "unguarded") {
        for count in trial["sold_over_time"]["count"].as_array_mut().unwrap() {
            *count = (count.as_u64().unwrap() + 300).into();
        }
    }
    report
}

/// Shows the page of a report at this width.
async fn show(browser: &Browser, folder: &TestFolder, report: &Value, width: u32) {
    browser.open(&page(folder, &report.to_string())).await;
    browser.set_width(width).await;
    let fits = format!(
        "[...document.querySelectorAll('.plot > svg')].every((svg) => svg.getBoundingClientRect().right <= {width})"
    );
    browser.until(&format!("innerWidth === {width} && {DRAWN} && {fits}")).await;
}

// C32
#[tokio::test]
async fn no_name_marker_bar_or_interval_hides_another() {
    let folder = TestFolder::new();
    let browser = Browser::start(&folder).await;
    for report in [serde_json::from_str(REPORT).unwrap(), crowded()] {
        for width in WIDTHS {
            show(&browser, &folder, &report, width).await;
            let hidden = browser.run(HIDDEN).await;
            assert_eq!(hidden, json!([]), "{width} wide: {hidden:#}");
        }
    }
    browser.close().await;
}

// C32
#[tokio::test]
async fn every_line_has_its_name_at_every_width() {
    let folder = TestFolder::new();
    let browser = Browser::start(&folder).await;
    let report = crowded();
    for width in WIDTHS {
        show(&browser, &folder, &report, width).await;
        let names = "return Object.fromEntries(['quantiles', 'entered', 'scale-median', 'simulated-time'].map((id) =>
            [id, [...document.querySelectorAll(`#${id} .name, #${id} .keys li`)].map((name) => name.textContent)]));";
        let names: BTreeMap<String, Vec<String>> = serde_json::from_value(browser.run(names).await).unwrap();
        for (chart, expected) in [
            ("quantiles", &["unguarded", "zk-naive", "zk-mutex", "zk-mutex-early-release", "pg-conditional"][..]),
            ("entered", &["zk-naive", "zk-mutex", "zk-cohort-linger"]),
            ("scale-median", &["unguarded", "zk-mutex", "zk-handoff"]),
            ("simulated-time", &["naive", "mutex", "handoff"]),
        ] {
            for name in expected {
                assert!(names[chart].iter().any(|named| named == name), "{width} wide, {chart}: {names:#?}");
            }
        }
    }
    browser.close().await;
}

#[tokio::test]
async fn the_first_screen_shows_units_and_the_herd_as_bars() {
    let folder = TestFolder::new();
    let browser = Browser::start(&folder).await;
    let report = crowded();
    for width in WIDTHS {
        show(&browser, &folder, &report, width).await;
        // The whole picture beside the verdict, or its first row under it.
        let last = if width == WIDTHS[0] { "first-child" } else { "last-child" };
        let bottom =
            format!("return document.querySelector('#table-glance tbody tr:{last}').getBoundingClientRect().bottom;");
        let bottom = browser.run(&bottom).await;
        assert!(bottom.as_f64().unwrap() <= 800.0, "{width} wide: {bottom}");
        let beyond = "const table = document.getElementById('table-glance'); const own = table.getBoundingClientRect();
            return [...table.querySelectorAll('th, td, .bar')].every((part) => part.getBoundingClientRect().right <= own.right + 1)
                && own.right <= innerWidth;";
        assert_eq!(browser.run(beyond).await, true, "{width} wide: the picture is cut off");
        let bars = "return Object.fromEntries([...document.querySelectorAll('#table-glance tbody tr')].map((row) =>
            [row.cells[0].textContent, ['within', 'beyond', 'woken'].map((part) =>
                row.querySelector(`rect.${part}`).getBoundingClientRect().width)]));";
        let bars: BTreeMap<String, [f64; 3]> = serde_json::from_value(browser.run(bars).await).unwrap();
        let [unguarded, naive, mutex] = ["unguarded", "zk-naive", "zk-mutex"].map(|name| bars[name]);
        assert!(unguarded[1] > 0.0 && naive[1] == 0.0 && mutex[1] == 0.0, "only the control oversold: {bars:?}");
        assert!((unguarded[0] - mutex[0]).abs() < 1.0 && mutex[0] > 10.0, "all sold the stock: {bars:?}");
        assert!(naive[2] > 5.0 * mutex[2] && unguarded[2] == 0.0, "the herd is long: {bars:?}");
    }
    browser.close().await;
}

#[tokio::test]
async fn the_sale_of_every_strategy_is_shown_over_time() {
    let folder = TestFolder::new();
    let browser = Browser::start(&folder).await;
    let report: Value = serde_json::from_str(REPORT).unwrap();
    for width in WIDTHS {
        show(&browser, &folder, &report, width).await;
        let heights = "return Object.fromEntries([0, 1, 2].map((strategy) =>
            [strategy, [...document.querySelectorAll(`#stock .s${strategy}[data-mark=area]`)].map((area) =>
                area.getBoundingClientRect().height)]));";
        let heights: BTreeMap<String, Vec<f64>> = serde_json::from_value(browser.run(heights).await).unwrap();
        // The units that are left, told of, and beyond the stock.
        let [unguarded, naive, mutex] = ["0", "1", "2"].map(|strategy| &heights[strategy]);
        for own in [unguarded, naive, mutex] {
            assert!(
                own[0] > 1.0 && (own[0] - own[1]).abs() < 1.0,
                "every unit was left first, and sold last: {heights:?}"
            );
        }
        assert!(unguarded[2] > 1.0 && naive[2] < 0.5 && mutex[2] < 0.5, "{heights:?}");
    }
    browser.run("document.querySelector('#stock .plot').focus();").await;
    browser.press('\u{e010}').await;
    let tip = browser.run("return document.querySelector('#stock .tip').textContent;").await;
    assert!(tip.as_str().unwrap().starts_with("zk-mutex\nafter "), "{tip}");
    assert!(tip.as_str().unwrap().ends_with(" ms: 20 told"), "{tip}");
    browser.close().await;
}
