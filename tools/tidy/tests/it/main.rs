//! What the repository checks about itself: arrows, circles, prose, documents, promises, the scripts and the workflows.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod architecture;
mod benches;
mod circles;
mod commands;
mod documents;
mod guarantees;
mod installation;
mod interface;
mod names;
mod prose;
mod public_api;
mod releases;
mod tidy;
