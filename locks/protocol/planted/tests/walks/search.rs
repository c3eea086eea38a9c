//! Takes random walks until each planted mistake is found, and writes the seeds and the numbers of walks to `seeds.txt`.

#![allow(clippy::unwrap_used, clippy::print_stdout, reason = "a program for developers")]

mod walker;

use std::fmt::Write as _;
use std::panic;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;

use walker::walk_by;
use zk_recipes_protocol::mistakes::{self, Mistake};
use zk_recipes_protocol::plant;

/// How often each mistake is searched for.
const SEARCHES: u64 = 5;
/// The distance between the first seeds of two searches.
const DISTANCE: u64 = 1_000_000_000;
/// The number of walks after which a search gives up.
const WALKS_MAX: u64 = 4_000_000;

fn main() {
    // A mistake may have a machine panic. That is a find, and its message would hide the others.
    panic::set_hook(Box::new(|_| {}));
    let mut rows = "# Seeds that find the planted mistakes. Written by `make seeds`.\n\
        # seed\tmedian walks of five searches\tbroken rule\tmistake\n"
        .to_owned();
    let mut is_any_missed = false;
    for mistake in mistakes::all() {
        plant(Some(mistake.name));
        // A search that gave up counts as the longest.
        let mut walks: Vec<u64> = (0..SEARCHES).map(|search| find(mistake, search * DISTANCE)).collect();
        let found =
            (0..SEARCHES).zip(&walks).filter(|(_, walks)| **walks <= WALKS_MAX).min_by_key(|(_, walks)| **walks);
        let seed = found.map(|(search, walks)| search * DISTANCE + walks - 1);
        let rule = seed.and_then(|seed| walk_by(mistake, seed).broken);
        plant(None);
        walks.sort_unstable();
        let median = walks[walks.len() / 2];
        println!("{median:>10} walks, {}: {}", rule.unwrap_or("not found"), mistake.name);
        is_any_missed |= rule.is_none();
        if let (Some(seed), Some(rule)) = (seed, rule) {
            writeln!(rows, "{seed}\t{median}\t{rule}\t{}", mistake.name).unwrap();
        }
    }
    if is_any_missed {
        println!("some mistakes were not found, so seeds.txt stays as it is");
        std::process::exit(1);
    }
    std::fs::write(Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/walks/seeds.txt"), rows).unwrap();
}

/// Walks until the mistake breaks a rule. Returns the number of walks, or one more than the most.
fn find(mistake: &Mistake, start: u64) -> u64 {
    let next = AtomicU64::new(0);
    let found = AtomicU64::new(WALKS_MAX);
    thread::scope(|scope| {
        for _ in 0..thread::available_parallelism().map_or(1, usize::from) {
            scope.spawn(|| {
                loop {
                    let walk = next.fetch_add(1, Ordering::Relaxed);
                    if walk >= found.load(Ordering::Relaxed) {
                        break;
                    }
                    if walk_by(mistake, start + walk).broken.is_some() {
                        found.fetch_min(walk, Ordering::Relaxed);
                    }
                }
            });
        }
    });
    found.into_inner() + 1
}
