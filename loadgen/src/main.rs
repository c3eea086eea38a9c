//! Compares ways of guarding the stock of a flash sale: starts the lab, lets many buyers buy at the same instant, and
//! judges from the database what each strategy sold, from the clock how fast it was, and from ZooKeeper's own counters
//! how much traffic it made.
//!
//! The deciding parts are pure: [`plan`], [`model`], [`answer`], [`audit`](loadgen::audit),
//! [`history`](loadgen::history), [`herd`], [`generator`], [`stats`], [`threshold`], [`verdict`] and [`report`]
//! know no clock, no task and no socket. Around them, [`compare`] walks the plan, [`mod@run`] runs a trial of
//! it, [`scenario`] is the load itself, and [`stack`] is what it is aimed at. `REPORT.md` says how to read the report.
//! [`mod@simulate`] measures the locks by themselves, and predicts by the crate [`simulation`] what more waiters would cost
//! than one machine can have.

mod answer;
mod audit_command;
mod cli;
mod compare;
mod cpu;
mod database;
mod diff;
mod error;
mod export;
mod generator;
mod herd;
mod interrupt;
mod model;
mod output;
mod plan;
mod postgres;
mod progress;
mod report;
mod run;
mod scenario;
mod servers;
mod service;
mod settings;
mod simulate;
mod stack;
mod strategies;
mod threshold;
mod trial;
mod up;
mod verdict;

use std::io::Write as _;
use std::path::Path;
use std::process::ExitCode;

use clap::{CommandFactory, Parser};

use crate::cli::{Cli, Command, DiffArgs, ReportArgs, StrategiesArgs};
use crate::diff::Diff;
use crate::error::{Error, Exit};
use crate::interrupt::Interrupt;
use crate::output::Output;
use crate::report::files::Files;
use crate::report::{files, json, terminal};
use crate::service::Service;
use crate::stack::{Stack, raise_file_limit};

fn main() -> ExitCode {
    let cli = match Cli::try_parse() {
        Ok(cli) => cli,
        Err(error) => {
            // A closed terminal leaves nobody to tell.
            let _ = error.print();
            return if error.use_stderr() { Exit::Usage.into() } else { ExitCode::SUCCESS };
        }
    };
    match run(cli) {
        Ok(code) => ExitCode::from(code),
        Err(error) => {
            let _ = writeln!(std::io::stderr(), "error: {}", program::chain(&error));
            error.exit().into()
        }
    }
}

fn run(cli: Cli) -> Result<u8, Error> {
    raise_file_limit();
    let mut output = Output::take()?;
    let interrupt = Interrupt::install()?;
    let runtime = tokio::runtime::Runtime::new().map_err(Error::system("start the runtime"))?;
    runtime.block_on(async {
        match cli.command {
            Command::Compare(args) => compare::compare(&args.resolve()?, &interrupt, &mut output).await,
            Command::Run(args) => compare::compare(&args.resolve()?, &interrupt, &mut output).await,
            Command::Report(args) => {
                render_again(&args, &mut output)?;
                Ok(Exit::Held.code())
            }
            Command::Diff(args) => tell_apart(&args, &mut output),
            Command::Audit(args) => audit_command::audit(&args, &interrupt, &mut output).await,
            Command::Export(args) => {
                export::export(&args.resolve()?, &mut output)?;
                Ok(Exit::Held.code())
            }
            Command::Completions(args) => {
                let mut script = Vec::new();
                clap_complete::generate(args.shell, &mut Cli::command(), "loadgen", &mut script);
                output.print(&String::from_utf8_lossy(&script));
                Ok(Exit::Held.code())
            }
            Command::Up(args) => {
                up::up(&args.resolve()?, &interrupt, &mut output).await?;
                Ok(Exit::Held.code())
            }
            Command::Simulate(args) => {
                simulate::simulate(args, &interrupt, &mut output).await?;
                Ok(Exit::Held.code())
            }
            Command::Strategies(args) => {
                list_strategies(&args, &interrupt, &mut output).await?;
                Ok(Exit::Held.code())
            }
        }
    })
}

/// Makes the pages of a report again, or prints the schema.
fn render_again(args: &ReportArgs, output: &mut Output) -> Result<(), Error> {
    let Some(file) = &args.file else {
        output.print(&json::schema());
        return Ok(());
    };
    let mut report = json::read(file)?;
    let folder = args.out.as_deref().or(file.parent()).unwrap_or(Path::new("."));
    let files = Files::open(folder)?;
    match &args.simulation {
        Some(simulation) => {
            report.simulation = Some(simulate::read(simulation)?);
            files.write(&report)?;
        }
        None => files.write_rendered(&report)?,
    }
    output.print(&format!("report: {}\n", files.path(files::HTML).display()));
    Ok(())
}

/// Compares two runs.
fn tell_apart(args: &DiffArgs, output: &mut Output) -> Result<u8, Error> {
    let (old, new) = (json::read(&args.old)?, json::read(&args.new)?);
    let differences = diff::plan_differences(&old, &new);
    if !differences.is_empty() && !args.anyway {
        let what = differences.join("; ");
        return Err(Error::Usage(format!(
            "the runs were asked for different things: {what}; what that did cannot be told from a regression; compare them \
             all the same with --anyway"
        )));
    }
    let diff = Diff::of(&old, &new);
    output.print(&terminal::diff(&diff));
    let is_worse = diff.regressions().next().is_some() || !diff.broken.is_empty();
    Ok(if is_worse { Exit::NotHeld } else { Exit::Held }.code())
}

/// Prints the strategies of a running service, or of one started for the question.
async fn list_strategies(args: &StrategiesArgs, interrupt: &Interrupt, output: &mut Output) -> Result<(), Error> {
    let strategies = match &args.target {
        Some(url) => interrupt.or(Service::new(vec![url.clone()], String::new())?.strategies()).await?,
        None => {
            let stack = interrupt.or(Stack::start(&args.service()?)).await?;
            let strategies = interrupt.or(stack.service.strategies()).await;
            stack.stop().await?;
            strategies?
        }
    };
    output.print(&terminal::strategies(&strategies));
    Ok(())
}
