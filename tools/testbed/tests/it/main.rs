//! The servers and the guard as a user of this crate meets them: real programs, real servers, real signals.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod binary;
mod child_numbers;
mod ensembles;
mod guard;
mod links;
mod namespaces;
mod proxies;
mod redis;
mod restarts;
mod servers;
mod support;
