//! Walks: each takes one of very many paths through a model, by a seed.
//!
//! A walk begins in foul weather: progress and faults happen in a random order. Then it is calm: no fault happens any more, until nothing
//! is left to happen. By then every user must have been served, within a bound of steps. Each step is checked by all rules of the model.
//!
//! Each walk draws how often each kind of action happens, and who is slow. So some walks have very late answers, others very late
//! watches, and others users that hold for very long. A uniform choice would hardly ever have any of these (Groce et al., "Swarm
//! testing", 2012).

use std::panic::{self, AssertUnwindSafe};

use campaign::Sights;
use rand::rngs::ChaCha8Rng;
use rand::{RngExt, SeedableRng};

use super::draws::Drawn;
use super::model::Model;

/// The rule that every walk ends: a bound of steps in calm weather.
pub const ENDS: &str = "in calm weather everybody is served soon";
/// The rule that nothing panics.
pub const SOUND: &str = "neither the machine nor its model panics";

/// More than any model has.
const KINDS: usize = 32;
/// Subjects beyond that share what is drawn for the first ones.
const SUBJECTS: usize = 64;
/// How many steps are foul at most, of which each walk draws one.
const FOUL: [u64; 6] = [50, 50, 100, 200, 400, 2000];

/// A walk and what it found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Walk {
    /// The number of steps.
    pub steps: u64,
    /// The number of those that were calm.
    pub calm: u64,
    /// The number of visits that were not over when the weather became calm.
    pub visits: u64,
    /// What it has seen.
    pub sights: Sights,
    /// The rule that it broke.
    pub broken: Option<&'static str>,
}

/// What a walk tells while it goes on.
#[derive(Debug)]
pub enum Told<'a, M: Model> {
    /// This is about to happen.
    Action(&'a M::Action),
    /// Now this is so.
    State(&'a M::State),
}

/// Draws the model of a seed, and walks through it. `tell` is told of the model's actions and states.
pub fn walk_by_seed<M: Model + Drawn>(seed: u64, tell: impl FnMut(&M, Told<'_, M>)) -> Walk {
    let mut draws = ChaCha8Rng::seed_from_u64(seed);
    let model = M::draw(&mut draws);
    walk(&model, draws, tell)
}

/// Walks through a model.
pub fn walk<M: Model>(model: &M, draws: ChaCha8Rng, mut tell: impl FnMut(&M, Told<'_, M>)) -> Walk {
    let mut walker = Walker::new(model, draws);
    let mut walk = Walk { steps: 0, calm: 0, visits: 0, sights: Sights::default(), broken: None };
    let go = AssertUnwindSafe(|| walker.go(&mut walk, &mut tell));
    if panic::catch_unwind(go).is_err() {
        walk.broken = Some(SOUND);
    }
    walk.sights = M::sights(&walker.state);
    walk
}

struct Walker<'a, M: Model> {
    model: &'a M,
    state: M::State,
    actions: Vec<M::Action>,
    draws: ChaCha8Rng,
    /// How often each kind of action happens.
    weights: [u32; KINDS],
    /// How often something happens to each subject.
    subjects: [u32; SUBJECTS],
    /// The share of faults, in 256ths.
    faults: u32,
    /// How many steps are foul at most.
    foul: u64,
}

impl<'a, M: Model> Walker<'a, M> {
    fn new(model: &'a M, mut draws: ChaCha8Rng) -> Self {
        let mut starts = model.starts();
        let state = starts.swap_remove(draws.random_range(0..starts.len()));
        let weights = std::array::from_fn(|_| [1, 1, 4, 16, 64][draws.random_range(0..5)]);
        let is_even = draws.random();
        let subjects = std::array::from_fn(|_| if is_even { 1 } else { [1, 32, 32, 32][draws.random_range(0..4)] });
        let faults = [2, 8, 24, 64][draws.random_range(0..4)];
        let foul = FOUL[draws.random_range(0..FOUL.len())];
        Self { model, state, actions: Vec::new(), draws, weights, subjects, faults, foul }
    }

    fn go(&mut self, walk: &mut Walk, tell: &mut impl FnMut(&M, Told<'_, M>)) {
        loop {
            let is_foul = walk.steps < self.foul;
            if walk.steps == self.foul {
                walk.visits = self.model.visits(&self.state);
            }
            let Some(action) = self.next(is_foul) else { break };
            tell(self.model, Told::Action(&action));
            if !self.model.step(&mut self.state, &action) {
                continue;
            }
            walk.steps += 1;
            walk.calm += u64::from(!is_foul);
            tell(self.model, Told::State(&self.state));
            walk.broken = self.broken_rule();
            if walk.calm > (walk.visits + 1) * M::PATIENCE {
                walk.broken = walk.broken.or(Some(ENDS));
            }
            if walk.broken.is_some() {
                return;
            }
        }
        if !self.model.is_over(&self.state) {
            walk.broken = Some(ENDS);
        }
    }

    /// Draws what happens next. `None`: nothing is left to happen.
    fn next(&mut self, is_foul: bool) -> Option<M::Action> {
        self.actions.clear();
        if is_foul && self.draws.random_range(0..256) < self.faults {
            self.model.faults(&self.state, &mut self.actions);
            self.model.last(&self.state, &mut self.actions);
        }
        if self.actions.is_empty() {
            self.model.progress(&self.state, &mut self.actions);
        }
        if self.actions.is_empty() {
            self.model.last(&self.state, &mut self.actions);
        }
        let weight = |action: &M::Action| {
            let subject = M::subject(&self.state, action);
            self.weights[M::kind(action)] * self.subjects[subject % SUBJECTS]
        };
        let total: u32 = self.actions.iter().map(weight).sum();
        let mut drawn = if total > 0 { self.draws.random_range(0..total) } else { return None };
        let chosen = self.actions.iter().position(|action| match drawn.checked_sub(weight(action)) {
            Some(rest) => {
                drawn = rest;
                false
            }
            None => true,
        });
        Some(self.actions.swap_remove(chosen?))
    }

    fn broken_rule(&self) -> Option<&'static str> {
        let broken = M::RULES.iter().find(|rule| !(rule.holds)(self.model, &self.state))?;
        Some(broken.name)
    }
}
