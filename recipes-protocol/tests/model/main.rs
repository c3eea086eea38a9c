//! The protocol, model-checked.

#![allow(clippy::unwrap_used, reason = "a test may fail")]

mod clocks;
mod cohort;
mod ownership;
mod queue;
