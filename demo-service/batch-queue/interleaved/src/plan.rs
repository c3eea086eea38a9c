//! What a seed draws before its scene begins: who comes when, and what goes wrong.

use rand::RngExt;
use rand::rngs::ChaCha8Rng;

use crate::clock::NEVER;

/// The number of SKUs.
pub(crate) const SKUS: u64 = 2;
/// The last tick of the clock. No deadline is later, except [`NEVER`].
pub(crate) const LAST_TICK: u64 = 12;

/// A scene before it begins.
#[derive(Clone, Debug)]
pub(crate) struct Plan {
    /// How many instances there are.
    pub(crate) instances: usize,
    /// The buyers. Their number in this list is their name.
    pub(crate) buyers: Vec<PlannedBuyer>,
    /// The units of each SKU.
    pub(crate) stock: i64,
    /// The slots of an instance for its own buyers.
    pub(crate) slots: u32,
    /// Its slots for purchases of others.
    pub(crate) handed_slots: u32,
    /// How many chances others have between two ticks at most.
    pub(crate) pace: u32,
    /// When somebody else writes all SKUs, and until when.
    pub(crate) rival: (u64, u64),
    /// When the next sale of the first SKU starts.
    pub(crate) restart: u64,
    /// When which instance becomes the owner of all SKUs. At first it is the first one.
    pub(crate) moves: Vec<(u64, usize)>,
    /// How much later each instance learns of it.
    pub(crate) lags: Vec<u64>,
    /// How many batches of an instance may be on their way at once.
    pub(crate) permits: usize,
    /// From then on nothing goes wrong.
    pub(crate) calm: u64,
    /// How often something goes wrong where it can.
    pub(crate) odds: Odds,
}

/// A buyer before it comes.
#[derive(Clone, Debug)]
pub(crate) struct PlannedBuyer {
    pub(crate) instance: usize,
    pub(crate) sku: u64,
    pub(crate) comes: u64,
    /// When it gives up waiting for the right to write.
    pub(crate) until: u64,
    /// When it gives up waiting for the database.
    pub(crate) database_until: u64,
    pub(crate) hangs_up: u64,
    /// Whether its purchase stops each batch in which it is, for example by a key that is in use elsewhere.
    pub(crate) is_stopper: bool,
}

/// How often something goes wrong where it can, in 32nds.
#[derive(Clone, Debug)]
pub(crate) struct Odds {
    /// There is no right to write.
    pub(crate) right_lost: u32,
    /// The row is locked until the first buyer of a batch gives up.
    pub(crate) row_locked: u32,
    /// The database refuses to write.
    pub(crate) write_refused: u32,
    /// The database refuses to commit.
    pub(crate) commit_refused: u32,
    /// Nobody hears of a commit.
    pub(crate) commit_unknown: u32,
    /// The worker dies.
    pub(crate) crash: u32,
    /// The other instance is not reached.
    pub(crate) not_reached: u32,
    /// The link to the other instance breaks while it works.
    pub(crate) link_breaks: u32,
}

impl Plan {
    /// Draws a plan.
    pub(crate) fn draw(instances: usize, draws: &mut ChaCha8Rng) -> Self {
        let calm = draws.random_range(0..=LAST_TICK);
        let mut odds = || [0, 0, 2, 12][draws.random_range(0..4)];
        let odds = Odds {
            right_lost: odds(),
            row_locked: 2 * odds(),
            write_refused: odds(),
            commit_refused: odds(),
            commit_unknown: odds(),
            crash: odds(),
            not_reached: odds(),
            link_breaks: odds(),
        };
        let late = [0, 12, 28][draws.random_range(0..3)];
        let skus = draws.random_range(1..=SKUS);
        let count = draws.random_range(2..=9);
        let mut buyer = || PlannedBuyer {
            instance: draws.random_range(0..instances),
            sku: draws.random_range(1..=skus),
            comes: [0, 0, 1, draws.random_range(0..6)][draws.random_range(0..4)],
            until: tick(draws, late),
            database_until: tick(draws, late),
            hangs_up: tick(draws, late / 2),
            is_stopper: draws.random_ratio(1, 8),
        };
        let mut buyers: Vec<_> = (0..count).map(|_| buyer()).collect();
        if draws.random_ratio(1, 3) {
            crowd(&mut buyers, draws);
        }
        for buyer in &mut buyers {
            buyer.database_until = buyer.database_until.max(buyer.until);
        }
        Self {
            instances,
            stock: draws.random_range(0..=5),
            slots: [2, 4, 8, 8][draws.random_range(0..4)],
            handed_slots: [1, 2, 4][draws.random_range(0..3)],
            pace: [2, 6, 12, 40][draws.random_range(0..4)],
            rival: (tick(draws, 12), draws.random_range(1..=LAST_TICK)),
            restart: tick(draws, 8),
            moves: (0..draws.random_range(0..=2))
                .map(|_| (draws.random_range(1..=LAST_TICK), draws.random_range(0..instances)))
                .collect(),
            lags: (0..instances).map(|_| [0, 0, 1, 4][draws.random_range(0..4)]).collect(),
            permits: draws.random_range(1..=2),
            calm,
            odds,
            buyers,
        }
    }
}

impl Plan {
    /// Returns the owner of which an instance with this lag knows at a time. In the end all know the last one.
    pub(crate) fn owner_at(&self, time: u64, lag: u64) -> usize {
        let known = self.moves.iter().filter(|(moved, _)| (moved + lag).min(LAST_TICK) <= time);
        known.max_by_key(|(moved, _)| *moved).map_or(0, |(_, owner)| *owner)
    }
}

/// Lets all come at once for one SKU, and give up at about the same time.
fn crowd(buyers: &mut [PlannedBuyer], draws: &mut ChaCha8Rng) {
    let end = draws.random_range(1..LAST_TICK);
    for buyer in buyers {
        buyer.sku = 1;
        buyer.comes = 0;
        buyer.is_stopper = draws.random_ratio(1, 4);
        buyer.until = end.saturating_sub(draws.random_range(0..3)).max(1);
        buyer.database_until = end + draws.random_range(0..=1);
    }
}

/// Draws a time, or [`NEVER`]. `odds` of 32 draws are a time.
fn tick(draws: &mut ChaCha8Rng, odds: u32) -> u64 {
    if draws.random_ratio(odds, 32) { draws.random_range(1..=LAST_TICK) } else { NEVER }
}
