//! Measuring: both revisions built, and their benches run in turns.

use std::collections::BTreeMap;
use std::fs::{self, File, TryLockError};
use std::path::{Path, PathBuf};

use program::{Interrupt, tell};
use tokio::process::Command;

use crate::cli::{Kind, Measured};
use crate::error::Error;
use crate::process::{logged, output};
use crate::recorded::{Results, Side};
use crate::repository::{Commit, Repository};
use crate::workspace::{INSTRUCTIONS, Workspace};

/// The order of the measurements of one bench: what drifts in the machine meanwhile hits both revisions alike.
const TURNS: [(Side, usize); 4] = [(Side::Base, 0), (Side::Head, 0), (Side::Head, 1), (Side::Base, 1)];

/// What criterion is told when time is short.
const SHORT: [&str; 6] = ["--sample-size", "10", "--warm-up-time", "0.3", "--measurement-time", "1"];

/// What a comparison has left.
#[derive(Debug)]
pub(crate) struct Outcome {
    pub(crate) results: Results,
    /// Why no instructions were counted, if they should have been.
    pub(crate) unchecked: Option<String>,
}

/// What is compared, and where.
struct Comparison<'a> {
    wanted: &'a Measured,
    repository: Repository,
    base: Commit,
    head: Workspace,
    folder: PathBuf,
    /// Of base, below the folder.
    checkout: PathBuf,
    /// For as long as it is kept, the folder is this process's.
    _lock: File,
}

/// Measures both revisions. The work tree of base is removed afterwards, whatever happens.
///
/// # Errors
/// When a revision cannot be found, built or run; [`Error::Interrupted`] when the user has enough.
///
/// # Cancel safety
/// Dropped, the work tree of base stays behind, until the next comparison removes it.
pub(crate) async fn measure(wanted: &Measured, interrupt: &Interrupt) -> Result<Outcome, Error> {
    let comparison = interrupt.or(Comparison::prepare(wanted)).await?;
    let outcome = interrupt.or(comparison.run()).await;
    let removed = comparison.clear().await;
    let outcome = outcome?;
    removed?;
    Ok(outcome)
}

/// Says what is compared.
async fn announce(repository: &Repository, base: &Commit) -> Result<(), Error> {
    let head = repository.commit("HEAD").await?;
    tell(format_args!("base: {}", base.title));
    if repository.is_changed().await? {
        tell(format_args!("head: {}, and changes on disk that are not committed", head.title));
    } else {
        tell(format_args!("head: {}", head.title));
    }
    Ok(())
}

/// Takes the folder for this process, for as long as the file is kept.
fn lock(folder: &Path) -> Result<File, Error> {
    let path = folder.join("lock");
    let file = File::create(&path).map_err(Error::target_folder(folder))?;
    match file.try_lock() {
        Ok(()) => Ok(file),
        Err(TryLockError::WouldBlock) => Err(Error::Busy(folder.to_owned())),
        Err(TryLockError::Error(source)) => Err(Error::file("lock", &path)(source)),
    }
}

impl<'a> Comparison<'a> {
    async fn prepare(wanted: &'a Measured) -> Result<Self, Error> {
        let repository = Repository::here().await?;
        let base = repository.commit(&wanted.base).await?;
        let head = Workspace::read(repository.root(), "the work tree").await?;
        announce(&repository, &base).await?;
        let folder = head.target_directory.join("bench-compare");
        fs::create_dir_all(&folder).map_err(Error::target_folder(&folder))?;
        let folder = folder.canonicalize().map_err(Error::file("find", &folder))?;
        let _lock = lock(&folder)?;
        let checkout = folder.join("base");
        Ok(Self { wanted, repository, base, head, folder, checkout, _lock })
    }

    /// Removes the work tree of base, if there is one.
    async fn clear(&self) -> Result<(), Error> {
        self.repository.remove_worktree(&self.checkout).await
    }

    async fn run(&self) -> Result<Outcome, Error> {
        let Self { wanted, repository, head, folder, checkout, .. } = self;
        // One that was killed may have left its work tree.
        self.clear().await?;
        repository.add_worktree(checkout, &self.base).await?;
        let base = Workspace::read(checkout, &format!("revision {}", wanted.base)).await?;
        let (wants_instructions, wants_times) =
            (wanted.only != Some(Kind::WallClock), wanted.only != Some(Kind::Instructions));
        let unchecked = if wants_instructions { why_unchecked(&base, head).await? } else { None };
        if let (Some(reason), false) = (&unchecked, wants_times) {
            return Err(Error::InstructionsUnavailable(reason.clone()));
        }
        let counts = wants_instructions && unchecked.is_none();
        let is_wanted = |bench: &str| if bench == INSTRUCTIONS { counts } else { wants_times };

        let results = Results::in_folder(folder.join("results"));
        let old = folder.join("results");
        if old.exists() {
            fs::remove_dir_all(&old).map_err(Error::file("remove", &old))?;
        }
        fs::create_dir_all(results.logs()).map_err(Error::file("make", &results.logs()))?;
        let bench = Bench {
            base: Built::new(&base, &folder.join("base-target"), is_wanted, &results.programs(Side::Base)).await?,
            head: Built::new(head, &head.target_directory, is_wanted, &results.programs(Side::Head)).await?,
            results,
            options: criterion_options(wanted),
        };
        bench.run().await?;
        Ok(Outcome { results: bench.results, unchecked })
    }
}

/// Why instructions cannot be counted here, or not in both revisions alike.
async fn why_unchecked(base: &Workspace, head: &Workspace) -> Result<Option<String>, Error> {
    let [in_base, in_head] = [base.locked_version("gungraun")?, head.locked_version("gungraun")?];
    let Some(version) = in_head.clone().or_else(|| in_base.clone()) else {
        return Ok(Some("neither revision counts any".to_owned()));
    };
    if let (Some(in_base), Some(in_head)) = (in_base, in_head)
        && in_base != in_head
    {
        return Ok(Some(format!(
            "base has gungraun {in_base} and head gungraun {in_head}, each of which needs a runner of its own version"
        )));
    }
    let said =
        |program: &'static str| async move { output(program, Command::new(program).arg("--version")).await.ok() };
    if said("valgrind").await.is_none() {
        return Ok(Some("valgrind is not installed; scripts/deps.sh bench installs it where there is one".to_owned()));
    }
    let runner = said("gungraun-runner").await.unwrap_or_default();
    if runner.split_whitespace().last() == Some(&version) {
        return Ok(None);
    }
    let install = format!("cargo install --locked gungraun-runner --version {version}");
    Ok(Some(format!("gungraun-runner {version} is not installed; install it with {install}")))
}

fn criterion_options(wanted: &Measured) -> Vec<String> {
    let short = if wanted.short { &SHORT[..] } else { &[] };
    // Criterion takes its filter for a regular expression.
    short.iter().map(|&option| option.to_owned()).chain(wanted.filter.as_deref().map(regex::escape)).collect()
}

/// The benches of one revision, ready to run.
struct Built {
    package: PathBuf,
    programs: BTreeMap<String, PathBuf>,
}

impl Built {
    /// Builds the benches that are wanted, and copies them to a folder.
    ///
    /// The paths of both revisions' programs are of one length there. It would show in the counts otherwise: the path is
    /// an argument, kept on the heap, and so decides what a small bench finds free there.
    async fn new(
        workspace: &Workspace,
        target_directory: &Path,
        is_wanted: impl Fn(&str) -> bool,
        folder: &Path,
    ) -> Result<Self, Error> {
        let wanted: Vec<&str> = workspace.benches.iter().map(String::as_str).filter(|name| is_wanted(name)).collect();
        let mut programs = BTreeMap::new();
        if !wanted.is_empty() {
            fs::create_dir_all(folder).map_err(Error::file("make", folder))?;
            for (bench, built) in workspace.build(&wanted, target_directory).await? {
                let program = folder.join(&bench);
                fs::copy(&built, &program).map_err(Error::file("write", &program))?;
                programs.insert(bench, program);
            }
        }
        Ok(Self { package: workspace.package.clone(), programs })
    }

    /// The command that runs a bench, if this revision has it.
    fn command(&self, bench: &str) -> Option<Command> {
        let mut command = Command::new(self.programs.get(bench)?);
        command.arg("--bench").current_dir(&self.package);
        Some(command)
    }
}

/// All that is run.
struct Bench {
    base: Built,
    head: Built,
    results: Results,
    /// For criterion.
    options: Vec<String>,
}

impl Bench {
    fn side(&self, side: Side) -> &Built {
        match side {
            Side::Base => &self.base,
            Side::Head => &self.head,
        }
    }

    async fn run(&self) -> Result<(), Error> {
        for side in Side::BOTH {
            self.count(side).await?;
        }
        let mut benches: Vec<&String> = self.base.programs.keys().chain(self.head.programs.keys()).collect();
        benches.sort();
        benches.dedup();
        for bench in benches.into_iter().filter(|bench| *bench != INSTRUCTIONS) {
            for (side, half) in TURNS {
                self.clock(bench, side, half).await?;
            }
        }
        Ok(())
    }

    /// Counts instructions.
    async fn count(&self, side: Side) -> Result<(), Error> {
        let Some(mut command) = self.side(side).command(INSTRUCTIONS) else { return Ok(()) };
        let what = format!("{INSTRUCTIONS}, {}", side.name());
        tell(&what);
        command.arg("--save-summary=json").arg("--home").arg(self.results.gungraun(side));
        let log = self.results.logs().join(format!("{INSTRUCTIONS}-{}.log", side.name()));
        logged(&what, &mut command, &log).await
    }

    /// Takes times, once.
    async fn clock(&self, bench: &str, side: Side, half: usize) -> Result<(), Error> {
        let Some(mut command) = self.side(side).command(bench) else { return Ok(()) };
        let what = format!("{bench}, {}, {} half", side.name(), ["first", "second"][half]);
        tell(&what);
        let baseline = side.baselines()[half];
        command
            .args(["--noplot", "--save-baseline", baseline])
            .args(&self.options)
            .env("CRITERION_HOME", self.results.criterion());
        logged(&what, &mut command, &self.results.logs().join(format!("{bench}-{baseline}.log"))).await
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_half_measures_both_revisions_and_the_order_is_turned_round() {
        assert_eq!(TURNS.map(|(side, _)| side), [Side::Base, Side::Head, Side::Head, Side::Base]);
        assert_eq!(TURNS.map(|(_, half)| half), [0, 0, 1, 1]);
    }

    #[test]
    fn a_folder_serves_one_comparison_at_a_time() {
        let folder = tempfile::tempdir().unwrap();
        let held = lock(folder.path()).unwrap();
        assert!(matches!(lock(folder.path()), Err(Error::Busy(_))));
        drop(held);
        assert!(lock(folder.path()).is_ok());
    }
}
