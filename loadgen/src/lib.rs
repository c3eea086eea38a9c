//! Compares ways to sell the stock of a flash sale. It starts the lab and lets many buyers buy at the same instant. It
//! judges from the database what each strategy sold, from the clock how fast it was, and from ZooKeeper's own counters how
//! much traffic it made.
//!
//! | folder | holds |
//! |---|---|
//! | `commands` | one file a command: its arguments, and what it does |
//! | `export` | the same load for JMeter, k6 and Locust |
//! | `config` | flags that commands share, plan files, presets |
//! | `report` | the report as terminal table, Markdown, HTML, JSON and HdrHistogram files; the difference of two |
//! | `judge` | what follows from the trials: figures, findings, thresholds, verdict |
//! | `trial` | the order of the trials, one trial, and its record |
//! | `engines` | what JMeter, k6 and Locust have logged |
//! | `lab` | what is measured on: servers, service, processors |
//! | `shop` | a shop of any kind, as a file describes it |
//! | `audit` | what was really sold, and whether the locks excluded |
//!
//! A folder imports only from the folders below it. `audit` and `judge` are pure: they know no clock, no task and no socket.
//! The crate `buyers` makes the load of a trial. `docs/reports.md` says how to read the report. The library exists for the
//! program, for goose users, whose scenarios it checks by [`scenario::check`], for the benches, which read reports by
//! [`report::json::read`], and for the example `false_verdicts`.

pub mod audit;
mod commands;
mod config;

pub mod engines;
mod error;
mod export;
mod judge;
mod lab;
mod output;
mod progress;
pub mod report;
pub mod scenario;
mod shop;
mod telemetry;
mod trial;

use std::process::ExitCode;

/// Runs the program.
#[must_use]
pub fn main() -> ExitCode {
    program::run_program(commands::run)
}
