//! Compares ways of guarding the stock of a flash sale: starts the lab, lets many buyers buy at the same instant, and
//! judges from the database what each strategy sold, from the clock how fast it was, and from ZooKeeper's own counters
//! how much traffic it made.
//!
//! The deciding parts are pure: [`plan`], [`answer`], [`audit`](loadgen::audit), [`herd`], [`generator`],
//! [`stats`](loadgen::stats), [`verdict`] and [`report`] know no clock, no task and no socket. Around them, [`compare`] walks the plan, [`mod@run`] runs a trial of it,
//! [`scenario`] is the burst itself, and [`stack`] is what it is aimed at. `REPORT.md` documents the report.

mod answer;
mod cli;
mod compare;
mod database;
mod error;
mod generator;
mod herd;
mod interrupt;
mod output;
mod plan;
mod progress;
mod report;
mod run;
mod scenario;
mod servers;
mod service;
mod settings;
mod stack;
mod strategies;
mod trial;
mod up;
mod verdict;

use std::io::Write as _;
use std::process::ExitCode;

use clap::Parser;

use crate::cli::{Cli, Command, StrategiesArgs};
use crate::error::{Error, Exit};
use crate::interrupt::Interrupt;
use crate::output::Output;
use crate::report::terminal;
use crate::service::Service;
use crate::stack::Stack;

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
            let _ = writeln!(std::io::stderr(), "error: {}", error.chain());
            error.exit().into()
        }
    }
}

fn run(cli: Cli) -> Result<u8, Error> {
    let mut output = Output::take()?;
    let interrupt = Interrupt::install()?;
    let runtime = tokio::runtime::Runtime::new().map_err(Error::system("start the runtime"))?;
    runtime.block_on(async {
        match cli.command {
            Command::Compare(args) => compare::compare(&args.resolve()?, &interrupt, &mut output).await,
            Command::Up(args) => {
                up::up(&args.resolve()?, &interrupt, &mut output).await?;
                Ok(Exit::Held.code())
            }
            Command::Strategies(args) => {
                list_strategies(&args, &interrupt, &mut output).await?;
                Ok(Exit::Held.code())
            }
        }
    })
}

/// Prints the strategies of a running service, or of one started for the question.
async fn list_strategies(args: &StrategiesArgs, interrupt: &Interrupt, output: &mut Output) -> Result<(), Error> {
    let strategies = match &args.target {
        Some(url) => interrupt.or(Service::new(vec![url.clone()], String::new())?.strategies()).await?,
        None => {
            let stack = interrupt.or(Stack::start(&args.service())).await?;
            let strategies = interrupt.or(stack.service.strategies()).await;
            stack.stop().await?;
            strategies?
        }
    };
    output.print(&terminal::strategies(&strategies));
    Ok(())
}
