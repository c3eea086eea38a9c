//! How long holds live, by the proofs of their session.

mod reconnects;

use std::time::Duration;

use zk_recipes_protocol::liveness::{ConnectionState, Event, Liveness, LossEpoch, LostReason, Margins, Sign};

const TIMEOUT: Duration = Duration::from_secs(12);

fn ms(ms: u64) -> Duration {
    Duration::from_millis(ms)
}

fn margins(session_timeout: Duration) -> Margins {
    Margins::new(session_timeout, None)
}

/// Returns a session with a proof every half second. The last proof was sent at `at_ms`.
fn proved_at(at_ms: u64) -> Liveness {
    let mut live = Liveness::new(margins(TIMEOUT), ms(0));
    (0..=at_ms).step_by(500).chain([at_ms]).for_each(|at| prove(&mut live, at));
    live
}

/// Sends a proof that is answered at once.
fn prove(live: &mut Liveness, at_ms: u64) {
    let sent = live.on_send(ms(at_ms));
    live.on_proof(ms(at_ms), sent);
}

/// Sends a read that is answered at once.
fn read(live: &mut Liveness, at_ms: u64) {
    let sent = live.on_send(ms(at_ms));
    live.on_answer(ms(at_ms), sent);
}

/// Returns the state that a session with holds shows.
fn state(live: Liveness, at_ms: u64) -> ConnectionState {
    live.at(ms(at_ms)).state(true)
}

// L36
#[test]
fn a_hold_outlives_its_last_proof_by_the_timeout_less_margins() {
    for (tick, timeout, lost_after_ms) in [
        (None, 4_000, 2_167),
        (None, 10_000, 5_417),
        (None, 20_000, 10_833),
        (Some(500), 1_000, 542),
        (Some(2_000), 4_000, 2_167),
        (Some(2_000), 10_000, 6_917),
        (Some(2_000), 3_000, 1_375),
        (Some(3_000), 6_000, 3_250),
    ] {
        let margins = Margins::new(ms(timeout), tick.map(ms));
        assert_eq!((margins.lost_after() + ms(1) / 2).as_millis(), lost_after_ms, "{tick:?} {timeout}");
        assert!(margins.are_sufficient() && margins.suspect_after() < margins.lost_after());
        // The session sends messages at its longest interval.
        let mut live = Liveness::new(margins, ms(0));
        let step = margins.speak_after();
        let last = (0..100).map(|i| i * step).inspect(|at| {
            let sent = live.on_send(*at);
            live.on_proof(*at, sent);
        });
        let last = last.last().unwrap();
        assert!(live.lost_at() >= last + margins.lost_after(), "{tick:?} {timeout}");
        assert!(live.lost_at() <= last + margins.trusted_for() - margins.heard_within(), "{tick:?} {timeout}");
    }
}

#[test]
fn a_timeout_that_is_too_short_for_the_tick_is_not_sufficient() {
    let are_sufficient = |timeout, tick| Margins::new(ms(timeout), Some(ms(tick))).are_sufficient();
    assert!(are_sufficient(2_400, 2_000));
    assert!(!are_sufficient(2_399, 2_000));
    assert!(!are_sufficient(1_000, 2_000));
    assert!(!are_sufficient(1, 2_000));
}

// L38
#[test]
fn every_hold_of_an_ended_session_is_lost_even_a_later_one() {
    let mut live = proved_at(1_000);
    live.end(LostReason::Closed);
    assert_eq!(live.lost_since(live.loss_epoch()), Some(LostReason::Closed));
}

#[test]
fn a_session_that_is_proved_stays_connected() {
    let live = proved_at(60_000);
    assert_eq!(state(live, 60_900), ConnectionState::Connected);
    assert_eq!(live.loss_epoch(), LossEpoch(0));
}

// L36
#[test]
fn silence_makes_holds_suspect_and_loses_them_before_the_leader() {
    let live = proved_at(1_000);
    assert_eq!(state(live, 4_999), ConnectionState::Connected);
    assert_eq!(state(live, 5_000), ConnectionState::Suspended);
    // The leader need not have heard yet of anything after the handshake.
    assert_eq!(live.lost_at(), ms(11_000));
    assert_eq!(state(live, 10_999), ConnectionState::Suspended);
    assert_eq!(state(live, 11_000), ConnectionState::Lost(LostReason::Silence));
    assert_eq!(live.at(ms(11_000)).lost_since(LossEpoch(0)), Some(LostReason::Silence));
}

// L37
#[test]
fn a_proof_counts_from_the_last_message_before_the_ping() {
    let mut live = Liveness::new(margins(TIMEOUT), ms(0));
    read(&mut live, 20_000);
    prove(&mut live, 23_500);
    assert_eq!(live.lost_at(), ms(11_000), "the follower need not have pinged since");
    prove(&mut live, 23_501);
    assert_eq!((live.lost_at(), live.is_proved()), (ms(31_000), true));
}

// L37
#[test]
fn a_message_counts_once_and_from_when_it_was_sent() {
    let mut live = Liveness::new(margins(TIMEOUT), ms(0));
    let slow = live.on_send(ms(2_000));
    live.on_answer(ms(5_000), slow);
    prove(&mut live, 8_500);
    assert_eq!(live.lost_at(), ms(11_000));
    prove(&mut live, 8_501);
    assert_eq!(live.lost_at(), ms(13_000));
}

// L37
#[test]
fn a_proof_sent_before_a_message_ripened_ignores_the_message() {
    let mut live = Liveness::new(margins(TIMEOUT), ms(0));
    read(&mut live, 2_000);
    let early = live.on_send(ms(5_500));
    live.on_proof(ms(6_000), early);
    assert_eq!(live.lost_at(), ms(11_000));
}

// L37
#[test]
fn many_messages_hide_no_message_that_is_old_enough() {
    let mut live = Liveness::new(margins(TIMEOUT), ms(0));
    (0..20_000).step_by(10).for_each(|at| read(&mut live, at));
    prove(&mut live, 20_000);
    // One ping interval (3 500 ms) and a quarter of it: the remembered messages are a quarter of the interval apart.
    assert!(live.lost_at() >= ms(20_000 - 4_400 + 11_000), "{:?}", live.lost_at());
    assert!(live.lost_at() <= ms(20_000 - 3_500 + 11_000), "{:?}", live.lost_at());
}

#[test]
fn a_session_without_holds_shows_its_connection() {
    let mut live = proved_at(1_000);
    let state = |live: Liveness, at_ms| live.at(ms(at_ms)).state(false);
    assert_eq!(state(live, 60_000), ConnectionState::Connected);
    live.on_event(ms(60_000), Event::Disconnected);
    assert_eq!(state(live, 60_000), ConnectionState::Suspended);
    assert_eq!(state(live, 67_000), ConnectionState::Lost(LostReason::Silence));
    live.on_event(ms(69_000), Event::Connected);
    assert_eq!(state(live, 69_000), ConnectionState::Connected);
}

#[test]
fn a_grant_waits_for_a_proof_unless_there_was_one_lately() {
    let mut live = proved_at(1_000);
    assert!(live.at(ms(4_999)).is_proved());
    assert!(!live.at(ms(5_000)).is_proved());
    assert!(!live.at(ms(60_000)).is_proved());
    let epoch = live.at(ms(60_000)).loss_epoch();
    read(&mut live, 56_000);
    prove(&mut live, 60_000);
    assert!(live.is_proved());
    assert_eq!((live.loss_epoch(), live.lost_since(epoch)), (epoch, None));
    live.on_event(ms(60_000), Event::Disconnected);
    assert!(!live.is_proved());
}

// L37
#[test]
fn after_a_pause_no_proof_counts_until_the_follower_may_ping() {
    let mut live = proved_at(1_000);
    prove(&mut live, 15_000);
    assert!(!live.is_proved());
    prove(&mut live, 18_500);
    assert!(!live.is_proved());
    prove(&mut live, 18_501);
    assert!(live.is_proved());
    assert_eq!(live.lost_at(), ms(26_000));
}

// L37
#[test]
fn repeated_pauses_do_not_keep_proofs_from_counting() {
    let mut live = proved_at(1_000);
    // The process runs for 3.1 s, then stands still for 2 s.
    for round in 0..20 {
        (0..3_100).step_by(500).for_each(|at| prove(&mut live, 1_000 + round * 5_100 + at));
    }
    assert!(live.is_proved());
    assert_eq!(live.loss_epoch(), LossEpoch(0));
}

// L38
#[test]
fn a_late_proof_revives_the_session_but_not_its_holds() {
    let mut live = proved_at(1_000);
    read(&mut live, 8_000);
    prove(&mut live, 12_000);
    assert_eq!(state(live, 12_000), ConnectionState::Connected);
    assert_eq!(live.lost_since(LossEpoch(0)), Some(LostReason::Silence));
    assert_eq!(live.lost_since(live.loss_epoch()), None, "a new hold is not lost");
}

// L37
#[test]
fn a_proof_counts_from_when_it_was_sent() {
    let mut live = proved_at(1_000);
    let sent = live.on_send(ms(1_500));
    // The process was paused between the request and the reading of its answer.
    live.on_proof(ms(20_000), sent);
    assert_eq!(state(live, 20_000), ConnectionState::Lost(LostReason::Silence));
    assert_eq!(live.loss_epoch(), LossEpoch(1));
    assert!(!live.is_proved());
}

// L36
#[test]
fn a_pause_loses_the_holds_whatever_is_noticed_first_after_it() {
    for first in ["nothing", "disconnect", "proof"] {
        let mut live = proved_at(1_000);
        match first {
            "disconnect" => live.on_event(ms(15_000), Event::Disconnected),
            "proof" => prove(&mut live, 15_000),
            _ => {}
        }
        assert_eq!(live.at(ms(15_000)).lost_since(LossEpoch(0)), Some(LostReason::Silence), "{first}");
    }
}

// L38
#[test]
fn the_end_of_a_session_is_final_and_always_counts() {
    let mut live = proved_at(1_000).at(ms(11_000));
    let granted = live.loss_epoch();
    live.on_event(ms(12_000), Event::Ended(LostReason::Expired));
    assert_eq!(live.lost_since(granted), Some(LostReason::Expired));
    prove(&mut live, 12_100);
    live.on_event(ms(12_200), Event::Ended(LostReason::Closed));
    assert_eq!(state(live, 12_300), ConnectionState::Lost(LostReason::Expired));
    assert_eq!((live.ended(), live.loss_epoch()), (Some(LostReason::Expired), LossEpoch(granted.0 + 1)));
}

#[test]
fn a_session_with_holds_sends_proofs_and_reads_at_their_times() {
    let mut live = proved_at(1_000);
    let due = |live: Liveness, at_ms, is_holding| live.at(ms(at_ms)).due(is_holding);
    assert_eq!(due(live, 1_000, true), Some((Sign::Read, ms(2_000))));
    assert_eq!(due(live, 2_000, true), Some((Sign::Read, ms(2_000))));
    read(&mut live, 2_000);
    assert_eq!(due(live, 2_000, true), Some((Sign::Read, ms(3_000))));
    read(&mut live, 3_000);
    assert_eq!(due(live, 3_000, true), Some((Sign::Proof, ms(3_400))));
    assert_eq!(due(live, 3_000, false), Some((Sign::Read, ms(4_000))));
    assert_eq!(due(live, 60_000, true), Some((Sign::Proof, ms(3_400))));
    live.on_event(ms(3_400), Event::Disconnected);
    assert_eq!(due(live, 60_000, true), None);
    live.on_event(ms(3_500), Event::Connected);
    assert_eq!(due(live, 60_000, true), Some((Sign::Proof, ms(3_400))));
    live.end(LostReason::Closed);
    assert_eq!(due(live, 60_000, true), None);
}

/// Sends the keeper's signs, one at a time. Each takes this round trip. Returns the state in the end, and how long a hold survived
/// at least when no more answers came from any moment on.
fn signs(margins: Margins, round_trip_ms: u64, until_ms: u64) -> (Liveness, Duration) {
    let mut live = Liveness::new(margins, ms(0));
    let mut now = 0;
    let mut survived = Duration::MAX;
    while now < until_ms {
        live = live.at(ms(now));
        match live.due(true) {
            Some((sign, due)) if due <= ms(now) => {
                let sent = live.on_send(ms(now));
                now += round_trip_ms;
                survived = survived.min(live.lost_at().saturating_sub(ms(now)));
                match sign {
                    Sign::Proof => live.on_proof(ms(now), sent),
                    Sign::Read => live.on_answer(ms(now), sent),
                }
            }
            _ => now += 10,
        }
    }
    (live, survived)
}

#[test]
fn holds_survive_round_trips_of_up_to_a_seventh_of_the_timeout() {
    for round_trip_ms in (1..=12_000 / 7).step_by(13) {
        let (live, _) = signs(margins(TIMEOUT), round_trip_ms, 600_000);
        assert_eq!(live.loss_epoch(), LossEpoch(0), "{round_trip_ms} ms");
    }
}

/// The session that asks takes three round trips to open. Then the session that connects again takes three, and one for a proof.
/// If the tick is given as a fifth of the timeout, holds survive round trips of a 16th.
// L42
#[test]
fn holds_survive_a_reconnect_over_round_trips_of_a_20th() {
    for (tick, part) in [(None, 20), (Some(TIMEOUT / 5), 16)] {
        for round_trip_ms in (1..=12_000 / part).step_by(13) {
            let (_, survived) = signs(Margins::new(TIMEOUT, tick), round_trip_ms, 600_000);
            assert!(survived >= ms(7 * round_trip_ms) + TIMEOUT / 20, "{tick:?} {round_trip_ms} ms: {survived:?}");
        }
    }
}

#[test]
fn a_state_of_a_connection_says_why_it_is_lost() {
    assert_eq!(ConnectionState::Connected.to_string(), "connected");
    assert_eq!(ConnectionState::Suspended.to_string(), "suspended");
    assert_eq!(ConnectionState::Lost(LostReason::Expired).to_string(), "lost: the session expired");
}
