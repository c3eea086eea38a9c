//! What the comparison concludes, and the exit code that says it.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use stats::figures::count;

use crate::error::Exit;
use crate::judge::diff::Diff;
use crate::judge::finding::{Finding, count_of};
use crate::judge::headline::Headline;
use crate::judge::result::StrategyResult;
use crate::judge::thresholds::ThresholdResult;
use crate::trial::plan::named;

/// The conclusion of the whole comparison.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub(crate) struct Verdict {
    /// What the program exits with.
    pub(crate) exit_code: u8,
    /// The whole comparison in at most three sentences.
    pub(crate) sentence: String,
    /// What else came out, one line each.
    pub(crate) details: Vec<String>,
    /// Why it exits so, the gravest reason first.
    pub(crate) reasons: Vec<String>,
}

/// Why a comparison ended before every trial was run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub(crate) struct EndedEarly {
    /// What the program exits with because of it.
    pub(crate) exit_code: u8,
    /// What happened.
    pub(crate) reason: String,
}

/// What is known of one strategy when the conclusion is drawn.
#[derive(Debug, Clone, Copy)]
pub(crate) struct StrategyFacts<'a> {
    pub(crate) strategy: &'a str,
    /// The build, if two are compared.
    pub(crate) build: Option<&'a str>,
    /// How many users, where there are several numbers of them.
    pub(crate) users: Option<u32>,
    pub(crate) finding: Finding,
    /// Buyers over all trials who were told neither "sold" nor "sold out".
    pub(crate) undecided: u64,
    /// Those whose request ended in an error or a timeout.
    pub(crate) failed: u64,
    /// Trials that had not come to rest.
    pub(crate) unsettled_trials: u32,
    /// Requests and dropped arrivals over all trials.
    pub(crate) arrivals: u64,
    /// Those that were dropped.
    pub(crate) dropped: u64,
    /// Those that were dropped because all users were waiting for answers.
    pub(crate) dropped_busy: u64,
    /// What was not checked.
    pub(crate) unchecked: &'a [String],
    /// Whether the generator was the bottleneck in more than half of the trials.
    pub(crate) client_limited: bool,
}

impl Verdict {
    /// Draws the conclusion. The gravest reason gives the exit code. From the gravest on, the reasons are:
    ///
    /// 1. an early end,
    /// 2. a broken promise,
    /// 3. buyers without a decision, arrivals that were dropped, or something that was not checked,
    /// 4. a load that proved nothing, a threshold that was crossed, or a build that is worse than the other one,
    /// 5. a generator that could not keep up, which spoils the times but not the audit.
    pub(crate) fn of(
        headline: Headline,
        strategies: &[StrategyFacts<'_>],
        thresholds: &[ThresholdResult],
        builds: Option<&Diff>,
        ended_early: Option<&EndedEarly>,
    ) -> Verdict {
        let named = |finding: Finding| names(strategies.iter().filter(|s| s.finding == finding));
        let broken = named(Finding::Broken);
        let weak = named(Finding::LoadTooWeak);
        let limited = names(strategies.iter().filter(|strategy| strategy.client_limited));
        let mut exits = Vec::new();
        if let Some(ended) = ended_early {
            exits.push((ended.exit_code, format!("ended before every trial was run: {}", ended.reason)));
        }
        if let Some(names) = broken {
            exits.push((Exit::PromiseBroken.code(), format!("promise broken by {names}")));
        }
        for (finding, advice) in [
            (Finding::Inconclusive, "raise --lock-wait, or look at the service's log"),
            (Finding::Dropped, "lower --rate, or raise --users"),
            (Finding::Failing, "look at the service's log"),
        ] {
            if let Some(details) = unproved(strategies, finding) {
                exits.push((Exit::Setup.code(), format!("nothing can be said of {details}; {advice}")));
            }
        }
        if let Some(details) = unchecked(strategies) {
            exits.push((Exit::Setup.code(), format!("not everything was checked of {details}")));
        }
        if let Some(names) = weak {
            let why = "a control did not oversell, or no two buyers met under a lock; raise --users or --business-time";
            let reason = format!("the load was too weak to prove anything of {names}: {why}");
            exits.push((Exit::Failed.code(), reason));
        }
        for crossed in thresholds.iter().filter(|threshold| !threshold.is_met) {
            exits.push((Exit::Failed.code(), format!("threshold crossed: {}", crossed.describe())));
        }
        if let Some(diff) = builds.filter(|diff| diff.exit_code != Exit::Passed.code()) {
            exits.push((diff.exit_code, of_builds(diff)));
        }
        if let Some(names) = limited {
            let advice = "their times say more about the generator than about them";
            let reason = format!("the load generator was the bottleneck for {names}: {advice}");
            exits.push((Exit::ClientLimited.code(), reason));
        }
        if exits.is_empty() {
            let kept = "every strategy kept its promise";
            let met = if thresholds.is_empty() { "" } else { ", and every threshold was met" };
            exits.push((Exit::Passed.code(), format!("{kept}{met}")));
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

impl StrategyFacts<'_> {
    /// Takes the facts from one result. `tell_users`: there are several numbers of users.
    pub(crate) fn of(result: &StrategyResult, tell_users: bool) -> StrategyFacts<'_> {
        StrategyFacts {
            strategy: &result.strategy,
            build: result.build.as_deref(),
            users: tell_users.then_some(result.users),
            finding: result.finding,
            undecided: result.undecided,
            failed: result.failed,
            unsettled_trials: result.unsettled_trials,
            arrivals: result.arrivals,
            dropped: result.dropped,
            dropped_busy: result.dropped_busy,
            unchecked: &result.unchecked,
            client_limited: result.is_client_limited(),
        }
    }

    /// Names the strategy, with the number of users if there are several.
    fn name(&self) -> String {
        let name = named(self.strategy, self.build);
        self.users.map_or_else(|| name.clone(), |users| format!("{name} with {users} users"))
    }
}

/// Writes the reasons of a comparison of two builds.
fn of_builds(diff: &Diff) -> String {
    format!("{} against {}: {}", diff.new.name, diff.old.name, diff.reasons.join("; "))
}

/// Lists the strategies with this finding, each with its figures.
fn unproved(strategies: &[StrategyFacts<'_>], finding: Finding) -> Option<String> {
    let detail = |strategy: &StrategyFacts<'_>| {
        let mut causes = Vec::new();
        if finding == Finding::Dropped {
            let [dropped, arrivals] = [strategy.dropped, strategy.arrivals].map(count);
            causes.push(format!("{dropped} of {arrivals} arrivals were dropped{}", whose_fault(strategy)));
        } else if finding == Finding::Failing {
            let [failed, requests] = [strategy.failed, strategy.arrivals - strategy.dropped].map(count);
            causes.push(format!("{failed} of {requests} requests ended in an error or a timeout"));
        } else if strategy.undecided > 0 {
            causes.push(format!("{} got no decision", count_of(strategy.undecided, "buyer")));
        }
        if strategy.unsettled_trials > 0 {
            causes.push(format!("{} did not come to rest", count_of(u64::from(strategy.unsettled_trials), "trial")));
        }
        if causes.is_empty() { strategy.name() } else { format!("{} ({})", strategy.name(), causes.join(", ")) }
    };
    let of_nothing = strategies.iter().filter(|strategy| strategy.finding == finding);
    let details: Vec<String> = of_nothing.map(detail).collect();
    (!details.is_empty()).then(|| details.join(", "))
}

/// Explains why arrivals were dropped.
fn whose_fault(strategy: &StrategyFacts<'_>) -> String {
    let by_generator = strategy.dropped - strategy.dropped_busy;
    let service = "all users were waiting for answers: the service is slower than the rate, or the users are too few";
    match (strategy.dropped_busy, by_generator) {
        (_, 0) => format!(", as {service}"),
        (0, _) => ", as the load generator was late".to_owned(),
        (busy, late) => format!(": for {} {service}; for {} the load generator was late", count(busy), count(late)),
    }
}

/// Lists the strategies that were not checked in full, each with what is missing.
fn unchecked(strategies: &[StrategyFacts<'_>]) -> Option<String> {
    let unchecked = strategies.iter().filter(|strategy| strategy.finding == Finding::Unchecked);
    let details: Vec<String> =
        unchecked.map(|strategy| format!("{} ({})", strategy.name(), strategy.unchecked.join(", "))).collect();
    (!details.is_empty()).then(|| details.join(", "))
}

fn names<'a>(strategies: impl Iterator<Item = &'a StrategyFacts<'a>>) -> Option<String> {
    let names: Vec<String> = strategies.map(StrategyFacts::name).collect();
    (!names.is_empty()).then(|| names.join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_verdict_of_nothing_says_why_and_what_to_do() {
        let unknown = StrategyFacts {
            strategy: "zk-mutex",
            build: None,
            users: None,
            finding: Finding::Inconclusive,
            undecided: 280,
            failed: 0,
            unsettled_trials: 1,
            arrivals: 300,
            dropped: 0,
            dropped_busy: 0,
            unchecked: &[],
            client_limited: false,
        };
        let verdict = Verdict::of(Headline::default(), &[unknown], &[], None, None);
        let expected = "nothing can be said of zk-mutex (280 buyers got no decision, 1 trial did not come to rest); \
            raise --lock-wait, or look at the service's log";
        assert_eq!((verdict.exit_code, verdict.reasons), (3, vec![expected.to_owned()]));
    }

    #[test]
    fn what_was_not_checked_is_no_pass_and_is_told() {
        let gaps = ["orders without their section in the history: 3".to_owned()];
        let unchecked = StrategyFacts {
            strategy: "zk-mutex",
            build: None,
            users: None,
            finding: Finding::Unchecked,
            undecided: 0,
            failed: 0,
            unsettled_trials: 0,
            arrivals: 300,
            dropped: 0,
            dropped_busy: 0,
            unchecked: &gaps,
            client_limited: false,
        };
        let verdict = Verdict::of(Headline::default(), &[unchecked], &[], None, None);
        let expected =
            "not everything was checked of zk-mutex (orders without their section in the history: 3)".to_owned();
        assert_eq!((verdict.exit_code, verdict.reasons), (3, vec![expected]));
    }

    // C16
    #[test]
    fn a_verdict_of_dropped_arrivals_says_by_whose_fault() {
        let reason = |dropped_busy| {
            let dropping = StrategyFacts {
                strategy: "pg-merge",
                build: None,
                users: None,
                finding: Finding::Dropped,
                undecided: 0,
                failed: 0,
                unsettled_trials: 0,
                arrivals: 4000,
                dropped: 3951,
                dropped_busy,
                unchecked: &[],
                client_limited: false,
            };
            let verdict = Verdict::of(Headline::default(), &[dropping], &[], None, None);
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
        let conclusion = |strategy, finding, client_limited| StrategyFacts {
            strategy,
            build: None,
            users: None,
            finding,
            undecided: 0,
            failed: 0,
            unsettled_trials: 0,
            arrivals: 300,
            dropped: 0,
            dropped_busy: 0,
            unchecked: &[],
            client_limited,
        };
        let fine = conclusion("a", Finding::Kept, false);
        let limited = conclusion("b", Finding::Kept, true);
        let weak = conclusion("c", Finding::LoadTooWeak, false);
        let unknown = conclusion("u", Finding::Inconclusive, false);
        let broken = conclusion("d", Finding::Broken, false);
        let interruption = EndedEarly { exit_code: 130, reason: "interrupted".to_owned() };
        let verdict = |strategies: &[StrategyFacts<'_>], interrupted: bool| {
            Verdict::of(Headline::default(), strategies, &[], None, interrupted.then_some(&interruption))
        };
        let code = |strategies: &[StrategyFacts<'_>], interrupted| verdict(strategies, interrupted).exit_code;
        assert_eq!(code(&[fine], false), 0);
        assert_eq!(code(&[fine, limited], false), 4);
        assert_eq!(code(&[fine, limited, weak], false), 1);
        assert_eq!(code(&[fine, limited, weak, unknown], false), 3);
        assert_eq!(code(&[fine, limited, weak, unknown, broken], false), 2);
        assert_eq!(code(&[fine, limited, weak, unknown, broken], true), 130);
        assert_eq!(verdict(&[limited, weak, broken], false).reasons.len(), 3);
        let of_many = StrategyFacts { users: Some(1500), ..broken };
        assert_eq!(verdict(&[of_many], false).reasons, ["promise broken by d with 1500 users"]);
    }
}
