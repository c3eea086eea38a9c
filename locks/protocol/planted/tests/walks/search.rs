//! Searches by random walks for each planted mistake, and writes the seeds and the numbers of walks to `seeds.txt`.

#![allow(clippy::unwrap_used, clippy::print_stdout, reason = "a program for developers")]

mod walker;

use std::fmt::Write as _;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;

use walker::walk_by;
use zk_recipes_protocol::mistakes::{self, Mistake};
use zk_recipes_protocol::plant;

/// How often each mistake is searched for.
const SEARCHES: u64 = 5;
/// The seeds of a search begin so far from those of the next.
const DISTANCE: u64 = 1_000_000_000;
/// The number of walks after which a search gives up.
const WALKS_MAX: u64 = 4_000_000;

fn main() {
    // A mistake may have a machine panic. That is a find, and its message would hide the others.
    std::panic::set_hook(Box::new(|_| {}));
    let mut rows = "# Seeds that find the planted mistakes. Written by `make planted`.\n# seed\tmedian walks of five searches\tmistake\n".to_owned();
    let mut missed = Vec::new();
    for mistake in mistakes::all() {
        plant(Some(mistake.name));
        let mut found: Vec<(u64, u64)> = (0..SEARCHES).filter_map(|search| find(mistake, search * DISTANCE)).collect();
        plant(None);
        found.sort_unstable();
        // A search that gave up counts as the longest.
        let median = found.get(usize::try_from(SEARCHES / 2).unwrap());
        println!(
            "{:>10} walks, {} of {SEARCHES} found: {}",
            median.map_or(WALKS_MAX, |found| found.0),
            found.len(),
            mistake.name
        );
        match (median, found.first()) {
            (Some((walks, _)), Some((_, seed))) => writeln!(rows, "{seed}\t{walks}\t{}", mistake.name).unwrap(),
            _ => missed.push(mistake.name),
        }
    }
    std::fs::write(Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/walks/seeds.txt"), rows).unwrap();
    if !missed.is_empty() {
        println!("not found: {missed:#?}");
        std::process::exit(1);
    }
}

/// Walks until the mistake breaks a rule. Returns the number of walks and the seed.
fn find(mistake: &Mistake, start: u64) -> Option<(u64, u64)> {
    let next = AtomicU64::new(start);
    let found = AtomicU64::new(u64::MAX);
    thread::scope(|scope| {
        for _ in 0..thread::available_parallelism().map_or(1, usize::from) {
            scope.spawn(|| {
                loop {
                    let seed = next.fetch_add(1, Ordering::Relaxed);
                    if seed - start >= WALKS_MAX || seed > found.load(Ordering::Relaxed) {
                        break;
                    }
                    if walk_by(mistake, seed).broken.is_some() {
                        found.fetch_min(seed, Ordering::Relaxed);
                    }
                }
            });
        }
    });
    let seed = found.into_inner();
    (seed != u64::MAX).then(|| (seed - start + 1, seed))
}
