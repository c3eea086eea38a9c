//! The log of every request, read by JMeter and by the rules of other readers of such logs.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use serde_json::Value;

use crate::support::{Running, TestFolder, finish};

/// All columns of JMeter 5.
const KNOWN: &str = "timeStamp,elapsed,label,responseCode,responseMessage,threadName,dataType,success,failureMessage,bytes,\
    sentBytes,grpThreads,allThreads,URL,Filename,Latency,Encoding,SampleCount,ErrorCount,Hostname,IdleTime,Connect";

/// The columns without which JMeter makes no page of results.
const NEEDED: &str = "timeStamp,elapsed,label,responseCode,responseMessage,threadName,success,bytes,grpThreads,allThreads,\
    Latency";

type LogRow = BTreeMap<String, String>;

/// Returns the rows of a log, if JMeter 5 could make its page of results of them.
fn rows_by_the_rules_of_jmeter_5(log: &str, when: (Duration, Duration)) -> Vec<LogRow> {
    assert!(log.ends_with('\n'), "the last line is cut off");
    assert!(!log.lines().any(str::is_empty), "an empty line ends the reading");
    let mut reader = csv::ReaderBuilder::new().flexible(true).from_reader(log.as_bytes());
    let header: Vec<String> = reader.headers().unwrap().iter().map(str::to_owned).collect();
    assert!(header.iter().all(|column| KNOWN.split(',').any(|known| column == known)), "{header:?}");
    assert!(NEEDED.split(',').all(|needed| header.iter().any(|column| column == needed)), "{header:?}");
    assert_eq!(header.len(), 17, "as many as it writes itself");
    let rows: Vec<LogRow> = reader
        .records()
        .map(|record| {
            let record = record.unwrap();
            assert_eq!(record.len(), header.len(), "{record:?}");
            header.iter().cloned().zip(record.iter().map(str::to_owned)).collect()
        })
        .collect();
    assert_eq!(log.lines().count(), rows.len() + 1, "a row is a line");
    for row in &rows {
        let number =
            |column: &str| row[column].parse::<u64>().unwrap_or_else(|error| panic!("{column}: {error}: {row:?}"));
        let at = Duration::from_millis(number("timeStamp"));
        assert!(when.0 <= at && at <= when.1, "not in milliseconds since 1970: {row:?}");
        assert!(number("Connect") <= number("Latency") && number("Latency") <= number("elapsed"), "{row:?}");
        for column in ["bytes", "sentBytes", "grpThreads", "allThreads", "IdleTime"] {
            number(column);
        }
        assert!(["true", "false"].contains(&row["success"].as_str()), "{row:?}");
        assert!(["text", "bin", ""].contains(&row["dataType"].as_str()), "{row:?}");
        assert!(
            !row["responseMessage"].starts_with("Number of samples in transaction"),
            "taken for a controller: {row:?}"
        );
        let (group, thread) = row["threadName"].rsplit_once(' ').unwrap();
        assert!(!group.is_empty() && thread.split('-').all(|part| part.parse::<u64>().is_ok()), "{row:?}");
    }
    rows
}

/// Returns what JMeter sums up of a log, by label: samples, successes, elapsed, the longest, latency, threads.
fn read_by_jmeter(log: &Path) -> BTreeMap<String, Vec<u64>> {
    let program = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/load_tools/ReadResults.java");
    let mut reader = testbed::jmeter(&program).unwrap_or_else(|error| panic!("{error}"));
    let (status, stdout) = Running::start(reader.arg(log)).wait();
    assert!(status.success(), "{stdout}");
    let lines = stdout.lines().filter_map(|line| line.strip_prefix("results ")?.split_once(' '));
    lines.map(|(label, sums)| (label.to_owned(), sums.split(' ').map(|sum| sum.parse().unwrap()).collect())).collect()
}

/// Returns the log without a column.
fn without(log: &str, column: &str) -> String {
    let mut reader = csv::ReaderBuilder::new().has_headers(false).from_reader(log.as_bytes());
    let mut writer = csv::Writer::from_writer(Vec::new());
    let mut dropped = None;
    for record in reader.records() {
        let record = record.unwrap();
        let dropped = *dropped.get_or_insert_with(|| record.iter().position(|name| name == column).unwrap());
        let kept = record.iter().enumerate().filter(|(number, _)| *number != dropped).map(|(_, field)| field);
        writer.write_record(kept).unwrap();
    }
    String::from_utf8(writer.into_inner().unwrap()).unwrap()
}

/// Returns the number at a path of fields.
fn number(value: &Value, path: &[&str]) -> u64 {
    path.iter().fold(value, |value, field| &value[field]).as_u64().unwrap()
}

// C36
#[test]
fn jmeter_reads_from_the_log_of_requests_what_the_report_says() {
    let folder = TestFolder::new();
    let begun = SystemTime::now().duration_since(UNIX_EPOCH).unwrap() - Duration::from_secs(1);
    // Some buyers are sold a unit, some are refused, and some find nothing left.
    let args = "compare --users 40 --stock 10 --trials 2 --business-time 20ms --lock-wait 350ms --instances 2 --jmeter-summary \
                --strategies zk-mutex,pg-conditional";
    let compared = finish(&mut folder.lab(args.split_whitespace()));
    let ended = SystemTime::now().duration_since(UNIX_EPOCH).unwrap() + Duration::from_secs(1);
    assert!(compared.stdout.contains("report: "), "{}{}", compared.stdout, compared.stderr);

    let log = fs::read_to_string(folder.path("report/results.jtl")).unwrap();
    let rows = rows_by_the_rules_of_jmeter_5(&log, (begun, ended));
    // JMeter 2.13 knows all columns except the one that came with JMeter 3.
    let old = folder.path("old.jtl");
    fs::write(&old, without(&log, "sentBytes")).unwrap();
    let read = read_by_jmeter(&old);
    assert_eq!(read.keys().collect::<Vec<_>>(), ["pg-conditional", "zk-mutex"]);

    let report = folder.report();
    for (strategy, sums) in read {
        let trials: Vec<&Value> =
            report["trials"].as_array().unwrap().iter().filter(|trial| trial["strategy"] == strategy).collect();
        let answers = |outcome: &str| trials.iter().map(|trial| number(trial, &["answers", outcome])).sum::<u64>();
        let decided = answers("sold") + answers("sold_out");
        let all = decided + answers("refused") + answers("error") + answers("timeout");
        assert_eq!((sums[0], sums[1], sums[5]), (all, decided, 40), "{strategy}: {report:#}");
        assert!(strategy != "zk-mutex" || all > decided, "none of {all} was refused: {report:#}");
        let of_strategy = rows.iter().filter(|row| row["label"] == strategy);
        let sum = |column: &str| of_strategy.clone().map(|row| row[column].parse::<u64>().unwrap()).sum::<u64>();
        assert_eq!((sums[2], sums[4]), (sum("elapsed"), sum("Latency")), "{strategy}");
        assert_eq!(trials.len() * 40, of_strategy.clone().count(), "the warm-up is in it too");

        // Both have the same times; the report rounds them to three digits.
        let outcomes = ["sold", "sold_out", "refused", "error", "timeout"];
        let longest = |trial: &Value| {
            outcomes
                .map(|outcome| trial["latency"]["service"][outcome]["max"].as_f64().unwrap_or(0.0))
                .into_iter()
                .fold(0.0, f64::max)
        };
        let longest_ms = trials.iter().map(|trial| longest(trial)).fold(0.0, f64::max);
        let read_ms = f64::from(u32::try_from(sums[3]).unwrap());
        assert!((read_ms - longest_ms).abs() <= 1.0 + longest_ms / 100.0, "{strategy}: {read_ms} and {longest_ms} ms");

        let line = compared.stdout.lines().find(|line| line.starts_with(&format!("{strategy} = "))).unwrap();
        assert!(line.contains(&format!("Err: {:>5} (", all - decided)), "{line}");
    }
}
