//! The `diff` command: whether a second run is worse than the first.
//!
//! The blocks of two runs have nothing to do with each other, so figures are compared between the trials of both runs. Each
//! comparison has the ratio with its bootstrap interval, an exact rank-sum test, and Holm's correction over all figures of
//! all strategies. Sold units are compared without a test of significance. A strategy that kept its promise and no longer
//! does has regressed.

use stats::figures as format;
use stats::{Difference, Ratio, correct, median, unpaired};

use crate::judge::finding::Finding;
use crate::judge::metrics::{Better, METRICS, Metric};
use crate::judge::result::StrategyResult;
use crate::report::Report;

/// Ratios are drawn from a fixed seed, so that the same two files always give the same answer.
const SEED: u64 = 1;

/// One figure of one strategy in both runs.
#[derive(Debug)]
pub(crate) struct Row {
    pub(crate) strategy: String,
    pub(crate) users: u32,
    pub(crate) metric: &'static Metric,
    /// Median over the trials of the old run.
    pub(crate) old: f64,
    /// Median over the trials of the new run.
    pub(crate) new: f64,
    pub(crate) ratio: Ratio,
}

impl Row {
    /// Whether the figure is worse for certain.
    pub(crate) fn is_regression(&self) -> bool {
        match self.ratio.difference {
            Difference::Larger => self.metric.better != Better::Higher,
            Difference::Smaller => self.metric.better == Better::Higher,
            Difference::Indistinguishable | Difference::TooFewBlocks => false,
        }
    }

    /// Whether the figure differs for certain.
    pub(crate) fn is_significant(&self) -> bool {
        matches!(self.ratio.difference, Difference::Larger | Difference::Smaller)
    }

    /// The ratio of the new figure to the old one, with its interval.
    pub(crate) fn interval(&self) -> String {
        let interval = format::interval(self.ratio.low, self.ratio.high);
        let interval = interval.map_or_else(String::new, |interval| format!(" {interval}"));
        format!("{}{interval}", format::figure(self.ratio.estimate))
    }

    /// The conclusion in a word or a sign.
    pub(crate) fn verdict(&self) -> &'static str {
        match self.ratio.difference {
            Difference::TooFewBlocks => "?",
            Difference::Indistinguishable => "~",
            Difference::Larger | Difference::Smaller if self.is_regression() => "WORSE",
            Difference::Larger | Difference::Smaller => "better",
        }
    }
}

/// What came of comparing two runs.
#[derive(Debug)]
pub(crate) struct Diff {
    pub(crate) rows: Vec<Row>,
    /// Strategies that no longer sell as they did, each with how.
    pub(crate) broken: Vec<String>,
    /// What makes the figures hard to compare.
    pub(crate) caveats: Vec<String>,
}

impl Diff {
    /// Compares the strategies and numbers of users that both runs have.
    pub(crate) fn of(old: &Report, new: &Report, metrics: &[&'static Metric]) -> Diff {
        let mut rows = Vec::new();
        let (mut broken, mut caveats) = (Vec::new(), plan_differences(old, new));
        caveats.extend(environment_differences(old, new));
        for was in &old.results {
            let is_same = |now: &&StrategyResult| now.strategy == was.strategy && now.users == was.users;
            let Some(now) = new.results.iter().find(is_same) else {
                caveats.push(format!("{} with {} users is in the old run only", was.strategy, was.users));
                continue;
            };
            broken.extend(worse_sold(was, now));
            caveats
                .extend([("old", was), ("new", now)].into_iter().flat_map(|(run, result)| of_some_trials(run, result)));
            if was.is_comparable && now.is_comparable {
                let compared = metrics.iter().filter(|metric| metric.is_compared);
                rows.extend(compared.filter_map(|metric| row(metric, old, new, was)));
            } else if was.finding != Finding::Kept || now.finding != Finding::Kept {
                let why = "sold wrongly, did not exclude, or was not decided in one of the runs: its figures are not compared";
                caveats.push(format!("{} with {} users {why}", was.strategy, was.users));
            }
        }
        for now in &new.results {
            if !old.results.iter().any(|was| now.strategy == was.strategy && now.users == was.users) {
                caveats.push(format!("{} with {} users is in the new run only", now.strategy, now.users));
            }
        }
        correct(rows.iter_mut().map(|row: &mut Row| &mut row.ratio));
        Diff { rows, broken, caveats }
    }

    /// The figures that are worse for certain.
    pub(crate) fn regressions(&self) -> impl Iterator<Item = &Row> {
        self.rows.iter().filter(|row| row.is_regression())
    }
}

fn row(metric: &'static Metric, old: &Report, new: &Report, of: &StrategyResult) -> Option<Row> {
    let figures = |report: &Report| -> Vec<f64> {
        let trials = report.trials.iter().filter(|trial| !trial.warm_up);
        let own = trials.filter(|trial| trial.strategy == of.strategy && trial.users == of.users);
        own.filter_map(|trial| metric.of_trial(trial)).collect()
    };
    let (old, new) = (figures(old), figures(new));
    Some(Row {
        strategy: of.strategy.clone(),
        users: of.users,
        metric,
        old: median(&old)?,
        new: median(&new)?,
        ratio: unpaired::ratio(&new, &old, SEED)?,
    })
}

/// The compared figures that only some trials of a run have.
fn of_some_trials(run: &str, result: &StrategyResult) -> Vec<String> {
    let (strategy, users) = (&result.strategy, result.users);
    let parts = METRICS.iter().filter(|metric| metric.is_compared).filter_map(|metric| {
        let part = result.partial.get(metric.key)?;
        Some(format!("{} of {strategy} with {users} users is of {part} in the {run} run", metric.key))
    });
    parts.collect()
}

/// How a strategy sells worse than it did, if it does.
fn worse_sold(was: &StrategyResult, now: &StrategyResult) -> Option<String> {
    if now.finding == Finding::Broken && was.finding != Finding::Broken {
        return Some(format!("{} with {} users breaks its promise, which it did not before", now.strategy, now.users));
    }
    if was.finding != Finding::Kept || now.finding == Finding::Kept {
        return None;
    }
    let how = match now.finding {
        Finding::Inconclusive => "left units as too many buyers were refused or failed".to_owned(),
        Finding::Unchecked => "now not everything was checked".to_owned(),
        Finding::LoadTooWeak => "now the load was too weak to prove anything".to_owned(),
        Finding::NotRun | Finding::Kept | Finding::Broken => "was not run".to_owned(),
    };
    Some(format!("{} with {} users kept its promise before, and {how}", now.strategy, now.users))
}

/// What was asked for differently.
pub(crate) fn plan_differences(old: &Report, new: &Report) -> Vec<String> {
    let (was, now) = (&old.plan, &new.plan);
    let number = |value: Option<u64>| value.map_or_else(|| "unknown".to_owned(), |value| value.to_string());
    differences([
        ("load", was.model_described.clone(), now.model_described.clone()),
        ("stock", was.stock.to_string(), now.stock.to_string()),
        ("SKUs", was.goods.to_string(), now.goods.to_string()),
        ("instances", was.instances.to_string(), now.instances.to_string()),
        ("ZooKeeper sessions", number(was.zk_sessions_total), number(now.zk_sessions_total)),
        ("hold", text(&was.hold), text(&now.hold)),
        ("lock wait in ms", number(was.lock_wait_ms), number(now.lock_wait_ms)),
        ("service arguments", was.service_args.join(" "), now.service_args.join(" ")),
    ])
}

fn environment_differences(old: &Report, new: &Report) -> Vec<String> {
    let (was, now) = (&old.environment, &new.environment);
    let settings = |report: &Report| {
        let settings = report.environment.postgres_settings.iter();
        settings.map(|setting| format!("{}={}", setting.name, setting.value)).collect::<Vec<_>>().join(" ")
    };
    differences([
        ("processor", text(&was.cpu_model), text(&now.cpu_model)),
        ("cores", was.cpu_count.to_string(), now.cpu_count.to_string()),
        ("kernel", text(&was.kernel), text(&now.kernel)),
        ("Postgres", was.postgres_version.clone(), now.postgres_version.clone()),
        ("Postgres settings", settings(old), settings(new)),
        ("ZooKeeper", text(&was.zookeeper_version), text(&now.zookeeper_version)),
        ("ZooKeeper servers", was.zookeeper_servers.len().to_string(), now.zookeeper_servers.len().to_string()),
    ])
}

fn text(value: &Option<String>) -> String {
    value.clone().unwrap_or_else(|| "unknown".to_owned())
}

fn differences<const N: usize>(pairs: [(&str, String, String); N]) -> Vec<String> {
    let differing = pairs.into_iter().filter(|(_, was, now)| was != now);
    differing.map(|(what, was, now)| format!("{what} was {was:?} and is {now:?}")).collect()
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::report::{Findings, fixture};
    use crate::trial::record::{Latency, Trial};

    /// The fixture with the trials of one strategy changed.
    fn changed(strategy: &str, change: impl Fn(&mut Trial)) -> Report {
        let mut trials = fixture::report().trials;
        trials.iter_mut().filter(|trial| trial.strategy == strategy).for_each(change);
        let Findings { generated_at, ended_early, environment, plan, strategies, thresholds, .. } =
            fixture::findings(None, Vec::new());
        Report::of(Findings { generated_at, ended_early, environment, plan, strategies, thresholds, trials }, METRICS)
    }

    fn slower(trial: &mut Trial) {
        let mut latency = Latency::default();
        for (_, ms) in trial.latency.response.sold.points() {
            (0..30).for_each(|_| latency.response.sold.record(Duration::from_secs_f64(ms * 1.5 / 1e3)));
        }
        trial.latency = latency;
    }

    #[test]
    fn a_run_is_no_regression_of_itself() {
        let report = fixture::report();
        let diff = Diff::of(&report, &report, METRICS);
        assert_eq!((diff.regressions().count(), diff.broken.len(), diff.caveats.len()), (0, 0, 0));
        assert!(!diff.rows.is_empty() && diff.rows.iter().all(|row| row.verdict() == "~"), "{:#?}", diff.rows);
        assert!(!diff.rows.iter().any(|row| row.strategy == "unguarded"), "it sells wrongly, and has no rank");
    }

    #[test]
    fn a_slower_strategy_is_a_regression_and_the_others_are_not() {
        let (old, new) = (fixture::report(), changed("zk-mutex", slower));
        let worse = |diff: &Diff| -> Vec<String> {
            diff.regressions().map(|row| format!("{} {}", row.strategy, row.metric.key)).collect()
        };
        let diff = Diff::of(&old, &new, METRICS);
        assert_eq!(worse(&diff), ["zk-mutex p50", "zk-mutex p90"]);
        let back = Diff::of(&new, &old, METRICS);
        assert_eq!(back.regressions().count(), 0);
        assert!(back.rows.iter().any(|row| row.verdict() == "better"));
    }

    #[test]
    fn a_strategy_that_no_longer_sells_right_is_broken_and_not_timed() {
        let new = changed("zk-mutex", |trial| trial.audit.oversold = i64::from(trial.block == 3));
        let diff = Diff::of(&fixture::report(), &new, METRICS);
        assert_eq!(diff.broken, ["zk-mutex with 300 users breaks its promise, which it did not before"]);
        assert!(!diff.rows.iter().any(|row| row.strategy == "zk-mutex"));
    }

    #[test]
    fn what_was_asked_for_differently_is_named() {
        let mut new = fixture::report();
        new.plan.hold = Some("5ms".to_owned());
        assert_eq!(plan_differences(&fixture::report(), &new), ["hold was \"2ms\" and is \"5ms\""]);
        new.environment.cpu_count = 64;
        assert!(
            Diff::of(&fixture::report(), &new, METRICS).caveats.contains(&"cores was \"2\" and is \"64\"".to_owned())
        );
        new.results.retain(|result| result.strategy != "zk-naive");
        let diff = Diff::of(&fixture::report(), &new, METRICS);
        assert!(diff.caveats.contains(&"zk-naive with 300 users is in the old run only".to_owned()), "{diff:?}");
        let back = Diff::of(&new, &fixture::report(), METRICS);
        assert!(back.caveats.contains(&"zk-naive with 300 users is in the new run only".to_owned()), "{back:?}");
    }
}
