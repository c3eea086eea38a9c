//! What one machine cannot show: the notifications, requests, bytes and times of a *drain*. In a drain very many waiters queue
//! at one instant for one lock. Each holds it once, and releases it at once.
//!
//! It is a discrete-event simulation. What the waiters send is decided by the state machines that the lock library runs on,
//! [`SessionQueue`](zk_recipes_protocol::session_queue::SessionQueue) and
//! [`Cohort`](zk_recipes_protocol::cohort::Cohort). How long it takes follows from a [`LatencyModel`] of a few parameters,
//! which is fitted to drains that were measured on this machine.
//!
//! What is exact, and what is not:
//!
//! * The counts of the naive lock, by rounds, as its holders wait for all others to watch again. With holders that do not,
//!   fewer are notified, and those who are not ask the more often.
//! * The requests and notifications of the queues with a session for each waiter, but for the few requests of those at
//!   the head of a mutex's queue: whether they ask for each of the few ahead, or list all, depends on how many had joined
//!   when they looked first.
//! * So do the bytes of a mutex: here all join at one instant, and see each other in their first listing; real ones join
//!   one after the other, and see fewer. A listing is decided on by the nearest of those ahead, which decides alike.
//! * With several waiters in a session it depends on the order in which they come who is next to whom, and so who lists
//!   and who passes the lock on. One order is drawn from the seed. That contenders who join a long queue one after the
//!   other are held back to join in groups has no part in it, as all join at once.
//! * Servers and clients share one machine, which the model takes for one that does a thing at a time.
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

/// Below which node measured drains have their locks. The length of a path counts among the bytes.
pub const PARENT: &str = "/simulate";

/// Sessions that the waiters of a cohort lock share unless told otherwise: those of one process share one, and three
/// instances of the service is what a comparison starts.
const COHORT_SESSIONS: u32 = 3;

/// A recipe that is simulated.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Recipe {
    /// One fixed node that everybody watches: the herd.
    Naive,
    /// A queue of nodes, each waiter watching the one before it.
    Mutex,
    /// The same, in which a release tells the next that nobody is ahead.
    Handoff,
    /// A queue of processes, each of which hands the lock over within itself.
    Cohort,
}

/// One drain, predicted or measured.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Point {
    /// How many queued at once, the first holder included. Each held the lock once, so there were as many releases.
    pub waiters: u32,
    /// Sessions that they shared, in turns.
    pub sessions: u32,
    /// Watch notifications that the server sent, while they queued and while they were served.
    pub notifications: u64,
    /// Requests that the sessions sent.
    pub requests: u64,
    /// Bytes of those requests, of their replies and of the notifications, as the sessions count them.
    pub bytes: u64,
    /// Milliseconds from the call of a release to the next grant, the median; absent with a single waiter.
    pub handover_ms: Option<f64>,
    /// Milliseconds from the first release, when all others wait, to the confirmation of the last one. Not among them is the
    /// time for which the holders of the naive lock wait for the server to say that all others watch again, once they do.
    pub drain_ms: f64,
}

impl Point {
    /// Whether its times are times, and it has as many sessions as it may.
    pub fn is_sound(&self) -> bool {
        let is_time = |ms: f64| ms.is_finite() && ms >= 0.0;
        (1..=self.waiters).contains(&self.sessions) && is_time(self.drain_ms) && self.handover_ms.is_none_or(is_time)
    }
}

impl Recipe {
    /// All of them, in the order of the tables.
    pub const ALL: [Recipe; 4] = [Recipe::Naive, Recipe::Mutex, Recipe::Handoff, Recipe::Cohort];

    /// The name on the command line and in the tables.
    pub fn name(self) -> &'static str {
        match self {
            Recipe::Naive => "naive",
            Recipe::Mutex => "mutex",
            Recipe::Handoff => "handoff",
            Recipe::Cohort => "cohort",
        }
    }

    /// How many sessions so many waiters have unless told otherwise: one each, but for a cohort, which is a session.
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
