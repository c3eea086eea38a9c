//! Judges kept rounds again, with the checks of today.

use std::path::PathBuf;
use std::process::ExitCode;

use program::Exit;
use stats::figures::things;

use super::stored::{Stored, read};
use crate::error::Error;
use crate::judge::round::{RoundFindings, judge_kept};
use crate::output::Output;

/// Judges each file. Fails if one of them is judged otherwise than when it was kept.
pub(super) fn judge_again(paths: &[PathBuf], output: &mut Output) -> Result<ExitCode, Error> {
    let mut changed = 0;
    for path in paths {
        let Stored::Round(kept) = read(path)? else {
            let what = format!("{} is a run, and no kept round; --results judges runs", path.display());
            return Err(Error::Usage(what));
        };
        let now = judge_kept(&kept);
        let then = RoundFindings::then(&kept.round);
        if now == then {
            continue;
        }
        changed += 1;
        let lines = |findings: &RoundFindings| findings.lines().map(|line| format!("\n    {line}")).collect::<String>();
        output.show(&format!("{}\n  then:{}\n  now:{}\n", path.display(), lines(&then), lines(&now)))?;
    }
    output.show(&format!("{} judged again, {changed} otherwise than before\n", things(paths.len(), "round")))?;
    Ok(if changed == 0 { Exit::Passed } else { Exit::Failed }.into())
}
