//! The walks that have found the planted mistakes find them again, and keep all rules without them.

#![allow(clippy::unwrap_used, reason = "a test may fail")]

mod walker;

use std::collections::BTreeSet;

use walker::walk_by;
use zk_recipes_protocol::{mistakes, plant};

/// A seed of a walk that finds a mistake.
struct FoundMistake<'a> {
    mistake: &'a str,
    seed: u64,
    /// The median number of walks until the mistake was found, from random seeds on.
    walks: u64,
}

/// Returns the rows of `seeds.txt`.
fn found() -> impl Iterator<Item = FoundMistake<'static>> {
    let rows = include_str!("seeds.txt").lines().filter(|line| !line.starts_with('#'));
    rows.map(|row| {
        let mut cells = row.split('\t');
        let mut next = || cells.next().unwrap_or_else(|| panic!("seeds.txt has a row without three cells: {row}"));
        let seed = next().parse().unwrap();
        let walks = next().parse().unwrap();
        FoundMistake { seed, walks, mistake: next() }
    })
}

#[test]
fn each_planted_mistake_is_found_by_its_seed() {
    let seeds = found().map(|FoundMistake { mistake, .. }| mistake).collect::<BTreeSet<_>>();
    let names = mistakes::all().map(|mistake| mistake.name).collect::<BTreeSet<_>>();
    assert_eq!(seeds, names, "make planted writes seeds.txt again");
    // The mistake that is switched on is one for the whole process, so this is one test.
    for FoundMistake { mistake, seed, walks } in found() {
        let planted = mistakes::all().find(|planted| planted.name == mistake).unwrap();
        plant(Some(mistake));
        let broken = walk_by(planted, seed).broken;
        plant(None);
        assert!(broken.is_some(), "seed {seed} no longer finds that {mistake}; it took {walks} walks");
        assert_eq!(walk_by(planted, seed).broken, None, "seed {seed} finds a mistake that is not planted");
    }
}
