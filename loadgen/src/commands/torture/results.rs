//! Prints what earlier runs have found, as Markdown.

use std::path::PathBuf;
use std::process::ExitCode;

use program::Exit;

use super::stored::{Stored, read};
use crate::error::Error;
use crate::output::Output;
use crate::report::torture::results::{Results, StoredRun};

/// Prints the tables of these runs. Fails if a round is judged otherwise than before.
pub(super) fn results(paths: &[PathBuf], output: &mut Output) -> Result<ExitCode, Error> {
    let mut runs = Vec::new();
    let mut kept = Vec::new();
    for path in paths {
        match read(path)? {
            Stored::Run(report) => {
                let name = path.file_name().unwrap_or(path.as_os_str()).to_string_lossy().into_owned();
                runs.push(StoredRun { name, report: *report });
            }
            Stored::Round(round) => kept.push(*round),
        }
    }
    if runs.is_empty() {
        let text = "no FILE is the torture.json of a run; kept rounds alone do not say what was tried";
        return Err(Error::Usage(text.to_owned()));
    }
    let results = Results::of(runs, &kept);
    output.print(&results.markdown())?;
    Ok(if results.changed.is_empty() { Exit::Passed } else { Exit::Failed }.into())
}
