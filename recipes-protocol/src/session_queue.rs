//! The protocol of the queue locks: the contenders of one session for the lock at one path.
//!
//! [`SessionQueue`] is told what happens ([`Event`]) and says what to do ([`Ask`]). It never waits and does no I/O. A *shell* does
//! what it asks for. There are three: the engine of `zk-recipes` with real servers, the model checks with a modelled server, and
//! the simulation.
//!
//! A contender goes through the files of this module in this order:
//!
//! * `joining`: it creates its node, alone or in a batch, and finds the node if the reply was lost.
//! * `waiting`: it looks at the queue and waits for its predecessor, until a proof shows that no contender is ahead.
//! * `leaving`: it gives up or releases. If the next contender in the queue belongs to the same session, that one gets the lock at
//!   once.
//!
//! # What a shell must do
//!
//! 1. It sends all asks of one step, in their order, before it delivers another event of the session. Two kinds of requests may be
//!    sent later and in any order: requests that wait for a connection, and requests that follow from [`Event::Leaves`] without
//!    a hand-over. The latter only clean up.
//! 2. It may repeat a read over another connection. It then repeats all reads of that ask. Only [`Ask::Find`] and
//!    [`Ask::Identify`] may repeat a single read. If the connection of a write ends, the shell answers the write with
//!    [`Failure::ReplyLost`].
//! 3. It delivers a notification before the answers that the server sent after it.
//! 4. It answers every ask that has an answer, even if no user waits for the contender any more.
//! 5. When the session ends, it drops the queue, or discards each contender. The servers delete the session's nodes.

mod ask;
mod contender;
mod join_batching;
mod joining;
mod leaving;
mod local_queue;
mod node_owners;
mod waiting;

use std::collections::BTreeMap;

pub use ask::{
    Ask, Condition, Event, Failure, FirstLook, Found, Listed, Made, NewNode, NotCreated, NotDeleted, Pause, Probed,
    Seen, Viewpoint, Warning,
};
pub use contender::{Grant, Outcome, State, Wish, WishKind};

pub use self::join_batching::Batching;

use self::contender::{Claim, Contender, Phase};
use self::leaving::Chain;
use self::local_queue::LocalQueue;
use self::node_owners::NodeOwners;
use crate::names::Names;

/// The identity of one contender in a [`SessionQueue`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ContenderId(u64);

/// The contenders of one session for the lock at one path.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct SessionQueue {
    /// Boxed: a node of the tree has room for eleven values, and most of them stay unused.
    contenders: BTreeMap<ContenderId, Box<Contender>>,
    next_id: u64,
    batching: Batching,
    /// What the contenders under the same names know together.
    local: BTreeMap<Names, Box<LocalQueue>>,
    /// Which nodes are taken, for nodes that are named by a number alone.
    owners: NodeOwners,
    /// The chains of local hand-overs, each under the contender that started it.
    chains: BTreeMap<ContenderId, Chain>,
}

/// One step of a queue: the queue, and the asks so far.
struct Step<'a> {
    queue: &'a mut SessionQueue,
    out: &'a mut Vec<Ask>,
}

impl SessionQueue {
    /// Returns a queue without contenders, which join in batches of this size.
    pub fn new(batching: Batching) -> Self {
        Self { batching, ..Self::default() }
    }

    /// Adds a contender, which starts at once.
    pub fn enter(&mut self, wish: Wish, out: &mut Vec<Ask>) -> ContenderId {
        let id = ContenderId(self.next_id);
        self.next_id += 1;
        self.local.entry(wish.names).or_default();
        self.contenders.insert(id, Box::new(Contender::new(wish)));
        Step { queue: self, out }.begin(id);
        id
    }

    /// Handles an event. Ignores events of contenders that were forgotten.
    pub fn on(&mut self, event: Event, out: &mut Vec<Ask>) {
        let mut step = Step { queue: self, out };
        match event {
            Event::ParentWatchSet(names, parent) => step.local_of(names).keep_watch(parent),
            Event::ParentChanged(names) => step.local_of(names).lose_watch(),
            Event::Created(id, made) if step.has(id) => step.on_created(id, made),
            Event::ParentsCreated(id, created) if step.has(id) => step.on_parents_created(id, created),
            Event::Found(id, found) if step.has(id) => step.on_found(id, found),
            Event::Identified(id, czxid) if step.has(id) => step.on_identified(id, czxid),
            Event::Listed(id, listed) if step.has(id) => step.on_listed(id, listed),
            Event::NoteRead(id, read) if step.has(id) => step.on_note(id, read),
            Event::Probed(id, probed) if step.has(id) => step.on_probed(id, probed),
            Event::WatchSet(id, czxid) if step.has(id) => step.on_watch_set(id, czxid),
            Event::Fired { id, is_gone } if step.has(id) => step.on_fired(id, is_gone),
            Event::Proved(id, proved) if step.has(id) => step.on_proved(id, proved),
            Event::Deleted(id, deleted) if step.has(id) => step.on_deleted(id, deleted),
            Event::Woke(id, pause) if step.has(id) => step.on_woke(id, pause),
            Event::NodeMissed(id) if step.has(id) => step.on_node_missed(id),
            Event::Waits(id) if step.has(id) => step.on_waits(id),
            Event::Leaves { id, hands_over } if step.has(id) => step.leave(id, hands_over),
            _ => {}
        }
    }

    /// Returns the state of the contender, for the user that waits for it.
    ///
    /// # Panics
    /// If the contender was forgotten.
    pub fn state(&self, id: ContenderId) -> State {
        self.contenders[&id].state()
    }

    /// Returns what the contender wants.
    ///
    /// # Panics
    /// If the contender was forgotten.
    pub fn wish(&self, id: ContenderId) -> &Wish {
        &self.contenders[&id].wish
    }

    /// Returns the position from which the contender reads a listing.
    ///
    /// # Panics
    /// If the contender was forgotten.
    pub fn viewpoint(&self, id: ContenderId) -> Viewpoint {
        let wish = self.wish(id);
        let name_of = |id| self.node(id).map(|node| node.name.clone());
        let beside = match wish.kind {
            WishKind::Beside(holder) if self.has(holder) => name_of(holder),
            _ => None,
        };
        Viewpoint { names: wish.names, mode: wish.mode, own: name_of(id), beside }
    }

    /// Returns the contender's node, once its name is known.
    ///
    /// # Panics
    /// If the contender was forgotten.
    pub fn node(&self, id: ContenderId) -> Option<&Made> {
        match &self.contenders[&id].claim {
            Claim::Node(node) => Some(&node.made),
            Claim::Nothing | Claim::Unnamed => None,
        }
    }

    /// Forgets the contender if it is over. Otherwise does nothing.
    pub fn forget(&mut self, id: ContenderId) {
        let phase = self.contenders.get(&id).map(|contender| &contender.phase);
        if matches!(phase, Some(Phase::Over(_))) {
            self.contenders.remove(&id);
        }
    }

    /// Forgets the contender in any phase, because its session has ended. The servers delete its node.
    pub fn discard(&mut self, id: ContenderId) {
        let Some(contender) = self.contenders.remove(&id) else { return };
        if let Some(local) = self.local.get_mut(&contender.wish.names) {
            local.batch.remove(id);
            local.waiting -= usize::from(contender.is_waiting());
            if let Claim::Node(node) = &contender.claim {
                local.remove_member(node.sequence, id);
            }
        }
        self.chains.values_mut().for_each(|chain| chain.discard(id));
    }

    /// Tells whether the queue still knows the contender.
    pub fn has(&self, id: ContenderId) -> bool {
        self.contenders.contains_key(&id)
    }

    /// Tells whether the queue has no contenders.
    pub fn is_empty(&self) -> bool {
        self.contenders.is_empty()
    }
}

impl Step<'_> {
    fn has(&self, id: ContenderId) -> bool {
        self.queue.has(id)
    }

    fn contender(&mut self, id: ContenderId) -> &mut Contender {
        self.queue.contenders.get_mut(&id).expect("BUG: a contender that was forgotten takes a step")
    }

    fn local(&mut self, id: ContenderId) -> &mut LocalQueue {
        let names = self.contender(id).wish.names;
        self.local_of(names)
    }

    fn local_of(&mut self, names: Names) -> &mut LocalQueue {
        self.queue.local.entry(names).or_default()
    }

    fn ask(&mut self, ask: Ask) {
        self.out.push(ask);
    }

    /// Moves the contender to a phase, and keeps the count of waiting contenders.
    fn enter_phase(&mut self, id: ContenderId, phase: Phase) {
        let contender = self.contender(id);
        let waited = contender.is_waiting();
        contender.phase = phase;
        let waits = contender.is_waiting();
        let local = self.local(id);
        local.waiting = local.waiting + usize::from(waits) - usize::from(waited);
    }
}
