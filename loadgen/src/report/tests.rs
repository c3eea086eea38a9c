//! A figure that is added to the table appears in every output.

use serde_json::Value;

use crate::judge::diff::Diff;
use crate::judge::metrics::{Better, Compared, FigureSource, K6, Kind, METRICS, Metric, PageTable, ROW, TableWidth};
use crate::judge::thresholds::Threshold;
use crate::report::{Report, fixture, html, json, markdown, terminal};

/// A figure that no table has.
static BUYERS_ASKED: Metric = Metric {
    key: "buyers_asked",
    title: "Asked",
    unit: "buyers a trial",
    kind: Kind::Count,
    better: Better::Higher,
    definition: "Buyers who sent a request, whatever became of it.",
    source: FigureSource::Median(|trial| Some(stats::as_f64(trial.answers.total()))),
    table: PageTable::Response,
    column: TableWidth::Narrow,
    compared: Compared::Exact,
    k6: Some(K6::Count("asked")),
    ..ROW
};

fn table() -> Vec<&'static Metric> {
    METRICS.iter().copied().chain([&BUYERS_ASKED]).collect()
}

#[test]
fn a_figure_is_added_once_and_found_in_every_output() {
    let metrics = table();
    let report = Report::by(fixture::findings(None, fixture::report().trials), &metrics);
    assert!(report.results.iter().all(|result| BUYERS_ASKED.text(result) == "300"));

    assert!(terminal::render(&report, &metrics, TableWidth::Narrow, None).contains("Asked"));
    let text = markdown::render(&report, &metrics);
    assert!(text.contains("| Asked buyers a trial |") && text.contains(BUYERS_ASKED.definition), "{text}");
    let page = html::render(&report, &metrics).unwrap();
    assert!(page.contains(">Asked<") && page.contains(BUYERS_ASKED.definition));
    assert!(markdown::figures(&metrics).contains("`buyers_asked`"));

    let written: Value = serde_json::from_str(&json::render(&report).unwrap()).unwrap();
    assert_eq!(written["results"][0]["figures"]["buyers_asked"]["value"], 300.0);
    let schema: Value = serde_json::from_str(&json::schema(&metrics)).unwrap();
    let described = schema["$defs"]["Figures"]["properties"]["buyers_asked"]["description"].as_str().unwrap();
    assert!(described.contains(BUYERS_ASKED.definition), "{described}");

    let threshold = Threshold::parse_by(&metrics, "zk-* buyers_asked>=300").unwrap();
    assert!(threshold.check(&report.results, report.schedule.instances).iter().all(|checked| checked.is_met));
    assert_eq!(threshold.parts().metric.k6, Some(K6::Count("asked")));
    let runs = [report];
    let diff = Diff::of(&runs, &runs, false, &metrics).unwrap();
    assert!(terminal::diff(&diff, &metrics).contains("Asked buyers a trial"));
}

#[test]
fn every_key_is_there_once_and_every_figure_is_explained() {
    for (position, metric) in METRICS.iter().enumerate() {
        assert!(METRICS[..position].iter().all(|other| other.key != metric.key), "{} is there twice", metric.key);
        assert!(metric.definition.ends_with('.') && !metric.title.is_empty(), "{}", metric.key);
    }
}
