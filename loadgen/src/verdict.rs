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
        if trials.is_empty() {
            Finding::NotRun
        } else if trials.iter().any(|trial| !trial.audit.ledger_balanced()) {
            Finding::Broken
        } else if expects_oversell {
            let oversold = trials.iter().any(|trial| trial.audit.oversold > 0);
            if oversold { Finding::Kept } else { Finding::LoadTooWeak }
        } else if trials.iter().all(|trial| trial.audit.is_clean()) {
            Finding::Kept
        } else {
            Finding::Broken
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
    /// Whether the generator was the bottleneck in more than half of the trials.
    pub(crate) client_limited: bool,
}

impl Verdict {
    /// Draws the conclusion. The gravest reason gives the exit code: interrupted, then a broken promise, then a load
    /// that proved nothing, then a generator that could not keep up (which spoils the times, but not the audit).
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

    #[test]
    fn the_gravest_reason_gives_the_exit_code() {
        let conclusion = |strategy, finding, client_limited| Conclusion { strategy, finding, client_limited };
        let fine = conclusion("a", Finding::Kept, false);
        let limited = conclusion("b", Finding::Kept, true);
        let weak = conclusion("c", Finding::LoadTooWeak, false);
        let broken = conclusion("d", Finding::Broken, false);
        let code = |strategies: &[Conclusion<'_>], interrupted| Verdict::of(strategies, interrupted).exit_code;
        assert_eq!(code(&[fine], false), 0);
        assert_eq!(code(&[fine, limited], false), 4);
        assert_eq!(code(&[fine, limited, weak], false), 1);
        assert_eq!(code(&[fine, limited, weak, broken], false), 2);
        assert_eq!(code(&[fine, limited, weak, broken], true), 130);
        assert_eq!(Verdict::of(&[limited, weak, broken], false).reasons.len(), 3);
    }
}
