//! What every model of this crate has: states, actions, rules and sights.
//!
//! A *model* is a machine of the protocol with simulated servers, users and faults. A search (`check.rs`) visits all states of a small
//! model. A walk (`walk.rs`) takes one of very many paths through a large one.

use std::fmt::Debug;
use std::hash::{Hash, Hasher};
use std::ops::{Deref, DerefMut};

use campaign::Sights;

/// A machine with servers, users and faults.
pub trait Model: Sized + 'static {
    /// What is true at one moment.
    type State: Clone + Debug + Eq + Hash;
    /// What may happen next.
    type Action: Clone + Debug + PartialEq;

    /// What a run is made to reach, by the positions that [`Sights`] count.
    const SIGHTS: &'static [&'static str];
    /// What has to hold in every state.
    const RULES: &'static [Rule<Self>];

    /// How many steps a visit takes at most in calm weather: five times the most that was seen.
    const PATIENCE: u64;

    /// Returns how many of the first sights a search of all states has to reach.
    fn searched_sights(&self) -> usize {
        1
    }

    /// Returns the states in which a run may begin. There is at least one.
    fn starts(&self) -> Vec<Self::State>;

    /// Lists what happens sooner or later, even in calm weather. Somebody who waits is served by these actions alone.
    fn progress(&self, state: &Self::State, actions: &mut Vec<Self::Action>);

    /// Lists what may happen besides: faults, and delays.
    fn faults(&self, state: &Self::State, actions: &mut Vec<Self::Action>);

    /// Lists what may happen at any time, and happens at the latest when nothing else is left. Nobody may need it in order to be served.
    fn last(&self, _state: &Self::State, _actions: &mut Vec<Self::Action>) {}

    /// Lets an action happen. Returns `false` if it cannot happen after all.
    fn step(&self, state: &mut Self::State, action: &Self::Action) -> bool;

    /// Returns the kind of an action. A walk draws for each kind how often it happens.
    fn kind(action: &Self::Action) -> usize;

    /// Returns how many visits of users are not over. A visit that takes longer the more users there are counts as several.
    fn visits(&self, state: &Self::State) -> u64;

    /// Tells whether all users have finished.
    fn is_over(&self, state: &Self::State) -> bool;

    /// Returns whom an action is about. A walk draws for each of them how slow it is.
    fn subject(_state: &Self::State, _action: &Self::Action) -> usize {
        0
    }

    /// Returns what was seen on the way to a state.
    fn sights(state: &Self::State) -> Sights;
}

/// What has to hold in every state of a model.
pub struct Rule<M: Model> {
    /// The rule in words.
    pub name: &'static str,
    /// Tells whether it holds.
    pub holds: fn(&M, &M::State) -> bool,
}

impl<M: Model> Rule<M> {
    /// Names a rule.
    pub const fn new(name: &'static str, holds: fn(&M, &M::State) -> bool) -> Self {
        Self { name, holds }
    }
}

/// The mistakes on the way to a state, where the state itself does not show them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(super) struct Wrongs {
    /// A holder got a token that is not newer than all before.
    pub(super) has_token_shrunk: bool,
    /// A user ended although it neither left nor had another reason to.
    pub(super) has_ended_without_reason: bool,
    /// A contender was told of a deleted node that nobody had deleted.
    pub(super) is_told_without_reason: bool,
}

/// What a state remembers for its rules and sights. It takes no part in what happens next, so states that differ only in it are one. A
/// search knows only the memory of the first path to a state. Each walk knows the memory of its own path.
#[derive(Clone, Debug, Default)]
pub struct Memory<T>(T);

impl<T> PartialEq for Memory<T> {
    fn eq(&self, _: &Self) -> bool {
        true
    }
}

impl<T> Eq for Memory<T> {}

impl<T> Hash for Memory<T> {
    fn hash<H: Hasher>(&self, _: &mut H) {}
}

impl<T> Deref for Memory<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.0
    }
}

impl<T> DerefMut for Memory<T> {
    fn deref_mut(&mut self) -> &mut T {
        &mut self.0
    }
}
