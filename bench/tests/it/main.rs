//! Runs the built programs of this package, with real servers behind them.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking, wherever it does")]

mod compare;
mod peers;
mod service;
