//! Logs of JMeter in CSV.
//!
//! JMeter writes whole milliseconds. `timeStamp` is the start of a request, as in the properties that JMeter comes with.

use std::fs::File;
use std::io::BufReader;
use std::time::{Duration, SystemTime};

use csv::{ReaderBuilder, StringRecord};

use super::format::delimiter_of;
use super::logged::{EngineLog, JTL_COLUMNS, LogFormat, LoggedOutcome, LoggedRequest, NO_PURCHASE};
use super::reading::{Log, known};
use super::times::{digits, milliseconds, since_1970};
use crate::error::Error;

/// How JMeter names a request that got no answer in time.
const TIMEOUT: &str = "TimeoutException";

/// The positions of the columns.
struct Columns {
    time_stamp: usize,
    elapsed: usize,
    label: usize,
    code: usize,
    /// The columns of [`JTL_COLUMNS`]. Absent if the log has none of them.
    added: Option<[usize; 5]>,
}

/// Reads a log. `beginning` is its first line, and maybe more.
pub(super) fn read(mut log: Log<'_>, reader: BufReader<File>, beginning: &str) -> Result<EngineLog, Error> {
    let delimiter = delimiter_of(beginning.lines().next().unwrap_or_default()).unwrap_or(b',');
    let mut reader = ReaderBuilder::new().delimiter(delimiter).from_reader(reader);
    let columns = Columns::of(&log, reader.headers().map_err(|error| log.refuse_csv(error))?)?;
    let mut requests = Vec::new();
    let mut record = StringRecord::new();
    while reader.read_record(&mut record).map_err(|error| log.refuse_csv(error))? {
        let line = record.position().map_or(0, csv::Position::line);
        if !record[columns.label].ends_with(NO_PURCHASE) {
            requests.push(columns.request(&mut log, line, &record)?);
        }
    }
    Ok(log.done(LogFormat::Jtl, Duration::from_millis(1), columns.added.is_some(), requests))
}

impl Columns {
    fn of(log: &Log<'_>, header: &StringRecord) -> Result<Columns, Error> {
        let at = |name: &str| header.iter().position(|found| found.trim_start_matches('\u{feff}') == name);
        let needed = |name: &str| {
            at(name).ok_or_else(|| {
                log.refuse(1, format!("the column {name} is missing; log it as JMeter does by its own properties"))
            })
        };
        let added = JTL_COLUMNS.map(at);
        let added = if added.iter().all(Option::is_none) {
            None
        } else {
            let missing = JTL_COLUMNS.iter().zip(added).find(|(_, at)| at.is_none());
            if let Some((name, _)) = missing {
                return Err(log.refuse(
                    1,
                    format!("the column {name} is missing; log all by -Jsample_variables={}", JTL_COLUMNS.join(",")),
                ));
            }
            Some(added.map(Option::unwrap_or_default))
        };
        Ok(Columns {
            time_stamp: needed("timeStamp")?,
            elapsed: needed("elapsed")?,
            label: needed("label")?,
            code: needed("responseCode")?,
            added,
        })
    }

    fn request(&self, log: &mut Log<'_>, line: u64, record: &StringRecord) -> Result<LoggedRequest, Error> {
        let number = |name: &str, column: usize| {
            let seen = &record[column];
            let wanted = "whole milliseconds, as by jmeter.save.saveservice.timestamp_format=ms";
            digits(seen).filter(|_| !seen.is_empty()).ok_or_else(|| log.refuse_value(line, name, seen, wanted))
        };
        let time_stamp = number("timeStamp", self.time_stamp)?;
        let started = self.instant(log, line, record, Duration::from_millis(time_stamp))?;
        let duration = Duration::from_millis(number("elapsed", self.elapsed)?);
        let code = &record[self.code];
        let status = code.parse().ok().filter(|status| (100..=999).contains(status));
        let mut request = LoggedRequest {
            label: log.label(&record[self.label]),
            trial: None,
            intended: None,
            started,
            duration,
            outcome: self.by_status(log, code, status),
            status,
            buyer: None,
            order: None,
        };
        let Some(added) = self.added else { return Ok(request) };
        let [trial, intended, outcome, buyer, order] = added.map(|column| known(&record[column]));
        request.trial = log.trial(line, trial)?;
        request.intended = match intended {
            Some(text) => {
                let wrong = || log.refuse_value(line, "intended", text, "milliseconds since 1970");
                Some(milliseconds(text).and_then(since_1970).ok_or_else(wrong)?)
            }
            None => None,
        };
        request.outcome = Some(log.outcome(line, outcome.unwrap_or_default())?);
        request.buyer = buyer.map(str::to_owned);
        request.order = order.map(str::to_owned);
        Ok(request)
    }

    fn instant(&self, log: &Log<'_>, line: u64, record: &StringRecord, time: Duration) -> Result<SystemTime, Error> {
        let seen = &record[self.time_stamp];
        since_1970(time).ok_or_else(|| log.refuse_value(line, "timeStamp", seen, "milliseconds since 1970"))
    }

    #[expect(clippy::unused_self, reason = "it reads a field of the row, as the functions beside it do")]
    fn by_status(&self, log: &Log<'_>, code: &str, status: Option<u16>) -> Option<LoggedOutcome> {
        match status {
            Some(status) => log.statuses.outcome(status),
            None if code.contains(TIMEOUT) => Some(LoggedOutcome::Timeout),
            None => Some(LoggedOutcome::Error),
        }
    }
}
