//! The machines of the locks, and the walks through their models.

use std::fmt::Debug;
use std::mem;

use campaign::{Run, Subject};
use clap::ValueEnum;

use super::clocks::Clocks;
use super::cohort::CohortModel;
use super::draws::Drawn;
use super::model::Model;
use super::naive::NaiveModel;
use super::permits::PermitsModel;
use super::queue::QueueModel;
use super::walk::{Told, walk_by_seed};

/// A machine of the locks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Machine {
    /// The queue locks: several sessions, and servers that lag behind
    Queue,
    /// The lock with one node that wakes everybody
    Naive,
    /// The semaphore
    Permits,
    /// The contenders of a process that share one place in the queue
    Cohort,
    /// The proof of life: a session, a follower and a leader
    Clocks,
}

/// Does something with the model of a machine.
macro_rules! with_model {
    ($machine:expr, $model:ident => $what:expr) => {
        match $machine {
            Machine::Queue => {
                type $model = QueueModel;
                $what
            }
            Machine::Naive => {
                type $model = NaiveModel;
                $what
            }
            Machine::Permits => {
                type $model = PermitsModel;
                $what
            }
            Machine::Cohort => {
                type $model = CohortModel;
                $what
            }
            Machine::Clocks => {
                type $model = Clocks;
                $what
            }
        }
    };
}

impl Subject for Machine {
    fn sights(&self) -> &'static [&'static str] {
        with_model!(self, M => M::SIGHTS)
    }

    fn patience(&self) -> (&'static str, u64) {
        ("calm steps per visit", with_model!(self, M => M::PATIENCE))
    }

    fn run(&self, seed: u64, tell: Option<&mut dyn FnMut(String)>) -> Run {
        with_model!(self, M => run_by_seed::<M>(seed, tell))
    }
}

/// Walks by a seed, and tells the model and each action with the state after it.
pub(super) fn run_by_seed<M: Model + Drawn + Debug>(seed: u64, mut tell: Option<&mut dyn FnMut(String)>) -> Run {
    let mut is_first = true;
    let walk = walk_by_seed(seed, |model: &M, told| {
        let Some(tell) = &mut tell else { return };
        if mem::take(&mut is_first) {
            tell(format!("{model:?}"));
        }
        match told {
            Told::Action(action) => tell(format!("{action:?}")),
            Told::State(state) => tell(format!("    {state:?}")),
        }
    });
    Run { steps: walk.steps, slowness: walk.calm / (walk.visits + 1), sights: walk.sights, broken: walk.broken }
}

#[cfg(test)]
mod tests {
    use campaign::run_all;

    use super::*;

    /// The rarest sights take hundreds of thousands of walks, which `make weather` has time for.
    #[test]
    fn every_machine_keeps_its_rules_in_all_weather() {
        for machine in Machine::value_variants() {
            let tally = run_all(0..6_000, machine.sights(), |seed| machine.run(seed, None), || false);
            assert_eq!((tally.broken.first(), tally.runs), (None, 6_000), "{machine:?}");
            let unseen: Vec<&str> = tally.unseen().collect();
            assert!(unseen.len() * 10 <= tally.sights.len(), "{machine:?} has not reached {unseen:#?}");
        }
    }

    #[test]
    fn a_seed_replays_its_walk() {
        for machine in Machine::value_variants() {
            let told = |seed| {
                let mut told = String::new();
                let run = machine.run(seed, Some(&mut |line| told += &line));
                (run, told)
            };
            assert_eq!(told(7), told(7), "{machine:?}");
            assert_ne!(told(7).1, told(8).1, "{machine:?}");
        }
    }
}
