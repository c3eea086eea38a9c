//! Plants mistakes in a copy of the service, and lets `loadgen torture` find them: real servers, real processes, real faults.
//!
//! A mistake that faults do not find is a hole in the campaign. `found.txt` has what found each.

mod copy;
mod hunt;
mod mistakes;

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::{ExitCode, ExitStatus};
use std::{fs, io};

use clap::Parser;
use planting::Mistake;
use program::{Epilogue, Exit, ProgramError, Progress, run_program};

use crate::hunt::{FoundMistake, Hunt};
use crate::mistakes::MISTAKES;

/// The workspace.
const WORKSPACE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../..");
/// The file with what was found.
const FOUND: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/found.txt");

/// Plants mistakes in a copy of the service, and lets faults on real servers find each.
///
/// Without a word, all mistakes are hunted, and found.txt is written again.
#[derive(Debug, Parser)]
#[command(name = "planted-service", max_term_width = 80, after_help = epilogue().to_string())]
struct HuntArgs {
    /// Hunts only the mistakes whose names have one of these words
    #[arg(value_name = "WORD")]
    words: Vec<String>,
    /// Program that lets faults strike
    #[arg(long, value_name = "FILE", default_value = "target/release/loadgen")]
    loadgen: PathBuf,
    /// Folder for the copy, its build, and the rounds
    #[arg(long, value_name = "DIR", default_value = "target/planted")]
    folder: PathBuf,
}

fn epilogue() -> Epilogue {
    Epilogue::default()
        .examples(&[("hunts all mistakes", "planted-service"), ("hunts those about fences", "planted-service fence")])
        .exit_status(&[
            (Exit::Passed, ": every mistake was found"),
            (Exit::Failed, ": a mistake was not found"),
            (Exit::Setup, ""),
            (Exit::Usage, ""),
        ])
}

/// Why no mistake could be hunted.
#[derive(Debug, thiserror::Error)]
enum HuntError {
    #[error("no mistake has one of these words in its name")]
    NoneMeant,
    #[error("could not read or write {}", path.display())]
    File { path: PathBuf, source: io::Error },
    #[error("could not run cargo")]
    Build(#[source] io::Error),
    #[error("could not run loadgen; build it by cargo build --release -p loadgen, or name it by --loadgen")]
    Loadgen(#[source] io::Error),
    #[error("a program that was started ended with {0}; its own message stands above")]
    Refused(ExitStatus),
    #[error("could not read {}", path.display())]
    Report { path: PathBuf, source: serde_json::Error },
}

impl ProgramError for HuntError {
    fn exit(&self) -> Exit {
        if matches!(self, Self::NoneMeant) { Exit::Usage } else { Exit::Setup }
    }
}

fn main() -> ExitCode {
    run_program(|args: HuntArgs| hunt(&args))
}

fn hunt(args: &HuntArgs) -> Result<ExitCode, HuntError> {
    let is_meant = |name: &str| args.words.is_empty() || args.words.iter().any(|word| name.contains(word.as_str()));
    if !MISTAKES.iter().any(|planted| is_meant(planted.mistake.name)) {
        return Err(HuntError::NoneMeant);
    }
    let progress = Progress::new(false);
    progress.stage("building the service with all mistakes");
    let workspace = Path::new(WORKSPACE);
    let workspace =
        workspace.canonicalize().map_err(|source| HuntError::File { path: workspace.to_owned(), source })?;
    let folder = workspace.join(&args.folder);
    let all: Vec<&Mistake> = MISTAKES.iter().map(|planted| &planted.mistake).collect();
    let service = copy::build(&workspace, &folder, &all)?;
    let hunt = Hunt { loadgen: workspace.join(&args.loadgen), service, folder: folder.join("rounds") };
    let mut rows = "# What found the mistakes that are planted in the service. Written by `make planted`.\n\
        # seed\tstrategy\trounds\tseconds\twhat was found\tmistake\n"
        .to_owned();
    let mut missed = 0;
    for (number, planted) in (1..).zip(&MISTAKES) {
        let name = planted.mistake.name;
        if !is_meant(name) {
            continue;
        }
        match hunt.find(number, planted)? {
            Some(FoundMistake { seed, strategy, rounds, after, broken }) => {
                progress.stage(&format!("{name}: found in round {rounds}: {broken}"));
                let seconds = after.as_secs();
                // Writing into a String cannot fail.
                let _ = writeln!(rows, "{seed}\t{strategy}\t{rounds}\t{seconds}\t{broken}\t{name}");
            }
            None => {
                progress.stage(&format!("{name}: NOT FOUND"));
                missed += 1;
            }
        }
    }
    progress.finish();
    if missed > 0 {
        return Ok(Exit::Failed.into());
    }
    if args.words.is_empty() {
        fs::write(FOUND, rows).map_err(|source| HuntError::File { path: FOUND.into(), source })?;
    }
    Ok(Exit::Passed.into())
}
