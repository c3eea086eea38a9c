//! The files that an exported file for Locust writes, one of each worker.

use std::fs::File;
use std::io::BufReader;
use std::time::Duration;

use csv::{ReaderBuilder, StringRecord};

use super::format::LOCUST_COLUMNS;
use super::logged::{EngineLog, LogFormat, LoggedRequest};
use super::reading::{Log, known};
use super::times::{digits, since_1970};
use crate::error::Error;

/// Reads a file.
pub(super) fn read(mut log: Log<'_>, reader: BufReader<File>) -> Result<EngineLog, Error> {
    let mut reader = ReaderBuilder::new().from_reader(reader);
    let mut requests = Vec::new();
    let mut record = StringRecord::new();
    while reader.read_record(&mut record).map_err(|error| log.refuse_csv(error))? {
        let line = record.position().map_or(0, csv::Position::line);
        requests.push(request(&mut log, line, &record)?);
    }
    Ok(log.done(LogFormat::Locust, Duration::from_nanos(1), true, requests))
}

fn request(log: &mut Log<'_>, line: u64, record: &StringRecord) -> Result<LoggedRequest, Error> {
    let nanos = |column: usize| {
        let seen = &record[column];
        let wrong = || log.refuse_value(line, LOCUST_COLUMNS[column], seen, "nanoseconds");
        digits(seen).filter(|_| !seen.is_empty()).map(Duration::from_nanos).ok_or_else(wrong)
    };
    let instant = |column: usize| {
        let wrong = || log.refuse_value(line, LOCUST_COLUMNS[column], &record[column], "nanoseconds since 1970");
        since_1970(nanos(column)?).ok_or_else(wrong)
    };
    let [intended, started] = [instant(2)?, instant(3)?];
    let duration = nanos(4)?;
    let status: u16 =
        record[6].parse().map_err(|_| log.refuse_value(line, "status", &record[6], "a status, or 0 for none"))?;
    Ok(LoggedRequest {
        label: log.label(&record[1]),
        trial: log.trial(line, known(&record[0]))?,
        intended: Some(intended),
        started,
        duration,
        outcome: Some(log.outcome(line, &record[5])?),
        status: Some(status).filter(|status| *status > 0),
        buyer: known(&record[7]).map(str::to_owned),
        order: Some(&record[8]).filter(|order| !order.is_empty()).map(str::to_owned),
    })
}
