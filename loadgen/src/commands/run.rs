//! The `run` command: a comparison of one strategy.

use clap::Args;

use crate::config::comparison::ComparisonArgs;
use crate::config::settings::CompareSettings;
use crate::error::Error;

#[derive(Debug, Args)]
pub(crate) struct RunArgs {
    /// The strategy; `loadgen strategies` lists them
    #[arg(value_name = "STRATEGY")]
    strategy: String,
    #[command(flatten)]
    comparison: ComparisonArgs,
}

impl RunArgs {
    /// Fills in the plan file, the preset, the defaults and the environment.
    ///
    /// # Errors
    ///
    /// [`Error::Usage`] if something is missing or contradicts something else.
    pub(crate) fn resolve(self) -> Result<CompareSettings, Error> {
        self.comparison.resolve(Some(vec![self.strategy]))
    }
}
