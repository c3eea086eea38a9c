//! Chooses who goes on, by a seed.

use std::cell::Cell;
use std::rc::Rc;

use rand::rngs::ChaCha8Rng;
use rand::{Rng, RngExt, SeedableRng};
use shuttle::scheduler::{Schedule, Scheduler, Task, TaskId};

/// Chooses at random. In most schedules some tasks are slow, so that others overtake them: a uniform choice would hardly ever let
/// several steps of one task pass between two of another.
pub(crate) struct Swarm {
    draws: ChaCha8Rng,
    is_uneven: bool,
    /// How often each task goes on, compared with others.
    weights: Vec<u32>,
    steps: Rc<Cell<u64>>,
    is_used: bool,
}

impl Swarm {
    /// Makes the choices of a seed. They are counted in `steps`.
    pub(crate) fn new(seed: u64, steps: Rc<Cell<u64>>) -> Self {
        let mut draws = ChaCha8Rng::seed_from_u64(seed);
        draws.set_stream(1);
        let is_uneven = draws.random_ratio(2, 3);
        Self { draws, is_uneven, weights: Vec::new(), steps, is_used: false }
    }
}

impl Scheduler for Swarm {
    fn new_execution(&mut self) -> Option<Schedule> {
        (!std::mem::replace(&mut self.is_used, true)).then(|| Schedule::new(0))
    }

    fn next_task(&mut self, runnable: &[&Task], _current: Option<TaskId>, _is_yielding: bool) -> Option<TaskId> {
        self.steps.set(self.steps.get() + 1);
        let ids: Vec<usize> = runnable.iter().map(|task| task.id().into()).collect();
        while self.weights.len() <= ids.iter().copied().max()? {
            let weight = if self.is_uneven { [1, 8, 8, 64][self.draws.random_range(0..4)] } else { 1 };
            self.weights.push(weight);
        }
        let total: u32 = ids.iter().map(|id| self.weights[*id]).sum();
        let mut drawn = self.draws.random_range(0..total);
        let chosen = ids.iter().position(|id| match drawn.checked_sub(self.weights[*id]) {
            Some(rest) => {
                drawn = rest;
                false
            }
            None => true,
        });
        Some(runnable[chosen?].id())
    }

    fn next_u64(&mut self) -> u64 {
        self.draws.next_u64()
    }
}
