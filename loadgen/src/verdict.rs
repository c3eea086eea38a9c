//! What the comparison concludes, and the exit code that says it.

use serde::Serialize;

use crate::error::Exit;
use crate::strategies::Promise;
use crate::trial::Trial;

/// Whether a strategy did what it promises.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Finding {
    /// It kept its promise in every trial.
    Kept,
    /// It sold a unit too many or too few, lost an update, or told a buyer something that the database denies.
    Broken,
    /// Nothing is known: buyers who were refused or failed left units, or the books of a trial that had not come to
    /// rest did not balance.
    #[serde(rename = "refused-or-failed")]
    Inconclusive,
    /// It has to oversell under a load that proves anything, and did not in any trial.
    LoadTooWeak,
    /// The comparison was interrupted before its first trial ended.
    NotRun,
}

impl Finding {
    /// What the trials of one strategy show.
    ///
    /// For a strategy that is expected to oversell, one oversold trial is enough; its books must balance all the
    /// same, as even a careless deduction writes the orders that it confirms.
    pub(crate) fn of(promise: Promise, instances: usize, trials: &[&Trial]) -> Finding {
        let expects_oversell = promise.expects_oversell(instances);
        let any = |is: fn(&Trial) -> bool| trials.iter().any(|trial| is(trial));
        let wrong: fn(&Trial) -> bool =
            if expects_oversell { |trial| !trial.audit.ledger_balanced() } else { Trial::is_bad };
        if trials.is_empty() {
            Finding::NotRun
        } else if any(wrong) {
            Finding::Broken
        } else if expects_oversell && any(|trial| trial.audit.oversold > 0) {
            Finding::Kept
        } else if any(Trial::is_inconclusive) {
            Finding::Inconclusive
        } else if expects_oversell {
            Finding::LoadTooWeak
        } else {
            Finding::Kept
        }
    }
}

/// The conclusion of the whole comparison.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(crate) struct Verdict {
    /// What the program exits with.
    pub(crate) exit_code: u8,
    /// The conclusion, one sentence for each reason.
    pub(crate) reasons: Vec<String>,
}

/// What is known of one strategy when the conclusion is drawn.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Conclusion<'a> {
    pub(crate) strategy: &'a str,
    pub(crate) finding: Finding,
    /// Buyers over all trials who were told neither "sold" nor "sold out".
    pub(crate) undecided: u64,
    /// Trials that had not come to rest.
    pub(crate) unsettled_trials: u32,
    /// Whether the generator was the bottleneck in more than half of the trials.
    pub(crate) client_limited: bool,
}

impl Verdict {
    /// Draws the conclusion. The gravest reason gives the exit code: interrupted, then a broken promise, then
    /// buyers without a decision, then a load that proved nothing, then a generator that could not keep up (which
    /// spoils the times, but not the audit).
    pub(crate) fn of(strategies: &[Conclusion<'_>], interrupted: bool) -> Verdict {
        let named = |finding: Finding| names(strategies.iter().filter(|s| s.finding == finding));
        let (broken, weak) = (named(Finding::Broken), named(Finding::LoadTooWeak));
        let limited = names(strategies.iter().filter(|strategy| strategy.client_limited));
        let mut exits = Vec::new();
        if interrupted {
            exits.push((Exit::Interrupted, "interrupted before every trial was run".to_owned()));
        }
        if let Some(names) = broken {
            exits.push((Exit::PromiseBroken, format!("promise broken by {names}")));
        }
        if let Some(details) = inconclusive(strategies) {
            let advice = "raise --lock-wait, or look at the service's log";
            exits.push((Exit::Setup, format!("nothing can be said of {details}; {advice}")));
        }
        if let Some(names) = weak {
            let advice = "the load was too weak to prove anything; raise --users or --hold";
            exits.push((Exit::LoadTooWeak, format!("expected to oversell, but did not: {names}; {advice}")));
        }
        if let Some(names) = limited {
            let advice = "their times say more about the generator than about them";
            exits.push((Exit::ClientLimited, format!("the load generator was the bottleneck for {names}: {advice}")));
        }
        if exits.is_empty() {
            exits.push((Exit::Held, "every strategy kept its promise".to_owned()));
        }
        let exit_code = exits[0].0.code();
        Verdict { exit_code, reasons: exits.into_iter().map(|(_, reason)| reason).collect() }
    }
}

/// The strategies of which nothing is known, each with the reason.
fn inconclusive(strategies: &[Conclusion<'_>]) -> Option<String> {
    let detail = |strategy: &Conclusion<'_>| {
        let mut causes = Vec::new();
        if strategy.undecided > 0 {
            causes.push(format!("{} buyers got no decision", strategy.undecided));
        }
        if strategy.unsettled_trials > 0 {
            causes.push(format!("{} trials did not come to rest", strategy.unsettled_trials));
        }
        format!("{} ({})", strategy.strategy, causes.join(", "))
    };
    let of_nothing = strategies.iter().filter(|strategy| strategy.finding == Finding::Inconclusive);
    let details: Vec<String> = of_nothing.map(detail).collect();
    (!details.is_empty()).then(|| details.join(", "))
}

fn names<'a>(strategies: impl Iterator<Item = &'a Conclusion<'a>>) -> Option<String> {
    let names: Vec<&str> = strategies.map(|strategy| strategy.strategy).collect();
    (!names.is_empty()).then(|| names.join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::fixture;

    fn finding(promise: Promise, instances: usize, sold: &[i64]) -> Finding {
        let trials: Vec<Trial> = sold.iter().map(|sold| fixture::trial("s", 0, 100, *sold)).collect();
        Finding::of(promise, instances, &trials.iter().collect::<Vec<_>>())
    }

    #[test]
    fn a_safe_strategy_keeps_its_promise_only_without_a_single_bad_trial() {
        for promise in [Promise::NeverOversells, Promise::SafeWhileSessionLives] {
            assert_eq!(finding(promise, 3, &[100, 100]), Finding::Kept);
            assert_eq!(finding(promise, 3, &[100, 101, 100]), Finding::Broken);
            assert_eq!(finding(promise, 3, &[99]), Finding::Broken);
            assert_eq!(finding(promise, 3, &[]), Finding::NotRun);
        }
    }

    #[test]
    fn a_control_has_to_oversell_at_least_once() {
        assert_eq!(finding(Promise::Oversells, 1, &[100, 130]), Finding::Kept);
        assert_eq!(finding(Promise::Oversells, 1, &[100, 100]), Finding::LoadTooWeak);
    }

    #[test]
    fn a_process_lock_has_to_oversell_on_many_instances_and_may_not_on_one() {
        assert_eq!(finding(Promise::OversellsOnManyInstances, 3, &[130]), Finding::Kept);
        assert_eq!(finding(Promise::OversellsOnManyInstances, 3, &[100]), Finding::LoadTooWeak);
        assert_eq!(finding(Promise::OversellsOnManyInstances, 1, &[100]), Finding::Kept);
        assert_eq!(finding(Promise::OversellsOnManyInstances, 1, &[130]), Finding::Broken);
    }

    #[test]
    fn even_a_control_has_to_write_the_orders_that_it_confirms() {
        let mut trial = fixture::trial("s", 0, 100, 130);
        trial.audit.confirmations_unfounded = 1;
        assert_eq!(Finding::of(Promise::Oversells, 3, &[&trial]), Finding::Broken);
    }

    /// Twenty units of a hundred were sold before nobody else got a decision.
    fn mostly_refused() -> Trial {
        let mut trial = fixture::trial("s", 0, 100, 20);
        trial.audit.undersold = 0;
        trial.audit.unsold_undecided = 80;
        trial
    }

    #[test]
    fn units_that_undecided_buyers_left_prove_nothing_either_way() {
        let (sold, undecided) = (fixture::trial("s", 0, 100, 100), mostly_refused());
        for promise in [Promise::NeverOversells, Promise::Oversells] {
            assert_eq!(Finding::of(promise, 3, &[&sold, &undecided]), Finding::Inconclusive, "{promise:?}");
        }
        let oversold = fixture::trial("s", 1, 100, 130);
        assert_eq!(Finding::of(Promise::NeverOversells, 3, &[&undecided, &oversold]), Finding::Broken);
        assert_eq!(Finding::of(Promise::Oversells, 3, &[&undecided, &oversold]), Finding::Kept);
    }

    #[test]
    fn a_trial_that_has_not_come_to_rest_is_not_blamed_for_what_may_yet_be_set_right() {
        let unsettled = |sold| Trial { settled: false, ..fixture::trial("s", 0, 100, sold) };
        let found = |trial: &Trial| Finding::of(Promise::NeverOversells, 3, &[trial]);
        assert_eq!(found(&unsettled(90)), Finding::Inconclusive);
        assert_eq!(found(&unsettled(100)), Finding::Kept);
        assert_eq!(found(&unsettled(101)), Finding::Broken);
        let mut lost = unsettled(100);
        lost.audit.lost_updates = -1;
        assert_eq!(found(&lost), Finding::Inconclusive);
        lost.settled = true;
        assert_eq!(found(&lost), Finding::Broken);
    }

    #[test]
    fn a_verdict_of_nothing_says_why_and_what_to_do() {
        let unknown = Conclusion {
            strategy: "zk-mutex",
            finding: Finding::Inconclusive,
            undecided: 280,
            unsettled_trials: 1,
            client_limited: false,
        };
        let verdict = Verdict::of(&[unknown], false);
        let expected = "nothing can be said of zk-mutex (280 buyers got no decision, 1 trials did not come to rest); \
            raise --lock-wait, or look at the service's log";
        assert_eq!((verdict.exit_code, verdict.reasons), (3, vec![expected.to_owned()]));
    }

    #[test]
    fn the_gravest_reason_gives_the_exit_code() {
        let conclusion = |strategy, finding, client_limited| Conclusion {
            strategy,
            finding,
            undecided: 0,
            unsettled_trials: 0,
            client_limited,
        };
        let fine = conclusion("a", Finding::Kept, false);
        let limited = conclusion("b", Finding::Kept, true);
        let weak = conclusion("c", Finding::LoadTooWeak, false);
        let unknown = conclusion("u", Finding::Inconclusive, false);
        let broken = conclusion("d", Finding::Broken, false);
        let code = |strategies: &[Conclusion<'_>], interrupted| Verdict::of(strategies, interrupted).exit_code;
        assert_eq!(code(&[fine], false), 0);
        assert_eq!(code(&[fine, limited], false), 4);
        assert_eq!(code(&[fine, limited, weak], false), 1);
        assert_eq!(code(&[fine, limited, weak, unknown], false), 3);
        assert_eq!(code(&[fine, limited, weak, unknown, broken], false), 2);
        assert_eq!(code(&[fine, limited, weak, unknown, broken], true), 130);
        assert_eq!(Verdict::of(&[limited, weak, broken], false).reasons.len(), 3);
    }
}
