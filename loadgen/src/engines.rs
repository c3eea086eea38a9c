//! The results that other engines log: JMeter, k6 and Locust. Each file becomes a list of requests to buy.
//!
//! | file | has |
//! |---|---|
//! | `logged.rs` | the requests of a log |
//! | `format.rs` | the format of a file, by its beginning |
//! | `reading.rs` | what all readers share |
//! | `jtl.rs` | the reader of CSV files of JMeter, and of the `results.jtl` of this program |
//! | `k6.rs`, `k6/` | the reader of JSON and CSV files of k6 |
//! | `locust.rs` | the reader of the files that an exported file for Locust writes |
//! | `status.rs` | the meaning of a status, where the log has no more |
//! | `times.rs` | instants and durations |
//!
//! `loadgen export --shop` makes each engine log what a buyer was told. Other logs have only statuses: their outcomes are read by the
//! statuses that the shop file names, and [`EngineLog::answers_seen`] is false. A file is read line by line.

mod format;
mod jtl;
mod k6;
mod locust;
mod logged;
mod reading;
mod status;
mod times;

use std::fs::File;
use std::io::{BufRead as _, BufReader, Read as _, Seek as _, SeekFrom};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use buyers::script::Meanings;
use program::FromSystem as _;

use self::format::format_of;
pub use self::logged::{EngineLog, JTL_COLUMNS, LogFormat, LoggedOutcome, LoggedRequest, NO_PURCHASE};
use self::reading::Log;
use self::status::StatusMeanings;
use crate::error::Error;

const DAY: Duration = Duration::from_hours(24);

/// Reads logs. The statuses of `meanings` tell the outcomes of a log that has no answers.
///
/// # Errors
///
/// `Error::Usage` with the file, the line, what was seen there, and the remedy. `Error::System` when a file cannot be read.
pub fn read(paths: &[PathBuf], meanings: &Meanings) -> Result<Vec<EngineLog>, Error> {
    let statuses = StatusMeanings::of(meanings);
    paths.iter().map(|path| read_file(path, &statuses)).collect()
}

fn read_file(path: &Path, statuses: &StatusMeanings) -> Result<EngineLog, Error> {
    let unreadable = || Error::system(format!("read {}", path.display()));
    let file = File::open(path).map_err(unreadable())?;
    let mut reader = BufReader::with_capacity(64 * 1024, file);
    let beginning = String::from_utf8_lossy(reader.fill_buf().map_err(unreadable())?).into_owned();
    let log = Log::new(path, statuses);
    let format = format_of(&beginning).map_err(|what| log.refuse(1, what))?;
    let read = match format {
        LogFormat::Jtl => jtl::read(log, reader, &beginning),
        LogFormat::K6Json => k6::read_json(log, reader),
        LogFormat::K6Csv => k6::read_csv(log, reader),
        LogFormat::Locust => locust::read(log, reader),
    }?;
    if read.requests.is_empty() {
        return Err(Error::Usage(format!(
            "{} has no request to buy; was the run stopped before its start, or its output of requests switched off?",
            path.display()
        )));
    }
    if format != LogFormat::K6Json {
        ensure_whole(path)?;
    }
    ensure_times(&read)?;
    Ok(read)
}

/// Refuses a log whose last line was cut off. An order number may be the part that is left.
fn ensure_whole(path: &Path) -> Result<(), Error> {
    let unreadable = || Error::system(format!("read {}", path.display()));
    let mut file = File::open(path).map_err(unreadable())?;
    let mut last = [0];
    file.seek(SeekFrom::End(-1)).and_then(|_| file.read_exact(&mut last)).map_err(unreadable())?;
    if last == *b"\n" {
        return Ok(());
    }
    let remedy = "its run was stopped, or it still runs: delete the last line, or wait";
    Err(Error::Usage(format!("{}: the last line has no end; {remedy}", path.display())))
}

/// Refuses times that no purchase has.
fn ensure_times(log: &EngineLog) -> Result<(), Error> {
    let is_far = |(one, other): (SystemTime, SystemTime)| {
        one.duration_since(other).unwrap_or_else(|before| before.duration()) > DAY
    };
    let is_wrong = |request: &LoggedRequest| {
        request.duration > DAY || is_far((request.started, request.intended.unwrap_or(request.started)))
    };
    if log.requests.iter().any(is_wrong) {
        return Err(Error::Usage(format!(
            "{} has a purchase that lasts longer than a day, or starts a day from its intended start; is it a log of an engine?",
            log.path.display()
        )));
    }
    Ok(())
}

#[cfg(test)]
mod fuzzed;
#[cfg(test)]
mod tests;
