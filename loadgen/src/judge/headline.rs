//! The beginning of a report: at most three sentences, then one line for each further result.

pub(crate) mod faults;
mod hazards;
pub(crate) mod shops;

use stats::figures::{self as format, things};
use stats::rate;

use crate::judge::diff::Diff;
use crate::judge::finding::Finding;
use crate::judge::metrics::{
    DOUBLE_SALES, LOST_UPDATES, MISPLACED, Metric, NOTIFICATIONS_PER_RELEASE, OUT_OF_SEQUENCE, OVER_LIMIT, OVERLAPS,
    OVERSELL_RATE, OVERSOLD, OVERTAKEN_IN_BATCH, P50, RATIO, TOKEN_REGRESSIONS, TOKENS_OUT_OF_ORDER, UNBALANCED,
    UNDERSOLD,
};
use crate::judge::result::StrategyResult;
use crate::lab::strategy::{ExpectedFault, Wakes};
use crate::trial::record::Trial;
use crate::trial::schedule::Schedule;

/// The results with the largest number of users.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Headline {
    /// At most three sentences: what the strategies sold, the fastest one or the comparison of two builds, the herd.
    pub(crate) sentence: String,
    /// One line each: broken promises, controls, undecided strategies, the upper bound of the failure rate.
    pub(crate) details: Vec<String>,
}

impl Headline {
    /// Writes the headline.
    pub(crate) fn of(
        schedule: &Schedule,
        results: &[StrategyResult],
        trials: &[Trial],
        builds: Option<&Diff>,
    ) -> Headline {
        let run = || results.iter().filter(|result| result.trials > 0);
        let Some(users) = run().map(|result| result.users).max() else {
            return Headline { sentence: "No trial was run to its end.".to_owned(), details: Vec::new() };
        };
        let level: Vec<&StrategyResult> = run().filter(|result| result.users == users).collect();
        let against = builds.map(|diff| format!("{} against {}: {}.", diff.new.name, diff.old.name, diff.counted()));
        let sold = if schedule.has_hazards() {
            hazards::sold(schedule, users, &level)
        } else if schedule.is_of_shops() {
            shops::sold(schedule, users, &level, trials)
        } else {
            sold(schedule, users, &level, trials)
        };
        let sentences = [Some(sold), against.or_else(|| speed(&level)), herd(&level)];
        let broken = if schedule.is_of_shops() { shops::broken } else { broken };
        Headline {
            sentence: sentences.into_iter().flatten().collect::<Vec<_>>().join(" "),
            details: [
                broken(&level),
                controls(&level),
                not_proved(&level),
                Vec::from_iter(bound(&level)),
                shops::unseen(&level),
            ]
            .concat(),
        }
    }
}

/// Names the strategies that sold right, or the broken promises.
fn sold(schedule: &Schedule, users: u32, level: &[&StrategyResult], trials: &[Trial]) -> String {
    let users_named = things(users, "user");
    let names = |is: &dyn Fn(&StrategyResult) -> bool| -> Vec<String> {
        level.iter().filter(|result| is(result)).map(|result| result.name()).collect()
    };
    let broken = names(&|result| result.finding == Finding::Broken);
    let right = names(&|result| result.is_comparable);
    let broke =
        if broken.is_empty() { String::new() } else { format!("{} broke the promise", listed(&broken, schedule)) };
    let Some(fewest) = level.iter().filter(|result| result.is_comparable).map(|result| result.trials).min() else {
        let nobody = format!("With {users_named}, no strategy was proved right");
        return if broke.is_empty() { format!("{nobody}.") } else { format!("{nobody}; {broke}.") };
    };
    let what = sold_right(schedule, users, &right, trials, fewest);
    let broke = if broke.is_empty() { broke } else { format!("; {broke}") };
    format!("With {users_named}, {} sold {what}{broke}.", listed(&right, schedule))
}

/// Describes what was sold by those that sold right, in how many trials. `fewest`: the fewest trials of one of them.
fn sold_right(schedule: &Schedule, users: u32, right: &[String], trials: &[Trial], fewest: u32) -> String {
    let each = if schedule.goods > 1 { " of each SKU" } else { "" };
    let stock_total = i64::from(schedule.stock) * i64::from(schedule.goods);
    let is_theirs = |trial: &&Trial| trial.users == users && right.contains(&trial.name());
    // Fewer units than the stock are right as well, if no more were asked for.
    let what = if trials.iter().filter(is_theirs).all(|trial| trial.audit.sold == stock_total) {
        format!("exactly the {}{each}", things(schedule.stock, "unit"))
    } else {
        "no unit too many and none too few".to_owned()
    };
    let times = if fewest == 1 { "the one trial".to_owned() } else { format!("each of {fewest} trials") };
    format!("{what} in {times}")
}

/// Writes two names, or how many there are.
fn listed(names: &[String], schedule: &Schedule) -> String {
    match names {
        [one] => one.clone(),
        [one, other] => format!("{one} and {other}"),
        many if schedule.pair().is_some() => format!("{} pairs of strategy and build", many.len()),
        many => format!("{} {}", many.len(), schedule.nouns().many),
    }
}

/// Describes each broken promise by its fault.
fn broken(level: &[&StrategyResult]) -> Vec<String> {
    let broken = level.iter().filter(|result| result.finding == Finding::Broken);
    broken.map(|result| format!("{} broke its promise: {}", result.name(), fault(result))).collect()
}

/// Describes the controls that sold wrongly, as expected.
fn controls(level: &[&StrategyResult]) -> Vec<String> {
    let is_control = |result: &&&StrategyResult| result.shown() != ExpectedFault::Nothing;
    let controls: Vec<String> =
        level.iter().filter(is_control).map(|result| format!("{} {}", result.name(), fault(result))).collect();
    match controls.as_slice() {
        [] => Vec::new(),
        [one] => vec![format!("The control sold wrongly, as expected: {one}")],
        many => vec![format!("The controls sold wrongly, as expected: {}", many.join(", "))],
    }
}

/// Names the strategies for which nothing is proved.
fn not_proved(level: &[&StrategyResult]) -> Vec<String> {
    let names = |is: &dyn Fn(&StrategyResult) -> bool| -> String {
        let those = level.iter().filter(|result| is(result));
        those.map(|result| result.name()).collect::<Vec<_>>().join(", ")
    };
    let is_safe = |result: &StrategyResult| !result.promise.is_of_control();
    let weak = names(&|result| result.finding == Finding::LoadTooWeak && !is_safe(result));
    let alone = names(&|result| result.finding == Finding::LoadTooWeak && is_safe(result));
    let mut lines = Vec::new();
    if !weak.is_empty() {
        lines.push(format!("The load was too weak to make {weak} sell wrongly"));
    }
    if !alone.is_empty() {
        lines.push(format!("No two buyers met under the lock of {alone}, so it had nothing to exclude"));
    }
    for (finding, why) in [
        (Finding::Inconclusive, "buyers got no decision, or a trial did not come to rest"),
        (Finding::Dropped, "too many arrivals were dropped, and their outcome is unknown"),
        (
            Finding::Failing,
            "the outcome of too many purchases is not known, and the times of the others say nothing about them",
        ),
    ] {
        let unknown = names(&|result| result.finding == finding);
        if !unknown.is_empty() {
            lines.push(format!("Nothing can be said of {unknown}: {why}"));
        }
    }
    lines
}

/// Writes the joint upper bound of the failure rates of all strategies that sold right. A bound that says nothing is left
/// out.
fn bound(level: &[&StrategyResult]) -> Option<String> {
    let right: Vec<(u32, u32)> =
        level.iter().filter(|result| result.is_comparable).map(|result| (result.bad_trials, result.trials)).collect();
    let bound = rate::joint_upper_95(&right).filter(|bound| rate::is_telling(*bound))?;
    let of_which = match (right.len(), level.len()) {
        (1, 1) => String::new(),
        (1, _) => " of the other".to_owned(),
        (right, all) if right == all => format!(" of each of the {right}"),
        (right, _) => format!(" of each of the other {right}"),
    };
    let together = if right.len() == 1 { "" } else { " for all of them together" };
    Some(format!("Failure rate{of_which}: below {} of the trials (95 % confidence{together})", format::percent(bound)))
}

/// Describes how one strategy sold wrongly.
fn fault(result: &StrategyResult) -> String {
    let size = |metric: &Metric| metric.value(result).filter(|value| *value != 0.0);
    let count = |metric: &Metric| size(metric).map(|value| metric.write(Some(value.abs())));
    if result.bad_trials == 0 {
        let parts = [
            count(&OVERLAPS).map(|overlaps| format!("let buyers in beside others {}", things(&overlaps, "time"))),
            count(&TOKEN_REGRESSIONS).map(|tokens| format!("gave {} not above all before", things(&tokens, "token"))),
            count(&TOKENS_OUT_OF_ORDER)
                .map(|orders| format!("let {} be written under an older token", things(&orders, "order"))),
        ];
        let of_lock: Vec<String> = parts.into_iter().flatten().collect();
        let of_lock = (!of_lock.is_empty()).then(|| format!("its lock {}", of_lock.join(", and ")));
        let of_batches = count(&OVERTAKEN_IN_BATCH)
            .map(|orders| format!("its batches sold {} after a later arrival", things(&orders, "order")));
        return of_lock.into_iter().chain(of_batches).collect::<Vec<_>>().join("; ");
    }
    let is_control = result.promise.is_of_control();
    let denied = || "told buyers something that the database refutes".to_owned();
    let how = if is_control && size(&UNBALANCED).is_some() {
        denied()
    } else if let Some(oversold) = count(&OVERSOLD) {
        format!("oversold by up to {} ({})", things(&oversold, "unit"), OVERSELL_RATE.text(result))
    } else if let Some(buyers) = count(&OVER_LIMIT) {
        format!("sold more than the limit to up to {}", things(&buyers, "buyer"))
    } else if let Some(undersold) = count(&UNDERSOLD) {
        format!("left up to {} that buyers wanted", things(&undersold, "unit"))
    } else if let Some(twice) = count(&DOUBLE_SALES) {
        format!("sold up to {} twice", things(&twice, "unit"))
    } else if let (Some(lost), None) = (count(&LOST_UPDATES), size(&UNBALANCED)) {
        format!("lost up to {}", things(&lost, "update"))
    } else if let (Some(orders), None) = (count(&OUT_OF_SEQUENCE), size(&UNBALANCED)) {
        format!("sold up to {} out of sequence", things(&orders, "order"))
    } else if let (Some(units), None) = (count(&MISPLACED), size(&UNBALANCED)) {
        format!("left up to {} in rows that disagree with the orders or the ledger", things(&units, "unit"))
    } else {
        denied()
    };
    let trials = if result.bad_trials == result.trials {
        "every trial".to_owned()
    } else {
        format!("{} of {}", result.bad_trials, things(result.trials, "trial"))
    };
    format!("{how} in {trials}")
}

fn speed(level: &[&StrategyResult]) -> Option<String> {
    let mut ranked: Vec<&StrategyResult> = level.iter().copied().filter(|result| result.rank.is_some()).collect();
    ranked.sort_by_key(|result| result.rank);
    let [fastest, .., slowest] = ranked.as_slice() else { return None };
    Some(format!("Fastest was {}, slowest {}.", median_and_ratio(fastest), median_and_ratio(slowest)))
}

/// Writes a strategy with its median and its ratio to the reference.
fn median_and_ratio(result: &StrategyResult) -> String {
    let median = format!("p50 {} ms", P50.text(result));
    match &result.reference {
        Some(reference) if result.ratio_to_reference.is_some() => {
            format!("{} ({median}, {} × {reference})", result.strategy, RATIO.text(result))
        }
        _ => format!("{} ({median})", result.strategy),
    }
}

fn herd(level: &[&StrategyResult]) -> Option<String> {
    let woken = |wakes: Wakes| {
        let of_kind = level.iter().filter(|result| result.wakes == wakes);
        let figures = of_kind.filter_map(|result| Some((*result, NOTIFICATIONS_PER_RELEASE.value(result)?)));
        figures.max_by(|a, b| a.1.total_cmp(&b.1))
    };
    let (all, _) = woken(Wakes::All)?;
    let (queue, _) = woken(Wakes::One)?;
    let [herd, one] = [all, queue].map(|result| NOTIFICATIONS_PER_RELEASE.text(result));
    Some(format!("A release of {} woke {herd} waiters on average, a release of a queue at most {one}.", all.name()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::audit::trial::Audit;
    use crate::judge::verdict::Verdict;
    use crate::report::{Report, fixture};

    fn verdict(trials: Vec<Trial>) -> Verdict {
        Report::of(fixture::findings(None, trials)).verdict
    }

    #[test]
    fn a_comparison_opens_with_what_came_out() {
        let Verdict { sentence, details, .. } = fixture::report().verdict;
        insta::assert_snapshot!(format!("{sentence}\n{}", details.join("\n")));
    }

    #[test]
    fn the_opening_has_at_most_three_sentences() {
        let mut broken = fixture::report().trials;
        broken.iter_mut().for_each(|trial| trial.audit.double_sales += 1);
        for trials in [fixture::report().trials, broken] {
            let sentence = verdict(trials).sentence;
            assert!(sentence.matches(". ").count() <= 2 && sentence.ends_with('.'), "{sentence}");
        }
    }

    #[test]
    fn a_broken_promise_is_told_in_the_opening_and_then_by_its_kind() {
        let told = |change: fn(&mut Audit)| {
            let mut trial = fixture::trial("pg-conditional", 0, 100, 100);
            change(&mut trial.audit);
            verdict(vec![trial])
        };
        for (verdict, expected) in [
            (told(|audit| audit.oversold = 3), "oversold by up to 3 units (3\u{202f}%) in every trial"),
            (told(|audit| audit.undersold = 2), "left up to 2 units that buyers wanted in every trial"),
            (told(|audit| audit.double_sales = 2), "sold up to 2 units twice in every trial"),
            (told(|audit| audit.lost_updates = -4), "lost up to 4 updates in every trial"),
            (told(|audit| audit.out_of_sequence = Some(5)), "sold up to 5 orders out of sequence in every trial"),
            (
                told(|audit| audit.misplaced = Some(6)),
                "left up to 6 units in rows that disagree with the orders or the ledger in every trial",
            ),
            (
                told(|audit| audit.orders_unexplained = 1),
                "told buyers something that the database refutes in every \
                                                          trial",
            ),
        ] {
            let opening = "With 300 users, no strategy was proved right; pg-conditional broke the promise.";
            assert_eq!(verdict.sentence, opening);
            assert_eq!(verdict.details[0], format!("pg-conditional broke its promise: {expected}"));
        }
    }

    #[test]
    fn a_lock_that_did_not_exclude_is_told_although_it_sold_right() {
        let mut trial = fixture::trial("zk-mutex", 0, 100, 100);
        trial.history.as_mut().unwrap().overlaps = Some(2);
        assert_eq!(
            verdict(vec![trial]).details[0],
            "zk-mutex broke its promise: its lock let buyers in beside others 2 times"
        );
    }

    #[test]
    fn a_holder_that_was_overtaken_is_told_although_it_sold_right() {
        let mut trial = fixture::trial("pg-conditional", 0, 100, 100);
        trial.audit.tokens_out_of_order = Some(3);
        assert_eq!(
            verdict(vec![trial]).details[0],
            "pg-conditional broke its promise: its lock let 3 orders be written under an older token"
        );
    }

    #[test]
    fn an_overtaken_buyer_is_told_although_the_batch_sold_right() {
        let mut trial = fixture::trial("pg-conditional", 0, 100, 100);
        trial.audit.overtaken_in_batch = Some(2);
        assert_eq!(
            verdict(vec![trial.clone()]).details[0],
            "pg-conditional broke its promise: its batches sold 2 orders after a later arrival"
        );
        trial.audit.tokens_out_of_order = Some(3);
        assert_eq!(
            verdict(vec![trial]).details[0],
            "pg-conditional broke its promise: its lock let 3 orders be written under an older token; its batches sold 2 orders \
             after a later arrival"
        );
    }

    #[test]
    fn units_that_nobody_wanted_are_not_missed() {
        let mut trial = fixture::trial("zk-mutex", 0, 100, 60);
        trial.audit.undersold = 0;
        let sentence = verdict(vec![trial]).sentence;
        let expected = "With 300 users, zk-mutex sold no unit too many and none too few in";
        assert!(sentence.starts_with(expected), "{sentence}");
    }

    #[test]
    fn strategies_of_which_nothing_is_proved_are_told() {
        let weak = fixture::trial("unguarded", 0, 100, 100);
        let mut refused = fixture::trial("zk-mutex", 0, 100, 20);
        refused.audit.undersold = 0;
        refused.audit.unsold_undecided = 80;
        let details = verdict(vec![weak, refused]).details;
        assert!(details.contains(&"The load was too weak to make unguarded sell wrongly".to_owned()), "{details:?}");
        assert!(details.iter().any(|line| line.starts_with("Nothing can be said of zk-mutex")), "{details:?}");
    }

    #[test]
    fn the_bound_of_several_strategies_is_a_joint_one() {
        let trials = |strategies: &[&str]| -> Vec<Trial> {
            let of_block = |block| strategies.iter().map(move |name| fixture::trial(name, block, 100, 100));
            (0..9).flat_map(of_block).collect()
        };
        let bound = |strategies: &[&str]| verdict(trials(strategies)).details.pop().unwrap();
        assert_eq!(bound(&["zk-mutex"]), "Failure rate: below 28\u{202f}% of the trials (95 % confidence)");
        let of_three =
            "Failure rate of each of the 3: below 37\u{202f}% of the trials (95 % confidence for all of them together)";
        assert_eq!(bound(&["zk-naive", "zk-mutex", "pg-conditional"]), of_three);
    }

    #[test]
    fn a_bound_that_says_nothing_is_left_out() {
        assert_eq!(verdict(vec![fixture::trial("zk-mutex", 0, 100, 100)]).details, Vec::<String>::new());
    }

    #[test]
    fn without_a_trial_nothing_is_told() {
        assert_eq!(verdict(Vec::new()).sentence, "No trial was run to its end.");
    }
}
