//! The buyers of a batch, and the wait of each for its decision.

use std::sync::Arc;

use tokio::sync::oneshot;
use tokio::sync::oneshot::error::RecvError;

use crate::{Candidate, Commit, DecisionOf, Queues, Refusal};

/// A buyer in a queue or in a batch.
pub struct Buyer<C: Candidate> {
    /// Its number in the order of arrival.
    pub(crate) number: u64,
    /// What it asks for.
    pub request: C,
    pub(crate) answer: oneshot::Sender<DecisionOf<C>>,
}

/// The wait of a purchase for its decision. Dropped, the buyer leaves the queue, if its batch was not taken.
pub struct Pending<C: Candidate> {
    pub(crate) queues: Arc<Queues<C>>,
    pub(crate) sku: C::Sku,
    pub(crate) number: u64,
    /// When the buyer gives up waiting.
    pub until: C::Instant,
    pub(crate) commit: Commit<C::Sent>,
    pub(crate) decided: oneshot::Receiver<DecisionOf<C>>,
}

/// How the wait of a purchase ended.
pub enum WaitEnd<C: Candidate, L> {
    /// With its decision.
    Decided(DecisionOf<C>),
    /// The buyer has left the queue for this reason. Nothing is decided, and nothing will be.
    Left(L),
    /// The buyer waits no longer, although the worker has taken it. This was sent by then. If it is `None`, nothing will be sent.
    GaveUp(Option<C::Sent>),
    /// Nobody decides the purchase: it goes back to the instance that has handed it over, or the worker has panicked. This was sent by
    /// then. If it is `None`, nothing was sent, and nothing will be.
    Undecided(Option<C::Sent>),
}

impl<C: Candidate> Buyer<C> {
    /// Returns whether the buyer still waits for the answer.
    pub(crate) fn is_waiting(&self) -> bool {
        !self.answer.is_closed()
    }

    /// Notes what is about to be sent. Returns `false` if the buyer has given up: then it must not be sent.
    #[must_use]
    pub(crate) fn note_sent(&self, what: C::Sent) -> bool {
        self.request.commit().note_if(what, || self.is_waiting())
    }

    /// Notes that nothing was committed, and that nothing will be.
    pub(crate) fn note_rollback(&self) {
        self.request.commit().forget();
    }

    /// Answers the buyer, who may have hung up.
    pub(crate) fn answer(self, decision: DecisionOf<C>) {
        self.answer.send(decision).ok();
    }
}

impl<C: Candidate> Pending<C> {
    /// Waits for the decision. The buyer leaves the queue when `leaving` ends, unless the worker has taken it by then. After that,
    /// the buyer gives up when `deadline` ends.
    ///
    /// # Cancel safety
    /// Dropped, the buyer leaves the queue, if its batch was not taken.
    pub async fn wait<L>(
        mut self,
        leaving: impl Future<Output = L>,
        deadline: impl Future<Output = ()>,
    ) -> WaitEnd<C, L> {
        tokio::select! {
            // A decision that has come counts, also at the deadline.
            biased;
            decision = &mut self.decided => return self.end(decision),
            reason = leaving => {
                if self.leave() {
                    return WaitEnd::Left(reason);
                }
            }
        }
        tokio::select! {
            biased;
            decision = &mut self.decided => self.end(decision),
            () = deadline => self.give_up(),
        }
    }

    fn end<L>(&self, decision: Result<DecisionOf<C>, RecvError>) -> WaitEnd<C, L> {
        decision.map_or_else(|_| WaitEnd::Undecided(self.commit.sent()), WaitEnd::Decided)
    }

    /// Leaves the queue. Returns `false` if the worker has taken the batch.
    pub(crate) fn leave(&self) -> bool {
        self.queues.leave(self.sku, self.number)
    }

    /// Waits no longer. A decision that has come by then counts. The order counts, too: a worker that notes what it sends finds that
    /// nobody waits, or has noted it before the look at the commit.
    fn give_up<L>(&mut self) -> WaitEnd<C, L> {
        self.decided.close();
        match self.decided.try_recv() {
            Ok(decision) => WaitEnd::Decided(decision),
            Err(_) => WaitEnd::GaveUp(self.commit.sent()),
        }
    }
}

impl<C: Candidate> Drop for Pending<C> {
    fn drop(&mut self) {
        self.leave();
    }
}

/// Refuses buyers. If the reason lies with this instance, purchases that were handed over go back undecided: another instance may own
/// their SKU next.
pub(crate) fn refuse<C: Candidate>(batch: Vec<Buyer<C>>, refusal: &C::Refusal) {
    let goes_back = |buyer: &Buyer<C>| buyer.request.is_handed() && refusal.lies_here();
    for buyer in batch.into_iter().filter(|buyer| !goes_back(buyer)) {
        buyer.answer(Err(refusal.clone()));
    }
}
