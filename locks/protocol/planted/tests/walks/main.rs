//! The walks that have found the planted mistakes find them again, and keep all rules without them.

#![allow(clippy::unwrap_used, reason = "a test may fail")]

mod walker;

use std::collections::BTreeSet;

use planting::seeds::{self, FoundMistake};
use walker::walk_by;
use zk_recipes_protocol::{mistakes, plant};

#[test]
fn each_planted_mistake_is_found_by_its_seed() {
    let found: Vec<_> = seeds::read(include_str!("seeds.txt")).collect();
    let named = found.iter().map(|found| found.mistake).collect::<BTreeSet<_>>();
    let names = mistakes::all().map(|mistake| mistake.name).collect::<BTreeSet<_>>();
    assert_eq!(named, names, "make seeds writes seeds.txt again");
    // The mistake that is switched on is one for the whole process, so this is one test.
    for FoundMistake { seed, rule, mistake, .. } in found {
        let planted = mistakes::all().find(|planted| planted.name == mistake).unwrap();
        plant(Some(mistake));
        let broken = walk_by(planted, seed).broken;
        plant(None);
        assert_eq!(broken, Some(rule), "seed {seed} no longer finds that {mistake}");
        assert_eq!(walk_by(planted, seed).broken, None, "seed {seed} finds a mistake that is not planted");
    }
}
