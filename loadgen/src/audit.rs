//! The audit: what was really sold, by the database and by the history of the locks. All of it is pure.

pub mod balance;
pub mod history;
pub mod layout;
pub mod ledger;
pub(crate) mod limit;
pub mod orders;
pub mod reservations;
pub mod shop;
pub mod trial;
pub mod unchecked;
