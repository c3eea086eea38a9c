//! Goose's report of a trial agrees with ours.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use serde_json::Value;

use crate::support::{TestFolder, finish};

/// The answers of a trial by their status, with the times to their headers in milliseconds.
type AnswerTimes = BTreeMap<String, Vec<f64>>;

/// Reads the answers of each trial, by its number, from our log of requests.
fn ours(log: &Path) -> BTreeMap<String, AnswerTimes> {
    let mut trials = BTreeMap::<String, AnswerTimes>::new();
    for row in csv::Reader::from_path(log).unwrap().deserialize::<BTreeMap<String, String>>() {
        let row = row.unwrap();
        let (_, thread) = row["threadName"].rsplit_once(' ').unwrap();
        let (trial, _) = thread.split_once('-').unwrap();
        let answers = trials.entry(trial.to_owned()).or_default().entry(row["responseCode"].clone()).or_default();
        // The log has whole milliseconds, cut off.
        answers.push(row["Latency"].parse::<f64>().unwrap() + 0.5);
    }
    trials
}

fn assert_close(what: &str, goose: f64, ours: f64) {
    assert!((goose / ours - 1.0).abs() <= 0.05, "{what}: {goose} ms by goose, {ours} ms by us");
}

// C35
#[test]
fn goose_reports_the_answers_and_times_that_we_report() {
    let folder = TestFolder::new();
    fs::create_dir_all(folder.path("report/goose")).unwrap();
    fs::write(folder.path("report/goose/yesterday.json"), "{}").unwrap();
    // Each buyer holds the row for 20 ms, so that a millisecond is a small part of a time. There are fewer units than buyers.
    let args = "run pg-row-lock --users 40 --stock 30 --duration 500ms --business-time 20ms --instances 2 --trials 1 --goose-report json";
    let finished = finish(&mut folder.lab(args.split(' ')));
    finished.assert_kept();

    let trials = ours(&folder.path("report/results.jtl"));
    let files = fs::read_dir(folder.path("report/goose")).unwrap().map(|entry| entry.unwrap().file_name());
    let mut files: Vec<String> = files.map(|name| name.into_string().unwrap()).collect();
    files.sort_unstable();
    assert_eq!(files, ["pg-row-lock-40-0.json", "pg-row-lock-40-1.json"], "a file a trial, and none of yesterday's");
    for (trial, answers) in trials {
        let file = folder.path(&format!("report/goose/pg-row-lock-40-{trial}.json"));
        let report: Value = serde_json::from_str(&fs::read_to_string(file).unwrap()).unwrap();
        let buy = &report["raw_metrics"]["requests"]["GET buy"];
        let counted: BTreeMap<String, usize> = serde_json::from_value(buy["status_code_counts"].clone()).unwrap();
        let expected = answers.iter().map(|(status, times)| (status.clone(), times.len())).collect();
        assert_eq!(counted, expected, "{buy:#}");
        assert!(counted["200"] >= 30 && counted["409"] > 0, "{counted:?}");
        let mut times: Vec<f64> = answers.into_values().flatten().collect();
        times.sort_unstable_by(f64::total_cmp);
        let number = |field: &str| buy["raw_data"][field].as_f64().unwrap();
        let count = number("counter");
        assert_close("mean", number("total_time_us") / 1e3 / count, times.iter().sum::<f64>() / count);
        // Each time in microseconds, with the number of requests that took it.
        let of_goose: BTreeMap<u64, usize> = serde_json::from_value(buy["raw_data"]["times_us"].clone()).unwrap();
        let mut seen = 0;
        let median = of_goose.iter().find(|(_, count)| {
            seen += **count;
            2 * seen >= times.len()
        });
        let median_ms = f64::from(u32::try_from(*median.unwrap().0).unwrap()) / 1e3;
        assert_close("median", median_ms, times[(times.len() - 1) / 2]);
    }
}
