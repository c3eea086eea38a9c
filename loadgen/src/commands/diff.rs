//! The `diff` command: whether a second run is worse than the first.

use std::path::PathBuf;
use std::process::ExitCode;

use clap::Args;
use program::Epilogue;

use crate::config::values::parse_report;
use crate::error::{Error, Exit};
use crate::judge::metrics::METRICS;
use crate::output::Output;
use crate::report::diff::{self, Diff};
use crate::report::{json, markdown, terminal};

#[derive(Debug, Args)]
pub(crate) struct DiffArgs {
    /// File report.json of the first run, or its folder
    #[arg(value_name = "OLD", value_parser = parse_report)]
    pub(crate) old: PathBuf,
    /// File report.json of the second run, or its folder
    #[arg(value_name = "NEW", value_parser = parse_report)]
    pub(crate) new: PathBuf,
    /// Prints a comment for a pull request, in Markdown
    #[arg(long)]
    pub(crate) markdown: bool,
    /// Compares the runs even if their settings differ
    #[arg(long)]
    pub(crate) anyway: bool,
}

pub(super) fn epilogue() -> Epilogue {
    Epilogue::default()
        .examples(&[
            ("tells whether the second run is worse", "loadgen diff old new"),
            ("writes that as a comment for a pull request", "loadgen diff --markdown old new >comment.md"),
        ])
        .exit_status(&[
            (Exit::Passed, ": the second run is not worse"),
            (Exit::Failed, ": the second run is worse, or broke a promise"),
            (Exit::Usage, ""),
        ])
}

/// Compares two runs.
pub(super) fn diff(args: &DiffArgs, output: &mut Output) -> Result<ExitCode, Error> {
    let (old, new) = (json::read(&args.old)?, json::read(&args.new)?);
    let differences = diff::plan_differences(&old, &new);
    if !differences.is_empty() && !args.anyway {
        let what = differences.join("; ");
        return Err(Error::Usage(format!(
            "the runs were asked for different things: {what}; what that did cannot be told from a regression; compare them \
             all the same with --anyway"
        )));
    }
    let diff = Diff::of(&old, &new, METRICS);
    output.print(&if args.markdown { markdown::diff(&diff) } else { terminal::diff(&diff) });
    let is_worse = diff.regressions().next().is_some() || !diff.broken.is_empty();
    Ok(if is_worse { Exit::Failed } else { Exit::Passed }.into())
}
