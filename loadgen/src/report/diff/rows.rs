//! The figures of two sides of runs, tested.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use stats::joint::{self, Figure};
use stats::{EQUIVALENT, Estimate, SIGNIFICANCE, figures as format, median, unpaired};

use crate::judge::finding::Finding;
use crate::judge::metrics::{Better, Compared, METRICS, Metric, Trials};
use crate::judge::result::StrategyResult;
use crate::report::{Report, Trial};
use crate::trial::plan::Subject;

/// Random divisions are drawn from a fixed seed, so that the same files always give the same answer.
const SEED: u64 = 1;

/// A run, as its blocks that count.
#[derive(Debug, Clone)]
pub struct Run<'a> {
    pub(super) report: &'a Report,
    pub(super) blocks: Vec<Vec<&'a Trial>>,
}

impl<'a> Run<'a> {
    /// The run that a report tells of.
    #[must_use]
    pub fn of(report: &'a Report) -> Run<'a> {
        let measured = || report.trials.iter().filter(|trial| !trial.warm_up);
        let mut numbers: Vec<usize> = measured().map(|trial| trial.block).collect();
        numbers.sort_unstable();
        numbers.dedup();
        let block = |number| measured().filter(|trial| trial.block == number).collect();
        Run { report, blocks: numbers.into_iter().map(block).collect() }
    }

    /// The run with as many of its blocks, each drawn by this function from their number.
    #[must_use]
    pub fn resampled(&self, mut draw: impl FnMut(usize) -> usize) -> Run<'a> {
        let blocks = self.blocks.iter().map(|_| self.blocks[draw(self.blocks.len())].clone()).collect();
        Run { report: self.report, blocks }
    }
}

/// Names the figures of the new runs that are worse than those of the old runs.
#[must_use]
pub fn worse(old: &[Run<'_>], new: &[Run<'_>]) -> Vec<String> {
    let rows = compare(old, new, METRICS);
    rows.iter().filter(|row| row.conclusion == Conclusion::Worse).map(|row| row.name(METRICS)).collect()
}

/// One figure of one strategy and number of users on both sides.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
pub(crate) struct Row {
    /// Name of the strategy.
    pub(crate) strategy: String,
    /// Number of users.
    pub(crate) users: u32,
    /// Key of the figure, as in a report.
    pub(crate) figure: String,
    /// What is counted as one measurement of it.
    pub(crate) unit: Unit,
    /// Median over the units of the old side; absent if none has the figure.
    #[serde(with = "stats::reached::maybe")]
    #[schemars(with = "Option<stats::reached::Reached>")]
    pub(crate) old: Option<f64>,
    /// Median over the units of the new side; absent if none has the figure.
    #[serde(with = "stats::reached::maybe")]
    #[schemars(with = "Option<stats::reached::Reached>")]
    pub(crate) new: Option<f64>,
    /// New divided by old (Hodges-Lehmann), with its exact 95 % interval from four units a side on; absent if a unit has
    /// none or zero, or did not reach it.
    pub(crate) ratio: Option<Estimate>,
    /// Two-sided p, corrected for all figures of its kind. It is exact: it counts the divisions of the units into two
    /// sides, or 10 000 of them where there are more than 20 000.
    pub(crate) p: f64,
    /// The conclusion.
    pub(crate) conclusion: Conclusion,
}

/// What is counted as one measurement.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Unit {
    /// A run, as its blocks share its weather.
    Run,
    /// A block of a run.
    Block,
}

/// The conclusion about one figure.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Conclusion {
    /// Worse for certain.
    Worse,
    /// Better for certain.
    Better,
    /// No significant difference, or one within 5 %. Written `~`.
    Same,
    /// Too few units for any difference to be significant, or one side lacks the figure. Written `?`.
    CannotTell,
}

/// A figure in every unit, before its test.
struct Measured {
    subject: Subject,
    metric: &'static Metric,
    old: Vec<Option<f64>>,
    new: Vec<Option<f64>>,
}

impl Row {
    /// The figure that is compared.
    pub(crate) fn metric<'a>(&self, metrics: &[&'a Metric]) -> Option<&'a Metric> {
        metrics.iter().copied().find(|metric| metric.key == self.figure)
    }

    /// The figure, the strategy and the users in words.
    pub(crate) fn name(&self, metrics: &[&Metric]) -> String {
        let name = self.metric(metrics).map_or_else(|| self.figure.clone(), Metric::name);
        format!("{name} of {} with {} users", self.strategy, self.users)
    }

    /// The ratio with its interval in words.
    pub(crate) fn ratio(&self) -> String {
        self.ratio.as_ref().map_or_else(|| format::ABSENT.to_owned(), format::estimate)
    }
}

impl Conclusion {
    /// A word or a sign.
    pub(crate) fn sign(self) -> &'static str {
        match self {
            Conclusion::Worse => "WORSE",
            Conclusion::Better => "better",
            Conclusion::Same => "~",
            Conclusion::CannotTell => "?",
        }
    }
}

/// Compares every figure of the strategies that both sides have.
pub(super) fn compare(old: &[Run<'_>], new: &[Run<'_>], metrics: &[&'static Metric]) -> Vec<Row> {
    let [was, now] = [old, new].map(|runs| runs.iter().map(|run| run.report).collect::<Vec<_>>());
    let mut measured = Vec::new();
    for subject in subjects(was.iter().copied()) {
        let standings = (Standing::of(was.iter().copied(), &subject), Standing::of(now.iter().copied(), &subject));
        let (Some(was), Some(now)) = standings else { continue };
        let is_compared = |metric: &Metric| match (metric.compared, metric.better) {
            (Compared::Exact, Better::Zero) => was.finding == Finding::Broken,
            (Compared::Exact, _) => true,
            _ => was.is_comparable && now.is_comparable,
        };
        for metric in metrics.iter().filter(|metric| is_compared(metric)) {
            let Some(unit) = unit(metric) else { continue };
            let [old, new] = [old, new].map(|runs| figures(metric, &subject, unit, runs));
            if old.iter().chain(&new).any(Option::is_some) {
                measured.push(Measured { subject: subject.clone(), metric, old, new });
            }
        }
    }
    [Unit::Block, Unit::Run].into_iter().flat_map(|unit| rows(&measured, unit)).collect()
}

/// The figure of every unit of a side.
fn figures(metric: &Metric, subject: &Subject, unit: Unit, runs: &[Run<'_>]) -> Vec<Option<f64>> {
    let of_run = |run: &Run<'_>| {
        let all: Vec<&Trial> = run.blocks.iter().filter_map(|block| trial(block, subject)).collect();
        metric.over(&Trials { all }).map(|estimate| estimate.value)
    };
    let of_block = |block: &Vec<&Trial>| metric.of_trial(trial(block, subject)?);
    match unit {
        Unit::Run => runs.iter().map(of_run).collect(),
        Unit::Block => runs.iter().flat_map(|run| &run.blocks).map(of_block).collect(),
    }
}

/// The trial of a strategy in a block.
fn trial<'a>(block: &[&'a Trial], subject: &Subject) -> Option<&'a Trial> {
    block.iter().copied().find(|trial| trial.strategy == subject.strategy && trial.users == subject.users)
}

/// What the runs of a side say about one strategy.
pub(super) struct Standing {
    pub(super) finding: Finding,
    pub(super) is_comparable: bool,
    /// Whether it sold wrongly, as it has to.
    pub(super) is_control: bool,
}

impl Standing {
    /// `None` if no run has the strategy.
    pub(super) fn of<'a>(reports: impl IntoIterator<Item = &'a Report>, subject: &Subject) -> Option<Standing> {
        let results: Vec<&StrategyResult> = reports.into_iter().filter_map(|report| result(report, subject)).collect();
        let found = |finding: Finding| results.iter().find(|result| result.finding == finding);
        let gravest = found(Finding::Broken).or_else(|| results.iter().find(|result| result.finding != Finding::Kept));
        let finding = gravest.or(results.first())?.finding;
        let is_comparable = results.iter().all(|result| result.is_comparable);
        Some(Standing { finding, is_comparable, is_control: finding == Finding::Kept && !is_comparable })
    }
}

/// The strategies and numbers of users that any of the runs has, in order.
pub(super) fn subjects<'a>(reports: impl IntoIterator<Item = &'a Report>) -> Vec<Subject> {
    let mut subjects = Vec::new();
    for result in reports.into_iter().flat_map(|report| &report.results).filter(|result| result.trials > 0) {
        let subject = Subject { strategy: result.strategy.clone(), users: result.users };
        if !subjects.contains(&subject) {
            subjects.push(subject);
        }
    }
    subjects
}

fn result<'a>(report: &'a Report, subject: &Subject) -> Option<&'a StrategyResult> {
    let is_it = |result: &&StrategyResult| result.strategy == subject.strategy && result.users == subject.users;
    report.results.iter().filter(|result| result.trials > 0).find(is_it)
}

/// The unit of a figure that is compared.
fn unit(metric: &Metric) -> Option<Unit> {
    match metric.compared {
        Compared::Never => None,
        Compared::Exact => Some(Unit::Block),
        Compared::Times => Some(Unit::Run),
    }
}

/// Tests all figures of one kind together.
fn rows(measured: &[Measured], of_unit: Unit) -> Vec<Row> {
    let measured: Vec<&Measured> = measured.iter().filter(|measured| unit(measured.metric) == Some(of_unit)).collect();
    let figures: Vec<Figure> = measured.iter().map(|measured| measured.scaled()).collect();
    let tested = joint::test(&figures, SEED);
    measured.into_iter().zip(tested).map(|(measured, tested)| measured.row(of_unit, tested)).collect()
}

impl Measured {
    /// The figure on the scale of its test: logarithms, if no unit has zero. What was not reached is twice the largest.
    fn scaled(&self) -> Figure {
        let values = || self.new.iter().chain(&self.old).flatten().copied();
        let is_positive = values().all(|value| value > 0.0);
        let not_reached = 2.0 * values().filter(|value| value.is_finite()).fold(0.5, f64::max);
        let scaled = |value: f64| {
            let value = if value.is_finite() { value } else { not_reached };
            if is_positive { value.ln() } else { value.abs() }
        };
        let scale = |values: &[Option<f64>]| values.iter().map(|value| value.map(scaled)).collect();
        Figure { first: scale(&self.new), second: scale(&self.old) }
    }

    fn row(&self, unit: Unit, joint::Tested { p, first_is_larger }: joint::Tested) -> Row {
        let [new, old] = [&self.new, &self.old].map(|values| values.iter().copied().flatten().collect::<Vec<f64>>());
        let ratio = unpaired::ratio(&new, &old);
        let is_within = |end: f64| (end - 1.0).abs() < EQUIVALENT;
        let is_equivalent =
            ratio.is_some_and(|ratio| ratio.low.is_some_and(is_within) && ratio.high.is_some_and(is_within));
        let conclusion = if joint::p_min(new.len(), old.len()) >= SIGNIFICANCE {
            Conclusion::CannotTell
        } else if p >= SIGNIFICANCE || is_equivalent {
            Conclusion::Same
        } else if first_is_larger == (self.metric.better == Better::Higher) {
            Conclusion::Better
        } else {
            Conclusion::Worse
        };
        Row {
            strategy: self.subject.strategy.clone(),
            users: self.subject.users,
            figure: self.metric.key.to_owned(),
            unit,
            old: median(&old),
            new: median(&new),
            ratio,
            p,
            conclusion,
        }
    }
}
