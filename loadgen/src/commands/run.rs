//! The `run` command: a comparison of one strategy.

use clap::Args;

use crate::config::load::LoadArgs;
use crate::config::settings::CompareSettings;
use crate::error::Error;

#[derive(Debug, Args)]
pub(crate) struct RunArgs {
    /// The strategy; `loadgen strategies` lists them
    #[arg(value_name = "STRATEGY")]
    strategy: String,
    #[command(flatten)]
    load: LoadArgs,
}

impl RunArgs {
    /// Fills in the plan file, the preset and the environment.
    ///
    /// # Errors
    ///
    /// [`Error::Usage`] when something is missing or contradicts something else.
    pub(crate) fn resolve(self) -> Result<CompareSettings, Error> {
        self.load.resolve(Some(vec![self.strategy]))
    }
}
