//! What a step of a contender does: as `cohort.rs` and `turn.rs` do it.

use std::time::Duration;

use zk_recipes_protocol::cohort::{Entry, Standing, Step};

use super::contenders::{Hold, Owner, Phase, Sending, Stage, State};
use super::process::{Process, Program};

impl Process {
    pub(super) fn standing(&self, state: &State, hold: &Hold, is_alone: Option<bool>) -> Standing {
        let held_for = if hold.is_time_over { self.bounds.max_hold } else { Duration::ZERO };
        Standing {
            is_lost: self.rules.looks_when_it_lets_go && state.is_lost(hold),
            is_within_bounds: !self.rules.knows_bounds || self.bounds.allow(hold.handovers_unasked.into(), held_for),
            is_alone,
        }
    }

    /// As `Turn::release`, up to the next request.
    pub(super) fn release(&self, state: &mut State, i: usize, hold: Hold, is_alone: Option<bool>) {
        let was_lost = state.is_lost(&hold);
        let standing = self.standing(state, &hold, is_alone);
        self.let_go(state, i, hold, standing, false);
        let hands_over = matches!(state.phases[i], Phase::Sends { stage: Stage::Held(_), .. });
        state.mistakes.loss_untold |= was_lost && hands_over;
    }

    /// As `Turn::let_go`, up to the sending.
    pub(super) fn let_go(&self, state: &mut State, i: usize, hold: Hold, standing: Standing, is_drop: bool) {
        state.phases[i] = match state.turns.let_go(standing) {
            Step::HandOver(to) => {
                Phase::Sends { to, stage: Stage::Held(hold), why: Sending::LetGo { standing, is_drop } }
            }
            Step::Ask => Phase::Asks(hold),
            Step::Release if is_drop || standing.is_lost => {
                state.abandon(Stage::Held(hold));
                if is_drop && !self.rules.drop_passes_on {
                    state.phases[i] = Phase::Done;
                    return;
                }
                return Self::pass(state, i, Stage::Nothing);
            }
            Step::Release => Phase::Deletes(hold.node),
        };
    }

    /// As `Turn::pass_on`, up to the sending.
    pub(super) fn pass(state: &mut State, i: usize, stage: Stage) {
        state.phases[i] = match state.turns.pass() {
            Some(to) => Phase::Sends { to, stage, why: Sending::Pass },
            None => {
                state.abandon(stage);
                Phase::Done
            }
        };
    }

    /// As the drop of a `Turn`.
    pub(super) fn drop_turn(&self, state: &mut State, i: usize, stage: Stage) {
        match stage {
            Stage::Held(hold) => {
                let standing = self.standing(state, &hold, Some(false));
                self.let_go(state, i, hold, standing, true);
            }
            Stage::Queued(_, false) => {
                state.abandon(stage);
                Self::pass(state, i, Stage::Nothing);
            }
            Stage::Queued(_, true) | Stage::Nothing => Self::pass(state, i, stage),
        }
    }

    pub(super) fn arrive(&self, state: &mut State, i: usize) {
        let is_try = self.programs[i] == Program::Try;
        let entry = match state.turns.take() {
            Entry::Wait if is_try && !self.rules.tries_in_turn => Entry::Turn,
            entry => entry,
        };
        state.arrived.push(i);
        state.phases[i] = match entry {
            Entry::Turn => Phase::HasTurn(Stage::Nothing),
            Entry::Wait if is_try => Phase::Done,
            Entry::Wait => {
                state.turns.wait(i);
                Phase::Waits(None)
            }
            Entry::Closed => Phase::Done,
        };
    }

    pub(super) fn step(&self, state: &mut State, i: usize) {
        match state.phases[i] {
            Phase::Waits(Some(stage)) => state.phases[i] = Phase::HasTurn(stage),
            Phase::HasTurn(stage) => self.deal(state, i, stage),
            Phase::Asks(mut hold) => {
                let is_alone = !state.is_expired && (self.rules.is_alone)(state.nodes.len());
                if is_alone {
                    (hold.handovers_unasked, hold.is_time_over) = (0, false);
                }
                self.release(state, i, hold, Some(is_alone));
            }
            Phase::Deletes(node) => {
                state.delete(node);
                Self::pass(state, i, Stage::Nothing);
            }
            Phase::Sends { to, stage, why } => match (state.phases[to], stage, why) {
                (Phase::Waits(None), ..) => {
                    state.phases[to] = Phase::Waits(Some(stage));
                    state.phases[i] = Phase::Done;
                }
                _ if !self.rules.sends_again => {
                    state.abandon(stage);
                    state.phases[i] = Phase::Done;
                }
                (_, Stage::Held(hold), Sending::LetGo { standing, is_drop }) => {
                    self.let_go(state, i, hold, standing, is_drop);
                }
                (_, stage, _) => Self::pass(state, i, stage),
            },
            Phase::Away | Phase::Waits(None) | Phase::Holds(_) | Phase::Done => {}
        }
    }

    /// One step of who has the turn towards a hold.
    fn deal(&self, state: &mut State, i: usize, stage: Stage) {
        let fresh = |node, losses| Hold { node, losses, handovers: 0, handovers_unasked: 0, is_time_over: false };
        match stage {
            Stage::Nothing if state.is_expired || state.is_ended => Self::pass(state, i, stage),
            Stage::Nothing if self.programs[i] == Program::Try && !state.nodes.is_empty() => {
                Self::pass(state, i, stage);
            }
            Stage::Nothing => {
                let node = state.make(Owner::Cohort);
                state.phases[i] = Phase::HasTurn(Stage::Queued(node, false));
            }
            Stage::Queued(node, false) => state.phases[i] = Phase::HasTurn(Stage::Queued(node, true)),
            Stage::Queued(node, true) if !state.nodes.iter().any(|(other, _)| *other == node) => {
                state.failures += u8::from(!state.is_expired);
                state.mistakes.spoilt |= state.failures > state.deletions;
                Self::pass(state, i, if self.rules.clears_what_failed { Stage::Nothing } else { stage });
            }
            Stage::Queued(node, true) => state.holds(i, fresh(node, state.losses), (node, 0)),
            Stage::Held(hold) if state.is_lost(&hold) && self.rules.looks_when_it_takes => {
                state.abandon(stage);
                state.phases[i] = Phase::HasTurn(Stage::Nothing);
            }
            Stage::Held(mut hold) => {
                state.mistakes.took_what_was_unsure |= state.is_suspect || state.is_lost(&hold);
                hold.handovers += u8::from(self.rules.counts_handovers);
                hold.handovers_unasked += 1;
                hold.losses = if self.rules.keeps_age { hold.losses } else { state.losses };
                state.passed_over += u8::from(state.nodes.iter().any(|(_, owner)| *owner == Owner::Other));
                state.holds(i, hold, (hold.node, hold.handovers));
            }
        }
    }

    pub(super) fn drop_whatever(&self, state: &mut State, i: usize) {
        match state.phases[i] {
            Phase::Waits(None) => {
                state.phases[i] = Phase::Done;
                let phases = &state.phases;
                state.turns.note_gone(|waiter| !matches!(phases[*waiter], Phase::Waits(None)));
            }
            Phase::Waits(Some(stage)) if !self.rules.passes_what_was_sent => {
                state.abandon(stage);
                state.phases[i] = Phase::Done;
            }
            Phase::Waits(Some(stage)) | Phase::HasTurn(stage) => self.drop_turn(state, i, stage),
            Phase::Holds(hold) | Phase::Asks(hold) => self.drop_turn(state, i, Stage::Held(hold)),
            Phase::Deletes(node) => {
                state.abandoned.insert(node);
                Self::pass(state, i, Stage::Nothing);
            }
            Phase::Away | Phase::Sends { .. } | Phase::Done => {}
        }
    }
}
