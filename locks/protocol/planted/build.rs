//! Copies the sources of the protocol, and adds the mistakes beside the right code.

#[path = "src/mistakes.rs"]
#[allow(unreachable_pub, dead_code, reason = "the library shows it")]
mod mistakes;

use std::collections::BTreeSet;
use std::fmt::Write;
use std::path::{Path, PathBuf};
use std::{env, fs, io};

use mistakes::{Change, Mistake};

/// The placeholder for the right code in a mistake.
const RIGHT: &str = "$right";

fn main() -> io::Result<()> {
    println!("cargo::rerun-if-changed=../src");
    println!("cargo::rerun-if-changed=src/mistakes.rs");
    println!("cargo::rerun-if-changed=src/mistakes");
    let out = PathBuf::from(env::var_os("OUT_DIR").ok_or_else(|| io::Error::other("OUT_DIR is not set"))?);
    let sources = Path::new("../src");
    for change in changes() {
        assert!(
            sources.join(change.file).is_file(),
            "a mistake is to be planted in {}, which is not there",
            change.file
        );
    }
    copy(sources, Path::new(""), &out)
}

fn changes() -> impl Iterator<Item = &'static Change> {
    mistakes::all().flat_map(|mistake| mistake.changes)
}

/// Copies a folder of the sources.
fn copy(sources: &Path, folder: &Path, out: &Path) -> io::Result<()> {
    fs::create_dir_all(out.join(folder))?;
    for entry in fs::read_dir(sources.join(folder))? {
        let entry = entry?;
        let file = folder.join(entry.file_name());
        if entry.file_type()?.is_dir() {
            copy(sources, &file, out)?;
            continue;
        }
        let text = plant(&file, fs::read_to_string(sources.join(&file))?);
        if file == Path::new("lib.rs") {
            // This file is included into another one, where `//!` comments are not allowed.
            let parts = text.lines().filter(|line| !line.starts_with("//!"));
            fs::write(out.join("protocol.rs"), parts.collect::<Vec<_>>().join("\n"))?;
        } else {
            fs::write(out.join(&file), text)?;
        }
    }
    Ok(())
}

/// Adds all mistakes of a file beside the right code.
fn plant(file: &Path, mut text: String) -> String {
    let here = |change: &&Change| Path::new(change.file) == file;
    let rights: BTreeSet<&str> = changes().filter(here).map(|change| change.right).collect();
    for right in rights {
        let found = text.matches(right).count();
        assert!(found == 1, "a mistake replaces what stands {found} times in {}: {right}", file.display());
        let mut choice = String::new();
        for (i, Mistake { changes, .. }) in mistakes::all().enumerate() {
            let wrong = changes.iter().find(|change| change.right == right && here(change));
            if let Some(Change { wrong, .. }) = wrong {
                let wrong = wrong.replace(RIGHT, right);
                let _ = write!(choice, "if crate::is_planted({}) {{ {wrong} }} else ", i + 1);
            }
        }
        choice += &format!("{{ {right} }}");
        let is_statement = right.ends_with([';', '}']);
        text = text.replace(right, &if is_statement { choice } else { format!("({choice})") });
    }
    text
}
