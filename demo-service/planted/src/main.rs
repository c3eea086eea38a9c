//! Plants mistakes in a copy of the workspace, and hunts each. Most are hunted by `loadgen torture`, with real servers, processes and faults.
//! The others take no fault, but a repeated request or a deleted node, for example. Tests hunt those.
//!
//! A mistake that nothing finds is a hole in the tests. `found.txt` has what found each.

mod copy;
mod found;
mod hunt;
mod mistakes;
#[cfg(test)]
mod well_known;

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};
use std::process::{ExitCode, ExitStatus};
use std::time::{Duration, Instant};

use clap::Parser;
use planting::Mistake;
use program::{Epilogue, Exit, ProgramError, Progress, run_program};

use crate::copy::Copy;
use crate::hunt::{FoundMistake, Hunt, HuntEnd};
use crate::mistakes::{MISTAKES, Means, PlantedMistake};

/// The workspace.
const WORKSPACE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../..");
/// The file with what was found.
const FOUND: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/found.txt");

/// Plants mistakes in a copy of the workspace, and hunts each.
///
/// Each hunt that ends writes the row of its mistake in found.txt. Without a word, all mistakes are hunted.
#[derive(Debug, Parser)]
#[command(name = "planted-service", max_term_width = 80, after_help = epilogue().to_string())]
struct HuntArgs {
    /// Hunts only the mistakes whose names have one of these words
    #[arg(value_name = "WORD")]
    words: Vec<String>,
    /// Time limit in minutes: no round begins after it
    #[arg(long, value_name = "N")]
    minutes: Option<u64>,
    /// Program that lets faults strike
    #[arg(long, value_name = "FILE", default_value = "target/release/loadgen")]
    loadgen: PathBuf,
    /// Folder for the copy, its build, and the rounds. Inside the workspace, it must be below target/
    #[arg(long, value_name = "DIR", default_value = "target/planted")]
    folder: PathBuf,
}

fn epilogue() -> Epilogue {
    Epilogue::default()
        .examples(&[("hunts all mistakes", "planted-service"), ("hunts those about fences", "planted-service fence")])
        .exit_status(&[
            (Exit::Passed, ": every mistake was found, and nothing without it"),
            (Exit::Failed, ": a mistake was not found, or something without it"),
            (Exit::Setup, ""),
            (Exit::Usage, ""),
        ])
}

/// Why no mistake could be hunted.
#[derive(Debug, thiserror::Error)]
enum HuntError {
    #[error("no mistake has one of these words in its name")]
    NoneMeant,
    #[error("{} is inside the workspace, and the copy would be copied, too; name a folder below target/", .0.display())]
    Inside(PathBuf),
    #[error("could not read or write {}", path.display())]
    File { path: PathBuf, source: io::Error },
    #[error("could not run git, which lists the files of the workspace")]
    Git(#[source] io::Error),
    #[error("could not run cargo")]
    Cargo(#[source] io::Error),
    #[error("could not run loadgen; build it by cargo build --release -p loadgen, or name it by --loadgen")]
    Loadgen(#[source] io::Error),
    #[error("a program that was started ended with {0}; its own message stands above")]
    Ended(ExitStatus),
    #[error("there is no test {0}")]
    NoTest(String),
    #[error("a round ended early: {0}")]
    NoRound(String),
    #[error("could not read {}", path.display())]
    Report { path: PathBuf, source: serde_json::Error },
}

impl ProgramError for HuntError {
    fn exit(&self) -> Exit {
        if matches!(self, Self::NoneMeant | Self::Inside(_)) { Exit::Usage } else { Exit::Setup }
    }
}

fn main() -> ExitCode {
    run_program(|args: HuntArgs| hunt(&args))
}

fn hunt(args: &HuntArgs) -> Result<ExitCode, HuntError> {
    let begun = Instant::now();
    let is_meant = |name: &str| args.words.is_empty() || args.words.iter().any(|word| name.contains(word.as_str()));
    let meant = || (1..).zip(&MISTAKES).filter(|(_, planted)| is_meant(planted.mistake.name));
    if meant().next().is_none() {
        return Err(HuntError::NoneMeant);
    }
    let progress = Progress::new(false);
    progress.stage("building a copy with all mistakes");
    let hunt = prepare(args, meant().map(|(_, planted)| planted), begun)?;
    let mut missed = 0;
    for (number, planted) in meant() {
        let name = planted.mistake.name;
        let (told, found) = match hunt.find(number, planted)? {
            HuntEnd::Found(found) => {
                let FoundMistake { by, rounds, finding, .. } = &found;
                (format!("found in round {rounds}, by {by}: {finding}"), Ok(Some(found)))
            }
            HuntEnd::Missed { other: None } => ("NOT FOUND".to_owned(), Ok(None)),
            HuntEnd::Missed { other: Some(other) } => (format!("NOT FOUND, but this: {other}"), Ok(None)),
            HuntEnd::FoundWithout { finding } => (format!("FOUND WITHOUT THE MISTAKE, TOO: {finding}"), Ok(None)),
            HuntEnd::TooLate => ("NOT HUNTED, for lack of time".to_owned(), Err(())),
        };
        progress.stage(&format!("{name}: {told}"));
        // A hunt that did not end says nothing.
        if let Ok(found) = &found {
            found::note(FOUND.as_ref(), name, found.as_ref())
                .map_err(|source| HuntError::File { path: FOUND.into(), source })?;
        }
        missed += u32::from(!matches!(found, Ok(Some(_))));
    }
    progress.finish();
    Ok(if missed == 0 { Exit::Passed } else { Exit::Failed }.into())
}

/// Makes the copy, and builds what hunts these mistakes.
fn prepare<'a>(
    args: &HuntArgs,
    meant: impl Iterator<Item = &'a PlantedMistake>,
    begun: Instant,
) -> Result<Hunt, HuntError> {
    let workspace = Path::new(WORKSPACE);
    let workspace =
        workspace.canonicalize().map_err(|source| HuntError::File { path: workspace.to_owned(), source })?;
    let folder = workspace.join(&args.folder);
    let all: Vec<&Mistake> = MISTAKES.iter().map(|planted| &planted.mistake).collect();
    let copy = Copy::make(&workspace, &folder, &all)?;
    let service = copy.service()?;
    let mut tests = BTreeMap::new();
    for planted in meant {
        if let Means::Test { package, .. } = planted.means
            && !tests.contains_key(package)
        {
            tests.insert(package, copy.tests(package)?);
        }
    }
    let until = args.minutes.map(|minutes| begun + Duration::from_secs(60 * minutes));
    Ok(Hunt { loadgen: workspace.join(&args.loadgen), tests, service, folder: folder.join("rounds"), until })
}
