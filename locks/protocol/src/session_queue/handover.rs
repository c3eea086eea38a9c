//! Handing over: a contender that releases gives its hold to its successor, before the server knows.
//!
//! A session that holds may choose which of its contenders has the lock, under two conditions. One contender has it at a time,
//! and no other session can be granted meanwhile. No other session can, as long as a node of this session stands ahead of theirs.
//!
//! So a contender that releases hands its hold over at once, if the contender with the next number belongs to the session and
//! waits for it. It deletes its own node in a transaction that fails if the successor's node is missing. If the transaction
//! fails, somebody deleted the node of the new holder. Then the node that was to be deleted is kept in its place, until no
//! contender of the [`Chain`] holds any more. If both nodes are deleted, the hold is lost.

use super::ask::{Ask, ContenderId, Failure};
use super::chain::Chain;
use super::contender::{LeavingPhase, Outcome, Phase, Successor};
use super::step::QueueStep;
use crate::names::Naming;

impl QueueStep<'_> {
    /// Hands the hold over. Returns `false` if the contender has no hold, or no successor in this session.
    pub(super) fn hand_over(&mut self, id: ContenderId) -> bool {
        let Phase::Holding { proof, chain } = self.contender(id).phase.clone() else { return false };
        let Some(next) = self.successor(id) else { return false };
        let chain = chain.unwrap_or(id);
        let successor = self.link(id, next, chain);
        // The deletion comes first, so that the successor's own deletion is sent later.
        self.start_to_leave(id, Outcome::Gone, false, Some(Box::new(successor)));
        let note = self.queue.chains.get(&chain).and_then(|chain| chain.note);
        let contender = self.contender(next);
        // Both nodes existed at the same time, so they are children of one node.
        contender.parent = contender.parent.or(note.map(|(parent, _)| parent));
        contender.note_version = note.map(|(_, version)| version);
        self.grant(next, proof.handed_over(id), Some(chain));
        true
    }

    /// Returns the successor, if it belongs to this session and waits for this contender.
    fn successor(&mut self, id: ContenderId) -> Option<ContenderId> {
        let number_behind = self.contender(id).node().sequence.after();
        let next = self.local(id).member(number_behind)?;
        // In this phase, the server has shown the contender that its node stood directly behind this one.
        (self.contender(next).phase == Phase::Watching { behind: Some(id) }).then_some(next)
    }

    /// Records in the chain that the hold goes to the next contender.
    fn link(&mut self, id: ContenderId, next: ContenderId, chain: ContenderId) -> Successor {
        let note = self.contender(id).node().note;
        let made = self.contender(next).node().made.clone();
        let links = self.queue.chains.entry(chain).or_insert(Chain { holder: next, kept: Vec::new(), note: None });
        links.holder = next;
        if self.queue.contenders[&id].wish.naming == Naming::Numbered {
            links.note = note.map(|note| (note.parent, note.version));
        }
        Successor { id: next, made, chain }
    }

    /// Ends the chain, and deletes the nodes that were kept for it.
    pub(super) fn end_chain(&mut self, chain: ContenderId) {
        let kept = self.queue.chains.remove(&chain).map(|chain| chain.kept);
        for id in kept.into_iter().flatten() {
            // Otherwise the deletion would depend once more on the node of the successor, which is missing.
            self.leaving(id).successor = None;
            self.clean_up(id);
        }
    }

    /// Handles a deletion that failed because the successor's node is missing. While the chain holds, the own node is kept.
    pub(super) fn on_successor_missing(&mut self, id: ContenderId, chain: ContenderId) {
        let Some(links) = self.queue.chains.get_mut(&chain) else {
            // The chain has ended: the successor has released or given up, so this node is not needed.
            self.leaving(id).successor = None;
            return self.send_delete(id);
        };
        links.kept.push(id);
        self.contender(id).node().note = None;
        self.leaving(id).phase = LeavingPhase::Kept;
        self.remove_member(id);
        self.ask(Ask::Tell(id));
    }

    /// Asks whether the successor's node exists, because the own node is missing.
    pub(super) fn ask_for_successor(&mut self, id: ContenderId, name: String) {
        self.leaving(id).phase = LeavingPhase::AskingForSuccessor;
        self.ask(Ask::Identify(id, name));
    }

    /// Handles the answer to whether the successor's node exists, after this contender's node was found missing. If both are
    /// missing and the successor still holds, its hold is lost. If the successor holds no more, it deleted its node itself.
    pub(super) fn check_successor(&mut self, id: ContenderId, czxid: Result<Option<i64>, Failure>) {
        let Some(successor) = self.leaving(id).successor.clone() else { return };
        let Successor { id: next, made, chain } = *successor;
        // An error is no evidence that the node is missing.
        let is_gone = czxid.is_ok_and(|czxid| czxid != Some(made.czxid));
        if is_gone && self.queue.chains.get(&chain).is_some_and(|chain| chain.holder == next) {
            // The name may belong to another node by now.
            self.contender(next).node().is_doubtful = true;
            self.ask(Ask::Lose(next));
        }
    }
}
