//! Counts the false verdicts of `loadgen diff`: how often it calls a figure worse although both sides ran the same programs.
//!
//! `cargo run --release -p loadgen --example false_verdicts -- FOLDER` reads the runs that `make false-verdicts` records:
//! `FOLDER/1/report.json` and so on, all of the same programs. It prints a table with a row for each kind of comparison:
//!
//! * **real**: the runs as they are. Sides of several runs overlap between comparisons, because there are few runs.
//! * **resampled**: both sides are drawn from all runs, and the blocks of each drawn run from its own.
//!
//! A verdict is false if any figure is called worse after the correction.

#![expect(clippy::print_stdout, clippy::print_stderr, reason = "the table is the output, errors go beside it")]

use std::path::Path;
use std::process::ExitCode;

use loadgen::report::diff::{Run, worse};
use loadgen::report::{Report, json};
use rand::rngs::ChaCha8Rng;
use rand::seq::SliceRandom;
use rand::{RngExt, SeedableRng};

/// Runs a side, where there are several: the fewest that can tell about times.
const SIDE: usize = 4;
/// Real comparisons of each kind.
const REAL: usize = 30;
/// Resampled comparisons of each kind.
const RESAMPLED: usize = 1000;

fn main() -> ExitCode {
    let Some(folder) = std::env::args().nth(1) else {
        eprintln!("usage: false_verdicts FOLDER");
        return ExitCode::from(64);
    };
    let reports = match read(Path::new(&folder)) {
        Ok(reports) if reports.len() >= 2 => reports,
        Ok(reports) => {
            eprintln!("error: {folder} has {} runs; two are the fewest, {} are better", reports.len(), 2 * SIDE);
            return ExitCode::from(64);
        }
        Err(error) => {
            eprintln!("error: {error}");
            return ExitCode::from(64);
        }
    };
    let runs: Vec<Run<'_>> = reports.iter().map(Run::of).collect();
    let mut random = ChaCha8Rng::seed_from_u64(1);
    println!("{} runs\n\n| comparisons | runs a side | false verdicts | figures |\n|---|--:|--:|---|", runs.len());
    for side in [1, SIDE] {
        if runs.len() >= 2 * side {
            tell("real", side, REAL, || {
                let mut order: Vec<usize> = (0..runs.len()).collect();
                let (drawn, _) = order.partial_shuffle(&mut random, 2 * side);
                drawn.iter().map(|run| runs[*run].clone()).collect()
            });
        }
        tell("resampled", side, RESAMPLED, || {
            (0..2 * side)
                .map(|_| runs[random.random_range(0..runs.len())].resampled(|count| random.random_range(0..count)))
                .collect()
        });
    }
    ExitCode::SUCCESS
}

fn read(folder: &Path) -> Result<Vec<Report>, Box<dyn std::error::Error>> {
    let mut files = Vec::new();
    for entry in folder.read_dir()? {
        files.push(entry?.path().join("report.json"));
    }
    files.retain(|file| file.exists());
    files.sort();
    Ok(files.iter().map(|file| json::read(file)).collect::<Result<_, _>>()?)
}

/// Prints how many of these comparisons have a false verdict, and of which figures.
fn tell<'a>(kind: &str, side: usize, comparisons: usize, mut draw: impl FnMut() -> Vec<Run<'a>>) {
    let (mut wrong, mut figures) = (0, Vec::new());
    for _ in 0..comparisons {
        let drawn = draw();
        let found = worse(&drawn[..side], &drawn[side..]);
        wrong += usize::from(!found.is_empty());
        figures.extend(found);
    }
    figures.sort_unstable();
    let mut counted: Vec<(usize, &String)> =
        figures.chunk_by(|a, b| a == b).map(|same| (same.len(), &same[0])).collect();
    counted.sort_unstable_by(|a, b| b.cmp(a));
    let counted: Vec<String> = counted.iter().take(3).map(|(count, name)| format!("{count} × {name}")).collect();
    println!("| {kind} | {side} | {wrong} of {comparisons} | {} |", counted.join("; "));
}
