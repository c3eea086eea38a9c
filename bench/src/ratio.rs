//! Figures that are judged: ratios of what was measured within the same repetition.

use stats::figures::rounded;
use stats::median;

/// A figure and what it should be.
#[derive(Clone, Debug, PartialEq)]
pub struct Ratio {
    /// The name.
    pub name: String,
    /// The goal.
    pub goal: Goal,
    /// `None` if a part of the figure was not measured.
    pub spread: Option<Spread>,
}

/// The goal of a figure.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Goal {
    /// This or less.
    AtMost(f64),
    /// This or more.
    AtLeast(f64),
    /// Between these.
    Within(f64, f64),
}

/// A figure over the repetitions.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Spread {
    /// The median.
    pub median: f64,
    /// The least.
    pub min: f64,
    /// The greatest.
    pub max: f64,
}

impl Goal {
    /// Returns whether a figure meets the goal, to the digits that are printed.
    #[must_use]
    pub fn is_met(self, figure: f64) -> bool {
        let figure = rounded(figure);
        match self {
            Self::AtMost(limit) => figure <= limit,
            Self::AtLeast(limit) => figure >= limit,
            Self::Within(least, most) => (least..=most).contains(&figure),
        }
    }
}

impl Spread {
    /// Returns the median and the range. `None` without values.
    #[must_use]
    pub fn of(values: &[f64]) -> Option<Self> {
        let min = values.iter().copied().reduce(f64::min)?;
        let max = values.iter().copied().reduce(f64::max)?;
        Some(Self { median: median(values)?, min, max })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_goal_is_judged_by_the_figure_that_is_printed() {
        assert!(Goal::AtMost(1.0).is_met(1.004));
        assert!(!Goal::AtMost(1.0).is_met(1.006));
        assert!(Goal::AtLeast(2.5).is_met(2.496));
        assert!(!Goal::AtLeast(2.5).is_met(2.49));
        assert!(Goal::Within(0.9, 1.1).is_met(1.104) && !Goal::Within(0.9, 1.1).is_met(0.89));
    }
}
