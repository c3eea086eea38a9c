//! `zk-lock` as a process, on a real ZooKeeper.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking, in its helpers too")]

mod encryption;
mod hints;
mod holding;
mod keeping;
mod listing;
mod losing;
mod permits;
mod readme;
mod revoking;
mod signals;
mod support;
#[cfg(target_os = "linux")]
mod terminal;
mod usage;
mod waiting;
