//! Who can do what next, and what becomes of it.

use stateright::{Model, Property};

use super::contender::{Client, Phase, Program};
use super::properties;
use super::rules::Rules;
use super::server::{Faults, Naming, State, Zxid};
use super::steps;

/// One queue, with those who want it.
#[derive(Clone)]
pub(super) struct Ownership {
    /// Each contender with its session.
    pub(super) contenders: Vec<(Program, u8)>,
    /// The number of the first node.
    pub(super) first: i32,
    /// The number of a note that an earlier lock's node had, and that was copied to this one.
    pub(super) older_note: Option<i32>,
    /// Whether the lock's node has a child that is no contender.
    pub(super) has_foreign: bool,
    /// Whether a contender may send its `create` without a look.
    pub(super) is_busy: bool,
    pub(super) faults: Faults,
    pub(super) rules: Rules,
}

/// Something that happens. The number is the index of the contender that it happens to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Action {
    /// A request is sent, applied and answered, or an answer is handled, or the user releases.
    Step(usize),
    /// The contender sends its `create` without a look.
    CreateAlone(usize),
    /// The contender asks for those that it has seen ahead, instead of listing the queue.
    Probe(usize),
    /// A write is lost on the way, or its reply is.
    LoseReply {
        client: usize,
        applied: bool,
    },
    GiveUp(usize),
    /// Somebody overwrites the data of the node.
    Overwrite(Zxid),
    /// Somebody deletes the node.
    Delete(Zxid),
    /// Somebody deletes the lock's node and creates it again.
    BeginAnew {
        keeps_data: bool,
    },
    /// The session ends.
    Expire(u8),
}

impl Ownership {
    pub(super) fn new(contenders: &[(Program, u8)], faults: Faults) -> Self {
        Self {
            contenders: contenders.to_vec(),
            first: 0,
            older_note: None,
            has_foreign: false,
            is_busy: false,
            faults,
            rules: Rules::default(),
        }
    }

    /// What happens when nothing goes wrong any more.
    pub(super) fn work(&self, state: &State, actions: &mut Vec<Action>) {
        for (i, client) in state.clients.iter().enumerate() {
            match &client.phase {
                Phase::Done => {}
                Phase::Sleep(czxid) if state.has(*czxid) => {}
                _ => actions.push(Action::Step(i)),
            }
            let is_first = matches!(client.phase, Phase::Create { again: false, .. });
            if self.is_busy && is_first && client.program == Program::Handoff {
                actions.push(Action::CreateAlone(i));
            }
            if steps::may_probe(client) {
                actions.push(Action::Probe(i));
            }
        }
    }

    /// What may go wrong.
    fn faults(state: &State, actions: &mut Vec<Action>) {
        let left = &state.left;
        for (i, client) in state.clients.iter().enumerate() {
            let loses = match client.phase {
                // Curator's own search is not modelled.
                Phase::Create { .. } => left.creates_lost > 0 && client.program != Program::Curator,
                Phase::Clean => left.deletes_lost > 0,
                _ => false,
            };
            if loses {
                actions.extend([true, false].map(|applied| Action::LoseReply { client: i, applied }));
            }
            let gives_up = match &client.phase {
                Phase::Create { again, .. } => *again,
                Phase::Search(search) => !search.cleans,
                Phase::Hold | Phase::Clean | Phase::Done => false,
                _ => true,
            };
            if gives_up && left.cancels > 0 {
                actions.push(Action::GiveUp(i));
            }
        }
        for node in &state.nodes {
            if left.overwrites > 0 && !node.overwritten && node.naming != Naming::Foreign {
                actions.push(Action::Overwrite(node.czxid));
            }
            if left.deletions > 0 && state.clients.iter().all(|client| !holds_by(client, node.czxid)) {
                actions.push(Action::Delete(node.czxid));
            }
        }
        if left.new_parents > 0 && state.nodes.is_empty() {
            actions.push(Action::BeginAnew { keeps_data: false });
            if state.parent.note.is_some() {
                actions.push(Action::BeginAnew { keeps_data: true });
            }
        }
        if left.expiries > 0 {
            actions.extend([0, 1].map(Action::Expire));
        }
    }
}

/// Whether the contender holds by this node, or does as soon as it handles its answers. That somebody deletes the node of
/// a hold is not covered by the guarantees.
fn holds_by(client: &Client, czxid: Zxid) -> bool {
    match client.phase {
        Phase::Hold | Phase::Clean => client.own().czxid == czxid,
        Phase::Answered(made, _) => made.czxid == czxid && steps::is_about_to_hold(client),
        _ => false,
    }
}

impl Model for Ownership {
    type State = State;
    type Action = Action;

    fn init_states(&self) -> Vec<State> {
        let clients = self.contenders.iter().map(|(program, session)| Client::new(*program, *session)).collect();
        vec![State::new(clients, self.first, self.older_note, self.has_foreign, self.faults)]
    }

    fn actions(&self, state: &State, actions: &mut Vec<Action>) {
        self.work(state, actions);
        Self::faults(state, actions);
    }

    fn next_state(&self, last: &State, action: Action) -> Option<State> {
        let mut next = last.clone();
        match action {
            Action::Step(i) => self.step(&mut next, i),
            Action::CreateAlone(i) => Self::create_alone(&mut next, i),
            Action::Probe(i) => next.clients[i].phase = Phase::Probe(vec![]),
            Action::LoseReply { client, applied } => self.lose_reply(&mut next, client, applied),
            Action::GiveUp(i) => {
                next.left.cancels -= 1;
                if self.rules.asks_before_withdrawal {
                    next.clients[i].doubt();
                }
                next.clients[i].give_up();
            }
            Action::Overwrite(czxid) => {
                next.left.overwrites -= 1;
                let node = next.nodes.iter_mut().find(|node| node.czxid == czxid);
                node.expect("BUG: there is no such node").overwritten = true;
            }
            Action::Delete(czxid) => {
                next.left.deletions -= 1;
                next.delete(|node| node.czxid == czxid);
            }
            Action::BeginAnew { keeps_data } => {
                next.left.new_parents -= 1;
                next.begin_anew(keeps_data);
            }
            Action::Expire(session) => {
                next.left.expiries -= 1;
                next.delete(|node| node.session == session);
                next.clients.iter_mut().filter(|client| client.session == session).for_each(Client::finish);
            }
        }
        next.renumber();
        (next != *last).then_some(next)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        properties::of(self)
    }
}
