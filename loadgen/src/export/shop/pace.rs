//! When each buyer buys, counted from the common start.

use buyers::model::LoadModel;

/// The schedule of the buyers, in numbers that every engine computes with.
///
/// Buyer `i` of `n` makes its purchase number `k` at this time after the start:
///
/// | load | time |
/// |---|---|
/// | burst, ramp | `ramp_up · i / (n − 1)`, and only once |
/// | loop | the first one as a ramp, each further one after the last answer, until `duration` |
/// | rate | `(k · n + i) / rate`, until `duration` |
///
/// A rate is divided among the buyers in turns. A buyer that still waits for an answer makes its next purchase late, and the results
/// have the intended instant beside the actual one.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct ShopPace {
    /// Time in which the buyers start one after another, in milliseconds.
    pub(super) ramp_up_ms: u64,
    /// Time in which purchases start, in milliseconds. Zero: each buyer makes one.
    pub(super) duration_ms: u64,
    /// Purchases of all buyers per second. Zero: no rate.
    pub(super) rate_per_s: f64,
}

impl ShopPace {
    pub(super) fn of(model: LoadModel) -> ShopPace {
        let once = ShopPace { ramp_up_ms: 0, duration_ms: 0, rate_per_s: 0.0 };
        match model {
            LoadModel::Burst { .. } => once,
            LoadModel::Ramp { ramp_up_ms, .. } => ShopPace { ramp_up_ms, ..once },
            LoadModel::Loop { duration_ms, ramp_up_ms } => ShopPace { ramp_up_ms, duration_ms, ..once },
            LoadModel::Open { rate_per_s, duration_ms, .. } => ShopPace { duration_ms, rate_per_s, ..once },
        }
    }

    /// Returns the time from the start to the last start of a purchase, in milliseconds.
    pub(super) fn length_ms(&self) -> u64 {
        self.ramp_up_ms.max(self.duration_ms)
    }

    /// Tells whether arrivals have a rate.
    pub(super) fn has_rate(&self) -> bool {
        self.rate_per_s > 0.0
    }
}
