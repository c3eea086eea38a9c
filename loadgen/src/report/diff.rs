//! The `diff` command: whether new runs are worse than old ones.
//!
//! A side has one or more runs of the same code. Module `judge::diff` explains how their figures are compared.

mod settings;

use stats::{SIGNIFICANCE, joint};

use crate::error::Error;
use crate::judge::diff::rows::{self, Sides, Standing, subjects};
use crate::judge::diff::{Diff, SCHEMA, Side, conclude, untimed};
use crate::judge::finding::Finding;
use crate::judge::metrics::{Compared, Metric};
use crate::report::Report;
use crate::report::table::at_addresses;
use crate::trial::schedule::Subject;

pub use crate::judge::diff::rows::Run;

/// Returns the run that a report tells of.
#[must_use]
pub fn run(report: &Report) -> Run<'_> {
    Run::of(&report.results, &report.trials)
}

/// Names the figures of the new runs that are worse than those of the old runs.
#[must_use]
pub fn worse(old: &[Run<'_>], new: &[Run<'_>]) -> Vec<String> {
    rows::worse(Sides::Runs(old, new))
}

/// Names the figures of the second build that are worse than those of the first one.
#[must_use]
pub fn worse_build(run: &Run<'_>, builds: [&str; 2]) -> Vec<String> {
    rows::worse(Sides::Builds(run, builds))
}

impl Diff {
    /// Compares runs.
    pub(crate) fn of(old: &[Report], new: &[Report], anyway: bool, metrics: &[&'static Metric]) -> Result<Diff, Error> {
        let differing = settings::differences_of_sides(old, new)?;
        if !differing.is_empty() && !anyway {
            return Err(Error::Usage(format!(
                "the runs cannot be compared: {}; compare them nevertheless with --anyway",
                differing.join("; ")
            )));
        }
        let kind = new[0].schedule.kind();
        let [of_old, of_new] = [old, new].map(|reports| reports.iter().map(run).collect::<Vec<_>>());
        let mut gravest = Vec::new();
        let mut caveats = [differing, settings::environment_differences(&old[0], &new[0])].concat();
        let mut have_in_common = false;
        for subject in subjects(&of_old) {
            let named = subject.described();
            let was = Standing::of(&of_old, &subject);
            let now = Standing::of(&of_new, &subject);
            let (Some(was), Some(now)) = (was, now) else {
                gravest.push(format!("{named} is in the old runs only"));
                continue;
            };
            have_in_common = true;
            gravest.extend(worse_sold(&was, &now).map(|how| format!("{named} {how}")));
            for (side, runs) in [("old", &of_old), ("new", &of_new)] {
                caveats.extend(runs.iter().flat_map(|run| of_some_trials(side, run, &subject, metrics)));
            }
        }
        if !have_in_common {
            return Err(Error::Usage(format!(
                "the runs have no {} with the same number of users in common",
                kind.nouns().one
            )));
        }
        caveats.extend(evidence_differs(&of_old, &of_new));
        caveats.extend(untimed(Sides::Runs(&of_old, &of_new), kind));
        for subject in subjects(&of_new).into_iter().filter(|subject| Standing::of(&of_old, subject).is_none()) {
            caveats.push(format!("{} is in the new runs only", subject.described()));
        }
        let rows = rows::compare(Sides::Runs(&of_old, &of_new), metrics);
        let (exit, mut reasons) = conclude(gravest, &rows, metrics);
        reasons.extend(too_few(old.len(), new.len()));
        Ok(Diff {
            schema: SCHEMA.to_owned(),
            subject: kind,
            exit_code: exit.code(),
            reasons,
            old: side("old", old, &of_old),
            new: side("new", new, &of_new),
            rows,
            caveats,
        })
    }
}

fn side(name: &str, reports: &[Report], runs: &[Run<'_>]) -> Side {
    Side {
        name: name.to_owned(),
        runs: runs.len(),
        blocks: runs.iter().map(|run| run.blocks.len()).sum(),
        code: code(&reports[0]),
        generated_at: reports.iter().map(|report| report.generated_at.clone()).collect(),
    }
}

/// Names the code that was measured, or the shops with their addresses if files describe them.
fn code(report: &Report) -> String {
    if report.is_of_lab() {
        return report.environment.code();
    }
    report.schedule.shops.iter().map(at_addresses).collect::<Vec<_>>().join(", ")
}

/// Names the shops that were judged by other evidence than before.
fn evidence_differs(old: &[Run<'_>], new: &[Run<'_>]) -> Vec<String> {
    let weakest =
        |runs: &[Run<'_>], subject: &Subject| runs.iter().filter_map(|run| run.result(subject)?.evidence).min();
    let differs = |subject: &Subject| {
        let (was, now) = weakest(old, subject).zip(weakest(new, subject))?;
        (was != now)
            .then(|| format!("{} was judged {}, and is judged {}", subject.described(), was.describe(), now.describe()))
    };
    subjects(old).iter().filter_map(differs).collect()
}

/// Names the compared figures that only some trials of a run have.
fn of_some_trials(side: &str, run: &Run<'_>, of: &Subject, metrics: &[&Metric]) -> Vec<String> {
    let Some(result) = run.result(of) else { return Vec::new() };
    let compared = metrics.iter().filter(|metric| metric.compared != Compared::Never);
    let parts = compared.filter_map(|metric| Some((metric.key, result.partial.get(metric.key)?)));
    parts.map(|(key, part)| format!("{key} of {} is of {part} in a run of the {side} side", of.described())).collect()
}

/// Describes how a strategy sells worse than it did, if it does.
fn worse_sold(was: &Standing, now: &Standing) -> Option<&'static str> {
    match (was.finding, now.finding) {
        (Finding::Broken, _) => None,
        (_, Finding::Broken) => Some("breaks its promise, which it did not before"),
        (Finding::Kept, Finding::Inconclusive) => {
            Some("kept its promise before, and now left units because too many buyers were refused or failed")
        }
        (Finding::Kept, Finding::Dropped) => Some("kept its promise before, and now too many arrivals were dropped"),
        (Finding::Kept, Finding::Failing) => Some("kept its promise before, and now too many requests fail"),
        (Finding::Kept, Finding::Unchecked) => Some("kept its promise before, and now not everything was checked"),
        (Finding::Kept, Finding::LoadTooWeak) => {
            Some("kept its promise before, and now the load was too weak to prove anything")
        }
        _ => None,
    }
}

/// Tells that there are too few runs for times, if so.
fn too_few(old: usize, new: usize) -> Option<String> {
    if (old, new) == (1, 1) {
        Some("times: cannot tell from one run each; give at least four runs per side".to_owned())
    } else if joint::p_min(old, new) >= SIGNIFICANCE {
        Some(format!("times: cannot tell from {old} and {new} runs; give at least four per side"))
    } else {
        None
    }
}

#[cfg(test)]
mod tests;
