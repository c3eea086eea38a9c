//! A simulation of what one machine cannot show: the notifications, requests, bytes and times of a *drain*. In a drain very
//! many waiters queue at one instant for one lock. Each holds it once, and releases it at once.
//!
//! It is a discrete-event simulation. The state machines of the lock library decide what the waiters send:
//! [`SessionQueue`](zk_recipes_protocol::session_queue::SessionQueue) and [`Cohort`](zk_recipes_protocol::cohort::Cohort). A
//! [`LatencyModel`] of a few parameters says how long it takes. The model is fitted to drains that were measured on this
//! machine.
//!
//! Exact, and not exact:
//!
//! * The counts of the naive lock are exact for rounds: each holder waits until all others watch again. If a holder does not
//!   wait, fewer waiters are notified, and the others ask more often.
//! * The requests and notifications of the queues are exact with a session for each waiter.
//! * The bytes of a mutex are not exact. Here all waiters join at one instant, and see each other in their first listing. Real
//!   ones join one after the other, and see fewer.
//! * With several waiters in a session, the order of arrival decides which of them are neighbours. So it decides which of them
//!   list, and which hand the lock over. One order is drawn from the seed. Joins in batches have no part in it, because all
//!   waiters join at once.
//! * Servers and clients share one machine, which does one thing at a time in the model.
//!
//! Pure: no clock, no task, no I/O.

mod agenda;
mod contender;
mod costs;
mod deviation;
mod drain;
mod fit;
mod forecast;
mod latency;
mod naive;
mod server;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use stats::as_f64;

pub use self::deviation::{Accuracy, Deviation, Figure};
pub use self::forecast::{Measured, RecipeSimulation, SCHEMA, Simulation, compare, fit, numbers, spaced, split};
pub use self::latency::LatencyModel;

/// The node below which measured drains have their locks. The length of a path counts among the bytes.
pub const PARENT: &str = "/simulate";

/// Default number of sessions that the waiters of a cohort lock share. The waiters of a process share one session, and a
/// comparison starts three instances of the service.
const COHORT_SESSIONS: u32 = 3;

/// A simulated recipe.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Recipe {
    /// One fixed node that all waiters watch: the herd.
    Naive,
    /// A queue of nodes, in which each waiter watches the previous node.
    Mutex,
    /// The same, in which a release tells the next waiter that no contender is ahead.
    Handoff,
    /// A queue of processes. Each process hands the lock over within itself.
    Cohort,
}

/// One drain, predicted or measured.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Point {
    /// Number of waiters that queued at once, the first holder included. Each held the lock once, so this is also the number
    /// of releases.
    pub waiters: u32,
    /// Number of sessions. The waiters were assigned to them in turns.
    pub sessions: u32,
    /// Watch notifications that the server sent while they queued and while they were served.
    pub notifications: u64,
    /// Requests that the sessions sent.
    pub requests: u64,
    /// Bytes of those requests, of their replies and of the notifications, as the sessions count them.
    pub bytes: u64,
    /// Median time from the call of a release to the next grant, in milliseconds. Absent with a single waiter.
    pub handover_ms: Option<f64>,
    /// Milliseconds from the first release, when all others wait, to the confirmation of the last one. Excludes the time in
    /// which a holder of the naive lock waits for the server's answer that all others watch again.
    pub drain_ms: f64,
}

impl Point {
    /// Tells whether its times are finite and not negative, and its sessions no more than its waiters.
    pub fn is_sound(&self) -> bool {
        let is_time = |ms: f64| ms.is_finite() && ms >= 0.0;
        (1..=self.waiters).contains(&self.sessions) && is_time(self.drain_ms) && self.handover_ms.is_none_or(is_time)
    }
}

impl Recipe {
    /// All recipes, in the order of the tables.
    pub const ALL: [Recipe; 4] = [Recipe::Naive, Recipe::Mutex, Recipe::Handoff, Recipe::Cohort];

    /// Returns the name on the command line and in the tables.
    pub fn name(self) -> &'static str {
        match self {
            Recipe::Naive => "naive",
            Recipe::Mutex => "mutex",
            Recipe::Handoff => "handoff",
            Recipe::Cohort => "cohort",
        }
    }

    /// Returns the default number of sessions for `waiters`: one for each, or at most three for a cohort.
    pub fn sessions_default(self, waiters: u32) -> u32 {
        match self {
            Recipe::Naive | Recipe::Mutex | Recipe::Handoff => waiters,
            Recipe::Cohort => COHORT_SESSIONS.min(waiters),
        }
    }
}

/// Predicts one drain.
pub fn predict(recipe: Recipe, waiters: u32, sessions: u32, seed: u32, model: &LatencyModel) -> Point {
    match recipe {
        Recipe::Naive => naive::drain(waiters, sessions, seed, model),
        Recipe::Mutex | Recipe::Handoff | Recipe::Cohort => drain::drain(recipe, waiters, sessions, seed, model),
    }
}

fn ns_to_ms(ns: u64) -> f64 {
    as_f64(ns) / 1e6
}
