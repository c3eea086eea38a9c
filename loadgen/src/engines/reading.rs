//! A log that is being read: what is wrong in it, and what its readers share.

use std::collections::HashSet;
use std::fs::File;
use std::io::{BufRead as _, BufReader, Read as _};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use program::FromSystem as _;

use super::logged::{EngineLog, LogFormat, LoggedOutcome, LoggedRequest};
use super::status::StatusMeanings;
use crate::error::Error;

/// The longest line that is read, in bytes.
const LINE_MAX: u64 = 1024 * 1024;

/// A log that is being read.
pub(super) struct Log<'a> {
    path: &'a Path,
    pub(super) statuses: &'a StatusMeanings,
    labels: HashSet<Arc<str>>,
}

impl<'a> Log<'a> {
    pub(super) fn new(path: &'a Path, statuses: &'a StatusMeanings) -> Log<'a> {
        Log { path, statuses, labels: HashSet::new() }
    }

    /// Says what is wrong in a line, counted from 1.
    pub(super) fn refuse(&self, line: u64, what: impl std::fmt::Display) -> Error {
        Error::Usage(format!("{}:{line}: {what}", self.path.display()))
    }

    /// Says that a value of a line cannot be read.
    pub(super) fn refuse_value(&self, line: u64, name: &str, seen: &str, wanted: &str) -> Error {
        let remedy = "the line may be the last one of a run that was stopped: delete it";
        self.refuse(line, format!("{name} is {seen:?}, and should be {wanted}; {remedy}"))
    }

    /// Returns a label, of which all requests share one copy.
    pub(super) fn label(&mut self, label: &str) -> Arc<str> {
        if let Some(known) = self.labels.get(label) {
            return Arc::clone(known);
        }
        let label: Arc<str> = label.into();
        self.labels.insert(Arc::clone(&label));
        label
    }

    /// Reads the number of a trial.
    pub(super) fn trial(&self, line: u64, text: Option<&str>) -> Result<Option<u32>, Error> {
        let Some(text) = text else { return Ok(None) };
        text.parse().map(Some).map_err(|_| self.refuse_value(line, "trial", text, "a whole number"))
    }

    pub(super) fn outcome(&self, line: u64, word: &str) -> Result<LoggedOutcome, Error> {
        let words = "sold, sold_out, over_limit, unpaid, refused, error or timeout";
        LoggedOutcome::of(word).ok_or_else(|| self.refuse_value(line, "outcome", word, words))
    }

    pub(super) fn done(
        &self,
        format: LogFormat,
        resolution: Duration,
        answers_seen: bool,
        requests: Vec<LoggedRequest>,
    ) -> EngineLog {
        EngineLog { path: self.path.to_owned(), format, resolution, answers_seen, requests }
    }

    /// Says what a reader of CSV has found.
    pub(super) fn refuse_csv(&self, error: csv::Error) -> Error {
        let line = error.position().map_or(1, csv::Position::line);
        match error.into_kind() {
            csv::ErrorKind::Io(source) => Error::system(format!("read {}", self.path.display()))(source),
            csv::ErrorKind::UnequalLengths { expected_len, len, .. } => self.refuse(
                line,
                format!(
                    "the line has {len} fields, and the first line names {expected_len}; delete the line if its run was \
                     stopped, and use a new file for each run"
                ),
            ),
            csv::ErrorKind::Utf8 { .. } => self.refuse(line, "the line is not UTF-8; log as UTF-8"),
            other => self.refuse(line, format!("the line cannot be read ({other:?}); log it again")),
        }
    }
}

/// Reads a line of at most [`LINE_MAX`] bytes. Returns `None` at the end of the file.
pub(super) fn next_line(log: &Log<'_>, number: u64, reader: &mut BufReader<File>) -> Result<Option<String>, Error> {
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
pub(super) fn known(field: &str) -> Option<&str> {
    Some(field).filter(|field| !field.is_empty() && *field != "null")
}
