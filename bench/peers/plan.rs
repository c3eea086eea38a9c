//! The order of the measurements.
//!
//! Within a repetition, for each number of contenders in turn, every implementation is measured once, in an order drawn from
//! the seed: a slow moment of the machine then falls on all of them alike, and ratios can be taken within a repetition.

use rand::SeedableRng;
use rand::rngs::ChaCha8Rng;
use rand::seq::SliceRandom;

use crate::implementation::Implementation;

/// What the measurements of a repetition are for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Repetition {
    /// Warms the workers, the server and the caches; its figures are dropped.
    WarmUp,
    /// Timed, and the requests counted. Numbered from zero.
    Timed(usize),
    /// Not timed, as the workers connect through a proxy, which counts the bytes.
    Bytes,
}

/// One measurement.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Step {
    pub(crate) repetition: Repetition,
    pub(crate) implementation: Implementation,
    pub(crate) contenders: u32,
}

/// All measurements of a run with `reps` timed repetitions, in order.
pub(crate) fn plan(implementations: &[Implementation], contenders: &[u32], reps: usize, seed: u64) -> Vec<Step> {
    let mut random = ChaCha8Rng::seed_from_u64(seed);
    let mut order = implementations.to_vec();
    let mut steps = Vec::new();
    let timed = (0..reps).map(Repetition::Timed);
    for repetition in [Repetition::WarmUp].into_iter().chain(timed).chain([Repetition::Bytes]) {
        for &contenders in contenders {
            order.shuffle(&mut random);
            steps.extend(order.iter().map(|&implementation| Step { repetition, implementation, contenders }));
        }
    }
    steps
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_repetition_measures_everything_once() {
        let implementations = Implementation::all();
        let steps = plan(&implementations, &[1, 30], 3, 7);
        assert_eq!(steps.len(), (1 + 3 + 1) * 2 * implementations.len());
        let repetitions = (0..3).map(Repetition::Timed).chain([Repetition::WarmUp, Repetition::Bytes]);
        for repetition in repetitions {
            for contenders in [1, 30] {
                for &implementation in &implementations {
                    let step = Step { repetition, implementation, contenders };
                    assert_eq!(steps.iter().filter(|found| **found == step).count(), 1, "{step:?}");
                }
            }
        }
    }

    #[test]
    fn the_warm_up_comes_first_and_the_bytes_last() {
        let steps = plan(&Implementation::all(), &[1], 2, 0);
        assert_eq!(steps.first().map(|step| step.repetition), Some(Repetition::WarmUp));
        assert_eq!(steps.last().map(|step| step.repetition), Some(Repetition::Bytes));
    }

    #[test]
    fn the_seed_and_nothing_else_decides_the_order() {
        let steps = |seed| plan(&Implementation::all(), &[1, 30, 300], 5, seed);
        assert_eq!(steps(1), steps(1));
        assert_ne!(steps(1), steps(2));
    }
}
