//! Tests many figures of two sides at once, exactly.
//!
//! If both sides measured the same thing, it is chance which unit (a run, or a block) stands on which side. So every
//! division of the units into two sides is tried, and a figure is significant if few divisions have *any* figure that
//! differs as much. This is Westfall and Young's step-down method with the largest statistic. The chance that any figure of
//! all is called different by mistake is at most the level, however the figures depend on each other.

use rand::SeedableRng;
use rand::rngs::ChaCha8Rng;
use rand::seq::SliceRandom;

use super::as_f64;

/// Most divisions that are all tried: those of eight and eight units are 12 870.
const ALL_MAX: f64 = 20_000.0;
/// Number of random divisions where there are more.
const DRAWN: usize = 10_000;
/// Differences below this are rounding.
const ROUNDING: f64 = 1e-9;

/// A figure in the units of both sides. A unit may lack it.
#[derive(Debug, Clone, PartialEq)]
pub struct Figure {
    /// The units of the first side.
    pub first: Vec<Option<f64>>,
    /// The units of the second side.
    pub second: Vec<Option<f64>>,
}

/// The outcome of the test of one figure.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Tested {
    /// Two-sided p, corrected for all figures that were tested with it.
    pub p: f64,
    /// Whether the mean of the first side is the larger one.
    pub first_is_larger: bool,
}

/// Tests whether figures differ between two sides. All of them have the same units in the same order.
pub fn test(figures: &[Figure], seed: u64) -> Vec<Tested> {
    let Some(some) = figures.first() else { return Vec::new() };
    let (taken, units) = (some.first.len(), some.first.len() + some.second.len());
    let scores: Vec<Vec<f64>> = figures.iter().map(scores).collect();
    let sum = |figure: usize, chosen: &[usize]| chosen.iter().map(|unit| scores[figure][*unit]).sum::<f64>();
    let observed: Vec<f64> = (0..figures.len()).map(|figure| sum(figure, &(0..taken).collect::<Vec<_>>())).collect();
    let mut order: Vec<usize> = (0..figures.len()).collect();
    order.sort_by(|a, b| observed[*b].abs().total_cmp(&observed[*a].abs()));
    let (mut divisions, mut as_large) = (0_u64, vec![0_u64; figures.len()]);
    for_each_division(units, taken, seed, |chosen| {
        divisions += 1;
        let mut largest = 0.0_f64;
        // A figure competes with those that differ less.
        for figure in order.iter().rev() {
            largest = largest.max(sum(*figure, chosen).abs());
            as_large[*figure] += u64::from(largest >= observed[*figure].abs() - ROUNDING);
        }
    });
    let mut tested = vec![Tested { p: 1.0, first_is_larger: false }; figures.len()];
    let mut p = 0.0_f64;
    for figure in order {
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

/// Returns the deviations of the units from their mean, in parts of their norm. The sum of those of one side grows with the
/// difference of the means, and is comparable between figures. A unit that lacks the figure counts as the mean.
fn scores(figure: &Figure) -> Vec<f64> {
    let values = || figure.first.iter().chain(&figure.second);
    let count = as_f64(values().flatten().count());
    let mean = values().flatten().sum::<f64>() / count;
    let deviations: Vec<f64> = values().map(|value| value.map_or(0.0, |value| value - mean)).collect();
    let norm = deviations.iter().map(|deviation| deviation * deviation).sum::<f64>().sqrt();
    let varies = norm > ROUNDING * mean.abs();
    deviations.into_iter().map(|deviation| if varies { deviation / norm } else { 0.0 }).collect()
}

/// Calls `visit` with the units of the first side for every way to divide the units, or for random ways and the first one.
fn for_each_division(units: usize, taken: usize, seed: u64, mut visit: impl FnMut(&[usize])) {
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
    loop {
        visit(&chosen);
        let Some(place) = (0..taken).rev().find(|place| chosen[*place] < units - taken + *place) else { return };
        chosen[place] += 1;
        for later in place + 1..taken {
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

    fn figure(first: &[f64], second: &[f64]) -> Figure {
        let some = |values: &[f64]| values.iter().copied().map(Some).collect();
        Figure { first: some(first), second: some(second) }
    }

    #[test]
    fn every_division_is_tried_once() {
        let mut seen = Vec::new();
        for_each_division(4, 2, 1, |chosen| seen.push([chosen[0], chosen[1]]));
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
    fn a_large_difference_holds_among_many_figures() {
        let small = |shift: f64| figure(&[1.0, 2.0 + shift, 3.0, 4.0], &[2.0, 1.0, 4.0 + shift, 3.0]);
        let mut figures: Vec<Figure> = (0..40).map(|i| small(f64::from(i) / 10.0)).collect();
        figures.push(figure(&[1.30, 1.31, 1.32, 1.33], &[1.0, 1.01, 1.02, 1.03]));
        let tested = test(&figures, 1);
        assert!(tested[40].p < 0.05, "{:?}", tested[40]);
        assert!(tested[..40].iter().all(|tested| tested.p > 0.5), "{tested:?}");
    }

    #[test]
    fn a_constant_says_nothing_and_a_missing_value_little() {
        let constant = figure(&[0.1 + 0.2; 4], &[0.3; 4]);
        let missing = Figure { first: vec![None; 4], second: vec![Some(1.0); 4] };
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

    proptest! {
        #[test]
        fn a_p_is_a_multiple_of_what_one_division_weighs(
            values in prop::collection::vec(prop::array::uniform8(-100_i32..100), 1..5),
        ) {
            let figures: Vec<Figure> = values.iter().map(|units| {
                let units = units.map(f64::from);
                figure(&units[..4], &units[4..])
            }).collect();
            for tested in test(&figures, 1) {
                prop_assert!(tested.p >= p_min(4, 4) - 1e-12 && tested.p <= 1.0);
            }
        }
    }
}
