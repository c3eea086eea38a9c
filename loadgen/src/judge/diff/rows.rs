//! The figures of two sides, tested: two sides of runs, or two builds in one run.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use stats::joint::{self, SidesFigure};
use stats::{EQUIVALENT, Estimate, SIGNIFICANCE, figures as format, median, paired, unpaired};

use crate::judge::finding::Finding;
use crate::judge::metrics::{Better, Compared, METRICS, Metric, TrialsOfStrategy};
use crate::judge::result::StrategyResult;
use crate::lab::hazard::Hazard;
use crate::trial::record::Trial;
use crate::trial::schedule::{Subject, named};

/// Random divisions are drawn from a fixed seed, so that the same files always give the same answer.
const SEED: u64 = 1;

/// The measured blocks of a run.
#[derive(Debug, Clone)]
pub struct Run<'a> {
    results: &'a [StrategyResult],
    pub(crate) blocks: Vec<Vec<&'a Trial>>,
}

impl<'a> Run<'a> {
    /// Groups these trials by block.
    pub(crate) fn of(results: &'a [StrategyResult], trials: &'a [Trial]) -> Run<'a> {
        let measured = || trials.iter().filter(|trial| !trial.warm_up);
        let mut numbers: Vec<usize> = measured().map(|trial| trial.block).collect();
        numbers.sort_unstable();
        numbers.dedup();
        let block = |number| measured().filter(|trial| trial.block == number).collect();
        Run { results, blocks: numbers.into_iter().map(block).collect() }
    }

    /// Draws as many blocks as the first run has from the blocks of all these runs. `draw` draws a number below its argument.
    ///
    /// # Panics
    ///
    /// If there is no run.
    #[must_use]
    pub fn resampled(runs: &[Run<'a>], mut draw: impl FnMut(usize) -> usize) -> Run<'a> {
        let all: Vec<&Vec<&Trial>> = runs.iter().flat_map(|run| &run.blocks).collect();
        let blocks = runs[0].blocks.iter().map(|_| all[draw(all.len())].clone()).collect();
        Run { results: runs[0].results, blocks }
    }
}

/// The two sides of a comparison.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Sides<'a> {
    /// Old runs with new runs.
    Runs(&'a [Run<'a>], &'a [Run<'a>]),
    /// Two builds of one run, block by block.
    Builds(&'a Run<'a>, [&'a str; 2]),
}

impl<'a> Sides<'a> {
    /// Returns the runs of both sides.
    pub(crate) fn runs(self) -> [&'a [Run<'a>]; 2] {
        match self {
            Sides::Runs(old, new) => [old, new],
            Sides::Builds(run, _) => [std::slice::from_ref(run); 2],
        }
    }

    /// Returns the subject as it is called on each side.
    pub(crate) fn both(self, subject: &Subject) -> [Subject; 2] {
        match self {
            Sides::Runs(..) => [subject.clone(), subject.clone()],
            Sides::Builds(_, builds) => {
                builds.map(|build| Subject { build: Some(build.to_owned()), ..subject.clone() })
            }
        }
    }

    /// Returns the strategies and numbers of users that any run of the first side has, in order. Of two builds, they have no
    /// build.
    pub(crate) fn subjects(self) -> Vec<Subject> {
        let subjects = subjects(self.runs()[0]);
        match self {
            Sides::Runs(..) => subjects,
            Sides::Builds(_, [first, _]) => {
                let own = subjects.into_iter().filter(|subject| subject.build.as_deref() == Some(first));
                own.map(|subject| Subject { build: None, ..subject }).collect()
            }
        }
    }

    /// Returns the unit in which a figure is compared, if it is compared.
    fn unit(self, compared: Compared) -> Option<Unit> {
        match (self, compared) {
            (_, Compared::Never) => None,
            (Sides::Builds(..), _) => Some(Unit::Pair),
            (Sides::Runs(..), Compared::Exact) => Some(Unit::Block),
            (Sides::Runs(..), Compared::Times | Compared::Cost) => Some(Unit::Run),
        }
    }
}

/// Names the figures of the second side that are worse.
pub(crate) fn worse(sides: Sides<'_>) -> Vec<String> {
    let rows = compare(sides, METRICS);
    rows.iter().filter(|row| row.conclusion == Conclusion::Worse).map(|row| row.name(METRICS)).collect()
}

/// One figure of one strategy and number of users on both sides.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub(crate) struct Row {
    /// Name of the strategy.
    pub(crate) strategy: String,
    /// Number of users.
    pub(crate) users: u32,
    /// Name of the build, if each run measured two; absent if the two builds of one run are compared.
    pub(crate) build: Option<String>,
    /// The hazard that struck it, if each run had hazards.
    #[serde(default)]
    pub(crate) hazard: Option<Hazard>,
    /// Key of the figure, as in a report.
    pub(crate) figure: String,
    /// The unit that counts as one measurement.
    pub(crate) unit: Unit,
    /// Median over the units of the old side; absent if no unit has the figure.
    #[serde(with = "stats::reached::maybe")]
    #[schemars(with = "Option<stats::reached::Reached>")]
    pub(crate) old: Option<f64>,
    /// Median over the units of the new side; absent if no unit has the figure.
    #[serde(with = "stats::reached::maybe")]
    #[schemars(with = "Option<stats::reached::Reached>")]
    pub(crate) new: Option<f64>,
    /// New divided by old (Hodges-Lehmann), with its exact 95 % interval from four units per side or six pairs on. Absent if
    /// the figure of a unit is absent, zero or not reached.
    pub(crate) ratio: Option<Estimate>,
    /// Two-sided p, corrected for all figures of its kind. It is exact: it counts the divisions of the units into two sides,
    /// or the ways to swap pairs. Of more than 20 000, it draws 10 000.
    pub(crate) p: f64,
    /// The conclusion.
    pub(crate) conclusion: Conclusion,
}

/// The unit that counts as one measurement.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Unit {
    /// A run, because its blocks share the state of the machine.
    Run,
    /// A block of a run.
    Block,
    /// Two trials of one block, one of each build.
    Pair,
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

impl Unit {
    pub(crate) fn word(self) -> &'static str {
        match self {
            Unit::Run => "run",
            Unit::Block => "block",
            Unit::Pair => "pair",
        }
    }
}

/// A figure in every unit, before its test.
struct MeasuredFigure {
    subject: Subject,
    metric: &'static Metric,
    kind: Compared,
    unit: Unit,
    old: Vec<Option<f64>>,
    new: Vec<Option<f64>>,
}

impl Row {
    /// Finds the figure that is compared.
    pub(crate) fn metric<'a>(&self, metrics: &[&'a Metric]) -> Option<&'a Metric> {
        metrics.iter().copied().find(|metric| metric.key == self.figure)
    }

    /// Names the figure, the strategy and the users.
    pub(crate) fn name(&self, metrics: &[&Metric]) -> String {
        let name = self.metric(metrics).map_or_else(|| self.figure.clone(), Metric::name);
        format!("{name} of {} with {} users", self.named(), self.users)
    }

    /// Names the strategy, with its build or its hazard if each run had several.
    pub(crate) fn named(&self) -> String {
        named(&self.strategy, self.build.as_deref(), self.hazard)
    }

    /// Writes the ratio with its interval.
    pub(crate) fn ratio(&self) -> String {
        self.ratio.as_ref().map_or_else(|| format::ABSENT.to_owned(), format::estimate)
    }
}

impl Conclusion {
    pub(crate) fn word(self) -> &'static str {
        match self {
            Conclusion::Worse => "worse",
            Conclusion::Better => "better",
            Conclusion::Same => "no difference seen",
            Conclusion::CannotTell => "cannot tell",
        }
    }

    /// Returns the conclusion as a word or a sign, for a narrow column.
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
pub(crate) fn compare(sides: Sides<'_>, metrics: &[&'static Metric]) -> Vec<Row> {
    let mut measured = Vec::new();
    for subject in sides.subjects() {
        let [old, new] = sides.runs();
        let [of_old, of_new] = sides.both(&subject);
        let (Some(was), Some(now)) = (Standing::of(old, &of_old), Standing::of(new, &of_new)) else { continue };
        for &metric in metrics {
            // A cost that varies within the old side depends on the machine, like a time.
            let kind = match metric.compared {
                Compared::Cost if varies(&figures(metric, &of_old, Unit::Block, old)) => Compared::Times,
                Compared::Cost => Compared::Exact,
                kind => kind,
            };
            let is_compared = match (kind, metric.better) {
                (Compared::Exact, Better::Zero) => was.finding == Finding::Broken,
                (Compared::Exact, _) => true,
                _ => was.has_times() && now.has_times(),
            };
            let Some(unit) = sides.unit(kind).filter(|_| is_compared) else { continue };
            let old = figures(metric, &of_old, unit, old);
            let new = figures(metric, &of_new, unit, new);
            if old.iter().chain(&new).any(Option::is_some) {
                measured.push(MeasuredFigure { subject: subject.clone(), metric, kind, unit, old, new });
            }
        }
    }
    [Compared::Exact, Compared::Times].into_iter().flat_map(|kind| rows(&measured, kind)).collect()
}

/// Tells whether the trials of a side differ in a figure by more than the equivalence margin.
fn varies(figures: &[Option<f64>]) -> bool {
    let known = || figures.iter().flatten().copied();
    let [least, most] = [known().reduce(f64::min), known().reduce(f64::max)];
    least.zip(most).is_some_and(|(least, most)| most > (1.0 + EQUIVALENT) * least)
}

/// Returns the figure of every unit of a side.
fn figures(metric: &Metric, subject: &Subject, unit: Unit, runs: &[Run<'_>]) -> Vec<Option<f64>> {
    let of_run = |run: &Run<'_>| {
        let all: Vec<&Trial> = run.blocks.iter().filter_map(|block| trial(block, subject)).collect();
        metric.over(&TrialsOfStrategy { all }).map(|estimate| estimate.value)
    };
    let of_block = |block: &Vec<&Trial>| metric.of_trial(trial(block, subject)?);
    match unit {
        Unit::Run => runs.iter().map(of_run).collect(),
        Unit::Block | Unit::Pair => runs.iter().flat_map(|run| &run.blocks).map(of_block).collect(),
    }
}

/// Finds the trial of a strategy in a block.
fn trial<'a>(block: &[&'a Trial], subject: &Subject) -> Option<&'a Trial> {
    block.iter().copied().find(|trial| trial.is_of(subject))
}

/// The state of one strategy in the runs of a side.
pub(crate) struct Standing {
    pub(crate) finding: Finding,
    is_comparable: bool,
    /// Whether the load generator was the bottleneck in a run.
    is_limited: bool,
    /// Whether it is a control that sold wrongly, as expected.
    pub(crate) is_control: bool,
}

impl Standing {
    /// Returns the state of a strategy. `None` if no run has it.
    pub(crate) fn of(runs: &[Run<'_>], subject: &Subject) -> Option<Standing> {
        let results: Vec<&StrategyResult> = runs.iter().filter_map(|run| run.result(subject)).collect();
        let found = |finding: Finding| results.iter().find(|result| result.finding == finding);
        let gravest = found(Finding::Broken).or_else(|| results.iter().find(|result| result.finding != Finding::Kept));
        let finding = gravest.or(results.first())?.finding;
        let is_comparable = results.iter().all(|result| result.is_comparable);
        let is_limited = results.iter().any(|result| result.is_client_limited());
        let is_control = finding == Finding::Kept && !is_comparable;
        Some(Standing { finding, is_comparable, is_limited, is_control })
    }

    /// Tells whether its times say something about it.
    pub(crate) fn has_times(&self) -> bool {
        self.is_comparable && !self.is_limited
    }
}

/// Returns the strategies and numbers of users that any of the runs has, in order.
pub(crate) fn subjects(runs: &[Run<'_>]) -> Vec<Subject> {
    let mut subjects = Vec::new();
    for result in runs.iter().flat_map(|run| run.results).filter(|result| result.trials > 0) {
        let subject = result.subject();
        if !subjects.contains(&subject) {
            subjects.push(subject);
        }
    }
    subjects
}

impl Run<'_> {
    /// Returns the result of a strategy, if a trial of it was run.
    pub(crate) fn result(&self, subject: &Subject) -> Option<&StrategyResult> {
        self.results.iter().filter(|result| result.trials > 0).find(|result| result.subject() == *subject)
    }
}

/// Tests all figures of one kind together.
fn rows(measured: &[MeasuredFigure], kind: Compared) -> Vec<Row> {
    let measured: Vec<&MeasuredFigure> = measured.iter().filter(|measured| measured.kind == kind).collect();
    let figures: Vec<SidesFigure> = measured.iter().map(|measured| measured.scaled()).collect();
    let are_pairs = measured.first().is_some_and(|measured| measured.unit == Unit::Pair);
    let tested = if are_pairs { joint::test_pairs(&figures, SEED) } else { joint::test(&figures, SEED) };
    measured.into_iter().zip(tested).map(|(measured, tested)| measured.row(tested)).collect()
}

impl MeasuredFigure {
    /// Puts the figure on the scale of its test: logarithms, if no unit has zero. A figure that was not reached counts as
    /// twice the largest.
    fn scaled(&self) -> SidesFigure {
        let values = || self.new.iter().chain(&self.old).flatten().copied();
        let is_positive = values().all(|value| value > 0.0);
        let not_reached = 2.0 * values().filter(|value| value.is_finite()).fold(0.5, f64::max);
        let scaled = |value: f64| {
            let value = if value.is_finite() { value } else { not_reached };
            if is_positive { value.ln() } else { value.abs() }
        };
        let scale = |values: &[Option<f64>]| values.iter().map(|value| value.map(scaled)).collect();
        SidesFigure { first: scale(&self.new), second: scale(&self.old) }
    }

    fn row(&self, joint::Tested { p, first_is_larger }: joint::Tested) -> Row {
        let [new, old] = [&self.new, &self.old].map(|values| values.iter().copied().flatten().collect::<Vec<f64>>());
        let (ratio, p_min) = if self.unit == Unit::Pair {
            let both = self.new.iter().zip(&self.old).filter(|(new, old)| new.is_some() && old.is_some()).count();
            (self.ratio_of_pairs(), joint::p_min_of_pairs(both))
        } else {
            (unpaired::ratio(&new, &old), joint::p_min(new.len(), old.len()))
        };
        // With many units, even a difference too small to act upon is significant.
        let is_within = |end: f64| (end - 1.0).abs() < EQUIVALENT;
        let is_equivalent =
            ratio.is_some_and(|ratio| ratio.low.is_some_and(is_within) && ratio.high.is_some_and(is_within));
        let conclusion = if p_min >= SIGNIFICANCE {
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
            build: self.subject.build.clone(),
            hazard: self.subject.hazard,
            figure: self.metric.key.to_owned(),
            unit: self.unit,
            old: median(&old),
            new: median(&new),
            ratio,
            p,
            conclusion,
        }
    }

    /// Returns the ratio within pairs. `None` if a unit has zero, because a ratio of the others would hide it.
    fn ratio_of_pairs(&self) -> Option<Estimate> {
        let is_positive = self.new.iter().chain(&self.old).flatten().all(|value| *value > 0.0);
        let ratio = paired::ratio(&self.new, &self.old).filter(|_| is_positive)?;
        Some(Estimate { value: ratio.estimate, low: ratio.low, high: ratio.high })
    }
}
