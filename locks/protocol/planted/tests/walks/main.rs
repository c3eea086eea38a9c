//! The walks that have found the planted mistakes find them again, and keep all rules without them.

#![allow(clippy::unwrap_used, reason = "a test may fail")]

mod walker;

use std::collections::BTreeSet;

use walker::walk_by;
use zk_recipes_protocol::{mistakes, plant};

/// A walk that finds a mistake.
struct FoundMistake<'a> {
    seed: u64,
    /// The rule that it breaks.
    rule: &'a str,
    mistake: &'a str,
}

/// Returns the rows of `seeds.txt`.
fn found() -> impl Iterator<Item = FoundMistake<'static>> {
    let rows = include_str!("seeds.txt").lines().filter(|line| !line.starts_with('#'));
    rows.map(|row| match row.split('\t').collect::<Vec<_>>()[..] {
        [seed, _, rule, mistake] => FoundMistake { seed: seed.parse().unwrap(), rule, mistake },
        _ => panic!("seeds.txt has a row without four cells: {row}"),
    })
}

#[test]
fn each_planted_mistake_is_found_by_its_seed() {
    let seeds = found().map(|FoundMistake { mistake, .. }| mistake).collect::<BTreeSet<_>>();
    let names = mistakes::all().map(|mistake| mistake.name).collect::<BTreeSet<_>>();
    assert_eq!(seeds, names, "make seeds writes seeds.txt again");
    // The mistake that is switched on is one for the whole process, so this is one test.
    for FoundMistake { seed, rule, mistake } in found() {
        let planted = mistakes::all().find(|planted| planted.name == mistake).unwrap();
        plant(Some(mistake));
        let broken = walk_by(planted, seed).broken;
        plant(None);
        assert_eq!(broken, Some(rule), "seed {seed} no longer finds that {mistake}");
        assert_eq!(walk_by(planted, seed).broken, None, "seed {seed} finds a mistake that is not planted");
    }
}
