//! The commands of the program: each file has the arguments of one, and what it does.

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

// Lines that fit a terminal of 80 columns, as clap knows no indentation when it breaks them.
const EXIT_CODES: &str = "\
Exit codes:
    0  every strategy kept its promise, and every threshold held
    1  a threshold was crossed, a regression was found, or a strategy that must
       oversell did not: the load was too weak to prove anything
    2  a strategy broke its promise
    3  set-up or infrastructure failed, or so many buyers were refused or failed
       that units were left
    4  the load generator was the bottleneck
   64  wrong usage
  130  interrupted (Ctrl-C, SIGTERM)

However it ends, the trials that were run are reported.";

const AUDIT_EXIT_CODES: &str = "\
Exit codes:
    0  every sale sold what there was, and every lock excluded
    2  a sale or a lock did not, be it of a strategy that has to oversell
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
    /// Make the pages of a report again from its report.json
    Report(report::ReportArgs),
    /// Tell whether a second run is worse than the first; exit code 1 if it is
    Diff(diff::DiffArgs),
    /// Audit every sale in a database, from its ledger and orders alone
    #[command(after_help = AUDIT_EXIT_CODES)]
    Audit(audit::AuditArgs),
    /// Predict the herd, the traffic and the time of many waiters
    Simulate(simulate::SimulateArgs),
    /// Write the same load for JMeter or k6
    ///
    /// Nothing is started, and nothing is connected to. What is written is one trial. Flags of `compare` that are not listed
    /// here are accepted and ignored.
    Export(export::ExportArgs),
    /// Start the servers and the service, and keep them until Ctrl-C
    Up(up::UpArgs),
    /// Print the strategies that the service knows
    Strategies(strategies::StrategiesArgs),
    /// Print the script that completes this command line in a shell
    Completions(completions::CompletionsArgs),
}

/// Runs the command that the command line names.
pub(crate) fn run(cli: Cli) -> Result<ExitCode, Error> {
    raise_file_limit();
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
