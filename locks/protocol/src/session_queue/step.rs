//! The queue itself: its contenders, and the step that each event makes.

use std::collections::BTreeMap;

use super::ask::{Ask, ContenderId, Event, Made, Viewpoint};
use super::chain::Chain;
use super::contender::{Contender, ContenderState, NodeClaim, Phase, Wish, WishKind};
use super::local_queue::{Batching, LocalQueue};
use super::taken_nodes::TakenNodes;
use crate::names::Names;

/// The contenders of one session for the lock at one path.
///
/// # The phases of a contender
///
/// On each line, an event leads from one phase to the next. `[Ask]` is what the contender asks for when it enters the phase.
///
/// Joining:
///
/// ```text
///    Wait                Try                Place, Beside
///     |                   |                       |
///     v                   v                       |
///  Batching         Trying [List]                 |
///  [Pause]                |                       |
///     | complete,         | free                  |
///     | or 10 ms          |                       |
///     '-------------------+-----------------------'
///                         |
///                         v
///  Throttled <----- Creating [Create] -----> Finding [Find]
///                         |                       |
///                         '----------+------------'
///                                    v
///                   Placed, Looking, SettingWatch, or Proving
///
///  Trying     others are ahead ..................... Over(InTheWay)
///  Creating   no parent: [CreateParents], created .. Creating
///             throttled ............................ Throttled [Pause]
///             reply lost: [Pause], it is over ...... Finding
///             the node is another contender's ...... Finding
///             created, Place ....................... Placed
///             created, its number is the next one .. Proving
///             created, the look has an answer ...... as Looking
///             created, a predecessor is known ...... SettingWatch
///             created, nothing is known ............ Looking
///  Throttled  the pause is over .................... Creating
///  Finding    found, or adopted: [Identify] ........ as if created
///             none, and another search took one .... Finding
///             none ................................. Creating
/// ```
///
/// Waiting. A *proof* shows that no contender is ahead, and that the own node exists:
///
/// ```text
///  Placed
///    | Waits
///    v
///  Looking [List, ReadNote] <-------------------------------.
///    |       |                                              |
///    | proof | a contender is ahead                         |
///    |       v                                              |
///    |     SettingWatch [Watch] <---------.                 |
///    |       |   |    |                   |                 |
///    |       |   |    | the watched node  | fired:          |
///    |       |   |    | is younger        | changed         |
///    |       |   |    v                   |                 |
///    |       |   |  Doubting [CheckOwn]   |                 |
///    |       |   |    | the own node      |                 |
///    |       |   |set | is there          |                 |
///    |       |   v    v                   |                 |
///    |       |  Watching -----------------'                 |
///    |  gone |   |    |                                     |
///    |       |   |    | the predecessor hands over          |
///    |       |   |    '-----------------------------------. |
///    |       |   | fired: gone                            | |
///    |       v   v                                        | |
///    |     looks again --- the lock has no notes ---------|-+
///    |       | notes                                      | |
///    |       v                                            | |
///    |     ReadingNote [ReadNoteBeside] --- no proof -----|-'
///    |       | proof                                      |
///    v       v                                            |
///  Proving [Prove]                                        |
///    | the session lives                                  |
///    v                                                    |
///  Holding [Tell] <---------------------------------------'
///
///  Looking   Try, and a contender is ahead ......... Leaving, or [List] after a note
///            Beside, and its writer holds .......... Holding
///  Watching  changed, and no predecessor is known .. Looking [List]
/// ```
///
/// Leaving. `Leaves` leads here from every phase, and so does a failure:
///
/// ```text
///  AwaitingCreate --- no node of its own -------> Finding [Find]
///        |                                           |
///        | a node                                    | found
///        '---------------------+---------------------'
///                              |
///      a numbered name that    |    any other name, or just granted
///      may be another node's   |
///                 .------------+-------------.
///                 v                          v
///         Asking [Identify] --- ours --> Deleting [Delete] --- deleted --> Over(Gone)
///                 |                          |         |
///                 | not ours, or gone        | gone    | the node of the successor is gone,
///                 |                          |         | and its chain holds
///                 '------------+-------------'         v
///                              |                     Kept [Tell]
///       handed over            |   no successor
///                 .------------+-------------.
///                 v                          v
///  AskingForSuccessor [Identify] --------> Over
///            both are gone: [Lose]
///
///  at first   the create is not answered ........... AwaitingCreate
///             a search is under way ................ Finding
///             perhaps a node ....................... Finding
///             certainly no node .................... Over
///  Finding    none, and another search took one .... Finding
///             none ................................. Over(NothingThere)
///  Deleting   unmet, and no chain needs the node ... Deleting, without the condition
///             reply lost, throttled, or refused .... Pausing [Pause]
///  Asking     refused .............................. Pausing
///  Finding    refused .............................. Pausing
///  Kept       the chain has ended .................. Asking or Deleting
///  Pausing    the pause is over .................... Finding, Asking or Deleting
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct SessionQueue {
    /// Boxed: a node of the tree has room for eleven values, and most of them stay unused.
    pub(super) contenders: BTreeMap<ContenderId, Box<Contender>>,
    next_id: u64,
    pub(super) batching: Batching,
    /// What the contenders under the same names know together.
    pub(super) local: BTreeMap<Names, Box<LocalQueue>>,
    /// Which nodes are taken, for nodes that are named by a number alone.
    pub(super) taken_nodes: TakenNodes,
    /// The chains of local hand-overs, each under the contender that started it.
    pub(super) chains: BTreeMap<ContenderId, Chain>,
}

/// One step of a queue: the queue, and the asks so far.
pub(super) struct QueueStep<'a> {
    pub(super) queue: &'a mut SessionQueue,
    pub(super) asks: &'a mut Vec<Ask>,
}

impl SessionQueue {
    /// Returns a queue without contenders, which join in batches of this size.
    pub fn new(batching: Batching) -> Self {
        Self { batching, ..Self::default() }
    }

    /// Adds a contender, which starts at once.
    pub fn enter(&mut self, wish: Wish, asks: &mut Vec<Ask>) -> ContenderId {
        let id = ContenderId(self.next_id);
        self.next_id += 1;
        self.local.entry(wish.names).or_default();
        self.contenders.insert(id, Box::new(Contender::new(wish)));
        QueueStep { queue: self, asks }.begin(id);
        id
    }

    /// Handles an event. Ignores events of contenders that were forgotten.
    pub fn on(&mut self, event: Event, asks: &mut Vec<Ask>) {
        let mut step = QueueStep { queue: self, asks };
        match event {
            Event::ParentWatchSet(names, parent) => step.local_of(names).keep_watch(parent),
            Event::ParentChanged(names) => step.local_of(names).lose_watch(),
            Event::Created(id, made) if step.has(id) => step.on_created(id, made),
            Event::ParentsCreated(id, created) if step.has(id) => step.on_parents_created(id, created),
            Event::Found(id, found) if step.has(id) => step.on_found(id, found),
            Event::Identified(id, czxid) if step.has(id) => step.on_identified(id, czxid),
            Event::Listed(id, listed) if step.has(id) => step.on_listed(id, listed),
            Event::NoteRead(id, read) if step.has(id) => step.on_note(id, read),
            Event::OwnChecked(id, is_present) if step.has(id) => step.on_own_checked(id, is_present),
            Event::WatchSet(id, czxid) if step.has(id) => step.on_watch_set(id, czxid),
            Event::Fired { id, is_gone } if step.has(id) => step.on_fired(id, is_gone),
            Event::Proved(id, proved) if step.has(id) => step.on_proved(id, proved),
            Event::Deleted(id, deleted) if step.has(id) => step.on_deleted(id, deleted),
            Event::Woke(id, pause) if step.has(id) => step.on_woke(id, pause),
            Event::Waits(id) if step.has(id) => step.on_waits(id),
            Event::Leaves { id, hands_over, is_node_gone } if step.has(id) => {
                step.leave(id, hands_over, is_node_gone);
            }
            _ => {}
        }
        step.join_complete_batches();
    }

    /// Returns the state of the contender, for the user that waits for it.
    ///
    /// # Panics
    /// If the contender was forgotten.
    pub fn state(&self, id: ContenderId) -> ContenderState {
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
            NodeClaim::Node(node) => Some(&node.made),
            NodeClaim::Nothing | NodeClaim::Unnamed => None,
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
            local.creating -= usize::from(contender.is_creating());
            local.waiting -= usize::from(contender.is_waiting());
            if let NodeClaim::Node(node) = &contender.claim {
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

impl QueueStep<'_> {
    pub(super) fn has(&self, id: ContenderId) -> bool {
        self.queue.has(id)
    }

    pub(super) fn contender(&mut self, id: ContenderId) -> &mut Contender {
        self.queue.contenders.get_mut(&id).expect("BUG: a contender that was forgotten takes a step")
    }

    pub(super) fn local(&mut self, id: ContenderId) -> &mut LocalQueue {
        let names = self.contender(id).wish.names;
        self.local_of(names)
    }

    pub(super) fn local_of(&mut self, names: Names) -> &mut LocalQueue {
        self.queue.local.entry(names).or_default()
    }

    pub(super) fn ask(&mut self, ask: Ask) {
        self.asks.push(ask);
    }

    /// Moves the contender to a phase, and keeps the counts of contenders.
    pub(super) fn enter_phase(&mut self, id: ContenderId, phase: Phase) {
        let contender = self.contender(id);
        let was = (contender.is_creating(), contender.is_waiting());
        contender.phase = phase;
        let is = (contender.is_creating(), contender.is_waiting());
        let local = self.local(id);
        // The counts are unsigned, so the addition comes first.
        local.creating = local.creating + usize::from(is.0) - usize::from(was.0);
        local.waiting = local.waiting + usize::from(is.1) - usize::from(was.1);
    }
}
