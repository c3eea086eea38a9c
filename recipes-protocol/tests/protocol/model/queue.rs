//! The protocol of the queue, model-checked: whatever the order of requests, notifications, faults and users, for a few
//! contenders every order there is.
//!
//! Contenders are the state machines of `acquire.rs`, `claim.rs`, `reaper.rs` and `semaphore.rs`, one request a step, and
//! decide by the library's own code: how nodes are named, parsed and found again, who holds and who waits for whom, what
//! a contender remembers of those ahead and what a holder's note says, who is let in by a `try`, how leases are counted,
//! when a hold is lost. [`Rules`](rules::Rules) names the decisions. The tests of [`planted`] each swap one of them for a
//! mistake that others have made, and expect the same checker to find it.
//!
//! # What is modelled
//!
//! * One server: the children of the lock's parents, with number and session, and watches that fire once.
//! * A request that is applied or not, and whose reply comes or not; the search for a node of unknown name; `acquire`,
//!   `try_acquire`, a downgrade, permits one by one and several at once.
//! * A waiter that lists the queue again or asks for those that it has seen ahead, whichever is cheaper: here either,
//!   wherever it may. What it learns from others of its session, all contenders here learn from each other.
//! * A session that several share, and a lock that they pass on before the server knows. What is not known to the one that
//!   releases, whether the other's node is there, is the server's to find out.
//! * The note of a holder, and what else is read with it, as the server counts it.
//! * A grant by nothing but the number, wherever the library may rely on that; when it does is left open. A `create` is
//!   applied and answered in one step here, so the order of a delete and a `create` under way is not explored. What a grant
//!   says is known to all contenders here until another is granted, so that each may be the next of its session, or of
//!   another that has come in between.
//! * The node whose children queue, deleted when it is empty, and created again: the numbers begin anew. Its watch tells
//!   of that at once, before a later `create` is answered, and is set again at once, so that it hinders nobody.
//! * At any moment: a cancel or a deadline that passes (one and the same here: either way the claim is deleted, by
//!   name or after a search, until it is gone), the death of a process, a silence that costs the hold, the expiry of a
//!   session, the deletion of a waiter's node by hand, a notification without a deletion.
//! * Time, only as an order: a session expires after its client has taken its holds for lost. That this is so is
//!   checked in [`clocks`], with time.
//!
//! # What is not
//!
//! * Servers that lag behind. A reader that sees the past of the queue sees at least what was ahead of its own node when
//!   that was created, so it waits too long, until its server has caught up, but is never granted too early. The search
//!   for a node begins with a `sync` for that reason and is one step here.
//! * The client library's own work: that requests of a session keep their order, that a notification is seen before the
//!   answers that the server sends after it, that a watch survives a reconnect, that a write which was lost on a broken
//!   connection is not applied after the next `sync`.
//! * That the leases of one `acquire_many` are created together, with one prefix, and looked for together: here it is one
//!   after the other, and each has a prefix of its own.
//! * Missing parents; refused requests; data of the lock's node that are no notes; a count of permits that changes; the
//!   fixed node of `NaiveLock`.
//! * Overwritten data of a contender's node, parents that are deleted where names are numbers alone, and the last numbers:
//!   [`world`](super::world) has them.
//! * A hold whose node is deleted by hand: the guarantees do not cover it. Nor do they cover two `acquire_many` that both
//!   add leases because the place in the queue of one was deleted by hand.
//! * More contenders than here. A contender that comes again is one more contender.

mod contender;
mod planted;
pub(super) mod properties;
mod protocol;
mod rules;
mod server;
mod steps;

use stateright::{Checker, Model};

use super::endless::find_endless_run;

use self::protocol::{Faults, Protocol};
use self::server::Program::{Downgrade, Handoff, Lock, Permit, Read, TryLock, TryPermit, TwoPermits, Write};

/// Follows every run, and wants at least so many states, lest the model become empty without anybody noticing.
fn check(model: Protocol, states_min: usize) {
    let checker = model.checker().threads(2).spawn_bfs().join();
    checker.assert_properties();
    let states = checker.unique_state_count();
    assert!(states >= states_min, "only {states} states");
}

#[test]
fn three_contenders_of_a_mutex_stand_every_fault() {
    check(Protocol::new(&[Lock, Lock, Lock], Faults::ALL), 20_000);
}

#[test]
fn four_contenders_of_a_mutex_stand_most_faults() {
    check(Protocol::new(&[Lock, Lock, Lock, Lock], Faults::FEW), 45_000);
}

#[test]
fn who_relies_on_its_number_holds_alone_whatever_else_happens() {
    let faults = Faults { new_parents_max: 1, ..Faults::ALL };
    check(Protocol::new(&[Lock, Lock, Lock], faults).expecting(), 100_000);
    let few = Faults { new_parents_max: 1, ..Faults::FEW };
    check(Protocol::new(&[Lock, Lock, Lock, Lock], few).expecting(), 200_000);
    check(Protocol::new(&[Lock, Lock, TryLock], Faults { deletions: true, ..few }).expecting(), 130_000);
    check(Protocol::new(&[Lock, Lock, Handoff], Faults { new_parents_max: 0, ..few }).expecting(), 18_000);
    check(Protocol::new(&[Permit, Permit, Permit], few).expecting(), 75_000);
}

#[test]
fn what_is_handed_over_stands_every_fault() {
    check(Protocol::new(&[Handoff, Handoff, Handoff], Faults::ALL), 25_000);
    check(Protocol::new(&[Handoff, Handoff, Handoff, Handoff], Faults::FEW), 35_000);
}

#[test]
fn what_is_handed_over_queues_with_contenders_that_leave_no_notes() {
    check(Protocol::new(&[Handoff, Handoff, Lock], Faults::ALL), 110_000);
    check(Protocol::new(&[Handoff, Handoff, Handoff, Lock], Faults::FEW), 240_000);
    check(Protocol::new(&[Handoff, Handoff, TryLock], Faults::ALL), 70_000);
}

#[test]
fn what_is_passed_on_within_a_session_stands_every_fault() {
    check(Protocol::new(&[Lock, Lock, Lock], Faults::ALL).with_kin(2), 80_000);
    check(Protocol::new(&[Handoff, Handoff, Handoff], Faults::ALL).with_kin(2), 60_000);
    check(Protocol::new(&[Handoff, Lock, Handoff], Faults::ALL).with_kin(2), 180_000);
}

#[test]
fn what_is_passed_on_from_one_to_the_next_stands_most_faults() {
    let (lost, deleted) = (
        Faults { replies_lost_max: Some(1), cancels: true, ..Faults::NONE },
        Faults { deletions: true, ..Faults::NONE },
    );
    check(Protocol::new(&[Lock, Lock, Lock], Faults { deletions: true, ..Faults::FEW }).with_kin(3), 25_000);
    check(Protocol::new(&[Lock, Lock, Lock, Lock], lost).with_kin(3), 190_000);
    check(Protocol::new(&[Handoff, Handoff, Handoff, Handoff], deleted).with_kin(3), 300_000);
}

#[test]
fn who_only_tries_disturbs_nobody_who_waits() {
    check(Protocol::new(&[Lock, Lock, TryLock], Faults::ALL), 45_000);
}

#[test]
fn readers_share_and_exclude_writers() {
    check(Protocol::new(&[Write, Read, Read], Faults::ALL), 25_000);
    check(Protocol::new(&[Write, Write, Read], Faults::ALL), 25_000);
    check(Protocol::new(&[Write, Write, Read, Read], Faults::FEW), 70_000);
}

#[test]
fn a_downgrade_lets_no_writer_in_between() {
    check(Protocol::new(&[Downgrade, Write, Read], Faults::ALL), 150_000);
    check(Protocol::new(&[Downgrade, Downgrade, Write, Read], Faults::FEW), 350_000);
}

#[test]
fn of_a_semaphore_no_more_hold_than_there_are_permits() {
    check(Protocol::new(&[Permit, Permit, Permit], Faults::ALL), 650_000);
    check(Protocol::new(&[Permit, Permit, Permit, Permit], Faults::FEW), 250_000);
}

#[test]
fn a_semaphore_of_one_permit_is_a_mutex() {
    check(Protocol::new(&[Permit, Permit, Permit], Faults::FEW).with_permits(1), 9_000);
}

#[test]
fn who_only_tries_for_a_permit_disturbs_nobody_who_waits() {
    check(Protocol::new(&[Permit, Permit, TryPermit], Faults::FEW), 30_000);
    check(Protocol::new(&[Permit, TryPermit], Faults::ALL).with_permits(1), 12_000);
}

#[test]
fn several_permits_at_once_are_had_without_deadlock() {
    check(Protocol::new(&[Permit, TwoPermits], Faults::ALL), 50_000);
    check(Protocol::new(&[Permit, TwoPermits, TwoPermits], Faults::FEW), 75_000);
}

/// A client that keeps what it does over a change of its session, as the library does not, still must not take the node
/// of its earlier session for its own.
#[test]
fn a_node_of_an_earlier_session_is_not_adopted() {
    check(Protocol::new(&[Lock, Lock, Lock], RENEWED), 8_000);
}

/// One reply is lost, and no more: a second search would come upon the node of the earlier session first and look no
/// further. As the library never replaces a session, nothing of its own can be there.
const RENEWED: Faults = Faults { renewals: true, ..Faults::FEW };

/// That in a state where nothing happens any more nobody is forgotten says little when something may happen for ever.
#[test]
fn nobody_is_busy_for_ever_when_nothing_goes_wrong_any_more() {
    for (programs, faults) in [
        ([Lock, Lock, TryLock], Faults::ALL),
        ([Handoff, Handoff, Lock], Faults::FEW),
        ([Downgrade, Write, Read], Faults::FEW),
        ([Permit, Permit, TryPermit], Faults::FEW),
        ([Permit, TwoPermits, TwoPermits], Faults::FEW),
    ] {
        let model = Protocol::new(&programs, faults);
        assert_eq!(find_endless_run(&model, |state, actions| model.work(state, actions)), None, "{programs:?}");
    }
    let model = Protocol::new(&[Lock, Lock], Faults { touches: true, ..Faults::NONE });
    let disturbed = find_endless_run(&model, |state, actions| model.actions(state, actions));
    assert!(disturbed.is_some(), "a waiter that is woken for nothing again and again was not noticed");
}
