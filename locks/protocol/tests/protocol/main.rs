//! The decisions of the locks, each by itself and all of them in models.

#![allow(clippy::unwrap_used, reason = "a test may fail")]

mod decisions;
mod model;
