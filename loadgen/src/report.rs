//! The report: what was compared, under which conditions, and what came out. `REPORT.md` documents every field.

pub(crate) mod json;
pub(crate) mod markdown;
mod table;
pub(crate) mod terminal;
mod warnings;

#[cfg(test)]
pub(crate) mod fixture;

use loadgen::stats::{TimeSummary, Times, as_f64, as_f64_signed, median, paired_ratio, rate_upper_95};
use serde::Serialize;

use crate::herd::notifications_expected;
use crate::plan::Plan;
use crate::strategies::{Guard, Promise, Strategy, Wakes};
use crate::trial::{ByOutcome, Timings, Trial};
use crate::verdict::{Conclusion, Finding, Verdict};

/// Version of the JSON schema; it changes when a field changes its meaning or goes.
pub(crate) const SCHEMA: &str = "seckill-report/1";

/// The strategy that others are measured against, if it took part and kept its promise.
const REFERENCE: &str = "zk-mutex";

/// A whole comparison.
#[derive(Debug, Serialize)]
pub(crate) struct Report {
    pub(crate) schema: &'static str,
    /// When the comparison ended, in UTC (RFC 3339).
    pub(crate) generated_at: String,
    /// Whether it was stopped before every trial was run.
    pub(crate) interrupted: bool,
    pub(crate) verdict: Verdict,
    pub(crate) environment: Environment,
    pub(crate) parameters: Parameters,
    pub(crate) plan: Plan,
    /// The strategy that `ratio_to_reference` refers to.
    pub(crate) reference: Option<String>,
    /// What to bear in mind when reading the figures.
    pub(crate) warnings: Vec<String>,
    /// One entry a strategy, in the service's order.
    pub(crate) results: Vec<StrategyResult>,
    /// Every trial that was run to its end, in order.
    pub(crate) trials: Vec<Trial>,
}

/// Where the comparison ran.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct Environment {
    pub(crate) loadgen_version: &'static str,
    pub(crate) os: &'static str,
    pub(crate) arch: &'static str,
    pub(crate) kernel: Option<String>,
    pub(crate) cpu_count: usize,
    pub(crate) postgres_version: String,
    pub(crate) zookeeper_version: Option<String>,
    /// Whether both servers were started for this comparison alone.
    pub(crate) servers_throwaway: bool,
    /// Whether the instances ran on the machine of the generator, and so shared its cores; unknown of a target whose
    /// address does not tell.
    pub(crate) generator_shares_host: Option<bool>,
}

/// What was asked for.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct Parameters {
    /// Always `closed burst`: every user sends one request, all at the same instant.
    pub(crate) load_model: &'static str,
    pub(crate) users: u32,
    pub(crate) stock: u32,
    /// Trials planned for each strategy.
    pub(crate) trials: u32,
    pub(crate) instances: usize,
    /// ZooKeeper sessions over all instances.
    pub(crate) zk_sessions_total: Option<u64>,
    /// Business time inside the critical section; unknown of a service that ran already.
    pub(crate) hold: Option<String>,
    /// How long a buyer waits for the lock before the service refuses; unknown of a service that ran already.
    pub(crate) lock_wait_ms: Option<u64>,
    pub(crate) goods_no: i64,
}

/// What came out for one strategy.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct StrategyResult {
    pub(crate) strategy: String,
    pub(crate) summary: String,
    pub(crate) promise: Promise,
    pub(crate) guard: Guard,
    pub(crate) wakes: Wakes,
    /// Whether the promise was kept; absent when no trial was run, or when the trials do not tell.
    pub(crate) kept: Option<bool>,
    pub(crate) finding: Finding,
    /// Place by median response time of the sold, among the strategies that sold exactly the stock in every trial.
    pub(crate) rank: Option<usize>,
    /// Trials that were run to their end.
    pub(crate) trials: u32,
    /// Trials that sold a unit too many or too few, lost an update, or whose books did not balance.
    pub(crate) bad_trials: u32,
    /// Trials that prove nothing: undecided buyers left units, or books did not balance before all was at rest.
    pub(crate) inconclusive_trials: u32,
    /// Exact one-sided 95 % upper bound of the rate of bad trials among those that prove anything.
    pub(crate) bad_trial_rate_upper_95: f64,
    pub(crate) oversold_max: i64,
    pub(crate) oversold_median: Option<f64>,
    pub(crate) undersold_max: i64,
    /// The figure farthest from zero.
    pub(crate) lost_updates_max: i64,
    pub(crate) ledger_balanced: bool,
    /// Orders whose buyers saw an error or nothing, over all trials.
    pub(crate) indeterminate: u64,
    /// Buyers by outcome, over all trials.
    pub(crate) answers: ByOutcome<u64>,
    /// Median over the trials.
    pub(crate) sold_per_second: Option<f64>,
    /// Response times of the sold, all trials merged.
    pub(crate) latency_ms: TimeSummary,
    /// Response times by outcome, all trials merged.
    pub(crate) latency_ms_by_outcome: ByOutcome<TimeSummary>,
    /// Times to the first byte of the sold, all trials merged.
    pub(crate) first_byte_ms: TimeSummary,
    /// Median over the blocks of this strategy's median response time divided by the reference's.
    pub(crate) ratio_to_reference: Option<f64>,
    /// Watch notifications a trial, median.
    pub(crate) notifications: Option<f64>,
    /// Watch notifications a trial when all users wait at once.
    pub(crate) notifications_expected: u64,
    /// Watch notifications a lock release, median over the trials.
    pub(crate) notifications_per_release: Option<f64>,
    /// The same when all users wait at once.
    pub(crate) notifications_per_release_expected: Option<f64>,
    /// Most connections that one deletion woke, where the servers tell.
    pub(crate) wake_max: Option<u64>,
    /// Requests to ZooKeeper a unit sold, median over the trials.
    pub(crate) requests_per_sale: Option<f64>,
    /// Bytes to and from ZooKeeper a unit sold, median over the trials.
    pub(crate) bytes_per_sale: Option<f64>,
    /// Trials that had not come to rest when they were audited.
    pub(crate) unsettled_trials: u32,
    /// Trials in which the generator was the bottleneck.
    pub(crate) client_limited_trials: u32,
}

/// What a report is made of.
#[derive(Debug)]
pub(crate) struct Findings {
    pub(crate) generated_at: String,
    pub(crate) interrupted: bool,
    pub(crate) environment: Environment,
    pub(crate) parameters: Parameters,
    pub(crate) plan: Plan,
    pub(crate) strategies: Vec<Strategy>,
    pub(crate) trials: Vec<Trial>,
}

impl Report {
    /// Draws the conclusions.
    pub(crate) fn of(findings: Findings) -> Report {
        let Findings { generated_at, interrupted, environment, parameters, plan, strategies, trials } = findings;
        let blocks = plan.blocks.len();
        let mut results: Vec<StrategyResult> =
            strategies.iter().map(|strategy| StrategyResult::of(strategy, &parameters, &trials)).collect();
        let reference = reference(&results);
        if let Some(reference) = &reference {
            let base = medians_by_block(&trials, reference, blocks);
            for result in results.iter_mut().filter(|result| result.is_comparable()) {
                result.ratio_to_reference = paired_ratio(&medians_by_block(&trials, &result.strategy, blocks), &base);
            }
        }
        rank(&mut results);
        let conclusions: Vec<Conclusion<'_>> = results.iter().map(StrategyResult::conclusion).collect();
        let verdict = Verdict::of(&conclusions, interrupted);
        let warnings = warnings::of(&environment, &parameters, &trials);
        Report {
            schema: SCHEMA,
            generated_at,
            interrupted,
            verdict,
            environment,
            parameters,
            plan,
            reference,
            warnings,
            results,
            trials,
        }
    }
}

impl StrategyResult {
    fn of(strategy: &Strategy, parameters: &Parameters, trials: &[Trial]) -> StrategyResult {
        let trials: Vec<&Trial> = trials.iter().filter(|trial| trial.strategy == strategy.name).collect();
        let median_of = |figure: &dyn Fn(&Trial) -> Option<f64>| {
            median(&trials.iter().filter_map(|trial| figure(trial)).collect::<Vec<_>>())
        };
        let sold = |trial: &Trial| u64::try_from(trial.audit.sold).unwrap_or_default();
        let count = |is: &dyn Fn(&Trial) -> bool| {
            u32::try_from(trials.iter().filter(|trial| is(trial)).count()).unwrap_or(u32::MAX)
        };
        let (run, bad_trials) = (count(&|_| true), count(&Trial::is_bad));
        let inconclusive_trials = count(&Trial::is_inconclusive);
        let finding = Finding::of(strategy.promise, parameters.instances, &trials);
        let mut timings = Timings::new();
        for trial in &trials {
            timings.merge(&trial.timings);
        }
        let expected =
            notifications_expected(strategy.wakes, u64::from(parameters.users), parameters.zk_sessions_total);
        StrategyResult {
            strategy: strategy.name.clone(),
            summary: strategy.summary.clone(),
            promise: strategy.promise,
            guard: strategy.guard,
            wakes: strategy.wakes,
            kept: match finding {
                Finding::Kept => Some(true),
                Finding::Broken => Some(false),
                Finding::Inconclusive | Finding::LoadTooWeak | Finding::NotRun => None,
            },
            finding,
            rank: None,
            trials: run,
            bad_trials,
            inconclusive_trials,
            bad_trial_rate_upper_95: rate_upper_95(bad_trials, run - inconclusive_trials),
            oversold_max: trials.iter().map(|trial| trial.audit.oversold).max().unwrap_or(0),
            oversold_median: median_of(&|trial| Some(as_f64_signed(trial.audit.oversold))),
            undersold_max: trials.iter().map(|trial| trial.audit.undersold).max().unwrap_or(0),
            lost_updates_max: trials.iter().map(|trial| trial.audit.lost_updates).max_by_key(|n| n.abs()).unwrap_or(0),
            ledger_balanced: trials.iter().all(|trial| trial.audit.ledger_balanced()),
            indeterminate: trials.iter().map(|trial| trial.audit.indeterminate).sum(),
            answers: answers(&trials),
            sold_per_second: median_of(&|trial| trial.sold_per_second),
            latency_ms: timings.response.sold.summary(),
            latency_ms_by_outcome: timings.response.map(Times::summary),
            first_byte_ms: timings.first_byte_sold.summary(),
            ratio_to_reference: None,
            notifications: median_of(&|trial| trial.zookeeper.notifications().map(as_f64)),
            notifications_expected: expected,
            notifications_per_release: median_of(&|trial| trial.zookeeper.notifications_per_release()),
            notifications_per_release_expected: (strategy.guard == Guard::Zookeeper)
                .then(|| as_f64(expected) / f64::from(parameters.users)),
            wake_max: trials.iter().filter_map(|trial| trial.zookeeper.wake_max).max(),
            requests_per_sale: median_of(&|trial| trial.zookeeper.requests_per_sale(sold(trial))),
            bytes_per_sale: median_of(&|trial| trial.zookeeper.bytes_per_sale(sold(trial))),
            unsettled_trials: count(&|trial| !trial.settled),
            client_limited_trials: count(&|trial| trial.generator.limited),
        }
    }

    fn conclusion(&self) -> Conclusion<'_> {
        Conclusion {
            strategy: &self.strategy,
            finding: self.finding,
            undecided: self.answers.undecided(),
            unsettled_trials: self.unsettled_trials,
            client_limited: self.client_limited_trials * 2 > self.trials,
        }
    }

    /// Whether its times may be compared: it sold exactly the stock, every time.
    fn is_comparable(&self) -> bool {
        self.trials > 0 && self.bad_trials == 0 && self.inconclusive_trials == 0
    }
}

fn answers(trials: &[&Trial]) -> ByOutcome<u64> {
    let total = |of: fn(&ByOutcome<u64>) -> u64| trials.iter().map(|trial| of(&trial.answers)).sum();
    ByOutcome {
        sold: total(|answers| answers.sold),
        sold_out: total(|answers| answers.sold_out),
        refused: total(|answers| answers.refused),
        error: total(|answers| answers.error),
        timeout: total(|answers| answers.timeout),
    }
}

/// The usual reference, or else the first strategy that is safe and kept its promise.
fn reference(results: &[StrategyResult]) -> Option<String> {
    let is_safe = |result: &&StrategyResult| {
        matches!(result.promise, Promise::SafeWhileSessionLives | Promise::NeverOversells) && result.is_comparable()
    };
    let usual = results.iter().filter(is_safe).find(|result| result.strategy == REFERENCE);
    usual.or_else(|| results.iter().find(is_safe)).map(|result| result.strategy.clone())
}

/// The median response time of the sold in each block, where the sample can carry it.
fn medians_by_block(trials: &[Trial], strategy: &str, blocks: usize) -> Vec<Option<f64>> {
    let in_block = |block| trials.iter().find(|trial| trial.block == block && trial.strategy == strategy);
    (0..blocks).map(|block| in_block(block)?.latency_ms.sold.p50).collect()
}

/// Ranks by median response time those that may be ranked.
fn rank(results: &mut [StrategyResult]) {
    let mut order: Vec<(f64, usize)> = results
        .iter()
        .enumerate()
        .filter(|(_, result)| result.is_comparable())
        .filter_map(|(index, result)| Some((result.latency_ms.p50?, index)))
        .collect();
    order.sort_by(|a, b| a.0.total_cmp(&b.0));
    for (place, (_, index)) in order.into_iter().enumerate() {
        results[index].rank = Some(place + 1);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn strategies_that_oversold_are_neither_ranked_nor_related_to_the_reference() {
        let report = fixture::report();
        let control = &report.results[0];
        assert_eq!((control.strategy.as_str(), control.kept), ("unguarded", Some(true)));
        assert_eq!((control.rank, control.ratio_to_reference), (None, None));
        assert!(control.latency_ms.p50.is_some(), "but they are shown");
    }

    #[test]
    fn the_reference_has_a_ratio_of_one_and_the_others_theirs() {
        let report = fixture::report();
        assert_eq!(report.reference.as_deref(), Some("zk-mutex"));
        let ratio = |name: &str| {
            let result = report.results.iter().find(|result| result.strategy == name);
            result.and_then(|result| result.ratio_to_reference)
        };
        assert_eq!(ratio("zk-mutex"), Some(1.0));
        assert!(ratio("zk-naive").unwrap() > 1.5);
    }

    fn report_of(trials: Vec<Trial>) -> Report {
        Report::of(fixture::findings(false, trials))
    }

    fn result<'a>(report: &'a Report, strategy: &str) -> &'a StrategyResult {
        report.results.iter().find(|result| result.strategy == strategy).unwrap()
    }

    #[test]
    fn strategies_that_sold_too_little_or_lost_an_update_have_no_ratio_either() {
        let mut lost = fixture::trial("zk-naive", 0, 100, 100);
        lost.audit.lost_updates = 1;
        let undersold = fixture::trial("pg-conditional", 0, 100, 99);
        let report = report_of(vec![fixture::trial("zk-mutex", 0, 100, 100), lost, undersold]);
        assert_eq!(result(&report, "zk-mutex").ratio_to_reference, Some(1.0));
        for strategy in ["zk-naive", "pg-conditional"] {
            let result = result(&report, strategy);
            assert_eq!((result.oversold_max, result.rank, result.ratio_to_reference), (0, None, None), "{strategy}");
        }
    }

    #[test]
    fn a_strategy_whose_buyers_were_refused_or_failed_is_not_judged() {
        let mut trial = fixture::trial("zk-mutex", 0, 100, 20);
        trial.answers = ByOutcome { sold: 20, refused: 200, error: 70, timeout: 10, ..ByOutcome::default() };
        (trial.audit.undersold, trial.audit.unsold_undecided) = (0, 80);
        trial.problems = vec!["refused: lock-timeout".to_owned(), "answered 500".to_owned()];
        trial.zookeeper.releases = None;
        let report = report_of(vec![trial, fixture::trial("pg-conditional", 0, 100, 100)]);

        let refused = result(&report, "zk-mutex");
        assert_eq!((refused.finding, refused.kept), (Finding::Inconclusive, None));
        assert_eq!((refused.bad_trials, refused.inconclusive_trials), (0, 1));
        assert!((refused.bad_trial_rate_upper_95 - 1.0).abs() < 1e-9, "it proves nothing");
        assert_eq!((refused.rank, refused.ratio_to_reference, refused.notifications_per_release), (None, None, None));
        assert_eq!(report.reference.as_deref(), Some("pg-conditional"));
        assert_eq!(report.verdict.exit_code, 3);
        insta::assert_snapshot!(terminal::render(&report));
    }

    #[test]
    fn a_strategy_that_sold_all_of_its_stock_is_judged_in_spite_of_some_refusals() {
        let mut trial = fixture::trial("zk-mutex", 0, 100, 100);
        (trial.answers.sold_out, trial.answers.refused) = (190, 10);
        let report = report_of(vec![trial]);
        assert_eq!((result(&report, "zk-mutex").kept, report.verdict.exit_code), (Some(true), 0));
        assert!(report.warnings.iter().any(|warning| warning.contains("10 refused")), "{:?}", report.warnings);
    }

    #[test]
    fn ranks_follow_the_median_response_time() {
        let report = fixture::report();
        let ranks: Vec<_> = report.results.iter().map(|result| result.rank).collect();
        assert_eq!(ranks, [None, Some(3), Some(2), Some(1)]);
    }

    #[test]
    fn an_interrupted_comparison_reports_what_was_run() {
        let report = fixture::interrupted();
        assert!(report.interrupted);
        assert_eq!(report.verdict.exit_code, 130);
        assert_eq!(report.trials.len(), 1);
        let run: u32 = report.results.iter().map(|result| result.trials).sum();
        assert_eq!(run, 1);
        assert!(report.results.iter().any(|result| result.finding == Finding::NotRun && result.kept.is_none()));
    }

    #[test]
    fn expected_notifications_are_those_of_users_who_all_wait_at_once() {
        let report = fixture::report();
        let expected: Vec<u64> = report.results.iter().map(|result| result.notifications_expected).collect();
        assert_eq!(expected, [0, 300 * 299 / 2, 299, 0]);
    }
}
