//! The `diff` command: whether new runs are worse than old ones.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::Args;
use program::Epilogue;

use crate::error::{Error, Exit};
use crate::judge::diff::Diff;
use crate::judge::metrics::METRICS;
use crate::output::Output;
use crate::report::{Report, files, json, markdown, terminal};

#[derive(Debug, Args)]
pub(crate) struct DiffArgs {
    /// The old side: a report.json, its folder, or a folder with the folders of several runs
    #[arg(value_name = "OLD", required_unless_present = "schema")]
    pub(crate) old: Option<PathBuf>,
    /// The new side, likewise
    #[arg(value_name = "NEW", required_unless_present = "schema")]
    pub(crate) new: Option<PathBuf>,
    /// Prints a comment for a pull request, in Markdown
    #[arg(long)]
    pub(crate) markdown: bool,
    /// Prints everything as JSON
    #[arg(long, conflicts_with = "markdown")]
    pub(crate) json: bool,
    /// Compares the runs even if their settings differ, or if a run was cut
    #[arg(long)]
    pub(crate) anyway: bool,
    /// Prints the JSON Schema of --json instead
    #[arg(long, conflicts_with_all = ["old", "new"])]
    pub(crate) schema: bool,
}

pub(super) fn epilogue() -> Epilogue {
    Epilogue::default()
        .examples(&[
            ("compares the counts of one run with those of another", "loadgen diff old new"),
            (
                "makes four runs per side, which are enough to compare times",
                "for run in 1 2 3 4; do loadgen compare --out old/$run; done",
            ),
            ("writes a comment for a pull request", "loadgen diff --markdown old new >comment.md"),
        ])
        .note(
            "Counts are compared block by block: oversold units, errors, refusals, requests, notifications, commits. \
             Times are compared run by run, because the blocks of a run share the state of the machine. So with fewer \
             than four runs per side, nothing can be said about times.",
        )
        .exit_status(&[
            (Exit::Passed, ": no figure that could be judged is worse"),
            (
                Exit::Failed,
                ": a figure is worse, a promise was broken, a strategy is gone, or no figure could be judged",
            ),
            (Exit::Setup, ""),
            (Exit::Usage, ", or the settings of the runs differ"),
        ])
}

/// Compares the runs of two sides.
pub(super) fn diff(args: &DiffArgs, output: &mut Output) -> Result<ExitCode, Error> {
    let (Some(old), Some(new)) = (&args.old, &args.new) else {
        output.print(&json::diff_schema())?;
        return Ok(Exit::Passed.into());
    };
    let diff = Diff::of(&side(old)?, &side(new)?, args.anyway, METRICS)?;
    match (args.json, args.markdown) {
        (true, _) => output.print(&json::render(&diff)?)?,
        (_, true) => output.print(&markdown::diff(&diff, METRICS))?,
        (false, false) => output.show(&terminal::diff(&diff, METRICS))?,
    }
    Ok(ExitCode::from(diff.exit_code))
}

/// Reads the runs of a side, in the order of their names.
fn side(path: &Path) -> Result<Vec<Report>, Error> {
    let file = path.join(files::JSON);
    if !path.is_dir() || file.exists() {
        return Ok(vec![json::read(if path.is_dir() { &file } else { path })?]);
    }
    let unreadable = |error: std::io::Error| Error::NoReport { path: path.to_owned(), what: error.to_string() };
    let entries = fs::read_dir(path).map_err(unreadable)?.collect::<Result<Vec<_>, _>>().map_err(unreadable)?;
    let mut runs: Vec<PathBuf> = entries.into_iter().map(|entry| entry.path().join(files::JSON)).collect();
    runs.retain(|run| run.exists());
    runs.sort();
    if runs.is_empty() {
        let what = format!("neither it nor a folder in it has a {}", files::JSON);
        return Err(Error::NoReport { path: path.to_owned(), what });
    }
    runs.iter().map(|run| json::read(run)).collect()
}
