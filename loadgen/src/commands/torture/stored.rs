//! Reads what earlier runs have written.

use std::fs;
use std::path::Path;

use program::FromSystem as _;
use serde::Deserialize;
use serde::de::DeserializeOwned;

use crate::error::Error;
use crate::report::torture::{ROUND_SCHEMA, SCHEMA, TortureReport};
use crate::trial::round::KeptRound;

/// A file of an earlier run.
pub(super) enum Stored {
    /// A whole run.
    Run(Box<TortureReport>),
    /// A round with its evidence.
    Round(Box<KeptRound>),
}

/// The format of a file.
#[derive(Deserialize)]
struct Named {
    schema: Option<String>,
}

/// Reads a run or a kept round.
pub(super) fn read(path: &Path) -> Result<Stored, Error> {
    let text = fs::read_to_string(path).map_err(Error::system(format!("read {}", path.display())))?;
    match parsed::<Named>(path, &text)?.schema.as_deref() {
        Some(SCHEMA) => parsed(path, &text).map(Stored::Run),
        Some(ROUND_SCHEMA) => parsed(path, &text).map(Stored::Round),
        other => {
            let named = other.map_or("it names no format".to_owned(), |other| format!("its format is {other}"));
            let reads = format!("this program reads {SCHEMA} and {ROUND_SCHEMA}");
            Err(unreadable(path, &format!("{named}, and {reads}")))
        }
    }
}

fn parsed<T: DeserializeOwned>(path: &Path, text: &str) -> Result<T, Error> {
    serde_json::from_str(text).map_err(|error| unreadable(path, &error.to_string()))
}

fn unreadable(path: &Path, what: &str) -> Error {
    Error::Usage(format!("{} is no record of `loadgen torture`: {what}", path.display()))
}
