use std::cmp::Ordering;

use proptest::prelude::*;
use zk_recipes_protocol::names::{self, Mode, Names, Sequence, Supply, find_protected};

fn parse(name: &str) -> Option<i32> {
    Sequence::parse(name, "lock-").map(|sequence| sequence.get())
}

#[test]
fn the_sequence_follows_the_last_lock_name() {
    assert_eq!(parse("_c_adbe3469-d9d1-4cf4-af5a-06f4a4e8ea5a-lock-0000000042"), Some(42));
    assert_eq!(parse("lock-lock-0000000007"), Some(7));
    assert_eq!(parse("lock-2147483647"), Some(i32::MAX));
}

#[test]
fn a_wrapped_sequence_is_read_with_its_sign() {
    assert_eq!(parse("lock--2147483648"), Some(i32::MIN));
    assert_eq!(parse("lock--000000001"), Some(-1));
}

#[test]
fn children_that_are_no_contenders_are_not_parsed() {
    for name in ["0", "zzz", "lock-", "lock-42", "lock-000000004x", "lock-+000000042", "lock-99999999999", "lock--"] {
        assert_eq!(parse(name), None, "{name}");
    }
    for name in ["lock--000000000", "lock--0000000005", "lock--1", "lock-0000000000042", "lock-- 00000001"] {
        assert_eq!(parse(name), None, "no server writes {name}");
    }
    assert_eq!(Sequence::parse("_c_x-__READ__0000000001", "lock-"), None);
}

#[test]
fn the_markers_of_all_clients_are_told_apart() {
    let kazoo = ["4e2a2c1bb2a94a0f9d5f0a3f7d6a1c11__lock__0000000003", "4e2a2c1bb2a94a0f__rlock__0000000004"];
    let modes = |names: Names, name: &str| names.parse(name).map(|(mode, sequence)| (mode, sequence.get()));
    assert_eq!(modes(Names::MUTEX, "_c_x-lock-0000000001"), Some((Mode::Exclusive, 1)));
    assert_eq!(modes(Names::MUTEX, kazoo[0]), None);
    assert_eq!(modes(Names::MUTEX_AND_KAZOO, kazoo[0]), Some((Mode::Exclusive, 3)));
    assert_eq!(modes(Names::MUTEX_AND_KAZOO, kazoo[1]), Some((Mode::Shared, 4)));
    assert_eq!(modes(Names::READ_WRITE, "_c_x-__READ__0000000001"), Some((Mode::Shared, 1)));
    assert_eq!(modes(Names::READ_WRITE, "_c_x-__WRIT__0000000002"), Some((Mode::Exclusive, 2)));
    assert_eq!(modes(Names::READ_WRITE_AND_KAZOO, kazoo[1]), Some((Mode::Shared, 4)));
    assert_eq!(modes(Names::LEASES, "_c_x-lease-0000000009"), Some((Mode::Shared, 9)));
    assert_eq!(modes(Names::LEASES, "_c_x-lock-0000000009"), None);
    assert_eq!(modes(Names::LATCH, "_c_x-latch-0000000005"), Some((Mode::Exclusive, 5)));
    assert_eq!(modes(Names::LATCH, "_c_x-lock-0000000005"), None);
    assert_eq!(modes(Names::MUTEX, "_c_x-latch-0000000005"), None);
    assert_eq!(modes(Names::ANY, "_c_x-latch-0000000005"), Some((Mode::Exclusive, 5)));
    assert_eq!((Names::MUTEX.marker(Mode::Exclusive), Names::READ_WRITE.marker(Mode::Shared)), ("lock-", "__READ__"));
}

#[test]
fn only_a_name_without_a_prefix_is_numbered() {
    for (name, is_numbered) in [
        ("lock-0000000042", true),
        ("lock--2147483648", true),
        ("_c_adbe3469-d9d1-4cf4-af5a-06f4a4e8ea5a-lock-0000000042", false),
        ("lock-lock-0000000042", false),
        ("lock-42", false),
        ("lock-", false),
    ] {
        assert_eq!(names::is_numbered(name, "lock-"), is_numbered, "{name}");
    }
}

#[test]
fn protected_nodes_are_found_by_their_prefix_alone() {
    let children = ["_c_a-lock-0000000001", "_c_b-lock-0000000002", "_c_b-lock-0000000003"].map(str::to_owned);
    let found = |prefix| find_protected(&children, prefix).collect::<Vec<_>>();
    assert_eq!(found("_c_a-lock-"), [&children[0]]);
    assert_eq!(found("_c_b-lock-"), [&children[1], &children[2]]);
    assert_eq!(found("_c_c-lock-"), Vec::<&str>::new());
}

#[test]
fn the_order_goes_on_over_the_wrap() {
    let before = Sequence::new(i32::MAX);
    let after = Sequence::new(i32::MIN);
    assert_eq!(before.queue_cmp(after), Ordering::Less);
    assert_eq!(after.queue_cmp(Sequence::new(i32::MIN + 1)), Ordering::Less);
    assert_eq!(Sequence::new(-1).queue_cmp(Sequence::new(0)), Ordering::Less);
}

#[test]
fn all_numbers_from_well_before_the_last_one_are_refused() {
    for (number, supply) in [
        (0, Supply::Ample),
        (1_999_999_999, Supply::Ample),
        (2_000_000_000, Supply::Low),
        (2_099_999_999, Supply::Low),
        (2_100_000_000, Supply::Exhausted),
        (i32::MAX, Supply::Exhausted),
        (i32::MIN, Supply::Exhausted),
        (-1, Supply::Exhausted),
    ] {
        assert_eq!(Sequence::new(number).supply(), supply, "{number}");
    }
}

proptest! {
    #[test]
    fn every_number_that_the_server_can_append_is_read_back(number in any::<i32>()) {
        // The server formats with Java's "%010d", whose width counts the sign.
        prop_assert_eq!(parse(&format!("lock-{number:010}")), Some(number));
        prop_assert_eq!(Sequence::new(number).to_string(), format!("{number:010}"));
    }

    #[test]
    fn numbers_that_have_not_wrapped_sort_as_their_text(a in 0..=i32::MAX, b in 0..=i32::MAX) {
        prop_assert_eq!(Sequence::new(a).queue_cmp(Sequence::new(b)), format!("{a:010}").cmp(&format!("{b:010}")));
    }

    #[test]
    fn the_order_of_names_is_consistent_within_half_the_circle(
        start in any::<i32>(), near in 1..i32::MAX / 2, far in 1..i32::MAX / 2,
    ) {
        let a = Sequence::new(start);
        let b = Sequence::new(start.wrapping_add(near));
        let c = Sequence::new(b.get().wrapping_add(far));
        prop_assert_eq!(a.queue_cmp(b), Ordering::Less);
        prop_assert_eq!(b.queue_cmp(a), Ordering::Greater);
        prop_assert_eq!(b.queue_cmp(c), Ordering::Less);
        prop_assert_eq!(a.queue_cmp(c), Ordering::Less);
    }

    #[test]
    fn parsing_never_panics(name in "\\PC*") {
        let _ = Sequence::parse(&name, "lock-");
    }
}
