//! Leaving the queue: a contender deletes its node, however often replies are lost. It may hand its hold over to its successor.
//!
//! A session that holds may choose which of its contenders has the lock, under two conditions. One contender has it at a time,
//! and no other session can be granted meanwhile. No other session can, as long as a node of this session stands ahead of theirs.
//!
//! So a contender that releases hands its hold over at once, if the contender with the next number belongs to the session and
//! waits for it. It deletes its own node in a transaction that fails if the successor's node is missing. If the transaction
//! fails, somebody deleted the node of the new holder. Then the node that was to be deleted is kept in its place, until no
//! contender of the [`Chain`] holds any more. If both nodes are deleted, the hold is lost.

use super::ask::{Ask, Condition, ContenderId, Failure, FirstLook, NotDeleted, Pause};
use super::contender::{Claim, Leaving, LeavingStage, Node, Outcome, Phase, Successor};
use super::grant_proof::GrantProof;
use super::handover::Chain;
use super::step::Step;
use crate::names::Naming;

impl Step<'_> {
    /// Lets the contender give up or release. `hands_over`: its hold may be handed over to the successor, if that belongs to the
    /// session.
    pub(super) fn leave(&mut self, id: ContenderId, hands_over: bool) {
        if matches!(self.contender(id).phase, Phase::Leaving(_) | Phase::Over(_)) {
            return;
        }
        let successor = if hands_over { self.successor(id) } else { None };
        self.start_to_leave(id, Outcome::Gone, false, successor);
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

    fn start_to_leave(&mut self, id: ContenderId, outcome: Outcome, is_failure: bool, next: Option<ContenderId>) {
        let was = self.contender(id).phase.clone();
        let mut stage = LeavingStage::Deleting;
        match &was {
            Phase::Batching => self.local(id).batch.remove(id),
            Phase::Creating(_) if !is_failure => stage = LeavingStage::AwaitingCreate,
            Phase::Holding { proof, .. } if proof.handed_over_by().is_none() => {
                let (parent, sequence) = (self.contender(id).parent, self.contender(id).node().sequence);
                if let Some(parent) = parent {
                    self.local(id).released(parent, sequence);
                }
            }
            Phase::Finding(finding) if !is_failure => stage = LeavingStage::Finding(finding.clone()),
            _ => {}
        }
        let successor = next.map(|next| Box::new(self.link_to(id, next, &was)));
        let leaving = Leaving { outcome, stage, is_failure, is_reply_lost: false, is_refused: false, successor };
        let is_under_way = leaving.stage != LeavingStage::Deleting;
        self.enter_phase(id, Phase::Leaving(leaving));
        if !is_under_way {
            self.clean_up(id);
        }
        match (next, was) {
            // After the deletion, so that the successor's own deletion is sent later.
            (Some(next), Phase::Holding { proof, .. }) => self.hold_next(id, next, proof),
            (None, Phase::Holding { chain: Some(chain), .. }) => self.end_chain(chain),
            _ => {}
        }
    }

    /// Returns the successor, if it belongs to this session and waits for this contender.
    fn successor(&mut self, id: ContenderId) -> Option<ContenderId> {
        if !matches!(self.contender(id).phase, Phase::Holding { .. }) {
            return None;
        }
        let number_behind = self.contender(id).node().sequence.after();
        let next = self.local(id).member(number_behind)?;
        (self.contender(next).phase == Phase::Watching { behind: Some(id) }).then_some(next)
    }

    /// Records in the chain that the hold goes to the next contender.
    fn link_to(&mut self, id: ContenderId, next: ContenderId, was: &Phase) -> Successor {
        let chain = match was {
            Phase::Holding { chain: Some(chain), .. } => *chain,
            _ => id,
        };
        let node = self.contender(id).node().clone();
        let made = self.contender(next).node().made.clone();
        let links = self.queue.chains.entry(chain).or_insert(Chain { holder: next, kept: Vec::new(), note: None });
        links.holder = next;
        if self.queue.contenders[&id].wish.naming == Naming::Numbered {
            links.note = node.note.map(|note| (note.parent, note.version));
        }
        Successor { id: next, made, chain }
    }

    /// Grants the hold to the successor.
    fn hold_next(&mut self, id: ContenderId, next: ContenderId, proof: GrantProof) {
        let Phase::Leaving(Leaving { successor: Some(successor), .. }) = &self.contender(id).phase else {
            unreachable!("BUG: a hold is handed over to no contender")
        };
        let chain = successor.chain;
        let note = self.queue.chains.get(&chain).and_then(|chain| chain.note);
        let contender = self.contender(next);
        // Both nodes existed at the same time, so they are children of one node.
        contender.parent = contender.parent.or(note.map(|(parent, _)| parent));
        contender.note_version = note.map(|(_, version)| version);
        self.hold(next, proof.handed_over(id), Some(chain));
    }

    /// Ends the chain, and deletes the nodes that were kept for it.
    fn end_chain(&mut self, chain: ContenderId) {
        let kept = self.queue.chains.remove(&chain).map(|chain| chain.kept);
        for id in kept.into_iter().flatten() {
            self.leaving(id).successor = None;
            self.clean_up(id);
        }
    }

    fn leaving(&mut self, id: ContenderId) -> &mut Leaving {
        match &mut self.contender(id).phase {
            Phase::Leaving(leaving) => leaving,
            phase => unreachable!("BUG: {phase:?} does not leave"),
        }
    }

    /// Sends the next request to delete what the contender may have on the server.
    fn clean_up(&mut self, id: ContenderId) {
        match self.contender(id).claim {
            Claim::Nothing => self.end_as(id, Outcome::NothingThere),
            Claim::Unnamed => self.find(id),
            Claim::Node(_) => self.delete(id),
        }
    }

    /// Deletes the node, if it still belongs to the contender.
    pub(super) fn delete(&mut self, id: ContenderId) {
        let naming = self.contender(id).wish.naming;
        let node = self.contender(id).node();
        // A numbered name may belong to another node by now. Directly after the grant it does not.
        if naming == Naming::Numbered && node.is_doubtful {
            let name = node.made.name.clone();
            self.leaving(id).stage = LeavingStage::Asking;
            return self.ask(Ask::Identify(id, name));
        }
        self.send_delete(id);
    }

    fn send_delete(&mut self, id: ContenderId) {
        let Node { note, is_doubtful, .. } = self.contender(id).node();
        *is_doubtful = true;
        let note = *note;
        let leaving = self.leaving(id);
        leaving.stage = LeavingStage::Deleting;
        let condition = match (&leaving.successor, note) {
            (Some(successor), _) => Condition::Beside(successor.made.name.clone()),
            (None, Some(note)) => Condition::Noted(note),
            (None, None) => Condition::None,
        };
        self.ask(Ask::Delete(id, condition));
    }

    pub(super) fn on_identified(&mut self, id: ContenderId, czxid: Result<Option<i64>, Failure>) {
        if self.finding(id).is_some() {
            return self.on_candidate(id, czxid);
        }
        let Phase::Leaving(Leaving { stage, .. }) = self.contender(id).phase.clone() else { return };
        match (stage, czxid) {
            (LeavingStage::Asking, Ok(czxid)) => {
                let is_ours = czxid == Some(self.contender(id).node().made.czxid);
                if is_ours { self.send_delete(id) } else { self.node_is_gone(id) }
            }
            (LeavingStage::Asking, Err(_)) => self.pause_refused(id),
            (LeavingStage::AskingForSuccessor, czxid) => {
                self.check_successor(id, czxid);
                self.end_as_gone(id);
            }
            _ => {}
        }
    }

    /// Handles the answer to whether the successor's node exists, after this contender's node was found missing. If both are
    /// missing and the successor still holds, its hold is lost. If the successor holds no more, it deleted its node itself.
    fn check_successor(&mut self, id: ContenderId, czxid: Result<Option<i64>, Failure>) {
        let Some(successor) = self.leaving(id).successor.clone() else { return };
        let Successor { id: next, made, chain } = *successor;
        let is_gone = czxid.is_ok_and(|czxid| czxid != Some(made.czxid));
        if is_gone && self.queue.chains.get(&chain).is_some_and(|chain| chain.holder == next) {
            // The name may belong to another node by now.
            self.contender(next).node().is_doubtful = true;
            self.ask(Ask::Lose(next));
        }
    }

    pub(super) fn on_deleted(&mut self, id: ContenderId, deleted: Result<(), NotDeleted>) {
        let Phase::Leaving(leaving) = &mut self.contender(id).phase else { return };
        if leaving.stage != LeavingStage::Deleting {
            return;
        }
        match deleted {
            Ok(()) => self.end_as(id, Outcome::Gone),
            Err(NotDeleted::NoNode) => self.node_is_gone(id),
            Err(NotDeleted::Unmet) => self.on_unmet(id),
            Err(NotDeleted::Failed(Failure::ReplyLost)) => {
                leaving.is_reply_lost = true;
                self.pause(id, Pause::ReplyLost);
            }
            Err(NotDeleted::Failed(Failure::Throttled)) => self.pause(id, Pause::Throttled),
            Err(NotDeleted::Failed(Failure::Refused { .. })) => self.pause_refused(id),
        }
    }

    /// Handles a deletion whose condition was not met: the successor's node is missing, or the note could not be written.
    fn on_unmet(&mut self, id: ContenderId) {
        let chain = self.leaving(id).successor.as_ref().map(|successor| successor.chain);
        // Without a note the next waiter lists the queue.
        match chain {
            Some(chain) if self.queue.chains.contains_key(&chain) => {
                self.contender(id).node().note = None;
                self.leaving(id).stage = LeavingStage::Kept;
                self.remove_member(id);
                if let Some(chain) = self.queue.chains.get_mut(&chain) {
                    chain.kept.push(id);
                }
                self.ask(Ask::Tell(id));
            }
            // The chain has ended: the successor has released or given up, so this node is not needed.
            Some(_) => {
                self.leaving(id).successor = None;
                self.send_delete(id);
            }
            None => {
                self.contender(id).node().note = None;
                self.send_delete(id);
            }
        }
    }

    fn node_is_gone(&mut self, id: ContenderId) {
        match self.leaving(id).successor.clone() {
            Some(successor) => {
                self.leaving(id).stage = LeavingStage::AskingForSuccessor;
                self.ask(Ask::Identify(id, successor.made.name));
            }
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
        self.leaving(id).stage = LeavingStage::Pausing(pause);
        self.ask(Ask::Pause(id, pause));
    }

    /// Ends the contender: nothing is left to do.
    pub(super) fn end(&mut self, id: ContenderId, outcome: Outcome) {
        self.remove_member(id);
        if let Claim::Node(node) = &self.contender(id).claim {
            let czxid = node.made.czxid;
            self.queue.owners.release(czxid);
        }
        self.enter_phase(id, Phase::Over(outcome));
        self.ask(Ask::Tell(id));
    }

    fn remove_member(&mut self, id: ContenderId) {
        if let Claim::Node(node) = &self.contender(id).claim {
            let sequence = node.sequence;
            self.local(id).remove_member(sequence, id);
        }
    }

    pub(super) fn on_woke(&mut self, id: ContenderId, pause: Pause) {
        match (&mut self.contender(id).phase, pause) {
            (Phase::Batching, Pause::Join) => {
                let joining = self.local(id).batch.take();
                joining.into_iter().for_each(|id| self.join(id));
            }
            (Phase::Finding(_), Pause::ReplyLost) => self.find(id),
            (Phase::Throttled(creating), Pause::Throttled) => {
                let creating = *creating;
                self.create(id, FirstLook::None, creating);
            }
            (Phase::Leaving(leaving), pause) => match leaving.stage {
                LeavingStage::Finding(_) if pause == Pause::ReplyLost => self.find(id),
                LeavingStage::Pausing(reason) if reason == pause => {
                    leaving.is_refused = false;
                    self.clean_up(id);
                }
                _ => {}
            },
            _ => {}
        }
    }
}
