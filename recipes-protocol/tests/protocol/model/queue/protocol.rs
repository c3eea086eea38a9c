//! The protocol: who can do what next, and what becomes of it.

use stateright::{Model, Property};
use zk_recipes_protocol::predecessors::Predecessors;

use super::contender::{Claim, Phase, Unordered};
use super::properties;
use super::rules::Rules;
use super::server::{self, Kind, Program, Slot, State};
use super::steps::{self, delete_named};

/// What may go wrong, or may be wished by a user, at any moment.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Faults {
    /// Replies to writes that are lost, the write being applied or not. `None` for any number.
    pub(super) replies_lost_max: Option<u8>,
    /// Futures and guards are dropped, deadlines pass.
    pub(super) cancels: bool,
    /// Processes die, and their sessions expire later.
    pub(super) crashes: bool,
    /// Sessions of living processes are silent for so long that they are lost, and may expire.
    pub(super) expiries: bool,
    /// Somebody deletes nodes of waiters; of leases, which are created again, at most one.
    pub(super) deletions: bool,
    /// Watches fire although nothing was deleted.
    pub(super) touches: bool,
    /// How often the node whose children queue is deleted, when it is empty, and created again.
    pub(super) new_parents_max: u8,
    /// A session is replaced by another while a reply is outstanding. The library never does that; clients that
    /// reconnect by themselves do.
    pub(super) renewals: bool,
}

impl Faults {
    /// Everything that the library must stand, in any number.
    pub(super) const ALL: Self = Self {
        replies_lost_max: None,
        cancels: true,
        crashes: true,
        expiries: true,
        deletions: true,
        touches: true,
        new_parents_max: 0,
        renewals: false,
    };
    pub(super) const NONE: Self = Self {
        replies_lost_max: Some(0),
        cancels: false,
        crashes: false,
        expiries: false,
        deletions: false,
        touches: false,
        new_parents_max: 0,
        renewals: false,
    };
    /// What the library must stand, with fewer of them so that four contenders can be followed.
    pub(super) const FEW: Self = Self { replies_lost_max: Some(1), cancels: true, expiries: true, ..Self::NONE };
}

/// One queue, with those who want it.
#[derive(Clone)]
pub(super) struct Protocol {
    pub(super) programs: Vec<Program>,
    pub(super) permits: usize,
    /// How many of the contenders share a session: the first.
    pub(super) kin: usize,
    pub(super) faults: Faults,
    pub(super) rules: Rules,
    /// Whether contenders may rely on their numbers.
    pub(super) expects: bool,
}

/// Something that happens. The number is the index of the contender that it happens to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Action {
    /// A request is sent, applied and answered, and the contender acts on the answer.
    Step(usize),
    /// The contender asks for those that it has seen ahead, instead of listing the queue.
    Probe(usize),
    /// The contender knows of a grant that it may turn out to follow, and sends its `create`.
    Expect(usize),
    /// The contender knows the one directly ahead, as it is of its own session, and watches it instead of listing the queue.
    Meet(usize),
    /// A write is lost on the way, or its reply is.
    LoseReply {
        client: usize,
        slot: Slot,
        applied: bool,
    },
    /// The notification of a watch arrives.
    Wake(usize),
    /// The user has done what it wanted the lock for: it releases, or downgrades.
    Proceed(usize),
    /// As `Proceed`, and the lock goes at once to the one directly behind, of the same session.
    Pass(usize),
    /// One deletion, or the search that it needs first.
    Remove(usize, Slot),
    /// A future or guard is dropped, or a deadline has passed.
    GiveUp(usize),
    Crash(usize),
    /// The client's clock says that the session may have expired.
    LoseHold(usize),
    /// The server's clock says that the session has expired.
    Expire(usize),
    /// As `Expire`, of a session that was replaced.
    ExpireReplaced(usize),
    Renew(usize),
    /// Somebody deletes the node by hand.
    Delete(usize, Slot),
    /// The watched node changes.
    Touch(usize),
    /// The node whose children queue is deleted and created again.
    BeginAnew,
}

impl Protocol {
    pub(super) fn new(programs: &[Program], faults: Faults) -> Self {
        Self { programs: programs.to_vec(), permits: 2, kin: 0, faults, rules: Rules::default(), expects: false }
    }

    /// With contenders that may rely on their numbers.
    pub(super) fn expecting(self) -> Self {
        Self { expects: true, ..self }
    }

    pub(super) fn with_permits(self, permits: usize) -> Self {
        Self { permits, ..self }
    }

    pub(super) fn with_kin(self, kin: usize) -> Self {
        Self { kin, ..self }
    }

    pub(super) fn with_rules(self, rules: Rules) -> Self {
        Self { rules, ..self }
    }

    /// What will happen sooner or later: whoever can take a step takes it, notifications arrive, and the sessions of the
    /// dead expire.
    pub(super) fn progress(&self, state: &State, actions: &mut Vec<Action>) {
        for (i, client) in state.clients.iter().enumerate() {
            match &client.phase {
                _ if client.ended => actions.push(Action::Step(i)),
                Phase::Create(Slot::First) => {
                    actions.push(Action::Step(i));
                    if self.may_expect(state, i) {
                        actions.push(Action::Expect(i));
                    }
                }
                Phase::Look
                | Phase::Create(_)
                | Phase::Find(_)
                | Phase::ReadNote { .. }
                | Phase::ReadNoteOf(_)
                | Phase::CheckOwn
                | Phase::Probe(_)
                | Phase::List(Slot::Second | Slot::Third)
                | Phase::Watch(..)
                | Phase::WatchLeases
                | Phase::Unlock => actions.push(Action::Step(i)),
                Phase::List(Slot::First) => {
                    actions.push(Action::Step(i));
                    let waits = client.program.may_probe() && !client.program.only_tries();
                    if waits && steps::directly_ahead(state, i).is_some() {
                        actions.push(Action::Meet(i));
                    }
                }
                Phase::Again => {
                    actions.push(Action::Step(i));
                    if steps::ahead_now(state, i).is_complete() && client.program.may_probe() {
                        actions.push(Action::Probe(i));
                    }
                }
                Phase::Sleep(kind, number) if !state.has_for(i, *kind, *number) => actions.push(Action::Wake(i)),
                Phase::SleepOnLeases { changed: true } => actions.push(Action::Wake(i)),
                Phase::Clean => {
                    let claimed = Slot::ALL.into_iter().filter(|slot| client.claim(*slot) != Claim::Disarmed);
                    actions.extend(claimed.map(|slot| Action::Remove(i, slot)));
                }
                Phase::Kept if client.run.is_none() && !client.heir.is_some_and(|heir| state.goes_on(heir.run)) => {
                    actions.push(Action::Step(i));
                }
                Phase::Dead => actions.push(Action::Expire(i)),
                _ => {}
            }
            if client.nodes.iter().any(|node| node.session != client.session) {
                actions.push(Action::ExpireReplaced(i));
            }
        }
    }

    /// Whether a contender may send its `create` and no look with it.
    fn may_expect(&self, state: &State, i: usize) -> bool {
        let client = &state.clients[i];
        let is_named_by_prefix = client.program.may_probe() && client.program != Program::Handoff;
        let is_open = is_named_by_prefix && client.expected.0.is_none() && client.claim(Slot::First) == Claim::Disarmed;
        self.expects && is_open && state.uncontended.expected().is_some()
    }

    /// What users do who hold, if they do anything.
    fn proceeding(state: &State, actions: &mut Vec<Action>) {
        for (i, client) in state.clients.iter().enumerate() {
            let holds = matches!(client.phase, Phase::Hold | Phase::HoldBoth | Phase::Unlock | Phase::HoldSecond);
            if holds && !client.ended {
                actions.push(Action::Proceed(i));
            }
            if client.phase == Phase::Hold && !client.lost && !client.ended && state.follower(i).is_some() {
                actions.push(Action::Pass(i));
            }
        }
    }

    /// All that happens when nothing goes wrong any more.
    pub(super) fn work(&self, state: &State, actions: &mut Vec<Action>) {
        self.progress(state, actions);
        Self::proceeding(state, actions);
    }

    /// What may go wrong.
    fn faults(&self, state: &State, actions: &mut Vec<Action>) {
        let faults = &self.faults;
        if state.incarnation < faults.new_parents_max && state.nodes(Kind::Lock).next().is_none() {
            actions.push(Action::BeginAnew);
        }
        let losing = faults.replies_lost_max.is_none_or(|max| state.replies_lost < max);
        for (i, client) in state.clients.iter().enumerate() {
            let phase = &client.phase;
            if matches!(phase, Phase::Done | Phase::Dead) || client.ended {
                continue;
            }
            for slot in Slot::ALL.into_iter().filter(|_| losing) {
                let deletes = matches!(client.claim(slot), Claim::Named(_) | Claim::Found(_));
                let writes = match phase {
                    Phase::Create(of) => *of == slot,
                    Phase::Unlock => slot == Slot::First,
                    Phase::Clean => deletes,
                    _ => false,
                };
                if writes {
                    actions.extend([true, false].map(|applied| Action::LoseReply { client: i, slot, applied }));
                }
            }
            if faults.cancels && !matches!(phase, Phase::Clean | Phase::Kept) {
                actions.push(Action::GiveUp(i));
            }
            if faults.crashes {
                actions.push(Action::Crash(i));
            }
            if faults.expiries && client.hold().is_some() {
                actions.push(Action::LoseHold(i));
            }
            let session = state.session_of(i);
            let nobody_holds = session.iter().all(|member| state.clients[*member].hold().is_none());
            if faults.expiries && (nobody_holds || !self.rules.loses_before_expiry) {
                actions.push(Action::Expire(i));
            }
            let waits = client.is_asleep()
                || matches!(
                    phase,
                    Phase::List(_)
                        | Phase::Again
                        | Phase::ReadNote { .. }
                        | Phase::ReadNoteOf(_)
                        | Phase::CheckOwn
                        | Phase::Probe(_)
                        | Phase::Watch(..)
                        | Phase::WatchLeases
                );
            if faults.deletions && waits && client.hold().is_none() {
                let deletable = |slot: &Slot| *slot == Slot::First || state.leases_deleted == 0;
                let there = Slot::ALL.into_iter().filter(|slot| client.node(*slot).is_some());
                actions.extend(there.filter(deletable).map(|slot| Action::Delete(i, slot)));
            }
            if faults.touches && matches!(phase, Phase::Sleep(..)) {
                actions.push(Action::Touch(i));
            }
            if faults.renewals && *phase == Phase::Find(Slot::First) && client.session == 0 {
                actions.push(Action::Renew(i));
            }
        }
    }
}

impl Model for Protocol {
    type State = State;
    type Action = Action;

    fn init_states(&self) -> Vec<State> {
        vec![State::new(&self.programs, self.kin)]
    }

    fn actions(&self, state: &State, actions: &mut Vec<Action>) {
        self.work(state, actions);
        self.faults(state, actions);
    }

    fn next_state(&self, last: &State, action: Action) -> Option<State> {
        let mut next = last.clone();
        match action {
            Action::Step(i) => self.step(&mut next, i),
            Action::LoseReply { client, slot, applied } => self.lose_reply(&mut next, client, slot, applied),
            Action::Probe(i) => {
                next.clients[i].seen = Unordered(steps::ahead_now(&next, i));
                next.clients[i].phase = Phase::Probe(vec![]);
            }
            Action::Expect(i) => next.clients[i].expected = Unordered(next.uncontended.expected()),
            Action::BeginAnew => next.begin_anew(),
            Action::Meet(i) => {
                if let Some((kind, number)) = steps::directly_ahead(&next, i) {
                    let name = server::name_for_others(kind, number);
                    next.clients[i].seen = Unordered(Predecessors::directly(server::sequence(number), name));
                    next.clients[i].phase = Phase::Watch(kind, number);
                }
            }
            Action::Wake(i) => next.clients[i].wake(),
            Action::Touch(i) => {
                if let Phase::Sleep(kind, number) = next.clients[i].phase {
                    next.clients[i].phase = Phase::Watch(kind, number);
                }
            }
            Action::Proceed(i) => {
                let client = &mut next.clients[i];
                match (&client.phase, client.program) {
                    (Phase::Hold, Program::Downgrade) if !client.lost => client.phase = Phase::Create(Slot::Second),
                    (Phase::HoldBoth, _) => client.phase = Phase::Unlock,
                    _ => next.give_up(i),
                }
            }
            Action::Pass(i) => self.pass(&mut next, i),
            Action::Remove(i, slot) => self.remove(&mut next, i, slot),
            Action::GiveUp(i) => next.give_up(i),
            Action::Crash(i) => {
                for member in next.session_of(i) {
                    let is_finished = next.clients[member].phase == Phase::Done;
                    next.clients[member].end();
                    next.clients[member].phase = if is_finished { Phase::Done } else { Phase::Dead };
                }
            }
            Action::LoseHold(i) => next.clients[i].lost = true,
            Action::Expire(i) => {
                for i in next.session_of(i) {
                    let session = next.clients[i].session;
                    next.delete(i, |node| node.session == session);
                    // Whoever does not think to hold has no way to do harm before it is told, as its requests are refused.
                    match next.clients[i].hold() {
                        Some(_) => next.clients[i].ended = true,
                        None => next.clients[i].end(),
                    }
                }
            }
            Action::ExpireReplaced(i) => {
                let session = next.clients[i].session;
                next.delete(i, |node| node.session != session);
            }
            Action::Renew(i) => next.clients[i].session += 1,
            Action::Delete(i, slot) => {
                next.leases_deleted += u8::from(slot != Slot::First);
                delete_named(&mut next, i, slot);
            }
        }
        next.clients.sort_unstable();
        (next != *last).then_some(next)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        properties::of(self)
    }
}
