//! A check in which the scenario of a goose user buys.

use std::path::PathBuf;
use std::process::ExitCode;

use buyers::model::LoadModel;
use clap::{Arg, Parser};
use goose::goose::Scenario;
use program::{Epilogue, Interrupt, Progress};

use super::{admitted, before};
use crate::commands::trials;
use crate::config::check::ShopTrialsArgs;
use crate::error::{Error, Exit};
use crate::output::Output;
use crate::shop::{self, Shop};

/// The flags of `loadgen check` that a scenario refuses, which buys once.
const REFUSED: [&str; 3] = ["duration", "rate", "arrivals"];

/// Tries a shop by the goose scenario of this program, audits what was sold, and writes a report.
///
/// A shop file says how the stock is put on sale and where the books are. Of each user, the scenario says what it sends, and
/// what it was told.
#[derive(Debug, Parser)]
#[command(version, max_term_width = 100, after_help = epilogue().to_string())]
#[command(mut_args(hide_refused))]
pub(crate) struct ScenarioCli {
    /// Files that describe the shops. [buyers], [buy] and [outcome] are not read. Several shops are judged against each other
    #[arg(value_name = "SHOP", required = true)]
    file: Vec<PathBuf>,
    /// Sends requests to a shop that is not on this machine, without a question
    #[arg(long)]
    yes_this_is_my_shop: bool,
    #[command(flatten)]
    trials: ShopTrialsArgs,
}

fn hide_refused(arg: Arg) -> Arg {
    let is_refused = REFUSED.contains(&arg.get_id().as_str());
    arg.hide(is_refused)
}

fn epilogue() -> Epilogue {
    Epilogue::default()
        .note("A scenario buys once, so --duration and --rate are refused. docs/your-own-shop.md has the rules.")
        .exit_status(&[
            (Exit::Passed, ""),
            (Exit::Failed, ": a threshold"),
            (Exit::PromiseBroken, ""),
            (Exit::Setup, ", or the scenario did not do its part"),
            (Exit::ClientLimited, ""),
            (Exit::Usage, ", or the shop file is wrong"),
            (Exit::Interrupted, ""),
        ])
}

/// Runs the trials of a check.
pub(in crate::commands) async fn check(
    cli: ScenarioCli,
    scenario: &Scenario,
    interrupt: &Interrupt,
    output: &mut Output,
) -> Result<ExitCode, Error> {
    let ScenarioCli { file, yes_this_is_my_shop, trials: of_trials } = cli;
    let read = |file: &PathBuf| shop::read_for_scenario(file, scenario.clone());
    let shops: Vec<Shop> = file.iter().map(read).collect::<Result<_, _>>()?;
    let settings = of_trials.resolve()?;
    let flag = match settings.model {
        model if model.requests_per_buyer() > 1 => Some("--requests-per-buyer"),
        LoadModel::Burst { .. } | LoadModel::Ramp { .. } => None,
        LoadModel::Loop { .. } => Some("--duration"),
        LoadModel::Open { .. } => Some("--rate"),
    };
    if let Some(flag) = flag {
        return Err(Error::Usage(format!(
            "a scenario buys once, and {flag} needs buyers that buy again and again; give --users, and --ramp-up if they are not to \
             buy at the same instant"
        )));
    }
    interrupt.or(admitted(&settings, &shops, yes_this_is_my_shop)).await?;
    let prepare = async |progress: &Progress| before::prepare(&settings, shops, progress);
    trials::run(&settings.report, prepare, interrupt, output).await
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

    #[test]
    fn the_help_of_a_scenario_hides_what_it_refuses() {
        ScenarioCli::command().debug_assert();
        let help = ScenarioCli::command().render_long_help().to_string();
        assert!(help.contains("--ramp-up <TIME>"), "{help}");
        let is_listed = |flag: &&str| help.lines().any(|line| line.trim_start().starts_with(&format!("--{flag} <")));
        assert_eq!(REFUSED.iter().find(|flag| is_listed(flag)), None, "{help}");
    }
}
