//! The sentence that a report opens with.

use std::fmt::Write as _;

use stats::{Difference, Ratio};

use crate::judge::finding::{Finding, count_of};
use crate::judge::result::StrategyResult;
use crate::lab::strategy::{Promise, Wakes};
use crate::trial::plan::Plan;
use crate::trial::record::Trial;

/// What came out, in a sentence or a few: who sold wrongly, who was fastest and slowest, and the herd. Of several numbers
/// of users it tells the largest that was tried.
pub(crate) fn sentence(plan: &Plan, results: &[StrategyResult], trials: &[Trial]) -> String {
    let run = || results.iter().filter(|result| result.trials > 0);
    let Some(users) = run().map(|result| result.users).max() else { return "No trial was run to its end.".to_owned() };
    let level: Vec<&StrategyResult> = run().filter(|result| result.users == users).collect();
    let mut text = sold_right(plan, users, &level, trials);
    sold_wrong(&mut text, &level);
    not_proved(&mut text, &level);
    text.push('.');
    speed(&mut text, &level);
    herd(&mut text, &level);
    text
}

fn sold_right(plan: &Plan, users: u32, level: &[&StrategyResult], trials: &[Trial]) -> String {
    let right: Vec<&StrategyResult> = level.iter().copied().filter(|result| result.is_comparable()).collect();
    let Some(fewest) = right.iter().map(|result| result.trials).min() else {
        return format!("With {users} users no strategy was found to sell right in every trial");
    };
    let who = match right.as_slice() {
        [one] => one.strategy.clone(),
        [one, other] => format!("{} and {}", one.strategy, other.strategy),
        many => format!("{} strategies", many.len()),
    };
    let each = if plan.goods > 1 { " of each SKU" } else { "" };
    let bound = right.iter().map(|result| result.bad_trial_rate_upper_95).fold(0.0, f64::max) * 100.0;
    let stock_total = i64::from(plan.stock) * i64::from(plan.goods);
    let is_theirs =
        |trial: &&Trial| trial.users == users && right.iter().any(|result| result.strategy == trial.strategy);
    // Fewer than there are is right as well, where no more were asked for.
    let what = if trials.iter().filter(is_theirs).all(|trial| trial.audit.sold == stock_total) {
        format!("exactly the {} units{each}", plan.stock)
    } else {
        "no unit too many and none too few".to_owned()
    };
    let times = if fewest == 1 { "the one trial".to_owned() } else { format!("each of {fewest} trials") };
    format!(
        "With {users} users {who} sold {what} in {times} (a trial goes wrong less often than {bound:.0} % of the time, with \
         95 % confidence)"
    )
}

/// Who sold wrongly, those first who must not.
fn sold_wrong(text: &mut String, level: &[&StrategyResult]) {
    let of = |finding: Finding| level.iter().filter(move |result| result.finding == finding);
    let broken: Vec<String> = of(Finding::Broken).map(|result| wrong(result)).collect();
    if !broken.is_empty() {
        let _ = write!(text, "; {}", broken.join(", "));
    }
    let controls: Vec<String> =
        of(Finding::Kept).filter(|result| result.bad_trials > 0).map(|result| wrong(result)).collect();
    match controls.as_slice() {
        [] => {}
        [one] => {
            let _ = write!(text, "; the control sold wrongly, as it has to: {one}");
        }
        many => {
            let _ = write!(text, "; the controls sold wrongly, as they have to: {}", many.join(", "));
        }
    }
}

/// Of whom nothing is proved.
fn not_proved(text: &mut String, level: &[&StrategyResult]) {
    let names = |finding: Finding| -> String {
        let of_kind = level.iter().filter(|result| result.finding == finding);
        of_kind.map(|result| result.strategy.as_str()).collect::<Vec<_>>().join(", ")
    };
    let (weak, unknown) = (names(Finding::LoadTooWeak), names(Finding::Inconclusive));
    if !weak.is_empty() {
        let _ = write!(text, "; the load was too weak to make {weak} oversell");
    }
    if !unknown.is_empty() {
        let why = "as buyers got no decision or a trial did not come to rest";
        let _ = write!(text, "; nothing can be said of {unknown}, {why}");
    }
}

/// How one strategy sold wrongly.
fn wrong(result: &StrategyResult) -> String {
    if result.bad_trials == 0 {
        let overlaps = result.overlaps.filter(|overlaps| *overlaps > 0);
        let regressions = result.token_regressions.filter(|regressions| *regressions > 0);
        let parts = [
            overlaps.map(|overlaps| format!("let {} in beside others", count_of(overlaps, "buyer"))),
            regressions.map(|tokens| format!("gave {} not above all before", count_of(tokens, "token"))),
        ];
        let parts: Vec<String> = parts.into_iter().flatten().collect();
        return format!("{} broke its promise: its lock {}", result.strategy, parts.join(", and "));
    }
    let is_control = result.promise != Promise::NeverOversells && result.promise != Promise::SafeWhileSessionLives;
    let how = if is_control && !result.ledger_balanced {
        "told buyers what the database denies".to_owned()
    } else if result.oversold_max > 0 {
        format!("oversold by up to {} units ({:.0} %)", result.oversold_max, result.oversell_rate_max * 100.0)
    } else if result.undersold_max > 0 {
        format!("left up to {} units that buyers wanted", result.undersold_max)
    } else if result.double_sales_max > 0 {
        format!("sold up to {} units twice", result.double_sales_max)
    } else if result.ledger_balanced {
        format!("lost up to {} updates", result.lost_updates_max.abs())
    } else {
        "told buyers what the database denies".to_owned()
    };
    let trials = if result.bad_trials == result.trials {
        "every trial".to_owned()
    } else {
        format!("{} of {} trials", result.bad_trials, result.trials)
    };
    let promise = if result.finding == Finding::Broken { " broke its promise and" } else { "" };
    format!("{}{promise} {how} in {trials}", result.strategy)
}

fn speed(text: &mut String, level: &[&StrategyResult]) {
    let mut ranked: Vec<&StrategyResult> = level.iter().copied().filter(|result| result.rank.is_some()).collect();
    ranked.sort_by_key(|result| result.rank);
    let (Some(fastest), Some(slowest)) = (ranked.first(), ranked.last()) else { return };
    if ranked.len() < 2 {
        return;
    }
    let _ = write!(text, " Fastest was {}, slowest {}.", place(fastest), place(slowest));
}

/// A strategy with its median and what that is to the reference.
fn place(result: &StrategyResult) -> String {
    let median = result.p50_ms.map_or_else(String::new, |p50| time(p50.value));
    match (&result.ratio_to_reference, &result.reference) {
        (Some(ratio), Some(reference)) => {
            format!("{} (median {median}, {} that of {reference})", result.strategy, factor(ratio))
        }
        _ => format!("{} (median {median})", result.strategy),
    }
}

/// A ratio with its interval, and the sign for one that is not to be told from one, or of too few trials to tell.
fn factor(ratio: &Ratio) -> String {
    let sign = match ratio.difference {
        Difference::Indistinguishable => "~",
        Difference::TooFewBlocks => "?",
        Difference::Smaller | Difference::Larger => "",
    };
    match (ratio.low, ratio.high) {
        (Some(low), Some(high)) => format!("{sign}{:.2} [{low:.2}, {high:.2}] ×", ratio.estimate),
        _ => format!("{sign}{:.2} ×", ratio.estimate),
    }
}

fn herd(text: &mut String, level: &[&StrategyResult]) {
    let woken = |wakes: Wakes| {
        let of_kind = level.iter().filter(|result| result.wakes == wakes);
        let figures = of_kind.filter_map(|result| Some((*result, result.notifications_per_release?.value)));
        figures.max_by(|a, b| a.1.total_cmp(&b.1))
    };
    let (Some((all, herd)), Some((_, one))) = (woken(Wakes::All), woken(Wakes::One)) else { return };
    let _ = write!(
        text,
        " A release of {} woke {herd:.0} waiters on average, a release of a queue at most {one:.1}.",
        all.strategy
    );
}

/// A time with the unit that suits it.
fn time(ms: f64) -> String {
    if ms >= 10_000.0 {
        format!("{:.0} s", ms / 1e3)
    } else if ms >= 1000.0 {
        format!("{:.1} s", ms / 1e3)
    } else if ms >= 10.0 {
        format!("{ms:.0} ms")
    } else {
        format!("{ms:.1} ms")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::{Report, fixture};

    #[test]
    fn a_comparison_opens_with_what_came_out() {
        insta::assert_snapshot!(fixture::report().verdict.sentence);
    }

    #[test]
    fn a_broken_promise_is_told_first_and_by_its_kind() {
        let sentence = |change: fn(&mut crate::judge::audit::Audit)| {
            let mut trial = fixture::trial("pg-conditional", 0, 100, 100);
            change(&mut trial.audit);
            Report::of(fixture::findings(None, vec![trial])).verdict.sentence
        };
        for (sentence, expected) in [
            (
                sentence(|audit| audit.oversold = 3),
                "pg-conditional broke its promise and oversold by up to 3 units (3 %) in every trial.",
            ),
            (
                sentence(|audit| audit.undersold = 2),
                "pg-conditional broke its promise and left up to 2 units that buyers wanted in every trial",
            ),
            (
                sentence(|audit| audit.double_sales = 2),
                "pg-conditional broke its promise and sold up to 2 units twice in every trial",
            ),
            (
                sentence(|audit| audit.lost_updates = -4),
                "pg-conditional broke its promise and lost up to 4 updates in every trial",
            ),
            (
                sentence(|audit| audit.orders_unexplained = 1),
                "pg-conditional broke its promise and told buyers what the database denies in every",
            ),
        ] {
            assert!(sentence.contains(expected), "{sentence}");
            assert!(sentence.starts_with("With 300 users no strategy was found to sell right"), "{sentence}");
        }
    }

    #[test]
    fn a_lock_that_did_not_exclude_is_told_although_it_sold_right() {
        let mut trial = fixture::trial("zk-mutex", 0, 100, 100);
        trial.history.as_mut().unwrap().overlaps = Some(2);
        let sentence = Report::of(fixture::findings(None, vec![trial])).verdict.sentence;
        assert!(
            sentence.ends_with("zk-mutex broke its promise: its lock let 2 buyers in beside others."),
            "{sentence}"
        );
    }

    #[test]
    fn what_was_not_asked_for_is_not_missed() {
        let mut trial = fixture::trial("zk-mutex", 0, 100, 60);
        trial.audit.undersold = 0;
        let sentence = Report::of(fixture::findings(None, vec![trial])).verdict.sentence;
        assert!(
            sentence.starts_with("With 300 users zk-mutex sold no unit too many and none too few in"),
            "{sentence}"
        );
    }

    #[test]
    fn of_whom_nothing_is_proved_is_told() {
        let weak = fixture::trial("unguarded", 0, 100, 100);
        let mut refused = fixture::trial("zk-mutex", 0, 100, 20);
        (refused.audit.undersold, refused.audit.unsold_undecided) = (0, 80);
        let sentence = Report::of(fixture::findings(None, vec![weak, refused])).verdict.sentence;
        assert!(
            sentence.contains("; the load was too weak to make unguarded oversell; nothing can be said of zk-mutex"),
            "{sentence}"
        );
    }

    #[test]
    fn nothing_run_is_nothing_told() {
        assert_eq!(Report::of(fixture::findings(None, Vec::new())).verdict.sentence, "No trial was run to its end.");
    }

    #[test]
    fn times_have_the_unit_that_suits_them() {
        assert_eq!([0.25, 12.3, 999.4, 1234.0, 45_678.0].map(time), ["0.2 ms", "12 ms", "999 ms", "1.2 s", "46 s"]);
    }
}
