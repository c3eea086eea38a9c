//! Waiting in the queue: a contender looks at the queue, watches its predecessor, and looks again, until a proof shows that no
//! contender is ahead.

use super::ask::{Ask, ContenderId, Failure, QueueListing, Warning};
use super::contender::{Contender, NodeClaim, Outcome, Phase, WishKind};
use super::grant_proof::GrantProof;
use super::step::QueueStep;
use crate::names::{Mode, Naming, Sequence};
use crate::number_proof::Expected;
use crate::queue::Predecessor;
use crate::release_note::{Note, ParentState};
use crate::stat::ParentCzxid;

impl QueueStep<'_> {
    /// Lets a contender that has a place wait for the grant.
    pub(super) fn on_waits(&mut self, id: ContenderId) {
        if self.contender(id).phase == Phase::Placed {
            self.look(id);
        }
    }

    /// Goes on to the grant if the number of the contender's node proves that no contender is ahead. Otherwise looks at the queue.
    pub(super) fn judge_number(&mut self, id: ContenderId, expected: Expected) {
        let sequence = self.contender(id).node().sequence;
        match self.local(id).proof_by_number(expected, sequence) {
            Some(proof) => {
                self.note_parent(id, expected.parent());
                self.prove(id, proof);
            }
            None => self.look(id),
        }
    }

    /// Looks at the queue by the cheaper request: the note, if the lock has notes, or else a listing.
    pub(super) fn look(&mut self, id: ContenderId) {
        self.enter_phase(id, Phase::Looking);
        let reads_note = self.contender(id).wish.naming == Naming::Numbered;
        self.ask(if reads_note { Ask::ReadNote(id) } else { Ask::List(id) });
    }

    fn list(&mut self, id: ContenderId) {
        self.enter_phase(id, Phase::Looking);
        self.ask(Ask::List(id));
    }

    pub(super) fn on_listed(&mut self, id: ContenderId, answer: Result<Option<QueueListing>, Failure>) {
        match (self.contender(id).phase.clone(), answer) {
            (Phase::Trying | Phase::Looking, Err(_)) => self.fail(id, Outcome::Refused),
            (Phase::Trying, Ok(listed)) => {
                self.report_foreign(listed.as_ref());
                if listed.is_none_or(|listed| listed.admits) {
                    // Otherwise `join` would leave out the look, and the `try` would need another round trip.
                    self.local(id).is_busy = false;
                    self.join(id);
                } else {
                    self.end(id, Outcome::InTheWay);
                }
            }
            (Phase::Looking, Ok(listed)) => self.see_listed(id, listed),
            _ => {}
        }
    }

    fn report_foreign(&mut self, listed: Option<&QueueListing>) {
        if let Some(child) = listed.and_then(|listed| listed.foreign.clone()) {
            self.ask(Ask::Warn(Warning::ForeignChild(child)));
        }
    }

    /// Handles a listing that was made after the node was created.
    pub(super) fn see_listed(&mut self, id: ContenderId, listed: Option<QueueListing>) {
        self.report_foreign(listed.as_ref());
        let own = self.contender(id).node().made.czxid;
        let proof = listed.as_ref().and_then(|listed| GrantProof::by_listing(listed, own));
        let (Some(listed), Some(proof)) = (listed, proof) else { return self.fail(id, Outcome::NodeDeleted) };
        self.note_parent(id, listed.parent);
        match (self.contender(id).wish.kind.clone(), proof) {
            (WishKind::Beside(writer), Ok(proof)) if listed.has_beside => {
                let held = self.proof_of_holder(writer);
                match held.and_then(|held| held.shared(writer, &listed, own)) {
                    Some(shared) => self.grant(id, shared, None),
                    // The writer has released meanwhile. The contender's own node has the same place in the queue.
                    None => self.prove(id, proof),
                }
            }
            // Somebody deleted the writer's node, so another contender may hold by now.
            (WishKind::Beside(_), _) => self.fail(id, Outcome::NodeDeleted),
            (WishKind::Try, Err(_)) => self.leave_blocked(id),
            (WishKind::Try | WishKind::Wait | WishKind::Place, proof) => {
                if self.contender(id).wish.naming == Naming::Protected {
                    self.local(id).note_look(proof.is_err());
                }
                match proof {
                    Ok(proof) => self.prove(id, proof),
                    Err(predecessor) => self.watch(id, predecessor),
                }
            }
        }
    }

    pub(super) fn on_note(&mut self, id: ContenderId, answer: Result<Option<ParentState>, Failure>) {
        match (self.contender(id).phase.clone(), answer) {
            (Phase::Looking | Phase::ReadingNote { .. }, Err(_)) => self.fail(id, Outcome::Refused),
            (Phase::Looking | Phase::ReadingNote { .. }, Ok(None)) => self.fail(id, Outcome::NodeDeleted),
            (Phase::Looking, Ok(Some(state))) => self.see_noted(id, state),
            (Phase::ReadingNote { gone }, Ok(Some(state))) => {
                self.note_state(id, state);
                let node = self.contender(id).node();
                let own = node.sequence;
                let czxid = node.made.czxid;
                // The contender's own node was read behind the note, and exists.
                match GrantProof::by_note(&state, gone, own, czxid) {
                    Some(proof) => self.prove(id, proof),
                    None => self.list(id),
                }
            }
            _ => {}
        }
    }

    /// Handles the data of the lock's node, which was read after the contender's node was created.
    pub(super) fn see_noted(&mut self, id: ContenderId, state: ParentState) {
        self.note_state(id, state);
        if state.version_to_replace().is_none() {
            self.ask(Ask::Warn(Warning::ForeignData));
        }
        let czxid = self.contender(id).node().made.czxid;
        match (GrantProof::by_only_child(&state, czxid), &self.contender(id).wish.kind) {
            (Some(proof), _) => self.prove(id, proof),
            // The note does not show whether a contender is ahead.
            (None, WishKind::Try) => self.list(id),
            (None, _) => {
                let predecessor = self.number_before(id);
                self.watch(id, predecessor);
            }
        }
    }

    fn note_state(&mut self, id: ContenderId, state: ParentState) {
        self.contender(id).note_version = state.version_to_replace();
        self.note_parent(id, state.parent);
    }

    fn note_parent(&mut self, id: ContenderId, parent: ParentCzxid) {
        self.contender(id).parent.get_or_insert(parent);
    }

    /// Returns the predecessor, under the assumption that it leaves notes, too, and so has a numbered name.
    pub(super) fn number_before(&mut self, id: ContenderId) -> Predecessor {
        let marker = self.contender(id).wish.names.marker(Mode::Exclusive);
        let sequence = self.contender(id).node().sequence.before();
        Predecessor { sequence, name: format!("{marker}{sequence}") }
    }

    pub(super) fn watch(&mut self, id: ContenderId, predecessor: Predecessor) {
        let name = predecessor.name.clone();
        self.contender(id).predecessor = Some(predecessor);
        self.enter_phase(id, Phase::SettingWatch);
        self.ask(Ask::Watch(id, name));
    }

    /// Waits for a proof that the session lives, once it is proved that no contender is ahead. A grant needs that proof, too: a
    /// follower that is cut off shows an old queue, and a process that was paused remembers one.
    fn prove(&mut self, id: ContenderId, proof: GrantProof) {
        self.contender(id).predecessor = None;
        self.enter_phase(id, Phase::Proving(proof));
        self.ask(Ask::Prove(id));
    }

    pub(super) fn on_watch_set(&mut self, id: ContenderId, czxid: Result<Option<i64>, Failure>) {
        if self.contender(id).phase != Phase::SettingWatch {
            return;
        }
        let Ok(czxid) = czxid else { return self.fail(id, Outcome::Refused) };
        self.local(id).note_look(czxid.is_some());
        let Some(czxid) = czxid else {
            // The predecessor was deleted before the watch was set.
            self.contender(id).before = None;
            return self.predecessor_gone(id);
        };
        let node = self.contender(id).node();
        let own = node.made.czxid;
        let sequence = node.sequence;
        if czxid > own {
            // The watched node is younger than the own node. Most likely the lock's node was deleted with the own node and created
            // again, so that numbers began anew.
            self.contender(id).before = None;
            self.enter_phase(id, Phase::Doubting { fired: None });
            return self.ask(Ask::CheckOwn(id));
        }
        let before = self.contender(id).before.or_else(|| self.local(id).member(sequence.before()));
        // The transaction shows that the watched node is the one of that contender. That node existed together with the own node
        // and has the number before it, so no node is in between.
        let node_of =
            |before: ContenderId| self.queue.contenders.get(&before).map(|before| (&before.claim, before.parent));
        let behind = before.and_then(|before| match node_of(before)? {
            (NodeClaim::Node(node), parent) if node.made.czxid == czxid => Some((before, parent)),
            _ => None,
        });
        if let Some((_, Some(parent))) = behind {
            self.note_parent(id, parent);
        }
        let behind = behind.map(|(before, _)| before);
        self.contender(id).before = behind;
        self.enter_phase(id, Phase::Watching { behind });
    }

    pub(super) fn on_fired(&mut self, id: ContenderId, is_gone: bool) {
        match &mut self.contender(id).phase {
            Phase::Doubting { fired } => *fired = Some(is_gone),
            Phase::Watching { .. } if is_gone => self.predecessor_gone(id),
            Phase::Watching { .. } => {
                // That no predecessor is known does not show that none is ahead.
                match self.contender(id).predecessor.clone() {
                    Some(predecessor) => self.watch(id, predecessor),
                    None => self.list(id),
                }
            }
            _ => {}
        }
    }

    /// Looks again after the watched node was deleted: reads the note of the last holder, if the lock has notes, or else lists the
    /// queue.
    fn predecessor_gone(&mut self, id: ContenderId) {
        let contender = self.contender(id);
        match (contender.predecessor.take(), contender.wish.naming) {
            (Some(Predecessor { sequence: gone, .. }), Naming::Numbered) => {
                self.enter_phase(id, Phase::ReadingNote { gone });
                self.ask(Ask::ReadNoteBeside(id));
            }
            _ => self.list(id),
        }
    }

    pub(super) fn on_own_checked(&mut self, id: ContenderId, is_present: Result<bool, Failure>) {
        let Phase::Doubting { fired } = self.contender(id).phase else { return };
        match is_present {
            Err(_) => self.fail(id, Outcome::Refused),
            Ok(false) => self.fail(id, Outcome::NodeDeleted),
            Ok(true) => {
                self.enter_phase(id, Phase::Watching { behind: None });
                if let Some(is_gone) = fired {
                    self.on_fired(id, is_gone);
                }
            }
        }
    }

    pub(super) fn on_proved(&mut self, id: ContenderId, proved: Result<(), Failure>) {
        let Phase::Proving(proof) = &self.contender(id).phase else { return };
        let proof = proof.clone();
        if proved.is_err() {
            return self.fail(id, Outcome::Refused);
        }
        let contender = self.contender(id);
        let parent = contender.parent;
        let sequence = contender.node().sequence;
        // A reader may have readers ahead, so its number proves nothing to the next contender.
        if let (Some(parent), Mode::Exclusive) = (parent, contender.wish.mode) {
            self.local(id).granted(parent, sequence);
        }
        self.grant(id, proof, None);
    }

    /// Grants the lock. `chain`: the first contender of the chain, if the hold was handed over.
    pub(super) fn grant(&mut self, id: ContenderId, proof: GrantProof, chain: Option<ContenderId>) {
        self.enter_phase(id, Phase::Holding { proof, chain });
        self.contender(id).node().is_doubtful = false;
        self.prepare_note(id);
        self.ask(Ask::Tell(id));
    }

    /// Returns the number of a contender, if it holds.
    pub(super) fn holder_number(&self, id: ContenderId) -> Option<Sequence> {
        match &**self.queue.contenders.get(&id)? {
            Contender { phase: Phase::Holding { .. }, claim: NodeClaim::Node(node), .. } => Some(node.sequence),
            _ => None,
        }
    }

    /// Returns the proof of a contender, if it holds.
    fn proof_of_holder(&self, id: ContenderId) -> Option<GrantProof> {
        match &self.queue.contenders.get(&id)?.phase {
            Phase::Holding { proof, .. } => Some(proof.clone()),
            _ => None,
        }
    }

    /// Prepares the note that the release writes.
    pub(super) fn prepare_note(&mut self, id: ContenderId) {
        let contender = self.contender(id);
        if let (Naming::Numbered, Some(version), Some(parent)) =
            (contender.wish.naming, contender.note_version, contender.parent)
        {
            let released = contender.node().sequence;
            contender.node().note = Some(Note { released, parent, version });
        }
    }
}
