//! The load of one trial: many buyers, timed by us.
//!
//! | what | by whom | why |
//! |---|---|---|
//! | users, requests, goose's own report | goose | it is made for that |
//! | pace of a ramp | goose | it starts each user at its instant, to a millisecond, as a timer of the runtime does |
//! | one start of all users | `gate` | goose starts users one after another |
//! | end of a closed loop | `closed` | goose looks at its clock twice a second |
//! | arrivals at a rate | `open` | goose has no open model |
//! | a purchase at the service of the lab | `lab` | its answers are receipts, which other shops do not have |
//! | one request there | `lab_request` | its buyers are named, and tickets are followed |
//! | a purchase that is repeated there under its key | `repeat` | other shops may not know keys |
//! | a purchase in two steps at that service | `reserve` | between the steps buyers may leave, be late, or pay twice |
//! | a purchase at any shop | `shop`, `script` | a file describes what buyers send, and what the answers mean |
//! | a purchase by the scenario of a goose user | `scenario` | its transactions send what they like, and know no gate |
//! | client | `lab`, or the owner of the load | goose makes clients that obey the environment's proxy, and gives none to open connections with |
//! | times | `buyer` | goose's clock stops at the headers of an answer, and knows no intended start |
//!
//! The *release* of the buyers is the instant from which on they may buy: the gate opens, or an open model begins. All instants of a
//! load count from it.
//!
//! The crate holds what runs while buyers buy, so that a release builds it for speed and the rest of `loadgen` for a short
//! build. `answer`, `habits`, `health`, `latency`, `model`, `sample` and `tally` are pure: they know no clock, no task and no socket.

pub mod answer;
mod bought;
mod buyer;
mod closed;
mod gate;
pub mod habits;
pub mod health;
mod heartbeat;
pub mod lab;
pub mod lab_request;
pub mod latency;
pub mod load;
pub mod model;
mod open;
mod received;
pub mod repeat;
pub mod reserve;
pub mod sample;
pub mod scenario;
pub mod script;
pub mod shop;
pub mod tally;

use std::future::ready;
use std::pin::Pin;

// Named for its version alone, see the workspace.
use idna_adapter as _;

use crate::load::{Load, LoadResult, Purchase};
use crate::model::LoadModel;

/// Why a load could not be made.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The users could not all be started.
    #[error("only {arrived} of {users} users were ready within {within_s} s; fewer --users may help")]
    Rendezvous {
        /// How many were ready.
        arrived: usize,
        /// How many there should have been.
        users: usize,
        /// How long they had, in seconds.
        within_s: u64,
    },
    /// The scenario of a goose user did not do its part.
    #[error("{0}")]
    Scenario(String),
    /// Goose failed or lost a user, or there is no HTTP client.
    #[error("the load generator failed: {0}")]
    Generator(String),
}

/// Lets the buyers buy.
///
/// # Errors
///
/// [`Error::Rendezvous`] when not all users can be started, [`Error::Scenario`] when a scenario does not bring a buyer to the
/// rendezvous once, [`Error::Generator`] when goose fails or loses a user.
///
/// # Cancel safety
///
/// Buyers that wait or buy give up; what the service had begun for them, it may finish.
pub fn run(load: Load) -> Pin<Box<dyn Future<Output = Result<LoadResult, Error>> + Send>> {
    if matches!(load.purchase, Purchase::Scenario(_)) && !load.model.is_one_shot() {
        return Box::pin(ready(Err(Error::Scenario(
            "a scenario buys once; let its users come in a burst or a ramp".to_owned(),
        ))));
    }
    // Boxed, because the compiler builds an `async fn` in the crate that awaits it, without the settings of this crate.
    match load.model {
        LoadModel::Burst { .. } | LoadModel::Ramp { .. } | LoadModel::Loop { .. } => Box::pin(closed::run(load)),
        LoadModel::Open { .. } => Box::pin(open::run(load)),
    }
}

/// Tells goose to start no more users and to end those that run, as an interrupted program does.
///
/// Goose handles `SIGINT` by itself whenever it runs, and calls `exit(1)` the second time. The first handler stays, so a
/// program that wants another one installs it before it calls [`run`].
pub fn stop() {
    goose::trigger_killswitch("interrupted");
}
