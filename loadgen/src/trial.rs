//! The trials: their schedule, one trial, and its record.

pub(crate) mod any;
pub(crate) mod goose;
pub(crate) mod herd;
pub(crate) mod jtl;
pub(crate) mod lab;
pub(crate) mod logged;
pub(crate) mod record;
pub(crate) mod reproduce;
pub(crate) mod round;
pub(crate) mod run;
pub(crate) mod schedule;
