//! Compares the benches of two revisions, measured in turns on one machine, and fails if one of them got worse.
//!
//! [`gate`] says what worse means and [`report`] shows it; both are pure. [`mod@measure`] checks base out, builds both
//! revisions and runs their benches, and [`recorded`] reads what those have written.

mod cli;
mod error;
mod gate;
mod measure;
mod process;
mod recorded;
mod report;
mod repository;
mod workspace;

use std::process::ExitCode;

use program::{Again, Exit, Interrupt, print, run_program};

use crate::cli::{Cli, Task};
use crate::error::Error;
use crate::measure::{Outcome, measure};
use crate::recorded::Results;
use crate::report::Report;

fn main() -> ExitCode {
    run_program(|cli: Cli| run(cli.task()))
}

fn run(task: Task) -> Result<Exit, Error> {
    let (Outcome { results, unchecked }, filter) = match task {
        Task::Measure(wanted) => {
            let interrupt =
                Interrupt::install(Again::Waits).map_err(Error::system("install the handler for Ctrl-C"))?;
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
            let runtime = runtime.map_err(Error::system("start the runtime"))?;
            (runtime.block_on(measure(&wanted, &interrupt))?, wanted.filter)
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
        return Err(filter.map_or_else(|| Error::NothingRecorded(results.logs()), Error::NothingMatches));
    }
    let mut text = report.to_markdown();
    if let Some(reason) = unchecked {
        text += &format!("instructions were not checked: {reason}\n");
    }
    print(&text).map_err(Error::system("write to standard output"))?;
    Ok(if report.is_regressed() { Exit::Failed } else { Exit::Passed })
}
