//! The decisions, each by itself.

#![allow(clippy::unwrap_used, reason = "a test may fail")]

mod cohort;
mod leases;
mod liveness;
mod names;
mod number_proof;
mod queue;
mod release_note;
