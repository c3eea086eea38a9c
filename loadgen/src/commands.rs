//! The commands of the program. Each file has the arguments of one command, and runs it.

pub(crate) mod audit;
mod compare;
mod completions;
mod diff;
pub(crate) mod export;
mod report;
mod run;
pub(crate) mod simulate;
mod strategies;
mod up;

use std::process::ExitCode;

use clap::{Parser, Subcommand};
use program::{Again, Interrupt};

use crate::error::Error;
use crate::lab::stack::raise_file_limit;
use crate::output::Output;
use crate::telemetry;

// The lines fit a terminal of 80 columns: clap breaks longer ones without their indentation.
const EXIT_CODES: &str = "\
Exit codes:
    0  every strategy kept its promise, and every threshold held
    1  a threshold was crossed, diff found a regression, or a control did not
       oversell: the load was too weak to prove anything
    2  a strategy broke its promise
    3  the set-up or a server failed, or a strategy is undecided: too many
       buyers were refused or failed
    4  the load generator was the bottleneck
   64  wrong usage
  130  interrupted (Ctrl-C, SIGTERM)

With every exit code, the trials that were run are reported.";

const AUDIT_EXIT_CODES: &str = "\
Exit codes:
    0  the orders of every sale agree with its stock, and every lock excluded
    2  the orders of a sale disagree, or a lock did not exclude; controls count
    3  the database or an instance does not answer
   64  wrong usage
  130  interrupted (Ctrl-C, SIGTERM)";

/// Compares ways of guarding the stock of a flash sale, on real servers.
#[derive(Debug, Parser)]
#[command(name = "loadgen", version, max_term_width = 100, after_help = EXIT_CODES)]
pub(crate) struct Cli {
    #[command(subcommand)]
    pub(crate) command: Command,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Run every strategy under the same load, audit what was sold, and write a report
    #[command(after_help = EXIT_CODES)]
    Compare(compare::CompareArgs),
    /// Run one strategy, audit what it sold, and write a report
    #[command(after_help = EXIT_CODES)]
    Run(run::RunArgs),
    /// Write the pages of a report again, from its report.json
    Report(report::ReportArgs),
    /// Compare two reports; the exit code is 1 if the second is worse
    Diff(diff::DiffArgs),
    /// Audit every sale in a database, by its ledger and its orders
    #[command(after_help = AUDIT_EXIT_CODES)]
    Audit(audit::AuditArgs),
    /// Predict the notifications, the traffic and the time of many waiters
    Simulate(simulate::SimulateArgs),
    /// Write the load of a comparison for JMeter or k6
    ///
    /// Starts nothing and connects to nothing. A run of the exported file is one trial. The flags of `compare` about trials,
    /// servers and reports are therefore no flags of `export`. A plan may set them: one plan serves both commands.
    Export(export::ExportArgs),
    /// Start the servers and the service, and stop them at Ctrl-C
    Up(up::UpArgs),
    /// Print the strategies that the service knows
    Strategies(strategies::StrategiesArgs),
    /// Print the script that completes `loadgen` commands in a shell
    Completions(completions::CompletionsArgs),
}

/// Runs the command that the command line names.
pub(crate) fn run(cli: Cli) -> Result<ExitCode, Error> {
    raise_file_limit();
    telemetry::start()?;
    let mut output = Output::take()?;
    // Goose handles `SIGINT` by the same library whenever it runs, and calls `exit(1)` the second time. The first handler
    // stays, so this one has to be installed before goose runs.
    let interrupt = Interrupt::install_with(Again::Exits, || goose::trigger_killswitch("interrupted"))
        .map_err(Error::system("install the handler for Ctrl-C"))?;
    let runtime = tokio::runtime::Runtime::new().map_err(Error::system("start the runtime"))?;
    runtime.block_on(async {
        match cli.command {
            Command::Compare(args) => compare::compare(&args.resolve()?, &interrupt, &mut output).await,
            Command::Run(args) => compare::compare(&args.resolve()?, &interrupt, &mut output).await,
            Command::Report(args) => report::report(&args, &mut output),
            Command::Diff(args) => diff::diff(&args, &mut output),
            Command::Audit(args) => audit::audit(&args, &interrupt, &mut output).await,
            Command::Export(args) => export::export(args, &mut output),
            Command::Completions(args) => completions::completions(&args, &mut output),
            Command::Up(args) => up::up(&args.resolve()?, &interrupt, &mut output).await,
            Command::Simulate(args) => simulate::simulate(args, &interrupt, &mut output).await,
            Command::Strategies(args) => strategies::strategies(&args, &interrupt, &mut output).await,
        }
    })
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

    #[test]
    fn the_command_line_is_consistent() {
        Cli::command().debug_assert();
    }
}
