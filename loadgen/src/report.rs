//! The report: what was compared, under which conditions, and what came out. The types are the format: the JSON schema of
//! `report.json` is made of them, and whatever else is written is made of what is in them. `REPORT.md` says how to read it.

pub(crate) mod audit;
pub(crate) mod caveats;
pub(crate) mod files;
mod headline;
pub(crate) mod html;
pub(crate) mod json;
pub(crate) mod markdown;
mod table;
pub(crate) mod terminal;

#[cfg(test)]
pub(crate) mod fixture;

pub use self::json::read;
pub use crate::trial::record::Trial;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use simulation::Simulation;

use crate::judge::result::{StrategyResult, medians_by_block};
use crate::judge::thresholds::{Threshold, ThresholdResult};
use crate::judge::verdict::{Conclusion, EndedEarly, Verdict};
use crate::lab::environment::Environment;
use crate::lab::strategy::{Promise, Strategy};
use crate::trial::plan::Plan;
use simulation::Simulation;

/// Version of the JSON schema; it changes when a field changes its meaning or goes.
pub(crate) const SCHEMA: &str = "seckill-report/3";

/// An earlier version that can still be read. Its `mechanism` of a result is named `guard`.
pub(crate) const SCHEMA_BEFORE: &str = "seckill-report/2";

/// The strategy that others are measured against, if it took part and kept its promise.
const REFERENCE: &str = "zk-mutex";

/// A comparison of ways to guard the stock of a flash sale.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct Report {
    /// `seckill-report/3`. Fields may be added under the same name; one that goes or changes its meaning changes the name.
    pub(crate) schema: String,
    /// When the comparison ended, in UTC (RFC 3339).
    pub(crate) generated_at: String,
    /// Why it ended before every trial was run; absent when all were run. A trial that was under way is left out.
    pub(crate) ended_early: Option<EndedEarly>,
    /// The conclusion.
    pub(crate) verdict: Verdict,
    /// Where it ran.
    pub(crate) environment: Environment,
    /// What was asked for.
    pub(crate) plan: Plan,
    /// What to bear in mind when reading the figures.
    pub caveats: Vec<String>,
    /// What came of the thresholds.
    pub(crate) thresholds: Vec<ThresholdResult>,
    /// One entry for each strategy and number of users, in the service's order.
    pub(crate) results: Vec<StrategyResult>,
    /// Every trial that was run to its end, in order.
    pub trials: Vec<Trial>,
    /// What `loadgen simulate` predicts for more waiters, if it was added.
    pub(crate) simulation: Option<Simulation>,
}

/// What a report is made of.
#[derive(Debug)]
pub(crate) struct Findings {
    pub(crate) generated_at: String,
    pub(crate) ended_early: Option<EndedEarly>,
    pub(crate) environment: Environment,
    pub(crate) plan: Plan,
    pub(crate) strategies: Vec<Strategy>,
    pub(crate) thresholds: Vec<Threshold>,
    pub(crate) trials: Vec<Trial>,
}

impl Report {
    /// Draws the conclusions.
    pub(crate) fn of(findings: Findings) -> Report {
        let Findings { generated_at, ended_early, environment, plan, strategies, thresholds, trials } = findings;
        let mut results: Vec<StrategyResult> = Vec::new();
        for strategy in &strategies {
            for users in &plan.users {
                let is_planned = |subject: &crate::trial::plan::Subject| {
                    subject.strategy == strategy.name && subject.users == *users
                };
                if plan.blocks.iter().any(|block| block.trials.iter().any(is_planned)) {
                    results.push(StrategyResult::of(strategy, *users, &plan, &trials));
                }
            }
        }
        for users in &plan.users {
            let mut of_level: Vec<&mut StrategyResult> =
                results.iter_mut().filter(|result| result.users == *users).collect();
            relate(&mut of_level, &plan, &trials);
            stats::correct(of_level.iter_mut().filter_map(|result| result.ratio_to_reference.as_mut()));
            rank(&mut of_level);
        }
        let thresholds: Vec<ThresholdResult> =
            thresholds.iter().flat_map(|threshold| threshold.check(&results)).collect();
        let conclusions: Vec<Conclusion<'_>> =
            results.iter().map(|result| Conclusion::of(result, plan.users.len() > 1)).collect();
        let sentence = headline::sentence(&plan, &results, &trials);
        let verdict = Verdict::of(sentence, &conclusions, &thresholds, ended_early.as_ref());
        let caveats = caveats::of(&environment, &plan, &results, &trials);
        Report {
            schema: SCHEMA.to_owned(),
            generated_at,
            ended_early,
            verdict,
            environment,
            plan,
            caveats,
            thresholds,
            results,
            trials,
            simulation: None,
        }
    }
}

/// Relates the median response times of one number of users to those of the reference.
fn relate(results: &mut [&mut StrategyResult], plan: &Plan, trials: &[Trial]) {
    let Some(reference) = reference(results) else { return };
    let figures = |result: &StrategyResult| medians_by_block(trials, &result.strategy, result.users, plan);
    let base = results.iter().find(|result| result.strategy == reference).map(|result| figures(result));
    let Some(base) = base else { return };
    for result in results.iter_mut().filter(|result| result.is_comparable() && result.strategy != reference) {
        result.ratio_to_reference = stats::paired::ratio(&figures(result), &base, u64::from(plan.seed));
    }
    for result in results.iter_mut() {
        result.reference = Some(reference.clone());
    }
}

/// The usual reference, or else the first strategy that is safe and kept its promise.
fn reference(results: &[&mut StrategyResult]) -> Option<String> {
    let is_safe = |result: &&&mut StrategyResult| {
        matches!(result.promise, Promise::SafeWhileSessionLives | Promise::NeverOversells) && result.is_comparable()
    };
    let usual = results.iter().filter(is_safe).find(|result| result.strategy == REFERENCE);
    usual.or_else(|| results.iter().find(is_safe)).map(|result| result.strategy.clone())
}

/// Ranks by median response time those that may be ranked.
fn rank(results: &mut [&mut StrategyResult]) {
    let mut order: Vec<(f64, usize)> = results
        .iter()
        .enumerate()
        .filter(|(_, result)| result.is_comparable())
        .filter_map(|(index, result)| Some((result.p50_ms?.value, index)))
        .collect();
    order.sort_by(|a, b| a.0.total_cmp(&b.0));
    for (place, (_, index)) in order.into_iter().enumerate() {
        results[index].rank = Some(place + 1);
    }
}
