//! What has to hold in every state of the world, and what a run is made to reach.

use std::collections::BTreeSet;

use campaign::{Sights, rules, sights};
use zk_recipes_protocol::names::{Mode, Supply};
use zk_recipes_protocol::session_queue::{
    Ask, ContenderId, ContenderState, Event, NotCreated, NotDeleted, Outcome, Pause, Seen, SessionQueue, Warning,
    WishKind,
};

use super::super::model::{Rule, Wrongs};
use super::curator::Curator;
use super::request::{ModelRequest, Progress};
use super::server::SessionNo;
use super::tree::Child;
use super::{ModelSession, Phase, Program, QueueModel, Standing, User, World};

rules! {
    EXCLUSION: "holds exclude each other",
    GRANTED_IN_TURN: "a granted contender has a node, and no contender is ahead of it",
    CAUSED: "a contender is told of a deleted node only if somebody deleted one",
    AWAKE: "no contender sleeps that could hold",
    SERVED: "every user is served",
    CLEAN: "finished users leave no node behind",
    TOKENS: "the tokens of holders that are alone grow",
}

sights! {
    Waits: "a user waits while another one holds",
    ReadersTogether: "two readers hold together",
    Downgraded: "a writer reads while it writes",
    LongQueue: "ten nodes queue up",
    ManySessions: "contenders of four sessions queue up",
    AppliedCreateLost: "a create was applied, and its reply was lost",
    UnappliedCreateLost: "a create was lost before it was applied",
    LookLost: "a create was applied, and the connection ended before its look",
    DeletionLost: "a deletion was applied, and its reply was lost",
    Found: "a search finds the node of a lost reply",
    FoundNone: "a search finds no node of a lost reply",
    SecondSearch: "a contender searches a second time",
    Adopts: "a contender is about to adopt an overwritten node",
    NodeTaken: "a contender's node was adopted by another one",
    SharedSearch: "contenders share one search",
    Overwritten: "the node of a holder is overwritten, as by a revocation request",
    ByNumber: "a number proves that no contender is ahead",
    ByParent: "the lock's node alone proves that no contender is ahead",
    HandedOver: "a hold is handed over within a session",
    ChainOfFive: "a hold is handed over five times in a row",
    Kept: "the node of a contender that has released stands for a later hold",
    Unmet: "the condition of a deletion is not met",
    NothingToDelete: "a deletion finds nothing",
    Doubts: "a watched node is younger than its watcher",
    NodeDeleted: "a waiter learns that its node was deleted",
    ByName: "a contender that leaves asks whose node it is",
    InTheWay: "a try finds another contender in the way",
    Exhausted: "a contender fails because the numbers are exhausted",
    LowSupply: "a contender warns that the numbers are running out",
    ForeignChild: "a contender warns of a foreign child",
    ForeignNote: "a contender warns of foreign data",
    Throttled: "a throttled request is repeated",
    Refused: "a contender fails because the server refused a request",
    RefusedDeletion: "a refused deletion is repeated",
    BeganAnew: "the lock's node was created again",
    NoParent: "a contender finds no parent, and creates it",
    ExpiredHolder: "the session of a holder expires",
    ExpiredWaiter: "the session of a waiter expires",
    OldListing: "a contender reads from a server that lags behind",
    LateWatch: "a watch fires late, at a server that lagged behind",
    CuratorWaits: "a contender of Curator waits",
    Batched: "a contender waits for its batch",
}

/// What the rules and sights need to know of the past.
#[derive(Clone, Debug, Default)]
pub(super) struct Past {
    pub(super) sights: Sights,
    /// The transactions that created the nodes that somebody deleted by hand.
    pub(super) deleted: BTreeSet<i64>,
    /// The contenders that were asked to leave.
    left: BTreeSet<(SessionNo, ContenderId)>,
    /// The contenders of which a request was refused.
    refused: BTreeSet<(SessionNo, ContenderId)>,
    searched: BTreeSet<(SessionNo, ContenderId)>,
    /// The newest node of a contender that was granted alone.
    newest: i64,
    /// How many holds were handed over in a row.
    chain: u8,
}

impl Past {
    pub(super) fn note(&mut self, is_seen: bool, sight: Sight) {
        self.sights.note(is_seen, sight as usize);
    }

    pub(super) fn note_leaving(&mut self, session: SessionNo, id: ContenderId) {
        self.left.insert((session, id));
    }

    pub(super) fn note_refusal(&mut self, session: SessionNo, id: ContenderId) {
        self.refused.insert((session, id));
    }

    pub(super) fn note_warning(&mut self, warning: &Warning) {
        self.note(matches!(warning, Warning::ForeignChild(_)), Sight::ForeignChild);
        self.note(matches!(warning, Warning::ForeignData), Sight::ForeignNote);
        self.note(matches!(warning, Warning::LowSupply(_)), Sight::LowSupply);
    }

    pub(super) fn note_ask(&mut self, session: SessionNo, ask: &Ask) {
        match ask {
            Ask::Find(id) => {
                let is_first = self.searched.insert((session, *id));
                self.note(!is_first, Sight::SecondSearch);
            }
            Ask::CheckOwn(_) => self.note(true, Sight::Doubts),
            _ => {}
        }
    }

    /// Notes what a queue is told.
    pub(super) fn note_event(&mut self, event: &Event) {
        match event {
            Event::Found(_, Ok(found)) => {
                let is_found = found.marked.is_some() || !found.overwritten.is_empty();
                self.note(true, if is_found { Sight::Found } else { Sight::FoundNone });
            }
            Event::Created(_, Err(NotCreated::NoParent)) => self.note(true, Sight::NoParent),
            Event::Deleted(_, Err(NotDeleted::Unmet)) => self.note(true, Sight::Unmet),
            Event::Deleted(_, Err(NotDeleted::NoNode)) => self.note(true, Sight::NothingToDelete),
            Event::Woke(_, Pause::Throttled) => self.note(true, Sight::Throttled),
            Event::Woke(_, Pause::Refused) => self.note(true, Sight::RefusedDeletion),
            _ => {}
        }
    }

    /// Notes which asks follow from an event.
    pub(super) fn note_consequence(&mut self, event: &Event, asks: &[Ask]) {
        match (event, asks) {
            (Event::Created(_, Ok((_, Seen::Nothing))), [Ask::Prove(_), ..]) => self.note(true, Sight::ByNumber),
            (Event::NoteRead(..), [Ask::Prove(_), ..]) => self.note(true, Sight::ByParent),
            (Event::Found(_, Ok(found)), [Ask::Identify(..), ..]) => self.note(found.marked.is_none(), Sight::Adopts),
            (Event::Leaves { .. }, [Ask::Identify(..), ..]) => self.note(true, Sight::ByName),
            (Event::Created(_, Ok(_)), [Ask::Find(_), ..]) => self.note(true, Sight::NodeTaken),
            _ => {}
        }
    }

    /// Notes a request whose connection has ended. `answer`: what the server has answered, and nobody will hear.
    pub(super) fn note_lost_reply(&mut self, request: &ModelRequest, answer: Option<&Event>) {
        match (&request.ask, answer) {
            (Ask::Create(..), Some(answer)) => {
                self.note(matches!(answer, Event::Created(_, Ok(_))), Sight::AppliedCreateLost);
            }
            (Ask::Create(..), None) => {
                let is_between = matches!(request.progress, Progress::Created(_));
                self.note(true, if is_between { Sight::LookLost } else { Sight::UnappliedCreateLost });
            }
            (Ask::Delete(..), Some(Event::Deleted(_, Ok(())))) => self.note(true, Sight::DeletionLost),
            _ => {}
        }
    }
}

impl World {
    /// Tells whether a node ahead of this one keeps its contender from holding, and belongs to a contender that does not leave.
    pub(super) fn is_barred(&self, session: SessionNo, id: ContenderId, node: &str) -> bool {
        let wish = self.sessions[session].queue.wish(id);
        let has_left = |child: &Child| {
            self.contenders().any(|(other_session, queue, other)| {
                let is_known = queue.node(other).is_some_and(|node| node.czxid == child.czxid);
                let is_of_node = is_known || (child.owner, child.mark) == (Some(other_session), Some(other));
                let stands_aside = match queue.state(other) {
                    ContenderState::Leaving { .. } | ContenderState::Failed { .. } => true,
                    // It stands for a hold of its session.
                    ContenderState::Kept => other_session == session,
                    // It shares the number of its writer, and holds only if the writer's node still exists.
                    ContenderState::Contending if matches!(queue.wish(other).kind, WishKind::Beside(_)) => true,
                    _ => other_session == session && wish.kind == WishKind::Beside(other),
                };
                is_of_node && stands_aside
            })
        };
        self.server.leader.barring(node, wish.names).any(|child| !has_left(child))
    }

    /// Notes whether a contender was granted wrongly: its node is missing, or a node ahead bars it.
    pub(super) fn note_grant(&mut self, session: SessionNo, id: ContenderId) {
        let queue = &self.sessions[session].queue;
        let (node, handed_over_by) = match queue.state(id) {
            ContenderState::Holding { node, handed_over_by } => (node, handed_over_by),
            state => return self.past.note(state == ContenderState::Kept, Sight::Kept),
        };
        let wish = queue.wish(id);
        let is_alone = wish.mode == Mode::Exclusive;
        let is_downgrade = matches!(wish.kind, WishKind::Beside(_));
        let is_barred = self.is_barred(session, id, &node.name);
        let is_there = self.server.leader.has(&node);
        self.is_granted_wrongly |= is_barred || !is_there && handed_over_by.is_none();

        let past = &mut *self.past;
        past.note(is_downgrade && handed_over_by.is_some(), Sight::Downgraded);
        let is_handed_over = handed_over_by.is_some() && !is_downgrade;
        past.chain = if is_handed_over { past.chain.saturating_add(1) } else { 0 };
        past.note(is_handed_over, Sight::HandedOver);
        past.note(past.chain >= 5, Sight::ChainOfFive);
        if is_alone {
            self.wrongs.has_token_shrunk |= node.czxid <= past.newest;
            past.newest = past.newest.max(node.czxid);
        }
    }

    /// Tells whether a user waits for a lock that it would have if it looked.
    fn might_hold(&self, user: &User) -> bool {
        let Phase::Inside(id) = user.phase else { return false };
        let queue = &self.sessions[user.session].queue;
        let Some(node) = queue.node(id).filter(|_| queue.state(id) == ContenderState::Contending) else { return false };
        self.server.leader.barring(&node.name, queue.wish(id).names).next().is_none()
    }

    /// Ends the users whose contenders are over or leave, and forgets the contenders that are over.
    pub(super) fn tidy(&mut self) {
        for user in &mut self.users {
            let of = &self.sessions[user.session];
            let (Phase::Inside(id) | Phase::Lost(id), true) = (user.phase, *of.is_touched) else { continue };
            let state = of.queue.state(id);
            let is_told = matches!(state, ContenderState::Failed { outcome: Outcome::NodeDeleted, .. });
            // The reader of a downgrade is told so, too, if its writer has released.
            self.is_told_deleted |= is_told && user.program != Program::Downgrade;
            *user.standing = match state {
                ContenderState::Contending => Standing::Contends,
                ContenderState::Placed => Standing::Placed,
                ContenderState::Holding { .. } => Standing::Holds,
                state => {
                    self.past.note_end(user, id, &of.queue, &state, &mut self.wrongs);
                    user.phase = Phase::Done;
                    Standing::Nowhere
                }
            };
        }
        for ModelSession { queue, known, pauses, proving, is_touched, .. } in &mut self.sessions {
            if std::mem::take(&mut **is_touched) {
                known.iter().for_each(|id| queue.forget(*id));
                known.retain(|id| queue.has(*id));
                pauses.retain(|(id, _)| queue.has(*id));
                proving.retain(|id| queue.has(*id));
            }
        }
    }

    /// Notes what can be seen in a state by itself.
    pub(super) fn note_sights(&mut self) {
        let is_waiting = self.users.iter().any(|user| user.waits());
        let holding = || self.users.iter().filter(|user| user.holds());
        let readers = holding().filter(|user| user.program.mode() == Mode::Shared).count();
        let holders = holding().count();
        let children = self.server.leader.children.len();
        let is_used = |session: &&ModelSession| !session.known.is_empty();
        let used = self.sessions.iter().filter(is_used).count();
        let past = &mut *self.past;
        past.note(is_waiting && holders > 0, Sight::Waits);
        past.note(readers > 1, Sight::ReadersTogether);
        past.note(children >= 10, Sight::LongQueue);
        past.note(used >= 4, Sight::ManySessions);
        past.note(matches!(self.curator, Some(Curator::Watching { .. })), Sight::CuratorWaits);
    }

    fn holders_exclude_each_other(&self) -> bool {
        let holders = (0..self.users.len()).filter(|i| self.users[*i].holds());
        let mut alone = usize::from(matches!(self.curator, Some(Curator::Holding(_))));
        let mut shared = false;
        for i in holders {
            match self.users[i].program {
                program if program.mode() == Mode::Exclusive => alone += 1,
                // One owner may write and read at once.
                Program::Downgrade if self.writer(i).is_some() => {}
                _ => shared = true,
            }
        }
        alone + usize::from(shared) <= 1
    }

    fn is_somebody_asleep(&self) -> bool {
        self.users.iter().any(|user| !self.is_session_busy(user.session) && self.might_hold(user))
    }

    fn is_stuck(&self) -> bool {
        let mut actions = Vec::new();
        !self.is_busy() && {
            self.progress(&mut actions);
            actions.is_empty() && !self.is_over()
        }
    }

    fn has_nodes_left(&self) -> bool {
        let is_quiet = self.sessions.iter().all(|session| session.known.is_empty());
        is_quiet && self.server.leader.children.values().any(|child| child.owner.is_some())
    }
}

impl Past {
    /// Notes how a user ended, and whether there was a reason.
    fn note_end(
        &mut self,
        user: &User,
        id: ContenderId,
        queue: &SessionQueue,
        state: &ContenderState,
        wrongs: &mut Wrongs,
    ) {
        let of = (user.session, id);
        let is_try = matches!(user.program, Program::TryLock | Program::TryHandoff);
        // A try leaves by itself if its first listing after its creation shows a contender ahead.
        let may_leave = is_try || self.left.contains(&of);
        let (ContenderState::Over(outcome) | ContenderState::Failed { outcome, .. }) = state else {
            wrongs.has_ended_without_reason |= !may_leave;
            return;
        };
        let has_reason = match outcome {
            Outcome::Gone | Outcome::NothingThere => may_leave,
            Outcome::InTheWay => {
                self.note(true, Sight::InTheWay);
                is_try
            }
            Outcome::NodeDeleted => {
                self.note(true, Sight::NodeDeleted);
                let is_deleted = queue.node(id).is_none_or(|node| self.deleted.contains(&node.czxid));
                let is_writer_gone = match queue.wish(id).kind {
                    WishKind::Beside(writer) => {
                        !queue.has(writer) || !matches!(queue.state(writer), ContenderState::Holding { .. })
                    }
                    _ => false,
                };
                wrongs.is_told_without_reason |= !is_deleted && !is_writer_gone;
                true
            }
            Outcome::NumbersExhausted(number) => {
                self.note(true, Sight::Exhausted);
                number.supply() == Supply::Exhausted
            }
            Outcome::Refused => {
                self.note(true, Sight::Refused);
                self.refused.contains(&of)
            }
        };
        wrongs.has_ended_without_reason |= !has_reason;
    }
}

impl QueueModel {
    pub(super) const RULES: &'static [Rule<Self>] = &[
        Rule::new(EXCLUSION, |_, state: &World| state.holders_exclude_each_other()),
        Rule::new(GRANTED_IN_TURN, |_, state: &World| !state.is_granted_wrongly),
        Rule::new(CAUSED, |model: &Self, state: &World| {
            let is_possible = state.left.deletions < model.faults.deletions
                || state.left.new_parents < model.faults.new_parents
                || !state.is_told_deleted;
            is_possible && !state.wrongs.is_told_without_reason
        }),
        Rule::new(AWAKE, |_, state: &World| !state.is_somebody_asleep()),
        Rule::new(SERVED, |_, state: &World| !state.wrongs.has_ended_without_reason && !state.is_stuck()),
        Rule::new(CLEAN, |_, state: &World| !state.has_nodes_left()),
        Rule::new(TOKENS, |_, state: &World| !state.wrongs.has_token_shrunk),
    ];
}
