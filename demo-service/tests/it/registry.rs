//! The table of strategies.

use demo_service::strategy::entry::{Mechanism, Promise, Sections, Wakes};
use demo_service::strategy::registry::{STRATEGIES, find};

#[test]
fn every_name_is_unique_and_finds_its_own_row() {
    for entry in STRATEGIES {
        assert!(std::ptr::eq(find(entry.name).unwrap(), entry), "{}", entry.name);
    }
    assert!(find("").is_none());
}

#[test]
fn only_locks_in_zookeeper_wake_anybody() {
    for entry in STRATEGIES {
        assert_eq!(entry.mechanism == Mechanism::Zookeeper, entry.wakes != Wakes::None, "{}", entry.name);
    }
}

#[test]
fn only_a_semaphore_lets_in_as_many_as_it_is_told() {
    for entry in STRATEGIES {
        let expected = match entry.name {
            "zk-semaphore" => Some(7),
            _ if entry.sections == Sections::Overlapping => None,
            _ => Some(1),
        };
        assert_eq!(entry.sections.permits(7), expected, "{}", entry.name);
    }
}

#[test]
fn a_family_has_one_promise() {
    for entry in STRATEGIES {
        for other in STRATEGIES.iter().filter(|other| other.family == entry.family) {
            assert_eq!(entry.promise, other.promise, "{} and {}", entry.name, other.name);
        }
    }
}

#[test]
fn the_first_row_is_the_control() {
    assert_eq!(STRATEGIES[0].promise, Promise::Oversells);
}

#[test]
fn summaries_are_one_line_of_text() {
    for entry in STRATEGIES {
        assert!(!entry.summary.contains(['\n', '\r']) && !entry.summary.contains("  "), "{}", entry.name);
    }
}
