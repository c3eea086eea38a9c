//! Compares ways of guarding the stock of a flash sale. It starts the lab and lets many buyers buy at the same instant. It
//! judges from the database what each strategy sold, from the clock how fast it was, and from ZooKeeper's own counters how
//! much traffic it made.
//!
//! | folder | holds |
//! |---|---|
//! | `commands` | one file a command: its arguments, and what it does |
//! | `config` | flags that commands share, plan files, presets |
//! | `lab` | what is measured on: servers, service, processors |
//! | `load` | the buyers: load models, requests, answers, whether the generator kept up |
//! | `trial` | the plan of the trials, one trial, and its record |
//! | `judge` | audit, ledger, history, results, findings, thresholds, verdict, diff |
//! | `report` | the report as terminal table, Markdown, HTML, JSON and HdrHistogram files |
//! | `export` | the same load for JMeter and k6 |
//!
//! `judge` and the load models are pure: they know no clock, no task and no socket. `docs/reports.md` says how to read the
//! report. The library exists for the program and for the benches, which read reports by [`report::json::read`].

mod commands;
mod config;
mod error;
mod export;
pub mod judge;
mod lab;
mod load;
mod output;
mod progress;
pub mod report;
mod telemetry;
mod trial;

use std::process::ExitCode;

/// Runs the program.
#[must_use]
pub fn main() -> ExitCode {
    program::run_program(commands::run)
}
