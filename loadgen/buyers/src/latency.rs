//! The times of a load, by outcome and by where they begin.

use std::time::Duration;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use stats::times::Times;

use crate::sample::{ByOutcome, Outcome, Sample};

/// Latencies of one trial, or of several merged. In milliseconds.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Latency {
    /// Response times: from the intended start of a request to the last byte of its answer. A wait for the generator,
    /// the network or the lock is part of them. It is unknown what a dropped arrival would have got, so it counts as
    /// unserved both among the sold and among the sold out.
    pub response: ByOutcome<Times>,
    /// Response times of the sold in a closed loop, corrected for coordinated omission as wrk corrects its own. For an answer
    /// that took more than twice the mean, the requests are added that its user would have made meanwhile, one in every mean.
    /// Empty in other models.
    pub corrected_sold: Times,
    /// Service times: from the actual start of the request. Uncorrected, for comparison with tools that measure only
    /// these.
    pub service: ByOutcome<Times>,
    /// From the intended start to the headers of the answers that sold.
    pub first_byte_sold: Times,
    /// From the intended start to the commit of the order: the response times of the sold, if they are answered after it. A buyer
    /// that was told "sold" and has no order is never confirmed. Empty if the commits of the shop are not known.
    #[serde(default)]
    pub confirmed_sold: Times,
}

impl Latency {
    /// Adds the times of one request.
    pub(crate) fn record(&mut self, sample: &Sample) {
        self.response.get_mut(sample.outcome).record(sample.response());
        self.service.get_mut(sample.outcome).record(sample.service());
        if let (Outcome::Sold, Some(first_byte)) = (sample.outcome, sample.first_byte) {
            self.first_byte_sold.record(first_byte.saturating_sub(sample.intended));
        }
        if sample.outcome == Outcome::Sold && sample.is_committed {
            self.confirmed_sold.record(sample.response());
        }
    }

    /// Adds arrivals that were dropped.
    pub(crate) fn record_dropped(&mut self, dropped: u64) {
        let Latency { response, first_byte_sold, confirmed_sold, .. } = self;
        for times in [&mut response.sold, &mut response.sold_out, first_byte_sold, confirmed_sold] {
            times.record_unserved(dropped);
        }
    }

    /// Fills in the corrected times of a closed loop with this mean response time.
    pub(crate) fn correct(&mut self, mean: Duration) {
        self.corrected_sold = self.response.sold.corrected(mean);
    }

    /// Merges the latencies of several trials.
    pub fn merged(all: &[&Latency]) -> Self {
        let merge = |of: fn(&Latency) -> &ByOutcome<Times>| {
            ByOutcome::fold(&all.iter().map(|latency| of(latency)).collect::<Vec<_>>(), |times| Times::merged(times))
        };
        Latency {
            response: merge(|latency| &latency.response),
            corrected_sold: Times::merged(all.iter().map(|latency| &latency.corrected_sold)),
            service: merge(|latency| &latency.service),
            first_byte_sold: Times::merged(all.iter().map(|latency| &latency.first_byte_sold)),
            confirmed_sold: Times::merged(all.iter().map(|latency| &latency.confirmed_sold)),
        }
    }
}
