//! The hunt for a mistake: rounds of faults or runs of a test, until one of them finds what the mistake is expected to break.

use std::collections::BTreeMap;
use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use planting::VARIABLE;
use serde_json::Value;

use crate::HuntError;
use crate::copy::TestProgram;
use crate::mistakes::{Means, PlantedMistake};

/// How many rounds a hunt has at most.
const ROUNDS_MAX: u64 = 24;
/// How many letters of a line of a panic are kept.
const LINE_MAX: usize = 160;

/// What the hunts need.
pub(crate) struct Hunt {
    /// The program that lets faults strike.
    pub(crate) loadgen: PathBuf,
    /// The tests of each crate with the mistakes.
    pub(crate) tests: BTreeMap<&'static str, TestProgram>,
    /// The program of the service with the mistakes.
    pub(crate) service: PathBuf,
    /// A folder for what the rounds write.
    pub(crate) folder: PathBuf,
    /// No round begins later.
    pub(crate) until: Option<Instant>,
}

/// How a hunt ended.
pub(crate) enum HuntEnd {
    Found(FoundMistake),
    /// No round found it. One of them may have found something else.
    Missed {
        other: Option<String>,
    },
    /// The round that found the mistake finds something without the mistake, too.
    FoundWithout {
        finding: String,
    },
    /// There was no time for it.
    TooLate,
}

/// A mistake that was found.
pub(crate) struct FoundMistake {
    /// The round or the test.
    pub(crate) by: String,
    pub(crate) rounds: u64,
    /// From the start of the first round on.
    pub(crate) after: Duration,
    /// What must not have happened.
    pub(crate) finding: String,
}

impl Hunt {
    /// Hunts a mistake, which has this number in the list, from 1 on. The round that finds it is made again without the mistake, and must
    /// find nothing then.
    pub(crate) fn find(&self, number: usize, planted: &PlantedMistake) -> Result<HuntEnd, HuntError> {
        let begun = Instant::now();
        let mut other = None;
        for round in 0..ROUNDS_MAX {
            if self.until.is_some_and(|until| Instant::now() >= until) {
                return Ok(HuntEnd::TooLate);
            }
            let (by, findings) = self.round(number, planted, round)?;
            let after = begun.elapsed();
            let Some(finding) = findings.iter().find(|finding| finding.contains(planted.breaks)) else {
                other = findings.into_iter().next().or(other);
                continue;
            };
            let (_, without) = self.round(0, planted, round)?;
            return Ok(match without.into_iter().next() {
                Some(finding) => HuntEnd::FoundWithout { finding },
                None => HuntEnd::Found(FoundMistake { by, rounds: round + 1, after, finding: finding.clone() }),
            });
        }
        Ok(HuntEnd::Missed { other })
    }

    /// Makes a round with the mistake of this number. 0: with none. Returns how it is called, and what it found.
    fn round(&self, number: usize, planted: &PlantedMistake, round: u64) -> Result<(String, Vec<String>), HuntError> {
        match planted.means {
            Means::Test { package, name } => {
                let failure = self.tests[package].failure_of(name, number)?;
                Ok((format!("{package}, {name}"), failure.iter().map(|printed| panic_in(printed)).collect()))
            }
            Means::Faults { strategies, faults, rate, seconds, business_time } => {
                let index = usize::try_from(round).unwrap_or_default() % strategies.len();
                let strategy = strategies[index];
                // Hunts for different mistakes may be under way at once.
                let folder = self.folder.join(planted.mistake.name.replace(' ', "-"));
                let numbers = [rate.to_string(), format!("{seconds}s"), round.to_string()];
                self.prepare(number, business_time, &folder)?;
                let (draws, findings) = self.strike(number, (strategy, faults), &numbers, &folder)?;
                Ok((format!("{strategy}, seed v{draws}-{round}"), findings))
            }
        }
    }

    /// Writes a program that starts the service with a mistake and another business time than it is told.
    fn prepare(&self, number: usize, business_time: &str, folder: &Path) -> Result<(), HuntError> {
        let program = folder.join(format!("service-{number}"));
        let script = format!(
            "#!/bin/sh\n\
             for word; do\n  \
               shift\n  \
               [ \"$before\" != --business-time ] || word={business_time}\n  \
               set -- \"$@\" \"$word\"\n  \
               before=$word\n\
             done\n\
             {VARIABLE}={number} exec '{}' \"$@\"\n",
            self.service.display()
        );
        let prepared = fs::create_dir_all(folder)
            .and_then(|()| fs::write(&program, script))
            .and_then(|()| fs::set_permissions(&program, Permissions::from_mode(0o755)));
        prepared.map_err(|source| HuntError::File { path: program, source })
    }

    fn strike(
        &self,
        number: usize,
        (strategy, faults): (&str, &str),
        [rate, length, seed]: &[String; 3],
        folder: &Path,
    ) -> Result<(u64, Vec<String>), HuntError> {
        let service = folder.join(format!("service-{number}"));
        let out = folder.join("round");
        // Of another round. There may be none.
        let _ = fs::remove_dir_all(&out);
        let mut torture = Command::new(&self.loadgen);
        torture.args(["torture", "--quiet", "--rounds", "1", "--length", length, "--rate", rate]);
        torture.args(["--strategies", strategy, "--faults", faults, "--seed", seed]);
        torture.arg("--demo-service").arg(&service).arg("--out").arg(&out);
        let status = torture.stdout(Stdio::null()).status().map_err(HuntError::Loadgen)?;
        if !matches!(status.code(), Some(0 | 2 | 3)) {
            return Err(HuntError::Ended(status));
        }
        broken_in(&out)
    }
}

/// Reads the version of the draws of a run, and what it has found.
fn broken_in(folder: &Path) -> Result<(u64, Vec<String>), HuntError> {
    let path = folder.join("torture.json");
    let text = fs::read_to_string(&path).map_err(|source| HuntError::File { path: path.clone(), source })?;
    let report: Value = serde_json::from_str(&text).map_err(|source| HuntError::Report { path, source })?;
    // A round that was not made would find nothing.
    let Some(round) = report["rounds"].get(0) else {
        return Err(HuntError::NoRound(report["ended_early"].as_str().unwrap_or("for no known reason").to_owned()));
    };
    let lines = round["broken"].as_array().into_iter().flatten();
    let draws = report["draws"].as_u64().unwrap_or_default();
    Ok((draws, lines.filter_map(Value::as_str).map(str::to_owned).collect()))
}

/// Returns the message of the panic in what a failed test printed, in one line, or all that it printed if there is none. Long lines are cut.
fn panic_in(printed: &str) -> String {
    let after = printed.split_once(" panicked at ").and_then(|(_, place)| place.split_once('\n'));
    let message = after.map_or(printed, |(_, message)| message);
    let lines = message
        .lines()
        .take_while(|line| !line.is_empty() && !line.starts_with("note: ") && *line != "stack backtrace:");
    let short = |line: &str| line.trim().replace('\t', " ").chars().take(LINE_MAX).collect::<String>();
    lines.map(short).collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_message_of_a_panic_is_one_line() {
        let printed = "\nrunning 1 test\ntest keys::a ... FAILED\n\nfailures:\n\n---- keys::a stdout ----\n\n\
            thread 'keys::a' (7) panicked at demo-service/tests/it/keys.rs:9:9:\nassertion failed: \
            `a`\n  left: 1\n right: 2\nnote: run with `RUST_BACKTRACE=1`\n\n\nfailures:\n    keys::a\n";
        assert_eq!(panic_in(printed), "assertion failed: `a` left: 1 right: 2");
    }
}
