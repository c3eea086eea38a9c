//! The protocol, model-checked.

mod bounded;
mod clocks;
mod cohort;
mod endless;
mod naive;
mod permits;
mod world;
