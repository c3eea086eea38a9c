//! The servers and the guard as a user of this crate meets them: real programs, real servers, real signals.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod architecture;
mod benches;
mod binary;
mod child_numbers;
mod circles;
mod commands;
mod documents;
mod ensembles;
mod guard;
mod installation;
mod interface;
mod links;
mod namespaces;
mod prose;
mod proxies;
mod public_api;
mod releases;
mod restarts;
mod servers;
mod support;
mod tidy;
