//! The lines about the progress of a run.

use stats::figures::{figure, maybe};

use crate::harness::Outcome;
use crate::results::p50_ms;
use crate::schedule::{Load, Repetition, Step};

/// Writes in a line what a measurement found, or that it was left out.
pub(crate) fn ended(step: Step, outcome: Option<&Outcome>) -> String {
    let what = match outcome {
        None => "left out, as before".to_owned(),
        Some(Outcome::Measured(window)) => match step.load {
            Load::Contenders(_) => format!("{}/s", figure(window.cycles_per_s())),
            Load::Rate(_) => format!("p50 {} ms", maybe(p50_ms(window))),
        },
        Some(Outcome::OutOfBounds(reason)) => reason.clone(),
        Some(Outcome::Failed(reason)) => format!("failed: {reason}"),
    };
    format!("{}: {what}", describe(step))
}

/// Writes which measurement it is.
pub(crate) fn describe(step: Step) -> String {
    let repetition = match step.repetition {
        Repetition::WarmUp => "warm-up".to_owned(),
        Repetition::Timed(repetition) => format!("repetition {}", repetition + 1),
        Repetition::Bytes => "bytes".to_owned(),
    };
    format!("{repetition}, {} at {}", step.implementation.name(), step.load)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::implementation::Implementation;

    #[test]
    fn a_step_is_told_by_its_repetition_counted_from_one() {
        let load = Load::Contenders(30);
        let step = Step { repetition: Repetition::Timed(0), implementation: Implementation::Kazoo, load };
        assert_eq!(describe(step), "repetition 1, kazoo at 30");
        assert_eq!(describe(Step { repetition: Repetition::WarmUp, ..step }), "warm-up, kazoo at 30");
        assert_eq!(describe(Step { load: Load::Rate(500), ..step }), "repetition 1, kazoo at 500/s");
    }
}
