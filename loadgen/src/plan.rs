//! The order of the trials: every block runs each strategy once, in an order drawn from the seed.
//!
//! A slow moment of the machine then falls on all strategies alike, and the same seed repeats the order.

use rand::SeedableRng;
use rand::rngs::ChaCha8Rng;
use rand::seq::SliceRandom;
use serde::Serialize;

/// What is run, in order.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(crate) struct Plan {
    /// The seed that the order was drawn from.
    pub(crate) seed: u32,
    /// Names of the strategies, block by block.
    pub(crate) blocks: Vec<Vec<String>>,
}

/// One trial of the plan.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct PlannedTrial<'a> {
    /// Number of the block, from zero.
    pub(crate) block: usize,
    /// The strategy to be tried.
    pub(crate) strategy: &'a str,
}

impl Plan {
    /// Draws `blocks` random orders of the strategies from the seed.
    pub(crate) fn randomized(strategies: &[String], blocks: u32, seed: u32) -> Plan {
        let mut random = ChaCha8Rng::seed_from_u64(u64::from(seed));
        let blocks = (0..blocks)
            .map(|_| {
                let mut block = strategies.to_vec();
                block.shuffle(&mut random);
                block
            })
            .collect();
        Plan { seed, blocks }
    }

    /// The trials in the order in which they are to be run.
    pub(crate) fn trials(&self) -> impl Iterator<Item = PlannedTrial<'_>> {
        self.blocks
            .iter()
            .enumerate()
            .flat_map(|(block, strategies)| strategies.iter().map(move |strategy| PlannedTrial { block, strategy }))
    }

    /// How many trials the plan has.
    pub(crate) fn len(&self) -> usize {
        self.blocks.iter().map(Vec::len).sum()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn names(count: usize) -> Vec<String> {
        (0..count).map(|i| format!("strategy-{i}")).collect()
    }

    #[test]
    fn the_same_seed_repeats_the_order() {
        let plan = Plan::randomized(&names(5), 4, 42);
        assert_eq!(plan, Plan::randomized(&names(5), 4, 42));
        assert_ne!(plan.blocks, Plan::randomized(&names(5), 4, 43).blocks);
    }

    #[test]
    fn the_order_of_a_seed_never_changes() {
        // A recorded seed must repeat a run with later versions of the program as well.
        let plan = Plan::randomized(&names(3), 2, 7);
        assert_eq!(plan.blocks[0], ["strategy-0", "strategy-2", "strategy-1"]);
        assert_eq!(plan.blocks[1], ["strategy-1", "strategy-2", "strategy-0"]);
    }

    #[test]
    fn blocks_differ_from_one_another() {
        let plan = Plan::randomized(&names(6), 20, 1);
        assert!(plan.blocks.iter().any(|block| block != &plan.blocks[0]));
    }

    proptest! {
        #[test]
        fn every_block_has_every_strategy_once(count in 1_usize..8, blocks in 0_u32..6, seed: u32) {
            let strategies = names(count);
            let plan = Plan::randomized(&strategies, blocks, seed);
            prop_assert_eq!(plan.len(), count * blocks as usize);
            prop_assert_eq!(plan.trials().count(), plan.len());
            for block in &plan.blocks {
                let mut sorted = block.clone();
                sorted.sort();
                prop_assert_eq!(&sorted, &strategies);
            }
        }
    }
}
