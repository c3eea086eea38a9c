//! Plants mistakes in a copy of a crate's sources, beside the right code. One of them at a time can be switched on.
//!
//! The planted code asks `crate::is_planted(number)`. There are two ways to have that function:
//!
//! * A build script calls [`Sources::copy`]. The crate includes the copy, and its function asks a [`Switch`].
//! * A program copies a whole workspace. It calls [`check`] once and [`plant`] for each file, and appends [`is_planted_by_environment`] to the
//!   root of each crate that it has changed. Each process then has the mistake of its variable [`VARIABLE`].

pub mod seeds;

use std::collections::BTreeSet;
use std::fmt::Write;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::{env, fs, io};

/// One mistake.
#[derive(Clone, Copy)]
pub struct Mistake {
    /// What goes wrong.
    pub name: &'static str,
    /// The changes to the right code.
    pub changes: &'static [SourceChange],
}

/// One change to a file.
#[derive(Clone, Copy)]
pub struct SourceChange {
    /// The file, relative to the sources.
    pub file: &'static str,
    /// The right expression or statements. They occur exactly once in the file.
    pub right: &'static str,
    /// The replacement. `$right` stands for the right code.
    pub wrong: &'static str,
}

/// Makes a change.
pub const fn change(file: &'static str, right: &'static str, wrong: &'static str) -> SourceChange {
    SourceChange { file, right, wrong }
}

/// The mistake that is switched on: its position in the list, from 1 on. 0: none.
pub struct Switch(AtomicUsize);

impl Switch {
    /// Makes a switch with which no mistake is on.
    pub const fn off() -> Self {
        Self(AtomicUsize::new(0))
    }

    /// Switches the mistake of this name on, or none.
    ///
    /// # Panics
    /// If there is no mistake of this name.
    pub fn turn(&self, mut all: impl Iterator<Item = &'static Mistake>, name: Option<&str>) {
        let mut number = |name| {
            let place = all.position(|mistake| mistake.name == name);
            place.unwrap_or_else(|| panic!("there is no mistake {name:?}")) + 1
        };
        self.0.store(name.map_or(0, &mut number), Ordering::SeqCst);
    }

    /// Returns whether the mistake at this position is switched on.
    pub fn is_on(&self, number: usize) -> bool {
        self.0.load(Ordering::Relaxed) == number
    }
}

/// The variable that switches a mistake on: its position in the list, from 1 on. Without it, or with 0, none is on.
pub const VARIABLE: &str = "RUST_PLANTED_MISTAKE";

/// Returns the source of the function that the planted code asks, for the root of a crate. It reads [`VARIABLE`] once.
pub fn is_planted_by_environment() -> String {
    format!(
        "\n/// Tells whether a planted mistake is switched on.\n\
         pub(crate) fn is_planted(number: usize) -> bool {{\n    \
             static ON: std::sync::LazyLock<Option<usize>> =\n        \
                 std::sync::LazyLock::new(|| std::env::var({VARIABLE:?}).ok()?.parse().ok());\n    \
             *ON == Some(number)\n\
         }}\n"
    )
}

/// The placeholder for the right code in a mistake.
const RIGHT: &str = "$right";

/// The sources of a crate, and how they are copied.
pub struct Sources<'a> {
    /// Their folder.
    pub folder: &'a str,
    /// The path of the module that includes the copy, with `::` at its end. Empty at the root of the crate.
    pub module: &'a str,
    /// Changes that are always made.
    pub settings: &'a [SourceChange],
}

impl Sources<'_> {
    /// Copies the sources to the folder of the build script, with all mistakes. `lib.rs` becomes `root.rs`, for `include!`.
    ///
    /// # Errors
    /// If a file cannot be read or written.
    ///
    /// # Panics
    /// If a change does not fit the sources.
    #[allow(clippy::print_stdout, reason = "a build script speaks to Cargo")]
    pub fn copy(&self, all: &[&'static Mistake]) -> io::Result<()> {
        let out = PathBuf::from(env::var_os("OUT_DIR").ok_or_else(|| io::Error::other("OUT_DIR is not set"))?);
        let sources = Path::new(self.folder);
        println!("cargo::rerun-if-changed={}", self.folder);
        check(all, sources);
        assert_there(self.settings.iter(), sources);
        let mut folders = vec![PathBuf::new()];
        while let Some(folder) = folders.pop() {
            fs::create_dir_all(out.join(&folder))?;
            for entry in fs::read_dir(sources.join(&folder))? {
                let entry = entry?;
                let file = folder.join(entry.file_name());
                if entry.file_type()?.is_dir() {
                    folders.push(file);
                    continue;
                }
                let text = plant(all, &file, self.set(&file, fs::read_to_string(entry.path())?));
                if file != Path::new("lib.rs") {
                    fs::write(out.join(&file), text)?;
                    continue;
                }
                // This file is included into another one, where `//!` comments are not allowed.
                let parts = text.lines().filter(|line| !line.starts_with("//!"));
                fs::write(out.join("root.rs"), parts.collect::<Vec<_>>().join("\n"))?;
            }
        }
        Ok(())
    }

    /// Makes the changes to a file that are always made. The tests of the sources run where they are written.
    fn set(&self, file: &Path, text: String) -> String {
        let text = text.replace("crate::", &format!("crate::{}", self.module)).replace("#[cfg(test)]", "#[cfg(any())]");
        let here = self.settings.iter().filter(|change| Path::new(change.file) == file);
        here.fold(text, |text, SourceChange { right, wrong, .. }| replace_once(file, &text, right, wrong))
    }
}

/// Makes sure that each mistake has a name of its own and changes something, once in each place of a file of this folder.
///
/// # Panics
/// If it is otherwise.
pub fn check(all: &[&Mistake], folder: &Path) {
    let names: BTreeSet<&str> = all.iter().map(|mistake| mistake.name).collect();
    assert_eq!(names.len(), all.len(), "two mistakes have one name");
    for Mistake { name, changes } in all {
        let places: BTreeSet<_> = changes.iter().map(|change| (change.file, change.right)).collect();
        let changes_anything = !changes.is_empty() && changes.iter().all(|change| change.right != change.wrong);
        assert!(
            changes_anything && places.len() == changes.len(),
            "a change of {name:?} is no change, or stands twice"
        );
        assert_there(changes.iter(), folder);
    }
}

fn assert_there<'a>(changes: impl Iterator<Item = &'a SourceChange>, folder: &Path) {
    for SourceChange { file, .. } in changes {
        assert!(folder.join(file).is_file(), "{file} is to be changed, which is not there");
    }
}

/// Replaces the right code of a file, which must occur once.
fn replace_once(file: &Path, text: &str, right: &str, wrong: &str) -> String {
    let found = text.matches(right).count();
    assert!(found == 1, "a change replaces what stands {found} times in {}: {right}", file.display());
    text.replacen(right, wrong, 1)
}

/// Adds all mistakes of a file, which has this path and this text, beside the right code.
///
/// # Panics
/// If a mistake does not fit the text.
pub fn plant(all: &[&Mistake], file: &Path, mut text: String) -> String {
    let here = |change: &&SourceChange| Path::new(change.file) == file;
    let changes = all.iter().flat_map(|mistake| mistake.changes);
    let rights: BTreeSet<&str> = changes.filter(here).map(|change| change.right).collect();
    for right in rights {
        let mut choice = String::new();
        for (i, Mistake { changes, .. }) in all.iter().enumerate() {
            let wrong = changes.iter().find(|change| change.right == right && here(change));
            if let Some(SourceChange { wrong, .. }) = wrong {
                let wrong = wrong.replace(RIGHT, right);
                let _ = write!(choice, "if crate::is_planted({}) {{ {wrong} }} else ", i + 1);
            }
        }
        choice += &format!("{{ {right} }}");
        let is_statement = right.ends_with([';', '}']);
        text = replace_once(file, &text, right, &if is_statement { choice } else { format!("({choice})") });
    }
    text
}
