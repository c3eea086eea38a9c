//! The service as its clients see it, on real servers.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking, wherever it does")]

mod lab;

mod admin;
mod buying;
mod command;
mod conformance;
mod contract;
mod fencing;
mod limits;
mod looking;
mod metrics;
mod ordering;
mod outages;
mod shutdown;
mod stopped_sections;
