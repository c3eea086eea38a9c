//! Runs the built programs of this package, with real servers behind them.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking, wherever it does")]

mod locks;
mod service;

/// Returns a text without the spaces that align the columns of its tables.
fn squeezed(text: &str) -> String {
    let words = |line: &str| line.split(' ').filter(|word| !word.is_empty()).collect::<Vec<_>>().join(" ");
    text.lines().map(|line| words(line) + "\n").collect()
}
