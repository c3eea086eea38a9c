//! The commands of the program. Each file has the arguments of one command, and runs it.

pub(crate) mod audit;
mod before;
mod capacity;
mod check;
mod compare;
mod completions;
mod diff;
pub(crate) mod export;
mod judge;
mod man;
mod report;
mod run;
mod shops;
pub(crate) mod simulate;
mod strategies;
mod torture;
mod trials;
mod up;

use std::process::ExitCode;

use clap::{Parser, Subcommand};
use goose::goose::Scenario;
use program::{Epilogue, Exit, FromSystem as _, Interrupt, raise_file_limit};
use tokio::runtime::{Builder, Runtime};

use crate::commands::check::scenario::ScenarioCli;
use crate::config::settings::CompareSettings;
use crate::error::Error;
use crate::lab::servers::is_set;
use crate::output::Output;
use crate::telemetry;

/// Compares ways to sell the stock of a flash sale, on real servers.
#[derive(Debug, Parser)]
#[command(name = "loadgen", version, max_term_width = 100, disable_help_subcommand = true, after_help = epilogue().to_string())]
pub(crate) struct Cli {
    #[command(subcommand)]
    pub(crate) command: Command,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Runs every strategy under the same load, audits what was sold, and writes a report
    #[command(after_help = compare::epilogue().to_string())]
    Compare(compare::CompareArgs),
    /// Runs one strategy, audits what it sold, and writes a report
    #[command(after_help = run::epilogue().to_string())]
    Run(run::RunArgs),
    /// Tries a shop that sells limited stock over HTTP, as a file describes it
    ///
    /// The shop may be any service. Its file says how the stock is put on sale, what a buyer sends, which answers mean sold, and
    /// where the books are. `loadgen check --init` writes one with every key.
    #[command(after_help = check::epilogue().to_string())]
    Check(check::CheckArgs),
    /// Judges what JMeter, k6 or Locust bought at a shop, by their logs and by the shop's books
    ///
    /// The engines may run on any number of machines. Each purchase in their logs counts by itself. The
    /// report is like one of `loadgen check`.
    #[command(after_help = judge::epilogue().to_string())]
    Judge(judge::JudgeArgs),
    /// Lets faults strike the service and its servers while buyers buy, and audits what was sold
    ///
    /// It starts three ZooKeeper servers, Postgres, Redis if a strategy needs it, and instances with a proxy on each of their links. In
    /// each round one strategy sells while links fail and processes stop, freeze or die, as a seed draws them. Then all faults end, and
    /// the sale is audited.
    #[command(after_help = torture::epilogue().to_string())]
    Torture(torture::TortureArgs),
    /// Searches for the highest rate that a strategy or a shop holds
    #[command(after_help = capacity::epilogue().to_string())]
    Capacity(capacity::CapacityArgs),
    /// Writes the pages of a report again, from its report.json
    #[command(after_help = report::epilogue().to_string())]
    Report(report::ReportArgs),
    /// Compares new runs with old ones, and fails if a figure is worse
    #[command(after_help = diff::epilogue().to_string())]
    Diff(diff::DiffArgs),
    /// Audits every sale in a database, by its ledger and its orders
    #[command(after_help = audit::epilogue().to_string())]
    Audit(audit::AuditArgs),
    /// Predicts the notifications, the traffic and the time of many waiters
    #[command(after_help = simulate::epilogue().to_string())]
    Simulate(simulate::SimulateArgs),
    /// Writes the load of a comparison for JMeter or k6
    ///
    /// Starts no server and connects to nothing: it asks only the program of the service which strategies and arguments it knows.
    /// A run of the exported file is one trial. So `export` refuses the flags of `compare` about trials, servers and reports. A
    /// plan may set them: one plan serves both commands.
    #[command(after_help = export::epilogue().to_string())]
    Export(export::ExportArgs),
    /// Starts the servers and the service, and stops them at Ctrl-C
    #[command(after_help = up::epilogue().to_string())]
    Up(up::UpArgs),
    /// Prints the strategies that the service knows
    #[command(after_help = strategies::epilogue().to_string())]
    Strategies(strategies::StrategiesArgs),
    /// Prints the script that completes the commands in a shell
    #[command(after_help = completions::epilogue().to_string())]
    Completions(completions::CompletionsArgs),
    /// Writes the manual pages of the program and its commands
    #[command(after_help = man::epilogue().to_string())]
    Man(man::ManArgs),
}

impl Command {
    /// Tells whether it starts the service, and each server that the environment does not name.
    fn starts_service(&self) -> bool {
        match self {
            Command::Compare(args) => args.comparison.target.target.is_none(),
            Command::Run(args) => args.comparison.target.target.is_none(),
            Command::Capacity(args) => args.lab.target.target.is_none(),
            Command::Torture(_) | Command::Up(_) => true,
            _ => false,
        }
    }
}

/// Names of values that several flags share.
const TIME: &str = "TIME is a number with its unit: 500ms, 10s or 1m30s.";
/// The environment variable that a command reads without a flag for it.
const ADMIN_TOKEN: (&str, &str) = ("ADMIN_TOKEN", "bearer token of the administrator, for --target");

/// Tasks that a thread of the runtime carries out in a burst before it looks for answers. So the buyers start before answers
/// are read, and a burst of 10 000 takes half the time. In a closed loop, this would cost an eighth of the throughput.
const STARTS_BEFORE_ANSWERS: u32 = 8192;

fn epilogue() -> Epilogue {
    Epilogue::default()
        .examples(&[
            ("compares seven strategies, and writes report/report.html", "loadgen compare"),
            ("shows how the locks scale from 10 to 1500 users", "loadgen compare --preset scale"),
            ("tells whether new runs are worse than old ones", "loadgen diff old new"),
            ("writes a file that describes a shop of your own", "loadgen check --init shop.toml"),
        ])
        .environment(&[("RUST_LOG", "what is logged, for example loadgen=debug [default: nothing]")])
        .note("`loadgen COMMAND --help` lists the flags of a command.")
        .exit_status(&[
            (Exit::Passed, ""),
            (Exit::Failed, ": a threshold, a control that must oversell, or `diff`"),
            (Exit::PromiseBroken, ""),
            (Exit::Setup, ", or buyers got no decision or were not let in"),
            (Exit::ClientLimited, ""),
            (Exit::Usage, ""),
            (Exit::Interrupted, ""),
        ])
}

/// Runs the command that the command line names.
pub(crate) fn run(cli: Cli) -> Result<ExitCode, Error> {
    if cli.command.starts_service() && !is_set("DATABASE_URL") {
        testbed::forget_postgres_variables()?;
    }
    let Surroundings { mut output, interrupt } = Surroundings::prepare()?;
    let runtime = || runtime(&mut Builder::new_multi_thread());
    match cli.command {
        Command::Compare(args) => run_comparison(&args.resolve()?, &interrupt, &mut output),
        Command::Run(args) => run_comparison(&args.resolve()?, &interrupt, &mut output),
        Command::Check(args) => runtime()?.block_on(check::check(args, &interrupt, &mut output)),
        Command::Judge(args) => runtime()?.block_on(judge::judge(args, &interrupt, &mut output)),
        Command::Torture(args) => runtime()?.block_on(torture::torture(args, &interrupt, &mut output)),
        Command::Capacity(args) => runtime()?.block_on(capacity::capacity(args, &interrupt, &mut output)),
        Command::Report(args) => report::report(&args, &mut output),
        Command::Diff(args) => diff::diff(&args, &mut output),
        Command::Audit(args) => runtime()?.block_on(audit::audit(&args, &interrupt, &mut output)),
        Command::Export(args) => runtime()?.block_on(export::export(args, &interrupt, &mut output)),
        Command::Completions(args) => completions::completions(&args, &mut output),
        Command::Man(args) => man::man(&args),
        Command::Up(args) => runtime()?.block_on(up::up(&args.resolve()?, &interrupt, &mut output)),
        Command::Simulate(args) => runtime()?.block_on(simulate::simulate(args, &interrupt, &mut output)),
        Command::Strategies(args) => runtime()?.block_on(strategies::strategies(&args, &interrupt, &mut output)),
    }
}

/// Runs `check` with a scenario that buys in the place of the buyers of a shop file.
pub(crate) fn check_scenario(cli: ScenarioCli, scenario: Scenario) -> Result<ExitCode, Error> {
    let Surroundings { mut output, interrupt } = Surroundings::prepare()?;
    runtime(&mut Builder::new_multi_thread())?.block_on(check::scenario::check(cli, &scenario, &interrupt, &mut output))
}

/// What a command needs of the process that it runs in.
struct Surroundings {
    output: Output,
    interrupt: Interrupt,
}

impl Surroundings {
    fn prepare() -> Result<Surroundings, Error> {
        // A user needs a socket, and an instance needs one for each user and session. The instances inherit the limit.
        raise_file_limit();
        telemetry::start()?;
        let output = Output::take()?;
        // Before the buyers run: they install a handler of their own if there is none.
        let interrupt =
            Interrupt::install_with(buyers::stop).map_err(Error::system("install the handler for Ctrl-C"))?;
        Ok(Surroundings { output, interrupt })
    }
}

/// Runs a comparison on a runtime for its load model.
fn run_comparison(settings: &CompareSettings, interrupt: &Interrupt, output: &mut Output) -> Result<ExitCode, Error> {
    let mut builder = Builder::new_multi_thread();
    if settings.load.model.is_burst() {
        builder.event_interval(STARTS_BEFORE_ANSWERS);
    }
    runtime(&mut builder)?.block_on(compare::compare(settings, interrupt, output))
}

fn runtime(builder: &mut Builder) -> Result<Runtime, Error> {
    builder.enable_all().build().map_err(Error::system("start the runtime"))
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

    #[test]
    fn the_command_line_is_consistent() {
        Cli::command().debug_assert();
    }

    #[test]
    fn every_command_has_examples_and_its_exit_statuses() {
        for command in [&Cli::command()].into_iter().chain(Cli::command().get_subcommands()) {
            let end = command.get_after_help().unwrap().to_string();
            for part in ["Examples:\n  # ", "loadgen ", "\nExit status:\n    0  "] {
                assert!(end.contains(part), "{}: {part:?} in {end}", command.get_name());
            }
        }
    }

    #[test]
    fn no_sentence_of_a_help_text_is_long() {
        for command in Cli::command().get_subcommands() {
            for arg in command.get_arguments().filter(|arg| !arg.is_hide_set() && arg.get_id() != "thresholds") {
                let help = arg.get_help().unwrap_or_default().to_string();
                for sentence in help.split(". ") {
                    assert!(sentence.split_whitespace().count() <= 30, "{sentence}");
                    assert!(sentence.starts_with(char::is_uppercase), "{sentence}");
                }
            }
        }
    }
}
