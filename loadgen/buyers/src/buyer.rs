//! One purchase of a buyer: its start and its end in the tally.

use std::sync::Mutex;
use std::time::Duration;

use tokio::time::Instant;

use crate::bought::Bought;
use crate::sample::{Outcome, Sample};
use crate::tally::{Tally, shared};

/// A user's next purchase, and its intended start.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Buyer {
    /// Number of the user, from zero.
    pub(crate) user: usize,
    /// Number of the request, which chooses the instance and the SKU at the service of the lab.
    pub(crate) number: usize,
    /// Number of the buyer, from zero.
    pub(crate) of: usize,
    /// When the users were released.
    pub(crate) released: Instant,
    /// When the purchase is meant to start, counted from the release.
    pub(crate) intended: Duration,
    /// Since when a user that could start it was idle.
    pub(crate) idle_since: Duration,
}

/// A purchase that is under way in the tally.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Begun {
    buyer: Buyer,
    /// When it started, counted from the release.
    started: Duration,
}

/// How a purchase ended.
#[derive(Debug, Clone, Copy)]
pub(crate) struct End {
    /// When its outcome was known, counted from the release.
    pub(crate) ended: Duration,
    /// Whether it failed before there was an answer.
    pub(crate) failed: bool,
}

impl Buyer {
    /// Notes in the tally that the purchase starts now.
    pub(crate) fn begin(self, tally: &Mutex<Tally>) -> Begun {
        let started = self.released.elapsed();
        shared(tally).start(self.user, started);
        Begun { buyer: self, started }
    }
}

impl Begun {
    /// Returns when the purchase started.
    pub(crate) fn since(&self) -> Instant {
        self.buyer.released + self.started
    }

    /// Adds the purchase to the tally. `of` is the number of the buyer that bought. Returns how it ended.
    pub(crate) fn end(self, tally: &Mutex<Tally>, of: usize, bought: Bought) -> End {
        let Begun { buyer: Buyer { user, released, intended, idle_since, .. }, started } = self;
        let Bought {
            goods,
            outcome,
            confirmation,
            problem,
            status,
            first_byte,
            instance,
            received_bytes,
            is_committed,
            ..
        } = bought;
        let since_release = |instant: Instant| instant.saturating_duration_since(released);
        let ended = since_release(bought.ended);
        let decided = bought.decided.map(since_release);
        let failed = status.is_none() && outcome == Outcome::Error;
        shared(tally).end(Sample {
            user,
            buyer: of,
            goods,
            outcome,
            confirmation,
            intended,
            idle_since,
            started,
            first_byte: first_byte.map(since_release),
            ended,
            decided,
            is_committed,
            status,
            instance,
            received_bytes,
            problem,
        });
        End { ended: decided.unwrap_or(ended), failed }
    }
}
