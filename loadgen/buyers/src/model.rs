//! The load models: when each request is meant to start.
//!
//! A model is closed when a user starts the next request only after the answer to the last one, and open when requests
//! arrive without waiting for earlier answers. Every request has an intended start, and its response time counts from
//! there: a late start is a delay by the load generator or the service, and never the wish of the buyer.

use std::time::Duration;

use rand::rngs::ChaCha8Rng;
use rand::{RngExt, SeedableRng};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use stats::as_f64;
use stats::figures::things;

/// How the load comes.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "kind", rename_all = "kebab-case")]
pub enum LoadModel {
    /// Closed burst: every buyer sends its requests, all at the same instant.
    Burst {
        /// Requests of each buyer.
        #[serde(default = "one")]
        requests_per_buyer: u32,
    },
    /// Closed ramp: every buyer sends its requests at one instant, the buyers evenly spread over a time.
    Ramp {
        /// From the start of the first buyer to the start of the last, in milliseconds.
        ramp_up_ms: u64,
        /// Requests of each buyer.
        #[serde(default = "one")]
        requests_per_buyer: u32,
    },
    /// Closed loop: every user sends one request after another.
    Loop {
        /// For how long requests are started, in milliseconds.
        duration_ms: u64,
        /// From the start of the first user to the start of the last, in milliseconds.
        ramp_up_ms: u64,
    },
    /// Open: requests arrive at a rate, without waiting for earlier answers. An arrival that finds no free user is
    /// dropped.
    Open {
        /// Arrivals a second.
        rate_per_s: f64,
        /// How they are spaced.
        arrivals: Arrivals,
        /// For how long requests are started, in milliseconds.
        duration_ms: u64,
    },
}

/// How arrivals are spaced.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema, clap::ValueEnum)]
#[serde(rename_all = "kebab-case")]
pub enum Arrivals {
    /// Independently of each other, as buyers do: the gaps are exponential
    Poisson,
    /// Evenly
    Constant,
}

fn one() -> u32 {
    1
}

impl LoadModel {
    /// A burst of one request of each buyer.
    pub const BURST: LoadModel = LoadModel::Burst { requests_per_buyer: 1 };

    /// Describes the model in words, for every output.
    pub fn describe(&self, users: u32) -> String {
        let named = things(users, "user");
        match self {
            LoadModel::Burst { requests_per_buyer } => {
                format!("closed burst, {named} at the same instant, {} each", requests(*requests_per_buyer))
            }
            LoadModel::Ramp { ramp_up_ms, requests_per_buyer } => {
                format!("closed ramp, {named} within {}, {} each", time(*ramp_up_ms), requests(*requests_per_buyer))
            }
            LoadModel::Loop { duration_ms, ramp_up_ms: 0 } => {
                format!("closed loop, {named} for {}", time(*duration_ms))
            }
            LoadModel::Loop { duration_ms, ramp_up_ms } => {
                format!("closed loop, {named} for {}, started within {}", time(*duration_ms), time(*ramp_up_ms))
            }
            LoadModel::Open { rate_per_s, arrivals, duration_ms } => {
                let arrivals = match arrivals {
                    Arrivals::Poisson => "Poisson arrivals",
                    Arrivals::Constant => "evenly spaced arrivals",
                };
                let time = time(*duration_ms);
                format!(
                    "open, {rate_per_s} {arrivals} a second for {time}, at most {} in flight",
                    things(users, "request")
                )
            }
        }
    }

    /// Tells whether all users begin at the release.
    pub fn starts_together(&self) -> bool {
        matches!(self, LoadModel::Burst { .. } | LoadModel::Loop { ramp_up_ms: 0, .. })
    }

    /// Tells whether every user sends exactly one request. A buyer with several requests has as many users.
    pub fn is_one_shot(&self) -> bool {
        matches!(self, LoadModel::Burst { .. } | LoadModel::Ramp { .. })
    }

    /// Tells whether all users wait at the same time. Then the notifications of a release can be predicted.
    pub fn is_burst(&self) -> bool {
        matches!(self, LoadModel::Burst { .. })
    }

    /// Returns how many requests each buyer sends at the same instant.
    pub fn requests_per_buyer(&self) -> usize {
        match self {
            LoadModel::Burst { requests_per_buyer } | LoadModel::Ramp { requests_per_buyer, .. } => {
                usize::try_from(*requests_per_buyer).unwrap_or(usize::MAX).max(1)
            }
            LoadModel::Loop { .. } | LoadModel::Open { .. } => 1,
        }
    }

    /// Returns the number of the buyer that sends a request. The requests of one buyer have consecutive numbers.
    pub fn buyer_of(&self, request: usize) -> usize {
        request / self.requests_per_buyer()
    }

    /// Returns the users that these buyers need: one for each of their requests at the same instant.
    pub fn users_of(&self, buyers: usize) -> usize {
        buyers.saturating_mul(self.requests_per_buyer())
    }

    /// Returns the time from the release in which requests are started.
    pub fn duration(&self) -> Duration {
        match self {
            LoadModel::Burst { .. } => Duration::ZERO,
            LoadModel::Ramp { ramp_up_ms, .. } => Duration::from_millis(*ramp_up_ms),
            LoadModel::Loop { duration_ms, .. } | LoadModel::Open { duration_ms, .. } => {
                Duration::from_millis(*duration_ms)
            }
        }
    }

    /// Returns when user `number` of `users` is meant to send its first request, counted from the release. Closed models only.
    pub fn first_start(&self, number: usize, users: usize) -> Duration {
        let ramp_up_ms = match self {
            LoadModel::Ramp { ramp_up_ms, .. } | LoadModel::Loop { ramp_up_ms, .. } => *ramp_up_ms,
            LoadModel::Burst { .. } | LoadModel::Open { .. } => 0,
        };
        let last = self.buyer_of(users.saturating_sub(1)).max(1) as u128;
        let nanos = u128::from(ramp_up_ms) * 1_000_000 * self.buyer_of(number) as u128 / last;
        Duration::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX))
    }

    /// Returns the intended starts of an open model, counted from the release, in order. A closed model has none, because its
    /// users decide. The same seed draws the same arrivals.
    pub fn arrivals(&self, seed: u64) -> impl Iterator<Item = Duration> + Send + use<> {
        let (rate_per_s, arrivals, end) = match *self {
            LoadModel::Open { rate_per_s, arrivals, .. } => (rate_per_s, arrivals, self.duration()),
            _ => (1.0, Arrivals::Constant, Duration::ZERO),
        };
        let mut random = ChaCha8Rng::seed_from_u64(seed);
        let end = end.as_secs_f64();
        let mut at = 0.0_f64;
        let starts = (1_u64..).map(move |number| {
            let start = at;
            at = match arrivals {
                // Not the sum of the gaps, whose rounding errors add up.
                Arrivals::Constant => as_f64(number) / rate_per_s,
                // 1 − u, as u may be zero and never is one.
                Arrivals::Poisson => at - (1.0 - random.random::<f64>()).ln() / rate_per_s,
            };
            start
        });
        starts.take_while(move |start| *start < end).map(Duration::from_secs_f64)
    }
}

fn requests(count: u32) -> String {
    if count == 1 { "one request".to_owned() } else { things(count, "request") }
}

fn time(ms: u64) -> String {
    humantime::format_duration(Duration::from_millis(ms)).to_string()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn open(rate_per_s: f64, arrivals: Arrivals, duration_ms: u64) -> LoadModel {
        LoadModel::Open { rate_per_s, arrivals, duration_ms }
    }

    #[test]
    fn every_model_says_what_it_is() {
        let described = |model: LoadModel| model.describe(50);
        assert_eq!(described(LoadModel::BURST), "closed burst, 50 users at the same instant, one request each");
        let ramp = |requests_per_buyer| LoadModel::Ramp { ramp_up_ms: 1500, requests_per_buyer };
        assert_eq!(described(ramp(1)), "closed ramp, 50 users within 1s 500ms, one request each");
        assert_eq!(described(ramp(3)), "closed ramp, 50 users within 1s 500ms, 3 requests each");
        let lasting = |ramp_up_ms| LoadModel::Loop { duration_ms: 10_000, ramp_up_ms };
        assert_eq!(described(lasting(0)), "closed loop, 50 users for 10s");
        assert_eq!(described(lasting(2000)), "closed loop, 50 users for 10s, started within 2s");
        assert_eq!(
            described(open(250.0, Arrivals::Poisson, 10_000)),
            "open, 250 Poisson arrivals a second for 10s, at most 50 requests in flight"
        );
    }

    #[test]
    fn a_ramp_spreads_its_users_evenly_from_end_to_end() {
        let ramp = LoadModel::Ramp { ramp_up_ms: 900, requests_per_buyer: 1 };
        let starts: Vec<u128> = (0..4).map(|number| ramp.first_start(number, 4).as_millis()).collect();
        assert_eq!(starts, [0, 300, 600, 900]);
        assert_eq!(ramp.first_start(0, 1), Duration::ZERO);
        assert_eq!(LoadModel::BURST.first_start(3, 4), Duration::ZERO);
    }

    #[test]
    fn the_requests_of_one_buyer_start_together() {
        let ramp = LoadModel::Ramp { ramp_up_ms: 900, requests_per_buyer: 2 };
        assert_eq!((ramp.users_of(4), ramp.requests_per_buyer()), (8, 2));
        let starts: Vec<_> = (0..8).map(|user| (ramp.buyer_of(user), ramp.first_start(user, 8).as_millis())).collect();
        assert_eq!(starts, [(0, 0), (0, 0), (1, 300), (1, 300), (2, 600), (2, 600), (3, 900), (3, 900)]);
        let rate = open(4.0, Arrivals::Constant, 1000);
        assert_eq!((rate.users_of(4), rate.buyer_of(3)), (4, 3));
    }

    #[test]
    fn constant_arrivals_are_evenly_spaced() {
        let starts = open(4.0, Arrivals::Constant, 1000).arrivals(1);
        let ms: Vec<u128> = starts.map(|start| start.as_millis()).collect();
        assert_eq!(ms, [0, 250, 500, 750]);
        assert_eq!(open(300.0, Arrivals::Constant, 1000).arrivals(1).count(), 300);
    }

    #[test]
    fn poisson_arrivals_have_their_rate_and_their_spread() {
        let starts: Vec<Duration> = open(1000.0, Arrivals::Poisson, 20_000).arrivals(42).collect();
        // Twenty thousand are expected, with a standard deviation of 141.
        assert!((19_400..20_600).contains(&starts.len()), "{}", starts.len());
        let gaps: Vec<f64> = starts.windows(2).map(|pair| (pair[1] - pair[0]).as_secs_f64()).collect();
        let count = as_f64(gaps.len());
        let mean = gaps.iter().sum::<f64>() / count;
        let deviation = (gaps.iter().map(|gap| (gap - mean).powi(2)).sum::<f64>() / count).sqrt();
        assert!((deviation / mean - 1.0).abs() < 0.05, "the gaps of a Poisson process vary as much as they last");
    }

    proptest! {
        #[test]
        fn arrivals_are_in_order_and_repeat_with_their_seed(
            rate in 0.5_f64..2000.0, duration_ms in 1_u64..2000, seed: u64,
        ) {
            let model = open(rate, Arrivals::Poisson, duration_ms);
            let starts: Vec<Duration> = model.arrivals(seed).collect();
            prop_assert!(starts.is_sorted() && starts.iter().all(|start| *start < model.duration()));
            prop_assert_eq!(starts, model.arrivals(seed).collect::<Vec<_>>());
        }
    }
}
