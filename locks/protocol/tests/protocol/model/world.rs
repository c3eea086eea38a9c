//! A model of the queue as the locks run it: [`SessionQueue`]s of several sessions and one server. It covers every order of
//! requests, answers, notifications, faults and users.
//!
//! The protocol itself is not part of this model. A session sends what its queue asks for and delivers what comes back, as the
//! contract of [`zk_recipes_protocol::session_queue`] says. The server applies the requests of a session in their order, at any
//! time. Each contender gets its answers at any later time, so answers to different contenders of a session overtake each other.
//! The proof that the session lives comes at any later time, too.
//!
//! # Faults
//!
//! Each may happen at any moment, as often as [`Faults`] says:
//!
//! * A connection ends. Some of its requests were applied and not answered, and others are never applied.
//! * The server throttles a write or a look, and does not carry it out.
//! * A session expires. Its client knows that before.
//! * A user gives up, or drops what it has.
//! * Somebody deletes the node of a waiter, or overwrites the data of a node.
//! * Somebody deletes the lock's node while it is empty, and creates it again with its old data or with none.
//!
//! A child that is no contender may exist, or a contender of Apache Curator.
//!
//! # What is not modelled
//!
//! * Refused requests, and parents that are missing when a node is created.
//! * Servers that lag behind. A contender that sees an old queue sees at least the nodes that were ahead when its own node was
//!   created. So it waits too long, but is never granted too early.
//! * Time. The model in [`clocks`](super::clocks) checks that a hold is lost before its session expires.
//! * A hold whose node is deleted by hand: the guarantees do not cover it.
//! * A node that is deleted by hand after its contender has begun to leave. The contender asks whose node it is and then deletes it
//!   by name. In between, another node may get the name.

mod actions;
mod arriving;
mod curator;
mod server;
pub(crate) mod users;

use std::collections::{BTreeSet, VecDeque};

use zk_recipes_protocol::session_queue::{
    Ask, Batching, ContenderId, ContenderState as Standing, Event, Failure, NotCreated, NotDeleted, Outcome, Pause,
    SessionQueue, WishKind,
};

use self::arriving::{Arrivals, Arriving};
use self::curator::Curator;
use self::server::{Child, ModelRequest, ModelServer, Notifications, Progress, SessionNo};
use self::users::{Faults, Program};

/// One user.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct User {
    program: Program,
    session: SessionNo,
    phase: Phase,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Phase {
    /// It has not arrived yet.
    Outside,
    /// It waits, holds or leaves.
    Inside(ContenderId),
    /// As `Inside`, and its hold was lost.
    Lost(ContenderId),
    Done,
}

/// One session.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct ModelSession {
    queue: SessionQueue,
    /// Requests that the server has not applied yet.
    requests: VecDeque<ModelRequest>,
    /// Requests that wait for a connection, or that follow from a drop. They are sent in any order.
    delayed: Vec<ModelRequest>,
    is_away: bool,
    arriving: Arrivals,
    /// The contenders that wait for a proof that the session lives.
    proving: BTreeSet<ContenderId>,
    /// The contenders that pause, and their reasons.
    pauses: BTreeSet<(ContenderId, Pause)>,
    /// The contenders that were not forgotten.
    known: BTreeSet<ContenderId>,
    is_over: bool,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct World {
    server: ModelServer,
    sessions: Vec<ModelSession>,
    users: Vec<User>,
    curator: Option<Curator>,
    left: Faults,
    /// Whether a contender was granted although it had no node, or although another contender kept it from holding.
    is_granted_wrongly: bool,
    /// Whether a contender was told that its node was deleted.
    is_told_deleted: bool,
}

impl ModelSession {
    fn new(batching: Batching) -> Self {
        Self {
            queue: SessionQueue::new(batching),
            requests: VecDeque::new(),
            delayed: Vec::new(),
            is_away: false,
            arriving: Arrivals::default(),
            proving: BTreeSet::new(),
            pauses: BTreeSet::new(),
            known: BTreeSet::new(),
            is_over: false,
        }
    }
}

impl World {
    /// Carries out the asks of a queue. Sends its requests, or delays them.
    fn carry_out(&mut self, session: SessionNo, asks: Vec<Ask>, is_delayed: bool) {
        for ask in asks {
            match ask {
                Ask::Prove(id) => {
                    self.sessions[session].proving.insert(id);
                }
                Ask::Pause(id, pause) => {
                    self.sessions[session].pauses.insert((id, pause));
                }
                Ask::Lose(id) => {
                    let of_contender = |user: &&mut User| user.session == session && user.phase == Phase::Inside(id);
                    self.users.iter_mut().filter(of_contender).for_each(|user| user.phase = Phase::Lost(id));
                }
                Ask::Tell(id) => self.note_grant(session, id),
                Ask::Warn(_) => {}
                ask => {
                    let of = &mut self.sessions[session];
                    let id = ask.contender();
                    let own = id.and_then(|id| of.queue.node(id).cloned());
                    let wish = id.map(|id| of.queue.wish(id).clone());
                    let viewpoint = id.map(|id| of.queue.viewpoint(id));
                    let request = ModelRequest { ask, own, wish, viewpoint, progress: Progress::Fresh };
                    if is_delayed || of.is_away {
                        of.delayed.push(request);
                    } else {
                        of.requests.push_back(request);
                    }
                }
            }
        }
    }

    /// Delivers an event to the queue of a session.
    fn tell(&mut self, session: SessionNo, event: Event) {
        let mut asks = Vec::new();
        self.sessions[session].queue.on(event, &mut asks);
        self.carry_out(session, asks, false);
    }

    /// Tells the queue that a user dropped what it has. The requests that follow are sent at any later time.
    fn drop_contender(&mut self, session: SessionNo, id: ContenderId) {
        let mut asks = Vec::new();
        self.sessions[session].queue.on(Event::Leaves { id, hands_over: false, is_node_gone: false }, &mut asks);
        self.carry_out(session, asks, true);
    }

    /// Sends a request that was delayed.
    fn send(&mut self, session: SessionNo, i: usize, is_look_first: bool) {
        let mut request = self.sessions[session].delayed.remove(i);
        if let (true, Ask::Create(_, _, look)) = (is_look_first, &request.ask) {
            request.progress = Progress::Seen(self.server.look(*look, &request));
        }
        self.sessions[session].requests.push_back(request);
    }

    fn come(&mut self, i: usize) {
        let User { program, session, .. } = self.users[i];
        let writer = self.writer(i);
        let mut asks = Vec::new();
        let of = &mut self.sessions[session];
        let id = of.queue.enter(program.wish(writer), &mut asks);
        of.known.insert(id);
        self.users[i].phase = Phase::Inside(id);
        self.carry_out(session, asks, false);
    }

    /// Returns the contender of the user before, if that user holds as a writer.
    fn writer(&self, i: usize) -> Option<ContenderId> {
        let before = self.users.get(i.checked_sub(1)?)?;
        match before.phase {
            Phase::Inside(id) if before.program == Program::Write && self.holds(before) => Some(id),
            _ => None,
        }
    }

    /// Tells whether a user may arrive. The reader of a downgrade may arrive only while its writer holds.
    fn may_come(&self, i: usize) -> bool {
        let User { program, session, .. } = self.users[i];
        !self.sessions[session].is_over && (program != Program::Downgrade || self.writer(i).is_some())
    }

    /// Tells whether nothing more happens to a user.
    fn is_finished(&self, i: usize) -> bool {
        let User { program, phase, .. } = self.users[i];
        phase == Phase::Done || (phase == Phase::Outside && program == Program::Downgrade)
    }

    /// Tells whether all users have finished.
    fn is_over(&self) -> bool {
        let is_curator_done = self.curator.as_ref().is_none_or(|curator| *curator == Curator::Done);
        is_curator_done && (0..self.users.len()).all(|i| self.is_finished(i))
    }

    /// Tells whether a user has a place and does not wait for its grant yet.
    fn is_placed(&self, user: &User) -> bool {
        let Phase::Inside(id) = user.phase else { return false };
        self.sessions[user.session].queue.state(id) == Standing::Placed
    }

    /// Tells whether a user holds, as far as it can know.
    fn holds(&self, user: &User) -> bool {
        let Phase::Inside(id) = user.phase else { return false };
        matches!(self.sessions[user.session].queue.state(id), Standing::Holding { .. })
    }

    /// Tells whether a user waits for its grant, with a node in the queue or without.
    fn waits(&self, user: &User) -> bool {
        let Phase::Inside(id) = user.phase else { return false };
        self.sessions[user.session].queue.state(id) == Standing::Contending
    }

    /// Notes whether a contender was granted wrongly. Its node is missing, or a node that keeps it from holding belongs to a
    /// contender that does not leave.
    fn note_grant(&mut self, session: SessionNo, id: ContenderId) {
        let queue = &self.sessions[session].queue;
        let Standing::Holding { node, handed_over_by } = queue.state(id) else { return };
        let wish = queue.wish(id);
        let has_left = |child: &Child| {
            self.contenders().any(|(other_session, queue, other)| {
                let is_known = queue.node(other).is_some_and(|node| node.czxid == child.czxid);
                let is_of_node = is_known || (child.owner, child.mark) == (Some(other_session), Some(other));
                let stands_aside = match queue.state(other) {
                    Standing::Leaving { .. } | Standing::Failed { .. } => true,
                    // It stands for a hold of its session.
                    Standing::Kept => other_session == session,
                    // It shares the number of its writer, and holds only if the writer's node still exists.
                    Standing::Contending if matches!(queue.wish(other).kind, WishKind::Beside(_)) => true,
                    _ => other_session == session && wish.kind == WishKind::Beside(other),
                };
                is_of_node && stands_aside
            })
        };
        let is_barred = self.server.barring(&node.name, wish.names).any(|child| !has_left(child));
        let own = self.server.children.get(&node.name);
        let is_there = own.is_some_and(|own| own.czxid == node.czxid);
        self.is_granted_wrongly |= is_barred || !is_there && handed_over_by.is_none();
    }

    fn contenders(&self) -> impl Iterator<Item = (SessionNo, &SessionQueue, ContenderId)> {
        self.sessions.iter().enumerate().flat_map(|(session, of)| {
            let known = of.known.iter().filter(|id| of.queue.has(**id));
            known.map(move |id| (session, &of.queue, *id))
        })
    }

    /// Tells whether a user waits for a lock that it would have if it looked.
    fn might_hold(&self, user: &User) -> bool {
        let Phase::Inside(id) = user.phase else { return false };
        let queue = &self.sessions[user.session].queue;
        let Some(node) = queue.node(id).filter(|_| queue.state(id) == Standing::Contending) else { return false };
        self.server.barring(&node.name, queue.wish(id).names).next().is_none()
    }

    /// Forgets the contenders that are over.
    fn tidy(&mut self) {
        for user in &mut self.users {
            let (Phase::Inside(id) | Phase::Lost(id)) = user.phase else { continue };
            let standing = self.sessions[user.session].queue.state(id);
            let is_told = matches!(standing, Standing::Failed { outcome: Outcome::NodeDeleted, .. });
            // The reader of a downgrade is told so, too, if its writer has released.
            self.is_told_deleted |= is_told && user.program != Program::Downgrade;
            if let Standing::Over(_) | Standing::Kept | Standing::Failed { .. } | Standing::Leaving { .. } = standing {
                user.phase = Phase::Done;
            }
        }
        for ModelSession { queue, known, pauses, proving, .. } in &mut self.sessions {
            known.iter().for_each(|id| queue.forget(*id));
            known.retain(|id| queue.has(*id));
            pauses.retain(|(id, _)| queue.has(*id));
            proving.retain(|id| queue.has(*id));
        }
    }

    /// Lets the server carry out the next request of a session.
    fn apply(&mut self, session: SessionNo) {
        let Some(mut request) = self.sessions[session].requests.pop_front() else { return };
        let (event, told) = self.server.apply(session, &mut request);
        self.notify(told);
        match event {
            Some(event) => self.sessions[session].arriving.push(Arriving::answer(request, event)),
            // The request takes another step.
            None => self.sessions[session].requests.push_front(request),
        }
    }

    /// Tells whether the first two requests of a session may be one search.
    fn has_shared_search(&self, session: SessionNo) -> bool {
        let requests = &self.sessions[session].requests;
        let next = |i: usize| requests.get(i).and_then(ModelRequest::next_of_search);
        next(0).is_some() && next(0) == next(1)
    }

    /// Lets the server carry out one step of a search for all first requests of a session that are about to take it.
    fn apply_together(&mut self, session: SessionNo) {
        let of = &mut self.sessions[session];
        let next = of.requests.front().and_then(ModelRequest::next_of_search);
        let sharing = of.requests.iter().take_while(|request| request.next_of_search() == next).count();
        let requests: Vec<ModelRequest> = of.requests.drain(..sharing).collect();
        for mut request in requests.into_iter().rev() {
            match self.server.apply(session, &mut request).0 {
                Some(event) => of.arriving.push(Arriving::answer(request, event)),
                None => of.requests.push_front(request),
            }
        }
    }

    /// Delays a read that contenders of the session may share.
    fn postpone(&mut self, session: SessionNo) {
        let of = &mut self.sessions[session];
        of.delayed.extend(of.requests.pop_front());
    }

    fn notify(&mut self, told: Notifications) {
        for (session, event) in told {
            self.sessions[session].arriving.push(Arriving::Notification(event));
        }
    }

    /// Ends the connection of a session. Requests that were not applied never will be, and answers that have not arrived are lost.
    /// The answers to the contender `told` have arrived.
    fn cut(&mut self, session: SessionNo, told: Option<ContenderId>) {
        let watches = self.server.unwatch(session);
        let of = &mut self.sessions[session];
        of.is_away = true;
        let mut events: Vec<Event> = watches.into_iter().map(|(_, event)| event).collect();
        let mut unanswered = Vec::new();
        for arriving in std::mem::take(&mut of.arriving) {
            match arriving {
                arriving if told.is_some() && arriving.contender() == told => of.arriving.push(arriving),
                Arriving::Answer(answer) => unanswered.push(answer.0),
                Arriving::Notification(Event::Fired { id, .. }) => events.push(Event::Fired { id, is_gone: false }),
                Arriving::Notification(event) => events.push(event),
            }
        }
        unanswered.extend(of.requests.drain(..));
        for request in unanswered {
            match lost_reply(&request.ask) {
                Some(event) => events.push(event),
                // Reads are repeated: a search continues with its next read, and the reads of other asks begin again.
                None if matches!(request.progress, Progress::Searching { .. }) => of.delayed.push(request),
                None => of.delayed.push(ModelRequest { progress: Progress::Fresh, ..request }),
            }
        }
        for event in events {
            match event {
                // The contender first learns that the watch is set.
                Event::Fired { id, .. } if Some(id) == told => {
                    self.sessions[session].arriving.push(Arriving::Notification(event))
                }
                event => self.tell(session, event),
            }
        }
    }

    fn expire(&mut self, session: SessionNo) {
        let told = self.server.expire(session);
        self.sessions[session] = ModelSession { is_over: true, ..ModelSession::new(Batching::default()) };
        let of_session = self.users.iter_mut().filter(|user| user.session == session);
        of_session.for_each(|user| user.phase = Phase::Done);
        self.notify(told.into_iter().filter(|(other, _)| *other != session).collect());
    }

    /// Tells whether something is under way that needs no user.
    fn is_busy(&self) -> bool {
        let is_busy = |of: &ModelSession| {
            let is_sent = of.is_away || !of.delayed.is_empty() || !of.requests.is_empty();
            is_sent || !of.arriving.is_empty() || !of.proving.is_empty() || !of.pauses.is_empty()
        };
        self.sessions.iter().any(is_busy)
    }
}

/// Returns what a queue is told of a request whose connection has ended. `None` for a read that is repeated.
fn lost_reply(ask: &Ask) -> Option<Event> {
    match ask {
        Ask::Create(id, ..) => Some(Event::Created(*id, Err(NotCreated::Failed(Failure::ReplyLost)))),
        Ask::Delete(id, _) => Some(Event::Deleted(*id, Err(NotDeleted::Failed(Failure::ReplyLost)))),
        Ask::WatchParent(_, names) => Some(Event::ParentWatchSet(*names, None)),
        _ => None,
    }
}
