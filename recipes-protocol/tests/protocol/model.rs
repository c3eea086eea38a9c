//! The protocol, model-checked.

mod bounded;
mod clocks;
mod cohort;
mod ownership;
mod queue;
mod world;
