//! The `run` command: a comparison of one strategy.

use clap::Args;
use program::Epilogue;

use crate::commands::compare::epilogue_of;
use crate::config::comparison::ComparisonArgs;
use crate::config::settings::CompareSettings;
use crate::config::values::one_program;
use crate::error::Error;
use crate::lab::source::Source;

#[derive(Debug, Args)]
pub(crate) struct RunArgs {
    /// Strategy to run; `loadgen strategies` lists them
    #[arg(value_name = "STRATEGY")]
    strategy: String,
    #[command(flatten)]
    pub(super) comparison: ComparisonArgs,
}

pub(super) fn epilogue() -> Epilogue {
    let examples = [
        ("runs one strategy under the load of the preset quick", "loadgen run zk-handoff"),
        (
            "sells for 10 s in a closed loop of 64 users",
            "loadgen run pg-merge --users 64 --duration 10s --stock 1000000",
        ),
    ];
    epilogue_of(&examples, ": a threshold was crossed, a control did not oversell, or no two buyers met under the lock")
}

impl RunArgs {
    /// Fills in the plan file, the preset, the defaults and the environment.
    pub(crate) fn resolve(self) -> Result<CompareSettings, Error> {
        let settings = self.comparison.resolve(Some(vec![self.strategy]))?;
        if let Source::Start(service) = &settings.source {
            one_program(service.programs.clone(), "run")?;
        }
        Ok(settings)
    }
}
