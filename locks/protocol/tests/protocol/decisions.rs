//! The decisions, each by itself.

mod cohort;
mod leases;
mod liveness;
mod naive;
mod names;
mod number_proof;
mod permits;
mod queue;
mod release_note;
mod session_queue;
