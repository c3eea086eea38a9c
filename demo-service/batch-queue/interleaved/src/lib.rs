//! The batch queue of the service under a scheduler that chooses, at each lock and each await, who goes on.
//!
//! [`batch_queue`] is a copy of the queue's sources, compiled with the locks and channels of [`shuttle`], and with planted
//! [`mistakes`]. A [`scene`] lets buyers, workers, a database and a link between instances meet in it, and checks their
//! [rules](notes). One seed is one scene under one schedule.
//!
//! What is around the queue is written anew: the database decides and commits as `demo-service/src/strategy/batch/sell.rs` lets it, buyers
//! and workers wait as in `strategy/batch.rs`, and batches go to their owner as in `strategy/owner/`. A change there has to be made here,
//! too. Left out are the election, which is a list of times, and the pauses and time limits of a hand-over.

#[allow(warnings, clippy::all, clippy::pedantic, reason = "the code is checked where it is written")]
pub mod batch_queue {
    include!(concat!(env!("OUT_DIR"), "/root.rs"));
}

pub mod mistakes;
pub mod notes;
pub mod scene;

mod buyer;
mod clock;
mod instance;
mod link;
mod plan;
mod purchase;
mod scheduler;
mod transaction;
mod world;

use planting::Switch;

static PLANTED: Switch = Switch::off();

/// Switches this mistake on, or none.
///
/// # Panics
/// If there is no mistake of this name.
pub fn plant(mistake: Option<&str>) {
    PLANTED.turn(mistakes::all(), mistake);
}

fn is_planted(number: usize) -> bool {
    PLANTED.is_on(number)
}
