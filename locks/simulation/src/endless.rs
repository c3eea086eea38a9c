//! Runs that never end.

use std::collections::HashMap;

use super::model::Model;

/// Searches all reachable states for a cycle of progress, which is a run that never ends. Returns a state of the cycle.
pub(super) fn find_endless_run<M: Model>(model: &M) -> Option<M::State> {
    /// The mark of a state in the depth-first search.
    #[derive(PartialEq)]
    enum Visit {
        OnPath,
        Left,
    }
    let next_states = |state: &M::State, actions: Vec<M::Action>| -> Vec<M::State> {
        let next = |action| {
            let mut next = state.clone();
            model.step(&mut next, &action).then_some(next)
        };
        actions.into_iter().filter_map(next).collect()
    };
    let progress = |state: &M::State| {
        let mut actions = vec![];
        model.progress(state, &mut actions);
        next_states(state, actions)
    };
    let all = |state: &M::State| {
        let mut actions = vec![];
        model.progress(state, &mut actions);
        model.faults(state, &mut actions);
        next_states(state, actions)
    };
    let mut marks = HashMap::new();
    let mut starts = model.starts();
    while let Some(start) = starts.pop() {
        let mut path: Vec<(M::State, Vec<M::State>)> = vec![];
        let mut visit = Some(start);
        loop {
            if let Some(state) = visit.take()
                && !marks.contains_key(&state)
            {
                marks.insert(state.clone(), Visit::OnPath);
                let ahead = progress(&state);
                path.push((state, ahead));
            }
            let Some((state, ahead)) = path.last_mut() else { break };
            match ahead.pop() {
                Some(next) if marks.get(&next) == Some(&Visit::OnPath) => return Some(next),
                Some(next) => visit = Some(next),
                None => {
                    starts.extend(all(state).into_iter().filter(|next| !marks.contains_key(next)));
                    marks.insert(state.clone(), Visit::Left);
                    path.pop();
                }
            }
        }
    }
    None
}
