mod shops;

use super::*;
use crate::judge::diff::rows::{Conclusion, Row, Unit};
use crate::judge::metrics::METRICS;
use crate::report::{Findings, Trial, fixture};

/// Returns a report of the fixture's runs with these trials changed.
fn changed(change: impl Fn(&mut Trial)) -> Report {
    let mut trials = fixture::report().trials;
    trials.iter_mut().for_each(change);
    Report::of(Findings { trials, ..fixture::findings(None, Vec::new()) })
}

fn of_mutex(change: impl Fn(&mut Trial)) -> Report {
    changed(|trial| {
        if trial.strategy == "zk-mutex" {
            change(trial);
        }
    })
}

fn diff(old: &[Report], new: &[Report]) -> Diff {
    Diff::of(old, new, false, METRICS).unwrap()
}

fn refused(old: &[Report], new: &[Report]) -> String {
    Diff::of(old, new, false, METRICS).unwrap_err().to_string()
}

fn worse(diff: &Diff) -> Vec<String> {
    let rows = diff.rows.iter().filter(|row| row.conclusion == Conclusion::Worse);
    rows.map(|row| format!("{} {}", row.strategy, row.figure)).collect()
}

fn runs(numbers: std::ops::Range<u8>, slowed: &str) -> Vec<Report> {
    numbers.map(|number| fixture::run(number, slowed)).collect()
}

#[test]
fn a_run_is_no_regression_of_itself() {
    let run = [fixture::report()];
    let diff = diff(&run, &run);
    assert_eq!((diff.exit_code, worse(&diff), &diff.caveats), (0, Vec::new(), &Vec::new()));
    for row in &diff.rows {
        let expected = if row.unit == Unit::Run { Conclusion::CannotTell } else { Conclusion::Same };
        assert_eq!(row.conclusion, expected, "{row:?}");
    }
    assert!(!diff.rows.iter().any(|row| row.strategy == "unguarded" && row.unit == Unit::Run), "it sells wrongly");
}

// C14
#[test]
fn one_run_each_tells_nothing_about_times() {
    let diff = diff(&runs(0..1, ""), &runs(1..2, "zk-mutex"));
    assert_eq!((diff.exit_code, worse(&diff)), (0, Vec::new()));
    let expected = "times: cannot tell from one run each; give at least four runs per side";
    assert_eq!(diff.reasons.last().unwrap(), expected);
    let three = Diff::of(&runs(0..3, ""), &runs(3..6, "zk-mutex"), false, METRICS).unwrap();
    assert_eq!((three.exit_code, worse(&three)), (0, Vec::new()));
    assert_eq!(three.reasons.last().unwrap(), "times: cannot tell from 3 and 3 runs; give at least four per side");
}

#[test]
fn four_runs_a_side_find_the_strategy_that_got_slower() {
    let old = runs(0..4, "");
    let new = runs(4..8, "zk-mutex");
    let regressed = diff(&old, &new);
    let slower = ["goodput", "p50", "p90", "max"].map(|figure| format!("zk-mutex {figure}"));
    assert_eq!((regressed.exit_code, worse(&regressed)), (1, slower.to_vec()));
    let back = diff(&new, &old);
    assert_eq!((back.exit_code, worse(&back)), (0, Vec::new()));
    assert_eq!(back.rows.iter().filter(|row| row.conclusion == Conclusion::Better).count(), slower.len());
}

// C14
#[test]
fn the_weather_of_runs_is_no_regression() {
    let diff = diff(&runs(0..4, ""), &runs(4..8, ""));
    assert_eq!((diff.exit_code, worse(&diff)), (0, Vec::new()));
    assert!(diff.rows.iter().all(|row| row.conclusion == Conclusion::Same), "{:#?}", diff.rows);
}

#[test]
fn errors_of_a_third_of_the_buyers_are_worse() {
    let new = of_mutex(|trial| {
        trial.answers.error = 100;
        trial.answers.sold_out -= 100;
    });
    let diff = diff(&[fixture::report()], &[new]);
    assert_eq!((diff.exit_code, worse(&diff)), (1, vec!["zk-mutex errors".to_owned()]));
}

#[test]
fn a_strategy_that_sells_wrongly_now_is_broken_and_not_timed() {
    let new = of_mutex(|trial| trial.audit.oversold = i64::from(trial.block == 3));
    let diff = diff(&[fixture::report()], &[new]);
    assert_eq!(
        (diff.exit_code, diff.reasons[0].as_str()),
        (1, "zk-mutex with 300 users breaks its promise, which it did not before")
    );
    assert!(!diff.rows.iter().any(|row| row.strategy == "zk-mutex" && row.unit == Unit::Run));
}

#[test]
fn a_broken_strategy_that_oversells_more_is_worse() {
    let oversold = |units| of_mutex(|trial| trial.audit.oversold = units + i64::from(trial.block == 3));
    let diff = diff(&[oversold(2)], &[oversold(20)]);
    assert_eq!((diff.exit_code, worse(&diff)), (1, vec!["zk-mutex oversold".to_owned()]));
}

#[test]
fn a_strategy_that_is_gone_fails_the_comparison() {
    let renamed = |from: &'static str, to: &'static str| {
        let mut report = fixture::report();
        report.results.iter_mut().filter(|result| result.strategy == from).for_each(|of| of.strategy = to.to_owned());
        report
    };
    let old = [fixture::report()];
    assert!(
        refused(&old, &[renamed("zk-mutex", "zk-new")]).contains("strategies was \"pg-conditional, unguarded, zk-m")
    );
    let gone = Diff::of(&old, &[renamed("zk-mutex", "zk-new")], true, METRICS).unwrap();
    assert_eq!((gone.exit_code, gone.reasons[0].as_str()), (1, "zk-mutex with 300 users is in the old runs only"));
    assert!(gone.caveats.contains(&"zk-new with 300 users is in the new runs only".to_owned()), "{gone:?}");
    let mut all = fixture::report();
    all.results.iter_mut().for_each(|result| result.strategy += "-2");
    let nothing = Diff::of(&old, &[all], true, METRICS).unwrap_err().to_string();
    assert_eq!(nothing, "the runs have no strategy with the same number of users in common");
}

#[test]
fn times_of_a_limited_load_generator_are_not_compared() {
    let new = of_mutex(|trial| trial.generator.limited = true);
    let diff = diff(&[fixture::report()], &[new]);
    let is_timed = |strategy: &str| diff.rows.iter().any(|row| row.strategy == strategy && row.unit == Unit::Run);
    assert!(!is_timed("zk-mutex") && is_timed("pg-conditional"));
    let expected =
        "zk-mutex with 300 users sold wrongly, did not exclude, was not decided, or was limited by the load generator";
    assert!(diff.caveats.iter().any(|caveat| caveat.starts_with(expected)), "{:?}", diff.caveats);
}

#[test]
fn a_run_that_was_cut_is_refused() {
    let mut cut = fixture::report();
    cut.trials.truncate(12);
    let error = refused(&[fixture::report()], &[cut.clone()]);
    assert!(error.contains("run 1 of the new side: only 12 of 36 trials were run"), "{error}");
    let anyway = Diff::of(&[fixture::report()], &[cut], true, METRICS).unwrap();
    assert!(anyway.caveats[0].ends_with("only 12 of 36 trials were run"), "{anyway:?}");
}

#[test]
fn a_run_that_is_given_twice_counts_once() {
    let twice = [fixture::report(), fixture::report()];
    let error = refused(&twice, &[fixture::report()]);
    assert_eq!(error, "the old side has the run that ended at 2026-01-02T03:04:05Z twice");
}

#[test]
fn what_differs_before_any_figure_is_named() {
    let mut new = fixture::report();
    new.schedule.business_time = Some("5ms".to_owned());
    assert!(refused(&[fixture::report()], &[new]).contains("business time was \"2ms\" and is \"5ms\""));
    let mut debug = fixture::report();
    debug.environment.service[0].profile = "debug".to_owned();
    let error = refused(&[fixture::report()], &[debug]);
    assert!(error.contains("profile of the build was \"release\" and is \"debug\""), "{error}");
    let mut other = fixture::report();
    other.environment.cpu_count = 64;
    other.environment.loadgen_version = "0.2.0".to_owned();
    let caveats = diff(&[fixture::report()], &[other]).caveats;
    assert_eq!(caveats, ["loadgen was \"0.1.0\" and is \"0.2.0\"", "cores was \"2\" and is \"64\""]);
}

#[test]
fn runs_of_other_code_are_not_one_side() {
    let mut other = fixture::run(1, "");
    other.environment.service[0].revision = Some("another".to_owned());
    let error = refused(&[fixture::report(), other], &[fixture::report()]);
    assert!(error.contains("run 2 of the old side: code was"), "{error}");
}

#[test]
fn a_figure_that_one_side_lacks_cannot_be_told() {
    let none = of_mutex(|trial| trial.zookeeper.client_requests = None);
    let diff = diff(&[fixture::report()], &[none]);
    let is_it = |row: &&Row| row.strategy == "zk-mutex" && row.figure == "requests_per_sale";
    let row = diff.rows.iter().find(is_it).unwrap();
    assert_eq!((row.new, row.conclusion), (None, Conclusion::CannotTell));
}

#[test]
fn a_time_that_is_no_longer_reached_is_worse() {
    let mut new = runs(4..8, "");
    for trial in new.iter_mut().flat_map(|run| &mut run.trials).filter(|trial| trial.strategy == "zk-mutex") {
        trial.latency.response.sold.record_unserved(1);
    }
    let diff = diff(&runs(0..4, ""), &new);
    assert_eq!(worse(&diff), ["zk-mutex max"]);
    let row = diff.rows.iter().find(|row| row.conclusion == Conclusion::Worse).unwrap();
    assert_eq!((row.new, row.ratio), (Some(f64::INFINITY), None));
}

// C14
#[test]
fn a_cost_that_depends_on_timing_is_compared_by_runs() {
    // The blocks of a run differ. Each run also has a speed of its own, which all of its blocks share.
    let varying = |commits: u64| of_mutex(|trial| trial.postgres.commits = Some(commits + trial.block as u64));
    let diff = diff(&[varying(10)], &[varying(20)]);
    assert_eq!((diff.exit_code, worse(&diff)), (0, Vec::new()));
    let row = diff.rows.iter().find(|row| row.strategy == "zk-mutex" && row.figure == "commits_per_sale").unwrap();
    assert_eq!((row.unit, row.conclusion), (Unit::Run, Conclusion::CannotTell));
    let each = [changed(|trial| trial.postgres.commits = Some(200))];
    let alone = Diff::of(&[fixture::report()], &each, false, METRICS).unwrap();
    assert!(worse(&alone).contains(&"zk-mutex commits_per_sale".to_owned()), "{alone:?}");
}
