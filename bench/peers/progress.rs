//! How far the run has come, on stderr: a bar on a terminal, a line a measurement everywhere.

use std::io::IsTerminal;
use std::time::Duration;

use bench::tell;
use indicatif::{ProgressBar, ProgressStyle};

use crate::lab::Outcome;
use crate::plan::{Repetition, Step};

/// Shows the progress of a plan.
pub(crate) struct Progress {
    /// Absent where there is no terminal.
    bar: Option<ProgressBar>,
    steps: usize,
    done: usize,
}

impl Progress {
    pub(crate) fn new(steps: usize) -> Self {
        let bar = std::io::stderr().is_terminal().then(|| {
            let bar = ProgressBar::new(u64::try_from(steps).unwrap_or(u64::MAX));
            let style = ProgressStyle::with_template("{spinner} {bar:24} {pos}/{len} {elapsed} {msg}");
            bar.set_style(style.expect("BUG: the template is a constant and valid"));
            bar.enable_steady_tick(Duration::from_millis(120));
            bar
        });
        Self { bar, steps, done: 0 }
    }

    /// Something other than a measurement begins.
    pub(crate) fn stage(&self, what: &str) {
        match &self.bar {
            Some(bar) => bar.set_message(what.to_owned()),
            None => tell(what),
        }
    }

    /// A measurement begins.
    pub(crate) fn step_begins(&self, step: Step) {
        if let Some(bar) = &self.bar {
            bar.set_message(describe(step));
        }
    }

    /// A measurement has ended, or was left out.
    pub(crate) fn step_ended(&mut self, step: Step, outcome: Option<&Outcome>) {
        self.done += 1;
        let what = match outcome {
            None => "left out, as before".to_owned(),
            Some(Outcome::Measured(window)) => format!("{:.0}/s", window.ops_per_s()),
            Some(Outcome::OutOfBounds(reason)) => reason.clone(),
            Some(Outcome::Failed(reason)) => format!("failed: {reason}"),
        };
        let text = format!("{}/{} {}: {what}", self.done, self.steps, describe(step));
        match &self.bar {
            Some(bar) => {
                bar.println(text);
                bar.inc(1);
            }
            None => tell(text),
        }
    }

    /// Takes the bar off the terminal.
    pub(crate) fn finish(&self) {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
    }
}

fn describe(step: Step) -> String {
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
