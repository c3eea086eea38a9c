//! The search of all states of a small model, by stateright. No other file of this crate names it.

use std::collections::BTreeSet;
use std::fmt::Debug;

use stateright::{Checker, CheckerBuilder, HasDiscoveries, Property};

use super::model::Model;

/// A model that can be searched.
pub(crate) trait Search: Model + Clone + Debug + Send + Sync {
    /// Searches all states. If a change of the model changes their number, the check fails.
    #[track_caller]
    fn check(&self, states: usize);

    /// Tells whether a state breaks the rule.
    fn breaks(&self, rule: &'static str) -> bool;
}

impl<M> Search for M
where
    M: Model + Clone + Debug + Send + Sync,
    M::State: Send + Sync,
{
    fn check(&self, states: usize) {
        let checker = builder(self, self.searched_sights()).threads(2).spawn_bfs().join();
        checker.assert_properties();
        assert_eq!(checker.unique_state_count(), states, "{self:?}");
    }

    fn breaks(&self, rule: &'static str) -> bool {
        let found = HasDiscoveries::AllOf(BTreeSet::from([rule]));
        builder(self, 0).threads(2).finish_when(found).spawn_bfs().join().discovery(rule).is_some()
    }
}

#[derive(Clone)]
struct Searched<M> {
    model: M,
    /// How many of the first sights have to be reached.
    sights: usize,
}

fn builder<M>(model: &M, sights: usize) -> CheckerBuilder<Searched<M>>
where
    M: Model + Clone + Send + Sync,
    M::State: Send + Sync,
{
    stateright::Model::checker(Searched { model: model.clone(), sights })
}

impl<M: Model> stateright::Model for Searched<M> {
    type State = M::State;
    type Action = M::Action;

    fn init_states(&self) -> Vec<M::State> {
        self.model.starts()
    }

    fn actions(&self, state: &M::State, actions: &mut Vec<M::Action>) {
        self.model.progress(state, actions);
        self.model.faults(state, actions);
        self.model.last(state, actions);
    }

    fn next_state(&self, last: &M::State, action: M::Action) -> Option<M::State> {
        let mut next = last.clone();
        (self.model.step(&mut next, &action) && next != *last).then_some(next)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        let rules = M::RULES.iter().zip(rules()).map(|(rule, holds)| Property::always(rule.name, holds));
        let sights =
            M::SIGHTS.iter().zip(sights()).take(self.sights).map(|(sight, seen)| Property::sometimes(sight, seen));
        rules.chain(sights).collect()
    }
}

type Condition<M> = fn(&Searched<M>, &<M as Model>::State) -> bool;

/// As many rules and sights as a search can ask for. Stateright takes functions without captured values, so there is one for each position.
const MOST: usize = 16;

fn rules<M: Model>() -> [Condition<M>; MOST] {
    macro_rules! at { ($($i:literal)*) => { [$(|searched, state| (M::RULES[$i].holds)(&searched.model, state)),*] }; }
    at!(0 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15)
}

fn sights<M: Model>() -> [Condition<M>; MOST] {
    macro_rules! at { ($($i:literal)*) => { [$(|_, state| M::sights(state).has($i)),*] }; }
    at!(0 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15)
}
