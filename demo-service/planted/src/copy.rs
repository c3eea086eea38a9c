//! A copy of the workspace with all mistakes, and its builds.

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::{env, fs, io};

use planting::{Mistake, VARIABLE, check, is_planted_by_environment, plant};
use serde_json::Value;

use crate::HuntError;

/// What Cargo writes: the only folder of the workspace that may have the copy.
const TARGET: &str = "target";

/// A copy of the workspace.
pub(crate) struct Copy {
    workspace: PathBuf,
    target: PathBuf,
}

impl Copy {
    /// Copies into a folder what Git tracks in the workspace, and what is new there and not ignored. Files that have not changed stay, so that
    /// a later build is short. Anything else that an earlier copy had is deleted.
    pub(crate) fn make(from: &Path, folder: &Path, all: &[&'static Mistake]) -> Result<Self, HuntError> {
        refuse_inside(from, folder)?;
        let workspace = folder.join("workspace");
        check(all, from);
        let files = files(from)?;
        let failed = |source| HuntError::File { path: workspace.clone(), source };
        let written = files.iter().try_for_each(|file| copy(from, &workspace, file, all));
        written.and_then(|()| delete_others(&workspace, Path::new(""), &files)).map_err(failed)?;
        // Tests look there for servers.
        let servers = Path::new(TARGET).join("servers");
        if from.join(&servers).exists() && !workspace.join(&servers).exists() {
            let linked = fs::create_dir_all(workspace.join(TARGET))
                .and_then(|()| symlink(from.join(&servers), workspace.join(&servers)));
            linked.map_err(failed)?;
        }
        Ok(Self { workspace, target: folder.join(TARGET) })
    }

    /// Builds the service. Returns the program.
    pub(crate) fn service(&self) -> Result<PathBuf, HuntError> {
        let mut build = self.cargo("build");
        let status = build.args(["-p", "demo-service", "--bin", "demo-service"]).status().map_err(HuntError::Cargo)?;
        if !status.success() {
            return Err(HuntError::Ended(status));
        }
        Ok(self.target.join("debug/demo-service"))
    }

    /// Builds the tests of a crate against real servers. Returns their program.
    pub(crate) fn tests(&self, package: &str) -> Result<TestProgram, HuntError> {
        let mut build = self.cargo("test");
        build.args(["--no-run", "--message-format=json", "-p", package, "--test", "it"]);
        let built = build.stderr(Stdio::inherit()).output().map_err(HuntError::Cargo)?;
        if !built.status.success() {
            return Err(HuntError::Ended(built.status));
        }
        let messages = built.stdout.split(|byte| *byte == b'\n').filter_map(|line| serde_json::from_slice(line).ok());
        let program = |message: Value| {
            let is_it = message["target"]["name"] == "it";
            let path = |member: &str| message[member].as_str().map(PathBuf::from).filter(|_| is_it);
            Some(TestProgram { program: path("executable")?, folder: path("manifest_path")?.parent()?.to_owned() })
        };
        messages.filter_map(program).next().ok_or_else(|| HuntError::NoTest(package.to_owned()))
    }

    fn cargo(&self, command: &str) -> Command {
        let mut cargo = Command::new(env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
        cargo.current_dir(&self.workspace).args([command, "--quiet", "--locked", "--target-dir"]).arg(&self.target);
        // What is planted is no good style.
        cargo.env("SQLX_OFFLINE", "true").env("RUSTFLAGS", "--cap-lints=warn -Awarnings");
        cargo
    }
}

/// The tests of a crate of the copy.
pub(crate) struct TestProgram {
    program: PathBuf,
    folder: PathBuf,
}

impl TestProgram {
    /// Runs a test with a mistake, which has this number in the list. 0: with none. Returns what it printed, unless it passed.
    pub(crate) fn failure_of(&self, test: &str, number: usize) -> Result<Option<String>, HuntError> {
        let mut run = Command::new(&self.program);
        run.current_dir(&self.folder).args(["--exact", test]);
        run.env(VARIABLE, number.to_string());
        let run = run.stderr(Stdio::null()).output();
        let run = run.map_err(|source| HuntError::File { path: self.program.clone(), source })?;
        let printed = String::from_utf8_lossy(&run.stdout).into_owned();
        if !printed.contains("running 1 test\n") {
            return Err(HuntError::NoTest(test.to_owned()));
        }
        Ok((!run.status.success()).then_some(printed))
    }
}

/// Refuses a folder in which the copy would become a part of what is copied.
fn refuse_inside(workspace: &Path, folder: &Path) -> Result<(), HuntError> {
    let existing = folder.ancestors().find(|path| path.exists()).unwrap_or(folder);
    let real = existing.canonicalize().map_err(|source| HuntError::File { path: existing.to_owned(), source })?;
    // The rest of the path does not exist, so it has no links.
    let real = real.join(folder.strip_prefix(existing).unwrap_or(Path::new("")));
    if real.starts_with(workspace) && !real.starts_with(workspace.join(TARGET)) {
        return Err(HuntError::Inside(folder.to_owned()));
    }
    Ok(())
}

/// Returns the files of the workspace that Git tracks or would track, relative to it.
fn files(workspace: &Path) -> Result<BTreeSet<PathBuf>, HuntError> {
    let mut git = Command::new("git");
    git.arg("-C").arg(workspace).args(["ls-files", "-z", "--cached", "--others", "--exclude-standard"]);
    let listed = git.stderr(Stdio::inherit()).output().map_err(HuntError::Git)?;
    if !listed.status.success() {
        return Err(HuntError::Ended(listed.status));
    }
    let names = listed.stdout.split(|byte| *byte == 0).filter(|name| !name.is_empty());
    let files = names.map(|name| PathBuf::from(OsStr::from_bytes(name)));
    // A tracked file may have been deleted.
    Ok(files.filter(|file| workspace.join(file).is_file()).collect())
}

/// Copies a file, with the mistakes that change it.
fn copy(from: &Path, to: &Path, file: &Path, all: &[&Mistake]) -> io::Result<()> {
    let from = from.join(file);
    let to = to.join(file);
    let changed = || all.iter().flat_map(|mistake| mistake.changes).map(|change| Path::new(change.file));
    let is_root = changed().any(|changed| root_of(changed).as_deref() == Some(file));
    let mut text = fs::read(&from)?;
    if is_root || changed().any(|changed| changed == file) {
        let source = String::from_utf8(text).map_err(io::Error::other)?;
        let asked = if is_root { is_planted_by_environment() } else { String::new() };
        text = (plant(all, file, source) + &asked).into_bytes();
    }
    if fs::read(&to).ok().as_ref() != Some(&text) {
        to.parent().map_or(Ok(()), fs::create_dir_all)?;
        fs::write(&to, text)?;
        // Scripts can be run.
        fs::set_permissions(&to, fs::metadata(&from)?.permissions())?;
    }
    Ok(())
}

/// Returns the root of the crate that a source belongs to.
fn root_of(source: &Path) -> Option<PathBuf> {
    let sources = source.ancestors().filter(|path| path.file_name() == Some(OsStr::new("src"))).last();
    sources.map(|sources| sources.join("lib.rs"))
}

/// Deletes what the copy has and the workspace has not.
fn delete_others(copy: &Path, folder: &Path, files: &BTreeSet<PathBuf>) -> io::Result<()> {
    for entry in fs::read_dir(copy.join(folder))? {
        let entry = entry?;
        let path = folder.join(entry.file_name());
        let is_folder = entry.file_type()?.is_dir();
        if path == Path::new(TARGET) || files.contains(&path) {
            continue;
        }
        if !is_folder {
            fs::remove_file(entry.path())?;
        } else if files.range(path.join("")..).next().is_some_and(|file| file.starts_with(&path)) {
            delete_others(copy, &path, files)?;
        } else {
            fs::remove_dir_all(entry.path())?;
        }
    }
    Ok(())
}
