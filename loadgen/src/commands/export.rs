//! The `export` command: the same load for another engine.

use std::fs;
use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Arg, Args};

use crate::config::load::LoadArgs;
use crate::config::settings::CompareSettings;
use crate::error::{Error, Exit};
use crate::export::{Engine, render};
use crate::output::Output;

/// What the plan is of which only the load is written, so that it says nothing here.
const WITHOUT_EFFECT: [&str; 9] =
    ["database_url", "zookeeper", "demo_service", "trials", "no_warm_up", "seed", "report", "jmeter_summary", "quiet"];

#[derive(Debug, Args)]
#[command(
    mut_arg("target", |target| target.help("Base URLs of the instances to load [default: http://127.0.0.1:8080]")),
    mut_args(|arg| if WITHOUT_EFFECT.contains(&arg.get_id().as_str()) { Arg::hide(arg, true) } else { arg })
)]
pub(crate) struct ExportArgs {
    /// The engine to write for
    #[arg(value_enum)]
    engine: Engine,
    /// The file to write [default: standard output]
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
    /// Strategies; what is written runs one at a time, the first unless it is told another [default: the sale's own]
    #[arg(long, value_name = "NAME", value_delimiter = ',')]
    strategies: Option<Vec<String>>,
    #[command(flatten)]
    load: LoadArgs,
}

impl ExportArgs {
    /// Fills in the plan file and the preset.
    ///
    /// # Errors
    ///
    /// [`Error::Usage`] when something is missing or contradicts something else.
    pub(crate) fn resolve(self) -> Result<(Engine, CompareSettings), Error> {
        // Nothing is connected to, so the database, ZooKeeper and administration of a target need not be named.
        Ok((self.engine, self.load.resolve_with(self.strategies, |_| Some("unused".to_owned()))?))
    }
}

/// Writes the load.
///
/// # Errors
///
/// [`Error::Usage`] when the engine cannot do what is asked for, [`Error::System`] when the file cannot be written.
pub(super) fn export(args: ExportArgs, output: &mut Output) -> Result<ExitCode, Error> {
    let out = args.out.clone();
    let (engine, settings) = args.resolve()?;
    let text = render(engine, &settings)?;
    match out {
        Some(path) => fs::write(&path, text).map_err(Error::system(format!("write {}", path.display())))?,
        None => output.print(&text),
    }
    Ok(Exit::Held.into())
}
