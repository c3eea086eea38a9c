//! What a seed draws for a round of a torture run.

use rand::RngExt as _;
use weather::{ComingFault, Targets, draw, draws_of};

/// How many of a hundred rounds have a stock that does not last.
const SCARCE_PERCENT: u32 = 25;

/// What a seed draws for a round.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Forecast {
    /// Whether the stock does not last.
    pub(crate) is_scarce: bool,
    /// Whether a buyer may have one unit only. Then each order names its buyer.
    pub(crate) is_limited: bool,
    /// The faults, in the order in which they begin.
    pub(crate) coming: Vec<ComingFault>,
}

impl Forecast {
    /// Draws a round.
    pub(crate) fn draw(seed: u64, targets: &Targets<'_>) -> Forecast {
        let mut draws = draws_of(seed);
        let is_scarce = draws.random_ratio(SCARCE_PERCENT, 100);
        let is_limited = draws.random();
        Forecast { is_scarce, is_limited, coming: draw(&mut draws, targets) }
    }
}
