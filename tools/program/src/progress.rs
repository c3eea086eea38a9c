//! Progress on standard error: a bar on a terminal, a line per step everywhere.

use std::io::IsTerminal as _;
use std::time::Duration;

use indicatif::{ProgressBar, ProgressStyle};

use crate::locale::{is_utf8, shown};
use crate::tell;

/// Pause between two drawings of the bar.
const TICK: Duration = Duration::from_millis(120);

/// Shows how far a program has come with its steps.
#[derive(Debug)]
pub struct Progress {
    kind: ProgressKind,
    /// The name of a step.
    step: &'static str,
    steps: usize,
    done: usize,
}

#[derive(Debug)]
enum ProgressKind {
    Quiet,
    Plain,
    Bar(ProgressBar),
}

impl Progress {
    /// Shows nothing if `quiet`, a bar on a terminal, plain lines otherwise.
    ///
    /// # Panics
    ///
    /// Never: the template of the bar is valid.
    #[must_use]
    pub fn new(quiet: bool) -> Self {
        let kind = if quiet {
            ProgressKind::Quiet
        } else if std::io::stderr().is_terminal() {
            let bar = ProgressBar::new_spinner().with_style(style("{spinner} {elapsed} {msg}"));
            bar.enable_steady_tick(TICK);
            ProgressKind::Bar(bar)
        } else {
            ProgressKind::Plain
        };
        Self { kind, step: "step", steps: 0, done: 0 }
    }

    /// Sets the name of a step, and their number.
    pub fn planned(&mut self, step: &'static str, steps: usize) {
        self.step = step;
        self.steps = steps;
        if let ProgressKind::Bar(bar) = &self.kind {
            bar.set_style(style("{spinner} {bar:24} {pos}/{len} {elapsed} {msg}"));
            bar.set_length(u64::try_from(steps).unwrap_or(u64::MAX));
        }
    }

    /// Tells what begins, if it is not a step.
    pub fn stage(&self, what: &str) {
        match &self.kind {
            ProgressKind::Quiet => {}
            ProgressKind::Plain => tell(shown(what)),
            ProgressKind::Bar(bar) => bar.set_message(shown(what)),
        }
    }

    /// Tells which step begins. Only a bar shows it.
    pub fn step_begins(&self, what: impl Into<String>) {
        if let ProgressKind::Bar(bar) = &self.kind {
            bar.set_message(shown(&what.into()));
        }
    }

    /// Counts a step that has ended, and tells its result.
    pub fn step_ended(&mut self, what: &str) {
        self.done += 1;
        let text = shown(&format!("{} {}/{} {what}", self.step, self.done, self.steps));
        match &self.kind {
            ProgressKind::Quiet => {}
            ProgressKind::Plain => tell(text),
            ProgressKind::Bar(bar) => {
                bar.println(text);
                bar.inc(1);
            }
        }
    }

    /// Takes the bar off the terminal.
    pub fn finish(&self) {
        if let ProgressKind::Bar(bar) = &self.kind {
            bar.finish_and_clear();
        }
    }
}

fn style(template: &str) -> ProgressStyle {
    let style = ProgressStyle::with_template(template).expect("BUG: the template is a constant and valid");
    if is_utf8() { style } else { style.tick_chars(r"|/-\ ").progress_chars("#>-") }
}
