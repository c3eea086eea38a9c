//! Whether one side of measurements is worse than the other: new runs and old ones, or two builds in one run.
//!
//! Two kinds of figures are tested, each kind as one family ([`stats::joint`]):
//!
//! * **Times** depend on the state of the machine during a run: its other load and its temperature. All blocks of a run
//!   share that. So between runs the run is the unit. One run per side says nothing about times; at least four are needed.
//! * **Exact** figures are counts, which depend on what the strategy does. Between runs the block is the unit, so one run
//!   per side is enough.
//!
//! Two builds that are measured side by side share the state of the machine in each block. So both kinds are compared within
//! pairs: two trials of one block, the first of which is drawn by chance. At least six pairs are needed.
//!
//! A figure is worse if its corrected p is below 5 %, and its interval is not within 5 % of one. So of 100 comparisons of
//! the same code, at most about five have any time that is called worse or better, and as many any count. A strategy that
//! kept its promise and no longer does has regressed.

pub(crate) mod rows;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use stats::figures::things;
use stats::{BLOCKS_MIN, SIGNIFICANCE, joint};

use crate::error::Exit;
use crate::judge::metrics::Metric;
use crate::judge::nouns::SubjectKind;
use crate::judge::result::StrategyResult;
use crate::lab::environment::Environment;
use crate::trial::record::Trial;
use crate::trial::schedule::{Schedule, Subject};

use self::rows::{Conclusion, Row, Run, Sides, Standing};

/// Name of the format of [`Diff`] as JSON.
pub(crate) const SCHEMA: &str = "seckill-diff/1";

/// The comparison of one side with another.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub(crate) struct Diff {
    /// `seckill-diff/1`. The name stays if fields are added, and changes if a field is removed or changes its meaning.
    pub(crate) schema: String,
    /// What is compared.
    #[serde(default)]
    pub(crate) subject: SubjectKind,
    /// Exit code of the program.
    pub(crate) exit_code: u8,
    /// The reasons of the exit code, the gravest first.
    pub(crate) reasons: Vec<String>,
    /// The old side, or the first build.
    pub(crate) old: Side,
    /// The new side, or the second build, which is judged.
    pub(crate) new: Side,
    /// All figures that were compared.
    pub(crate) rows: Vec<Row>,
    /// Conditions that make the figures hard to compare.
    pub(crate) caveats: Vec<String>,
}

/// One side of a comparison.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub(crate) struct Side {
    /// `old`, `new`, or the name of a build.
    pub(crate) name: String,
    /// Number of runs.
    pub(crate) runs: usize,
    /// Measured blocks of all runs.
    pub(crate) blocks: usize,
    /// The code that was measured.
    pub(crate) code: String,
    /// When each run ended, in UTC (RFC 3339).
    pub(crate) generated_at: Vec<String>,
}

impl Side {
    /// Describes the side in a line.
    pub(crate) fn described(&self) -> String {
        format!("{} with {}, of {}", things(self.runs, "run"), things(self.blocks, "block"), self.code)
    }
}

impl Diff {
    /// Judges the second build of a run against the first one. `None` if the run measured one build.
    pub(crate) fn of_builds(
        (schedule, environment, generated_at): (&Schedule, &Environment, &str),
        results: &[StrategyResult],
        trials: &[Trial],
        metrics: &[&'static Metric],
    ) -> Option<Diff> {
        let builds = schedule.pair()?;
        let run = Run::of(results, trials);
        let sides = Sides::Builds(&run, builds);
        let rows = rows::compare(sides, metrics);
        let (exit, mut reasons) = conclude(Vec::new(), &rows, metrics);
        if joint::p_min_of_pairs(run.blocks.len()) >= SIGNIFICANCE {
            let blocks = things(run.blocks.len(), "block");
            reasons.push(format!("cannot tell from {blocks}; give at least {BLOCKS_MIN}, as by --trials {BLOCKS_MIN}"));
        }
        let [old, new] = builds.map(|name| Side {
            name: name.to_owned(),
            runs: 1,
            blocks: run.blocks.len(),
            code: described(schedule, environment, name),
            generated_at: vec![generated_at.to_owned()],
        });
        let caveats =
            profiles_differ(environment, builds).into_iter().chain(untimed(sides, SubjectKind::Strategy)).collect();
        let subject = SubjectKind::Strategy;
        Some(Diff { schema: SCHEMA.to_owned(), subject, exit_code: exit.code(), reasons, old, new, rows, caveats })
    }

    /// Returns the rows with this conclusion.
    pub(crate) fn with(&self, conclusion: Conclusion) -> impl Iterator<Item = &Row> {
        self.rows.iter().filter(move |row| row.conclusion == conclusion)
    }

    /// Counts the figures that are worse, better, the same and undecided.
    pub(crate) fn counts(&self) -> [usize; 4] {
        let conclusions = [Conclusion::Worse, Conclusion::Better, Conclusion::Same, Conclusion::CannotTell];
        conclusions.map(|conclusion| self.with(conclusion).count())
    }

    /// Writes these counts in words.
    pub(crate) fn counted(&self) -> String {
        let [worse, better, same, untold] = self.counts();
        format!("{worse} figures worse, {better} better, {same} no difference seen, {untold} cannot tell")
    }
}

/// Describes the code of a build, and the path of its program.
fn described(schedule: &Schedule, environment: &Environment, name: &str) -> String {
    let program = schedule.builds.iter().find(|build| build.name == name).map_or("", |build| build.program.as_str());
    format!("{} in {program}", environment.code_of(name))
}

/// Returns a caveat if one build was optimised and the other one was not.
fn profiles_differ(environment: &Environment, builds: [&str; 2]) -> Option<String> {
    let profile = |name: &str| {
        let build = environment.service.iter().find(|build| build.name.as_deref() == Some(name));
        build.map(|build| build.profile.as_str())
    };
    let [old, new] = builds.map(profile);
    let (was, now) = old.zip(new)?;
    (was != now).then(|| format!("{} is a {was} build, and {} is a {now} build", builds[0], builds[1]))
}

/// Returns a caveat for each strategy whose times say nothing on one of the sides.
pub(crate) fn untimed(sides: Sides<'_>, kind: SubjectKind) -> Vec<String> {
    let untimed = kind.nouns().untimed;
    let [old, new] = sides.runs();
    let is_untimed = |subject: &Subject| {
        let [of_old, of_new] = sides.both(subject);
        let was = Standing::of(old, &of_old)?;
        let now = Standing::of(new, &of_new)?;
        let is_timed = was.has_times() && now.has_times() || was.is_control && now.is_control;
        (!is_timed).then(|| {
            format!(
                "{} with {} users {untimed}, or was limited by the load generator on one of the sides: its times are not \
                 compared",
                subject.name(),
                subject.users
            )
        })
    };
    sides.subjects().iter().filter_map(is_untimed).collect()
}

/// Returns the exit and its reasons, the gravest first.
pub(crate) fn conclude(mut reasons: Vec<String>, rows: &[Row], metrics: &[&Metric]) -> (Exit, Vec<String>) {
    let with = |conclusion| rows.iter().filter(move |row| row.conclusion == conclusion);
    let worse: Vec<String> = with(Conclusion::Worse).map(|row| row.name(metrics)).collect();
    if !worse.is_empty() {
        reasons.push(format!("worse: {}", worse.join(", ")));
    }
    let untold = with(Conclusion::CannotTell).count();
    if !reasons.is_empty() {
        (Exit::Failed, reasons)
    } else if untold == rows.len() {
        (Exit::Failed, vec!["no figure could be judged".to_owned()])
    } else {
        (Exit::Passed, vec![format!("no figure of the {} that could be judged is worse", rows.len() - untold)])
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::judge::diff::rows::Unit;
    use crate::judge::result::StrategyResult;
    use crate::report::{Findings, Report, fixture};

    fn of_builds(slowed: &str, change: impl Fn(&mut Trial)) -> Report {
        let mut findings = fixture::of_builds(slowed);
        findings.trials.iter_mut().for_each(change);
        Report::of(findings)
    }

    fn worse(report: &Report) -> Vec<String> {
        let rows = report.builds.as_ref().unwrap().with(Conclusion::Worse);
        rows.map(|row| format!("{} {}", row.strategy, row.figure)).collect()
    }

    #[test]
    fn a_build_that_is_no_slower_is_not_worse() {
        let report = fixture::builds("");
        let diff = report.builds.as_ref().unwrap();
        assert_eq!((report.verdict.exit_code, worse(&report), &diff.caveats), (0, Vec::new(), &Vec::new()));
        let [_, _, same, untold] = diff.counts();
        assert!(same > 20 && untold == 0, "{:#?}", diff.rows);
        assert!(diff.rows.iter().all(|row| row.unit == Unit::Pair && row.build.is_none()), "{:#?}", diff.rows);
        let expected = format!("head against base: no figure of the {same} that could be judged is worse");
        assert_eq!(report.verdict.reasons[1], expected);
    }

    #[test]
    fn a_build_that_slows_a_strategy_down_is_worse_and_fails() {
        let report = fixture::builds("zk-mutex");
        let slower = ["goodput", "p50", "p90", "max"].map(|figure| format!("zk-mutex {figure}"));
        assert_eq!((report.verdict.exit_code, worse(&report)), (1, slower.to_vec()));
        let reason = &report.verdict.reasons[0];
        assert!(
            reason.starts_with("head against base: worse: Sold units/s of zk-mutex with 300 users, p50 ms"),
            "{reason}"
        );
        let row = report.builds.as_ref().unwrap().with(Conclusion::Worse).find(|row| row.figure == "p50").unwrap();
        let ratio = row.ratio.unwrap();
        assert!(ratio.low.unwrap() > 1.4 && ratio.high.unwrap() < 1.6 && row.p < 0.05, "{row:?}");
    }

    #[test]
    fn five_blocks_tell_nothing_and_say_how_many_would() {
        let Findings { trials, .. } = fixture::of_builds("zk-mutex");
        let trials = trials.into_iter().filter(|trial| trial.block <= 5).collect();
        let report = Report::of(Findings { trials, ..fixture::of_builds("") });
        let reasons = &report.builds.as_ref().unwrap().reasons;
        assert_eq!(
            reasons,
            &["no figure could be judged", "cannot tell from 5 blocks; give at least 6, as by --trials 6"]
        );
        assert_eq!((report.verdict.exit_code, worse(&report)), (1, Vec::new()));
    }

    #[test]
    fn each_build_is_judged_and_ranked_by_itself() {
        let of_head = |trial: &mut Trial| {
            if trial.build.as_deref() == Some("head") && trial.strategy == "pg-conditional" {
                trial.audit.oversold = 1;
            }
        };
        let report = of_builds("", of_head);
        assert_eq!(report.verdict.exit_code, 2);
        assert_eq!(report.verdict.reasons[0], "promise broken by pg-conditional of head");
        let ranked = |build: &str| -> Vec<(String, Option<usize>)> {
            let own = report.results.iter().filter(|result| result.build.as_deref() == Some(build));
            own.map(|result| (result.strategy.clone(), result.rank)).collect()
        };
        let all = [("unguarded", None), ("zk-naive", Some(3)), ("zk-mutex", Some(2)), ("pg-conditional", Some(1))];
        assert_eq!(ranked("base"), all.map(|(name, rank)| (name.to_owned(), rank)));
        let others = [("unguarded", None), ("zk-naive", Some(2)), ("zk-mutex", Some(1)), ("pg-conditional", None)];
        assert_eq!(ranked("head"), others.map(|(name, rank)| (name.to_owned(), rank)));
        assert!(report.results.iter().all(|result: &StrategyResult| result.reference.as_deref() == Some("zk-mutex")));
        let caveat = "pg-conditional with 300 users sold wrongly, did not exclude, was not decided, or was limited by the load \
            generator on one of the sides: its times are not compared";
        assert_eq!(report.builds.unwrap().caveats, [caveat]);
    }

    #[test]
    fn a_rule_is_checked_for_both_builds() {
        let thresholds = vec![crate::judge::thresholds::Threshold::parse("zk-mutex p50<500ms").unwrap()];
        let report = Report::of(Findings { thresholds, ..fixture::of_builds("zk-mutex") });
        let met: Vec<bool> = report.thresholds.iter().map(|checked| checked.is_met).collect();
        assert_eq!(met.len(), 2);
        assert!(report.thresholds[1].describe().contains("zk-mutex of head with 300 users is"));
    }

    #[test]
    fn builds_of_different_profiles_have_a_caveat() {
        let mut findings = fixture::of_builds("");
        findings.environment.service[0].profile = "debug".to_owned();
        let caveats = Report::of(findings).builds.unwrap().caveats;
        assert_eq!(caveats, ["base is a debug build, and head is a release build"]);
    }

    /// The sizes of batches are random, so each build has the larger ones now and then.
    // C13
    #[test]
    fn batches_that_differ_by_chance_are_no_difference() {
        let report = of_builds("", |trial| {
            let is_head = u64::from(trial.build.as_deref() == Some("head"));
            trial.postgres.batch_max = Some(40);
            trial.postgres.commits = Some(10 + (trial.block as u64 * 7 + is_head * 3) % 8);
        });
        assert_eq!((report.verdict.exit_code, worse(&report)), (0, Vec::new()));
        let steady = of_builds("", |trial| {
            let is_head = u64::from(trial.build.as_deref() == Some("head"));
            trial.postgres.batch_max = Some(40);
            trial.postgres.commits = Some(10 + (trial.block as u64 * 7) % 8 + is_head * 9);
        });
        assert_eq!(steady.verdict.exit_code, 1);
        assert!(worse(&steady).contains(&"zk-mutex commits_per_sale".to_owned()), "{:?}", worse(&steady));
    }
}
