//! What is told of the progress of a run.

use stats::figures::figure;

use crate::lab::Outcome;
use crate::plan::{Repetition, Step};

/// What a measurement brought, or that it was left out, in a line.
pub(crate) fn ended(step: Step, outcome: Option<&Outcome>) -> String {
    let what = match outcome {
        None => "left out, as before".to_owned(),
        Some(Outcome::Measured(window)) => format!("{}/s", figure(window.cycles_per_s())),
        Some(Outcome::OutOfBounds(reason)) => reason.clone(),
        Some(Outcome::Failed(reason)) => format!("failed: {reason}"),
    };
    format!("{}: {what}", describe(step))
}

/// Which measurement it is.
pub(crate) fn describe(step: Step) -> String {
    let repetition = match step.repetition {
        Repetition::WarmUp => "warm-up".to_owned(),
        Repetition::Timed(repetition) => format!("repetition {}", repetition + 1),
        Repetition::Bytes => "bytes".to_owned(),
    };
    format!("{repetition}, {} at {}", step.implementation.name(), step.contenders)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::implementation::Implementation;

    #[test]
    fn a_step_is_told_by_its_repetition_counted_from_one() {
        let step = Step { repetition: Repetition::Timed(0), implementation: Implementation::Kazoo, contenders: 30 };
        assert_eq!(describe(step), "repetition 1, kazoo at 30");
        assert_eq!(describe(Step { repetition: Repetition::WarmUp, ..step }), "warm-up, kazoo at 30");
    }
}
