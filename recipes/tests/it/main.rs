//! The recipes against a real ZooKeeper.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking, in its helpers too")]

mod cancel;
mod contract;
mod curator_names;
mod deadline;
mod session;
mod support;
mod traffic;
