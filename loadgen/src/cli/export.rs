//! The command line of `export`.

use std::path::PathBuf;

use clap::Args;

use super::load::LoadArgs;
use crate::error::Error;
use crate::export::{Engine, ExportSettings};

#[derive(Debug, Args)]
pub(crate) struct ExportArgs {
    /// The engine to write for
    #[arg(value_enum)]
    engine: Engine,
    /// The file to write [default: standard output]
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
    /// Strategies; what is written runs one at a time, the first unless it is told another [default: the service's own]
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
