//! What a rate must hold, as `--until` says it, and what a trial at a rate has lost by it.
//!
//! A request is lost if it was refused, failed or was never started, and by a rule about times also if its answer came too late.

use std::time::Duration;

use buyers::health::Generator;
use schemars::JsonSchema;
use serde::Serialize;
use stats::capacity::{Capacity, CapacityEnd, Goal, NextLoad, shortest_length};
use stats::figures::{count, figure, percent};
use stats::{as_f64, as_ms};

use crate::judge::metrics::METRICS;
use crate::judge::thresholds::{Parts, Threshold};
use crate::trial::record::Trial;

/// How many times longer than the shortest a trial is that decides. The rate that holds is above the capacity by as many
/// parts of a width.
const LENGTHS: f64 = 2.0;
/// The shortest trial that decides: shorter ones would be mostly start.
const LENGTH_MIN: Duration = Duration::from_secs(2);
/// Trials that decide a rate, if all of them are needed.
const TRIALS: u32 = 3;
/// The length of the first trials is this part of the length of the trials that decide.
const FIRST_PART: u32 = 4;
/// A generator whose heartbeat is later than this part of the time of a rule cannot tell late answers from late looks.
const BLIND_PART: f64 = 0.1;
/// The longest time of a rule.
const LIMIT_MAX: Duration = Duration::from_hours(24);
/// The figures that a rate can be searched by.
const FIGURES: [(&str, f64); 5] = [("p50", 0.5), ("p90", 0.1), ("p95", 0.05), ("p99", 0.01), ("p999", 0.001)];

/// A rule that a rate must hold.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct HeldRule {
    /// The rule, as it was given.
    pub(crate) text: String,
    /// The largest share of lost requests.
    pub(crate) loss_ratio: f64,
    /// The time after which an answer counts as lost.
    within: Option<Duration>,
}

/// Checks the time of a rule, in milliseconds. No trial lasts longer than a day.
fn limit(ms: f64) -> Result<Duration, String> {
    let limit = Duration::try_from_secs_f64(ms / 1e3).ok().filter(|limit| *limit <= LIMIT_MAX);
    limit.ok_or_else(|| "the time of a rule that a rate must hold is at most 1440m; write a shorter one".to_owned())
}

impl HeldRule {
    /// Reads `p99<250ms` or `errors<0.1%`.
    pub(crate) fn parse(text: &str) -> Result<HeldRule, String> {
        let Parts { metric, sign, value, .. } = Threshold::parse_by(METRICS, &format!("* {text}"))?.parts();
        let known = || {
            let names: Vec<&str> = FIGURES.iter().map(|(name, _)| *name).collect();
            format!(
                "write a rule such as 'p99<250ms' or 'errors<0.1%'; a rate is searched by {} or errors",
                names.join(", ")
            )
        };
        if !["<", "<="].contains(&sign) {
            return Err(known());
        }
        let quantile = FIGURES.iter().find(|(name, _)| *name == metric.key);
        let (loss_ratio, within) = match (quantile, metric.key) {
            (Some((_, share)), _) => (*share, Some(limit(value)?)),
            (None, "errors") => (value, None),
            (None, _) => return Err(known()),
        };
        Ok(HeldRule { text: text.to_owned(), loss_ratio, within })
    }

    /// Returns the goal of a search whose interval reaches `margin` above and below its middle. Without a length, it is the one
    /// that the rule needs.
    ///
    /// # Errors
    ///
    /// The length is too short for the rule.
    pub(crate) fn goal(&self, width: f64, length: Option<Duration>) -> Result<Goal, String> {
        let shortest = self.within.map_or(Duration::ZERO, |within| shortest_length(within, width, self.loss_ratio));
        let length = length.unwrap_or_else(|| shortest.mul_f64(LENGTHS).max(LENGTH_MIN));
        if length < shortest {
            let shortest = humantime::format_duration(Duration::from_millis(millis(shortest) + 1));
            let text = &self.text;
            return Err(format!(
                "{text} with this margin needs trials of at least {shortest}: a shorter one ends before its requests are late; \
                 give a longer --length, or a larger --margin"
            ));
        }
        Ok(Goal {
            loss_ratio: self.loss_ratio,
            exceed_ratio: 0.5,
            first_length: length / FIRST_PART,
            length,
            duration_sum: length * TRIALS,
            width,
        })
    }

    /// Counts the requests of a trial that are lost by this rule.
    pub(crate) fn lost(&self, trial: &Trial) -> u64 {
        let response = &trial.latency.response;
        let late =
            self.within.map_or(0, |within| response.sold.later_than(within) + response.sold_out.later_than(within));
        late + trial.answers.undecided() + trial.generator.dropped
    }

    /// Tells whether the rule was not held, and the generator may be why: it dropped or delayed requests itself, or it was too
    /// busy to see answers in time.
    fn is_client_limited(&self, trial: &Trial, lost: u64, offered: u64) -> bool {
        let Generator { dropped, dropped_busy, late_idle, heartbeat, .. } = &trial.generator;
        let allowed = self.loss_ratio * as_f64(offered);
        let by_generator = if self.within.is_some() { *late_idle } else { dropped - dropped_busy };
        let is_blind = self
            .within
            .is_some_and(|within| heartbeat.quantile_ms(900).is_some_and(|late| late > BLIND_PART * as_ms(within)));
        as_f64(lost) > allowed && (is_blind || as_f64(lost.saturating_sub(by_generator)) <= allowed)
    }
}

fn millis(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}

/// A trial of a search.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub(crate) struct RateTrial {
    /// Requests a second.
    pub(crate) rate: f64,
    /// How long they were offered, in seconds.
    pub(crate) seconds: f64,
    /// Requests that were due.
    pub(crate) offered: u64,
    /// Requests that each rule counts as lost, in the order of the rules.
    pub(crate) lost: Vec<u64>,
    /// Units that the audit found sold.
    pub(crate) sold: i64,
    /// Whether too much was lost and the generator was the limit. Such a trial says nothing about the shop.
    pub(crate) client_limited: bool,
    /// Whether something was sold wrongly.
    pub(crate) is_bad: bool,
}

impl RateTrial {
    /// Records a trial of a load.
    pub(crate) fn of(load: NextLoad, trial: &Trial, rules: &[HeldRule]) -> RateTrial {
        let offered = trial.generator.requests + trial.generator.dropped;
        let lost: Vec<u64> = rules.iter().map(|rule| rule.lost(trial)).collect();
        let client_limited = rules.iter().zip(&lost).any(|(rule, lost)| rule.is_client_limited(trial, *lost, offered));
        RateTrial {
            rate: load.rate,
            seconds: load.length.as_secs_f64(),
            offered,
            lost,
            sold: trial.audit.sold,
            client_limited,
            is_bad: trial.is_bad() || trial.is_order_violated(),
        }
    }
}

/// What was found by one rule.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub(crate) struct RuleCapacity {
    /// The rule.
    pub(crate) rule: String,
    /// The bounds of the rate.
    pub(crate) capacity: Capacity,
}

/// The capacity of one strategy or shop.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub(crate) struct SubjectCapacity {
    /// Its name.
    pub(crate) name: String,
    /// What was found, rule by rule.
    pub(crate) rules: Vec<RuleCapacity>,
    /// The share of the answers that said "sold out". They are cheaper than sales.
    pub(crate) sold_out_share: f64,
    /// Every trial, in order.
    pub(crate) trials: Vec<RateTrial>,
    /// Why the search ended before its end.
    pub(crate) ended: Option<String>,
}

impl RuleCapacity {
    /// Describes what was found in a sentence.
    pub(crate) fn describe(&self) -> String {
        let RuleCapacity { rule, capacity } = self;
        let rate = |rate: Option<f64>| rate.map_or_else(|| "?".to_owned(), figure);
        let interval = match (capacity.low, capacity.high) {
            (Some(low), Some(high)) => format!("; the capacity lies within {} and {}", figure(low), figure(high)),
            _ => String::new(),
        };
        let trials = format!("trials of {} s", figure(capacity.trial_seconds));
        match capacity.end {
            CapacityEnd::Bounded => format!(
                "{rule} is held at {} a second and not at {}{interval} ({trials})",
                rate(capacity.lower),
                rate(capacity.upper)
            ),
            CapacityEnd::NoRateHolds => {
                format!("{rule}: no rate holds, not even the lowest, {} a second ({trials})", rate(capacity.upper))
            }
            CapacityEnd::AboveHighest => {
                format!(
                    "{rule} is held at the highest rate that was tried, {} a second ({trials})",
                    rate(capacity.lower)
                )
            }
            CapacityEnd::ClientLimited => format!(
                "{rule}: the load generator is the limit; it is held at {} a second at least ({trials})",
                rate(capacity.lower)
            ),
            CapacityEnd::Unfinished => {
                let held = capacity.lower.map(|rate| format!("; it is held at {} a second", figure(rate)));
                let lost = capacity.upper.map(|rate| format!("; it is not held at {} a second", figure(rate)));
                let known: String = held.into_iter().chain(lost).collect();
                format!("{rule}: the search was not finished{known}")
            }
        }
    }
}

impl SubjectCapacity {
    /// Returns what to bear in mind, if most buyers came too late to cost much.
    pub(crate) fn caveat(&self) -> Option<String> {
        let share = percent(self.sold_out_share);
        (self.sold_out_share > 0.5).then(|| {
            format!(
                "{share} of the answers to {} said \"sold out\", which is cheaper than a sale; put more stock on sale",
                self.name
            )
        })
    }

    /// Counts the trials.
    pub(crate) fn counted(&self) -> String {
        let seconds: f64 = self.trials.iter().map(|trial| trial.seconds).sum();
        format!("{} trials, {} s of load", count(self.trials.len() as u64), figure(seconds))
    }
}

/// Returns the share of the answers of these trials that said "sold out".
pub(crate) fn sold_out_share(trials: &[(u64, u64)]) -> f64 {
    let (sold_out, all) = trials.iter().fold((0, 0), |sum, one| (sum.0 + one.0, sum.1 + one.1));
    as_f64(sold_out) / as_f64(all.max(1))
}

#[cfg(test)]
mod tests {
    use stats::capacity::width_for;

    use super::*;
    use crate::report::fixture;

    #[test]
    fn a_rule_about_times_counts_late_refused_and_dropped_requests() {
        let mut trial = fixture::trial("s", 0, 100, 100);
        trial.answers.refused = 5;
        trial.generator.dropped = 7;
        // The samples end at 2, 4, … 600 ms.
        let lost = |rule: &str| HeldRule::parse(rule).unwrap().lost(&trial);
        assert_eq!((lost("p99<591ms"), lost("p50<700ms"), lost("errors<1%")), (5 + 12, 12, 12));
    }

    #[test]
    fn a_rule_gives_its_share_and_the_length_of_its_trials() {
        let rule = HeldRule::parse("p99<250ms").unwrap();
        let width = width_for(0.05);
        let goal = rule.goal(width, None).unwrap();
        assert!((15.0..16.0).contains(&goal.length.as_secs_f64()) && goal.loss_ratio == 0.01, "{goal:?}");
        let refused = rule.goal(width, Some(Duration::from_secs(5))).unwrap_err();
        assert!(refused.starts_with("p99<250ms with this margin needs trials of at least 7s "), "{refused}");
        let errors = HeldRule::parse("errors<0.1%").unwrap().goal(width, None).unwrap();
        assert_eq!((errors.length, errors.loss_ratio), (LENGTH_MIN, 0.001));
    }

    #[test]
    fn only_a_generator_that_may_be_the_cause_is_the_limit() {
        let load = NextLoad { rate: 10.0, length: Duration::from_secs(1) };
        let limited = |rule: &str, change: fn(&mut Trial)| {
            let mut trial = fixture::trial("s", 0, 100, 100);
            trial.generator.limited = true;
            change(&mut trial);
            RateTrial::of(load, &trial, &[HeldRule::parse(rule).unwrap()]).client_limited
        };
        assert!(!limited("p50<700ms", |_| {}), "nothing was lost");
        assert!(!limited("p99<300ms", |_| {}), "half of the answers were late, and the generator was in time");
        assert!(limited("p99<300ms", |trial| trial.generator.late_idle = 300));
        assert!(limited("p99<9ms", |_| {}), "a heartbeat of 1 ms hides answers of 9 ms");
        assert!(!limited("errors<1%", |trial| trial.answers.refused = 30));
        assert!(limited("errors<1%", |trial| trial.generator.dropped = 30));
    }

    #[test]
    fn a_rule_that_no_rate_can_be_searched_by_is_refused() {
        for rule in ["goodput>50", "p99>1s", "oversold==0", "max<1s"] {
            let refused = HeldRule::parse(rule).unwrap_err();
            assert!(refused.starts_with("write a rule such as 'p99<250ms' or 'errors<0.1%'"), "{rule}: {refused}");
        }
        assert!(HeldRule::parse("p99=1s").unwrap_err().starts_with("one of <, <=, ==, >= and > is expected here"));
    }

    #[test]
    fn every_end_of_a_search_is_told() {
        let found = |end, lower, upper| {
            let bounds = |rate: Option<f64>| rate;
            let capacity = Capacity {
                end,
                lower: bounds(lower),
                upper: bounds(upper),
                low: lower.map(|rate: f64| rate - 10.0),
                high: upper.map(|rate: f64| rate + 10.0),
                throughput: lower,
                trial_seconds: 8.0,
            };
            RuleCapacity { rule: "p99<1s".to_owned(), capacity }.describe()
        };
        assert_eq!(
            found(CapacityEnd::Bounded, Some(100.0), Some(110.0)),
            "p99<1s is held at 100 a second and not at 110; the capacity lies within 90.0 and 120 (trials of 8.00 s)"
        );
        assert!(
            found(CapacityEnd::NoRateHolds, None, Some(10.0)).contains("no rate holds, not even the lowest, 10.0 a")
        );
        assert!(found(CapacityEnd::AboveHighest, Some(99.0), None).contains("the highest rate that was tried, 99.0 a"));
        assert!(found(CapacityEnd::ClientLimited, Some(99.0), None).contains("the load generator is the limit"));
        assert_eq!(found(CapacityEnd::Unfinished, None, None), "p99<1s: the search was not finished");
        assert!(found(CapacityEnd::Unfinished, None, Some(9.0)).ends_with("finished; it is not held at 9.00 a second"));
    }
}
