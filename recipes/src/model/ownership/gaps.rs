//! Schedules that the library does not stand, each with a remedy by which it would. A remedy that the library has got is
//! a rule like any other: its default changes, and its schedule moves to [`planted`](super::planted).

use std::collections::BTreeSet;

use stateright::{Checker, HasDiscoveries, Model};

use super::contender::Program::{Handoff, Lock};
use super::properties::{EXCLUSION, OWNED, PRESENCE, STANDING};
use super::protocol::Ownership;
use super::rules::Rules;
use super::server::Faults;
use super::{NONE, twins};

fn expect_failure(model: Ownership, property: &'static str) {
    let found = HasDiscoveries::AllOf(BTreeSet::from([property]));
    model.checker().finish_when(found).spawn_bfs().join().assert_any_discovery(property);
}

/// Expects the property to fail by the rules of the library, and all to hold by the remedy.
fn expect_gap(model: &Ownership, remedy: Rules, property: &'static str) {
    expect_failure(model.clone(), property);
    Ownership { rules: remedy, ..model.clone() }.checker().spawn_bfs().join().assert_properties();
}

/// One search lists before the node of the other contender is there. Until it has read on, somebody overwrites both nodes,
/// and the search of the other contender adopts the only node that the first one has listed. The first one then creates a
/// second node. Its first node is left, and the queue stands behind it.
#[test]
fn searches_of_a_session_that_overlap_leave_a_node_unless_they_wait_for_each_other() {
    let remedy = Rules { searches_in_turn: true, ..Rules::default() };
    let cancelled = Faults { creates_lost: 1, overwrites: 2, cancels: 1, ..NONE };
    let lost = Faults { creates_lost: 2, overwrites: 2, ..NONE };
    for faults in [cancelled, lost] {
        let model = Ownership { faults, ..twins(2) };
        expect_gap(&model, remedy, STANDING);
        expect_gap(&model, remedy, OWNED);
    }
}

/// Somebody deletes the node of a waiter, and then the lock's node, which is created again. Another contender has the
/// number of the waiter. The waiter gives up before it knows, and deletes the node of that name.
#[test]
fn a_waiter_that_gives_up_after_its_node_was_deleted_deletes_another_unless_it_asks_first() {
    let remedy = Rules { asks_before_withdrawal: true, ..Rules::default() };
    let faults = Faults { deletions: 1, cancels: 1, new_parents: 1, ..NONE };
    expect_gap(&Ownership::new(&[(Handoff, 0), (Handoff, 1)], faults), remedy, PRESENCE);
    expect_failure(Ownership::new(&[(Handoff, 0), (Handoff, 1), (Lock, 1)], faults), EXCLUSION);
}
