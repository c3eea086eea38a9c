//! Counts the false verdicts: how often a comparison calls a figure worse although both sides ran the same programs.
//!
//! `cargo run --release -p loadgen --example false_verdicts -- FOLDER` reads the reports that `make false-verdicts` records, all
//! of the same programs: `FOLDER/runs/1/report.json` and so on of one build, and `FOLDER/pairs/…` of two builds in pairs. It
//! prints a table with a row for each kind of comparison:
//!
//! * **real**: the reports as they are. `loadgen diff` compares sides of one run and of several. The latter overlap between
//!   comparisons, because there are few runs. Two builds are compared once in each report.
//! * **resampled**: runs and blocks are drawn again. Both sides of `loadgen diff` are drawn from all runs, and the blocks of
//!   each drawn run from its own. The blocks of two builds are drawn from all reports, and chance says which build is which.
//!
//! A verdict is false if any figure is called worse after the correction.

#![expect(clippy::print_stdout, clippy::print_stderr, reason = "the table is the output, errors go beside it")]

use std::path::Path;
use std::process::ExitCode;

use loadgen::report::diff::{Run, run, worse, worse_build};
use loadgen::report::{Report, json};
use rand::rngs::ChaCha8Rng;
use rand::seq::SliceRandom;
use rand::{RngExt, SeedableRng};

/// Runs per side of a comparison of several runs: the fewest that can tell about times.
const SIDE: usize = 4;
/// Real comparisons of runs of each kind.
const REAL: usize = 30;
/// Resampled comparisons of each kind.
const RESAMPLED: usize = 1000;
/// The names that `make false-verdicts` gives the two builds.
const BUILDS: [&str; 2] = ["A", "B"];

fn main() -> ExitCode {
    let Some(folder) = std::env::args().nth(1) else {
        eprintln!("usage: false_verdicts FOLDER");
        return ExitCode::from(64);
    };
    let folder = Path::new(&folder);
    let (runs, pairs) = match read(&folder.join("runs")).and_then(|runs| Ok((runs, read(&folder.join("pairs"))?))) {
        Ok((runs, pairs)) if runs.len() >= 2 || !pairs.is_empty() => (runs, pairs),
        Ok(_) => {
            eprintln!("error: {} has neither two runs nor a run of two builds", folder.display());
            return ExitCode::from(64);
        }
        Err(error) => {
            eprintln!("error: {error}");
            return ExitCode::from(64);
        }
    };
    println!("{} runs of one build, {} of two\n", runs.len(), pairs.len());
    println!("| comparisons | sides | false verdicts | figures |\n|---|---|--:|---|");
    let mut random = ChaCha8Rng::seed_from_u64(1);
    if runs.len() >= 2 {
        of_runs(&runs, &mut random);
    }
    if !pairs.is_empty() {
        of_builds(&pairs, &mut random);
    }
    ExitCode::SUCCESS
}

/// Compares runs with runs, as `loadgen diff` does.
fn of_runs(reports: &[Report], random: &mut ChaCha8Rng) {
    let runs: Vec<Run<'_>> = reports.iter().map(run).collect();
    for side in [1, SIDE] {
        let sides = format!("{side} and {side} runs");
        if runs.len() >= 2 * side {
            tell("real", &sides, REAL, |_| {
                let mut order: Vec<usize> = (0..runs.len()).collect();
                let (drawn, _) = order.partial_shuffle(random, 2 * side);
                let drawn: Vec<Run<'_>> = drawn.iter().map(|position| runs[*position].clone()).collect();
                worse(&drawn[..side], &drawn[side..])
            });
        }
        tell("resampled", &sides, RESAMPLED, |_| {
            let mut draw = || {
                let run = &runs[random.random_range(0..runs.len())];
                Run::resampled(std::slice::from_ref(run), |count| random.random_range(0..count))
            };
            let drawn: Vec<Run<'_>> = (0..2 * side).map(|_| draw()).collect();
            worse(&drawn[..side], &drawn[side..])
        });
    }
}

/// Compares two builds in pairs, as `loadgen compare` does.
fn of_builds(reports: &[Report], random: &mut ChaCha8Rng) {
    let real: Vec<Run<'_>> = reports.iter().map(run).collect();
    tell("real", "two builds in pairs", real.len(), |position| worse_build(&real[position], BUILDS));
    let changed: Vec<Report> = reports.iter().map(with_names_changed).collect();
    let either: Vec<Run<'_>> = reports.iter().chain(&changed).map(run).collect();
    tell("resampled", "two builds in pairs", RESAMPLED, |_| {
        worse_build(&Run::resampled(&either, |count| random.random_range(0..count)), BUILDS)
    });
}

/// Returns the same trials, each under the name of the other build.
fn with_names_changed(report: &Report) -> Report {
    let mut report = report.clone();
    for trial in &mut report.trials {
        let other = BUILDS.iter().find(|name| trial.build.as_deref() != Some(**name));
        trial.build = other.map(|name| (*name).to_owned());
    }
    report
}

/// Reads the reports in the subfolders of a folder. A missing folder has none.
fn read(folder: &Path) -> Result<Vec<Report>, Box<dyn std::error::Error>> {
    let mut files = Vec::new();
    for entry in folder.read_dir().into_iter().flatten() {
        files.push(entry?.path().join("report.json"));
    }
    files.retain(|file| file.exists());
    files.sort();
    Ok(files.iter().map(|file| json::read(file)).collect::<Result<_, _>>()?)
}

/// Prints how many of these comparisons have a false verdict, and of which figures.
fn tell(kind: &str, sides: &str, comparisons: usize, mut worse: impl FnMut(usize) -> Vec<String>) {
    let mut wrong = 0;
    let mut figures = Vec::new();
    for position in 0..comparisons {
        let found = worse(position);
        wrong += usize::from(!found.is_empty());
        figures.extend(found);
    }
    figures.sort_unstable();
    let mut counted: Vec<(usize, &String)> =
        figures.chunk_by(|a, b| a == b).map(|same| (same.len(), &same[0])).collect();
    counted.sort_unstable_by(|a, b| b.cmp(a));
    let counted: Vec<String> = counted.iter().take(3).map(|(count, name)| format!("{count} × {name}")).collect();
    println!("| {kind} | {sides} | {wrong} of {comparisons} | {} |", counted.join("; "));
}
