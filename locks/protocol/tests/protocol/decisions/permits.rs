//! What an attempt to take permits decides on answers that the models do not have.

use zk_recipes_protocol::permits::{Ask, AttemptOutcome, AttemptState, Event, Flight, Permits};

/// Returns what the attempt asks for after an event.
fn asks(attempt: &mut Permits, event: Event) -> Vec<Ask> {
    let mut asks = Vec::new();
    attempt.on(event, &mut asks);
    asks
}

/// Goal: a user that may not create leases keeps no other contender waiting. Method: it leaves, and then the answers say that no lease
/// was created.
#[test]
fn an_attempt_without_leases_leaves_the_lease_lock_at_once() {
    let refused = Flight::default();
    let lost = Flight { is_to_repeat: true, ..Flight::default() };
    let without_parent = Flight { is_parent_missing: true, ..Flight::default() };
    for flight in [refused, lost, without_parent] {
        let mut attempt = Permits::enter(1, false, 8, true, &mut Vec::new());
        assert_eq!(asks(&mut attempt, Event::LeaseLock(true)), [Ask::Create(1)]);
        assert_eq!(asks(&mut attempt, Event::Leaves), [Ask::Find], "its leases may exist");
        assert_eq!(asks(&mut attempt, Event::Created(flight)), [Ask::LeaveLeaseLock]);
        assert_eq!(attempt.state(), AttemptState::Leaving(AttemptOutcome::Left));
        assert!(!attempt.has_claim());
    }
}
