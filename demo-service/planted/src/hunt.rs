//! The hunt for a mistake: rounds of faults, until one of them finds something.

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::HuntError;
use crate::copy::SWITCH;
use crate::mistakes::PlantedMistake;

/// How many rounds a hunt has at most.
const ROUNDS_MAX: u64 = 24;

/// What the hunt needs.
pub(crate) struct Hunt {
    /// The program that lets faults strike.
    pub(crate) loadgen: PathBuf,
    /// The program of the service with the mistakes.
    pub(crate) service: PathBuf,
    /// A folder for what the rounds write.
    pub(crate) folder: PathBuf,
}

/// A mistake that was found.
pub(crate) struct FoundMistake {
    pub(crate) seed: u64,
    pub(crate) strategy: String,
    pub(crate) rounds: u64,
    /// From the start of the first round on.
    pub(crate) after: Duration,
    /// What must not have happened.
    pub(crate) broken: String,
}

impl Hunt {
    /// Hunts a mistake, which has this number in the list, from 1 on. `None`: it was not found.
    pub(crate) fn find(&self, number: usize, planted: &PlantedMistake) -> Result<Option<FoundMistake>, HuntError> {
        let service = self.folder.join(format!("mistake-{number}"));
        let script = format!("#!/bin/sh\n{SWITCH}={number} exec '{}' \"$@\"\n", self.service.display());
        let prepared = fs::create_dir_all(&self.folder)
            .and_then(|()| fs::write(&service, script))
            .and_then(|()| fs::set_permissions(&service, Permissions::from_mode(0o755)));
        prepared.map_err(|source| HuntError::File { path: self.folder.clone(), source })?;
        let begun = Instant::now();
        let strategies: Vec<&str> = planted.strategies.split(',').collect();
        for (round, strategy) in (0..ROUNDS_MAX).zip(strategies.iter().cycle()) {
            let out = self.folder.join("round");
            // Of another round. There may be none.
            let _ = fs::remove_dir_all(&out);
            let seed = round;
            let mut torture = Command::new(&self.loadgen);
            torture.args(["torture", "--quiet", "--rounds", "1", "--length", "20s", "--rate", "100"]);
            torture.args(["--strategies", *strategy, "--faults", planted.faults, "--seed", &seed.to_string()]);
            torture.arg("--demo-service").arg(&service).arg("--out").arg(&out);
            let status = torture.stdout(Stdio::null()).status().map_err(HuntError::Loadgen)?;
            if !matches!(status.code(), Some(0 | 2 | 3)) {
                return Err(HuntError::Refused(status));
            }
            if let Some(broken) = broken_in(&out)? {
                let strategy = (*strategy).to_owned();
                return Ok(Some(FoundMistake { seed, strategy, rounds: round + 1, after: begun.elapsed(), broken }));
            }
        }
        Ok(None)
    }
}

/// Reads what a run has found.
fn broken_in(folder: &Path) -> Result<Option<String>, HuntError> {
    let path = folder.join("torture.json");
    let text = fs::read_to_string(&path).map_err(|source| HuntError::File { path: path.clone(), source })?;
    let report: Value = serde_json::from_str(&text).map_err(|source| HuntError::Report { path, source })?;
    let lines = report["rounds"].as_array().into_iter().flatten().flat_map(|round| round["broken"].as_array());
    Ok(lines.flatten().find_map(Value::as_str).map(str::to_owned))
}
