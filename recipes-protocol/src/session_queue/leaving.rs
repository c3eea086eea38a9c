//! How a contender lets go: it deletes its node, however often replies are lost, and passes its hold on to the contender of the
//! session that is directly behind.
//!
//! A session that holds may choose which of its contenders has the lock, if only one at a time has it and nobody else can be
//! granted meanwhile. Nobody else can as long as a node of the session stands in the queue before theirs. So the contender that
//! releases passes the hold on at once to the one whose number comes next, and deletes its own node in a transaction that fails
//! if that one's node is missing. If it fails, somebody deleted the node of the one that holds now. Then the node that was to go
//! is kept in its stead, until nobody of the [`Chain`] holds any more. If both nodes were deleted, the hold is lost.

use super::ask::{Ask, Condition, Failure, NotDeleted, Pause};
use super::contender::{Claim, Leaving, LeavingStage, Outcome, Phase};
use super::{ContenderId, Step};
use crate::names::{Mode, Naming};
use crate::number_proof::Grant;

/// Holds of one session that followed each other without a gap.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(super) struct Chain {
    /// Who holds; nobody once the chain has ended.
    holder: Option<ContenderId>,
    /// Whose nodes stand for the hold, beside that of the holder.
    kept: Vec<ContenderId>,
}

impl Step<'_> {
    /// Fails. What may be there of the contender is deleted.
    pub(super) fn fail(&mut self, id: ContenderId, outcome: Outcome) {
        self.start_to_leave(id, outcome, true);
        self.ask(Ask::Tell(id));
    }

    /// Leaves because somebody is in the way.
    pub(super) fn leave_for(&mut self, id: ContenderId, outcome: Outcome) {
        self.start_to_leave(id, outcome, false);
    }

    /// Gives up what the contender wants, or lets go of what it has.
    pub(super) fn leave(&mut self, id: ContenderId, is_held: bool) {
        if matches!(self.contender(id).phase, Phase::Leaving(_) | Phase::Over(_)) {
            return;
        }
        self.start_to_leave(id, Outcome::Gone, false);
        if is_held {
            self.pass_on(id);
        }
    }

    fn start_to_leave(&mut self, id: ContenderId, outcome: Outcome, is_failure: bool) {
        let was = self.contender(id).phase.clone();
        let parting = self.parting(id, &was);
        let mut leaving = Leaving {
            outcome,
            stage: LeavingStage::Deleting,
            is_failure,
            is_reply_lost: false,
            is_refused: false,
            successor: None,
            parting,
        };
        match was {
            Phase::Grouping => self.local(id).leave_grouping(id),
            Phase::Creating(creating) if creating.made.is_none() && !is_failure => {
                leaving.stage = LeavingStage::AwaitingCreate;
            }
            Phase::Creating(_) if matches!(self.contender(id).claim, Claim::Unnamed) => {}
            Phase::Finding(finding) => leaving.stage = LeavingStage::Finding(finding),
            Phase::Holding { chain: Some(chain), .. } => self.end_chain(chain, id),
            _ => {}
        }
        let stage = leaving.stage.clone();
        self.enter_phase(id, Phase::Leaving(leaving));
        match (stage, &self.contender(id).claim) {
            (LeavingStage::AwaitingCreate | LeavingStage::Finding(_), _) => {}
            (_, Claim::Nothing) => self.end(id, outcome),
            (_, Claim::Unnamed) => self.find_again(id),
            (_, Claim::Node(_)) => {}
        }
    }

    fn parting(&mut self, id: ContenderId, phase: &Phase) -> Option<Grant> {
        let contender = self.contender(id);
        let is_first = matches!(phase, Phase::Holding { passed_by: None, .. });
        let is_proof = is_first && contender.is_proved_by_numbers() && contender.wish.mode == Mode::Exclusive;
        let parent = contender.parent.filter(|_| is_proof)?;
        Some(Grant { incarnation: parent.0, sequence: contender.node().sequence })
    }
}
