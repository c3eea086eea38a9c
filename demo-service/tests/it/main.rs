//! The service as its clients see it, on real servers.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking, wherever it does")]

mod lab;
mod program;

mod abandoned;
mod admin;
mod buying;
mod command;
mod conformance;
mod contract;
mod encryption;
mod fencing;
mod history;
mod ledger;
mod limits;
mod load_tools;
mod logs;
mod looking;
mod metrics;
mod ordering;
mod outages;
mod service_role;
mod shutdown;
mod stopped_sections;
mod zookeeper_user;
