//! The loads among which a capacity is searched, and the choice of the next one.

use std::f64::consts::LN_2;

/// Rates in equal ratios, from the lowest to the highest. Its loads are numbers from 0, so that halves and sums are exact.
#[derive(Debug, Clone, Copy)]
pub(super) struct Grid {
    lowest: f64,
    highest: f64,
    /// The logarithm of the ratio between two loads beside each other.
    step: f64,
    /// The load of the highest rate.
    pub(super) last: i32,
}

impl Grid {
    /// Returns the coarsest grid with both ends on which two loads beside each other are at most one relative width apart.
    pub(super) fn new(lowest: f64, highest: f64, width: f64) -> Grid {
        let span = (highest / lowest).ln();
        let last = whole((span / log_width(width)).ceil()).max(1);
        Grid { lowest, highest, step: span / f64::from(last), last }
    }

    /// Returns the rate of a load, per second.
    pub(super) fn rate(&self, load: i32) -> f64 {
        if load >= self.last { self.highest } else { self.lowest * self.ratio(load) }
    }

    /// Returns the ratio of the rates of two loads at a distance.
    pub(super) fn ratio(&self, distance: i32) -> f64 {
        (f64::from(distance) * self.step).exp()
    }

    /// Returns the distance of two loads that are at most one relative width apart, and at least one.
    pub(super) fn width(&self, width: f64) -> i32 {
        // Without the addition, the width from which the grid was made may round to no load.
        whole((log_width(width) / self.step + 1e-9).floor()).max(1)
    }

    /// Returns the largest distance at which a rate at most doubles, and at least one.
    fn octave(&self) -> i32 {
        whole((LN_2 / self.step).floor()).max(1)
    }

    /// Chooses a load between two exclusive ends that are at least two loads apart. An end is a bound, or lies beyond the
    /// grid: before the first load, or after the last one.
    ///
    /// Where the bounds of the coarser target lie between the ends, it is their middle, or one of them. If they lie outside,
    /// it is a step away from the end nearest to them. A step grows with the distance, but never more than doubles a rate,
    /// and it does not pass the middle between two bounds.
    pub(super) fn choose(&self, (low, high): (i32, i32), hint: (i32, i32), width: i32) -> i32 {
        let middle = |low: i32, high: i32| low + (high - low) / 2;
        let halfway = (hint.1 - hint.0 > width).then(|| middle(hint.0, hint.1));
        let hinted = [halfway, Some(hint.0), Some(hint.1)].into_iter().flatten();
        if let Some(load) = hinted.into_iter().find(|load| low < *load && *load < high) {
            return load;
        }
        let step = |distance: i32| (distance + width).min(self.octave());
        let half = middle(low, high);
        if hint.0 >= high {
            (high - step(hint.0 - high)).max(if low < 0 { 0 } else { half })
        } else if hint.1 <= low {
            (low + step(low - hint.1)).min(if high > self.last { self.last } else { half })
        } else {
            half
        }
    }
}

/// Returns the logarithm of the ratio of two rates, of which the lower one is this share below the higher one.
fn log_width(width: f64) -> f64 {
    -(-width).ln_1p()
}

#[expect(clippy::cast_possible_truncation, reason = "a count of loads, which stays below two million")]
fn whole(count: f64) -> i32 {
    count as i32
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn loads_beside_each_other_are_at_most_one_width_apart() {
        for width in [0.001, 0.05, 0.3, 0.9] {
            let grid = Grid::new(3.0, 70_000.0, width);
            assert!((grid.rate(0) - 3.0).abs() < 1e-12 && (grid.rate(grid.last) - 70_000.0).abs() < 1e-12);
            for load in 0..grid.last {
                assert!(1.0 - grid.rate(load) / grid.rate(load + 1) <= width + 1e-9, "{width} {load}");
            }
            assert_eq!(grid.width(width), 1);
        }
    }

    #[test]
    fn a_step_grows_until_it_doubles_the_rate() {
        let grid = Grid::new(1.0, 10_000.0, 0.05);
        let mut low = 0;
        let mut rates = vec![1.0];
        while low < grid.last {
            low = grid.choose((low, grid.last + 1), (0, 0), 2);
            rates.push(grid.rate(low));
        }
        assert!(rates.windows(2).all(|pair| pair[1] > pair[0] && pair[1] / pair[0] <= 2.0), "{rates:?}");
        assert_eq!(rates.len(), 17);
    }
}
