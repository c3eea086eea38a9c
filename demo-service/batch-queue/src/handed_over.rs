//! A batch on its way to another instance, and its answers on their way back.

use crate::worker::Away;
use crate::{Buyer, Candidate, DecisionOf, Worker};

/// A batch that is handed over to another instance. Each buyer is answered as soon as the other instance tells its decision.
/// Dropped, the outcomes of the buyers that were not told are unknown.
pub struct HandedOver<C: Candidate> {
    _away: Away<C>,
    unanswered: Vec<Option<Buyer<C>>>,
    undecided: Vec<Buyer<C>>,
}

impl<C: Candidate> HandedOver<C> {
    /// Takes the next batch of a worker that is away, and notes that it is about to be sent. Returns `None` if nobody is to be handed
    /// over. A purchase makes one hop: those of other instances went back when the worker went away.
    pub fn take(worker: &mut Worker<C>, away: Away<C>, sent: &C::Sent) -> Option<Self> {
        let mut batch = worker.take();
        batch.retain(|buyer| buyer.note_sent(sent.clone()));
        let unanswered: Vec<_> = batch.into_iter().map(Some).collect();
        (!unanswered.is_empty()).then_some(Self { _away: away, unanswered, undecided: Vec::new() })
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
    /// nothing was decided for them. Puts the undecided back, and refuses those whose deadline has passed as `late`. Returns whether
    /// any buyer is back.
    pub fn end(mut self, worker: &mut Worker<C>, unknown: Option<C::Refusal>, late: &C::Refusal) -> bool {
        for buyer in self.unanswered.into_iter().flatten() {
            match &unknown {
                Some(unknown) => buyer.answer(Err(unknown.clone())),
                None => self.undecided.push(buyer),
            }
        }
        worker.put_back(self.undecided, late)
    }
}
