//! What must hold, whatever happens.

use stateright::Property;

use super::contender::{Client, Hold, Phase};
use super::protocol::Protocol;
use super::server::{Kind, Node, Program, Slot, State};

pub(super) const EXCLUSION: &str = "holds exclude each other";
pub(super) const ORDER: &str = "grants go in the order of arrival";
pub(super) const AWAKE: &str = "nobody who is entitled to the lock sleeps for ever";
pub(super) const SERVED: &str = "when the holders let go everybody is served";
pub(super) const CLEAN: &str = "whoever is finished has left no node behind";
pub(super) const END: &str = "everybody finishes";
const WAITS: &str = "somebody waits while another holds";
const SHARES: &str = "two hold together";

/// What must hold always, and what must happen at all for that to say something.
pub(super) fn of(model: &Protocol) -> Vec<Property<Protocol>> {
    let mut properties = vec![
        Property::always(EXCLUSION, holds_exclude_each_other),
        Property::always(ORDER, |_, state: &State| !state.overtaken),
        Property::always(AWAKE, nobody_entitled_sleeps),
        Property::always(SERVED, everybody_is_served),
        Property::always(CLEAN, whoever_is_finished_is_gone),
        Property::eventually(END, |_, state: &State| all_done(state)),
        Property::sometimes(WAITS, |_, state: &State| {
            holders(state) > 0 && state.clients.iter().any(Client::is_asleep)
        }),
    ];
    let shares = |program: &&Program| matches!(program, Program::Read | Program::Downgrade | Program::Permit);
    if model.permits > 1 && model.programs.iter().filter(shares).count() > 1 {
        properties.push(Property::sometimes(SHARES, |_, state: &State| holders(state) > 1));
    }
    properties
}

fn holders(state: &State) -> usize {
    state.clients.iter().filter(|client| client.hold().is_some()).count()
}

fn holds_exclude_each_other(model: &Protocol, state: &State) -> bool {
    let holders = |hold| state.clients.iter().filter(move |client| client.hold() == Some(hold));
    let (alone, shared) = (holders(Hold::Alone).count(), holders(Hold::Shared).count());
    let permits: usize = holders(Hold::Permit).map(|client| client.program.leases().len().max(1)).sum();
    alone + usize::from(shared > 0) <= 1 && permits <= model.permits
}

/// When nothing happens any more, although nothing goes wrong, because the holders keep what they have.
fn nobody_entitled_sleeps(model: &Protocol, state: &State) -> bool {
    let mut actions = vec![];
    let asleep_and_entitled = |client: &Client| client.is_asleep() && is_entitled(model, state, client);
    if !state.clients.iter().any(asleep_and_entitled) {
        return true;
    }
    model.progress(state, &mut actions);
    !actions.is_empty()
}

/// When nothing can happen any more, although nothing goes wrong and the holders let go.
fn everybody_is_served(model: &Protocol, state: &State) -> bool {
    if all_done(state) {
        return true;
    }
    let mut actions = vec![];
    model.work(state, &mut actions);
    !actions.is_empty()
}

/// Whether the contender should have what it waits for. The specification, written without the library's code.
fn is_entitled(model: &Protocol, state: &State, client: &Client) -> bool {
    if let Phase::SleepOnLeases { .. } = client.phase {
        let is_among_the_oldest = |own: Node| {
            let older = state.nodes(Kind::Lease).filter(|(_, other)| other.number < own.number);
            older.count() < model.permits
        };
        return client.program.leases().iter().all(|slot| client.node(*slot).is_some_and(is_among_the_oldest));
    }
    let Some(own) = client.node(Slot::First) else { return false };
    let barring = state.nodes(own.kind).filter(|(_, other)| other.bars(&own)).count();
    let bearable = if client.program == Program::FlatPermit { model.permits - 1 } else { 0 };
    barring <= bearable
}

fn whoever_is_finished_is_gone(_: &Protocol, state: &State) -> bool {
    let finished = |client: &&Client| client.phase == Phase::Done;
    state.clients.iter().filter(finished).flat_map(|client| client.nodes.iter().map(move |node| (client, node))).all(
        // What a replaced session has left goes when it expires.
        |(client, node)| node.session != client.session,
    )
}

fn all_done(state: &State) -> bool {
    state.clients.iter().all(|client| client.phase == Phase::Done)
}
