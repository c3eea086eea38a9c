//! The report: what was compared, the conditions, and the results. The types are the format: the JSON schema of
//! `report.json` and all other outputs are made from them. `docs/reports.md` explains how to read it.

pub(crate) mod audit;
pub(crate) mod capacity;
pub(crate) mod caveats;
pub mod diff;
pub(crate) mod files;
pub(crate) mod glossary;
pub(crate) mod html;
pub mod json;
pub(crate) mod markdown;
mod table;
pub(crate) mod terminal;
pub(crate) mod torture;

#[cfg(test)]
pub(crate) mod fixture;
#[cfg(test)]
pub(crate) mod shop_fixture;
#[cfg(test)]
mod tests;

use crate::trial::record::Reproduction;
pub use crate::trial::record::Trial;

use schemars::JsonSchema;
use serde::Serialize;
use simulation::Simulation;

use crate::judge::diff::Diff;
use crate::judge::headline::Headline;
use crate::judge::metrics::{Metric, metrics_of};
use crate::judge::result::StrategyResult;
use crate::judge::summary;
use crate::judge::thresholds::{Threshold, ThresholdResult};
use crate::judge::verdict::{EndedEarly, Verdict};
use crate::lab::environment::Environment;
use crate::lab::strategy::Strategy;
use crate::trial::schedule::Schedule;

/// Version of the JSON schema; it changes if a field is removed or changes its meaning.
pub(crate) const SCHEMA: &str = "seckill-report/6";

/// A comparison of ways to sell the stock of a flash sale.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub struct Report {
    /// `seckill-report/6`. The name stays if fields are added, and changes if a field is removed or changes its meaning.
    pub(crate) schema: String,
    /// When the comparison ended, in UTC (RFC 3339).
    pub(crate) generated_at: String,
    /// Why it ended before every trial was run; absent if all were run. An unfinished trial is left out.
    pub(crate) ended_early: Option<EndedEarly>,
    /// The conclusion.
    pub(crate) verdict: Verdict,
    /// The machine and the servers.
    pub(crate) environment: Environment,
    /// The settings.
    #[serde(rename = "plan")]
    pub(crate) schedule: Schedule,
    /// Limits of the figures.
    pub caveats: Vec<String>,
    /// Results of the thresholds.
    pub(crate) thresholds: Vec<ThresholdResult>,
    /// One entry for each strategy and number of users, in the service's order, and for each build if two were compared.
    pub(crate) results: Vec<StrategyResult>,
    /// The second build against the first one, if two were compared.
    pub(crate) builds: Option<Diff>,
    /// Every trial that was run to its end, in order.
    pub trials: Vec<Trial>,
    /// The fewest buyers that made a shop sell wrongly, if shops that files describe were checked and one did.
    pub(crate) reproductions: Vec<Reproduction>,
    /// Why a shop that sold wrongly has no reproduction although one was sought, one line each.
    pub(crate) unreproduced: Vec<String>,
    /// What `loadgen simulate` predicts for more waiters, if it was added.
    pub(crate) simulation: Option<Simulation>,
}

/// The content of a report before its conclusions.
#[derive(Debug)]
pub(crate) struct Findings {
    pub(crate) generated_at: String,
    pub(crate) ended_early: Option<EndedEarly>,
    pub(crate) environment: Environment,
    pub(crate) schedule: Schedule,
    pub(crate) strategies: Vec<Strategy>,
    pub(crate) thresholds: Vec<Threshold>,
    pub(crate) trials: Vec<Trial>,
}

impl Report {
    /// Returns the figures that it can have.
    pub(crate) fn metrics(&self) -> Vec<&'static Metric> {
        metrics_of(self.is_of_lab())
    }

    /// Tells whether it is about the service of the lab, and not about shops that files describe.
    pub(crate) fn is_of_lab(&self) -> bool {
        !self.schedule.is_of_shops()
    }

    /// Returns those of these figures that it can have and shows.
    pub(crate) fn shown<'a>(&self, metrics: &[&'a Metric]) -> Vec<&'a Metric> {
        let can_have = |metric: &&Metric| self.is_of_lab() || metric.is_of_any_shop();
        metrics.iter().copied().filter(|metric| can_have(metric) && (metric.is_shown)(&self.schedule)).collect()
    }

    /// Returns the title of a report of shops that files describe.
    pub(crate) fn title_of_shops(&self) -> String {
        match self.schedule.shops.as_slice() {
            [one] => format!("Check of {}", one.name),
            [one, other] => format!("Check: {} against {}", one.name, other.name),
            many => format!("Check: {} shops compared", many.len()),
        }
    }

    /// Draws the conclusions, by the figures that such a report can have.
    pub(crate) fn of(findings: Findings) -> Report {
        let metrics = metrics_of(!findings.schedule.is_of_shops());
        Report::by(findings, &metrics)
    }

    /// Draws the conclusions, by the figures of this table.
    pub(crate) fn by(findings: Findings, metrics: &[&'static Metric]) -> Report {
        let Findings { generated_at, ended_early, environment, schedule, strategies, thresholds, trials } = findings;
        let results = summary::results_of(&schedule, &strategies, &trials, metrics);
        let thresholds: Vec<ThresholdResult> =
            thresholds.iter().flat_map(|threshold| threshold.check(&results, schedule.instances)).collect();
        let builds = Diff::of_builds((&schedule, &environment, &generated_at), &results, &trials, metrics);
        let headline = Headline::of(&schedule, &results, &trials, builds.as_ref());
        let verdict = Verdict::of(headline, &schedule, &results, &thresholds, builds.as_ref(), ended_early.as_ref());
        let caveats = caveats::of(&environment, &schedule, &results, &trials);
        Report {
            schema: SCHEMA.to_owned(),
            generated_at,
            ended_early,
            verdict,
            environment,
            schedule,
            caveats,
            thresholds,
            results,
            builds,
            trials,
            reproductions: Vec::new(),
            unreproduced: Vec::new(),
            simulation: None,
        }
    }
}
