//! Very many runs of a subject, each by its seed: what they have reached, and which rules they have broken.
//!
//! A program that simulates something implements [`Subject`], and has the [arguments](CampaignArgs) and the [output](command) of this crate.

mod command;
mod run;
mod tally;

pub use command::{CampaignArgs, CampaignError, EXIT_STATUS, command};
pub use run::{Run, Sights, Subject};
pub use tally::{Broken, RunTally, run_all};
