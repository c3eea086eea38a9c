//! Holds over a cut connection, and over servers that grant a shorter timeout.

use zk_recipes_protocol::liveness::{ConnectionState, Event, LossEpoch, LostReason};

use super::{TIMEOUT, ms, prove, proved_at, read, state};

// L36
#[test]
fn a_disconnect_suspends_at_once_and_does_not_prolong_the_proof() {
    let mut live = proved_at(1_000);
    live.on_event(ms(4_000), Event::Disconnected);
    assert_eq!(state(live, 4_000), ConnectionState::Suspended);
    assert_eq!(state(live, 11_000), ConnectionState::Lost(LostReason::Silence));
}

// L43
#[test]
fn a_hold_survives_a_new_connection_that_comes_in_time() {
    let mut live = proved_at(1_000);
    live.on_event(ms(2_000), Event::Disconnected);
    live.on_event(ms(2_100), Event::Attaching(TIMEOUT));
    live.on_event(ms(2_200), Event::Attached(TIMEOUT));
    prove(&mut live, 2_300);
    assert_eq!(state(live, 2_400), ConnectionState::Suspended);
    live.on_event(ms(2_400), Event::Connected);
    assert_eq!(state(live, 2_400), ConnectionState::Connected);
    assert_eq!((live.lost_since(LossEpoch(0)), live.lost_at()), (None, ms(13_100)));
}

// L43
#[test]
fn an_answer_on_the_former_connection_proves_nothing() {
    let mut live = proved_at(1_000);
    let late = live.on_send(ms(1_500));
    live.on_event(ms(2_000), Event::Disconnected);
    live.on_event(ms(2_100), Event::Attaching(TIMEOUT));
    live.on_event(ms(2_200), Event::Attached(TIMEOUT));
    live.on_event(ms(2_200), Event::Connected);
    live.on_answer(ms(2_300), late);
    read(&mut live, 2_350);
    prove(&mut live, 5_851);
    assert_eq!(live.lost_at(), ms(2_350 + 11_000), "the late answer takes no place from the next one");
}

// L36
#[test]
fn an_unanswered_handshake_counts_with_its_server_s_timeout() {
    let mut live = proved_at(1_000);
    live.on_event(ms(2_000), Event::Disconnected);
    live.on_event(ms(2_100), Event::Attaching(ms(1_200)));
    assert_eq!(live.lost_at(), ms(3_200));
    assert_eq!(live.at(ms(3_200)).lost_since(LossEpoch(0)), Some(LostReason::Silence));
    // Another server grants more. The first one may still accept the session.
    live.on_event(ms(2_500), Event::Attaching(TIMEOUT));
    assert_eq!(live.lost_at(), ms(3_200));
    live.on_event(ms(2_600), Event::Attached(TIMEOUT));
    assert_eq!(live.margins().session_timeout(), ms(1_200));
    prove(&mut live, 2_700);
    assert_eq!((live.lost_at(), live.lost_since(LossEpoch(0))), (ms(2_500 + 1_100), None));
}

// L36, L43
#[test]
fn a_shorter_timeout_counts_from_its_handshake_on() {
    let mut live = proved_at(1_000);
    live.on_event(ms(2_000), Event::Disconnected);
    live.on_event(ms(7_000), Event::Attaching(ms(3_000)));
    live.on_event(ms(7_100), Event::Attached(ms(3_000)));
    assert_eq!((live.lost_at(), live.lost_since(LossEpoch(0))), (ms(9_750), None));
    prove(&mut live, 7_200);
    assert_eq!((live.lost_at(), live.lost_since(LossEpoch(0))), (ms(9_750), None));
}

// L36
#[test]
fn a_timeout_only_becomes_shorter() {
    let mut live = proved_at(1_000);
    for (granted, expected) in [(6_000, 6_000), (12_000, 6_000), (3_000, 3_000), (60_000, 3_000)] {
        live.on_event(ms(1_000), Event::Attaching(ms(granted)));
        live.on_event(ms(1_000), Event::Attached(ms(granted)));
        assert_eq!(live.margins().session_timeout(), ms(expected));
        prove(&mut live, 1_000);
        assert_eq!(live.margins().session_timeout(), ms(expected));
    }
    assert_eq!(live.lost_at(), ms(1_000 + 2_750));
}

// L36
#[test]
fn a_handshake_that_is_taken_in_late_is_covered() {
    let mut live = proved_at(1_000);
    live.on_event(ms(2_000), Event::Disconnected);
    live.on_event(ms(2_100), Event::Attaching(ms(3_000)));
    live.on_event(ms(5_000), Event::Attaching(TIMEOUT));
    live.on_event(ms(5_100), Event::Attached(TIMEOUT));
    live.on_event(ms(5_100), Event::Connected);
    prove(&mut live, 5_200);
    assert!(live.is_proved());
    assert_eq!(live.lost_at(), ms(5_000 + 2_750));
}
