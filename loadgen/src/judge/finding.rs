//! Whether a strategy did what it promises.

use schemars::JsonSchema;
use serde::Serialize;

use crate::audit::history::HistoryAudit;
use crate::lab::hazard::Hazard;
use crate::lab::strategy::{ExpectedFault, Promise};
use crate::trial::record::Trial;
use crate::trial::schedule::Limits;

/// Whether a strategy did what it promises.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Finding {
    /// It kept its promise in every trial: everything was checked, and nothing was found.
    Kept,
    /// It sold a unit too many or too few, lost an update, or told a buyer something that the database refutes. Or its lock
    /// did not exclude, or its batches did not keep to the order of arrival.
    Broken,
    /// Undecided: units were left because buyers were refused or failed, or the books of a trial that had not come to rest
    /// did not balance.
    #[serde(rename = "refused-or-failed")]
    Inconclusive,
    /// Undecided: too many arrivals were dropped, and their outcome is unknown.
    #[serde(rename = "arrivals-dropped")]
    Dropped,
    /// Undecided: too many requests ended in an error or a timeout, so the times are only those of the others.
    #[serde(rename = "requests-failed")]
    Failing,
    /// Nothing wrong was found, but not everything was checked.
    Unchecked,
    /// The load was too weak: a strategy that is expected to oversell did not, or no two buyers met under a lock, in any
    /// trial.
    LoadTooWeak,
    /// The comparison was interrupted before its first trial ended.
    NotRun,
}

/// Tells whether a trial has something.
type Has = fn(&Trial) -> bool;

impl Finding {
    /// Describes the finding in a few words. `shown`: what a control did wrong, as it has to.
    pub(crate) fn describe(self, shown: ExpectedFault) -> &'static str {
        match self {
            Finding::Kept if shown == ExpectedFault::Oversold => "oversold, as expected",
            Finding::Kept if shown == ExpectedFault::OverLimit => "over the limit, as expected",
            Finding::Kept => "yes",
            Finding::Broken => "NO",
            Finding::Inconclusive => "refused or failed",
            Finding::Dropped => "arrivals dropped",
            Finding::Failing => "requests failed",
            Finding::Unchecked => "unchecked",
            Finding::LoadTooWeak => "load too weak",
            Finding::NotRun => "not run",
        }
    }

    /// Judges the trials of one strategy.
    ///
    /// For a control, one trial with the fault that it is expected to show is enough. Its other books must still balance,
    /// because even a careless deduction writes the orders that it confirms.
    pub(crate) fn of(expected: ExpectedFault, limits: &Limits, trials: &[&Trial]) -> Finding {
        let any = |is: Has| trials.iter().any(|trial| is(trial));
        let (wrong, shown): (Has, Has) = match expected {
            ExpectedFault::Nothing => (|trial| trial.is_bad() || trial.is_order_violated(), |_| false),
            ExpectedFault::Oversold => (|trial| !trial.audit.ledger_balanced(), |trial| trial.audit.oversold > 0),
            ExpectedFault::OverLimit => {
                (|trial| trial.sells_wrongly() || trial.is_order_violated(), |trial| trial.audit.over_limit > 0)
            }
        };
        if trials.is_empty() {
            Finding::NotRun
        } else if any(wrong) {
            Finding::Broken
        } else if any(shown) {
            // One trial with the fault is proof enough, whatever the others left open.
            Finding::Kept
        } else if any(Trial::is_inconclusive) {
            Finding::Inconclusive
        } else if trials.iter().any(|trial| trial.drops_too_many(limits)) {
            Finding::Dropped
        } else if trials.iter().any(|trial| trial.fails_too_many(limits)) {
            Finding::Failing
        } else if any(|trial| !trial.unchecked.is_empty()) {
            Finding::Unchecked
        } else if expected != ExpectedFault::Nothing
            || trials.iter().all(|trial| trial.history.as_ref().is_some_and(HistoryAudit::is_uncontended))
        {
            Finding::LoadTooWeak
        } else {
            Finding::Kept
        }
    }
}

impl Finding {
    /// Judges the trials of one strategy under a hazard, by the stock, by the orders and by the answers to buyers.
    ///
    /// A hazard may cost units, buyers and time. It must not oversell, and no buyer may be told what the database refutes, but for what
    /// the promise leaves open.
    pub(crate) fn under(hazard: Hazard, promise: Promise, trials: &[&Trial]) -> Finding {
        let may_oversell = promise == Promise::SafeWhileLockLives && hazard.is_of_memory();
        let is_broken = |trial: &&Trial| {
            let mut audit = trial.audit;
            if promise == Promise::MayPromiseWithoutOrder {
                audit.confirmations_unfounded = 0;
            }
            let oversells = audit.oversold > 0 || audit.lost_updates != 0;
            (oversells && !may_oversell) || audit.over_limit > 0 || !audit.ledger_balanced()
        };
        if trials.is_empty() {
            Finding::NotRun
        } else if trials.iter().any(is_broken) {
            Finding::Broken
        } else if trials.iter().any(|trial| !trial.unchecked.is_empty()) {
            Finding::Unchecked
        } else {
            Finding::Kept
        }
    }
}

#[cfg(test)]
mod tests {
    use buyers::sample::ByOutcome;

    use super::*;
    use crate::report::fixture::{self, LIMITS};

    fn finding(promise: Promise, instances: usize, sold: &[i64]) -> Finding {
        let trials: Vec<Trial> = sold.iter().map(|sold| fixture::trial("s", 0, 100, *sold)).collect();
        Finding::of(promise.expects(instances, false), &LIMITS, &trials.iter().collect::<Vec<_>>())
    }

    #[test]
    fn one_bad_trial_breaks_the_promise_of_a_safe_strategy() {
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
    fn a_process_lock_must_oversell_on_several_instances_only() {
        assert_eq!(finding(Promise::OversellsOnManyInstances, 3, &[130]), Finding::Kept);
        assert_eq!(finding(Promise::OversellsOnManyInstances, 3, &[100]), Finding::LoadTooWeak);
        assert_eq!(finding(Promise::OversellsOnManyInstances, 1, &[100]), Finding::Kept);
        assert_eq!(finding(Promise::OversellsOnManyInstances, 1, &[130]), Finding::Broken);
    }

    #[test]
    fn a_control_of_the_limit_has_to_exceed_it() {
        let sold = |over_limit, oversold| {
            let mut trial = fixture::trial("s", 0, 100, 100);
            trial.audit.over_limit = over_limit;
            trial.audit.oversold = oversold;
            trial
        };
        let found = |trial: &Trial, promise: Promise| Finding::of(promise.expects(3, true), &LIMITS, &[trial]);
        assert_eq!(found(&sold(2, 0), Promise::ExceedsLimit), Finding::Kept);
        assert_eq!(found(&sold(0, 0), Promise::ExceedsLimit), Finding::LoadTooWeak);
        assert_eq!(found(&sold(2, 1), Promise::ExceedsLimit), Finding::Broken);
        assert_eq!(found(&sold(2, 0), Promise::NeverOversells), Finding::Broken);
        // Where nobody asks for more than the limit, there is nothing to show.
        assert_eq!(Promise::ExceedsLimit.expects(3, false), Promise::NeverOversells.expects(3, true));
    }

    #[test]
    fn even_a_control_has_to_write_the_orders_that_it_confirms() {
        let mut trial = fixture::trial("s", 0, 100, 130);
        trial.audit.confirmations_unfounded = 1;
        assert_eq!(Finding::of(Promise::Oversells.expects(3, false), &LIMITS, &[&trial]), Finding::Broken);
    }

    /// Returns a trial in which nobody got a decision after the first 20 of 100 units.
    fn mostly_refused() -> Trial {
        let mut trial = fixture::trial("s", 0, 100, 20);
        trial.audit.undersold = 0;
        trial.audit.unsold_undecided = 80;
        trial
    }

    #[test]
    fn an_overlap_breaks_a_safe_strategy_that_sold_right() {
        let mut trial = fixture::trial("zk-mutex", 0, 100, 100);
        trial.history.as_mut().unwrap().overlaps = Some(1);
        assert_eq!(Finding::of(Promise::SafeWhileSessionLives.expects(3, false), &LIMITS, &[&trial]), Finding::Broken);
        trial.history.as_mut().unwrap().overlaps = None;
        assert_eq!(Finding::of(Promise::NeverOversells.expects(3, false), &LIMITS, &[&trial]), Finding::Kept);
    }

    #[test]
    fn a_falling_token_breaks_a_batch_without_a_history() {
        let mut trial = Trial { history: None, ..fixture::trial("zk-merge", 0, 100, 100) };
        assert_eq!(Finding::of(Promise::NeverOversells.expects(3, false), &LIMITS, &[&trial]), Finding::Kept);
        trial.audit.tokens_out_of_order = Some(1);
        assert_eq!(Finding::of(Promise::NeverOversells.expects(3, false), &LIMITS, &[&trial]), Finding::Broken);
    }

    #[test]
    fn an_overtaken_buyer_breaks_the_promise_of_a_batch() {
        let mut trial = fixture::trial("pg-merge", 0, 100, 100);
        trial.audit.overtaken_in_batch = Some(0);
        assert_eq!(Finding::of(Promise::NeverOversells.expects(3, false), &LIMITS, &[&trial]), Finding::Kept);
        trial.audit.overtaken_in_batch = Some(1);
        assert_eq!(Finding::of(Promise::NeverOversells.expects(3, false), &LIMITS, &[&trial]), Finding::Broken);
    }

    #[test]
    fn units_that_undecided_buyers_left_prove_nothing_either_way() {
        let sold = fixture::trial("s", 0, 100, 100);
        let undecided = mostly_refused();
        for promise in [Promise::NeverOversells, Promise::Oversells] {
            assert_eq!(
                Finding::of(promise.expects(3, false), &LIMITS, &[&sold, &undecided]),
                Finding::Inconclusive,
                "{promise:?}"
            );
        }
        let oversold = fixture::trial("s", 1, 100, 130);
        assert_eq!(
            Finding::of(Promise::NeverOversells.expects(3, false), &LIMITS, &[&undecided, &oversold]),
            Finding::Broken
        );
        assert_eq!(Finding::of(Promise::Oversells.expects(3, false), &LIMITS, &[&undecided, &oversold]), Finding::Kept);
    }

    #[test]
    fn a_strategy_whose_buyers_were_not_let_in_has_proved_nothing() {
        let dropping = |dropped, sold| {
            let mut trial = fixture::trial("pg-merge", 0, 100, sold);
            trial.generator.requests = 990;
            trial.generator.dropped = dropped;
            trial
        };
        let found = |trial: &Trial, promise: Promise| Finding::of(promise.expects(3, false), &LIMITS, &[trial]);
        assert_eq!(found(&dropping(10, 100), Promise::NeverOversells), Finding::Kept);
        assert_eq!(found(&dropping(11, 100), Promise::NeverOversells), Finding::Dropped);
        assert_eq!(found(&dropping(11, 101), Promise::NeverOversells), Finding::Broken);
        assert_eq!(found(&dropping(11, 130), Promise::Oversells), Finding::Kept);
        assert_eq!(found(&dropping(11, 100), Promise::Oversells), Finding::Dropped);
    }

    #[test]
    fn a_strategy_whose_requests_failed_has_proved_nothing() {
        let failing = |error, timeout| {
            let mut trial = fixture::trial("pg-merge", 0, 100, 100);
            trial.answers =
                ByOutcome { sold: 100, sold_out: 900 - error - timeout, error, timeout, ..ByOutcome::default() };
            trial
        };
        let found = |trial: &Trial| Finding::of(Promise::NeverOversells.expects(3, false), &LIMITS, &[trial]);
        assert_eq!(found(&failing(5, 5)), Finding::Kept);
        assert_eq!(found(&failing(6, 5)), Finding::Failing);
    }

    #[test]
    fn what_was_not_checked_is_not_kept() {
        let kept = fixture::trial("zk-mutex", 0, 100, 100);
        let unchecked = Trial { unchecked: vec!["instances without a common clock: 3".to_owned()], ..kept.clone() };
        let found = |trials: &[&Trial]| Finding::of(Promise::SafeWhileSessionLives.expects(3, false), &LIMITS, trials);
        assert_eq!(found(&[&kept, &unchecked]), Finding::Unchecked);
        let mut broken = unchecked.clone();
        broken.audit.oversold = 1;
        assert_eq!(found(&[&unchecked, &broken]), Finding::Broken);
    }

    #[test]
    fn a_lock_under_which_nobody_met_proves_nothing() {
        let met = fixture::trial("zk-mutex", 0, 100, 100);
        let mut alone = met.clone();
        alone.history.as_mut().unwrap().contended = Some(0);
        let found = |trials: &[&Trial]| Finding::of(Promise::SafeWhileSessionLives.expects(3, false), &LIMITS, trials);
        assert_eq!(found(&[&alone, &alone]), Finding::LoadTooWeak);
        assert_eq!(found(&[&alone, &met]), Finding::Kept);
        alone.history.as_mut().unwrap().overlaps = None;
        assert_eq!(found(&[&alone]), Finding::Kept, "its sections may overlap");
    }

    // C55
    #[test]
    fn a_hazard_may_cost_what_the_promise_leaves_open() {
        let found = |hazard: Hazard, promise: Promise, change: fn(&mut Trial)| {
            let mut trial = Trial { hazard: Some(hazard), settled: false, ..fixture::trial("s", 0, 100, 90) };
            change(&mut trial);
            Finding::under(hazard, promise, &[&trial])
        };
        let [killed, loaded] = [Hazard::RedisKilled, Hazard::GateLoadedAgain];
        let [gate, lock, safe] =
            [Promise::MayPromiseWithoutOrder, Promise::SafeWhileLockLives, Promise::NeverOversells];
        let without_order = |trial: &mut Trial| trial.audit.confirmations_unfounded = 3;
        let oversold = |trial: &mut Trial| trial.audit.oversold = 1;
        assert_eq!(found(killed, safe, |_| ()), Finding::Kept, "units may be left");
        assert_eq!(found(killed, gate, without_order), Finding::Kept);
        assert_eq!(found(killed, safe, without_order), Finding::Broken);
        assert_eq!(found(killed, lock, oversold), Finding::Kept);
        assert_eq!(found(loaded, lock, oversold), Finding::Broken);
        assert_eq!(found(killed, gate, oversold), Finding::Broken);
        assert_eq!(found(killed, gate, |trial| trial.audit.orders_unexplained = 1), Finding::Broken);
        assert_eq!(
            found(killed, safe, |trial| trial.unchecked = vec!["it did not strike".to_owned()]),
            Finding::Unchecked
        );
    }

    #[test]
    fn a_trial_that_is_not_at_rest_may_still_set_things_right() {
        let unchecked = vec!["trials that had not come to rest: 1".to_owned()];
        let unsettled =
            |sold| Trial { settled: false, unchecked: unchecked.clone(), ..fixture::trial("s", 0, 100, sold) };
        let found = |trial: &Trial| Finding::of(Promise::NeverOversells.expects(3, false), &LIMITS, &[trial]);
        assert_eq!(found(&unsettled(90)), Finding::Inconclusive);
        assert_eq!(found(&unsettled(100)), Finding::Unchecked, "a sale that is under way may yet be written");
        assert_eq!(found(&unsettled(101)), Finding::Broken);
        let mut lost = unsettled(100);
        lost.audit.lost_updates = -1;
        assert_eq!(found(&lost), Finding::Inconclusive);
        lost.settled = true;
        assert_eq!(found(&lost), Finding::Broken);
    }
}
