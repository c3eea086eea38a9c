//! The results that other engines log: JMeter, k6 and Locust. Each file becomes a list of requests to buy.
//!
//! | file | reads |
//! |---|---|
//! | `format.rs` | the beginning of a file, which tells its format |
//! | `jtl.rs` | the CSV files of JMeter, and the `results.jtl` of this program |
//! | `k6.rs`, `k6/` | the JSON and CSV files of k6 |
//! | `locust.rs` | the files that an exported file for Locust writes |
//! | `status.rs` | what a status means, where the log has no more |
//! | `times.rs` | instants and durations |
//!
//! `loadgen export --shop` makes each engine log what a buyer was told. Other logs have only statuses: their outcomes are read by the
//! statuses that the shop file names, and [`EngineLog::answers_seen`] is false. A file is read line by line.

mod format;
mod jtl;
mod k6;
mod locust;
mod status;
mod times;

use std::collections::HashSet;
use std::fs::File;
use std::io::{BufRead as _, BufReader, Read};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use buyers::script::Meanings;
use program::FromSystem as _;

pub use self::format::LogFormat;
use self::status::StatusMeanings;
use crate::error::Error;

/// The columns that the exported plan for JMeter adds to a log, and `check` to its own.
///
/// `trial` is the number of the trial. `intended` is the intended start in milliseconds since 1970, with a fraction. `buyer` is the
/// number of the buyer, and `order` the number of the order. An unknown value is empty.
pub const JTL_COLUMNS: [&str; 5] = ["trial", "intended", "outcome", "buyer", "order"];

/// The end of the label of a request that buys nothing, such as a sign-up. Such a line is left out.
pub const NO_PURCHASE: &str = ": no purchase";

/// The longest line that is read, in bytes.
const LINE_MAX: u64 = 1024 * 1024;

/// A log of an engine.
#[derive(Debug, Clone, PartialEq)]
pub struct EngineLog {
    /// The file.
    pub path: PathBuf,
    /// The engine and its format.
    pub format: LogFormat,
    /// The unit in which the log has its times.
    pub resolution: Duration,
    /// Whether the engine read the answers and logged what they meant. If not, statuses tell the outcomes.
    pub answers_seen: bool,
    /// The requests, in the order of the file.
    pub requests: Vec<LoggedRequest>,
}

/// A request to buy, as an engine logged it. A purchase of several requests is one.
#[derive(Debug, Clone, PartialEq)]
pub struct LoggedRequest {
    /// The name of the shop, or the name that the engine gave the request.
    pub label: Arc<str>,
    /// The number of the trial.
    pub trial: Option<u32>,
    /// When the buyer wanted to buy.
    pub intended: Option<SystemTime>,
    /// When the first request was sent.
    pub started: SystemTime,
    /// The time from the first request to the last byte of the last answer.
    pub duration: Duration,
    /// What the buyer was told. `None`: the status has several meanings, and the answer is not in the log.
    pub outcome: Option<LoggedOutcome>,
    /// The status of the last answer. `None`: there was none.
    pub status: Option<u16>,
    /// The number of the buyer.
    pub buyer: Option<String>,
    /// The number of the order.
    pub order: Option<String>,
}

/// What a buyer was told, as a log has it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LoggedOutcome {
    /// The buyer has a unit.
    Sold,
    /// Nothing was left.
    SoldOut,
    /// The shop did not serve the buyer.
    Refused,
    /// There was no answer, or one without a meaning.
    Error,
    /// The answer or the outcome did not come in time.
    Timeout,
}

impl LoggedOutcome {
    /// Reads the word of a log.
    fn of(word: &str) -> Option<LoggedOutcome> {
        match word {
            "sold" => Some(LoggedOutcome::Sold),
            "sold_out" => Some(LoggedOutcome::SoldOut),
            "refused" => Some(LoggedOutcome::Refused),
            "error" => Some(LoggedOutcome::Error),
            "timeout" => Some(LoggedOutcome::Timeout),
            _ => None,
        }
    }
}

/// Reads logs. The statuses of `meanings` tell the outcomes of a log that has no answers.
///
/// # Errors
///
/// [`Error::Usage`] with the file, the line, what was seen there, and the remedy. [`Error::System`] when a file cannot be read.
pub fn read(paths: &[PathBuf], meanings: &Meanings) -> Result<Vec<EngineLog>, Error> {
    let statuses = StatusMeanings::of(meanings);
    paths.iter().map(|path| read_file(path, &statuses)).collect()
}

fn read_file(path: &Path, statuses: &StatusMeanings) -> Result<EngineLog, Error> {
    let unreadable = || Error::system(format!("read {}", path.display()));
    let file = File::open(path).map_err(unreadable())?;
    let mut reader = BufReader::with_capacity(64 * 1024, file);
    let beginning = String::from_utf8_lossy(reader.fill_buf().map_err(unreadable())?).into_owned();
    let log = Log { path, statuses, labels: HashSet::new() };
    let format = LogFormat::of(&beginning).map_err(|what| log.refuse(1, what))?;
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
    Ok(read)
}

/// A log that is being read.
struct Log<'a> {
    path: &'a Path,
    statuses: &'a StatusMeanings,
    labels: HashSet<Arc<str>>,
}

impl Log<'_> {
    /// Says what is wrong in a line, counted from 1.
    fn refuse(&self, line: u64, what: impl std::fmt::Display) -> Error {
        Error::Usage(format!("{}:{line}: {what}", self.path.display()))
    }

    /// Says that a value of a line cannot be read.
    fn refuse_value(&self, line: u64, name: &str, seen: &str, wanted: &str) -> Error {
        let remedy = "the line may be the last one of a run that was stopped: delete it";
        self.refuse(line, format!("{name} is {seen:?}, and should be {wanted}; {remedy}"))
    }

    /// Returns a label, of which all requests share one copy.
    fn label(&mut self, label: &str) -> Arc<str> {
        if let Some(known) = self.labels.get(label) {
            return Arc::clone(known);
        }
        let label: Arc<str> = label.into();
        self.labels.insert(Arc::clone(&label));
        label
    }

    /// Reads the number of a trial.
    fn trial(&self, line: u64, text: Option<&str>) -> Result<Option<u32>, Error> {
        let Some(text) = text else { return Ok(None) };
        text.parse().map(Some).map_err(|_| self.refuse_value(line, "trial", text, "a whole number"))
    }

    fn outcome(&self, line: u64, word: &str) -> Result<LoggedOutcome, Error> {
        let words = "sold, sold_out, refused, error or timeout";
        LoggedOutcome::of(word).ok_or_else(|| self.refuse_value(line, "outcome", word, words))
    }

    fn done(
        &self,
        format: LogFormat,
        resolution: Duration,
        answers_seen: bool,
        requests: Vec<LoggedRequest>,
    ) -> EngineLog {
        EngineLog { path: self.path.to_owned(), format, resolution, answers_seen, requests }
    }

    /// Says what a reader of CSV has found.
    fn refuse_csv(&self, error: csv::Error) -> Error {
        let line = error.position().map_or(1, csv::Position::line);
        match error.into_kind() {
            csv::ErrorKind::Io(source) => Error::system(format!("read {}", self.path.display()))(source),
            csv::ErrorKind::UnequalLengths { expected_len, len, .. } => self.refuse(
                line,
                format!(
                    "the line has {len} fields, and the first line names {expected_len}; a run that was stopped leaves half a \
                     line, and a second run appends other columns: delete the line, or use a new file for each run"
                ),
            ),
            csv::ErrorKind::Utf8 { .. } => self.refuse(line, "the line is not UTF-8; log as UTF-8"),
            other => self.refuse(line, format!("the line cannot be read ({other:?}); log it again")),
        }
    }
}

/// Reads a line of at most [`LINE_MAX`] bytes. Returns `None` at the end of the file.
fn next_line(log: &Log<'_>, number: u64, reader: &mut BufReader<File>) -> Result<Option<String>, Error> {
    let mut bytes = Vec::new();
    let read = reader.by_ref().take(LINE_MAX).read_until(b'\n', &mut bytes);
    let read = read.map_err(Error::system(format!("read {}", log.path.display())))?;
    if read == 0 {
        return Ok(None);
    }
    if !bytes.ends_with(b"\n") && u64::try_from(read).is_ok_and(|read| read >= LINE_MAX) {
        return Err(log.refuse(number, "the line is longer than 1 MiB; is the file a log of an engine?"));
    }
    let line = String::from_utf8(bytes).map_err(|_| log.refuse(number, "the line is not UTF-8; log as UTF-8"))?;
    Ok(Some(line))
}

/// Returns a field that has a value. JMeter writes `null` for an unknown variable.
fn known(field: &str) -> Option<&str> {
    Some(field).filter(|field| !field.is_empty() && *field != "null")
}

#[cfg(test)]
mod tests;
