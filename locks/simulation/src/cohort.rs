//! A model of a cohort as the library runs it: contenders of one session arrive, hold, hand over and leave in every order.
//!
//! The lock behind the cohort is a plain queue of nodes. The model in [`queue`](super::queue) shows that this is sufficient.
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

use campaign::{Sights, rules, sights};
use zk_recipes_protocol::cohort::Bounds;

use self::process::{NodeMaker, Passed, Phase, Process};
use super::model::{Model, Rule};

rules! {
    ALONE: "a contender with a hold that is not lost has the lock alone",
    ONE_TURN: "at most one contender has the turn",
    ORDER: "the cohort's grants go in the order of arrival",
    TOKENS: "tokens grow",
    BOUND: "the hand-overs that pass over another process are bounded",
    SURE: "no contender takes over a suspect or lost hold, and a lost hold is released without a hand-over",
    UNSPOILT: "a deleted node fails at most one contender",
    ENDED: "waiting contenders are told that the session has ended, even if the holder does not release",
    SERVED: "every contender is served once the holders release",
    YIELDS: "a hold that somebody has asked for does not linger",
    CLEAN: "after the last contender, the turn is free and no node is left",
}

sights! {
    HandedOver: "a hold is handed over",
    PlacePassed: "a place in the queue goes to the next contender",
    Lingers: "a hold lingers",
    TakenAgain: "a hold that lingered is taken again",
    Requested: "somebody asks for a hold",
    ChainOfFive: "a hold is handed over five times in a row",
    OtherWaits: "another process waits behind the cohort",
    Bound: "a cohort lets another process in because of its bound",
    Suspect: "a contender waits while the connection is lost",
    LostHold: "a hold is lost while a contender waits behind it",
    NodeDeleted: "a contender learns that its node was deleted",
    Ended: "waiting contenders learn that the session has ended",
    Reaped: "the reaper deletes a node",
    Crowd: "eight contenders are there at once",
}

/// The time that the bounds allow a cohort.
const MAX_TENURE: Duration = Duration::from_secs(1);

/// The time for which a hold lingers.
const LINGER: Duration = Duration::from_secs(1);

/// Upper bound of the losses of holds while the session lives.
const LOSSES_MAX: u8 = 2;

/// What a contender wants.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Program {
    /// It waits for the lock.
    Lock,
    /// It takes the lock if no other contender is in the way.
    Try,
}

/// The faults of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Faults {
    /// Futures and guards are dropped.
    pub drops: bool,
    /// The connection is lost and comes back, holds are lost by silence, the session expires.
    pub losses: bool,
    /// How many nodes somebody deletes.
    pub deletions: u8,
    /// How often a holder takes the whole time that the bounds allow.
    pub slow: u8,
    /// How often somebody asks for the lock, by a revocation request.
    pub requests: u8,
}

/// Contenders, their bound, and their faults.
#[allow(missing_docs, reason = "the names say it")]
#[derive(Clone, Debug)]
pub struct CohortModel {
    pub programs: Vec<Program>,
    pub max_handovers: u32,
    pub faults: Faults,
    /// How often each contender comes again.
    pub returns: u8,
    /// Whether a hold lingers that no contender wants.
    pub lingers: bool,
    /// Whether the shell wrongly takes the time of a hand-over for the time of the grant. That does no harm, because a contender
    /// looks at a hold before it takes it.
    pub forgets_age: bool,
}

/// What may happen next.
#[allow(missing_docs, reason = "the names say it")]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
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

#[allow(missing_docs, reason = "the names say it")]
impl Faults {
    pub const NONE: Self = Self { drops: false, losses: false, deletions: 0, slow: 0, requests: 0 };
    /// All faults but requests. A hold that does not linger takes no notice of them.
    pub const ALL: Self = Self { drops: true, losses: true, deletions: 1, slow: 1, requests: 0 };
    pub const DROPS: Self = Self { drops: true, ..Self::NONE };
}

#[allow(missing_docs, reason = "the names say it")]
impl CohortModel {
    pub fn new(programs: &[Program], faults: Faults) -> Self {
        Self { programs: programs.to_vec(), max_handovers: 1, faults, returns: 0, lingers: false, forgets_age: false }
    }

    /// Returns a model in which holds linger.
    pub fn lingering(programs: &[Program], faults: Faults) -> Self {
        Self { lingers: true, ..Self::new(programs, faults) }
    }

    fn bounds(&self) -> Bounds {
        let linger = if self.lingers { LINGER } else { Duration::ZERO };
        Bounds { max_handovers: self.max_handovers, max_tenure: MAX_TENURE, linger }
    }

    /// Lists what happens sooner or later, even if no holder releases and nobody comes.
    fn go_on_alone(state: &Process, actions: &mut Vec<Action>) {
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
}

impl Model for CohortModel {
    type State = Process;
    type Action = Action;

    const SIGHTS: &'static [&'static str] = Sight::NAMES;
    const PATIENCE: u64 = 40;
    const RULES: &'static [Rule<Self>] = &[
        Rule::new(ALONE, holders_have_the_lock_alone),
        Rule::new(ONE_TURN, |_, state: &Process| (0..state.members.len()).filter(|i| state.has_turn(*i)).count() <= 1),
        Rule::new(ORDER, |_, state: &Process| !state.mistakes.overtaken),
        Rule::new(TOKENS, |_, state: &Process| !state.mistakes.token_shrank),
        Rule::new(BOUND, |model: &Self, state: &Process| u32::from(state.passed_over) <= model.max_handovers.max(1)),
        Rule::new(SURE, |_, state: &Process| !state.mistakes.took_what_was_unsure && !state.mistakes.loss_untold),
        Rule::new(UNSPOILT, |_, state: &Process| usize::from(state.failures) <= state.deleted.len()),
        Rule::new(ENDED, |_, state: &Process| {
            let mut actions = Vec::new();
            Self::go_on_alone(state, &mut actions);
            let waits = (0..state.members.len()).any(|i| state.sleeps(i));
            !state.is_ended || !waits || !actions.is_empty()
        }),
        Rule::new(SERVED, |model: &Self, state: &Process| {
            let mut actions = Vec::new();
            model.progress(state, &mut actions);
            !actions.is_empty() || state.is_done()
        }),
        Rule::new(YIELDS, |_, state: &Process| !state.lingers_against_a_request()),
        Rule::new(CLEAN, |model: &Self, state: &Process| {
            !model.is_over(state)
                || state.nodes.is_empty() && state.cohort.clone().enter_at_once(model.bounds()).is_some()
        }),
    ];

    /// A hold that is handed over, a place that goes to the next contender, and a hold that lingers, if it may.
    fn searched_sights(&self) -> usize {
        if self.lingers { 3 } else { 2 }
    }

    fn starts(&self) -> Vec<Process> {
        vec![Process::new(self)]
    }

    fn progress(&self, state: &Process, actions: &mut Vec<Action>) {
        Self::go_on_alone(state, actions);
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

    /// The time of a hold that lingers may end at any moment. Other contenders must be served before.
    fn last(&self, state: &Process, actions: &mut Vec<Action>) {
        actions.extend(state.lingers().then_some(Action::LingerEnds));
    }

    fn step(&self, state: &mut Process, action: &Action) -> bool {
        self.go(state, *action);
        state.return_members();
        state.note_sights();
        true
    }

    fn kind(action: &Action) -> usize {
        match action {
            Action::Come(_) => 0,
            Action::Step(_) => 1,
            Action::Release(_) => 2,
            Action::Drop(_) => 3,
            Action::Reap(_) => 4,
            Action::OtherComes => 5,
            Action::OtherReleases => 6,
            Action::TimePasses => 7,
            Action::Disconnect => 8,
            Action::Reconnect => 9,
            Action::LoseHolds => 10,
            Action::Expire => 11,
            Action::End => 12,
            Action::Delete(_) => 13,
            Action::Request(_) => 14,
            Action::Notify(_) => 15,
            Action::LingerEnds => 16,
            Action::Forget => 17,
        }
    }

    fn visits(&self, state: &Process) -> u64 {
        state.visits()
    }

    fn is_over(&self, state: &Process) -> bool {
        state.is_done() && state.abandoned.is_empty() && !state.lingers()
    }

    fn sights(state: &Process) -> Sights {
        *state.sights
    }
}

impl CohortModel {
    fn go(&self, next: &mut Process, action: Action) {
        match action {
            Action::Come(i) => next.come(i, self.programs[i], self.bounds()),
            Action::Step(i) => next.step(i),
            Action::Release(i) => next.release(i),
            Action::Drop(i) => next.leave(i),
            Action::Reap(node) => {
                next.sights.note(true, Sight::Reaped as usize);
                next.delete(node);
            }
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
