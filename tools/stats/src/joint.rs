//! Tests many figures of two sides at once, exactly.
//!
//! If both sides measured the same thing, it is chance which unit (a run, or a block) stands on which side. So every
//! division of the units into two sides is tried, and a figure is significant if few divisions have *any* figure that
//! differs as much. This is Westfall and Young's step-down method with the largest statistic. The chance that any figure of
//! all is called different by mistake is at most the level, however the figures depend on each other.
//!
//! Units may come in pairs, one for each side. Then a division only swaps the two units of some pairs, so that effects on
//! both units of a pair cancel out.

use rand::rngs::ChaCha8Rng;
use rand::seq::SliceRandom;
use rand::{RngExt, SeedableRng};

use super::as_f64;

/// Upper bound of the divisions that are all tried: eight and eight units have 12 870.
const ALL_MAX: f64 = 20_000.0;
/// Number of random divisions where there are more.
const DRAWN: usize = 10_000;
/// Differences below this are rounding.
const ROUNDING: f64 = 1e-9;

/// A figure in the units of both sides. A unit may lack it.
#[derive(Debug, Clone, PartialEq)]
pub struct SidesFigure {
    /// The units of the first side.
    pub first: Vec<Option<f64>>,
    /// The units of the second side.
    pub second: Vec<Option<f64>>,
}

/// The result of the test of one figure.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Tested {
    /// Two-sided p, corrected for all figures that were tested with it.
    pub p: f64,
    /// Whether the mean of the first side is the larger one.
    pub first_is_larger: bool,
}

/// Tests whether figures differ between two sides. All of them have the same units in the same order.
pub fn test(figures: &[SidesFigure], seed: u64) -> Vec<Tested> {
    let Some(some) = figures.first() else { return Vec::new() };
    let taken = some.first.len();
    let scores: Vec<Vec<f64>> = figures.iter().map(scores).collect();
    step_down(&scores, taken, |visit| for_each_division(taken + some.second.len(), taken, seed, visit))
}

/// Tests whether figures differ between the two units of each pair. The first unit of the first side and the first unit of
/// the second side are a pair, and so on. A pair of which a unit lacks a figure says nothing about it.
pub fn test_pairs(figures: &[SidesFigure], seed: u64) -> Vec<Tested> {
    let Some(pairs) = figures.first().map(|figure| figure.first.len()) else { return Vec::new() };
    let scores: Vec<Vec<f64>> = figures.iter().map(scores_of_pairs).collect();
    step_down(&scores, pairs, |visit| for_each_swap(pairs, seed, visit))
}

/// Counts the divisions in which some figure of this rank or a lower one differs at least as much as observed. The first
/// `taken` units stand on the first side, and the scores of a side are added up.
fn step_down(scores: &[Vec<f64>], taken: usize, divide: impl FnOnce(&mut dyn FnMut(&[usize]))) -> Vec<Tested> {
    let sum = |figure: usize, chosen: &[usize]| chosen.iter().map(|unit| scores[figure][*unit]).sum::<f64>();
    let observed: Vec<f64> = (0..scores.len()).map(|figure| scores[figure][..taken].iter().sum()).collect();
    let mut order: Vec<usize> = (0..scores.len()).collect();
    order.sort_by(|a, b| observed[*b].abs().total_cmp(&observed[*a].abs()));
    let mut divisions = 0_u64;
    let mut as_large = vec![0_u64; scores.len()];
    divide(&mut |chosen| {
        divisions += 1;
        let mut largest = 0.0_f64;
        // A figure competes with those that differ less.
        for figure in order.iter().rev() {
            largest = largest.max(sum(*figure, chosen).abs());
            // The division that was observed has to count, whatever its rounding.
            as_large[*figure] += u64::from(largest >= observed[*figure].abs() - ROUNDING);
        }
    });
    let mut tested = vec![Tested { p: 1.0, first_is_larger: false }; scores.len()];
    let mut p = 0.0_f64;
    for figure in order {
        // A figure that differs less never has a smaller p than one that differs more.
        p = p.max(as_f64(as_large[figure]) / as_f64(divisions));
        tested[figure] = Tested { p, first_is_larger: observed[figure] > 0.0 };
    }
    tested
}

/// Returns the smallest p that these numbers of units can give.
pub fn p_min(first: usize, second: usize) -> f64 {
    // With as many units on both sides, the opposite division differs as much.
    let as_large = if first == second { 2.0 } else { 1.0 };
    (as_large / ways(first + second, first)).min(1.0)
}

/// Returns the smallest p that this number of pairs can give.
pub fn p_min_of_pairs(pairs: usize) -> f64 {
    // The opposite division differs as much.
    (2.0 / swaps(pairs)).min(1.0)
}

/// Returns the deviations of the units from their mean, in parts of their norm. The sum of those of one side grows with the
/// difference of the means, and is comparable between figures. A unit that lacks the figure counts as the mean.
fn scores(figure: &SidesFigure) -> Vec<f64> {
    let values = || figure.first.iter().chain(&figure.second);
    let count = as_f64(values().flatten().count());
    let mean = values().flatten().sum::<f64>() / count;
    let deviations: Vec<f64> = values().map(|value| value.map_or(0.0, |value| value - mean)).collect();
    let norm = deviations.iter().map(|deviation| deviation * deviation).sum::<f64>().sqrt();
    // Divided by its norm, a difference that is only rounding would look as large as any other.
    let varies = norm > ROUNDING * mean.abs();
    deviations.into_iter().map(|deviation| if varies { deviation / norm } else { 0.0 }).collect()
}

/// Returns the differences within the pairs, in parts of their norm. First come those of the units as they stand, then those
/// with swapped pairs.
fn scores_of_pairs(figure: &SidesFigure) -> Vec<f64> {
    let pairs = figure.first.iter().zip(&figure.second);
    let differences: Vec<f64> = pairs.map(|(first, second)| first.zip(*second).map_or(0.0, |(a, b)| a - b)).collect();
    let largest =
        figure.first.iter().chain(&figure.second).flatten().fold(0.0_f64, |most, value| most.max(value.abs()));
    let norm = differences.iter().map(|difference| difference * difference).sum::<f64>().sqrt();
    let varies = norm > ROUNDING * largest;
    let scores = differences.iter().map(|difference| if varies { difference / norm } else { 0.0 });
    scores.clone().chain(scores.map(|score| -score)).collect()
}

/// Calls `visit` with the units of the first side for every way to swap some pairs, or for random ways and
/// the first one. The units of the second side follow those of the first one.
fn for_each_swap(pairs: usize, seed: u64, visit: &mut dyn FnMut(&[usize])) {
    let first_side = |is_changed: &mut dyn FnMut(usize) -> bool| -> Vec<usize> {
        (0..pairs).map(|pair| if is_changed(pair) { pair + pairs } else { pair }).collect()
    };
    if swaps(pairs) > ALL_MAX {
        // The observed one is among the random ones, so that no p is zero.
        visit(&first_side(&mut |_| false));
        let mut random = ChaCha8Rng::seed_from_u64(seed);
        (0..DRAWN).for_each(|_| visit(&first_side(&mut |_| random.random())));
        return;
    }
    (0_u32..1 << pairs).for_each(|changed| visit(&first_side(&mut |pair| changed >> pair & 1 == 1)));
}

/// Returns the number of ways to swap some pairs.
fn swaps(pairs: usize) -> f64 {
    2.0_f64.powi(i32::try_from(pairs).unwrap_or(i32::MAX))
}

/// Calls `visit` with the units of the first side for every way to divide the units, or for random ways and the first one.
fn for_each_division(units: usize, taken: usize, seed: u64, visit: &mut dyn FnMut(&[usize])) {
    let mut chosen: Vec<usize> = (0..taken).collect();
    if ways(units, taken) > ALL_MAX {
        visit(&chosen);
        let mut random = ChaCha8Rng::seed_from_u64(seed);
        let mut all: Vec<usize> = (0..units).collect();
        for _ in 0..DRAWN {
            visit(all.partial_shuffle(&mut random, taken).0);
        }
        return;
    }
    // The combinations in lexical order: the last unit that can move does, and those after it follow closely.
    loop {
        visit(&chosen);
        let Some(position) = (0..taken).rev().find(|position| chosen[*position] < units - taken + *position) else {
            return;
        };
        chosen[position] += 1;
        for later in position + 1..taken {
            chosen[later] = chosen[later - 1] + 1;
        }
    }
}

/// Returns the number of ways to take some of the units.
fn ways(units: usize, taken: usize) -> f64 {
    (1..=taken).map(|i| as_f64(units - taken + i) / as_f64(i)).product()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn figure(first: &[f64], second: &[f64]) -> SidesFigure {
        let some = |values: &[f64]| values.iter().copied().map(Some).collect();
        SidesFigure { first: some(first), second: some(second) }
    }

    #[test]
    fn every_division_is_tried_once() {
        let mut seen = Vec::new();
        for_each_division(4, 2, 1, &mut |chosen| seen.push([chosen[0], chosen[1]]));
        assert_eq!(seen, [[0, 1], [0, 2], [0, 3], [1, 2], [1, 3], [2, 3]]);
        assert!((ways(16, 8) - 12_870.0).abs() < 1e-6);
    }

    #[test]
    fn sides_far_apart_have_the_smallest_p() {
        let tested = test(&[figure(&[9.0, 9.1, 9.2, 9.3], &[1.0, 1.1, 1.2, 1.3])], 1)[0];
        assert!((tested.p - 2.0 / 70.0).abs() < 1e-12 && tested.first_is_larger, "{tested:?}");
        assert!((p_min(4, 4) - 2.0 / 70.0).abs() < 1e-12);
        assert!((p_min(1, 1) - 1.0).abs() < 1e-12 && p_min(3, 3) > 0.05 && p_min(0, 3) >= 1.0);
    }

    #[test]
    fn every_swap_is_tried_once() {
        let mut seen = Vec::new();
        for_each_swap(2, 1, &mut |chosen| seen.push([chosen[0], chosen[1]]));
        assert_eq!(seen, [[0, 1], [2, 1], [0, 3], [2, 3]]);
    }

    // C13
    #[test]
    fn pairs_find_what_is_hidden_by_the_weather_of_blocks() {
        let speed = [1.0, 9.0, 3.0, 7.0, 2.0, 5.0];
        let [fast, slow] = [0.0, 0.2].map(|slower| speed.map(|value| value + slower));
        let figure = [figure(&slow, &fast)];
        assert!(test(&figure, 1)[0].p > 0.5, "the sides overlap");
        let tested = test_pairs(&figure, 1)[0];
        assert!((tested.p - 2.0 / 64.0).abs() < 1e-12 && tested.first_is_larger, "{tested:?}");
        assert!((p_min_of_pairs(6) - 2.0 / 64.0).abs() < 1e-12 && p_min_of_pairs(5) > 0.05 && p_min_of_pairs(0) >= 1.0);
    }

    #[test]
    fn pairs_without_a_difference_or_a_value_say_nothing() {
        let same = figure(&[1.0, 2.0, 0.1 + 0.2], &[1.0, 2.0, 0.3]);
        let missing = SidesFigure { first: vec![None; 3], second: vec![Some(1.0); 3] };
        assert!(test_pairs(&[same, missing], 1).iter().all(|tested| tested.p >= 1.0));
        assert_eq!(test_pairs(&[], 1), []);
    }

    #[test]
    fn a_swap_of_too_many_pairs_is_drawn() {
        let near: Vec<f64> = (0..40).map(|i| f64::from(i % 7)).collect();
        let mixed: Vec<f64> = near.iter().zip(0..).map(|(value, i)| value + f64::from(i % 2) - 0.5).collect();
        let away: Vec<f64> = near.iter().map(|value| value + 0.1).collect();
        let tested = test_pairs(&[figure(&mixed, &near), figure(&away, &near)], 1);
        assert!(tested[0].p > 0.5 && tested[1].p < 0.001, "{tested:?}");
    }

    #[test]
    fn a_large_difference_holds_among_many_figures() {
        let small = |shift: f64| figure(&[1.0, 2.0 + shift, 3.0, 4.0], &[2.0, 1.0, 4.0 + shift, 3.0]);
        let mut figures: Vec<SidesFigure> = (0..40).map(|i| small(f64::from(i) / 10.0)).collect();
        figures.push(figure(&[1.30, 1.31, 1.32, 1.33], &[1.0, 1.01, 1.02, 1.03]));
        let tested = test(&figures, 1);
        assert!(tested[40].p < 0.05, "{:?}", tested[40]);
        assert!(tested[..40].iter().all(|tested| tested.p > 0.5), "{tested:?}");
    }

    #[test]
    fn a_constant_says_nothing_and_a_missing_value_little() {
        let constant = figure(&[0.1 + 0.2; 4], &[0.3; 4]);
        let missing = SidesFigure { first: vec![None; 4], second: vec![Some(1.0); 4] };
        assert!(test(&[constant, missing], 1).iter().all(|tested| tested.p >= 1.0));
        assert_eq!(test(&[], 1), []);
    }

    #[test]
    fn too_many_divisions_are_drawn() {
        let far: Vec<f64> = (0..20).map(f64::from).collect();
        let near: Vec<f64> = far.iter().map(|value| value + 0.5).collect();
        let away: Vec<f64> = far.iter().map(|value| value + 30.0).collect();
        let tested = test(&[figure(&near, &far), figure(&away, &far)], 1);
        assert!(tested[0].p > 0.5 && tested[1].p < 0.001, "{tested:?}");
    }

    // Both units of a pair have the same noise and stand where chance put them. So of all ways to divide them, at most one in
    // twenty finds any figure that differs.
    // C13
    #[test]
    fn at_most_one_placement_in_twenty_finds_a_difference() {
        let figures: Vec<[[f64; 2]; 8]> = (1..=5)
            .map(|figure| {
                std::array::from_fn(|pair| {
                    let unit = |side: u32| {
                        f64::from((u32::try_from(pair).unwrap() * 37 + figure * 11 + side * 53) % 29).sqrt()
                    };
                    [unit(0), unit(1)]
                })
            })
            .collect();
        let placed = |changed: u32, pairs: &[[f64; 2]; 8]| {
            let side =
                |side: usize| (0..8).map(|pair| Some(pairs[pair][side ^ (changed >> pair & 1) as usize])).collect();
            SidesFigure { first: side(0), second: side(1) }
        };
        let finds = |changed: &u32| {
            let figures: Vec<SidesFigure> = figures.iter().map(|pairs| placed(*changed, pairs)).collect();
            test_pairs(&figures, 1).iter().any(|tested| tested.p < 0.05)
        };
        let found = (0_u32..256).filter(finds).count();
        assert!((1..=12).contains(&found), "{found} of 256");
    }

    proptest! {
        #[test]
        fn a_p_is_a_multiple_of_what_one_division_weighs(
            values in prop::collection::vec(prop::array::uniform8(-100_i32..100), 1..5),
        ) {
            let figures: Vec<SidesFigure> = values.iter().map(|units| {
                let units = units.map(f64::from);
                figure(&units[..4], &units[4..])
            }).collect();
            for tested in test(&figures, 1) {
                prop_assert!(tested.p >= p_min(4, 4) - 1e-12 && tested.p <= 1.0);
            }
        }
    }
}
