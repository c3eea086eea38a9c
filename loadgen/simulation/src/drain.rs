//! The simulated drain of a queue-shaped recipe: its clock, its events, and its grants.

use std::collections::HashMap;
use std::time::Duration;

use rand::SeedableRng;
use rand::rngs::ChaCha8Rng;
use rand::seq::SliceRandom;
use zk_recipes_protocol::cohort::{self, Bounds, Cohort, MemberId, Others, Reliance};
use zk_recipes_protocol::session_queue::{Ask, ContenderId, ContenderState, Event, Pause, SessionQueue};

use crate::agenda::Agenda;
use crate::contender::{Deed, SimulatedContender, wish};
use crate::latency::SimulatedTimes;
use crate::server::{Packet, Reply, Request, Server};
use crate::{LatencyModel, Point, Recipe, ns_to_ms};

/// An event of the simulation.
#[derive(Debug)]
enum Happening {
    /// A request comes to the server.
    Arrives {
        contender: usize,
        request: Request,
    },
    /// The server is free again.
    Serves,
    Replied {
        contender: usize,
        answer: Reply,
    },
    /// The node that a contender watches was deleted.
    Notified {
        contender: usize,
    },
    /// The contender's wait for its batch is over.
    Joins {
        contender: usize,
    },
    /// A contender has the hold that another contender of its session has handed over.
    HandedOver {
        contender: usize,
    },
    /// A member of a cohort has the hold that another member has handed over.
    HandedOverInCohort {
        session: usize,
        member: MemberId,
    },
}

/// The members of a session that is a cohort. One of them at a time contends.
#[derive(Debug, Default)]
struct Members {
    cohort: Cohort,
    /// The member that has the turn, and the contender that is its place in the queue.
    turn: Option<(MemberId, usize)>,
}

/// A drain under way.
struct Drain {
    recipe: Recipe,
    now_ns: u64,
    times: SimulatedTimes,
    server: Server,
    is_serving: bool,
    agenda: Agenda<Happening>,
    /// The contenders of each session, as the protocol knows them.
    queues: Vec<SessionQueue>,
    /// The members of each session; empty unless the sessions are cohorts.
    members: Vec<Members>,
    contenders: Vec<SimulatedContender>,
    /// The index of each contender, by its session. There may be many sessions with one contender each.
    indexes: HashMap<(usize, ContenderId), usize>,
    /// The sessions of the waiters that have yet to ask, in the order in which they will.
    to_ask: Vec<usize>,
    /// The first holder, until all others wait.
    first: Option<usize>,
    released_ns: Option<u64>,
    began_ns: u64,
    ended_ns: u64,
    handovers_ms: Vec<f64>,
    granted: u32,
}

/// Simulates a drain of `waiters` over `sessions`. The seed decides the order of the waiters that ask at one instant.
pub(crate) fn drain(recipe: Recipe, waiters: u32, sessions: u32, seed: u32, model: &LatencyModel) -> Point {
    let sessions = sessions.min(waiters).max(1);
    let cohorts = if recipe == Recipe::Cohort { sessions } else { 0 };
    let mut order: Vec<usize> = (1..waiters as usize).collect();
    order.shuffle(&mut ChaCha8Rng::seed_from_u64(u64::from(seed)));
    let mut drain = Drain {
        recipe,
        now_ns: 0,
        times: SimulatedTimes::of(model),
        server: Server::new(recipe, model),
        is_serving: false,
        agenda: Agenda::new(),
        queues: (0..sessions).map(|_| SessionQueue::default()).collect(),
        members: (0..cohorts).map(|_| Members::default()).collect(),
        contenders: Vec::new(),
        indexes: HashMap::new(),
        to_ask: order.into_iter().map(|waiter| waiter % sessions as usize).collect(),
        first: None,
        released_ns: None,
        began_ns: 0,
        ended_ns: 0,
        handovers_ms: Vec::new(),
        granted: 0,
    };
    drain.request_lock(0);
    drain.run();
    assert_eq!(drain.granted, waiters, "BUG: a simulated waiter was never granted the lock");
    drain.server.tally.point(waiters, sessions, &drain.handovers_ms, drain.ended_ns - drain.began_ns)
}

impl Drain {
    fn run(&mut self) {
        loop {
            while let Some((at_ns, happening)) = self.agenda.next() {
                self.now_ns = at_ns;
                self.handle(happening);
            }
            // All messages are delivered, so all others wait for the first holder.
            let Some(contender) = self.first.take() else { return };
            self.began_ns = self.now_ns;
            self.let_go(contender);
        }
    }

    /// Handles an event of the simulation.
    fn handle(&mut self, happening: Happening) {
        match happening {
            Happening::Arrives { contender, request } => {
                self.server.arrive(self.contenders[contender].session, contender, request);
                if !std::mem::replace(&mut self.is_serving, true) {
                    // An event of its own, behind the arrivals of the same instant: all of them are served together.
                    self.at(0, Happening::Serves);
                }
            }
            Happening::Serves => self.serve(),
            Happening::Replied { contender, answer: Reply::Others { children, is_own_there } } => {
                let others = if is_own_there { Others::Children(children) } else { Others::OwnNodeGone };
                self.tell_cohort(contender, cohort::Event::SawOthers(others, Reliance::Sure));
            }
            Happening::Replied { contender, answer } => {
                if let Some(event) = self.contenders[contender].hear(self.recipe, answer) {
                    self.tell(contender, event);
                }
            }
            Happening::Notified { contender } => {
                self.tell(contender, Event::Fired { id: self.contenders[contender].id, is_gone: true });
            }
            Happening::Joins { contender } => {
                self.tell(contender, Event::Woke(self.contenders[contender].id, Pause::Join));
            }
            Happening::HandedOver { contender } => self.grant(contender),
            Happening::HandedOverInCohort { session, member } => self.use_turn(session, member),
        }
    }

    /// Lets the server serve the requests that have arrived, if there are any.
    fn serve(&mut self) {
        if !self.server.has_work() {
            self.is_serving = false;
            return;
        }
        let Drain { server, agenda, times, now_ns, .. } = self;
        let until_ns = server.serve(*now_ns, |left_ns, contender, packet| {
            let happening = match packet {
                Packet::Reply(answer) => Happening::Replied { contender, answer },
                Packet::Notification => Happening::Notified { contender },
            };
            agenda.enter(left_ns + times.way_ns, happening);
        });
        agenda.enter(until_ns, Happening::Serves);
    }

    fn at(&mut self, in_ns: u64, happening: Happening) {
        self.agenda.enter(self.now_ns + in_ns, happening);
    }

    fn send(&mut self, contender: usize, request: Request) {
        self.at(self.times.way_ns, Happening::Arrives { contender, request });
    }

    /// Lets a waiter ask for the lock: as a contender, or as a member of its session's cohort.
    fn request_lock(&mut self, session: usize) {
        if self.recipe != Recipe::Cohort {
            self.enter_queue(session);
            return;
        }
        let cohort = &mut self.members[session].cohort;
        let member = cohort.enter(Bounds::DEFAULT);
        if cohort.state(member) == cohort::MemberState::Begins {
            self.use_turn(session, member);
        }
    }

    /// Adds a contender to the queue of a session.
    fn enter_queue(&mut self, session: usize) -> usize {
        let mut asks = Vec::new();
        let id = self.queues[session].enter(wish(self.recipe), &mut asks);
        let contender = self.contenders.len();
        self.indexes.insert((session, id), contender);
        self.contenders.push(SimulatedContender::new(session, id));
        self.carry_out(session, asks);
        contender
    }

    /// Tells the queue of a contender's session what has happened.
    fn tell(&mut self, contender: usize, event: Event) {
        let mut asks = Vec::new();
        let session = self.contenders[contender].session;
        self.queues[session].on(event, &mut asks);
        self.carry_out(session, asks);
    }

    /// Sends everything that a queue asks for, before the queue is told anything else.
    fn carry_out(&mut self, session: usize, asks: Vec<Ask>) {
        let mut then = Vec::new();
        for ask in asks {
            let Some(id) = ask.contender() else { unreachable!("BUG: {ask:?} in a queue in which nothing is odd") };
            let contender = self.indexes[&(session, id)];
            match self.contenders[contender].carry_out(ask) {
                Deed::Send(requests) => requests.into_iter().for_each(|request| self.send(contender, request)),
                Deed::Join => self.at(u64::from(Pause::JOIN.subsec_nanos()), Happening::Joins { contender }),
                Deed::Answer(event) => then.push((contender, Some(event))),
                Deed::Notice => then.push((contender, None)),
            }
        }
        for (contender, event) in then {
            match event {
                Some(event) => self.tell(contender, event),
                None => self.notice(contender),
            }
        }
    }

    /// Reacts to a new state of a contender.
    fn notice(&mut self, contender: usize) {
        let SimulatedContender { session, id, .. } = self.contenders[contender];
        match self.queues[session].state(id) {
            ContenderState::Holding { handed_over_by: Some(_), .. } => {
                self.at(self.times.handover_ns, Happening::HandedOver { contender });
            }
            ContenderState::Holding { handed_over_by: None, .. } => self.grant(contender),
            ContenderState::Over(_) => {
                self.queues[session].forget(id);
                self.indexes.remove(&(session, id));
                self.ended_ns = self.ended_ns.max(self.now_ns);
                self.tell_cohort(contender, cohort::Event::Released);
            }
            _ => {}
        }
    }

    /// Grants the lock to a contender.
    fn grant(&mut self, contender: usize) {
        self.tell_cohort(contender, cohort::Event::Granted);
        self.begin_hold(contender);
    }

    /// Begins a hold, and ends it at once. The first of all holders waits until all others wait.
    fn begin_hold(&mut self, contender: usize) {
        self.granted += 1;
        if let Some(released_ns) = self.released_ns {
            self.handovers_ms.push(ns_to_ms(self.now_ns - released_ns));
            self.let_go(contender);
            return;
        }
        self.first = Some(contender);
        for session in std::mem::take(&mut self.to_ask) {
            self.request_lock(session);
        }
    }

    /// Lets the holder hand the lock over within its process, or release it.
    fn let_go(&mut self, contender: usize) {
        self.released_ns = Some(self.now_ns);
        if self.recipe == Recipe::Cohort {
            self.tell_cohort(contender, cohort::Event::LetsGo(Reliance::Sure));
        } else {
            self.release(contender);
        }
    }

    fn release(&mut self, contender: usize) {
        let id = self.contenders[contender].id;
        self.tell(contender, Event::Leaves { id, hands_over: true, is_node_gone: false });
    }

    /// Tells a cohort what has happened to the member that has the turn, if this contender is its place in the queue.
    fn tell_cohort(&mut self, contender: usize, event: cohort::Event) {
        let session = self.contenders[contender].session;
        let Some((member, _)) =
            self.members.get(session).and_then(|members| members.turn).filter(|(_, place)| *place == contender)
        else {
            return;
        };
        let mut asks = Vec::new();
        let now = Duration::from_nanos(self.now_ns);
        self.members[session].cohort.on(member, event, now, &mut asks);
        for ask in asks {
            match ask {
                cohort::Ask::LookForOthers => {
                    self.send(contender, Request::Others(self.contenders[contender].number()))
                }
                cohort::Ask::Release => self.release(contender),
                cohort::Ask::Wake(next) if self.members[session].cohort.state(next) == cohort::MemberState::Takes => {
                    // The next member takes over the place of the last one in the queue, without a request.
                    self.members[session].turn = Some((next, contender));
                    self.at(self.times.handover_ns, Happening::HandedOverInCohort { session, member: next });
                }
                cohort::Ask::Wake(next) => self.use_turn(session, next),
                cohort::Ask::Lose | cohort::Ask::GiveUp => unreachable!("BUG: a simulated hold is lost"),
                cohort::Ask::WatchQueue | cohort::Ask::Keep => unreachable!("BUG: a simulated hold lingers"),
            }
        }
    }

    /// Lets a member that has the turn ask, hold or continue, as its turn says.
    fn use_turn(&mut self, session: usize, member: MemberId) {
        let taken = self.members[session].turn.filter(|(of, _)| *of == member);
        if let Some((_, contender)) = taken {
            self.tell_cohort(contender, cohort::Event::Looked(Reliance::Sure));
            self.begin_hold(contender);
            return;
        }
        let contender = self.enter_queue(session);
        self.members[session].turn = Some((member, contender));
        self.tell_cohort(contender, cohort::Event::Queues);
    }
}
