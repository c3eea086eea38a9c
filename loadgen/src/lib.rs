//! What the load generator judges by, apart from the program around it, so that the benches can count its instructions:
//! the [`audit`] of what a trial sold, the [`ledger`] of a sale by itself, and the [`history`] of who was in the critical section. All
//! are pure.

pub mod audit;
pub mod history;
pub mod ledger;
