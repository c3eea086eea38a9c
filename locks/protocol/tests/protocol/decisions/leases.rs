use proptest::prelude::*;
use proptest::sample::Index;
use zk_recipes_protocol::leases::{LeaseListing, LeasesVerdict};

fn name(number: i32) -> String {
    format!("_c_x{number}-lease-{number:010}")
}

fn names(numbers: impl IntoIterator<Item = i32>) -> Vec<String> {
    numbers.into_iter().map(name).collect()
}

fn verdict(children: &[String], own: &[String], permits: usize) -> LeasesVerdict {
    let own = own.iter().map(String::as_str).collect();
    LeaseListing::from_children(children).verdict(&own, permits)
}

#[test]
fn the_newest_lease_holds_while_leases_do_not_exceed_permits() {
    for (leases, permits, expected) in [
        (1, 1, LeasesVerdict::Granted),
        (2, 1, LeasesVerdict::Full),
        (3, 3, LeasesVerdict::Granted),
        (4, 3, LeasesVerdict::Full),
        (1, 0, LeasesVerdict::Full),
    ] {
        let children = names(0..leases);
        assert_eq!(verdict(&children, &names([leases - 1]), permits), expected, "{leases} of {permits}");
    }
}

#[test]
fn several_permits_are_granted_together_or_not_at_all() {
    let children = names([3, 4, 5]);
    assert_eq!(verdict(&children, &names([4, 5]), 2), LeasesVerdict::Full);
    assert_eq!(verdict(&children, &names([4, 5]), 3), LeasesVerdict::Granted);
    assert_eq!(verdict(&children[1..], &names([4, 5]), 2), LeasesVerdict::Granted);
}

#[test]
fn a_missing_lease_is_never_a_grant() {
    let children = names([1, 2]);
    assert_eq!(verdict(&children, &names([9]), 5), LeasesVerdict::Missing);
    assert_eq!(verdict(&children, &names([2, 9]), 5), LeasesVerdict::Missing);
    assert_eq!(verdict(&[], &names([9]), 5), LeasesVerdict::Missing);
}

#[test]
fn children_that_are_no_leases_take_no_permit() {
    let children = [name(1), "0".to_owned(), "_c_x-lock-0000000000".to_owned()];
    assert_eq!(verdict(&children, &names([1]), 1), LeasesVerdict::Granted);
    assert!(LeaseListing::from_children(&children).foreign().is_some());
    assert!(LeaseListing::from_children(&children).have_room_for(1, 2));
    assert_eq!(LeaseListing::from_children(&children[..1]).foreign(), None);
}

#[test]
fn there_is_room_for_as_many_leases_as_permits_are_free() {
    let children = names([1, 2]);
    let leases = LeaseListing::from_children(&children);
    assert!(leases.have_room_for(1, 3));
    assert!(!leases.have_room_for(2, 3));
    assert!(!leases.have_room_for(1, 1), "a lowered count");
    assert!(!leases.have_room_for(usize::MAX, usize::MAX));
}

#[test]
fn of_two_leases_that_wait_together_the_elder_holds_first() {
    let children = names([1, 2, 3]);
    assert_eq!(verdict(&children[1..], &names([2]), 1), LeasesVerdict::Granted);
    assert_eq!(verdict(&children[1..], &names([3]), 1), LeasesVerdict::Full);
    assert_eq!(verdict(&children, &names([2]), 1), LeasesVerdict::Full);
}

#[test]
fn the_order_goes_on_over_the_wrap_of_the_numbers() {
    let children = names([i32::MIN, i32::MAX]);
    assert_eq!(verdict(&children, &names([i32::MAX]), 1), LeasesVerdict::Granted);
    assert_eq!(verdict(&children, &names([i32::MIN]), 1), LeasesVerdict::Full);
}

/// One step of a semaphore whose clients ignore the lease lock.
#[derive(Clone, Debug)]
enum LeaseStep {
    /// A client creates this number of leases.
    Come(usize),
    /// A client lists the leases and decides, by Curator's rule or by ours.
    Look { client: Index, as_curator: bool },
    /// A client leaves, whether it holds or not.
    Go(Index),
}

fn step() -> impl Strategy<Value = LeaseStep> {
    prop_oneof![
        2 => (1..4_usize).prop_map(LeaseStep::Come),
        4 => (any::<Index>(), any::<bool>()).prop_map(|(client, as_curator)| LeaseStep::Look { client, as_curator }),
        2 => any::<Index>().prop_map(LeaseStep::Go),
    ]
}

proptest! {
    #[test]
    fn leases_stay_within_the_permits_if_clients_ignore_the_lock(
        permits in 0..6_usize, start in any::<i32>(), steps in prop::collection::vec(step(), 0..60),
    ) {
        let mut next = start;
        let mut clients: Vec<(Vec<String>, bool)> = Vec::new();
        for step in steps {
            match step {
                LeaseStep::Come(wanted) => {
                    let own = (0..wanted).map(|_| { next = next.wrapping_add(1); name(next) }).collect();
                    clients.push((own, false));
                }
                LeaseStep::Look { client, as_curator } if !clients.is_empty() => {
                    let children: Vec<String> = clients.iter().flat_map(|(own, _)| own.clone()).collect();
                    let (own, holds) = client.get_mut(&mut clients);
                    *holds |= if as_curator { children.len() <= permits } else {
                        verdict(&children, own, permits) == LeasesVerdict::Granted
                    };
                }
                LeaseStep::Go(client) if !clients.is_empty() => {
                    let client = client.index(clients.len());
                    clients.swap_remove(client);
                }
                LeaseStep::Look { .. } | LeaseStep::Go(_) => {}
            }
            let held: usize = clients.iter().filter(|(_, holds)| *holds).map(|(own, _)| own.len()).sum();
            prop_assert!(held <= permits, "{held} of {permits}: {clients:?}");
        }
    }

    #[test]
    fn the_verdict_on_leases_is_curator_s_in_any_listing_order(
        others in 0..8_i32, own in 1..4_i32, permits in 0..12_usize, rotation in 0..12_usize,
    ) {
        let own = names(others..others + own);
        let mut children = [names(0..others), own.clone()].concat();
        let expected = if children.len() <= permits { LeasesVerdict::Granted } else { LeasesVerdict::Full };
        let len = children.len();
        children.rotate_left(rotation % len);
        prop_assert_eq!(verdict(&children, &own, permits), expected);
    }

    #[test]
    fn there_is_room_exactly_for_leases_that_would_be_granted(
        others in 0..8_i32, wanted in 1..4_i32, permits in 0..12_usize,
    ) {
        let own = names(others..others + wanted);
        let before = names(0..others);
        let room = LeaseListing::from_children(&before).have_room_for(own.len(), permits);
        let after = [before.clone(), own.clone()].concat();
        prop_assert_eq!(room, verdict(&after, &own, permits) == LeasesVerdict::Granted);
    }
}
