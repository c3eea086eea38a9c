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
    let unreadable = |what| Error::Usage(format!("{} is no record of `loadgen torture`: {what}", path.display()));
    parse(&text).map_err(unreadable)
}

fn parse(text: &str) -> Result<Stored, String> {
    match parsed::<Named>(text)?.schema.as_deref() {
        Some(SCHEMA) => parsed(text).map(Stored::Run),
        Some(ROUND_SCHEMA) => parsed(text).map(Stored::Round),
        other => {
            let named = other.map_or("it names no format".to_owned(), |other| format!("its format is {other}"));
            Err(format!("{named}, and this program reads {SCHEMA} and {ROUND_SCHEMA}"))
        }
    }
}

fn parsed<T: DeserializeOwned>(text: &str) -> Result<T, String> {
    serde_json::from_str(text).map_err(|error| error.to_string())
}

#[cfg(test)]
mod fuzzed;
