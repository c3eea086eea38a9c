//! The search for a capacity on simulated queues, whose capacity is known. All chance comes from seeds.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking, wherever it does")]

use std::time::Duration;

use proptest::prelude::*;
use stats::as_f64;
use stats::capacity::{Capacity, CapacityEnd, Goal, NextLoad, Search, shortest_length, width_for};

/// Requests per second that a queue can serve.
const SERVED: f64 = 1000.0;
/// The latency in seconds from which a request is late.
const LATE: f64 = 0.05;
/// Length in seconds of the trials that decide.
const LENGTH: f64 = 2.0;

/// Numbers that look random (`splitmix64`).
struct Dice(u64);

impl Dice {
    fn number(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// Draws from the interval from 0 to below 1.
    fn share(&mut self) -> f64 {
        as_f64(self.number() >> 11) / as_f64(1_u64 << 53)
    }

    /// Draws from the exponential distribution with mean 1.
    fn exponential(&mut self) -> f64 {
        -(1.0 - self.share()).ln()
    }
}

/// A queue with one server, by its arrivals and its service.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Queue {
    /// Arrivals and service at equal intervals.
    Paced,
    /// Random arrivals, equal service: M/D/1.
    EqualService,
    /// Random arrivals, random service: M/M/1.
    RandomService,
}

/// Returns the requests of a trial, and how many of them are late.
fn offered_and_late(queue: Queue, rate: f64, seconds: f64, late: f64, dice: &mut Dice) -> (u64, u64) {
    let mut counts = (0, 0);
    let mut now = 0.0;
    let mut free_at = 0.0_f64;
    loop {
        now += if queue == Queue::Paced { 1.0 } else { dice.exponential() } / rate;
        if now > seconds {
            return counts;
        }
        let service = if queue == Queue::RandomService { dice.exponential() } else { 1.0 };
        free_at = free_at.max(now) + service / SERVED;
        counts.0 += 1;
        counts.1 += u64::from(free_at - now > late);
    }
}

/// Returns the rate at which half of the full-length trials have more than 1 % late requests.
///
/// With one seed, more requests are late at a higher rate. So each seed has a rate at which its trial becomes bad, and the
/// median of these rates is the one at which half of the trials are.
fn capacity_of(queue: Queue) -> f64 {
    let seeds = if queue == Queue::Paced { 1 } else { 301 };
    let becomes_bad = |seed: u64| {
        let mut low = 0.5 * SERVED;
        let mut high = 2.0 * SERVED;
        while high - low > 0.5 {
            let rate = f64::midpoint(low, high);
            let (offered, late) = offered_and_late(queue, rate, LENGTH, LATE, &mut Dice(seed << 32));
            if 100 * late > offered {
                high = rate;
            } else {
                low = rate;
            }
        }
        high
    };
    stats::median(&(0..seeds).map(becomes_bad).collect::<Vec<_>>()).unwrap()
}

fn goal(loss_ratio: f64) -> Goal {
    Goal {
        loss_ratio,
        exceed_ratio: 0.5,
        first_length: Duration::from_secs_f64(LENGTH / 4.0),
        length: Duration::from_secs_f64(LENGTH),
        duration_sum: Duration::from_secs_f64(LENGTH * 9.0),
        width: width_for(0.05),
    }
}

/// What a simulated trial tells: the requests, and how many each goal counts as lost. `None`: the generator was the limit.
type Losses = Option<(u64, Vec<u64>)>;

/// Runs a search to its end, and returns its results with the number of trials.
fn run(mut search: Search, mut measure: impl FnMut(NextLoad) -> Losses) -> (Vec<Capacity>, u64) {
    let mut trials = 0;
    while let Some(load) = search.next_load() {
        match measure(load) {
            Some((offered, lost)) => search.add(offered, |goal| lost[goal]),
            None => search.add_client_limited(),
        }
        trials += 1;
        assert!(trials <= search.trials_max(), "{trials} trials");
    }
    (search.capacities(), trials)
}

/// Returns a shop that loses nothing up to a rate, and everything above it.
fn up_to(rate: f64) -> impl FnMut(NextLoad) -> Losses {
    move |load| Some((100, vec![if load.rate > rate { 100 } else { 0 }; 3]))
}

fn is_within(capacity: &Capacity, rate: f64) -> bool {
    capacity.lower.unwrap() <= rate && rate <= capacity.upper.unwrap()
}

/// Returns the share of 200 searches whose interval contains the capacity.
fn covered(queue: Queue) -> f64 {
    let truth = capacity_of(queue);
    let mut covered = 0_u32;
    let mut most_trials = 0;
    for seed in 0..200_u32 {
        let mut dice = Dice(u64::from(seed));
        // The capacity lies anywhere between two loads of the grid.
        let lowest = 20.0 + dice.share() * 20.0;
        let (found, trials) = run(Search::new(&[goal(0.01)], lowest, 20_000.0).unwrap(), |load| {
            let (offered, late) = offered_and_late(queue, load.rate, load.length.as_secs_f64(), LATE, &mut dice);
            Some((offered, vec![late]))
        });
        let [found] = found[..] else { panic!("{found:?}") };
        assert_eq!((found.end, found.trial_seconds), (CapacityEnd::Bounded, LENGTH));
        let low = found.low.unwrap();
        let high = found.high.unwrap();
        assert!(high * 0.95 <= low * 1.05 + 1e-6, "{found:?}");
        covered += u32::from((low..=high).contains(&truth));
        most_trials = trials.max(most_trials);
    }
    assert!(most_trials < 100, "{most_trials} trials");
    f64::from(covered) / 200.0
}

// C45
#[test]
fn a_paced_queue_lies_within_the_interval_of_every_search() {
    let share = covered(Queue::Paced);
    assert!(share > 0.999, "{share}");
}

// C45
#[test]
fn equal_service_lies_within_the_interval_of_most_searches() {
    let share = covered(Queue::EqualService);
    assert!(share >= 0.92, "{share}");
}

// C45
#[test]
fn random_service_lies_within_the_interval_of_most_searches() {
    let share = covered(Queue::RandomService);
    assert!(share >= 0.92, "{share}");
}

#[test]
fn a_simulated_queue_has_the_latencies_of_the_formula() {
    // In an M/M/1 queue, a request is later than t with probability exp(-t · (served - rate)).
    let rate = SERVED - 100.0_f64.ln() / 0.01;
    let (offered, late) = offered_and_late(Queue::RandomService, rate, 500.0, 0.01, &mut Dice(1));
    let share = as_f64(late) / as_f64(offered);
    assert!((0.009..0.011).contains(&share), "{share}");
}

#[test]
fn a_longer_trial_puts_a_paced_queue_nearer_to_its_rate() {
    let limit = Duration::from_secs_f64(LATE);
    let shortest = shortest_length(limit, 0.05, 0.01);
    assert!((shortest.as_secs_f64() - LATE / (0.05 * 0.99)).abs() < 1e-6);
    // Trials of `LENGTH` are n times as long as the shortest.
    let n = LENGTH / shortest.as_secs_f64();
    let above = capacity_of(Queue::Paced) / SERVED - 1.0;
    assert!((above - 0.05 / n).abs() < 0.001, "{above}");
    assert_eq!(shortest_length(limit, 0.0, 0.01), Duration::MAX);
}

#[test]
fn goals_share_their_trials() {
    let goals = [goal(0.001), goal(0.01), goal(0.1)];
    let search_for = |goals: &[Goal]| {
        let mut dice = Dice(3);
        run(Search::new(goals, 20.0, 20_000.0).unwrap(), |load| {
            let seconds = load.length.as_secs_f64();
            let (offered, late) = offered_and_late(Queue::EqualService, load.rate, seconds, LATE, &mut dice);
            Some((offered, vec![late; goals.len()]))
        })
    };
    let (found, together) = search_for(&goals);
    let apart: u64 = goals.iter().map(|goal| search_for(std::slice::from_ref(goal)).1).sum();
    assert!(together * 3 < apart * 2, "{together} trials together, {apart} apart");
    assert!(found.iter().all(|found| found.end == CapacityEnd::Bounded), "{found:?}");
    assert!(found.windows(2).all(|pair| pair[0].lower <= pair[1].lower), "{found:?}");
}

#[test]
fn no_rate_holds_where_the_lowest_fails() {
    let (found, trials) = run(Search::new(&[goal(0.01)], 10.0, 1000.0).unwrap(), up_to(5.0));
    assert_eq!((found[0].end, found[0].lower, found[0].upper), (CapacityEnd::NoRateHolds, None, Some(10.0)));
    assert_eq!(found[0].throughput, None);
    assert!(trials < 12, "{trials}");
}

#[test]
fn a_capacity_may_lie_above_the_highest_rate() {
    let (found, _) = run(Search::new(&[goal(0.01)], 10.0, 1000.0).unwrap(), up_to(2000.0));
    assert_eq!((found[0].end, found[0].lower, found[0].upper), (CapacityEnd::AboveHighest, Some(1000.0), None));
    assert_eq!(found[0].throughput, Some(1000.0));
}

#[test]
fn a_generator_at_its_limit_leaves_the_upper_bound_open() {
    let (found, _) = run(Search::new(&[goal(0.01)], 10.0, 1000.0).unwrap(), |load| {
        if load.rate > 300.0 { None } else { up_to(2000.0)(load) }
    });
    assert_eq!((found[0].end, found[0].upper), (CapacityEnd::ClientLimited, None));
    assert!(found[0].lower.unwrap() > 250.0 && found[0].lower.unwrap() <= 300.0, "{found:?}");
    let (found, trials) = run(Search::new(&[goal(0.01)], 10.0, 1000.0).unwrap(), |_| Some((0, vec![0])));
    assert_eq!((found[0].end, found[0].lower, trials), (CapacityEnd::ClientLimited, None, 3));
}

#[test]
fn a_shop_below_the_limit_of_the_generator_is_still_found() {
    let mut calls = 0;
    let (found, _) = run(Search::new(&[goal(0.01)], 10.0, 1000.0).unwrap(), |load| {
        calls += 1;
        // Every fifth trial is disturbed, and all trials far above the capacity are.
        if load.rate > 260.0 || calls % 5 == 0 { None } else { up_to(200.0)(load) }
    });
    assert_eq!(found[0].end, CapacityEnd::Bounded);
    assert!(is_within(&found[0], 200.0), "{found:?}");
}

#[test]
fn a_search_that_is_left_early_tells_its_wide_bounds() {
    let mut search = Search::new(&[goal(0.01)], 10.0, 1000.0).unwrap();
    assert_eq!(search.capacities()[0].end, CapacityEnd::Unfinished);
    while let Some(load) = search.next_load().filter(|load| load.length == Duration::from_millis(500)) {
        let lost = up_to(200.0)(load).unwrap().1;
        search.add(100, |goal| lost[goal]);
    }
    let found = search.capacities()[0];
    assert_eq!((found.end, found.trial_seconds), (CapacityEnd::Unfinished, 0.5));
    assert!(is_within(&found, 200.0) && found.upper.unwrap() < 1.6 * found.lower.unwrap(), "{found:?}");
}

#[test]
fn a_search_needs_a_range_and_sound_goals() {
    let refused = |goals: &[Goal], lowest, highest| Search::new(goals, lowest, highest).unwrap_err().to_string();
    let second = Duration::from_secs(1);
    let good = goal(0.01);
    for (goal, part) in [
        (goal(1.0), "its loss ratio is 1: name one from 0"),
        (goal(f64::NAN), "its loss ratio is NaN"),
        (Goal { exceed_ratio: 1.0, ..good }, "exceed ratio"),
        (Goal { width: 0.0, ..good }, "its width is 0: name one from 0.001"),
        (Goal { first_length: Duration::ZERO, ..good }, "at 10 per second, 0ns have no request: raise"),
        (Goal { first_length: 3 * second, ..good }, "longer than the last: name at most 2s"),
        (Goal { duration_sum: second, ..good }, "shorter than a trial: name at least 2s"),
        (Goal { first_length: second / 20, ..good }, "at 10 per second, 50ms have no request: raise"),
    ] {
        let told = refused(&[good, goal], 10.0, 1000.0);
        assert!(told.starts_with("goal 2: ") && told.contains(part), "{told}");
    }
    assert!(refused(&[], 10.0, 1000.0).contains("name at least one"));
    for (lowest, highest) in [(0.0, 1.0), (2.0, 2.0), (3.0, 2.0), (f64::NAN, 1.0), (1.0, f64::INFINITY)] {
        assert!(refused(&[good], lowest, highest).contains("no rate lies between"));
    }
}

proptest! {
    #[test]
    fn a_shop_without_noise_lies_within_its_bounds(
        capacity in 1.5_f64..9000.0,
        width in 0.01_f64..0.6,
        length in 1_u64..20,
        more in 0_u64..60,
    ) {
        let duration_sum = Duration::from_secs(length + more);
        let first_length = Duration::from_secs(1);
        let goal = Goal { width, first_length, length: Duration::from_secs(length), duration_sum, ..goal(0.01) };
        let mut highest = 0.5;
        let (found, _) = run(Search::new(&[goal], 1.0, 10_000.0).unwrap(), |load| {
            // The search never more than doubles the rate, unless its loads are further apart.
            assert!(load.rate <= f64::max(2.0, 1.0 / (1.0 - width)) * highest + 1e-6, "{load:?} after {highest}");
            highest = load.rate.max(highest);
            up_to(capacity)(load)
        });
        prop_assert_eq!(found[0].end, CapacityEnd::Bounded);
        prop_assert!(is_within(&found[0], capacity), "{:?}", found);
        prop_assert!(1.0 - found[0].lower.unwrap() / found[0].upper.unwrap() <= width + 1e-9);
        prop_assert_eq!(found[0].throughput, found[0].lower);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(32))]

    // `run` asserts that the number of trials has its upper bound.
    #[test]
    fn a_search_ends_whatever_the_noise(seed: u64, loss in 0.0_f64..1.0, first in 1_u64..4, second in 1_u64..9) {
        let one = Goal { first_length: Duration::from_secs(1), length: Duration::from_secs(first), ..goal(0.5) };
        let other = Goal {
            exceed_ratio: 0.2,
            first_length: Duration::from_secs(1),
            length: Duration::from_secs(second),
            duration_sum: Duration::from_secs(9 * second),
            width: 0.15,
            ..goal(0.3)
        };
        let mut dice = Dice(seed);
        let (found, _) = run(Search::new(&[one, other], 1.0, 3000.0).unwrap(), |_| {
            let is_bad = dice.share() < loss;
            (!dice.number().is_multiple_of(20)).then(|| (100, vec![if is_bad { 60 } else { 40 }, if is_bad { 40 } else { 20 }]))
        });
        prop_assert!(found.iter().all(|found| found.end != CapacityEnd::Unfinished), "{:?}", found);
    }

    #[test]
    fn a_goal_that_allows_more_loss_has_higher_bounds(seed: u64) {
        let goals = [goal(0.001), goal(0.01), goal(0.1)];
        let mut dice = Dice(seed);
        let (found, _) = run(Search::new(&goals, 10.0, 10_000.0).unwrap(), |load| {
            // Between 300 and 3000 per second, anything may happen.
            let lost = (load.rate / 300.0).ln() / 10_f64.ln() > dice.share();
            Some((1000, vec![if lost { dice.number() % 300 } else { 0 }; 3]))
        });
        for pair in found.windows(2) {
            prop_assert!(pair[0].lower <= pair[1].lower, "{:?}", pair);
            prop_assert!(pair[0].upper.unwrap() <= pair[1].upper.unwrap_or(f64::INFINITY), "{:?}", pair);
        }
    }
}
