//! Logs of k6, as lines of JSON or as CSV.
//!
//! k6 notes the end of a request. An exported script has a metric of its own with one point for each purchase, and the rest of the
//! log is left out. Any other script has the metrics of HTTP only: k6 writes those of one request one after the other, and its
//! duration does not count the wait for a connection, in which it is opened. That is added.

mod collector;
mod point;

use std::fs::File;
use std::io::BufReader;
use std::time::Duration;

use csv::{ReaderBuilder, StringRecord};

use self::collector::Collector;
use self::point::{CsvColumns, JsonLine, TimeUnits};
use super::logged::{EngineLog, LogFormat};
use super::reading::{Log, next_line};
use crate::error::Error;

/// Reads lines of JSON.
pub(super) fn read_json(log: Log<'_>, mut reader: BufReader<File>) -> Result<EngineLog, Error> {
    let mut collector = Collector::new(log);
    let mut number = 0;
    loop {
        number += 1;
        let Some(text) = next_line(&collector.log, number, &mut reader)? else { break };
        if text.trim().is_empty() {
            continue;
        }
        let line: JsonLine = serde_json::from_str(&text).map_err(|error| {
            collector.log.refuse(
                number,
                format!("the line is no JSON of k6 ({error}); a run that was stopped leaves half a line: delete it"),
            )
        })?;
        if let Some(point) = line.point(&collector.log, number)? {
            collector.add(point)?;
        }
    }
    collector.done(LogFormat::K6Json, Duration::from_nanos(1))
}

/// Reads CSV.
pub(super) fn read_csv(log: Log<'_>, reader: BufReader<File>) -> Result<EngineLog, Error> {
    let mut reader = ReaderBuilder::new().from_reader(reader);
    let header = reader.headers().map_err(|error| log.refuse_csv(error))?;
    let columns = CsvColumns::of(&log, header)?;
    let mut collector = Collector::new(log);
    let mut units = TimeUnits::default();
    let mut record = StringRecord::new();
    while reader.read_record(&mut record).map_err(|error| collector.log.refuse_csv(error))? {
        let line = record.position().map_or(0, csv::Position::line);
        if let Some(point) = columns.point(&collector.log, line, &record, &mut units)? {
            collector.add(point)?;
        }
    }
    let resolution = units.resolution(&collector.log)?;
    collector.done(LogFormat::K6Csv, resolution)
}
