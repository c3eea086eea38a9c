//! What happens in a run: a clock, counts, a trace of the last events, the judge and what it has found.

use std::collections::{BTreeMap, VecDeque};
use std::fmt::Write;
use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use tokio::sync::watch;

use crate::checker::{Breach, CertainHold, History, Time, Violation};
use crate::contended_paths;

/// Events that are kept.
const EVENTS: usize = 30_000;
/// Events that a failure shows.
const EVENTS_SHOWN: usize = 300;
/// How long before the holds of a finding its trace begins.
const BEFORE: Duration = Duration::from_secs(6);
/// Findings that are reported in full.
const FAILURES_SHOWN: usize = 3;

/// What an event concerns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Subject {
    Lock(&'static str),
    Session(usize),
    Server,
}

/// The record of one run.
#[derive(Debug)]
pub(crate) struct Record {
    origin: Instant,
    events: Mutex<VecDeque<(Time, Subject, String)>>,
    totals: Mutex<BTreeMap<String, u64>>,
    failures: Mutex<Vec<String>>,
    history: Mutex<History>,
    /// Whether the load and the faults go on.
    running: watch::Sender<bool>,
}

impl Record {
    pub(crate) fn new() -> Arc<Self> {
        Arc::new(Self {
            origin: Instant::now(),
            events: Mutex::default(),
            totals: Mutex::default(),
            failures: Mutex::default(),
            history: Mutex::new(History::new(
                contended_paths::CONTENDED_PATHS.iter().map(|contended| (contended.path, contended.rule)),
            )),
            running: watch::Sender::new(true),
        })
    }

    /// Returns the time since the start of the run.
    pub(crate) fn now(&self) -> Time {
        self.origin.elapsed()
    }

    /// Adds an event to the trace.
    pub(crate) fn note(&self, subject: Subject, event: impl Into<String>) {
        let mut events = self.events.lock();
        if events.len() == EVENTS {
            events.pop_front();
        }
        events.push_back((self.now(), subject, event.into()));
    }

    /// Counts something.
    pub(crate) fn count(&self, what: &str) {
        let mut totals = self.totals.lock();
        match totals.get_mut(what) {
            Some(total) => *total += 1,
            None => drop(totals.insert(what.to_owned(), 1)),
        }
    }

    /// Counts a fault, and adds it to the trace.
    pub(crate) fn fault(&self, subject: Subject, what: &str) {
        self.count(what);
        self.note(subject, what);
    }

    pub(crate) fn total(&self, what: &str) -> u64 {
        self.totals.lock().get(what).copied().unwrap_or_default()
    }

    /// Returns all counts, one a line.
    pub(crate) fn totals(&self) -> String {
        self.totals.lock().iter().fold(String::new(), |mut text, (what, total)| {
            let _ = writeln!(text, "{total:>9}  {what}");
            text
        })
    }

    /// Notes a failure, which ends the run.
    pub(crate) fn fail(&self, failure: String) {
        self.failures.lock().push(failure);
        self.stop();
    }

    pub(crate) fn failures(&self) -> Vec<String> {
        self.failures.lock().clone()
    }

    /// Ends the load and the faults.
    pub(crate) fn stop(&self) {
        self.running.send_replace(false);
    }

    pub(crate) fn is_running(&self) -> bool {
        *self.running.borrow()
    }

    /// Waits for `time`, or until the run is to end. Returns whether it goes on.
    pub(crate) async fn pause(&self, time: Duration) -> bool {
        let mut running = self.running.subscribe();
        let _ = tokio::time::timeout(time, running.wait_for(|running| !running)).await;
        self.is_running()
    }

    /// Asks the judge, or tells it something.
    pub(crate) fn history<T>(&self, work: impl FnOnce(&mut History) -> T) -> T {
        work(&mut self.history.lock())
    }

    /// Lets the judge know of a hold that is certain at `hold.first`.
    pub(crate) fn watch(self: &Arc<Self>, hold: CertainHold) -> JudgedHold {
        JudgedHold { record: Arc::clone(self), id: self.history(|history| history.open(hold)) }
    }

    fn report(&self, violation: &Violation) {
        let what = match violation.what {
            Breach::Overlap => "holds that exclude each other overlap",
            Breach::TokenRegression => "a token did not grow",
            Breach::GrantWithoutNode => "a waiter was granted after its node was deleted",
        };
        self.count(&format!("finding: {what}"));
        if self.failures.lock().len() >= FAILURES_SHOWN {
            return;
        }
        let mut text = format!("{what}:\n");
        for hold in &violation.holds {
            let _ = writeln!(text, "  {hold}");
        }
        let from = violation.holds.iter().map(|hold| hold.first).min().unwrap_or_default().saturating_sub(BEFORE);
        let to = violation.holds.iter().map(|hold| hold.last).max().unwrap_or_default();
        let concerns = |subject: &Subject| {
            let mut holds = violation.holds.iter();
            match *subject {
                Subject::Server => true,
                Subject::Session(session_number) => holds.any(|hold| hold.session_number == session_number),
                Subject::Lock(lock) => holds.any(|hold| hold.lock == lock),
            }
        };
        text += &self.trace(|time, subject| *time >= from && *time <= to && concerns(subject));
        self.fail(text);
    }

    /// Returns the last events of some kind, one a line.
    pub(crate) fn trace(&self, is_wanted: impl Fn(&Time, &Subject) -> bool) -> String {
        let events = self.events.lock();
        let wanted: Vec<_> = events.iter().filter(|(time, subject, _)| is_wanted(time, subject)).collect();
        let shown = &wanted[wanted.len().saturating_sub(EVENTS_SHOWN)..];
        shown.iter().fold(String::new(), |mut text, (time, subject, event)| {
            let _ = writeln!(text, "  {:>11.6} {subject:?}: {event}", time.as_secs_f64());
            text
        })
    }
}

/// A hold that the judge knows of. Dropped, it is compared with the others.
#[derive(Debug)]
pub(crate) struct JudgedHold {
    record: Arc<Record>,
    id: u64,
}

impl JudgedHold {
    /// Notes that the hold was certain at `at`.
    pub(crate) fn extend(&self, at: Time) {
        self.record.history(|history| history.extend(self.id, at));
    }
}

impl Drop for JudgedHold {
    fn drop(&mut self) {
        let violations = self.record.history(|history| history.close(self.id));
        violations.iter().for_each(|violation| self.record.report(violation));
    }
}
