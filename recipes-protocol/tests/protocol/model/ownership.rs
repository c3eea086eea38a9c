//! Whose node is it? The queue once more, on a server where nodes have names, sessions, data and transactions.
//!
//! In the model of the queue a node is one of the contender that made it. Here a contender has to find out. It knows its
//! node by the answer to `create`, by the mark in the node's data, or by the session alone if somebody has overwritten the
//! data. Several contenders of different kinds share the session.
//!
//! # What is modelled
//!
//! * `HandoffMutex`, `Mutex` and Curator's mutex in one queue, two of them in one session. Curator's has a session of its
//!   own and lists after every step.
//! * One request a step. The answers to a `create` and to its look arrive first and are handled later.
//! * A `create` that is lost, applied or not, and the search after it: the listing, the data of one node after the other,
//!   the taking of a node, and the question whether that node is still there. A deletion that is lost.
//! * A `create` with and without a look, a note read beside the own node, a listing, questions for those ahead, and the
//!   number before which nobody is any more, as the session knows it.
//! * The version of the data of the lock's node, and the lock's node that a note names.
//! * Faults, each as often as [`Faults`] says: somebody overwrites the data of any node, deletes the node of any contender
//!   that does not hold, or deletes the empty lock's node and creates it again with its old data or with none. A contender
//!   gives up. A session expires. A persistent child that is no contender is there.
//! * Numbers near the last: the first contender has the last number that is accepted, and all later ones have the last
//!   number that servers give.
//!
//! The decisions are the library's: [`zk_recipes_protocol::queue::Queue`], [`zk_recipes_protocol::predecessors::Predecessors`], [`zk_recipes_protocol::release_note::ParentState`] and
//! [`zk_recipes_protocol::names::Sequence::supply`]. The rest is rewritten here, and [`Rules`](rules::Rules) names it.
//!
//! # What is not
//!
//! * A hold that is passed on within a session, and a grant by nothing but the number: the model of the queue has both.
//! * `RwLock`, semaphores, `try_acquire`.
//! * The time between the question whether an own node is there and its deletion, after a deletion that was lost.
//! * A lock's node that is missing while somebody wants to create a child, and data of it that are no note.
//! * The search of Curator, and more contenders, sessions and faults than the tests name.
//!

mod contender;
mod planted;
mod properties;
mod protocol;
mod rules;
mod search;
mod server;
mod steps;

use stateright::{Checker, Model};

use self::contender::Program::{Curator, Handoff, Lock};
use self::protocol::Ownership;
use self::server::Faults;
use super::queue::properties::find_endless_run;

const NONE: Faults =
    Faults { creates_lost: 0, deletes_lost: 0, overwrites: 0, deletions: 0, cancels: 0, new_parents: 0, expiries: 0 };

/// Two `HandoffMutex`es of one session, and a `create` that is lost.
fn twins(overwrites: u8) -> Ownership {
    Ownership::new(&[(Handoff, 0), (Handoff, 0)], Faults { creates_lost: 1, overwrites, ..NONE })
}

/// Two kinds of lock in one session.
fn two_kinds() -> Ownership {
    Ownership::new(&[(Handoff, 0), (Lock, 0)], Faults { creates_lost: 1, overwrites: 1, ..NONE })
}

/// The lock's node is created again while answers are not handled. The first number is 1, so that a grant in the first
/// lock's node says something of the second.
fn begun_anew() -> Ownership {
    let faults = Faults { creates_lost: 1, overwrites: 1, new_parents: 1, ..NONE };
    Ownership { first: 1, ..Ownership::new(&[(Handoff, 0), (Handoff, 0), (Lock, 1)], faults) }
}

/// Somebody deletes a node. A child that is no contender is there.
fn deleted() -> Ownership {
    let faults = Faults { deletions: 1, cancels: 1, ..NONE };
    Ownership { has_foreign: true, ..Ownership::new(&[(Handoff, 0), (Handoff, 1)], faults) }
}

/// The lock's node has the data of an earlier one.
fn copied_note() -> Ownership {
    let contenders = [(Handoff, 0), (Handoff, 0), (Handoff, 1)];
    Ownership { older_note: Some(1), ..Ownership::new(&contenders, Faults { cancels: 1, ..NONE }) }
}

/// One contender has the last number that is accepted. All later ones have the last number of all.
fn last_numbers() -> Ownership {
    let faults = Faults { creates_lost: 1, cancels: 1, ..NONE };
    Ownership { first: server::ACCEPTED_LAST, ..Ownership::new(&[(Handoff, 0), (Lock, 0), (Lock, 1)], faults) }
}

/// Follows every run. The number of states is pinned, lest the model change without anybody noticing.
fn check(model: &Ownership, states: usize) {
    let checker = model.clone().checker().threads(2).spawn_bfs().join();
    checker.assert_properties();
    assert_eq!(checker.unique_state_count(), states, "{:?} with {:?}", model.contenders, model.faults);
}

#[test]
fn after_a_lost_create_a_contender_takes_no_node_of_another() {
    let faults = Faults { creates_lost: 1, overwrites: 1, ..NONE };
    let of_one_session = Ownership::new(&[(Handoff, 0), (Handoff, 0), (Handoff, 0)], faults);
    check(&Ownership { is_busy: true, ..of_one_session }, 180_947);
    let with_another = [(Handoff, 0), (Handoff, 0), (Handoff, 1)];
    check(&Ownership::new(&with_another, Faults { deletes_lost: 1, ..faults }), 102_760);
    check(&Ownership { faults: Faults { deletes_lost: 1, ..twins(2).faults }, ..twins(2) }, 4_009);
    let twice = Faults { creates_lost: 2, deletes_lost: 1, cancels: 1, ..faults };
    check(&Ownership { faults: twice, ..twins(1) }, 15_166);
}

#[test]
fn locks_of_different_kinds_share_a_queue_and_a_session() {
    let faults = Faults { creates_lost: 1, overwrites: 1, ..NONE };
    check(&Ownership::new(&[(Handoff, 0), (Lock, 0), (Curator, 1)], Faults { cancels: 1, ..faults }), 68_884);
    check(&Ownership::new(&[(Handoff, 0), (Lock, 0), (Handoff, 1)], Faults { deletes_lost: 1, ..faults }), 87_942);
    let faults = Faults { creates_lost: 1, deletions: 1, ..NONE };
    check(&Ownership::new(&[(Lock, 0), (Lock, 0), (Curator, 1)], faults), 22_733);
}

#[test]
fn a_lock_s_node_that_is_created_again_lets_nobody_in_beside_a_holder() {
    check(&Ownership { is_busy: true, ..begun_anew() }, 194_319);
    check(&Ownership::new(&[(Handoff, 0), (Lock, 0), (Handoff, 1)], begun_anew().faults), 99_410);
    let again = Faults { new_parents: 1, ..copied_note().faults };
    check(&Ownership { faults: again, is_busy: true, ..copied_note() }, 79_521);
    let deleted = Faults { deletions: 1, new_parents: 1, ..NONE };
    check(&Ownership::new(&[(Handoff, 0), (Handoff, 1)], deleted), 1_589);
}

#[test]
fn a_waiter_whose_node_was_deleted_is_not_granted_beside_a_foreign_child() {
    check(&Ownership { is_busy: true, ..deleted() }, 4_269);
    let faults = Faults { creates_lost: 1, deletions: 1, ..NONE };
    let three = Ownership::new(&[(Handoff, 0), (Handoff, 0), (Lock, 1)], faults);
    check(&Ownership { has_foreign: true, ..three }, 169_591);
}

#[test]
fn contenders_with_the_last_number_are_refused() {
    check(&last_numbers(), 7_689);
}

#[test]
fn a_session_that_expires_leaves_nothing_and_holds_up_nobody() {
    let contenders = [(Handoff, 0), (Handoff, 0), (Handoff, 1)];
    check(&Ownership::new(&contenders, Faults { creates_lost: 1, cancels: 1, expiries: 1, ..NONE }), 61_210);
}

#[test]
fn two_contenders_stand_a_fault_of_every_kind() {
    let faults = Faults {
        creates_lost: 1,
        deletes_lost: 1,
        overwrites: 1,
        deletions: 1,
        cancels: 1,
        new_parents: 1,
        expiries: 1,
    };
    check(&Ownership::new(&[(Lock, 0), (Lock, 1)], faults), 30_091);
    let handed_over = Ownership::new(&[(Handoff, 0), (Handoff, 1)], faults);
    check(&Ownership { is_busy: true, ..handed_over }, 155_187);
}

#[test]
fn nobody_searches_for_ever() {
    for model in [twins(2), two_kinds(), deleted()] {
        assert_eq!(find_endless_run(&model, |state, actions| model.work(state, actions)), None);
    }
}
