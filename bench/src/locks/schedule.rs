//! The order of the measurements.
//!
//! Within a repetition, every implementation is measured once under each load, in an order drawn from the seed. A slow
//! moment of the machine falls on all of them alike, so ratios can be taken within a repetition.

use std::fmt;

use rand::SeedableRng;
use rand::rngs::ChaCha8Rng;
use rand::seq::SliceRandom;

use crate::implementation::Implementation;

/// The purpose of the measurements of a repetition.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Repetition {
    /// Warms the workers, the server and the caches; its figures are dropped.
    WarmUp,
    /// Timed, and the requests counted. Numbered from zero.
    Timed(usize),
    /// Counts the bytes by a proxy between the workers and the server. Not timed.
    Bytes,
}

/// The load that an implementation is measured under.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Load {
    /// A closed loop of this number of contenders.
    Contenders(u32),
    /// An open load: acquires that arrive at this rate per second.
    Rate(u32),
}

impl Load {
    /// Returns whether an implementation is measured under this load in a repetition.
    fn is_for(self, implementation: Implementation, repetition: Repetition) -> bool {
        match self {
            Self::Contenders(_) => true,
            Self::Rate(_) => implementation.has_open_load() && repetition != Repetition::Bytes,
        }
    }
}

impl fmt::Display for Load {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Contenders(contenders) => write!(f, "{contenders}"),
            Self::Rate(rate) => write!(f, "{rate}/s"),
        }
    }
}

/// One measurement.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Step {
    pub(crate) repetition: Repetition,
    pub(crate) implementation: Implementation,
    pub(crate) load: Load,
}

/// Returns all measurements of a run with `reps` timed repetitions, in order.
pub(crate) fn schedule(implementations: &[Implementation], loads: &[Load], reps: usize, seed: u64) -> Vec<Step> {
    let mut random = ChaCha8Rng::seed_from_u64(seed);
    let mut order = implementations.to_vec();
    let mut steps = Vec::new();
    let timed = (0..reps).map(Repetition::Timed);
    for repetition in [Repetition::WarmUp].into_iter().chain(timed).chain([Repetition::Bytes]) {
        for &load in loads {
            order.shuffle(&mut random);
            let measured = order.iter().filter(|implementation| load.is_for(**implementation, repetition));
            steps.extend(measured.map(|&implementation| Step { repetition, implementation, load }));
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
        let loads = [1, 30].map(Load::Contenders);
        let steps = schedule(&implementations, &loads, 3, 7);
        assert_eq!(steps.len(), (1 + 3 + 1) * 2 * implementations.len());
        let repetitions = (0..3).map(Repetition::Timed).chain([Repetition::WarmUp, Repetition::Bytes]);
        for repetition in repetitions {
            for load in loads {
                for &implementation in &implementations {
                    let step = Step { repetition, implementation, load };
                    assert_eq!(steps.iter().filter(|found| **found == step).count(), 1, "{step:?}");
                }
            }
        }
    }

    #[test]
    fn the_warm_up_comes_first_and_the_bytes_last() {
        let steps = schedule(&Implementation::all(), &[Load::Contenders(1)], 2, 0);
        assert_eq!(steps.first().map(|step| step.repetition), Some(Repetition::WarmUp));
        assert_eq!(steps.last().map(|step| step.repetition), Some(Repetition::Bytes));
    }

    #[test]
    fn the_seed_and_nothing_else_decides_the_order() {
        let steps = |seed| schedule(&Implementation::all(), &[1, 30, 300].map(Load::Contenders), 5, seed);
        assert_eq!(steps(1), steps(1));
        assert_ne!(steps(1), steps(2));
    }

    #[test]
    fn an_open_load_is_for_some_implementations_and_counts_no_bytes() {
        let steps = schedule(&Implementation::all(), &[Load::Rate(500)], 2, 0);
        assert!(steps.iter().all(|step| step.implementation.has_open_load()));
        assert!(steps.iter().all(|step| step.repetition != Repetition::Bytes));
        let curator = steps.iter().filter(|step| step.implementation == Implementation::Curator);
        assert_eq!(curator.count(), 3);
    }
}
