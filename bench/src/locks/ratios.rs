//! The figures that the recipes are held to: ratios of figures that were measured within the same repetition.

use bench::{Goal, Ratio, Spread};
use stats::figures::count;
use stats::median;

use crate::results::{Figure, Results, cycles_per_s, notifications_per_release, p50_ms};
use crate::schedule::Load;
use crate::waiters::Waiters;

/// Without contention.
const UNCONTENDED: Load = Load::Contenders(1);
/// A moderate number of contenders.
const FEW: Load = Load::Contenders(30);
/// A large number of contenders.
const MANY: Load = Load::Contenders(1500);

/// Returns all ratios in the order of the report.
pub(crate) fn ratios(results: &Results, waiters: Option<&Waiters>) -> Vec<Ratio> {
    let mut ratios = vec![uncontended(results, "raw", 1.15), uncontended(results, "curator", 0.75)];
    let at_few = |name: &str, by: &str, goal| Ratio {
        name: format!("{name} ÷ {by}, cycles per second at {FEW}"),
        goal: Goal::AtLeast(goal),
        spread: paired(results, (name, FEW), (by, FEW), cycles_per_s),
    };
    for name in ["mutex", "handoff"] {
        ratios.extend([at_few(name, "curator", 2.0), at_few(name, "raw-write", 0.7)]);
    }
    let at_many = |name: &str, goal| Ratio {
        name: format!("{name} ÷ curator, cycles per second at {MANY}"),
        goal: Goal::AtLeast(goal),
        spread: paired(results, (name, MANY), ("curator", MANY), cycles_per_s),
    };
    ratios.extend([at_many("mutex", 2.5), at_many("handoff", 7.0), at_many("cohort", 100.0)]);
    ratios.push(Ratio {
        name: format!("handoff at {MANY} ÷ at {FEW}, cycles per second"),
        goal: Goal::AtLeast(0.85),
        spread: paired(results, ("handoff", MANY), ("handoff", FEW), cycles_per_s),
    });
    let bytes = |load| results.bytes_per_release("handoff", load);
    ratios.push(Ratio {
        name: format!("handoff at {MANY} ÷ at {FEW}, bytes per release"),
        goal: Goal::AtMost(1.1),
        spread: bytes(MANY).zip(bytes(FEW)).and_then(|(many, few)| Spread::of(&[many / few])),
    });
    ratios.push(notifications(results));
    if let Some(waiters) = waiters {
        let recipe = crate::waiters::RECIPE.name();
        ratios.push(Ratio {
            name: format!("waiters of {recipe} not served exactly once, of {} at once", count(waiters.waiters.into())),
            goal: Goal::AtMost(0.0),
            spread: waiters.missed().and_then(|missed| Spread::of(&[f64::from(missed)])),
        });
    }
    ratios
}

/// Returns the median time of our quickest queue without contention, divided by the median time of another implementation.
///
/// The quickest queue has the least median over all repetitions, and is the same in each of them. A new choice in every
/// repetition would choose the luckiest.
fn uncontended(results: &Results, reference: &str, limit: f64) -> Ratio {
    let ours = results.implementations().iter().filter(|implementation| implementation.is_our_queue());
    let medians = ours.filter_map(|implementation| {
        let p50s = results.by_repetition(implementation.name(), UNCONTENDED, p50_ms);
        Some((implementation.name(), median(&p50s.into_iter().flatten().collect::<Vec<_>>())?))
    });
    let best = medians.min_by(|one, other| one.1.total_cmp(&other.1)).map(|(name, _)| name);
    let which = best.map_or(String::new(), |best| format!(" ({best})"));
    Ratio {
        name: format!("best of ours{which} ÷ {reference}, p50 uncontended"),
        goal: Goal::AtMost(limit),
        spread: best.and_then(|best| paired(results, (best, UNCONTENDED), (reference, UNCONTENDED), p50_ms)),
    }
}

/// Returns the most watch events that a release of a queue of ours makes, over all numbers of contenders.
fn notifications(results: &Results) -> Ratio {
    let ours = results.implementations().iter().filter(|implementation| implementation.is_our_queue());
    let worst = ours
        .flat_map(|implementation| results.loads().iter().map(|load| (implementation.name(), *load)))
        .filter_map(|(name, load)| {
            let figures = results.by_repetition(name, load, notifications_per_release);
            Some((name, load, Spread::of(&figures.into_iter().flatten().collect::<Vec<_>>())?))
        })
        .max_by(|one, other| one.2.median.total_cmp(&other.2.median));
    let which = worst.map_or(String::new(), |(name, load, _)| format!(" ({name} at {load})"));
    Ratio {
        name: format!("notifications per release, most of any queue of ours{which}"),
        goal: Goal::AtMost(1.0),
        spread: worst.map(|(_, _, spread)| spread),
    }
}

/// Returns the quotients of a figure, over the repetitions that have both.
pub(crate) fn paired(results: &Results, of: (&str, Load), by: (&str, Load), figure: Figure) -> Option<Spread> {
    let dividends = results.by_repetition(of.0, of.1, figure);
    let divisors = results.by_repetition(by.0, by.1, figure);
    let pairs = dividends.into_iter().zip(divisors).filter_map(|(dividend, divisor)| dividend.zip(divisor));
    Spread::of(
        &pairs.filter(|(_, divisor)| *divisor > 0.0).map(|(dividend, divisor)| dividend / divisor).collect::<Vec<_>>(),
    )
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::protocol::Drained;
    use crate::results::tests::{results, step, window};
    use crate::schedule::Repetition;
    use crate::window::Exchange;

    fn named<'a>(ratios: &'a [Ratio], beginning: &str) -> &'a Ratio {
        ratios.iter().find(|ratio| ratio.name.starts_with(beginning)).unwrap()
    }

    #[test]
    fn a_ratio_pairs_the_figures_of_each_repetition() {
        let results = results(&[
            ("mutex", 1500, &[(1000, 1), (3000, 1), (2000, 1)]),
            ("curator", 1500, &[(500, 1), (1000, 1), (400, 1)]),
        ]);
        let ratios = ratios(&results, None);
        let ratio = named(&ratios, "mutex ÷ curator, cycles per second at 1500");
        assert_eq!(ratio.spread, Some(Spread { median: 3.0, min: 2.0, max: 5.0 }));
        assert!(ratio.goal.is_met(3.0));
    }

    #[test]
    fn the_best_of_ours_is_chosen_once_without_the_naive_lock() {
        let results = results(&[
            ("mutex", 1, &[(100, 300), (100, 210), (100, 300)]),
            ("write", 1, &[(100, 220), (100, 220), (100, 500)]),
            ("naive", 1, &[(100, 100), (100, 100), (100, 100)]),
            ("raw", 1, &[(100, 200), (100, 200), (100, 200)]),
        ]);
        let ratios = ratios(&results, None);
        let ratio = &ratios[0];
        assert_eq!(ratio.name, "best of ours (write) ÷ raw, p50 uncontended");
        let spread = ratio.spread.unwrap();
        assert!((spread.median - 1.1).abs() < 0.01 && (spread.max - 2.5).abs() < 0.01, "{spread:?}");
    }

    #[test]
    fn what_was_not_measured_has_no_ratio() {
        let results = results(&[("raw", 1, &[(100, 200)])]);
        assert!(ratios(&results, None).iter().all(|ratio| ratio.spread.is_none()));
    }

    #[test]
    fn the_queue_with_the_most_notifications_is_named() {
        let mut results = results(&[("mutex", 30, &[(1, 1)]), ("write", 30, &[(1, 1)]), ("naive", 30, &[(1, 1)])]);
        for (name, notifications) in [("mutex", 98), ("write", 100), ("naive", 300)] {
            let exchange = Exchange { cycles: 100.0, notifications: Some(notifications), ..Exchange::default() };
            results.measured(step(Repetition::Timed(0), name, 30), window(100, 1, exchange));
        }
        let ratios = ratios(&results, None);
        let ratio = named(&ratios, "notifications");
        assert_eq!(ratio.name, "notifications per release, most of any queue of ours (write at 30)");
        assert_eq!(ratio.spread, Spread::of(&[1.0]));
    }

    #[test]
    fn waiters_count_as_served_when_each_had_a_token_of_its_own() {
        let drained = Drained { served: 50, tokens: 49, ..Drained::default() };
        let waiters = Waiters { waiters: 50, sessions: 1, outcome: Ok((Duration::ZERO, drained)) };
        let ratios = ratios(&results(&[]), Some(&waiters));
        let ratio = ratios.last().unwrap();
        assert_eq!(ratio.spread, Spread::of(&[1.0]));
        assert!(!ratio.goal.is_met(1.0));
    }
}
