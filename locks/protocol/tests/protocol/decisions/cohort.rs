use std::time::Duration;

use proptest::prelude::*;
use zk_recipes_protocol::cohort::{Ask, Bounds, Cohort, Event, MemberId, MemberState, Others, Reliance};

const BOUNDS: Bounds = Bounds { max_handovers: 3, max_tenure: Duration::from_millis(100), linger: Duration::ZERO };
const LETS_GO: Event = Event::LetsGo(Reliance::Sure);

/// Returns a cohort whose first member holds, and its members.
fn cohort(members: usize, bounds: Bounds) -> (Cohort, Vec<MemberId>) {
    let mut cohort = Cohort::default();
    let members: Vec<MemberId> = (0..members).map(|_| cohort.enter(bounds)).collect();
    assert_eq!(tell(&mut cohort, members[0], Event::Granted, 0), []);
    (cohort, members)
}

fn tell(cohort: &mut Cohort, id: MemberId, event: Event, at_ms: u64) -> Vec<Ask> {
    let mut asks = Vec::new();
    cohort.on(id, event, Duration::from_millis(at_ms), &mut asks);
    asks
}

/// Lets the holder hand over to the next member, which takes the hold.
fn hand_over(cohort: &mut Cohort, from: MemberId, to: MemberId, at_ms: u64) {
    assert_eq!(tell(cohort, from, LETS_GO, at_ms), [Ask::Wake(to)]);
    assert_eq!(cohort.state(to), MemberState::Takes);
    assert_eq!(tell(cohort, to, Event::Looked(Reliance::Sure), at_ms), []);
}

#[test]
fn a_holder_looks_for_others_at_both_of_its_bounds() {
    let (mut cohort, members) = cohort(6, BOUNDS);
    (0..3).for_each(|i| hand_over(&mut cohort, members[i], members[i + 1], 99));
    assert_eq!(cohort.state(members[3]), MemberState::Holds { handovers: 3 });
    assert_eq!(tell(&mut cohort, members[3], LETS_GO, 99), [Ask::LookForOthers]);
    let alone = Event::SawOthers(Others::Children(1), Reliance::Sure);
    assert_eq!(tell(&mut cohort, members[3], alone, 100), [Ask::Wake(members[4])], "the count begins anew");
    tell(&mut cohort, members[4], Event::Looked(Reliance::Sure), 100);
    assert_eq!(cohort.state(members[4]), MemberState::Holds { handovers: 4 }, "tokens go on growing");
    assert_eq!(tell(&mut cohort, members[4], LETS_GO, 200), [Ask::LookForOthers], "it took too long");
}

#[test]
fn a_holder_that_may_not_be_alone_lets_the_next_begin_anew() {
    for others in [Others::Children(2), Others::Children(0), Others::Revoked, Others::Unknown] {
        let (mut cohort, members) = cohort(2, Bounds { max_handovers: 0, ..BOUNDS });
        assert_eq!(tell(&mut cohort, members[0], LETS_GO, 0), [Ask::LookForOthers]);
        assert_eq!(tell(&mut cohort, members[0], Event::SawOthers(others, Reliance::Sure), 0), [Ask::Release]);
        assert_eq!(cohort.state(members[1]), MemberState::Waits, "the turn is kept until the node is gone");
        assert_eq!(tell(&mut cohort, members[0], Event::Released, 0), [Ask::Wake(members[1])]);
        assert_eq!(cohort.state(members[1]), MemberState::Begins);
    }
}

#[test]
fn a_holder_whose_node_is_gone_is_told_and_passes_the_turn_on() {
    let (mut cohort, members) = cohort(2, Bounds { max_tenure: Duration::ZERO, ..BOUNDS });
    assert_eq!(tell(&mut cohort, members[0], LETS_GO, 0), [Ask::LookForOthers]);
    let gone = Event::SawOthers(Others::OwnNodeGone, Reliance::Sure);
    assert_eq!(tell(&mut cohort, members[0], gone, 0), [Ask::Lose, Ask::Release, Ask::Wake(members[1])]);
    assert_eq!(cohort.state(members[1]), MemberState::Begins);
    assert_eq!(tell(&mut cohort, members[0], Event::Released, 0), [], "another member has the turn");
}

#[test]
fn a_lost_hold_is_neither_handed_over_nor_taken() {
    let (mut cohort, members) = cohort(3, BOUNDS);
    let lets_go = Event::LetsGo(Reliance::Lost);
    assert_eq!(tell(&mut cohort.clone(), members[0], lets_go, 0), [Ask::Release, Ask::Wake(members[1])]);
    assert_eq!(tell(&mut cohort, members[0], Event::LetsGo(Reliance::Suspect), 0), [Ask::Wake(members[1])]);
    assert_eq!(tell(&mut cohort, members[1], Event::Looked(Reliance::Suspect), 0), []);
    assert_eq!(cohort.state(members[1]), MemberState::Takes);
    assert_eq!(tell(&mut cohort, members[1], Event::Looked(Reliance::Lost), 0), [Ask::GiveUp]);
    assert_eq!(cohort.state(members[1]), MemberState::Begins);
}

#[test]
fn the_place_of_a_leaving_member_goes_to_the_next() {
    for (event, state) in [(None, MemberState::Begins), (Some(Event::Queues), MemberState::Queues)] {
        let mut cohort = Cohort::default();
        let [first, next] = [cohort.enter(BOUNDS), cohort.enter(BOUNDS)];
        event.into_iter().for_each(|event| assert_eq!(tell(&mut cohort, first, event, 0), []));
        assert_eq!(tell(&mut cohort, first, Event::Leaves(Reliance::Sure), 0), [Ask::Wake(next)]);
        assert_eq!(cohort.state(next), state);
        let given_up: &[Ask] = if state == MemberState::Queues { &[Ask::GiveUp] } else { &[] };
        assert_eq!(tell(&mut cohort, next, Event::Leaves(Reliance::Sure), 0), given_up);
        assert!(cohort.enter_at_once(BOUNDS).is_some(), "the turn is free");
    }
}

#[test]
fn a_member_that_does_not_wait_gets_only_a_free_turn() {
    let (mut cohort, members) = cohort(1, BOUNDS);
    assert_eq!(cohort.enter_at_once(BOUNDS), None);
    assert_eq!(tell(&mut cohort, members[0], LETS_GO, 0), [Ask::Release]);
    assert_eq!(cohort.enter_at_once(BOUNDS), None, "the node is being deleted");
    assert_eq!(tell(&mut cohort, members[0], Event::Released, 0), []);
    let id = cohort.enter_at_once(BOUNDS).unwrap();
    assert_eq!(cohort.state(id), MemberState::Begins);
}

#[test]
fn a_closed_cohort_wakes_its_waiting_members_and_gives_no_turn() {
    let (mut cohort, members) = cohort(3, BOUNDS);
    let mut asks = Vec::new();
    cohort.close(&mut asks);
    assert_eq!(asks, [Ask::Wake(members[1]), Ask::Wake(members[2])]);
    assert_eq!(cohort.state(members[1]), MemberState::Closed);
    assert_eq!(tell(&mut cohort, members[0], LETS_GO, 0), [Ask::Release]);
    assert_eq!(tell(&mut cohort, members[0], Event::Released, 0), []);
    let late = [Some(cohort.enter(BOUNDS)), cohort.enter_at_once(BOUNDS)];
    assert_eq!(late.map(|id| cohort.state(id.unwrap())), [MemberState::Closed; 2]);
}

const LINGERING: Bounds = Bounds { linger: Duration::from_secs(1), ..BOUNDS };

/// Returns a cohort whose hold lingers since `at_ms`, and the member that has set the watch.
fn lingering(at_ms: u64) -> (Cohort, MemberId) {
    let (mut cohort, members) = cohort(1, LINGERING);
    assert_eq!(tell(&mut cohort, members[0], LETS_GO, at_ms), [Ask::WatchQueue]);
    let alone = Event::SawOthers(Others::Children(1), Reliance::Sure);
    assert_eq!(tell(&mut cohort, members[0], alone, at_ms), [Ask::Keep]);
    (cohort, members[0])
}

/// Lets a new member take the hold that lingers, and release it. Returns the asks of the release.
fn take_again(cohort: &mut Cohort, bounds: Bounds, at_ms: u64) -> Vec<Ask> {
    let id = cohort.enter_at_once(bounds).unwrap();
    assert_eq!(cohort.state(id), MemberState::Takes);
    assert_eq!(tell(cohort, id, Event::Looked(Reliance::Sure), at_ms), []);
    tell(cohort, id, LETS_GO, at_ms)
}

#[test]
fn a_lingering_hold_is_taken_again_as_often_as_its_bound_says() {
    let (mut cohort, _) = lingering(0);
    assert_eq!(take_again(&mut cohort, LINGERING, 10_000), [Ask::Keep]);
    assert_eq!(take_again(&mut cohort, LINGERING, 20_000), [Ask::Keep]);
    assert_eq!(cohort.lingers_until(), Some(Duration::from_secs(21)));
    assert_eq!(take_again(&mut cohort, LINGERING, 30_000), [Ask::LookForOthers]);
}

#[test]
fn a_hold_lingers_until_its_time_its_watch_or_its_session_ends() {
    type Ends = fn(&mut Cohort, MemberId, &mut Vec<Ask>);
    let ends: [Ends; 3] = [
        |cohort, _, asks| cohort.end_linger(Duration::from_millis(1_500), asks),
        |cohort, watched_by, asks| cohort.queue_changed(watched_by, asks),
        |cohort, _, asks| cohort.close(asks),
    ];
    for end in ends {
        let (mut cohort, watched_by) = lingering(500);
        let mut asks = Vec::new();
        cohort.end_linger(Duration::from_millis(1_499), &mut asks);
        let id = cohort.clone().enter(BOUNDS);
        cohort.queue_changed(id, &mut asks);
        assert_eq!(asks, []);
        end(&mut cohort, watched_by, &mut asks);
        assert_eq!(asks, [Ask::GiveUp]);
        let id = cohort.enter(BOUNDS);
        assert!(matches!(cohort.state(id), MemberState::Begins | MemberState::Closed));
    }
}

#[test]
fn a_hold_that_may_not_linger_is_given_up() {
    let (cohort, watched_by) = lingering(0);
    let mut held = cohort.clone();
    let id = held.enter(LINGERING);
    tell(&mut held, id, Event::Looked(Reliance::Sure), 0);
    let mut fired = held.clone();
    fired.queue_changed(watched_by, &mut Vec::new());
    assert_eq!(tell(&mut fired, id, LETS_GO, 0), [Ask::WatchQueue], "it looks again");
    let others = Event::SawOthers(Others::Children(2), Reliance::Sure);
    assert_eq!(tell(&mut fired, id, others, 0), [Ask::Release]);
    let mut closed = held.clone();
    closed.close(&mut Vec::new());
    assert_eq!(tell(&mut closed, id, LETS_GO, 0), [Ask::Release], "although the shell knew of no loss");
    assert_eq!(tell(&mut held, id, Event::Leaves(Reliance::Sure), 0), [Ask::GiveUp]);
}

#[test]
fn an_unused_hold_goes_to_the_next_member_and_does_not_linger() {
    let gives_back = Event::GivesBack(Reliance::Sure);
    let (mut cohort, _) = lingering(0);
    let [id, next] = [cohort.enter(LINGERING), cohort.enter(LINGERING)];
    assert_eq!(tell(&mut cohort, id, Event::Looked(Reliance::Sure), 0), []);
    assert_eq!(tell(&mut cohort, id, gives_back, 0), [Ask::Wake(next)]);
    assert_eq!(tell(&mut cohort, next, Event::Looked(Reliance::Sure), 0), []);
    assert_eq!(tell(&mut cohort, next, gives_back, 0), [Ask::Release]);
    assert_eq!(tell(&mut cohort, next, Event::Released, 0), []);
    // A member that leaves during the look does not change that.
    let (mut cohort, members) = self::cohort(2, Bounds { max_handovers: 0, ..LINGERING });
    assert_eq!(tell(&mut cohort, members[0], gives_back, 0), [Ask::LookForOthers]);
    assert_eq!(tell(&mut cohort, members[1], Event::Leaves(Reliance::Sure), 0), []);
    let alone = Event::SawOthers(Others::Children(1), Reliance::Sure);
    assert_eq!(tell(&mut cohort, members[0], alone, 0), [Ask::Release]);
}

#[test]
fn a_hold_lost_while_it_lingers_is_given_up_by_the_next_member() {
    let (mut cohort, _) = lingering(0);
    let id = cohort.enter(LINGERING);
    assert_eq!(tell(&mut cohort, id, Event::Looked(Reliance::Lost), 0), [Ask::GiveUp]);
    assert_eq!(cohort.state(id), MemberState::Begins);
}

proptest! {
    /// Turns go in the order of arrival to every member that has not left, whatever members come and leave.
    #[test]
    fn turns_go_to_the_remaining_members_in_order_of_arrival(
        events in prop::collection::vec((0..4_u8, any::<prop::sample::Index>()), 0..200)
    ) {
        let (mut cohort, members) = cohort(1, Bounds { max_handovers: u32::MAX, ..BOUNDS });
        let mut holder = members[0];
        let mut there = Vec::new();
        for (event, index) in events {
            match event {
                0 | 1 => there.push(cohort.enter(BOUNDS)),
                2 if !there.is_empty() => {
                    let gone = there.remove(index.index(there.len()));
                    prop_assert_eq!(tell(&mut cohort, gone, Event::Leaves(Reliance::Sure), 0), []);
                }
                _ if !there.is_empty() => {
                    let next = there.remove(0);
                    prop_assert_eq!(tell(&mut cohort, holder, Event::Leaves(Reliance::Sure), 0), [Ask::Wake(next)]);
                    holder = next;
                    tell(&mut cohort, holder, Event::Fails, 0);
                    prop_assert_eq!(there.first().map(|next| cohort.state(*next)), there.first().map(|_| MemberState::Begins));
                    holder = match there.is_empty() {
                        true => cohort.enter(BOUNDS),
                        false => there.remove(0),
                    };
                }
                _ => {}
            }
        }
        prop_assert!(there.iter().all(|id| cohort.state(*id) == MemberState::Waits));
        prop_assert!(cohort.state(holder) != MemberState::Closed);
    }
}
