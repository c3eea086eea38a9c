//! Judges kept rounds again, with the checks of today.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use program::{Exit, FromSystem as _};
use stats::figures::things;

use crate::error::Error;
use crate::judge::round::{RoundFindings, judge};
use crate::output::Output;
use crate::report::torture::ROUND_SCHEMA;
use crate::trial::round::{KeptRound, RoundSeen};

/// Judges each file. Fails if one of them is judged otherwise than when it was kept.
pub(super) fn judge_again(paths: &[PathBuf], output: &mut Output) -> Result<ExitCode, Error> {
    let mut changed = 0;
    for path in paths {
        let kept = read(path)?;
        let now = findings(&kept);
        let then = RoundFindings { broken: kept.round.broken, hazards: kept.round.hazards };
        if now == then {
            continue;
        }
        changed += 1;
        let lines = |findings: &RoundFindings| -> String {
            findings.broken.iter().chain(&findings.hazards).map(|line| format!("\n    {line}")).collect()
        };
        output.show(&format!("{}\n  then:{}\n  now:{}\n", path.display(), lines(&then), lines(&now)))?;
    }
    output.show(&format!("{} judged again, {changed} otherwise than before\n", things(paths.len(), "round")))?;
    Ok(if changed == 0 { Exit::Passed } else { Exit::Failed }.into())
}

fn findings(kept: &KeptRound) -> RoundFindings {
    let KeptRound { round, evidence, .. } = kept;
    let overlaps = evidence.overlaps().filter(|_| round.seen.overlaps.is_some());
    judge(evidence.promise, &RoundSeen { audit: evidence.audit(), overlaps, ..round.seen.clone() })
}

fn read(path: &Path) -> Result<KeptRound, Error> {
    let text = fs::read_to_string(path).map_err(Error::system(format!("read {}", path.display())))?;
    let unreadable = |what: String| Error::Usage(format!("{} is no kept round: {what}", path.display()));
    let schema = serde_json::from_str::<serde_json::Value>(&text).map_err(|error| unreadable(error.to_string()))?;
    match schema.get("schema").and_then(serde_json::Value::as_str) {
        Some(ROUND_SCHEMA) => {}
        Some(other) => {
            return Err(unreadable(format!("its format is {other}, and this program reads {ROUND_SCHEMA}")));
        }
        None => return Err(unreadable(format!("it names no format; `loadgen torture` writes {ROUND_SCHEMA}"))),
    }
    serde_json::from_str(&text).map_err(|error| unreadable(error.to_string()))
}
