//! A copy of the workspace whose service has all mistakes, and its build.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::{fs, io};

use planting::{Mistake, plant};

use crate::HuntError;

/// The sources of the service, in the workspace.
const SERVICE: &str = "demo-service/src";
/// The variable that switches a mistake on: its position in the list, from 1 on.
pub(crate) const SWITCH: &str = "RUST_PLANTED_MISTAKE";
/// What the root of the service gets: the function that the planted code asks.
const ASKED: &str = "
/// Tells whether a planted mistake is switched on.
pub(crate) fn is_planted(number: usize) -> bool {
    static ON: std::sync::LazyLock<Option<usize>> =
        std::sync::LazyLock::new(|| std::env::var(\"RUST_PLANTED_MISTAKE\").ok()?.parse().ok());
    *ON == Some(number)
}
";
/// What is not copied.
const LEFT: [&str; 4] = ["target", ".git", "report", "torture"];

/// Copies the workspace into a folder and builds its service. Returns the program. Files that have not changed stay, so that a later build
/// is short.
pub(crate) fn build(workspace: &Path, folder: &Path, all: &[&Mistake]) -> Result<PathBuf, HuntError> {
    let copy = folder.join("workspace");
    let failed = |source| HuntError::File { path: copy.clone(), source };
    copy_folder(workspace, &copy, &|path| {
        let text = fs::read(path)?;
        let Ok(file) = path.strip_prefix(workspace.join(SERVICE)) else { return Ok(text) };
        let text = String::from_utf8(text).map_err(io::Error::other)?;
        // The tests of the service run where they are written.
        let text = plant(all, file, text.replace("#[cfg(test)]", "#[cfg(any())]"));
        Ok(if file == Path::new("lib.rs") { text + ASKED } else { text }.into_bytes())
    })
    .map_err(failed)?;
    let target = folder.join("target");
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let mut build = Command::new(cargo);
    build.current_dir(&copy).args(["build", "--quiet", "--locked", "-p", "demo-service", "--bin", "demo-service"]);
    build.env("SQLX_OFFLINE", "true").env("RUSTFLAGS", "--cap-lints=warn -Awarnings").arg("--target-dir").arg(&target);
    let status = build.status().map_err(HuntError::Build)?;
    if !status.success() {
        return Err(HuntError::Refused(status));
    }
    Ok(target.join("debug/demo-service"))
}

/// Copies a folder. `text_of` returns what a file is to have.
fn copy_folder(from: &Path, to: &Path, text_of: &dyn Fn(&Path) -> io::Result<Vec<u8>>) -> io::Result<()> {
    fs::create_dir_all(to)?;
    for entry in fs::read_dir(from)? {
        let entry = entry?;
        let name = entry.file_name();
        let from = entry.path();
        let to = to.join(&name);
        if entry.file_type()?.is_dir() {
            if !LEFT.map(OsStr::new).contains(&&*name) {
                copy_folder(&from, &to, text_of)?;
            }
            continue;
        }
        let text = text_of(&from)?;
        if fs::read(&to).ok().as_ref() != Some(&text) {
            fs::write(&to, text)?;
        }
    }
    Ok(())
}
