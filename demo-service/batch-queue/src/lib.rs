//! The queue of a SKU that is sold in batches, and the slots that bound the purchases of an instance.
//!
//! A buyer [joins](Queues::join) the queue of a SKU, and [waits](Pending::wait). The [`Worker`] of the SKU takes the buyers that wait, at
//! most [`BATCH_MAX`] of them, and [sells](sell) to them in one transaction, or [hands them over](HandedOver) to another instance.
//!
//! Nothing here knows a database, a clock or a network: deadlines and transactions are futures of the caller, and the rest is
//! `tokio::sync`. So `interleaved/` runs these very sources under a scheduler that chooses, at each lock and each await, who goes on.

mod buyer;
mod candidate;
mod commit;
mod handed_over;
mod queue;
mod sell;
mod slots;
#[cfg(test)]
mod tests;
mod worker;

pub use buyer::{Buyer, Pending, WaitEnd};
pub use candidate::{Candidate, DecisionOf, Refusal};
pub use commit::Commit;
pub use handed_over::HandedOver;
pub use queue::{BATCH_MAX, Queues};
pub use sell::{BatchTransaction, earliest, sell};
pub use slots::{Slot, Slots, SlotsOfBatch};
pub use worker::{Away, Worker};
