//! The `diff` command: whether new runs are worse than old ones.
//!
//! A side has one or more runs of the same code. Two kinds of figures are tested, each kind as one family
//! ([`stats::joint`]):
//!
//! * **Times** depend on the weather of a run: what else the machine does, and how warm it is. All blocks of a run share it.
//!   So the run is the unit. One run a side says nothing about them, and four are the fewest that can.
//! * **Exact** figures are counts, which depend on what the strategy does. The block is the unit, so one run a side is
//!   enough.
//!
//! A figure is worse if its corrected p is below 5 %, and its interval is not within 5 % of one. So of 100 comparisons of
//! the same code, at most about five have any time that is called worse or better, and as many any count. A strategy that
//! kept its promise and no longer does has regressed.

pub(crate) mod rows;
mod settings;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use stats::{SIGNIFICANCE, joint};

use crate::error::{Error, Exit};
use crate::judge::finding::{Finding, count_of};
use crate::judge::metrics::{Compared, Metric};
use crate::judge::result::StrategyResult;
use crate::report::Report;
use crate::report::diff::rows::{Conclusion, Row, Standing, subjects};
use crate::trial::plan::Subject;

pub use self::rows::{Run, worse};

/// Name of the format of [`Diff`] as JSON.
pub(crate) const SCHEMA: &str = "seckill-diff/1";

/// The comparison of new runs with old ones.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
pub(crate) struct Diff {
    /// `seckill-diff/1`. Fields may be added under the same name; one that goes or changes its meaning changes the name.
    pub(crate) schema: String,
    /// What the program exits with.
    pub(crate) exit_code: u8,
    /// Why it exits so, the gravest reason first.
    pub(crate) reasons: Vec<String>,
    /// The old side.
    pub(crate) old: Side,
    /// The new side.
    pub(crate) new: Side,
    /// Every figure that was compared.
    pub(crate) rows: Vec<Row>,
    /// What makes the figures hard to compare.
    pub(crate) caveats: Vec<String>,
}

/// One side of a comparison.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
pub(crate) struct Side {
    /// Number of runs.
    pub(crate) runs: usize,
    /// Measured blocks of all runs.
    pub(crate) blocks: usize,
    /// The code that was measured.
    pub(crate) code: String,
    /// When each run ended, in UTC (RFC 3339).
    pub(crate) generated_at: Vec<String>,
}

impl Diff {
    /// Compares runs.
    ///
    /// # Errors
    ///
    /// [`Error::Usage`] if nothing can be compared, a run is given twice, or if the settings differ without `anyway`.
    pub(crate) fn of(old: &[Report], new: &[Report], anyway: bool, metrics: &[&'static Metric]) -> Result<Diff, Error> {
        let differing = settings::differences_of_sides(old, new)?;
        if !differing.is_empty() && !anyway {
            return Err(Error::Usage(format!(
                "the runs cannot be compared like with like: {}; compare them all the same with --anyway",
                differing.join("; ")
            )));
        }
        let mut gravest = Vec::new();
        let mut caveats = [differing, settings::environment_differences(&old[0], &new[0])].concat();
        let mut have_in_common = false;
        for subject in subjects(old) {
            let named = format!("{} with {} users", subject.strategy, subject.users);
            let (was, now) = (Standing::of(old, &subject), Standing::of(new, &subject));
            let (Some(was), Some(now)) = (was, now) else {
                gravest.push(format!("{named} is in the old runs only"));
                continue;
            };
            have_in_common = true;
            gravest.extend(worse_sold(&was, &now).map(|how| format!("{named} {how}")));
            for (side, runs) in [("old", old), ("new", new)] {
                caveats.extend(runs.iter().flat_map(|run| of_some_trials(side, run, &subject, metrics)));
            }
            if !(was.is_comparable && now.is_comparable || was.is_control && now.is_control) {
                let why =
                    "sold wrongly, did not exclude, or was not decided on one of the sides: its times are not compared";
                caveats.push(format!("{named} {why}"));
            }
        }
        if !have_in_common {
            return Err(Error::Usage("the runs have no strategy with the same number of users in common".to_owned()));
        }
        for subject in subjects(new).into_iter().filter(|subject| Standing::of(old, subject).is_none()) {
            caveats.push(format!("{} with {} users is in the new runs only", subject.strategy, subject.users));
        }
        let [of_old, of_new] = [old, new].map(|reports| reports.iter().map(Run::of).collect::<Vec<_>>());
        let rows = rows::compare(&of_old, &of_new, metrics);
        let (exit, reasons) = verdict(gravest, &rows, (old.len(), new.len()), metrics);
        Ok(Diff {
            schema: SCHEMA.to_owned(),
            exit_code: exit.code(),
            reasons,
            old: Side::of(&of_old),
            new: Side::of(&of_new),
            rows,
            caveats,
        })
    }
}

impl Side {
    fn of(runs: &[Run<'_>]) -> Side {
        Side {
            runs: runs.len(),
            blocks: runs.iter().map(|run| run.blocks.len()).sum(),
            code: runs[0].report.environment.code(),
            generated_at: runs.iter().map(|run| run.report.generated_at.clone()).collect(),
        }
    }

    /// The side in a line.
    pub(crate) fn described(&self) -> String {
        let (runs, blocks) = (count_of(self.runs as u64, "run"), count_of(self.blocks as u64, "block"));
        format!("{runs} with {blocks}, of {}", self.code)
    }
}

/// The compared figures that only some trials of a run have.
fn of_some_trials(side: &str, run: &Report, of: &Subject, metrics: &[&Metric]) -> Vec<String> {
    let is_it = |result: &&StrategyResult| result.strategy == of.strategy && result.users == of.users;
    let Some(result) = run.results.iter().find(is_it) else { return Vec::new() };
    let compared = metrics.iter().filter(|metric| metric.compared != Compared::Never);
    let parts = compared.filter_map(|metric| Some((metric.key, result.partial.get(metric.key)?)));
    let described = |(key, part)| {
        format!("{key} of {} with {} users is of {part} in a run of the {side} side", of.strategy, of.users)
    };
    parts.map(described).collect()
}

/// How a strategy sells worse than it did, if it does.
fn worse_sold(was: &Standing, now: &Standing) -> Option<&'static str> {
    match (was.finding, now.finding) {
        (Finding::Broken, _) => None,
        (_, Finding::Broken) => Some("breaks its promise, which it did not before"),
        (Finding::Kept, Finding::Inconclusive) => {
            Some("kept its promise before, and left units as too many buyers were refused or failed")
        }
        (Finding::Kept, Finding::Dropped) => {
            Some("kept its promise before, and no longer let enough buyers in: too many arrivals were dropped")
        }
        (Finding::Kept, Finding::Failing) => Some("kept its promise before, and now too many requests fail"),
        (Finding::Kept, Finding::Unchecked) => Some("kept its promise before, and now not everything was checked"),
        (Finding::Kept, Finding::LoadTooWeak) => {
            Some("kept its promise before, and now the load was too weak to prove anything")
        }
        _ => None,
    }
}

/// The exit and its reasons, the gravest first.
fn verdict(mut reasons: Vec<String>, rows: &[Row], runs: (usize, usize), metrics: &[&Metric]) -> (Exit, Vec<String>) {
    let with = |conclusion| rows.iter().filter(move |row| row.conclusion == conclusion);
    let worse: Vec<String> = with(Conclusion::Worse).map(|row| row.name(metrics)).collect();
    if !worse.is_empty() {
        reasons.push(format!("worse: {}", worse.join(", ")));
    }
    let untold = with(Conclusion::CannotTell).count();
    let mut exit = if reasons.is_empty() { Exit::Passed } else { Exit::Failed };
    if exit == Exit::Passed && untold == rows.len() {
        exit = Exit::Failed;
        reasons.push("no figure could be judged".to_owned());
    } else if exit == Exit::Passed {
        reasons.push(format!("no figure of the {} that could be judged is worse", rows.len() - untold));
    }
    if runs == (1, 1) {
        reasons.push("times: cannot tell from one run each; give at least four runs a side".to_owned());
    } else if joint::p_min(runs.0, runs.1) >= SIGNIFICANCE {
        reasons.push(format!("times: cannot tell from {} and {} runs; give at least four a side", runs.0, runs.1));
    }
    (exit, reasons)
}

#[cfg(test)]
mod tests;
