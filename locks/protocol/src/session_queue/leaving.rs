//! Leaving the queue: a contender deletes its node, however often replies are lost.

use super::ask::{Ask, ContenderId, DeleteCondition, Failure, NotDeleted, Pause};
use super::contender::{Leaving, LeavingPhase, NodeClaim, Outcome, OwnNode, Phase, Successor};
use super::step::QueueStep;
use crate::names::Naming;

impl QueueStep<'_> {
    /// Lets the contender give up or release. `hands_over`: its hold may be handed over to the successor, if that belongs to the
    /// session. `is_node_gone`: its node no longer exists.
    pub(super) fn leave(&mut self, id: ContenderId, hands_over: bool, is_node_gone: bool) {
        if matches!(self.contender(id).phase, Phase::Leaving(_) | Phase::Over(_)) {
            return;
        }
        if let (NodeClaim::Node(node), true) = (&mut self.contender(id).claim, is_node_gone) {
            // Another node may have got the name, so the deletion asks first.
            node.is_doubtful = true;
        }
        if !(hands_over && self.hand_over(id)) {
            self.start_to_leave(id, Outcome::Gone, false, None);
        }
    }

    /// Ends the contender with a failure. If it may have a node, the node is deleted.
    pub(super) fn fail(&mut self, id: ContenderId, outcome: Outcome) {
        self.start_to_leave(id, outcome, true, None);
        self.ask(Ask::Tell(id));
    }

    /// Lets a `try` leave, because another contender is ahead.
    pub(super) fn leave_blocked(&mut self, id: ContenderId) {
        self.start_to_leave(id, Outcome::InTheWay, false, None);
    }

    /// Starts to delete what the contender may have. `successor`: the contender that gets its hold.
    pub(super) fn start_to_leave(
        &mut self,
        id: ContenderId,
        outcome: Outcome,
        is_failure: bool,
        successor: Option<Box<Successor>>,
    ) {
        let was = self.contender(id).phase.clone();
        let mut phase = LeavingPhase::Deleting;
        match &was {
            Phase::Batching => self.local(id).batch.remove(id),
            // A failure follows from the answer to the `create`, so no other answer is awaited.
            Phase::Creating(_) if !is_failure => phase = LeavingPhase::AwaitingCreate,
            // Only grants by the server were noted for number proofs. After a hand-over this release is noted, too: the
            // next number is the successor's, so it proves nothing to a newcomer.
            Phase::Holding { proof, .. } if proof.handed_over_by().is_none() => {
                let parent = self.contender(id).parent;
                let sequence = self.contender(id).node().sequence;
                if let Some(parent) = parent {
                    self.local(id).released(parent, sequence);
                }
            }
            Phase::Finding(finding) if !is_failure => phase = LeavingPhase::Finding(finding.clone()),
            _ => {}
        }
        let hands_over = successor.is_some();
        let leaving = Leaving { outcome, phase, is_failure, is_reply_lost: false, is_refused: false, successor };
        let is_under_way = leaving.phase != LeavingPhase::Deleting;
        self.enter_phase(id, Phase::Leaving(leaving));
        if !is_under_way {
            self.clean_up(id);
        }
        if let Phase::Holding { chain: Some(chain), .. } = was
            && !hands_over
        {
            self.end_chain(chain);
        }
    }

    pub(super) fn leaving(&mut self, id: ContenderId) -> &mut Leaving {
        match &mut self.contender(id).phase {
            Phase::Leaving(leaving) => leaving,
            phase => unreachable!("BUG: {phase:?} does not leave"),
        }
    }

    /// Sends the next request to delete what the contender may have on the server.
    pub(super) fn clean_up(&mut self, id: ContenderId) {
        match self.contender(id).claim {
            NodeClaim::Nothing => self.end_as(id, Outcome::NothingThere),
            NodeClaim::Unnamed => self.find(id),
            NodeClaim::Node(_) => self.delete(id),
        }
    }

    /// Deletes the node, if it still belongs to the contender.
    pub(super) fn delete(&mut self, id: ContenderId) {
        let naming = self.contender(id).wish.naming;
        let node = self.contender(id).node();
        // A numbered name may belong to another node by now. Directly after the grant it does not.
        if naming == Naming::Numbered && node.is_doubtful {
            let name = node.made.name.clone();
            self.leaving(id).phase = LeavingPhase::Asking;
            return self.ask(Ask::Identify(id, name));
        }
        self.send_delete(id);
    }

    pub(super) fn send_delete(&mut self, id: ContenderId) {
        let OwnNode { note, is_doubtful, .. } = self.contender(id).node();
        // If the reply is lost, the node may be gone and its name another node's. A repeated deletion asks first.
        *is_doubtful = true;
        let note = *note;
        let leaving = self.leaving(id);
        leaving.phase = LeavingPhase::Deleting;
        let condition = match (&leaving.successor, note) {
            (Some(successor), _) => DeleteCondition::Beside(successor.made.name.clone()),
            (None, Some(note)) => DeleteCondition::Noted(note),
            (None, None) => DeleteCondition::None,
        };
        self.ask(Ask::Delete(id, condition));
    }

    pub(super) fn on_identified(&mut self, id: ContenderId, czxid: Result<Option<i64>, Failure>) {
        if self.finding(id).is_some() {
            return self.on_candidate(id, czxid);
        }
        let Phase::Leaving(Leaving { phase, .. }) = self.contender(id).phase.clone() else { return };
        match (phase, czxid) {
            (LeavingPhase::Asking, Ok(czxid)) => {
                let is_ours = czxid == Some(self.contender(id).node().made.czxid);
                if is_ours { self.send_delete(id) } else { self.node_is_gone(id) }
            }
            (LeavingPhase::Asking, Err(_)) => self.pause_refused(id),
            (LeavingPhase::AskingForSuccessor, czxid) => {
                self.check_successor(id, czxid);
                self.end_as_gone(id);
            }
            _ => {}
        }
    }

    pub(super) fn on_deleted(&mut self, id: ContenderId, deleted: Result<(), NotDeleted>) {
        let Phase::Leaving(leaving) = &mut self.contender(id).phase else { return };
        if leaving.phase != LeavingPhase::Deleting {
            return;
        }
        match deleted {
            Ok(()) => self.end_as(id, Outcome::Gone),
            Err(NotDeleted::NoNode) => self.node_is_gone(id),
            Err(NotDeleted::Unmet) => match leaving.successor.as_ref().map(|successor| successor.chain) {
                Some(chain) => self.on_successor_missing(id, chain),
                // Without a note the next waiter lists the queue.
                None => {
                    self.contender(id).node().note = None;
                    self.send_delete(id);
                }
            },
            Err(NotDeleted::Failed(Failure::ReplyLost)) => {
                leaving.is_reply_lost = true;
                self.pause(id, Pause::ReplyLost);
            }
            Err(NotDeleted::Failed(Failure::Throttled)) => self.pause(id, Pause::Throttled),
            Err(NotDeleted::Failed(Failure::Refused { .. })) => self.pause_refused(id),
        }
    }

    fn node_is_gone(&mut self, id: ContenderId) {
        match self.leaving(id).successor.clone() {
            Some(successor) => self.ask_for_successor(id, successor.made.name),
            None => self.end_as_gone(id),
        }
    }

    fn end_as_gone(&mut self, id: ContenderId) {
        // The request whose reply was lost may have deleted it.
        let is_reply_lost = self.leaving(id).is_reply_lost;
        self.end_as(id, if is_reply_lost { Outcome::Gone } else { Outcome::NothingThere });
    }

    /// Ends with this outcome, unless the contender leaves for a reason that its user is told instead.
    fn end_as(&mut self, id: ContenderId, outcome: Outcome) {
        let told = self.leaving(id).outcome;
        self.end(id, if told == Outcome::Gone { outcome } else { told });
    }

    pub(super) fn pause_refused(&mut self, id: ContenderId) {
        self.leaving(id).is_refused = true;
        self.pause(id, Pause::Refused);
        self.ask(Ask::Tell(id));
    }

    fn pause(&mut self, id: ContenderId, pause: Pause) {
        self.leaving(id).phase = LeavingPhase::Pausing(pause);
        self.ask(Ask::Pause(id, pause));
    }

    /// Ends the contender: nothing is left to do.
    pub(super) fn end(&mut self, id: ContenderId, outcome: Outcome) {
        self.remove_member(id);
        if let NodeClaim::Node(node) = &self.contender(id).claim {
            let czxid = node.made.czxid;
            self.queue.taken_nodes.release(czxid);
        }
        self.enter_phase(id, Phase::Over(outcome));
        self.ask(Ask::Tell(id));
    }

    pub(super) fn remove_member(&mut self, id: ContenderId) {
        if let NodeClaim::Node(node) = &self.contender(id).claim {
            let sequence = node.sequence;
            self.local(id).remove_member(sequence, id);
        }
    }

    /// Goes on after a pause of a contender that leaves.
    pub(super) fn on_leaving_woke(&mut self, id: ContenderId, pause: Pause) {
        let leaving = self.leaving(id);
        match leaving.phase {
            // The pause after the lost reply began before the contender left.
            LeavingPhase::Finding(_) if pause == Pause::ReplyLost => self.find(id),
            LeavingPhase::Pausing(reason) if reason == pause => {
                leaving.is_refused = false;
                self.clean_up(id);
            }
            _ => {}
        }
    }
}
