//! The table of strategies, and the documents that repeat it.

use std::collections::{BTreeMap, BTreeSet};

use demo_service::strategy::entry::{Mechanism, Overlap, Promise, Wakes};
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
fn only_a_semaphore_lets_in_a_given_number() {
    for entry in STRATEGIES {
        let expected = match entry.name {
            "zk-semaphore" => Some(7),
            _ if entry.sections == Overlap::Overlapping => None,
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

/// Returns the cells of the rows of a table under a heading.
fn table<'a>(document: &'a str, heading: &str) -> Vec<Vec<&'a str>> {
    let (_, below) = document.split_once(heading).unwrap();
    let lines = below.lines().skip_while(|line| !line.starts_with("| ")).take_while(|line| line.starts_with('|'));
    lines.skip(2).map(|line| line.trim_matches('|').split(" | ").map(str::trim).collect()).collect()
}

/// Returns the names in backticks.
fn names(cell: &str) -> impl Iterator<Item = &str> {
    cell.split('`').skip(1).step_by(2)
}

fn words(promise: Promise) -> &'static str {
    match promise {
        Promise::Oversells => "oversells",
        Promise::OversellsOnManyInstances => "oversells on more than one instance",
        Promise::ExceedsLimit => "exceeds the limit per buyer",
        Promise::MayPromiseWithoutOrder => "never oversells, may promise without an order",
        Promise::SafeWhileLockLives => "safe while the lock lives",
        Promise::SafeWhileSessionLives => "safe while the session lives",
        Promise::NeverOversells => "never oversell",
    }
}

#[test]
fn the_document_lists_every_strategy_with_its_promise() {
    let rows = table(include_str!("../../../docs/service.md"), "## Strategies\n");
    let listed: Vec<_> = rows.iter().flat_map(|row| names(row[0]).map(|name| (name, row[1]))).collect();
    let listed_names: Vec<_> = listed.iter().map(|(name, _)| *name).collect();
    for entry in STRATEGIES {
        assert!(listed_names.contains(&entry.name), "docs/service.md lacks {}", entry.name);
    }
    assert_eq!(listed_names, STRATEGIES.iter().map(|entry| entry.name).collect::<Vec<_>>(), "docs/service.md");
    for (name, promise) in listed {
        let expected = words(find(name).unwrap().promise);
        assert!(promise.starts_with(expected), "docs/service.md: {name} is said to be {promise}, and is {expected}");
    }
}

#[test]
fn the_guarantees_list_every_family_with_its_strategies() {
    let rows = table(include_str!("../../../docs/GUARANTEES.md"), "### Families\n");
    let listed = rows.iter().flat_map(|row| {
        let of_one = |name| (name, vec![name]);
        let families: Vec<_> = match row[1] {
            "one each" => names(row[0]).map(of_one).collect(),
            strategies => vec![(names(row[0]).next().unwrap(), names(strategies).collect())],
        };
        families
    });
    let listed: BTreeMap<_, BTreeSet<_>> = listed.map(|(family, own)| (family, own.into_iter().collect())).collect();
    let mut expected = BTreeMap::<_, BTreeSet<_>>::new();
    for entry in STRATEGIES {
        expected.entry(entry.family).or_default().insert(entry.name);
        let is_listed = listed.get(entry.family).is_some_and(|own| own.contains(entry.name));
        assert!(is_listed, "docs/GUARANTEES.md lacks {} in the family {}", entry.name, entry.family);
    }
    assert_eq!(listed, expected, "docs/GUARANTEES.md");
}
