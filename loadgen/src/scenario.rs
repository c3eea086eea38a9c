//! `loadgen check` for a goose user: a scenario of your own buys, in the place of the buyers that a shop file describes.
//!
//! The program takes the arguments of `loadgen check`. It releases all users at the same instant, audits the books of the shop
//! file, and ends with the same report and the same exit status. `docs/your-own-shop.md` has the rules.
//!
//! ```no_run
//! use std::process::ExitCode;
//!
//! use goose::prelude::*;
//! use loadgen::scenario::{check, rendezvous};
//!
//! fn main() -> ExitCode {
//!     let log_in = transaction!(log_in).set_name("log in").set_on_start();
//!     check(scenario!("my shop").register_transaction(log_in).register_transaction(transaction!(buy)))
//! }
//!
//! async fn log_in(user: &mut GooseUser) -> TransactionResult {
//!     let phone = [("phone", user.weighted_users_index)];
//!     user.post_form("login", &phone).await?.response?.error_for_status()?;
//!     Ok(())
//! }
//!
//! async fn buy(user: &mut GooseUser) -> TransactionResult {
//!     let purchase = rendezvous().await;
//!     let answer = user.post("buy", "").await?.response?;
//!     match answer.status().as_u16() {
//!         201 => purchase.sold(Some(answer.text().await?)),
//!         409 => purchase.sold_out(),
//!         other => purchase.refused(format!("status {other}")),
//!     }
//!     Ok(())
//! }
//! ```

use std::process::ExitCode;

pub use buyers::scenario::{BegunPurchase, rendezvous};
use goose::goose::Scenario;

use crate::commands;

/// Runs the program: `loadgen check` with this scenario. It reads the command line, and returns the exit status.
///
/// Each user runs through the scenario once in each trial, and calls [`rendezvous`] once.
#[must_use]
pub fn check(scenario: Scenario) -> ExitCode {
    program::run_program(|cli| commands::check_scenario(cli, scenario))
}
