//! What one trial measured.

use std::time::Duration;

use buyers::health::Generator;
use buyers::sample::{ByOutcome, Outcome, Sample};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use stats::times::Times;
use stats::{as_f64, as_ms};

use crate::audit::history::HistoryAudit;
use crate::audit::trial::Audit;
use crate::lab::cpu::ProcessCpu;
use crate::lab::postgres_load::PostgresLoad;
use crate::lab::traffic::Traffic;
use crate::trial::plan::{Limits, Subject, named};

/// Latencies of one trial, or of several merged. In milliseconds.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Latency {
    /// Response times: from the intended start of a request to the last byte of its answer. A wait for the generator, the
    /// network or the lock is part of them. Nobody knows what a dropped arrival would have got: it counts as unserved among
    /// the sold, and among the sold out.
    pub(crate) response: ByOutcome<Times>,
    /// Response times of the sold in a closed loop, corrected for coordinated omission as wrk corrects its own. For an answer
    /// that took more than twice the mean, the requests are added that its user would have made meanwhile, one in every mean.
    /// Empty in other models.
    pub(crate) corrected_sold: Times,
    /// Service times: from the actual start of the request. Uncorrected, for comparison with tools that know no other.
    pub service: ByOutcome<Times>,
    /// From the intended start to the headers of the answers that sold.
    pub(crate) first_byte_sold: Times,
}

impl Latency {
    /// The latencies of the samples, and of arrivals that were dropped.
    pub(crate) fn of(samples: &[Sample], dropped: u64) -> Self {
        let mut latency = Latency::default();
        for times in [&mut latency.response.sold, &mut latency.response.sold_out, &mut latency.first_byte_sold] {
            times.record_unserved(dropped);
        }
        for sample in samples {
            latency.response.get_mut(sample.outcome).record(sample.response());
            latency.service.get_mut(sample.outcome).record(sample.service());
            if let (Outcome::Sold(_), Some(first_byte)) = (sample.outcome, sample.first_byte) {
                latency.first_byte_sold.record(first_byte.saturating_sub(sample.intended));
            }
        }
        latency
    }

    /// Fills in the corrected times of a closed loop.
    pub(crate) fn correct(&mut self, samples: &[Sample]) {
        let mean = samples
            .iter()
            .map(Sample::response)
            .sum::<Duration>()
            .checked_div(u32::try_from(samples.len()).unwrap_or(u32::MAX));
        self.corrected_sold = self.response.sold.corrected(mean.unwrap_or_default());
    }

    /// The latencies of several trials together.
    pub(crate) fn merged(all: &[&Latency]) -> Self {
        let merge = |of: fn(&Latency) -> &ByOutcome<Times>| {
            ByOutcome::fold(&all.iter().map(|latency| of(latency)).collect::<Vec<_>>(), |times| Times::merged(times))
        };
        Latency {
            response: merge(|latency| &latency.response),
            corrected_sold: Times::merged(all.iter().map(|latency| &latency.corrected_sold)),
            service: merge(|latency| &latency.service),
            first_byte_sold: Times::merged(all.iter().map(|latency| &latency.first_byte_sold)),
        }
    }
}

/// How a count grew: `count[i]` at `at_ms[i]`, at most a hundred steps.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub(crate) struct Curve {
    /// Instants in milliseconds, in order.
    pub(crate) at_ms: Vec<f64>,
    /// The count at each of them.
    pub(crate) count: Vec<u64>,
}

/// Steps of a [`Curve`].
const CURVE_STEPS: usize = 100;

impl Curve {
    /// How the events accumulate.
    pub(crate) fn of(mut events: Vec<Duration>) -> Curve {
        events.sort_unstable();
        let steps = events.len().min(CURVE_STEPS);
        // Of each hundredth of the events the last one, so that the curve ends with the last of all.
        let chosen = (1..=steps).map(|step| step * events.len() / steps);
        let (at_ms, count) = chosen.map(|count| (as_ms(events[count - 1]), count as u64)).unzip();
        Curve { at_ms, count }
    }
}

/// One trial.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct Trial {
    /// Number of its block, from zero.
    pub(crate) block: usize,
    /// Whether it only warmed up: audited like the others, its figures count for nothing.
    pub(crate) warm_up: bool,
    /// Its strategy.
    pub(crate) strategy: String,
    /// How many users it had.
    pub(crate) users: u32,
    /// Name of the build that it tried, if two are compared.
    #[serde(default)]
    pub build: Option<String>,
    /// The sale that the service opened for each SKU; their orders stay in the database.
    pub(crate) sales: Vec<i64>,
    /// Requests to buy by outcome.
    pub(crate) answers: ByOutcome<u64>,
    /// What was really sold.
    pub(crate) audit: Audit,
    /// Whether the orders are exactly those that buyers were told of, indeterminate ones apart.
    pub(crate) ledger_balanced: bool,
    /// What the audit could not check, a line each with how much of it. Empty: everything was checked.
    pub(crate) unchecked: Vec<String>,
    /// What the instances' history says about the lock; absent when their times cannot be compared.
    pub(crate) history: Option<HistoryAudit>,
    /// From each release of the lock to the next entry of one who waited, in milliseconds, where the history tells.
    pub(crate) handovers: Times,
    /// Units sold a second, from the first start to the last sale, those beyond the stock not counted; absent when nothing
    /// was sold.
    pub(crate) goodput_per_s: Option<f64>,
    /// From the release until the buyer of the last unit had the answer, in milliseconds; absent when not every unit was
    /// confirmed.
    pub(crate) sold_out_after_ms: Option<f64>,
    /// From the release to the last answer, in milliseconds.
    pub duration_ms: f64,
    /// Longest time in which somebody waited for an answer and nobody got one, in milliseconds; absent without a request.
    pub(crate) silence_max_ms: Option<f64>,
    /// Latencies.
    pub latency: Latency,
    /// Traffic on ZooKeeper, from before the release until all was quiet again.
    pub(crate) zookeeper: Traffic,
    /// What it cost Postgres.
    pub(crate) postgres: PostgresLoad,
    /// Processor time of each process, as far as it can be known.
    pub(crate) cpu: Vec<ProcessCpu>,
    /// Whether everything had come to rest, within ten seconds, before the counters were read and the books were balanced.
    pub(crate) settled: bool,
    /// How the load generator did.
    pub generator: Generator,
    /// Up to five different problems behind refusals and errors.
    pub(crate) problems: Vec<String>,
    /// Units sold over time, as the buyers learnt of it, from the release on.
    pub(crate) sold_over_time: Curve,
    /// Critical sections entered over time, from the first that was asked for on, where the history tells.
    pub(crate) entered_over_time: Curve,
}

impl Trial {
    /// Its strategy in words, with its build if two are compared.
    pub(crate) fn name(&self) -> String {
        named(&self.strategy, self.build.as_deref())
    }

    /// Whether it tried this.
    pub(crate) fn is_of(&self, subject: &Subject) -> bool {
        self.strategy == subject.strategy && self.users == subject.users && self.build == subject.build
    }

    /// Whether the strategy sold wrongly for certain. Units left and lost updates count only once all is at rest, as a
    /// deduction that is still under way may set them right. A unit too many or an unfounded answer counts at any time.
    pub(crate) fn is_bad(&self) -> bool {
        let audit = &self.audit;
        let at_rest = self.settled && (audit.undersold > 0 || audit.lost_updates != 0);
        let wrong_in_itself = audit.oversold > 0 || audit.double_sales > 0 || !audit.is_in_sequence();
        wrong_in_itself || !audit.ledger_balanced() || at_rest
    }

    /// Whether the order in which buyers were served breaks a promise. The lock did not exclude, an order has an older token
    /// than an order before it, or a batch did not keep to the order of arrival.
    pub(crate) fn is_order_violated(&self) -> bool {
        let is_found = |orders: Option<u64>| orders.is_some_and(|orders| orders > 0);
        is_found(self.audit.tokens_out_of_order)
            || is_found(self.audit.overtaken_in_batch)
            || self.history.as_ref().is_some_and(HistoryAudit::is_violated)
    }

    /// Whether the trial proves nothing either way: undecided buyers left units, or the books of a trial that had not
    /// come to rest do not balance.
    pub(crate) fn is_inconclusive(&self) -> bool {
        !self.is_bad() && (self.audit.unsold_undecided > 0 || !self.audit.is_clean())
    }

    /// Whether the trial proves nothing for the strategy, although nothing wrong was found.
    pub(crate) fn proves_nothing(&self, limits: &Limits) -> bool {
        self.is_undecided(limits) || (!self.is_bad() && !self.unchecked.is_empty())
    }

    /// Whether the trial proves nothing because of what its buyers met.
    pub(crate) fn is_undecided(&self, limits: &Limits) -> bool {
        self.is_inconclusive() || self.drops_too_many(limits) || self.fails_too_many(limits)
    }

    /// Whether the trial proves nothing, as too many arrivals were dropped: a buyer who was never served may be the one whom
    /// the strategy would have wronged.
    pub(crate) fn drops_too_many(&self, limits: &Limits) -> bool {
        let Generator { requests, dropped, .. } = self.generator;
        !self.is_bad() && as_f64(dropped) > limits.dropped_share_max * as_f64(requests + dropped)
    }

    /// Whether the trial proves nothing, as too many requests failed: its times are those of the buyers who were lucky.
    pub(crate) fn fails_too_many(&self, limits: &Limits) -> bool {
        let answers = &self.answers;
        !self.is_bad() && as_f64(answers.failed()) > limits.errors_share_max * as_f64(answers.total())
    }

    /// A figure for each unit sold; nothing when none was.
    pub(crate) fn per_sale(&self, figure: Option<f64>) -> Option<f64> {
        (self.audit.sold > 0).then(|| as_f64(self.audit.sold)).and_then(|sold| Some(figure? / sold))
    }
}

/// When each unit was sold, as the buyers learnt of it.
pub(crate) fn sold_at(samples: &[Sample]) -> Vec<Duration> {
    let sales = samples.iter().filter_map(|sample| match sample.outcome {
        Outcome::Sold(told) => Some(vec![sample.ended; usize::try_from(told.quantity).unwrap_or(0)]),
        _ => None,
    });
    let mut sold: Vec<Duration> = sales.flatten().collect();
    sold.sort_unstable();
    sold
}

/// Units of the stock sold a second between the first start and the last of these sales.
pub(crate) fn goodput_per_s(samples: &[Sample], sold_at: &[Duration], stock: usize) -> Option<f64> {
    let units = sold_at.len().min(stock);
    let last = units.checked_sub(1).and_then(|last| sold_at.get(last))?;
    let start = samples.iter().map(|sample| sample.started).min()?;
    let seconds = last.checked_sub(start)?.as_secs_f64();
    (seconds > 0.0).then(|| stats::as_f64(units) / seconds)
}

/// The longest time in which a request was under way and none was answered.
pub(crate) fn silence_max(samples: &[Sample]) -> Option<Duration> {
    let mut by_end: Vec<&Sample> = samples.iter().collect();
    by_end.sort_unstable_by_key(|sample| std::cmp::Reverse(sample.ended));
    // For each end, from the last on, the first start of those that ended no earlier: one of them was under way since then.
    let first_start = |first: &mut Duration, sample: &&Sample| {
        *first = sample.started.min(*first);
        Some(*first)
    };
    let first_starts: Vec<Duration> = by_end.iter().scan(Duration::MAX, first_start).collect();
    let mut answered = Duration::ZERO;
    let silences = by_end.iter().zip(first_starts).rev().map(|(sample, under_way)| {
        let silence = sample.ended.saturating_sub(under_way.max(answered));
        if sample.status.is_some() {
            answered = sample.ended;
        }
        silence
    });
    silences.max()
}

/// When the buyer of the last unit of the stock had the answer.
pub(crate) fn sold_out_after_ms(sold_at: &[Duration], stock: usize) -> Option<f64> {
    stock.checked_sub(1).and_then(|last| sold_at.get(last)).map(|at| as_ms(*at))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::fixture::{SOLD, sample};

    #[test]
    fn goodput_runs_from_the_first_start_to_the_last_sale() {
        let samples = [sample(SOLD, 100, 300), sample(SOLD, 150, 600), sample(Outcome::SoldOut, 120, 5000)];
        let sold = sold_at(&samples);
        assert_eq!(goodput_per_s(&samples, &sold, 10), Some(4.0));
        assert_eq!(goodput_per_s(&samples, &sold, 1), Some(5.0), "a unit too many is no good");
        assert_eq!(goodput_per_s(&samples[2..], &sold_at(&samples[2..]), 10), None);
        assert_eq!(goodput_per_s(&[], &[], 10), None);
        assert_eq!((sold_out_after_ms(&sold, 2), sold_out_after_ms(&sold, 3)), (Some(600.0), None));
    }

    #[test]
    fn times_are_kept_apart_by_outcome_and_by_where_they_begin() {
        let late = Sample { intended: Duration::from_millis(5), ..sample(SOLD, 10, 30) };
        let latency = Latency::of(&[late, sample(Outcome::SoldOut, 0, 1)], 0);
        assert_eq!((latency.response.sold.count(), latency.response.sold_out.count()), (1, 1));
        assert_eq!(latency.first_byte_sold.count(), 1);
        let ms = |times: &Times| times.max_ms().unwrap().round();
        assert_eq!((ms(&latency.response.sold), ms(&latency.service.sold)), (25.0, 20.0));
        assert_eq!(Latency::merged(&[&latency, &latency]).response.sold.count(), 2);
    }

    #[test]
    fn a_dropped_arrival_is_the_slowest_of_the_sold_and_sold_out() {
        let samples: Vec<Sample> = (0..30).map(|_| sample(SOLD, 0, 10)).collect();
        let latency = Latency::of(&samples, 31);
        let median = |times: &Times| times.quantile_ms(500);
        assert_eq!(median(&latency.response.sold), Some(f64::INFINITY));
        assert_eq!(median(&latency.response.sold_out), Some(f64::INFINITY));
        assert!((median(&latency.service.sold).unwrap() - 10.0).abs() < 0.1, "the service is timed by what it served");
    }

    #[test]
    fn silence_is_a_time_without_an_answer_to_one_who_waits() {
        let ms = |samples: &[Sample]| silence_max(samples).map(|silence| silence.as_millis());
        assert_eq!(ms(&[]), None);
        // Between 30 and 1000 nobody waits. From 1000 on one does, and is answered at 1050.
        assert_eq!(ms(&[sample(SOLD, 0, 30), sample(SOLD, 1000, 1050)]), Some(50));
        // One waits from 10 on, but another is answered at 90.
        let both = [sample(SOLD, 10, 160), sample(SOLD, 0, 90)];
        assert_eq!(ms(&both), Some(90));
        // The end of a request without an answer is silence.
        let unanswered = Sample { status: None, ..sample(Outcome::Timeout, 20, 400) };
        assert_eq!(ms(&[both[0].clone(), both[1].clone(), unanswered]), Some(240));
    }

    #[test]
    fn a_closed_loop_is_corrected_for_requests_not_made() {
        // One user asks every 10 ms, and is stopped once for a second.
        let mut samples: Vec<Sample> = (0..300).map(|_| sample(SOLD, 0, 10)).collect();
        samples.push(sample(SOLD, 0, 1000));
        let mut latency = Latency::of(&samples, 0);
        latency.correct(&samples);
        let p90 = |times: &Times| times.quantile_ms(900).unwrap();
        assert!(p90(&latency.response.sold) < 11.0 && p90(&latency.corrected_sold) > 400.0, "{latency:?}");
    }

    #[test]
    fn a_curve_of_many_events_has_a_hundred_steps_and_ends_with_the_last() {
        let curve = Curve::of((0..1500).map(Duration::from_millis).collect());
        assert_eq!((curve.at_ms.len(), curve.count[0], curve.at_ms[0]), (100, 15, 14.0));
        assert_eq!((curve.count.last(), curve.at_ms.last()), (Some(&1500), Some(&1499.0)));
        let few = Curve::of([3, 1, 2].map(Duration::from_millis).to_vec());
        assert_eq!(few, Curve { at_ms: vec![1.0, 2.0, 3.0], count: vec![1, 2, 3] });
        assert_eq!(Curve::of(Vec::new()), Curve::default());
    }
}
