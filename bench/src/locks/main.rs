//! Compares our locks with those of Apache Curator, kazoo and zookeeper-client, on one throwaway ZooKeeper server.
//!
//! The orchestrator ([`run`]) walks a [`schedule`] and asks worker processes ([`fleet`]) to contend for locks in a closed loop
//! ([`harness`]) or in an open load ([`open_load`]); they speak the [`protocol`]. This program is also the worker for all
//! implementations in Rust ([`worker`]). What the figures mean is decided without clock or I/O: [`schedule`], [`arrivals`],
//! [`protocol`], [`window`], [`results`], [`ratios`], [`waits`], [`report`]. `README.md` describes the method.

mod arrivals;
mod cli;
mod fleet;
mod harness;
mod implementation;
mod open_load;
mod progress;
mod protocol;
mod ratios;
mod report;
mod results;
mod run;
mod schedule;
mod waiters;
mod waits;
mod window;
mod worker;

use std::process::ExitCode;

use bench::Error;
use program::{Exit, FromSystem as _, Interrupt, run_program};

use crate::cli::{Cli, Command};

fn main() -> ExitCode {
    run_program(|cli: Cli| match cli.command {
        Some(Command::Worker) => worker::run().map(|()| Exit::Passed).map_err(Error::system("serve as a worker")),
        None => orchestrate(&cli),
    })
}

fn orchestrate(cli: &Cli) -> Result<Exit, Error> {
    let interrupt = Interrupt::install().map_err(Error::system("install the handler for Ctrl-C"))?;
    let runtime = tokio::runtime::Runtime::new().map_err(Error::system("start the runtime"))?;
    runtime.block_on(run::run(&cli.settings, &interrupt))
}
