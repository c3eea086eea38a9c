//! The `report` command: the pages of an earlier comparison.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::Args;
use program::Epilogue;

use crate::commands::simulate;
use crate::config::values::parse_report;
use crate::error::{Error, Exit};
use crate::judge::metrics::METRICS;
use crate::output::Output;
use crate::report::files::Files;
use crate::report::{files, json, markdown};

#[derive(Debug, Args)]
pub(crate) struct ReportArgs {
    /// File report.json of an earlier comparison, or its folder
    #[arg(value_name = "FILE", value_parser = parse_report, required_unless_present_any = ["schema", "figures"])]
    pub(crate) file: Option<PathBuf>,
    /// Folder to write the pages into [default: the folder of FILE]
    #[arg(long, value_name = "DIR", requires = "file")]
    pub(crate) out: Option<PathBuf>,
    /// File that `loadgen simulate --out` wrote, to be added to the pages and to report.json
    #[arg(long, value_name = "FILE", requires = "file")]
    pub(crate) simulation: Option<PathBuf>,
    /// Prints the JSON Schema of report.json instead
    #[arg(long, conflicts_with_all = ["file", "out"])]
    pub(crate) schema: bool,
    /// Prints a Markdown table of all figures instead: the key that a threshold uses, and the meaning
    #[arg(long, conflicts_with_all = ["file", "out", "schema"])]
    pub(crate) figures: bool,
}

pub(super) fn epilogue() -> Epilogue {
    Epilogue::default()
        .examples(&[
            ("writes the pages of report/ again", "loadgen report report"),
            ("adds a prediction to them", "loadgen report report --simulation simulation.json"),
        ])
        .exit_status(&[(Exit::Passed, ""), (Exit::Setup, ""), (Exit::Usage, "")])
}

/// Makes the pages of a report again, or prints the schema or the table of figures.
pub(super) fn report(args: &ReportArgs, output: &mut Output) -> Result<ExitCode, Error> {
    let Some(file) = &args.file else {
        output.print(&if args.figures { markdown::figures(METRICS) } else { json::schema(METRICS) })?;
        return Ok(Exit::Passed.into());
    };
    let mut report = json::read(file)?;
    let folder = args.out.as_deref().or(file.parent()).unwrap_or(Path::new("."));
    let files = Files::open(folder)?;
    match &args.simulation {
        Some(simulation) => {
            report.simulation = Some(simulate::read(simulation)?);
            files.write(&report)?;
        }
        None => files.write_rendered(&report)?,
    }
    output.print(&format!("report: {}\n", files.path(files::HTML).display()))?;
    Ok(Exit::Passed.into())
}
