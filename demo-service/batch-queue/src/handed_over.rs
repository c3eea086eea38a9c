//! A batch on its way to another instance, and its answers on their way back.

use crate::{Buyer, Candidate, DecisionOf, Worker};

/// A batch that is handed over to another instance. Each buyer is answered as soon as the other instance tells its decision.
/// Dropped, the outcomes of those that were not told are unknown.
pub struct HandedOver<C: Candidate> {
    unanswered: Vec<Option<Buyer<C>>>,
    undecided: Vec<Buyer<C>>,
}

impl<C: Candidate> HandedOver<C> {
    /// Takes the next batch of a worker, and notes that it is about to be sent. Returns `None` if nobody is to be handed over.
    ///
    /// A purchase makes one hop. Those that were handed over to this instance go back undecided: their sender asks again which
    /// instance owns the SKU.
    pub fn take(worker: &mut Worker<C>, sent: &C::Sent) -> Option<Self> {
        worker.go_elsewhere();
        // A part may have purchases of others, too.
        let mut batch = worker.take();
        batch.retain(|buyer| !buyer.request.is_handed() && buyer.note_sent(sent.clone()));
        if batch.is_empty() {
            worker.come_back();
            return None;
        }
        Some(Self { unanswered: batch.into_iter().map(Some).collect(), undecided: Vec::new() })
    }

    /// Returns the requests that are not answered yet, in the order of their arrival. At first these are all, by their index.
    pub fn requests(&self) -> impl Iterator<Item = &C> {
        self.unanswered.iter().flatten().map(|buyer| &buyer.request)
    }

    /// Takes what the other instance tells of the purchase with this index. `None`: it has not decided it, and will not.
    ///
    /// # Panics
    /// If no purchase of the batch has this index.
    pub fn tell(&mut self, index: usize, decision: Option<DecisionOf<C>>) {
        let Some(buyer) = self.unanswered[index].take() else { return };
        match decision {
            Some(decision) => buyer.answer(decision),
            None => {
                buyer.note_rollback();
                self.undecided.push(buyer);
            }
        }
    }

    /// Ends the batch: the other instance tells nothing more. `unknown` is the refusal of the buyers that were not told; `None` if
    /// nothing was decided for them. Puts the undecided back into the queue, and refuses those that are `late`. Returns whether
    /// there were any.
    pub fn end(mut self, worker: &mut Worker<C>, unknown: Option<C::Refusal>, late: &C::Refusal) -> bool {
        worker.come_back();
        for buyer in self.unanswered.into_iter().flatten() {
            match &unknown {
                Some(unknown) => buyer.answer(Err(unknown.clone())),
                None => self.undecided.push(buyer),
            }
        }
        let is_any_undecided = !self.undecided.is_empty();
        if is_any_undecided {
            worker.put_back(self.undecided, late);
        }
        is_any_undecided
    }
}
