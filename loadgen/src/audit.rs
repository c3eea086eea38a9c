//! What was really sold, judged from the database and from what was seen of the locks: all of it is pure.

pub mod balance;
pub mod history;
pub mod ledger;
pub mod orders;
pub mod trial;
pub mod unchecked;
