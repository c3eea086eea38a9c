//! Rebuilds the service when a migration is added: `sqlx::migrate!` embeds the folder, but cargo only watches sources. And
//! names the code that a release is built of, for `/metrics`.
//!
//! A debug build names no revision. Otherwise, it would be built again after every commit, and nobody measures it.

use std::env;
use std::path::Path;
use std::process::Command;

/// What a service is built of, relative to this package.
const SOURCES: [&str; 7] = [
    "src",
    "Cargo.toml",
    "../locks/recipes/src",
    "../locks/protocol/src",
    "../tools/program/src",
    "../migrations",
    "../Cargo.lock",
];

fn main() {
    println!("cargo:rerun-if-changed=../migrations");
    println!("cargo:rerun-if-env-changed=SECKILL_REVISION");
    let profile = env::var("PROFILE").unwrap_or_default();
    let is_release = profile == "release";
    let given = env::var("SECKILL_REVISION").ok();
    let revision = given.or_else(|| is_release.then(|| git(&["rev-parse", "HEAD"])).flatten());
    let changed = is_release.then(is_changed).flatten();
    for (name, value) in [("REVISION", revision), ("CHANGED", changed), ("PROFILE", Some(profile))] {
        println!("cargo:rustc-env=BUILD_{name}={}", value.unwrap_or_default());
    }
}

/// Returns whether a source differs from the revision. From now on, the next commit and every change of a source ask again.
fn is_changed() -> Option<String> {
    for path in SOURCES {
        println!("cargo:rerun-if-changed={path}");
    }
    for name in ["HEAD", "logs/HEAD"] {
        let path = git(&["rev-parse", "--git-path", name]).filter(|path| Path::new(path).exists());
        path.inspect(|path| println!("cargo:rerun-if-changed={path}"));
    }
    let changes = git(&[&["--no-optional-locks", "status", "--porcelain", "--"], &SOURCES[..]].concat())?;
    Some((!changes.is_empty()).to_string())
}

/// Returns what git says about these sources, or `None` outside of a repository.
fn git(arguments: &[&str]) -> Option<String> {
    let output = Command::new("git").args(arguments).output().ok().filter(|output| output.status.success())?;
    Some(String::from_utf8(output.stdout).ok()?.trim().to_owned())
}
