//! What one trial measured.

use std::time::Duration;

use loadgen::audit::Audit;
use loadgen::stats::{TimeSummary, Times, as_f64};
use serde::Serialize;

use crate::generator::Generator;
use crate::herd::Traffic;

/// What became of one buyer's request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// 200: a unit was bought.
    Sold { order_id: i64, quantity: i64 },
    /// 409: nothing left.
    SoldOut,
    /// 503 with a problem that promises that nothing was bought, as when the lock could not be had in time.
    Refused,
    /// Any other answer, or none: the connection failed. Whether something was bought is unknown.
    Error,
    /// No answer in time. Whether something was bought is unknown.
    Timeout,
}

/// One buyer's request, timed by the generator itself.
///
/// All times count from the release of the rendezvous, the instant at which every buyer wanted to buy; a wait for the
/// generator, the network or the lock is part of them.
#[derive(Debug, Clone)]
pub(crate) struct Sample {
    pub(crate) outcome: Outcome,
    /// From the release to the start of the request.
    pub(crate) start_lag: Duration,
    /// From the release to the answer's headers; absent when none came.
    pub(crate) first_byte: Option<Duration>,
    /// From the release to the last byte of the answer, or to the failure.
    pub(crate) response: Duration,
    /// What went wrong, for a refusal or an error.
    pub(crate) problem: Option<String>,
}

/// One value for each outcome.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub(crate) struct ByOutcome<T> {
    pub(crate) sold: T,
    pub(crate) sold_out: T,
    pub(crate) refused: T,
    pub(crate) error: T,
    pub(crate) timeout: T,
}

impl ByOutcome<u64> {
    /// Buyers who were told neither "sold" nor "sold out".
    pub(crate) fn undecided(&self) -> u64 {
        self.refused + self.error + self.timeout
    }
}

impl<T> ByOutcome<T> {
    /// A value made for each outcome.
    pub(crate) fn from_fn(mut make: impl FnMut() -> T) -> Self {
        ByOutcome { sold: make(), sold_out: make(), refused: make(), error: make(), timeout: make() }
    }

    /// The value of one outcome.
    pub(crate) fn get_mut(&mut self, outcome: Outcome) -> &mut T {
        match outcome {
            Outcome::Sold { .. } => &mut self.sold,
            Outcome::SoldOut => &mut self.sold_out,
            Outcome::Refused => &mut self.refused,
            Outcome::Error => &mut self.error,
            Outcome::Timeout => &mut self.timeout,
        }
    }

    /// What a function makes of each value.
    pub(crate) fn map<U>(&self, mut function: impl FnMut(&T) -> U) -> ByOutcome<U> {
        ByOutcome {
            sold: function(&self.sold),
            sold_out: function(&self.sold_out),
            refused: function(&self.refused),
            error: function(&self.error),
            timeout: function(&self.timeout),
        }
    }
}

/// Response times of one trial, or of several merged.
#[derive(Debug, Clone)]
pub(crate) struct Timings {
    /// To the last byte, by outcome.
    pub(crate) response: ByOutcome<Times>,
    /// To the headers, of the answers that sold.
    pub(crate) first_byte_sold: Times,
}

impl Timings {
    pub(crate) fn new() -> Self {
        Timings { response: ByOutcome::from_fn(Times::new), first_byte_sold: Times::new() }
    }

    /// The times of the samples.
    pub(crate) fn of(samples: &[Sample]) -> Self {
        let mut timings = Timings::new();
        for sample in samples {
            timings.response.get_mut(sample.outcome).record(sample.response);
            if let (Outcome::Sold { .. }, Some(first_byte)) = (sample.outcome, sample.first_byte) {
                timings.first_byte_sold.record(first_byte);
            }
        }
        timings
    }

    /// Adds the times of another trial.
    pub(crate) fn merge(&mut self, other: &Timings) {
        self.response.sold.merge(&other.response.sold);
        self.response.sold_out.merge(&other.response.sold_out);
        self.response.refused.merge(&other.response.refused);
        self.response.error.merge(&other.response.error);
        self.response.timeout.merge(&other.response.timeout);
        self.first_byte_sold.merge(&other.first_byte_sold);
    }
}

/// The raw figures of one trial.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct Trial {
    /// Number of the block, from zero.
    pub(crate) block: usize,
    pub(crate) strategy: String,
    /// The sale that the service opened for it; its orders stay in the database.
    pub(crate) sale: i64,
    /// Buyers by outcome.
    pub(crate) answers: ByOutcome<u64>,
    pub(crate) audit: Audit,
    pub(crate) ledger_balanced: bool,
    /// Units sold a second, from the first start to the last sale; absent when nothing was sold.
    pub(crate) sold_per_second: Option<f64>,
    /// From the release to the last answer.
    pub(crate) duration_ms: f64,
    /// Response times by outcome.
    pub(crate) latency_ms: ByOutcome<TimeSummary>,
    /// Times to the first byte of the answers that sold.
    pub(crate) first_byte_ms: TimeSummary,
    /// Traffic on ZooKeeper.
    pub(crate) zookeeper: Traffic,
    /// Whether everything had come to rest before the counters were read and the books were balanced.
    pub(crate) settled: bool,
    pub(crate) generator: Generator,
    /// A few of the problems behind refusals and errors, each once.
    pub(crate) problems: Vec<String>,
    /// The times themselves, to be merged.
    #[serde(skip)]
    pub(crate) timings: Timings,
}

impl Trial {
    /// Whether the strategy sold wrongly for certain. Units left and lost updates count only once all is at rest, as a
    /// deduction that is still under way may set them right; a unit too many or an unfounded answer stays one.
    pub(crate) fn is_bad(&self) -> bool {
        let audit = &self.audit;
        let at_rest = self.settled && (audit.undersold > 0 || audit.lost_updates != 0);
        audit.oversold > 0 || !audit.ledger_balanced() || at_rest
    }

    /// Whether the trial proves nothing either way: undecided buyers left units, or the books of a trial that had not
    /// come to rest do not balance.
    pub(crate) fn is_inconclusive(&self) -> bool {
        !self.is_bad() && (self.audit.unsold_undecided > 0 || !self.audit.is_clean())
    }
}

/// Units sold a second between the first start and the last sale.
pub(crate) fn sold_per_second(samples: &[Sample]) -> Option<f64> {
    let sales = samples.iter().filter_map(|sample| match sample.outcome {
        Outcome::Sold { quantity, .. } => Some((quantity, sample.response)),
        _ => None,
    });
    let (units, end) = sales.fold((0, Duration::ZERO), |(units, end), (quantity, at)| (units + quantity, end.max(at)));
    let start = samples.iter().map(|sample| sample.start_lag).min()?;
    let seconds = end.checked_sub(start)?.as_secs_f64();
    let units = u64::try_from(units).ok().filter(|units| *units > 0)?;
    (seconds > 0.0).then(|| as_f64(units) / seconds)
}

/// How many different problems are kept for the report.
pub(crate) const PROBLEMS_MAX: usize = 5;

/// The first few different problems.
pub(crate) fn problems(samples: &[Sample]) -> Vec<String> {
    let mut seen: Vec<String> = Vec::new();
    for problem in samples.iter().filter_map(|sample| sample.problem.as_ref()) {
        if seen.len() < PROBLEMS_MAX && !seen.contains(problem) {
            seen.push(problem.clone());
        }
    }
    seen
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    pub(crate) fn sample(outcome: Outcome, start_ms: u64, response_ms: u64) -> Sample {
        Sample {
            outcome,
            start_lag: Duration::from_millis(start_ms),
            first_byte: Some(Duration::from_millis(response_ms)),
            response: Duration::from_millis(response_ms),
            problem: None,
        }
    }

    const SOLD: Outcome = Outcome::Sold { order_id: 1, quantity: 1 };

    #[test]
    fn throughput_runs_from_the_first_start_to_the_last_sale() {
        let samples = [sample(SOLD, 100, 300), sample(SOLD, 150, 600), sample(Outcome::SoldOut, 120, 5000)];
        assert_eq!(sold_per_second(&samples), Some(4.0));
        assert_eq!(sold_per_second(&samples[2..]), None);
        assert_eq!(sold_per_second(&[]), None);
    }

    #[test]
    fn times_are_kept_apart_by_outcome() {
        let timings = Timings::of(&[sample(SOLD, 0, 10), sample(Outcome::SoldOut, 0, 1), sample(SOLD, 0, 20)]);
        let counts = timings.response.map(Times::count);
        assert_eq!(counts, ByOutcome { sold: 2, sold_out: 1, ..ByOutcome::default() });
        assert_eq!(timings.first_byte_sold.count(), 2);
    }

    #[test]
    fn problems_are_named_once_and_only_a_few() {
        let samples: Vec<Sample> = (0..20)
            .map(|i| Sample { problem: Some(format!("problem {}", i / 2)), ..sample(Outcome::Error, 0, 1) })
            .collect();
        assert_eq!(problems(&samples), ["problem 0", "problem 1", "problem 2", "problem 3", "problem 4"]);
    }
}
