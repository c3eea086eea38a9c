//! Compares the service with its parts, and checks that each measured sale is an order:
//!
//! * its purchases with the same statements sent by pgbench,
//! * its looks at the stock with a handler of axum that reads nothing,
//! * its batches of a hot stock with pgbench and with the HTTP path alone,
//! * the load generator with wrk.
//!
//! [`run`] walks through the repetitions, [`deployment`] has the servers and the processes, [`generators`] runs wrk and pgbench and
//! reads what they say. [`bare`] is the handler. What the figures mean is decided without I/O, in [`results`].

mod bare;
mod cli;
mod deployment;
mod generators;
mod results;
mod run;

use std::process::ExitCode;

use bench::Error;
use program::{Exit, FromSystem as _, Interrupt, run_program};
use tokio::runtime::Runtime;

use crate::cli::{Cli, Command};

fn main() -> ExitCode {
    run_program(|cli: Cli| {
        let runtime = Runtime::new().map_err(Error::system("start the runtime"))?;
        match cli.command {
            Some(Command::Bare) => {
                runtime.block_on(bare::serve()).map(|()| Exit::Passed).map_err(Error::system("serve as the handler"))
            }
            None => {
                testbed::forget_postgres_variables()?;
                let interrupt = Interrupt::install();
                let interrupt = interrupt.map_err(Error::system("install the handler for Ctrl-C"))?;
                runtime.block_on(interrupt.or(run::run(&cli.settings)))
            }
        }
    })
}
