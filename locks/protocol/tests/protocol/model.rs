//! The protocol, model-checked.

mod bounded;
mod check;
mod clocks;
mod cohort;
mod endless;
mod naive;
mod permits;
mod world;
