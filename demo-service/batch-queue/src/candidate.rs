//! What the queue must know of a purchase, and of the reasons why nothing is sold.

use std::hash::Hash;

use crate::Commit;

/// A purchase that asks to be decided in a batch. The queues call its methods under their lock, so these neither panic nor use a queue.
pub trait Candidate: Sized + Send + 'static {
    /// What is bought. Each has a queue of its own.
    type Sku: Copy + Eq + Hash + Send + Sync;
    /// What a buyer gets.
    type Order: Send;
    /// Why a buyer gets nothing.
    type Refusal: Refusal;
    /// What is sent for the purchase: a commit, or the purchase itself on its way to another instance.
    type Sent: Clone + Send;
    /// A point in time.
    type Instant: Copy + Ord + Send;

    /// Returns the time.
    fn now() -> Self::Instant;

    /// Returns the number of the sale to which the purchase was admitted. It grows.
    fn sale(&self) -> i64;

    /// Returns when the buyer gives up waiting.
    fn until(&self) -> Self::Instant;

    /// Returns whether another instance has handed the purchase over. Then only this instance may decide it.
    fn is_handed(&self) -> bool;

    /// Returns what is known of the commit of the order.
    fn commit(&self) -> &Commit<Self::Sent>;

    /// Told when the purchase is put in the queue: in the order of arrival.
    fn joined(&mut self);

    /// Told when the worker has taken the purchase.
    fn taken(&mut self);

    /// Told when the purchase waits again, because nothing was decided.
    fn waits_again(&mut self);
}

/// The decision of a purchase.
pub type DecisionOf<C> = Result<<C as Candidate>::Order, <C as Candidate>::Refusal>;

/// Why nothing is sold.
pub trait Refusal: Clone + Send {
    /// Returns the refusal of a buyer that has given up.
    fn client_gone() -> Self;

    /// Returns whether the right to write was not had in time.
    fn is_lock_timeout(&self) -> bool;

    /// Returns whether nobody knows what was committed.
    fn leaves_unknown(&self) -> bool;

    /// Returns whether the reason lies with this instance, so that another one may sell. Then purchases that were handed over go back
    /// undecided.
    fn lies_here(&self) -> bool;

    /// Returns whether the reason concerns all purchases of a batch, and not one of them.
    fn concerns_all(&self) -> bool;
}
