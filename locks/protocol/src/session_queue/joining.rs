//! Joining the queue: a contender creates its node, and finds it again if the reply was lost.

use super::ask::{Ask, ContenderId, Failure, FirstLook, Found, Made, NewNode, NotCreated, Pause, Seen, Warning};
use super::contender::{Creating, LeavingPhase, NodeClaim, NodeSearch, Outcome, OwnNode, Phase, Wish, WishKind};
use super::local_queue::LocalQueue;
use super::step::QueueStep;
use crate::names::{Naming, Sequence, Supply};
use crate::number_proof::FirstRequests;
use crate::queue::Predecessor;

impl QueueStep<'_> {
    /// Starts a new contender.
    pub(super) fn begin(&mut self, id: ContenderId) {
        match self.contender(id).wish.kind {
            WishKind::Try => self.ask(Ask::List(id)),
            WishKind::Place | WishKind::Beside(_) => self.create(id, FirstLook::None, Creating::default()),
            WishKind::Wait => {
                self.enter_phase(id, Phase::Batching);
                self.local(id).batch.add(id);
                self.join_complete_batches();
                if self.contender(id).phase == Phase::Batching {
                    self.ask(Ask::Pause(id, Pause::Join));
                }
            }
        }
    }

    /// Lets complete batches join. Each step may complete a batch, because fewer waiters need a smaller batch.
    pub(super) fn join_complete_batches(&mut self) {
        let batching = self.queue.batching;
        let is_complete = |local: &&mut Box<LocalQueue>| local.batch.is_complete(local.waiting, batching);
        while let Some(local) = self.queue.local.values_mut().find(is_complete) {
            local.batch.take().into_iter().for_each(|id| self.join(id));
        }
    }

    /// Creates the node with the server's next number, and chooses the requests to send right behind the `create`.
    pub(super) fn join(&mut self, id: ContenderId) {
        let local = self.local(id);
        if local.is_busy || local.creating > 0 {
            // A contender is probably ahead. A look would only show the names of the contenders ahead, or an old note. If no
            // contender is ahead after all, the missing look costs a round trip.
            return self.create(id, FirstLook::None, Creating { is_busy: true, ..Creating::default() });
        }
        let Wish { names, naming, .. } = self.contender(id).wish;
        let is_proved_by_numbers = self.contender(id).is_proved_by_numbers();
        let first = if is_proved_by_numbers { self.local(id).first_requests() } else { FirstRequests::Look };
        if let FirstRequests::Nothing(expected) = first {
            return self.create(id, FirstLook::None, Creating { expected: Some(expected), ..Creating::default() });
        }
        let look = if naming == Naming::Numbered { FirstLook::Note } else { FirstLook::List };
        self.create(id, look, Creating::default());
        if first == FirstRequests::LookAndWatch {
            self.ask(Ask::WatchParent(id, names));
        }
    }

    pub(super) fn create(&mut self, id: ContenderId, look: FirstLook, creating: Creating) {
        let new_node = match self.contender(id).wish.kind {
            WishKind::Beside(writer) => match self.holder_number(writer) {
                Some(number) => NewNode::Beside(number),
                None => return self.fail(id, Outcome::NodeDeleted),
            },
            WishKind::Wait | WishKind::Try | WishKind::Place => NewNode::Numbered,
        };
        let contender = self.contender(id);
        // From here on the node may exist, even if the reply is lost.
        contender.claim = NodeClaim::Unnamed;
        self.enter_phase(id, Phase::Creating(creating));
        self.ask(Ask::Create(id, new_node, look));
    }

    pub(super) fn on_created(&mut self, id: ContenderId, answer: Result<(Made, Seen), NotCreated>) {
        if self.is_awaiting_create(id) {
            return self.on_created_late(id, answer.ok().map(|(made, _)| made));
        }
        let Phase::Creating(creating) = self.contender(id).phase else { return };
        match answer {
            Ok((made, seen)) if self.take(id, made.czxid) => self.on_node(id, made, creating, seen),
            // Another contender has adopted this node. The node that the other contender lost may be left for this one.
            Ok(_) => self.find(id),
            Err(NotCreated::NoParent) => self.ask(Ask::CreateParents(id)),
            Err(NotCreated::NoNumber) => {
                self.fail_to_create(id, !creating.is_repeated, Outcome::NumbersExhausted(Sequence::LAST));
            }
            Err(NotCreated::Failed(Failure::ReplyLost)) => {
                self.enter_phase(id, Phase::Finding(NodeSearch::default()));
                self.ask(Ask::Pause(id, Pause::ReplyLost));
            }
            Err(NotCreated::Failed(Failure::Throttled)) => {
                // This `create` made nothing, but an earlier one without a reply may have made a node.
                if !creating.is_repeated {
                    self.contender(id).claim = NodeClaim::Nothing;
                }
                self.enter_phase(id, Phase::Throttled(creating));
                self.ask(Ask::Pause(id, Pause::Throttled));
            }
            Err(NotCreated::Failed(Failure::Refused { is_certain })) => {
                self.fail_to_create(id, is_certain && !creating.is_repeated, Outcome::Refused);
            }
        }
    }

    /// Takes a node for the contender. Returns `false` if it belongs to another contender.
    fn take(&mut self, id: ContenderId, czxid: i64) -> bool {
        // Only its creator knows the prefix of a protected name.
        self.contender(id).wish.naming == Naming::Protected || self.queue.taken_nodes.take(czxid)
    }

    pub(super) fn on_parents_created(&mut self, id: ContenderId, created: Result<(), Failure>) {
        if self.is_awaiting_create(id) {
            // The `create` failed because the parent was missing.
            return self.on_created_late(id, None);
        }
        let Phase::Creating(creating) = self.contender(id).phase else { return };
        match created {
            Ok(()) => self.create(id, FirstLook::None, creating),
            Err(_) => self.fail_to_create(id, !creating.is_repeated, Outcome::Refused),
        }
    }

    fn fail_to_create(&mut self, id: ContenderId, is_nothing_there: bool, outcome: Outcome) {
        if is_nothing_there {
            self.contender(id).claim = NodeClaim::Nothing;
        }
        self.fail(id, outcome);
    }

    /// Searches for the contender's node, because the reply to `create` was lost or another contender has adopted the node.
    pub(super) fn find(&mut self, id: ContenderId) {
        let adoptions = self.queue.taken_nodes.adoptions();
        let finding = NodeSearch { adoptions, ..NodeSearch::default() };
        match &mut self.contender(id).phase {
            Phase::Leaving(leaving) => leaving.phase = LeavingPhase::Finding(finding),
            _ => self.enter_phase(id, Phase::Finding(finding)),
        }
        self.ask(Ask::Find(id));
    }

    pub(super) fn on_found(&mut self, id: ContenderId, found: Result<Found, Failure>) {
        let Some(finding) = self.finding(id) else { return };
        let Ok(Found { marked, overwritten }) = found else { return self.fail_to_find(id) };
        finding.candidates = overwritten.into_iter().rev().collect();
        match marked {
            Some(made) => {
                let is_taken = self.take(id, made.czxid);
                self.end_search(id, is_taken.then_some(made));
            }
            // No node has the contender's mark. If the `create` made a node, its data was overwritten.
            None => self.take_next(id),
        }
    }

    /// Takes the next node with overwritten data, and checks whether it still exists. After it was read, another contender may
    /// have deleted it and freed it in `TakenNodes`.
    fn take_next(&mut self, id: ContenderId) {
        while let Some(made) = self.finding(id).and_then(|finding| finding.candidates.pop()) {
            if self.queue.taken_nodes.take_overwritten(made.czxid) {
                self.ask(Ask::Identify(id, made.name.clone()));
                if let Some(finding) = self.finding(id) {
                    finding.adopting = Some(Box::new(made));
                }
                return;
            }
        }
        self.end_search(id, None);
    }

    /// Handles the answer whether the taken node still exists.
    pub(super) fn on_candidate(&mut self, id: ContenderId, czxid: Result<Option<i64>, Failure>) {
        let Some(made) = self.finding(id).and_then(|finding| finding.adopting.take()) else { return };
        match czxid {
            Ok(Some(czxid)) if czxid == made.czxid => {
                self.queue.taken_nodes.adopt(czxid);
                self.end_search(id, Some(*made));
            }
            Ok(_) => {
                self.queue.taken_nodes.release(made.czxid);
                self.take_next(id);
            }
            Err(_) => {
                self.queue.taken_nodes.release(made.czxid);
                self.fail_to_find(id);
            }
        }
    }

    fn end_search(&mut self, id: ContenderId, found: Option<Made>) {
        let adoptions = self.queue.taken_nodes.adoptions();
        let is_outdated = self.finding(id).is_some_and(|finding| finding.adoptions != adoptions);
        match found {
            Some(made) => {
                if matches!(self.contender(id).phase, Phase::Leaving(_)) {
                    return self.delete_named(id, made);
                }
                // Contenders that lost their replies together know each other's nodes by now, so few of them need a look.
                let is_busy = self.local(id).waiting > 0;
                self.on_node(id, made, Creating { is_busy, ..Creating::default() }, Seen::Nothing);
            }
            // The other search may have taken this contender's node, and left one that this search did not list yet.
            // Nodes with protected names cannot be mistaken like that.
            None if is_outdated && self.contender(id).wish.naming == Naming::Numbered => self.find(id),
            None if matches!(self.contender(id).phase, Phase::Leaving(_)) => {
                self.contender(id).claim = NodeClaim::Nothing;
                self.end(id, Outcome::NothingThere);
            }
            // A first look does not count for a later node. The contender looks after this `create`.
            None => self.create(id, FirstLook::None, Creating { is_repeated: true, ..Creating::default() }),
        }
    }

    /// Deletes the node of a leaving contender. If the name may belong to another node by now, `delete` first asks which node has
    /// it.
    fn delete_named(&mut self, id: ContenderId, made: Made) {
        self.name(id, made);
        self.delete(id);
    }

    fn fail_to_find(&mut self, id: ContenderId) {
        match self.contender(id).phase {
            Phase::Leaving(_) => self.pause_refused(id),
            _ => self.fail(id, Outcome::Refused),
        }
    }

    pub(super) fn finding(&mut self, id: ContenderId) -> Option<&mut NodeSearch> {
        match &mut self.contender(id).phase {
            Phase::Finding(finding) => Some(finding),
            Phase::Leaving(leaving) => match &mut leaving.phase {
                LeavingPhase::Finding(finding) => Some(finding),
                _ => None,
            },
            _ => None,
        }
    }

    /// Records the contender's node. Returns its number.
    pub(super) fn name(&mut self, id: ContenderId, made: Made) -> Sequence {
        let names = self.contender(id).wish.names;
        let (_, sequence) = names.parse(&made.name).expect("BUG: a node of ours is no contender");
        // Before this answer is handled, the node may be deleted and the numbers may begin anew. So its name is
        // doubtful until the grant.
        self.contender(id).claim = NodeClaim::Node(OwnNode { made, sequence, is_doubtful: true, note: None });
        sequence
    }

    /// Continues with the contender's node, and with the result of the look behind the `create`.
    fn on_node(&mut self, id: ContenderId, made: Made, creating: Creating, seen: Seen) {
        let czxid = made.czxid;
        let is_ours = made.is_ours;
        let sequence = self.name(id, made);
        self.enter_phase(id, Phase::Looking);
        if !is_ours {
            // The server has just created the node for this session, so only a faulty proxy or server gives this answer. A grant
            // by such a node could be taken away at any time.
            return self.fail(id, Outcome::NodeDeleted);
        }
        match sequence.supply() {
            Supply::Ample => {}
            Supply::Low => self.ask(Ask::Warn(Warning::LowSupply(sequence))),
            Supply::Exhausted => return self.fail(id, Outcome::NumbersExhausted(sequence)),
        }
        // Members wait for the node directly ahead. In a read-write lock a reader waits only for the writers ahead.
        if !self.contender(id).wish.names.may_downgrade() {
            self.local(id).add_member(sequence, id);
        }
        if self.contender(id).wish.kind == WishKind::Place {
            self.enter_phase(id, Phase::Placed);
            return self.ask(Ask::Tell(id));
        }
        match (creating, seen) {
            (Creating { expected: Some(expected), .. }, _) => self.judge_number(id, expected),
            (Creating { is_busy: true, .. }, _) => match self.directly_ahead(id) {
                Some(predecessor) => self.watch(id, predecessor),
                None => self.look(id),
            },
            // A look counts only if it was made after the node was created. When the connection comes back, the look may overtake
            // the `create`. Then the listing lacks the node, and the note may belong to an earlier lock's node.
            (_, Seen::Listed(listed)) if listed.changed >= czxid => self.see_listed(id, Some(listed)),
            (_, Seen::Note(state)) if state.is_since(czxid) => self.see_noted(id, state),
            _ => self.look(id),
        }
    }

    /// Returns the predecessor if its name is known without a look. The name follows from the number, or the predecessor belongs
    /// to this session. A `try` does not wait for a predecessor, so it looks.
    fn directly_ahead(&mut self, id: ContenderId) -> Option<Predecessor> {
        if self.contender(id).wish.kind == WishKind::Try {
            return None;
        }
        let sequence = self.contender(id).node().sequence;
        if self.contender(id).wish.naming == Naming::Numbered {
            return Some(self.number_before(id));
        }
        let before = self.local(id).member(sequence.before())?;
        let name = self.contender(before).node().made.name.clone();
        self.contender(id).before = Some(before);
        Some(Predecessor { sequence: sequence.before(), name })
    }

    fn is_awaiting_create(&mut self, id: ContenderId) -> bool {
        matches!(&self.contender(id).phase, Phase::Leaving(leaving) if leaving.phase == LeavingPhase::AwaitingCreate)
    }

    /// Goes on after a pause.
    pub(super) fn on_woke(&mut self, id: ContenderId, pause: Pause) {
        match (&self.contender(id).phase, pause) {
            (Phase::Batching, Pause::Join) => {
                // The whole batch joins, so that its nodes stand next to each other.
                let joining = self.local(id).batch.take();
                joining.into_iter().for_each(|id| self.join(id));
            }
            (Phase::Finding(_), Pause::ReplyLost) => self.find(id),
            (Phase::Throttled(creating), Pause::Throttled) => {
                let creating = *creating;
                self.create(id, FirstLook::None, creating);
            }
            (Phase::Leaving(_), pause) => self.on_leaving_woke(id, pause),
            _ => {}
        }
    }

    /// Handles the answer to `create` for a contender that leaves. `made`: the node, if the answer names one.
    fn on_created_late(&mut self, id: ContenderId, made: Option<Made>) {
        match made {
            Some(made) if self.take(id, made.czxid) => self.delete_named(id, made),
            // A node may exist all the same: another contender adopted this one, the reply was lost, or an earlier `create` of this
            // contender made a node.
            _ => self.find(id),
        }
    }
}
