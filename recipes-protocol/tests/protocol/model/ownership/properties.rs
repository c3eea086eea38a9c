//! What must hold, whatever happens.

use stateright::{Model, Property};

use super::contender::{Claim, Client, Phase};
use super::protocol::Ownership;
use super::server::{ACCEPTED_LAST, Naming, Node, State};

pub(super) const EXCLUSION: &str = "at most one contender holds";
pub(super) const PRESENCE: &str = "nobody is granted whose node is not there";
pub(super) const OWNED: &str = "every node of a session is one of its contenders'";
pub(super) const STANDING: &str = "the queue stands only when everybody is done";
pub(super) const CAUSED: &str = "nobody is told that its node was deleted unless somebody deleted one";
const WAITS: &str = "somebody waits while another holds";

/// What must hold always, and what must happen for that to say something.
pub(super) fn of(model: &Ownership) -> Vec<Property<Ownership>> {
    let mut properties = vec![
        Property::always(EXCLUSION, |_, state| holders(state) <= 1),
        Property::always(PRESENCE, |_, state: &State| !state.granted_without_node),
        Property::always(CAUSED, |model: &Ownership, state: &State| {
            !state.told_deleted || state.left.deletions < model.faults.deletions
        }),
        Property::always(OWNED, |_, state: &State| state.nodes.iter().all(|node| is_owned(state, node))),
        Property::always(STANDING, |model: &Ownership, state| goes_on(model, state) || is_over(state)),
    ];
    // Otherwise all contenders but one are refused.
    if model.first < ACCEPTED_LAST {
        properties.push(Property::sometimes(WAITS, |_, state: &State| {
            holders(state) > 0 && state.clients.iter().any(|client| matches!(client.phase, Phase::Sleep(_)))
        }));
    }
    properties
}

fn holders(state: &State) -> usize {
    state.clients.iter().filter(|client| client.phase == Phase::Hold).count()
}

/// Whether some contender of the session has the node, or may yet find it.
fn is_owned(state: &State, node: &Node) -> bool {
    let owns = |client: &Client| {
        let has = matches!(client.claim, Claim::Named { node: own, .. } if own.czxid == node.czxid);
        client.session == node.session && (has || client.may_own_unnamed())
    };
    node.naming == Naming::Foreign || state.clients.iter().any(owns)
}

/// Whether anything happens although nothing goes wrong any more and holders release.
fn goes_on(model: &Ownership, state: &State) -> bool {
    let mut actions = vec![];
    model.work(state, &mut actions);
    actions.into_iter().any(|action| model.next_state(state, action).is_some())
}

fn is_over(state: &State) -> bool {
    state.clients.iter().all(|client| client.phase == Phase::Done)
}
