//! Runs that never end.

use std::collections::HashMap;
use std::hash::Hash;

use stateright::Model;

/// Searches all reachable states for a cycle of `steps`, which is a run that never ends. Returns a state of the cycle.
pub(super) fn find_endless_run<M>(model: &M, steps: impl Fn(&M::State, &mut Vec<M::Action>)) -> Option<M::State>
where
    M: Model,
    M::State: Clone + Eq + Hash,
{
    /// The mark of a state in the depth-first search.
    #[derive(PartialEq)]
    enum Visit {
        OnPath,
        Left,
    }
    let steps = |state: &M::State| {
        let mut actions = vec![];
        steps(state, &mut actions);
        actions.into_iter().filter_map(|action| model.next_state(state, action)).collect::<Vec<_>>()
    };
    let mut marks = HashMap::new();
    let mut starts = model.init_states();
    while let Some(start) = starts.pop() {
        let mut path: Vec<(M::State, Vec<M::State>)> = vec![];
        let mut visit = Some(start);
        loop {
            if let Some(state) = visit.take()
                && !marks.contains_key(&state)
            {
                marks.insert(state.clone(), Visit::OnPath);
                let ahead = steps(&state);
                path.push((state, ahead));
            }
            let Some((state, ahead)) = path.last_mut() else { break };
            match ahead.pop() {
                Some(next) if marks.get(&next) == Some(&Visit::OnPath) => return Some(next),
                Some(next) => visit = Some(next),
                None => {
                    starts.extend(model.next_states(state).into_iter().filter(|next| !marks.contains_key(next)));
                    marks.insert(state.clone(), Visit::Left);
                    path.pop();
                }
            }
        }
    }
    None
}
