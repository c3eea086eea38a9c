//! Searches for the seeds that find planted mistakes, and keeps them in a file.

use std::fmt::Write as _;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::{fs, io, panic, thread};

use crate::Mistake;

/// How often each mistake is searched for.
const SEARCHES: u64 = 5;
/// The distance between the first seeds of two searches.
const DISTANCE: u64 = 1_000_000_000;

/// A row of the file: a run that finds a mistake.
#[derive(Debug)]
pub struct FoundMistake<'a> {
    /// The seed of the run.
    pub seed: u64,
    /// The median number of runs that the searches took.
    pub median: u64,
    /// The rule that the run breaks.
    pub rule: &'a str,
    /// The name of the mistake.
    pub mistake: &'a str,
}

/// Reads the rows of a file that [`search`] has written.
///
/// # Panics
/// If a row is not one of that file.
pub fn read(file: &str) -> impl Iterator<Item = FoundMistake<'_>> {
    let rows = file.lines().filter(|line| !line.starts_with('#'));
    rows.map(|row| match row.split('\t').collect::<Vec<_>>()[..] {
        [seed, median, rule, mistake] => {
            let number = |cell: &str| cell.parse().unwrap_or_else(|_| panic!("{cell} is no number: {row}"));
            FoundMistake { seed: number(seed), median: number(median), rule, mistake }
        }
        _ => panic!("a row without four cells: {row}"),
    })
}

/// Makes runs with one seed after the other until each mistake has broken a rule, five times for each. Prints the median number of
/// runs, and writes the rows to `file`. A search gives up after `runs_max`. If more than two of the five do, the file stays as it is.
///
/// `plant` switches a mistake on, and `broken` makes one run and returns the rule that it breaks.
///
/// # Errors
/// If a mistake was not found in time, or the file cannot be written.
#[allow(clippy::print_stdout, reason = "a developer waits for minutes, and sees each mistake that is found")]
pub fn search<'a>(
    file: &Path,
    all: impl Iterator<Item = &'static Mistake>,
    runs_max: u64,
    plant: impl Fn(Option<&str>),
    broken: impl Fn(&Mistake, u64) -> Option<&'a str> + Sync,
) -> io::Result<()> {
    // A mistake may cause a panic. That is a find, and its message would hide the others. A scheduler may print something all the same.
    panic::set_hook(Box::new(|_| {}));
    let mut rows = "# Seeds that find the planted mistakes. Written by `make seeds`.\n\
        # seed\tmedian runs of five searches\tbroken rule\tmistake\n"
        .to_owned();
    let mut missed = 0;
    for mistake in all {
        plant(Some(mistake.name));
        // A search that gave up counts as the longest.
        let mut runs: Vec<u64> = (0..SEARCHES)
            .map(|search| find(search * DISTANCE, runs_max, |seed| broken(mistake, seed).is_some()))
            .collect();
        let found = (0..SEARCHES).zip(&runs).filter(|(_, runs)| **runs <= runs_max).min_by_key(|(_, runs)| **runs);
        let seed = found.map(|(search, runs)| search * DISTANCE + runs - 1);
        let rule = seed.and_then(|seed| broken(mistake, seed));
        plant(None);
        runs.sort_unstable();
        let median = runs[runs.len() / 2];
        println!("{median:>10} runs, {}: {}", rule.unwrap_or("not found"), mistake.name);
        match (seed, rule) {
            (Some(seed), Some(rule)) if median <= runs_max => {
                let _ = writeln!(rows, "{seed}\t{median}\t{rule}\t{}", mistake.name);
            }
            _ => missed += 1,
        }
    }
    if missed > 0 {
        return Err(io::Error::other(format!(
            "{missed} mistakes were not found in time, so {} stays as it is",
            file.display()
        )));
    }
    fs::write(file, rows)
}

/// Makes runs until one breaks a rule. Returns their number, or one more than the most.
fn find(start: u64, runs_max: u64, is_broken: impl Fn(u64) -> bool + Sync) -> u64 {
    let next = AtomicU64::new(0);
    let found = AtomicU64::new(runs_max);
    thread::scope(|scope| {
        for _ in 0..thread::available_parallelism().map_or(1, usize::from) {
            scope.spawn(|| {
                loop {
                    let run = next.fetch_add(1, Ordering::Relaxed);
                    if run >= found.load(Ordering::Relaxed) {
                        break;
                    }
                    if is_broken(start + run) {
                        found.fetch_min(run, Ordering::Relaxed);
                    }
                }
            });
        }
    });
    found.into_inner() + 1
}
