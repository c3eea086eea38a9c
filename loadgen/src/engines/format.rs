//! The formats of logs, and how the beginning of a file tells them.

use super::logged::LogFormat;

/// The columns of a file of Locust.
pub(super) const LOCUST_COLUMNS: [&str; 9] =
    ["trial", "shop", "intended_ns", "started_ns", "duration_ns", "outcome", "status", "buyer", "order"];

/// The beginning of a log of k6 in CSV.
const K6_CSV: &str = "metric_name,timestamp,metric_value";

/// The beginnings of statistics that Locust itself writes.
const LOCUST_STATISTICS: [&str; 4] = ["Type,Name,", "Timestamp,User Count", "Method,Name,", "Count,Message,"];

/// Tells the format by the beginning of a file.
pub(super) fn format_of(beginning: &str) -> Result<LogFormat, String> {
    let beginning = beginning.trim_start_matches('\u{feff}');
    let first = beginning.lines().next().unwrap_or_default();
    if beginning.is_empty() {
        return Err("the file is empty; was the run stopped, or does another machine have the results?".to_owned());
    }
    if delimiter_of(first).is_some() {
        return Ok(LogFormat::Jtl);
    }
    if first.starts_with('{') && first.contains("\"metric\"") {
        return Ok(LogFormat::K6Json);
    }
    if first.starts_with(K6_CSV) {
        return Ok(LogFormat::K6Csv);
    }
    if first == LOCUST_COLUMNS.join(",") {
        return Ok(LogFormat::Locust);
    }
    Err(refusal(first))
}

/// Returns the delimiter of a log of JMeter, if this is its first line.
pub(super) fn delimiter_of(first: &str) -> Option<u8> {
    [b',', b';', b'\t'].into_iter().find(|delimiter| {
        let columns: Vec<_> =
            first.trim_end().split(char::from(*delimiter)).map(|name| name.trim_matches('"')).collect();
        ["timeStamp", "elapsed", "label"].iter().all(|name| columns.contains(name))
    })
}

/// Says why a file with this first line cannot be read.
fn refusal(first: &str) -> String {
    if first.starts_with("<?xml") || first.starts_with("<testResults") {
        return "the file is a log of JMeter in XML; write CSV by -Jjmeter.save.saveservice.output_format=csv"
            .to_owned();
    }
    if first.starts_with('\u{1f}') {
        return "the file is compressed; unpack it with gunzip first".to_owned();
    }
    if LOCUST_STATISTICS.iter().any(|beginning| first.starts_with(beginning)) {
        return "the file has statistics of Locust, which cannot be merged; give the files purchases-WORKER.csv that a file of \
                `loadgen export locust --shop` writes"
            .to_owned();
    }
    if is_row_of_jtl(first) {
        return "the file is a log of JMeter without the names of its columns; log them by \
                -Jjmeter.save.saveservice.print_field_names=true"
            .to_owned();
    }
    let shown: String = first.chars().take(80).collect();
    format!(
        "{shown:?} begins no log that can be read; give CSV files of JMeter, JSON or CSV files of k6, or files of an exported file for \
         Locust"
    )
}

/// Tells whether a line is a request of JMeter: an instant in milliseconds, a time, a label, and more.
fn is_row_of_jtl(first: &str) -> bool {
    let fields: Vec<_> = first.split([',', ';', '\t']).collect();
    let is_number = |field: &str| !field.is_empty() && field.bytes().all(|byte| byte.is_ascii_digit());
    fields.len() >= 6 && fields[0].len() == 13 && is_number(fields[0]) && is_number(fields[1])
}
