//! Compares the benches of two revisions, measured in turns on one machine, and fails if one of them got worse.
//!
//! [`gate`] says what worse means and [`report`] shows it; both are pure. [`mod@measure`] checks base out, builds both
//! revisions and runs their benches, and [`recorded`] reads what those have written.

mod cli;
mod error;
mod gate;
mod interrupt;
mod measure;
mod program;
mod recorded;
mod report;
mod repository;
mod workspace;

use std::io::Write as _;
use std::process::ExitCode;

use clap::Parser;

use crate::cli::{Cli, Task};
use crate::error::{Error, Exit};
use crate::measure::{Outcome, measure};
use crate::recorded::Results;
use crate::report::Report;

fn main() -> ExitCode {
    let cli = match Cli::try_parse() {
        Ok(cli) => cli,
        Err(error) => {
            // A closed terminal leaves nobody to tell.
            let _ = error.print();
            return if error.use_stderr() { Exit::Usage.into() } else { ExitCode::SUCCESS };
        }
    };
    match run(cli.task()) {
        Ok(exit) => exit.into(),
        Err(error) => {
            let _ = writeln!(std::io::stderr(), "error: {error}");
            error.exit().into()
        }
    }
}

fn run(task: Task) -> Result<Exit, Error> {
    let (Outcome { results, unchecked }, filter) = match task {
        Task::Measure(wanted) => {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
            let runtime = runtime.map_err(|source| Error::System { action: "start the runtime".to_owned(), source })?;
            (runtime.block_on(measure(&wanted))?, wanted.filter)
        }
        Task::Judge { recorded, filter } => {
            let results = Results::in_folder(recorded.clone());
            if results.times()?.is_empty() && results.instructions()?.is_empty() {
                return Err(Error::NoResults(recorded));
            }
            (Outcome { results, unchecked: None }, filter)
        }
    };
    let report = Report::new(results.times()?, results.instructions()?, filter.as_deref());
    if report.is_empty() {
        return Err(Error::NothingMatches(filter.unwrap_or_default()));
    }
    let mut text = report.to_markdown();
    if let Some(reason) = unchecked {
        text += &format!("instructions were not checked: {reason}\n");
    }
    // A reader that has gone, as `head` does, is no error.
    let _ = std::io::stdout().write_all(text.as_bytes());
    Ok(if report.is_regressed() { Exit::Regressed } else { Exit::Passed })
}
