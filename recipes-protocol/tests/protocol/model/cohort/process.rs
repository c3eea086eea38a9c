//! Who can do what next.

use std::time::Duration;

use stateright::{Model, Property};
use zk_recipes_protocol::cohort::Bounds;

use super::contenders::{Owner, Phase, Stage, State};
use super::properties;

/// What the contenders do right. A test that plants a mistake changes one of them.
#[derive(Clone, Copy)]
pub(super) struct Rules {
    pub(super) sends_again: bool,
    pub(super) passes_what_was_sent: bool,
    pub(super) drop_passes_on: bool,
    pub(super) knows_bounds: bool,
    /// By the number of nodes.
    pub(super) is_alone: fn(usize) -> bool,
    pub(super) looks_when_it_takes: bool,
    pub(super) looks_when_it_lets_go: bool,
    pub(super) clears_what_failed: bool,
    pub(super) tells_of_the_end: bool,
    pub(super) counts_handovers: bool,
    /// Whether who takes a hold over remembers from when it is.
    pub(super) keeps_age: bool,
    pub(super) tries_in_turn: bool,
}

impl Default for Rules {
    fn default() -> Self {
        Self {
            sends_again: true,
            passes_what_was_sent: true,
            drop_passes_on: true,
            knows_bounds: true,
            is_alone: |nodes| nodes == 1,
            looks_when_it_takes: true,
            looks_when_it_lets_go: true,
            clears_what_failed: true,
            tells_of_the_end: true,
            counts_handovers: true,
            keeps_age: true,
            tries_in_turn: true,
        }
    }
}

/// What may happen at any moment.
#[derive(Clone, Copy, Debug)]
pub(super) struct Faults {
    /// Futures and guards are dropped, deadlines pass.
    pub(super) drops: bool,
    /// The connection goes and comes back, holds are lost by silence, the session expires.
    pub(super) losses: bool,
    /// Somebody deletes the node of a waiter.
    pub(super) deletions: bool,
    /// A cohort has had the lock for as long as it may.
    pub(super) time: bool,
}

impl Faults {
    pub(super) const ALL: Self = Self { drops: true, losses: true, deletions: true, time: true };
    pub(super) const NONE: Self = Self { drops: false, losses: false, deletions: false, time: false };
}

/// What a contender of the cohort is to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Program {
    Lock,
    Try,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Action {
    Arrive(usize),
    Step(usize),
    Release(usize),
    /// Of a future or a guard, whatever it is about.
    Drop(usize),
    /// A deadline has passed.
    GiveUp(usize),
    Reap(u8),
    OtherArrives,
    OtherLeaves,
    TimeIsOver,
    Disconnect,
    Reconnect,
    LoseHolds,
    Expire,
    End,
    Delete(u8),
}

/// The contenders of one cohort, and another process.
#[derive(Clone)]
pub(super) struct Process {
    pub(super) programs: Vec<Program>,
    faults: Faults,
    pub(super) rules: Rules,
    pub(super) bounds: Bounds,
}

/// How often holds may be lost while the session lives.
const LOSSES_MAX: u8 = 2;

impl Process {
    pub(super) fn new(programs: &[Program], faults: Faults) -> Self {
        let bounds = Bounds { max_handovers: 1, max_hold: Duration::from_secs(1) };
        Self { programs: programs.to_vec(), faults, rules: Rules::default(), bounds }
    }

    pub(super) fn with_max_handovers(mut self, max_handovers: u32) -> Self {
        self.bounds.max_handovers = max_handovers;
        self
    }

    pub(super) fn with_rules(self, rules: Rules) -> Self {
        Self { rules, ..self }
    }

    /// Whether the contender could take a step now.
    fn can_step(&self, state: &State, phase: &Phase) -> bool {
        match phase {
            Phase::Away | Phase::Waits(None) | Phase::Holds(_) | Phase::Done => false,
            Phase::HasTurn(Stage::Queued(node, true)) => {
                let is_there = state.nodes.iter().any(|(other, _)| other == node);
                !is_there || state.nodes[0].0 == *node
            }
            Phase::HasTurn(Stage::Held(hold)) if self.rules.looks_when_it_takes => {
                !state.is_suspect || state.is_lost(hold)
            }
            _ => true,
        }
    }

    /// What happens sooner or later, although nobody who holds lets go.
    pub(super) fn progress(&self, state: &State, actions: &mut Vec<Action>) {
        let steps = state.phases.iter().enumerate().filter(|(_, phase)| self.can_step(state, phase));
        actions.extend(steps.map(|(i, _)| Action::Step(i)));
        actions.extend(state.abandoned.iter().map(|node| Action::Reap(*node)));
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

    /// What happens when nothing goes wrong any more.
    pub(super) fn work(&self, state: &State, actions: &mut Vec<Action>) {
        self.progress(state, actions);
        for (i, phase) in state.phases.iter().enumerate() {
            match phase {
                Phase::Away => actions.push(Action::Arrive(i)),
                Phase::Holds(_) => actions.push(Action::Release(i)),
                _ => {}
            }
        }
        if !state.is_other_done {
            let is_there = state.nodes.iter().any(|(_, owner)| *owner == Owner::Other);
            match state.nodes.first() {
                Some((_, Owner::Other)) => actions.push(Action::OtherLeaves),
                _ if !is_there => actions.push(Action::OtherArrives),
                _ => {}
            }
        }
    }

    fn faults(&self, state: &State, actions: &mut Vec<Action>) {
        let holds = |phase: &Phase| matches!(phase, Phase::Holds(_));
        if self.faults.drops {
            for (i, phase) in state.phases.iter().enumerate() {
                if !matches!(phase, Phase::Away | Phase::Done | Phase::Sends { .. }) {
                    actions.push(Action::Drop(i));
                }
                if matches!(phase, Phase::HasTurn(_)) && self.programs[i] == Program::Lock {
                    actions.push(Action::GiveUp(i));
                }
            }
        }
        if self.faults.time && state.phases.iter().any(holds) {
            actions.push(Action::TimeIsOver);
        }
        if self.faults.losses && !state.is_ended {
            actions.push(Action::End);
            actions.extend((state.losses < LOSSES_MAX).then_some(Action::LoseHolds));
            actions.extend((!state.is_suspect).then_some(Action::Disconnect));
            // A hold is lost before the server can expire its session; the model of the clocks shows that.
            let is_lost = |phase: &Phase| phase.hold().is_none_or(|hold| state.is_lost(&hold));
            actions.extend((!state.is_expired && state.phases.iter().all(is_lost)).then_some(Action::Expire));
        }
        let queued = state.phases.iter().filter_map(|phase| match phase {
            Phase::Waits(Some(Stage::Queued(node, true))) | Phase::HasTurn(Stage::Queued(node, true)) => Some(*node),
            _ => None,
        });
        if self.faults.deletions && state.deletions == 0 {
            actions
                .extend(queued.filter(|node| state.nodes.iter().any(|(other, _)| other == node)).map(Action::Delete));
        }
    }
}

impl Model for Process {
    type State = State;
    type Action = Action;

    fn init_states(&self) -> Vec<State> {
        vec![State::new(self.programs.len())]
    }

    fn actions(&self, state: &State, actions: &mut Vec<Action>) {
        self.work(state, actions);
        self.faults(state, actions);
    }

    fn next_state(&self, last: &State, action: Action) -> Option<State> {
        let mut next = last.clone();
        match action {
            Action::Arrive(i) => self.arrive(&mut next, i),
            Action::Step(i) => self.step(&mut next, i),
            Action::Release(i) => {
                let Phase::Holds(hold) = next.phases[i] else { return None };
                self.release(&mut next, i, hold, None);
            }
            Action::Drop(i) => self.drop_whatever(&mut next, i),
            Action::GiveUp(i) => {
                let Phase::HasTurn(stage) = next.phases[i] else { return None };
                match stage {
                    Stage::Queued(_, false) => self.drop_turn(&mut next, i, stage),
                    stage => Self::pass(&mut next, i, stage),
                }
            }
            Action::Reap(node) => next.delete(node),
            Action::OtherArrives => {
                next.make(Owner::Other);
            }
            Action::OtherLeaves => {
                let (node, _) = next.nodes.remove(0);
                next.mistakes.token_shrank |= next.newest_token >= Some((node, 0));
                next.newest_token = Some((node, 0));
                next.is_other_done = true;
            }
            Action::TimeIsOver => {
                for phase in &mut next.phases {
                    if let Phase::Holds(hold) = phase {
                        hold.is_time_over = true;
                    }
                }
            }
            Action::Disconnect => next.is_suspect = true,
            Action::Reconnect => next.is_suspect = false,
            Action::LoseHolds => next.losses += 1,
            Action::Expire => {
                next.is_expired = true;
                next.nodes.retain(|(_, owner)| *owner == Owner::Other);
                next.abandoned.clear();
            }
            Action::End => {
                next.is_ended = true;
                let told = if self.rules.tells_of_the_end { next.turns.close() } else { Default::default() };
                for i in told {
                    next.phases[i] = Phase::Done;
                }
            }
            Action::Delete(node) => {
                next.nodes.retain(|(other, _)| *other != node);
                next.deletions += 1;
            }
        }
        (next != *last).then_some(next)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        properties::of()
    }
}
