//! The conclusion of a comparison, and its exit code.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use stats::figures::{count, things};

use crate::error::Exit;
use crate::judge::diff::Diff;
use crate::judge::finding::Finding;
use crate::judge::headline::Headline;
use crate::judge::headline::shops::by;
use crate::judge::nouns::Nouns;
use crate::judge::result::StrategyResult;
use crate::judge::thresholds::ThresholdResult;
use crate::trial::schedule::Schedule;

/// The conclusion of the whole comparison.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub(crate) struct Verdict {
    /// Exit code of the program.
    pub(crate) exit_code: u8,
    /// The whole comparison in at most three sentences.
    pub(crate) sentence: String,
    /// Further results, one line each.
    pub(crate) details: Vec<String>,
    /// The reasons of the exit code, the gravest first.
    pub(crate) reasons: Vec<String>,
}

/// Why a comparison ended before every trial was run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub(crate) struct EndedEarly {
    /// Exit code of a comparison that ended so.
    pub(crate) exit_code: u8,
    /// What happened.
    pub(crate) reason: String,
}

impl Verdict {
    /// Draws the conclusion. The gravest reason gives the exit code. From the gravest on, the reasons are:
    ///
    /// 1. an early end,
    /// 2. a broken promise,
    /// 3. buyers without a decision, arrivals that were dropped, or something that was not checked,
    /// 4. a load that was too weak, a crossed threshold, or a build that is worse than the other one,
    /// 5. a generator that could not keep up, which spoils the times but not the audit.
    pub(crate) fn of(
        headline: Headline,
        schedule: &Schedule,
        results: &[StrategyResult],
        thresholds: &[ThresholdResult],
        builds: Option<&Diff>,
        ended_early: Option<&EndedEarly>,
    ) -> Verdict {
        let name = |result: &StrategyResult| {
            let is_one_of_several = schedule.users.len() > 1;
            if is_one_of_several { format!("{} with {} users", result.name(), result.users) } else { result.name() }
        };
        let nouns = schedule.nouns();
        let found = |finding: Finding, describe: &dyn Fn(&StrategyResult) -> String| {
            list(results, |result| result.finding == finding, describe)
        };
        let broken = broken(schedule, results, &name).into_iter();
        let broken = broken.map(|broken| (Exit::PromiseBroken.code(), format!("promise broken by {broken}")));
        let mut exits: Vec<(u8, String)> = broken.collect();
        if let Some(ended) = ended_early {
            let reason = format!("ended before every trial was run: {}", ended.reason);
            // A user that interrupts knows it. A failure after a broken promise may be its consequence.
            let position = if ended.exit_code == Exit::Interrupted.code() { 0 } else { exits.len() };
            exits.insert(position, (ended.exit_code, reason));
        }
        for (finding, advice) in [
            (Finding::Inconclusive, nouns.advice.inconclusive),
            (Finding::Dropped, "lower --rate, or raise --users"),
            (Finding::Failing, nouns.advice.failing),
        ] {
            let with_causes = |result: &StrategyResult| match causes(result, nouns).as_slice() {
                [] => name(result),
                causes => format!("{} ({})", name(result), causes.join(", ")),
            };
            if let Some(details) = found(finding, &with_causes) {
                exits.push((Exit::Setup.code(), format!("nothing can be said of {details}; {advice}")));
            }
        }
        let with_gaps = |result: &StrategyResult| format!("{} ({})", name(result), result.unchecked.join(", "));
        if let Some(details) = found(Finding::Unchecked, &with_gaps) {
            exits.push((Exit::Setup.code(), format!("not everything was checked of {details}")));
        }
        if let Some(names) = found(Finding::LoadTooWeak, &name) {
            let why =
                "a control sold nothing wrongly, or no two buyers met under a lock; raise --users or --business-time";
            let reason = format!("the load was too weak to prove anything of {names}: {why}");
            exits.push((Exit::Failed.code(), reason));
        }
        for crossed in thresholds.iter().filter(|threshold| !threshold.is_met) {
            exits.push((Exit::Failed.code(), format!("threshold crossed: {}", crossed.describe())));
        }
        if let Some(diff) = builds.filter(|diff| diff.exit_code != Exit::Passed.code()) {
            exits.push((diff.exit_code, of_builds(diff)));
        }
        if let Some(names) = list(results, StrategyResult::is_client_limited, name) {
            let advice = "their times say more about the generator than about them";
            let reason = format!("the load generator was the bottleneck for {names}: {advice}");
            exits.push((Exit::ClientLimited.code(), reason));
        }
        if exits.is_empty() {
            let met = if thresholds.is_empty() { "" } else { ", and every threshold was met" };
            exits.push((Exit::Passed.code(), format!("{}{met}", kept(schedule, results))));
            exits.extend(builds.map(|diff| (Exit::Passed.code(), of_builds(diff))));
        }
        let exit_code = exits[0].0;
        Verdict {
            exit_code,
            sentence: headline.sentence,
            details: headline.details,
            reasons: exits.into_iter().map(|(_, reason)| reason).collect(),
        }
    }
}

/// Names what broke its promise. Each shop that a file describes has its evidence and its faults.
fn broken(schedule: &Schedule, results: &[StrategyResult], name: &dyn Fn(&StrategyResult) -> String) -> Vec<String> {
    let is_broken = |result: &StrategyResult| result.finding == Finding::Broken;
    if !schedule.is_of_shops() {
        return list(results, is_broken, name).into_iter().collect();
    }
    let broken = results.iter().filter(|result| is_broken(result));
    broken.map(|result| format!("{}{}: {}", name(result), by(&[result]), result.faults.join("; "))).collect()
}

/// Says that all kept their promises. For shops that files describe, it names the evidence.
fn kept(schedule: &Schedule, results: &[StrategyResult]) -> String {
    let kept = format!("every {} kept its promise", schedule.nouns().one);
    if schedule.is_of_shops() { format!("{kept}{}", by(&results.iter().collect::<Vec<_>>())) } else { kept }
}

/// Writes the reasons of a comparison of two builds.
fn of_builds(diff: &Diff) -> String {
    format!("{} against {}: {}", diff.new.name, diff.old.name, diff.reasons.join("; "))
}

/// Lists the results that match. `None` if none does.
fn list(
    results: &[StrategyResult],
    is_listed: impl Fn(&StrategyResult) -> bool,
    describe: impl Fn(&StrategyResult) -> String,
) -> Option<String> {
    let listed: Vec<String> = results.iter().filter(|result| is_listed(result)).map(describe).collect();
    (!listed.is_empty()).then(|| listed.join(", "))
}

/// Explains why a result proves nothing, by the figures behind its finding.
fn causes(result: &StrategyResult, nouns: &Nouns) -> Vec<String> {
    let mut causes = Vec::new();
    if result.finding == Finding::Dropped {
        let [dropped, arrivals] = [result.dropped, result.arrivals].map(count);
        causes.push(format!("{dropped} of {arrivals} arrivals were dropped{}", whose_fault(result, nouns)));
    } else if result.finding == Finding::Failing {
        // Buyers in no log have sent nothing that is known.
        let requests = (result.arrivals - result.dropped).max(result.answers.total());
        let [failed, requests] = [result.failed, requests].map(count);
        causes.push(format!("{failed} of {requests} {}", nouns.failures));
    } else if result.undecided > 0 {
        causes.push(format!("{} got no decision", things(result.undecided, "buyer")));
    }
    if result.unsettled_trials > 0 {
        causes.push(format!("{} did not come to rest", things(result.unsettled_trials, "trial")));
    }
    causes
}

/// Explains why arrivals were dropped.
fn whose_fault(result: &StrategyResult, nouns: &Nouns) -> String {
    let service = format!(
        "all users were waiting for answers: the {} is slower than the rate, or the users are too few",
        nouns.service
    );
    match (result.dropped_busy, result.dropped - result.dropped_busy) {
        (_, 0) => format!(", as {service}"),
        (0, _) => ", as the load generator was late".to_owned(),
        (busy, late) => format!(": for {} {service}; for {} the load generator was late", count(busy), count(late)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::fixture;

    fn result(strategy: &str, finding: Finding) -> StrategyResult {
        StrategyResult { strategy: strategy.to_owned(), finding, ..fixture::report().results.swap_remove(0) }
    }

    fn verdict(results: &[StrategyResult]) -> Verdict {
        Verdict::of(Headline::default(), &fixture::schedule(), results, &[], None, None)
    }

    #[test]
    fn a_verdict_of_nothing_says_why_and_what_to_do() {
        let unknown =
            StrategyResult { undecided: 280, unsettled_trials: 1, ..result("zk-mutex", Finding::Inconclusive) };
        let verdict = verdict(&[unknown]);
        let expected = "nothing can be said of zk-mutex (280 buyers got no decision, 1 trial did not come to rest); \
            raise --lock-wait, or look at the service's log";
        assert_eq!((verdict.exit_code, verdict.reasons), (3, vec![expected.to_owned()]));
    }

    #[test]
    fn what_was_not_checked_is_no_pass_and_is_told() {
        let unchecked = vec!["orders without their section in the history: 3".to_owned()];
        let verdict = verdict(&[StrategyResult { unchecked, ..result("zk-mutex", Finding::Unchecked) }]);
        let expected =
            "not everything was checked of zk-mutex (orders without their section in the history: 3)".to_owned();
        assert_eq!((verdict.exit_code, verdict.reasons), (3, vec![expected]));
    }

    // C16
    #[test]
    fn a_verdict_of_dropped_arrivals_says_by_whose_fault() {
        let reason = |dropped_busy| {
            let dropped = result("pg-merge", Finding::Dropped);
            let verdict = verdict(&[StrategyResult { arrivals: 4000, dropped: 3951, dropped_busy, ..dropped }]);
            assert_eq!(verdict.exit_code, 3);
            verdict.reasons[0].clone()
        };
        let service = "the service is slower than the rate, or the users are too few";
        assert_eq!(
            reason(3951),
            format!(
                "nothing can be said of pg-merge (3951 of 4000 arrivals were dropped, as all users were waiting for answers: \
                 {service}); lower --rate, or raise --users"
            )
        );
        assert!(reason(0).contains("were dropped, as the load generator was late)"), "{}", reason(0));
        assert!(reason(3000).contains("; for 951 the load generator was late)"), "{}", reason(3000));
    }

    #[test]
    fn the_gravest_reason_gives_the_exit_code() {
        let fine = result("a", Finding::Kept);
        let limited = StrategyResult { client_limited_trials: fine.measured_trials, ..result("b", Finding::Kept) };
        let weak = result("c", Finding::LoadTooWeak);
        let unknown = result("u", Finding::Inconclusive);
        let broken = result("d", Finding::Broken);
        let mut results = Vec::new();
        for (next, exit_code) in [(fine, 0), (limited, 4), (weak, 1), (unknown, 3), (broken, 2)] {
            results.push(next);
            assert_eq!(verdict(&results).exit_code, exit_code);
        }
        let interruption = EndedEarly { exit_code: 130, reason: "interrupted".to_owned() };
        let schedule = fixture::schedule();
        let interrupted = Verdict::of(Headline::default(), &schedule, &results, &[], None, Some(&interruption));
        assert_eq!((interrupted.exit_code, interrupted.reasons.len()), (130, 5));
        let failure = EndedEarly { exit_code: 3, reason: "the shop is down".to_owned() };
        let failed = Verdict::of(Headline::default(), &schedule, &results, &[], None, Some(&failure));
        assert_eq!((failed.exit_code, &*failed.reasons[1]), (2, "ended before every trial was run: the shop is down"));
        let several = Schedule { users: vec![300, 1500], ..schedule };
        let of_many = StrategyResult { users: 1500, ..result("d", Finding::Broken) };
        let verdict = Verdict::of(Headline::default(), &several, &[of_many], &[], None, None);
        assert_eq!(verdict.reasons, ["promise broken by d with 1500 users"]);
    }
}
