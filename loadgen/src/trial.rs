//! The trials: their schedule, one trial, and its record.

mod audit;
pub(crate) mod goose;
pub(crate) mod herd;
pub(crate) mod jtl;
mod observe;
pub(crate) mod record;
pub(crate) mod run;
pub(crate) mod schedule;
mod settle;
