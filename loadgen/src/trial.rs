//! The trials: their plan, one run, and the record of it.

mod books;
pub(crate) mod goose;
pub(crate) mod herd;
pub(crate) mod jtl;
mod observe;
pub(crate) mod plan;
pub(crate) mod record;
pub(crate) mod run;
mod settle;
