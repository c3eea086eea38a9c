//! Makes results of the trials: one for each strategy and number of users, related to each other and ranked. Of two builds,
//! each is related to itself.

use std::collections::BTreeSet;

use buyers::sample::{ByOutcome, problems};
use stats::{as_f64, median, rate};

use crate::audit::shop::Evidence;
use crate::judge::finding::Finding;
use crate::judge::headline::faults;
use crate::judge::metrics::{FigureSource, Metric, P50, TrialsOfStrategy};
use crate::judge::result::{Figures, StrategyResult};
use crate::lab::strategy::{Mechanism, Strategy};
use crate::trial::herd::expected_of_burst;
use crate::trial::record::{Latency, Trial};
use crate::trial::schedule::{Schedule, Subject};

/// The strategy that others are measured against, if it took part and kept its promise.
const REFERENCE: &str = "zk-mutex";

/// Returns the results of every strategy, build and number of users of the plan, by the figures of this table.
pub(crate) fn results_of(
    schedule: &Schedule,
    strategies: &[Strategy],
    trials: &[Trial],
    metrics: &[&Metric],
) -> Vec<StrategyResult> {
    let is_planned = |strategy: &Strategy, users: u32| {
        let subject = Subject::of(strategy, users);
        schedule.blocks.iter().any(|block| block.subjects.contains(&subject))
    };
    let mut results: Vec<StrategyResult> = Vec::new();
    for strategy in strategies {
        let levels = schedule.users.iter().filter(|users| is_planned(strategy, **users));
        results.extend(levels.map(|users| result_of(strategy, *users, schedule, trials, metrics)));
    }
    let levels: BTreeSet<(u32, Option<String>)> =
        results.iter().map(|result| (result.users, result.build.clone())).collect();
    for (users, build) in levels {
        let is_of_level = |result: &&mut StrategyResult| result.users == users && result.build == build;
        let mut of_level: Vec<&mut StrategyResult> = results.iter_mut().filter(is_of_level).collect();
        relate(&mut of_level, schedule, trials);
        stats::correct(of_level.iter_mut().filter_map(|result| result.ratio_to_reference.as_mut()));
        rank(&mut of_level);
    }
    results
}

/// Draws the result of the trials of one strategy and number of users.
fn result_of(
    strategy: &Strategy,
    users: u32,
    schedule: &Schedule,
    all: &[Trial],
    metrics: &[&Metric],
) -> StrategyResult {
    let subject = Subject::of(strategy, users);
    let trials = TrialsOfStrategy { all: all.iter().filter(|trial| trial.is_of(&subject)).collect() };
    let run = trials.count(|_| true);
    let bad_trials = trials.count(Trial::is_bad);
    let inconclusive_trials = trials.count(|trial| trial.is_undecided(&schedule.limits));
    let unchecked_trials = trials.count(|trial| !trial.is_bad() && !trial.unchecked.is_empty());
    let finding = match strategy.hazard {
        Some(hazard) => Finding::under(hazard, strategy.promise, &trials.all),
        None => Finding::of(schedule.expects(strategy.promise), &schedule.limits, &trials.all),
    };
    let expected = expected_of_burst(schedule, strategy.wakes, users);
    let answers: Vec<&ByOutcome<u64>> = trials.measured().map(|trial| &trial.answers).collect();
    let sum = |of: fn(&Trial) -> u64| trials.all.iter().map(|trial| of(trial)).sum::<u64>();
    let oversold: Vec<f64> = trials.all.iter().map(|trial| as_f64(trial.audit.oversold)).collect();
    StrategyResult {
        strategy: strategy.name.clone(),
        users,
        build: strategy.build.clone(),
        hazard: strategy.hazard,
        summary: strategy.summary.clone(),
        promise: strategy.promise,
        mechanism: strategy.mechanism,
        permits: strategy.permits,
        wakes: strategy.wakes,
        kept: kept(finding),
        finding,
        rank: None,
        stock: u64::from(schedule.stock) * u64::from(schedule.goods),
        trials: run,
        measured_trials: trials.count(|trial| !trial.warm_up),
        bad_trials,
        inconclusive_trials,
        unchecked_trials,
        unchecked: problems(trials.all.iter().flat_map(|trial| &trial.unchecked)),
        evidence: evidence(&trials.all),
        unseen: unseen(&trials),
        faults: faults_of(strategy, schedule, &trials),
        bad_trial_rate_upper_95: rate::upper_95(
            bad_trials,
            run - trials.count(|trial| trial.proves_nothing(&schedule.limits)),
        ),
        unsettled_trials: trials.count(|trial| !trial.settled),
        client_limited_trials: trials.count(|trial| !trial.warm_up && trial.generator.limited),
        is_comparable: run > 0
            && strategy.hazard.is_none()
            && bad_trials == 0
            && inconclusive_trials == 0
            && unchecked_trials == 0
            && !trials.all.iter().any(|trial| trial.is_order_violated()),
        oversold_median: median(&oversold),
        answers: ByOutcome::fold(&answers, |counts| counts.sum()),
        undecided: sum(|trial| trial.answers.undecided()),
        failed: sum(|trial| trial.answers.failed()),
        arrivals: sum(|trial| trial.generator.requests + trial.generator.dropped),
        dropped: sum(|trial| trial.generator.dropped),
        dropped_busy: sum(|trial| trial.generator.dropped_busy),
        latency: Latency::merged(&trials.measured().map(|trial| &trial.latency).collect::<Vec<_>>()),
        reference: None,
        ratio_to_reference: None,
        notifications_expected: expected.map(|(all, _)| all),
        notifications_per_release_expected: expected
            .filter(|_| strategy.mechanism == Mechanism::Zookeeper)
            .map(|(_, of_each)| of_each),
        figures: figures(&trials, metrics),
        partial: metrics.iter().filter_map(|metric| Some((metric.key.to_owned(), metric.part(&trials)?))).collect(),
    }
}

/// Tells whether a promise was kept, if the finding says that.
fn kept(finding: Finding) -> Option<bool> {
    match finding {
        Finding::Kept => Some(true),
        Finding::Broken => Some(false),
        Finding::Inconclusive
        | Finding::Dropped
        | Finding::Failing
        | Finding::Unchecked
        | Finding::LoadTooWeak
        | Finding::NotRun => None,
    }
}

/// Returns what the finding stands on. A right sale is as sure as the weakest evidence of all trials, and a fault as the best one of
/// those that show it.
fn evidence(trials: &[&Trial]) -> Option<Evidence> {
    let of_bad = trials.iter().filter(|trial| trial.is_bad()).filter_map(|trial| trial.evidence).max();
    of_bad.or_else(|| trials.iter().filter_map(|trial| trial.evidence).min())
}

/// Lists what nothing could show in any of the trials, each line once.
fn unseen(trials: &TrialsOfStrategy<'_>) -> Vec<String> {
    let mut unseen: Vec<String> = Vec::new();
    for line in trials.all.iter().flat_map(|trial| &trial.unseen) {
        if !unseen.contains(line) {
            unseen.push(line.clone());
        }
    }
    unseen
}

/// Names the faults of a shop that a file describes. The service of the lab is no such shop.
fn faults_of(strategy: &Strategy, schedule: &Schedule, trials: &TrialsOfStrategy<'_>) -> Vec<String> {
    let shop = schedule.shops.iter().find(|shop| shop.name == strategy.name);
    let stock = u64::from(schedule.stock) * u64::from(schedule.goods);
    shop.map_or_else(Vec::new, |shop| faults::of(&trials.all, stock, shop.per_buyer))
}

fn figures(trials: &TrialsOfStrategy<'_>, metrics: &[&Metric]) -> Figures {
    let of_trials = metrics.iter().filter(|metric| !matches!(metric.source, FigureSource::Result(_)));
    Figures(of_trials.map(|metric| (metric.key.to_owned(), metric.over(trials))).collect())
}

/// Returns the median response time of the sold in each block that counts, if its sample is large enough.
fn medians_by_block(trials: &[Trial], subject: &Subject, schedule: &Schedule) -> Vec<Option<f64>> {
    let measured = schedule.blocks.iter().enumerate().filter(|(_, block)| !block.warm_up);
    let in_block = |number: usize| trials.iter().find(|trial| trial.block == number && trial.is_of(subject));
    measured.map(|(number, _)| in_block(number)?.latency.response.sold.quantile_ms(500)).collect()
}

/// Relates the median response times of one build and number of users to those of the reference.
fn relate(results: &mut [&mut StrategyResult], schedule: &Schedule, trials: &[Trial]) {
    let Some(reference) = reference(results) else { return };
    let figures = |result: &StrategyResult| medians_by_block(trials, &result.subject(), schedule);
    let base = results.iter().find(|result| result.strategy == reference).map(|result| figures(result));
    let Some(base) = base else { return };
    for result in results.iter_mut().filter(|result| result.is_comparable && result.strategy != reference) {
        result.ratio_to_reference = stats::paired::ratio(&figures(result), &base);
    }
    for result in results.iter_mut() {
        result.reference = Some(reference.clone());
    }
}

/// Chooses the usual reference, or else the first strategy that is safe and kept its promise.
fn reference(results: &[&mut StrategyResult]) -> Option<String> {
    let is_safe = |result: &&&mut StrategyResult| !result.promise.is_of_control() && result.is_comparable;
    let usual = results.iter().filter(is_safe).find(|result| result.strategy == REFERENCE);
    usual.or_else(|| results.iter().find(is_safe)).map(|result| result.strategy.clone())
}

/// Ranks by median response time those that may be ranked.
fn rank(results: &mut [&mut StrategyResult]) {
    let mut order: Vec<(f64, usize)> = results
        .iter()
        .enumerate()
        .filter(|(_, result)| result.is_comparable)
        .filter_map(|(index, result)| Some((P50.value(result).filter(|p50| p50.is_finite())?, index)))
        .collect();
    order.sort_by(|a, b| a.0.total_cmp(&b.0));
    for (position, (_, index)) in order.into_iter().enumerate() {
        results[index].rank = Some(position + 1);
    }
}
