//! How far the comparison has come, on stderr: a bar on a terminal, a line a trial everywhere.

use std::io::{IsTerminal, Write as _};
use std::time::Duration;

use indicatif::{ProgressBar, ProgressStyle};

use crate::config::settings::ServiceSettings;
use crate::trial::plan::PlannedTrial;
use crate::trial::record::Trial;

/// Shows the progress of a plan.
pub(crate) struct Progress {
    kind: Kind,
    trials: usize,
    done: usize,
}

enum Kind {
    Quiet,
    Plain,
    Bar(ProgressBar),
}

impl Progress {
    /// Nothing when `quiet`, a bar on a terminal, plain lines otherwise.
    pub(crate) fn new(quiet: bool) -> Progress {
        let kind = if quiet {
            Kind::Quiet
        } else if std::io::stderr().is_terminal() {
            let bar = ProgressBar::new(0);
            let style = ProgressStyle::with_template("{spinner} {bar:24} {pos}/{len} {elapsed} {msg}");
            bar.set_style(style.expect("BUG: the template is a constant and valid"));
            bar.enable_steady_tick(Duration::from_millis(120));
            Kind::Bar(bar)
        } else {
            Kind::Plain
        };
        Progress { kind, trials: 0, done: 0 }
    }

    /// Something other than a trial begins.
    pub(crate) fn stage(&self, what: &str) {
        match &self.kind {
            Kind::Quiet => {}
            Kind::Plain => line(what),
            Kind::Bar(bar) => bar.set_message(what.to_owned()),
        }
    }

    /// The plan is known.
    pub(crate) fn planned(&mut self, trials: usize) {
        self.trials = trials;
        if let Kind::Bar(bar) = &self.kind {
            bar.set_length(u64::try_from(trials).unwrap_or(u64::MAX));
        }
    }

    /// A trial begins.
    pub(crate) fn trial_begins(&self, planned: PlannedTrial<'_>) {
        if let Kind::Bar(bar) = &self.kind {
            let what = if planned.warm_up { "warm-up".to_owned() } else { format!("block {}", planned.block) };
            bar.set_message(format!("{what}: {} with {} users", planned.subject.strategy, planned.subject.users));
        }
    }

    /// A trial has ended.
    pub(crate) fn trial_ended(&mut self, trial: &Trial) {
        self.done += 1;
        let text = format!("trial {}/{} {}", self.done, self.trials, describe(trial));
        match &self.kind {
            Kind::Quiet => {}
            Kind::Plain => line(&text),
            Kind::Bar(bar) => {
                bar.println(text);
                bar.inc(1);
            }
        }
    }

    /// Takes the bar off the terminal.
    pub(crate) fn finish(&self) {
        if let Kind::Bar(bar) = &self.kind {
            bar.finish_and_clear();
        }
    }
}

/// What is done before anything else, which takes some seconds.
pub(crate) fn starting(service: &ServiceSettings) -> String {
    let instances = service.instances;
    format!("starting Postgres, ZooKeeper and {instances} {}", if instances == 1 { "instance" } else { "instances" })
}

/// A closed stderr leaves nobody to tell.
fn line(text: &str) {
    let _ = writeln!(std::io::stderr(), "{text}");
}

/// What a trial brought, in a line.
fn describe(trial: &Trial) -> String {
    let audit = &trial.audit;
    let warm_up = if trial.warm_up { " (warm-up)" } else { "" };
    let mut text = format!(
        "{} with {} users{warm_up}: sold {}, oversold {}, undersold {}, in {:.0} ms",
        trial.strategy, trial.users, audit.sold, audit.oversold, audit.undersold, trial.duration_ms
    );
    if let Some(per_release) = trial.zookeeper.notifications_per_release() {
        text += &format!(", {per_release:.1} notifications a release");
    }
    let answers = &trial.answers;
    for (count, what) in [(answers.refused, "refused"), (answers.error, "errors"), (answers.timeout, "timeouts")] {
        if count > 0 {
            text += &format!(", {count} {what}");
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::fixture;

    #[test]
    fn a_line_says_what_a_trial_brought() {
        let mut trial = fixture::trial("zk-mutex", 0, 100, 100);
        let expected = "zk-mutex with 300 users (warm-up): sold 100, oversold 0, undersold 0, in 600 ms, \
            1.0 notifications a release";
        assert_eq!(describe(&trial), expected);
        trial.answers.refused = 3;
        trial.answers.timeout = 1;
        assert!(describe(&trial).ends_with(", 3 refused, 1 timeouts"));
    }
}
