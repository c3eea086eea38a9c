//! The search for a node whose name was not answered. The library's `Mark::find`, one request a step.

use super::contender::{Claim, Phase, Program, Search};
use super::protocol::Ownership;
use super::server::{Made, Naming, Node, State, Zxid};

impl Ownership {
    /// Sends the next request of a search and acts on its answer.
    pub(super) fn search(&self, state: &mut State, i: usize, mut search: Search) {
        let (own, session) = (i, state.clients[i].session);
        if state.clients[i].program != Program::Handoff {
            let found =
                state.nodes.iter().find(|node| node.naming == Naming::Protected && usize::from(node.mark) == own);
            let found = found.map(Node::made);
            return self.end_search(state, i, &search, found);
        }
        let Some(unread) = &mut search.unread else {
            let is_candidate = |naming| naming == Naming::Numbered || !self.rules.takes_numbered_only;
            let candidates = state.nodes.iter().filter(|node| node.session == session && is_candidate(node.naming));
            search.unread = Some(candidates.map(|node| node.czxid).collect());
            state.clients[i].phase = Phase::Search(search);
            return;
        };
        if !unread.is_empty() {
            match state.node(unread.remove(0)) {
                Some(node) if node.overwritten => search.overwritten.push(node.made()),
                Some(node) if usize::from(node.mark) == own && node.naming == Naming::Numbered => {
                    (search.marked, search.unread) = (Some(node.made()), Some(vec![]));
                }
                _ => {}
            }
            if !self.rules.reads_all_first {
                self.take_overwritten(state, i, &mut search);
            }
            state.clients[i].phase = Phase::Search(search);
            return;
        }
        // All answers have arrived, and are handled now.
        if let Some(node) = search.marked {
            let found = self.may_take(state, i, node.czxid).then_some(node);
            return self.end_search(state, i, &search, found);
        }
        if let Some(node) = search.adopting.take() {
            // The node that was taken is asked for once more.
            if state.has(node.czxid) || !self.rules.asks_after_taking {
                if self.rules.keeps_adopted && self.rules.respects_taken {
                    state.adopted.push(node.czxid);
                }
                return self.end_search(state, i, &search, Some(node));
            }
        }
        self.take_overwritten(state, i, &mut search);
        if search.adopting.is_none() {
            return self.end_search(state, i, &search, None);
        }
        state.clients[i].phase = Phase::Search(search);
    }

    /// Takes the first overwritten node that is free, unless the search has taken one.
    fn take_overwritten(&self, state: &mut State, i: usize, search: &mut Search) {
        if search.adopting.is_some() {
            return;
        }
        while search.adopting.is_none() && !search.overwritten.is_empty() {
            let node = search.overwritten.remove(0);
            search.adopting = self.may_take(state, i, node.czxid).then_some(node);
        }
        if search.adopting.is_some() {
            let session = state.clients[i].session;
            for other in state.clients.iter_mut().filter(|other| other.session == session) {
                if let Phase::Search(other) = &mut other.phase {
                    other.is_outdated |= other.unread.is_some();
                }
            }
        }
    }

    pub(super) fn may_take(&self, state: &State, i: usize, czxid: Zxid) -> bool {
        !self.rules.respects_taken || !state.is_taken(i, czxid)
    }

    fn end_search(&self, state: &mut State, i: usize, search: &Search, found: Option<Made>) {
        match found {
            Some(node) => {
                state.clients[i].claim = Claim::Named { node, asked: false, note: None };
                match search.cleans {
                    true if self.rules.asks_before_withdrawal => {
                        state.clients[i].doubt();
                        state.clients[i].phase = Phase::Clean;
                    }
                    true => state.clients[i].phase = Phase::Clean,
                    false if self.is_refused(node.number) => state.clients[i].give_up(),
                    false => state.clients[i].phase = Phase::Look,
                }
            }
            None if self.rules.searches_again && search.is_outdated => {
                let again = Search { cleans: search.cleans, old: search.old, ..Search::default() };
                state.clients[i].phase = Phase::Search(again);
            }
            None if search.cleans => state.clients[i].finish(),
            None => state.clients[i].phase = Phase::Create { again: true, old: search.old },
        }
    }
}
