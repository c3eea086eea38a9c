//! A model of the queue as the locks run it: [`SessionQueue`]s of several sessions and their servers. It covers every order of
//! requests, answers, notifications, faults and users.
//!
//! ZooKeeper's wire protocol is not part of this model. A session sends what its queue asks for and delivers what comes back, as the
//! contract of [`zk_recipes_protocol::session_queue`] says. The server applies the requests of a session in their order, at any
//! time. Each contender gets its answers at any later time, so answers to different contenders of a session overtake each other.
//! The proof that the session lives comes at any later time, too.
//!
//! # Faults
//!
//! Each may happen at any moment, as often as [`Faults`] says:
//!
//! * A connection ends. Some of its requests were applied and not answered, and others are never applied.
//! * The server throttles a write or a look, and does not carry it out. Or it refuses a request, or cannot prove that a session lives.
//! * A session expires. Its client knows that before.
//! * A user gives up, or drops what it has.
//! * Somebody deletes the node of a waiter, or overwrites the data of a node.
//! * Somebody deletes the lock's node while it is empty, and perhaps creates it again, with its old data or with none.
//! * The server of a session lags behind the leader, so its reads are old and its watches fire late.
//!
//! A child that is no contender may exist, or a contender of Apache Curator.
//!
//! # What is not modelled
//!
//! * Time. The model in [`clocks`](super::clocks) checks that a hold is lost before its session expires.
//! * A hold whose node is deleted by hand: the guarantees do not cover it.
//! * A node that is deleted by hand after its contender has begun to leave. The contender asks whose node it is and then deletes it
//!   by name. In between, another node may get the name.

mod actions;
mod arriving;
mod curator;
mod losses;
mod request;
mod rules;
mod search;
mod server;
mod tree;
mod users;

use std::collections::{BTreeSet, VecDeque};

use zk_recipes_protocol::session_queue::{Ask, Batching, ContenderId, Event, Pause, SessionQueue};

use self::arriving::{Arrivals, Arriving};
use self::curator::Curator;
use self::request::{ModelRequest, Progress};
use self::rules::Past;
use self::server::{ModelServer, Notifications, SessionNo};
use super::model::{Memory, Wrongs};

pub use self::actions::Action;
pub use self::rules::{AWAKE, CAUSED, CLEAN, EXCLUSION, GRANTED_IN_TURN, SERVED, Sight, TOKENS};
pub use self::users::{Data, Faults, Program, QueueModel};

/// One user.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct User {
    program: Program,
    session: SessionNo,
    phase: Phase,
    /// How often it comes again after it has finished.
    returns: u8,
    /// Where its contender is, as of the last step.
    standing: Memory<Standing>,
}

/// Where a contender is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Standing {
    #[default]
    Nowhere,
    Contends,
    Placed,
    Holds,
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
    /// Whether something was told to its queue since the last step.
    is_touched: Memory<bool>,
}

/// The servers, the sessions and the users.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct World {
    server: ModelServer,
    sessions: Vec<ModelSession>,
    users: Vec<User>,
    curator: Option<Curator>,
    left: Faults,
    batching: Batching,
    /// Whether a contender was granted although it had no node, or although another contender kept it from holding.
    is_granted_wrongly: bool,
    /// Whether a contender was told that its node was deleted.
    is_told_deleted: bool,
    wrongs: Wrongs,
    past: Memory<Past>,
}

impl User {
    /// Tells whether it holds, as far as it can know.
    fn holds(&self) -> bool {
        matches!(self.phase, Phase::Inside(_)) && *self.standing == Standing::Holds
    }

    /// Tells whether it waits for its grant, with a node in the queue or without.
    fn waits(&self) -> bool {
        matches!(self.phase, Phase::Inside(_)) && *self.standing == Standing::Contends
    }

    /// Tells whether it has a place and does not wait for its grant yet.
    fn is_placed(&self) -> bool {
        matches!(self.phase, Phase::Inside(_)) && *self.standing == Standing::Placed
    }
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
            is_touched: Memory::default(),
        }
    }
}

impl World {
    /// Carries out the asks of a queue. Sends its requests, or delays them.
    fn carry_out(&mut self, session: SessionNo, asks: Vec<Ask>, is_delayed: bool) {
        *self.sessions[session].is_touched = true;
        for ask in asks {
            match ask {
                Ask::Prove(id) => {
                    self.sessions[session].proving.insert(id);
                }
                Ask::Pause(id, pause) => {
                    self.past.note(pause == Pause::Join, Sight::Batched);
                    self.sessions[session].pauses.insert((id, pause));
                }
                Ask::Lose(id) => {
                    let of_contender = |user: &&mut User| user.session == session && user.phase == Phase::Inside(id);
                    self.users.iter_mut().filter(of_contender).for_each(|user| user.phase = Phase::Lost(id));
                    // The reason is that somebody has deleted its node and the node that stood for it.
                    self.wrongs.is_told_without_reason |= self.past.deleted.is_empty();
                }
                Ask::Tell(id) => self.note_grant(session, id),
                Ask::Warn(warning) => self.past.note_warning(&warning),
                ask => {
                    self.past.note_ask(session, &ask);
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
        self.past.note_event(&event);
        self.sessions[session].queue.on(event.clone(), &mut asks);
        self.past.note_consequence(&event, &asks);
        self.carry_out(session, asks, false);
    }

    /// Tells the queue that a user dropped what it has. The requests that follow are sent at any later time.
    fn drop_contender(&mut self, session: SessionNo, id: ContenderId) {
        let mut asks = Vec::new();
        let event = Event::Leaves { id, hands_over: false, is_node_gone: false };
        self.sessions[session].queue.on(event.clone(), &mut asks);
        self.past.note_consequence(&event, &asks);
        self.carry_out(session, asks, true);
    }

    /// Sends a request that was delayed.
    fn send(&mut self, session: SessionNo, i: usize, is_look_first: bool) {
        let mut request = self.sessions[session].delayed.remove(i);
        if let (true, Ask::Create(_, _, look)) = (is_look_first, &request.ask) {
            request.progress = Progress::Seen(self.server.look(session, *look, &request));
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

    /// Returns the contender of the user before, if that user holds as a writer in the same session.
    fn writer(&self, i: usize) -> Option<ContenderId> {
        let before = self.users.get(i.checked_sub(1)?)?;
        match before.phase {
            Phase::Inside(id)
                if before.program == Program::Write && before.session == self.users[i].session && before.holds() =>
            {
                Some(id)
            }
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

    /// Returns how many visits of users are not over.
    fn visits(&self) -> u64 {
        self.users.iter().map(|user| u64::from(user.returns) + u64::from(user.phase != Phase::Done)).sum()
    }

    /// Tells whether all users have finished.
    fn is_over(&self) -> bool {
        let is_curator_done = self.curator.as_ref().is_none_or(|curator| *curator == Curator::Done);
        is_curator_done && (0..self.users.len()).all(|i| self.is_finished(i))
    }

    fn contenders(&self) -> impl Iterator<Item = (SessionNo, &SessionQueue, ContenderId)> {
        self.sessions.iter().enumerate().flat_map(|(session, of)| {
            let known = of.known.iter().filter(|id| of.queue.has(**id));
            known.map(move |id| (session, &of.queue, *id))
        })
    }

    /// Lets the server carry out the next request of a session.
    fn apply(&mut self, session: SessionNo) {
        let Some(mut request) = self.sessions[session].requests.pop_front() else { return };
        let is_old = self.server.lags(session) && !request.is_current();
        self.past.note(is_old, Sight::OldListing);
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
        self.past.note(true, Sight::SharedSearch);
        for mut request in requests.into_iter().rev() {
            let (event, told) = self.server.apply(session, &mut request);
            self.notify(told);
            let of = &mut self.sessions[session];
            match event {
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

    /// Lets the users that have finished and come again do so.
    fn return_users(&mut self) {
        for user in self.users.iter_mut().filter(|user| user.phase == Phase::Done && user.returns > 0) {
            user.returns -= 1;
            user.phase = Phase::Outside;
            *user.standing = Standing::Nowhere;
        }
    }

    /// Tells whether something of a session is under way that needs no user.
    fn is_session_busy(&self, session: SessionNo) -> bool {
        let of = &self.sessions[session];
        let is_sent = of.is_away || !of.delayed.is_empty() || !of.requests.is_empty();
        is_sent
            || !of.arriving.is_empty()
            || !of.proving.is_empty()
            || !of.pauses.is_empty()
            || self.server.lags(session)
    }

    fn is_busy(&self) -> bool {
        (0..self.sessions.len()).any(|session| self.is_session_busy(session))
    }
}
