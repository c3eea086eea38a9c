//! The protocol, model-checked.

mod clocks;
mod cohort;
mod ownership;
mod queue;
mod world;
