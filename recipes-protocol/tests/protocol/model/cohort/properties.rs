//! What must hold, whatever happens.

use stateright::Property;

use super::contenders::{Owner, Phase, Stage, State};
use super::process::Process;

pub(super) const ALONE: &str = "whoever holds by a hold that is not lost has the lock, alone";
pub(super) const ONE_TURN: &str = "one contender has the turn";
pub(super) const ORDER: &str = "the cohort's grants go in the order of arrival";
pub(super) const TOKENS: &str = "tokens grow";
pub(super) const BOUND: &str = "others are passed over only so often";
pub(super) const SURE: &str =
    "nobody takes over a hold that is suspect or lost, nor lets go of a lost one without a word";
pub(super) const UNSPOILT: &str = "the deletion of a node costs one contender";
pub(super) const ENDED: &str = "whoever waits is told when the session has ended, whether or not the holder lets go";
pub(super) const SERVED: &str = "when the holders let go everybody is served";
pub(super) const CLEAN: &str = "when everybody is done nobody has the turn and no node is left";
const HANDS_OVER: &str = "a hold is handed over";
const IS_ASKED: &str = "somebody asks whether the cohort is alone";
const INHERITS: &str = "a place in the queue is left to the next";

/// What must hold always, and what must happen at all for that to say something.
pub(super) fn of() -> Vec<Property<Process>> {
    vec![
        Property::always(ALONE, holders_have_the_lock_alone),
        Property::always(ONE_TURN, |_, state: &State| state.phases.iter().filter(|phase| has_turn(phase)).count() <= 1),
        Property::always(ORDER, |_, state: &State| !state.mistakes.overtaken),
        Property::always(TOKENS, |_, state: &State| !state.mistakes.token_shrank),
        Property::always(BOUND, |model: &Process, state: &State| {
            u32::from(state.passed_over) <= model.bounds.max_handovers.max(1)
        }),
        Property::always(SURE, |_, state: &State| !state.mistakes.took_what_was_unsure && !state.mistakes.loss_untold),
        Property::always(UNSPOILT, |_, state: &State| !state.mistakes.spoilt),
        Property::always(ENDED, whoever_waits_is_told_of_the_end),
        Property::always(SERVED, everybody_is_served),
        Property::always(CLEAN, nothing_is_left),
        Property::sometimes(HANDS_OVER, |_, state: &State| {
            state.phases.iter().any(|phase| matches!(phase, Phase::Holds(hold) if hold.handovers > 0))
        }),
        Property::sometimes(IS_ASKED, |_, state: &State| {
            state.phases.iter().any(|phase| matches!(phase, Phase::Asks(_)))
        }),
        Property::sometimes(INHERITS, |_, state: &State| {
            state.phases.iter().any(|phase| matches!(phase, Phase::Waits(Some(Stage::Queued(..)))))
        }),
    ]
}

fn has_turn(phase: &Phase) -> bool {
    !matches!(phase, Phase::Away | Phase::Waits(None) | Phase::Done)
}

fn holders_have_the_lock_alone(_: &Process, state: &State) -> bool {
    let holds = state.phases.iter().filter_map(|phase| match phase {
        Phase::Holds(hold) if !state.is_lost(hold) => Some(hold.node),
        _ => None,
    });
    let holds: Vec<u8> = holds.collect();
    holds.len() <= 1 && holds.iter().all(|node| state.nodes.first() == Some(&(*node, Owner::Cohort)))
}

fn all_done(state: &State) -> bool {
    state.phases.iter().all(|phase| *phase == Phase::Done) && state.is_other_done
}

/// When nothing happens any more, because the holders keep what they have.
fn whoever_waits_is_told_of_the_end(model: &Process, state: &State) -> bool {
    if !state.is_ended || !state.phases.iter().any(|phase| matches!(phase, Phase::Waits(_))) {
        return true;
    }
    let mut actions = vec![];
    model.progress(state, &mut actions);
    !actions.is_empty()
}

/// When nothing can happen any more, although nothing goes wrong and the holders let go.
fn everybody_is_served(model: &Process, state: &State) -> bool {
    let mut actions = vec![];
    model.work(state, &mut actions);
    !actions.is_empty() || all_done(state)
}

fn nothing_is_left(_: &Process, state: &State) -> bool {
    if !all_done(state) || !state.abandoned.is_empty() {
        return true;
    }
    // To pass on a turn that somebody still has would change something.
    let mut passed = state.turns.clone();
    state.nodes.is_empty() && passed.pass().is_none() && passed == state.turns
}
