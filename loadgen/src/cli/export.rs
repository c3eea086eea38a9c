//! The command line of `export`.

use std::path::PathBuf;

use clap::{Arg, Args};

use super::load::LoadArgs;
use crate::error::Error;
use crate::export::{Engine, ExportSettings};

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
    pub(crate) fn resolve(self) -> Result<ExportSettings, Error> {
        // Nothing is connected to here, so nobody has to say how to reach a target's database, ZooKeeper and administration.
        let load = self.load.resolve_with(self.strategies, |_| Some("unused".to_owned()))?;
        Ok(ExportSettings { engine: self.engine, out: self.out, load })
    }
}
