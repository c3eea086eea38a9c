//! The decisions of the locks, each by itself.

#![allow(clippy::unwrap_used, reason = "a test may fail")]

mod decisions;
