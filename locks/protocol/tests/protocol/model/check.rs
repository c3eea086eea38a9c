//! The check of a whole model.

use std::fmt::Debug;
use std::hash::Hash;

use stateright::{Checker, Model};

/// A model whose number of states is pinned.
pub(crate) trait Check {
    /// Checks every run. If a change of the model changes its number of states, the check fails.
    #[track_caller]
    fn check(&self, states: usize);
}

impl<M> Check for M
where
    M: Model + Clone + Debug + Send + Sync + 'static,
    M::State: Clone + Debug + Eq + Hash + Send + Sync,
    M::Action: Clone + Debug + PartialEq,
{
    #[track_caller]
    fn check(&self, states: usize) {
        let checker = self.clone().checker().threads(2).spawn_bfs().join();
        checker.assert_properties();
        assert_eq!(checker.unique_state_count(), states, "{self:?}");
    }
}
