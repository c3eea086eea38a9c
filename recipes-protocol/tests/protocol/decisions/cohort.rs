use std::time::Duration;

use proptest::prelude::*;
use zk_recipes_protocol::cohort::{Ask, Bounds, Cohort, Event, MemberId, Others, Reliance, State};

const BOUNDS: Bounds = Bounds { max_handovers: 3, max_tenure: Duration::from_millis(100) };
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
    assert_eq!(cohort.state(to), State::Takes);
    assert_eq!(tell(cohort, to, Event::Looked(Reliance::Sure), at_ms), []);
}

#[test]
fn a_holder_looks_for_others_at_the_bounds_of_hand_overs_and_of_time() {
    let (mut cohort, members) = cohort(6, BOUNDS);
    (0..3).for_each(|i| hand_over(&mut cohort, members[i], members[i + 1], 99));
    assert_eq!(cohort.state(members[3]), State::Holds { handovers: 3 });
    assert_eq!(tell(&mut cohort, members[3], LETS_GO, 99), [Ask::LookForOthers]);
    let alone = Event::SawOthers(Others::Children(1), Reliance::Sure);
    assert_eq!(tell(&mut cohort, members[3], alone, 100), [Ask::Wake(members[4])], "the count begins anew");
    tell(&mut cohort, members[4], Event::Looked(Reliance::Sure), 100);
    assert_eq!(cohort.state(members[4]), State::Holds { handovers: 4 }, "tokens go on growing");
    assert_eq!(tell(&mut cohort, members[4], LETS_GO, 200), [Ask::LookForOthers], "it took too long");
}

#[test]
fn a_holder_that_may_not_be_alone_releases_and_the_next_member_begins_anew() {
    for others in [Others::Children(2), Others::Children(0), Others::Unknown] {
        let (mut cohort, members) = cohort(2, Bounds { max_handovers: 0, ..BOUNDS });
        assert_eq!(tell(&mut cohort, members[0], LETS_GO, 0), [Ask::LookForOthers]);
        assert_eq!(tell(&mut cohort, members[0], Event::SawOthers(others, Reliance::Sure), 0), [Ask::Release]);
        assert_eq!(cohort.state(members[1]), State::Waits, "the turn is kept until the node is gone");
        assert_eq!(tell(&mut cohort, members[0], Event::Released, 0), [Ask::Wake(members[1])]);
        assert_eq!(cohort.state(members[1]), State::Begins);
    }
}

#[test]
fn a_holder_whose_node_is_gone_is_told_and_passes_the_turn_on_at_once() {
    let (mut cohort, members) = cohort(2, Bounds { max_tenure: Duration::ZERO, ..BOUNDS });
    assert_eq!(tell(&mut cohort, members[0], LETS_GO, 0), [Ask::LookForOthers]);
    let gone = Event::SawOthers(Others::OwnNodeGone, Reliance::Sure);
    assert_eq!(tell(&mut cohort, members[0], gone, 0), [Ask::Lose, Ask::Release, Ask::Wake(members[1])]);
    assert_eq!(cohort.state(members[1]), State::Begins);
    assert_eq!(tell(&mut cohort, members[0], Event::Released, 0), [], "another member has the turn");
}

#[test]
fn a_lost_hold_is_neither_handed_over_nor_taken() {
    let (mut cohort, members) = cohort(3, BOUNDS);
    let lets_go = Event::LetsGo(Reliance::Lost);
    assert_eq!(tell(&mut cohort.clone(), members[0], lets_go, 0), [Ask::Release, Ask::Wake(members[1])]);
    assert_eq!(tell(&mut cohort, members[0], Event::LetsGo(Reliance::Suspect), 0), [Ask::Wake(members[1])]);
    assert_eq!(tell(&mut cohort, members[1], Event::Looked(Reliance::Suspect), 0), []);
    assert_eq!(cohort.state(members[1]), State::Takes);
    assert_eq!(tell(&mut cohort, members[1], Event::Looked(Reliance::Lost), 0), [Ask::GiveUp]);
    assert_eq!(cohort.state(members[1]), State::Begins);
}

#[test]
fn the_place_of_a_member_that_leaves_goes_to_the_next_or_is_given_up() {
    for (event, state) in [(None, State::Begins), (Some(Event::Queues), State::Queues)] {
        let mut cohort = Cohort::default();
        let [first, next] = [cohort.enter(BOUNDS), cohort.enter(BOUNDS)];
        event.into_iter().for_each(|event| assert_eq!(tell(&mut cohort, first, event, 0), []));
        assert_eq!(tell(&mut cohort, first, Event::Leaves(Reliance::Sure), 0), [Ask::Wake(next)]);
        assert_eq!(cohort.state(next), state);
        let given_up: &[Ask] = if state == State::Queues { &[Ask::GiveUp] } else { &[] };
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
    assert_eq!(cohort.state(id), State::Begins);
}

#[test]
fn a_closed_cohort_wakes_its_waiting_members_and_gives_no_turn() {
    let (mut cohort, members) = cohort(3, BOUNDS);
    let mut asks = Vec::new();
    cohort.close(&mut asks);
    assert_eq!(asks, [Ask::Wake(members[1]), Ask::Wake(members[2])]);
    assert_eq!(cohort.state(members[1]), State::Closed);
    assert_eq!(tell(&mut cohort, members[0], LETS_GO, 0), [Ask::Release]);
    assert_eq!(tell(&mut cohort, members[0], Event::Released, 0), []);
    let late = [Some(cohort.enter(BOUNDS)), cohort.enter_at_once(BOUNDS)];
    assert_eq!(late.map(|id| cohort.state(id.unwrap())), [State::Closed; 2]);
}

proptest! {
    /// Turns go in the order of arrival to every member that has not left, whatever members come and leave.
    #[test]
    fn turns_go_in_the_order_of_arrival_to_all_members_that_have_not_left(
        events in prop::collection::vec((0..4_u8, any::<prop::sample::Index>()), 0..200)
    ) {
        let (mut cohort, members) = cohort(1, Bounds { max_handovers: u32::MAX, ..BOUNDS });
        let (mut holder, mut there) = (members[0], Vec::new());
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
                    prop_assert_eq!(there.first().map(|next| cohort.state(*next)), there.first().map(|_| State::Begins));
                    holder = match there.is_empty() {
                        true => cohort.enter(BOUNDS),
                        false => there.remove(0),
                    };
                }
                _ => {}
            }
        }
        prop_assert!(there.iter().all(|id| cohort.state(*id) == State::Waits));
        prop_assert!(cohort.state(holder) != State::Closed);
    }
}
