//! Points of metrics in a log of k6.

use std::collections::BTreeMap;
use std::time::{Duration, SystemTime};

use csv::StringRecord;
use percent_encoding::percent_decode_str;
use serde::Deserialize;

use crate::engines::reading::Log;
use crate::engines::times::{digits, rfc3339, since_1970};
use crate::error::Error;

/// The metric of an exported script.
pub(super) const PURCHASE: &str = "purchase";
/// The first metric of each request.
pub(super) const REQUESTS: &str = "http_reqs";
/// The metrics that add up to the time of a request, in milliseconds. The wait for a connection contains the time to open it, so
/// the metrics `http_req_connecting` and `http_req_tls_handshaking` are no further parts.
pub(super) const PARTS: [&str; 2] = ["http_req_duration", "http_req_blocked"];

/// The setting of the times in CSV.
const REMEDY: &str = "set K6_CSV_TIME_FORMAT=unix_nano, or write JSON by --out json=FILE";

/// A point of a metric that matters here.
#[derive(Debug)]
pub(super) struct MetricPoint {
    /// The line of the file, from 1.
    pub(super) line: u64,
    pub(super) metric: String,
    pub(super) time: SystemTime,
    pub(super) value: f64,
    /// Tags and metadata.
    pub(super) names: BTreeMap<String, String>,
}

impl MetricPoint {
    /// Returns a tag or a value of the metadata as the script gave it.
    pub(super) fn get(&self, name: &str) -> Option<&str> {
        self.names.get(name).map(String::as_str).filter(|value| !value.is_empty())
    }

    /// Returns the same without its percent encoding, in which the exported script writes what may have any character.
    pub(super) fn decoded(&self, name: &str) -> Option<String> {
        self.get(name).map(|value| percent_decode_str(value).decode_utf8_lossy().into_owned())
    }
}

fn matters(metric: &str) -> bool {
    metric == PURCHASE || metric == REQUESTS || PARTS.contains(&metric)
}

/// A line of JSON.
#[derive(Debug, Deserialize)]
pub(super) struct JsonLine {
    metric: String,
    r#type: String,
    #[serde(default)]
    data: JsonData,
}

/// The point of a line. The line of a metric has other members, which are passed over.
#[derive(Debug, Default, Deserialize)]
struct JsonData {
    time: Option<String>,
    value: Option<f64>,
    tags: Option<BTreeMap<String, String>>,
    metadata: Option<BTreeMap<String, String>>,
}

impl JsonLine {
    /// Returns the point, if it matters here.
    pub(super) fn point(self, log: &Log<'_>, line: u64) -> Result<Option<MetricPoint>, Error> {
        if self.r#type != "Point" || !matters(&self.metric) {
            return Ok(None);
        }
        let JsonData { time, value, tags, metadata } = self.data;
        let time = time.unwrap_or_default();
        let wrong = || log.refuse_value(line, "time", &time, "an instant of RFC 3339");
        Ok(Some(MetricPoint {
            line,
            metric: self.metric,
            time: rfc3339(&time).ok_or_else(wrong)?,
            value: value.ok_or_else(|| log.refuse_value(line, "value", "", "a number"))?,
            names: tags.into_iter().chain(metadata).flatten().collect(),
        }))
    }
}

/// The positions of the columns of a CSV file.
pub(super) struct CsvColumns {
    extra_tags: Option<usize>,
    metadata: Option<usize>,
    /// The columns of single tags, with their names.
    tags: Vec<(usize, String)>,
}

impl CsvColumns {
    pub(super) fn of(log: &Log<'_>, header: &StringRecord) -> Result<CsvColumns, Error> {
        let at = |name: &str| header.iter().position(|found| found == name);
        let [extra_tags, metadata] = ["extra_tags", "metadata"].map(at);
        if extra_tags.is_none() {
            return Err(log.refuse(1, "the column extra_tags is missing; log with k6 1.0 or newer"));
        }
        let tags = header.iter().enumerate().skip(3).filter(|(at, _)| ![extra_tags, metadata].contains(&Some(*at)));
        Ok(CsvColumns { extra_tags, metadata, tags: tags.map(|(at, name)| (at, name.to_owned())).collect() })
    }

    /// Returns the point of a row, if it matters here.
    pub(super) fn point(
        &self,
        log: &Log<'_>,
        line: u64,
        record: &StringRecord,
        units: &mut TimeUnits,
    ) -> Result<Option<MetricPoint>, Error> {
        let [metric, time, value] = [0, 1, 2].map(|at| &record[at]);
        if !matters(metric) {
            return Ok(None);
        }
        let wrong = || log.refuse_value(line, "timestamp", time, "an instant");
        let instant = units.instant(log, line, time)?.ok_or_else(wrong)?;
        let tags = self.tags.iter().map(|(at, name)| (name.clone(), record[*at].to_owned()));
        let lists = [self.extra_tags, self.metadata].into_iter().flatten().flat_map(|at| record[at].split('&'));
        let further =
            lists.filter_map(|pair| pair.split_once('=')).map(|(name, value)| (name.to_owned(), value.to_owned()));
        Ok(Some(MetricPoint {
            line,
            metric: metric.to_owned(),
            time: instant,
            value: value.parse().map_err(|_| log.refuse_value(line, "metric_value", value, "a number"))?,
            names: tags.chain(further).collect(),
        }))
    }
}

/// The units of the times of a CSV file. `K6_CSV_TIME_FORMAT` sets them, and the file does not name them.
#[derive(Default)]
pub(super) struct TimeUnits {
    /// The finest unit that was seen.
    finest: Option<Duration>,
}

impl TimeUnits {
    /// Reads an instant. Whole seconds are refused.
    fn instant(&mut self, log: &Log<'_>, line: u64, text: &str) -> Result<Option<SystemTime>, Error> {
        let seen = match text.len() {
            // The digits of the present time tell the unit.
            13 => digits(text).map(|ms| (Duration::from_millis(ms), Duration::from_millis(1))),
            16 => digits(text).map(|us| (Duration::from_micros(us), Duration::from_micros(1))),
            19 => digits(text).map(|ns| (Duration::from_nanos(ns), Duration::from_nanos(1))),
            length if length <= 11 && digits(text).is_some() => return Err(coarse(log, line, text)),
            _ => None,
        };
        if let Some((time, unit)) = seen {
            self.note(unit);
            return Ok(since_1970(time));
        }
        let instant = rfc3339(text);
        if instant.is_some() {
            // k6 leaves out zeros at the end, so a single instant may be one of whole seconds.
            self.note(if text.contains('.') { Duration::from_nanos(1) } else { Duration::from_secs(1) });
        }
        Ok(instant)
    }

    fn note(&mut self, unit: Duration) {
        self.finest = Some(self.finest.map_or(unit, |finest| finest.min(unit)));
    }

    /// Returns the unit of the file. Whole seconds are refused.
    pub(super) fn resolution(&self, log: &Log<'_>) -> Result<Duration, Error> {
        match self.finest {
            Some(unit) if unit >= Duration::from_secs(1) => {
                Err(log
                    .refuse(2, format!("all instants are whole seconds, which tell no start of a purchase; {REMEDY}")))
            }
            unit => Ok(unit.unwrap_or(Duration::from_nanos(1))),
        }
    }
}

fn coarse(log: &Log<'_>, line: u64, text: &str) -> Error {
    log.refuse(line, format!("timestamp is {text:?}, in whole seconds, which tell no start of a purchase; {REMEDY}"))
}
