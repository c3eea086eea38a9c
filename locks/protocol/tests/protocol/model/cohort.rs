//! A model of a cohort as the library runs it: contenders of one session arrive, hold, hand over and leave in every order.
//!
//! The lock behind the cohort is a plain queue of nodes. The model in [`world`](super::world) shows that this is sufficient.
//! Another process contends for the lock, too.
//!
//! # Faults
//!
//! Each may happen at any moment:
//!
//! * A contender gives up, or its hold is dropped.
//! * A holder takes the whole time that the bounds allow.
//! * The connection is lost, and comes back.
//! * Holds are lost by silence.
//! * The server expires the session, and its client learns of that.
//! * Somebody deletes a node of the cohort.
//!
//! A hold may linger. Then its time may end at any moment, a notification arrives at any moment after its cause, and the last
//! object that stands for the lock is dropped. Somebody may ask for the lock.

mod process;

use std::time::Duration;

use stateright::{Model, Property};
use zk_recipes_protocol::cohort::{Bounds, MemberState};

use self::process::{NodeMaker, Passed, Phase, Process};

pub(crate) const ALONE: &str = "a contender with a hold that is not lost has the lock alone";
pub(crate) const ONE_TURN: &str = "at most one contender has the turn";
pub(crate) const ORDER: &str = "the cohort's grants go in the order of arrival";
pub(crate) const TOKENS: &str = "tokens grow";
pub(crate) const BOUND: &str = "the hand-overs that pass over another process are bounded";
pub(crate) const SURE: &str =
    "no contender takes over a suspect or lost hold, and a lost hold is released without a hand-over";
pub(crate) const UNSPOILT: &str = "a deleted node fails at most one contender";
pub(crate) const ENDED: &str =
    "waiting contenders are told that the session has ended, even if the holder does not release";
pub(crate) const SERVED: &str = "every contender is served once the holders release";
pub(crate) const YIELDS: &str = "a hold that somebody has asked for does not linger";
pub(crate) const CLEAN: &str = "after the last contender, the turn is free and no node is left";

/// The time that the bounds allow a cohort.
const MAX_TENURE: Duration = Duration::from_secs(1);

/// The time for which a hold lingers.
const LINGER: Duration = Duration::from_secs(1);

/// Upper bound of the losses of holds while the session lives.
const LOSSES_MAX: u8 = 2;

/// What a contender wants.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Program {
    /// It waits for the lock.
    Lock,
    /// It takes the lock if no other contender is in the way.
    Try,
}

/// The faults of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Faults {
    /// Futures and guards are dropped.
    pub(crate) drops: bool,
    /// The connection is lost and comes back, holds are lost by silence, the session expires.
    pub(crate) losses: bool,
    /// How many nodes somebody deletes.
    pub(crate) deletions: u8,
    /// How often a holder takes the whole time that the bounds allow.
    pub(crate) slow: u8,
    /// How often somebody asks for the lock, by a revocation request.
    pub(crate) requests: u8,
}

/// Contenders, their bound, and their faults.
#[derive(Clone, Debug)]
pub(crate) struct CohortModel {
    pub(crate) programs: Vec<Program>,
    pub(crate) max_handovers: u32,
    pub(crate) faults: Faults,
    /// Whether a hold lingers that no contender wants.
    pub(crate) lingers: bool,
    /// Whether the shell wrongly takes the time of a hand-over for the time of the grant. That does no harm, because a contender
    /// looks at a hold before it takes it.
    pub(crate) forgets_age: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Action {
    Come(usize),
    Step(usize),
    Release(usize),
    /// A future or a guard is dropped, in any state.
    Drop(usize),
    /// The reaper deletes a node.
    Reap(u8),
    OtherComes,
    OtherReleases,
    TimePasses,
    Disconnect,
    Reconnect,
    LoseHolds,
    Expire,
    End,
    Delete(u8),
    /// Somebody asks for the lock, at this node.
    Request(u8),
    /// The notification of a watch arrives.
    Notify(usize),
    LingerEnds,
    /// The last object that stands for the lock is dropped.
    Forget,
}

impl Faults {
    pub(crate) const NONE: Self = Self { drops: false, losses: false, deletions: 0, slow: 0, requests: 0 };
    /// All faults but requests. A hold that does not linger takes no notice of them.
    pub(crate) const ALL: Self = Self { drops: true, losses: true, deletions: 1, slow: 1, requests: 0 };
    pub(crate) const DROPS: Self = Self { drops: true, ..Self::NONE };
}

impl CohortModel {
    pub(crate) fn new(programs: &[Program], faults: Faults) -> Self {
        Self { programs: programs.to_vec(), max_handovers: 1, faults, lingers: false, forgets_age: false }
    }

    /// Returns a lab in which holds linger.
    pub(crate) fn lingering(programs: &[Program], faults: Faults) -> Self {
        Self { lingers: true, ..Self::new(programs, faults) }
    }

    fn bounds(&self) -> Bounds {
        let linger = if self.lingers { LINGER } else { Duration::ZERO };
        Bounds { max_handovers: self.max_handovers, max_tenure: MAX_TENURE, linger }
    }

    /// Lists what happens sooner or later, even if no holder releases.
    fn progress(state: &Process, actions: &mut Vec<Action>) {
        let able = (0..state.members.len()).filter(|i| state.can_step(*i));
        actions.extend(able.map(Action::Step));
        actions.extend(state.abandoned.iter().map(|node| Action::Reap(*node)));
        let fired = state.watches.iter().enumerate().filter(|(_, watch)| watch.has_fired);
        actions.extend(fired.map(|(watch, _)| Action::Notify(watch)));
        if state.is_suspect {
            actions.push(Action::Reconnect);
        }
        if state.is_expired && !state.is_ended {
            actions.push(Action::End);
        }
        if state.is_ended && !state.is_expired {
            actions.push(Action::Expire);
        }
    }

    /// Lists what happens when nothing goes wrong any more.
    fn work(state: &Process, actions: &mut Vec<Action>) {
        Self::progress(state, actions);
        for (i, member) in state.members.iter().enumerate() {
            match member.phase {
                Phase::Away => actions.push(Action::Come(i)),
                Phase::In { .. } if state.holds(i) => actions.push(Action::Release(i)),
                _ => {}
            }
        }
        if !state.is_other_done {
            let is_there = state.nodes.iter().any(|(_, owner)| *owner == NodeMaker::Other);
            match state.nodes.first() {
                Some((_, NodeMaker::Other)) => actions.push(Action::OtherReleases),
                _ if !is_there => actions.push(Action::OtherComes),
                _ => {}
            }
        }
    }

    fn faults(&self, state: &Process, actions: &mut Vec<Action>) {
        let Faults { drops, losses, .. } = self.faults;
        let is_in = |i: &usize| matches!(state.members[*i].phase, Phase::In { .. });
        let members = 0..state.members.len();
        if drops {
            actions.extend(members.clone().filter(is_in).map(Action::Drop));
            actions.extend((state.lingers() && !members.clone().any(|i| is_in(&i))).then_some(Action::Forget));
        }
        if state.left.slow > 0 && members.clone().any(|i| state.holds(i)) {
            actions.push(Action::TimePasses);
        }
        if losses && !state.is_ended {
            actions.push(Action::End);
            actions.extend((state.losses < LOSSES_MAX).then_some(Action::LoseHolds));
            actions.extend((!state.is_suspect).then_some(Action::Disconnect));
            // A hold is lost before the server can expire its session. The model of the clocks shows that.
            let is_lost = |had: &Passed| !matches!(had, Passed::Hold { .. }) || state.is_lost(*had);
            let are_lost = state.had().all(|had| is_lost(&had));
            actions.extend((!state.is_expired && are_lost).then_some(Action::Expire));
        }
        let of_cohort = state.nodes.iter().filter(|(_, owner)| *owner == NodeMaker::Cohort).map(|(node, _)| *node);
        if state.left.deletions > 0 {
            actions.extend(of_cohort.clone().map(Action::Delete));
        }
        if state.left.requests > 0 {
            actions.extend(of_cohort.map(Action::Request));
        }
    }
}

impl Model for CohortModel {
    type State = Process;
    type Action = Action;

    fn init_states(&self) -> Vec<Process> {
        vec![Process::new(self)]
    }

    fn actions(&self, state: &Process, actions: &mut Vec<Action>) {
        Self::work(state, actions);
        self.faults(state, actions);
        // Not part of the work: other contenders must be served before.
        actions.extend(state.lingers().then_some(Action::LingerEnds));
    }

    fn next_state(&self, last: &Process, action: Action) -> Option<Process> {
        let mut next = last.clone();
        match action {
            Action::Come(i) => next.come(i, self.programs[i], self.bounds()),
            Action::Step(i) => next.step(i),
            Action::Release(i) => next.release(i),
            Action::Drop(i) => next.leave(i),
            Action::Reap(node) => next.delete(node),
            Action::OtherComes => {
                next.create(NodeMaker::Other);
            }
            Action::OtherReleases => {
                let (node, _) = next.nodes[0];
                next.delete(node);
                next.grant_token((node, 0));
                next.is_other_done = true;
            }
            Action::TimePasses => {
                next.left.slow -= 1;
                next.now += MAX_TENURE;
            }
            Action::Disconnect => {
                next.is_suspect = true;
                next.fire_watches();
            }
            Action::Reconnect => next.is_suspect = false,
            Action::LoseHolds => next.losses += 1,
            Action::Expire => {
                next.is_expired = true;
                next.nodes.retain(|(_, owner)| *owner == NodeMaker::Other);
                next.abandoned.clear();
            }
            Action::End => next.end(),
            Action::Delete(node) => {
                next.left.deletions -= 1;
                next.delete(node);
                next.deleted.insert(node);
            }
            Action::Request(node) => next.request(node),
            Action::Notify(watch) => next.notify(watch),
            Action::LingerEnds => next.end_linger(),
            Action::Forget => next.forget(),
        }
        (next != *last).then_some(next)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        vec![
            Property::always(ALONE, holders_have_the_lock_alone),
            Property::always(ONE_TURN, |_, state: &Process| {
                (0..state.members.len()).filter(|i| state.has_lease_lock(*i)).count() <= 1
            }),
            Property::always(ORDER, |_, state: &Process| !state.mistakes.overtaken),
            Property::always(TOKENS, |_, state: &Process| !state.mistakes.token_shrank),
            Property::always(BOUND, |lab: &Self, state: &Process| {
                u32::from(state.passed_over) <= lab.max_handovers.max(1)
            }),
            Property::always(SURE, |_, state: &Process| {
                !state.mistakes.took_what_was_unsure && !state.mistakes.loss_untold
            }),
            Property::always(UNSPOILT, |_, state: &Process| usize::from(state.failures) <= state.deleted.len()),
            Property::always(ENDED, |_, state: &Process| {
                let mut actions = Vec::new();
                Self::progress(state, &mut actions);
                let waits = (0..state.members.len()).any(|i| state.sleeps(i));
                !state.is_ended || !waits || !actions.is_empty()
            }),
            Property::always(SERVED, |_, state: &Process| {
                let mut actions = Vec::new();
                Self::work(state, &mut actions);
                !actions.is_empty() || state.is_done()
            }),
            Property::always(YIELDS, |_, state: &Process| !state.lingers_against_a_request()),
            Property::always(CLEAN, |lab: &Self, state: &Process| {
                let is_over = state.is_done() && state.abandoned.is_empty() && !state.lingers();
                !is_over || state.nodes.is_empty() && state.cohort.clone().enter_at_once(lab.bounds()).is_some()
            }),
            Property::sometimes("a hold is handed over", |_, state: &Process| {
                (0..state.members.len()).any(|i| matches!(state.state(i), Some(MemberState::Holds { handovers: 1.. })))
            }),
            Property::sometimes("a place in the queue goes to the next contender", |_, state: &Process| {
                matches!(state.passed, Passed::Place { .. })
            }),
            Property::sometimes("a hold lingers, if it may", |lab: &Self, state: &Process| {
                state.lingers() || !lab.lingers
            }),
        ]
    }
}

/// Tells whether at most one contender holds, by the first node of the queue. Lost holds do not count, and neither do holds whose
/// node somebody deleted.
fn holders_have_the_lock_alone(_: &CohortModel, state: &Process) -> bool {
    let held = (0..state.members.len()).filter(|i| state.holds(*i)).filter_map(|i| match state.members[i].had {
        had @ Passed::Hold { node, .. } if !state.is_lost(had) && !state.deleted.contains(&node) => Some(node),
        _ => None,
    });
    let held: Vec<u8> = held.collect();
    held.len() <= 1 && held.iter().all(|node| state.nodes.first() == Some(&(*node, NodeMaker::Cohort)))
}
