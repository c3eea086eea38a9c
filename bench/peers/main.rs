//! Measures our locks beside those of Apache Curator, kazoo and zookeeper-client, on one throwaway ZooKeeper server.
//!
//! The orchestrator ([`run`]) walks a [`plan`] and asks worker processes ([`fleet`]) to contend for locks in a closed loop
//! ([`lab`]); they speak the [`protocol`]. This program is also the worker for everything that is written in Rust
//! ([`worker`]). What the figures mean is decided without clock or I/O: [`plan`], [`protocol`], [`window`], [`results`],
//! [`ratios`], [`report`]. `README.md` says how and why it is measured so.

mod cli;
mod error;
mod fleet;
mod implementation;
mod interrupt;
mod lab;
mod plan;
mod progress;
mod protocol;
mod ratios;
mod report;
mod results;
mod run;
mod waiters;
mod window;
mod worker;

use std::io::Write as _;
use std::process::ExitCode;

use clap::Parser;

use crate::cli::{Cli, Command};
use crate::error::{Error, Exit, chain};
use crate::interrupt::Interrupt;

fn main() -> ExitCode {
    let cli = match Cli::try_parse() {
        Ok(cli) => cli,
        Err(error) => {
            // A closed terminal leaves nobody to tell.
            let _ = error.print();
            return if error.use_stderr() { Exit::Usage.into() } else { ExitCode::SUCCESS };
        }
    };
    let ended = match cli.command {
        Some(Command::Worker) => worker::run().map(|()| Exit::Measured).map_err(Error::system("serve as a worker")),
        None => orchestrate(&cli),
    };
    match ended {
        Ok(exit) => exit.into(),
        Err(error) => {
            let _ = writeln!(std::io::stderr(), "error: {}", chain(&error));
            error.exit().into()
        }
    }
}

fn orchestrate(cli: &Cli) -> Result<Exit, Error> {
    let interrupt = Interrupt::install()?;
    let runtime = tokio::runtime::Runtime::new().map_err(Error::system("start the runtime"))?;
    runtime.block_on(run::run(&cli.settings, &interrupt))
}
