//! The benches of a checked-out revision, as cargo knows and builds them.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use serde::Deserialize;
use tokio::process::Command;

use crate::error::Error;
use crate::process::{output, output_in_sight};

/// The package that the benches are in.
const PACKAGE: &str = "bench";

/// The bench that counts instructions. All others take times.
pub(crate) const INSTRUCTIONS: &str = "instructions";

/// The benches of one revision.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Workspace {
    root: PathBuf,
    /// The folder of the package, which benches are run in.
    pub(crate) package: PathBuf,
    /// Where cargo would build.
    pub(crate) target_directory: PathBuf,
    /// Their names.
    pub(crate) benches: Vec<String>,
}

impl Workspace {
    /// What is checked out in a folder, which errors call `revision`.
    ///
    /// # Errors
    /// [`Error::NoBenches`], and when cargo cannot read the manifests.
    ///
    /// # Cancel safety
    /// Nothing is lost.
    pub(crate) async fn read(root: &Path, revision: &str) -> Result<Self, Error> {
        let manifest = root.join("Cargo.toml");
        if !manifest.exists() {
            return Err(Error::NoBenches(revision.to_owned()));
        }
        let what = format!("cargo metadata on {revision}");
        let arguments = ["metadata", "--no-deps", "--format-version=1", "--manifest-path"];
        let metadata = output(&what, cargo().args(arguments).arg(&manifest)).await?;
        let workspace = parse_metadata(&metadata, root).map_err(|reason| Error::unreadable(what, reason))?;
        workspace.ok_or_else(|| Error::NoBenches(revision.to_owned()))
    }

    /// Builds benches, and returns the program of each.
    ///
    /// # Errors
    /// When they do not build.
    ///
    /// # Cancel safety
    /// Dropped, cargo is killed. What it has built stays.
    pub(crate) async fn build(
        &self,
        benches: &[&str],
        target_directory: &Path,
    ) -> Result<BTreeMap<String, PathBuf>, Error> {
        let mut command = cargo();
        command
            .args(["bench", "--locked", "--no-run", "--message-format=json-render-diagnostics", "--package", PACKAGE])
            .args(benches.iter().flat_map(|bench| ["--bench", bench]))
            .current_dir(&self.root)
            .env("CARGO_TARGET_DIR", target_directory);
        let what = format!("cargo bench --no-run in {}", self.root.display());
        let messages = output_in_sight(&what, &mut command).await?;
        parse_artifacts(&messages).map_err(|reason| Error::unreadable(what, reason))
    }

    /// The version of a dependency that the lock file names.
    ///
    /// # Errors
    /// When the lock file cannot be read.
    pub(crate) fn locked_version(&self, dependency: &str) -> Result<Option<String>, Error> {
        let path = self.root.join("Cargo.lock");
        let lock = std::fs::read_to_string(&path).map_err(Error::file("read", &path))?;
        Ok(parse_lock(&lock, dependency).map(str::to_owned))
    }
}

/// The cargo that has started this program, if one has: both revisions are built by the same toolchain.
fn cargo() -> Command {
    Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()))
}

#[derive(Deserialize)]
struct Target {
    name: String,
    kind: Vec<String>,
}

impl Target {
    fn is_bench(&self) -> bool {
        self.kind.iter().any(|kind| kind == "bench")
    }
}

fn parse_metadata(text: &str, root: &Path) -> Result<Option<Workspace>, String> {
    #[derive(Deserialize)]
    struct Metadata {
        packages: Vec<Package>,
        target_directory: PathBuf,
    }
    #[derive(Deserialize)]
    struct Package {
        name: String,
        manifest_path: PathBuf,
        targets: Vec<Target>,
    }
    let Metadata { packages, target_directory } = serde_json::from_str(text).map_err(|error| error.to_string())?;
    let Some(package) = packages.into_iter().find(|package| package.name == PACKAGE) else { return Ok(None) };
    let benches: Vec<String> = package.targets.into_iter().filter(Target::is_bench).map(|target| target.name).collect();
    if benches.is_empty() {
        return Ok(None);
    }
    let package = package.manifest_path.parent().unwrap_or(root).to_owned();
    Ok(Some(Workspace { root: root.to_owned(), package, target_directory, benches }))
}

/// The programs of the benches among what cargo says it has built, one message a line.
fn parse_artifacts(messages: &str) -> Result<BTreeMap<String, PathBuf>, String> {
    #[derive(Deserialize)]
    struct Message {
        target: Option<Target>,
        executable: Option<PathBuf>,
    }
    let mut programs = BTreeMap::new();
    for line in messages.lines().filter(|line| line.starts_with('{')) {
        let message: Message = serde_json::from_str(line).map_err(|error| error.to_string())?;
        if let (Some(target), Some(program)) = (message.target, message.executable)
            && target.is_bench()
        {
            programs.insert(target.name, program);
        }
    }
    Ok(programs)
}

fn parse_lock<'a>(lock: &'a str, dependency: &str) -> Option<&'a str> {
    let name = format!("name = \"{dependency}\"");
    let mut lines = lock.lines().skip_while(|line| *line != name);
    lines.nth(1)?.strip_prefix("version = \"")?.strip_suffix('"')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_benches_are_the_bench_targets_of_the_package_of_that_name() {
        let metadata = |package: &str, kind: &str| {
            format!(
                r#"{{"target_directory": "/r/target", "packages": [
                    {{"name": "other", "manifest_path": "/r/other/Cargo.toml",
                      "targets": [{{"name": "not-this", "kind": ["bench"]}}]}},
                    {{"name": "{package}", "manifest_path": "/r/bench/Cargo.toml", "targets": [
                      {{"name": "bench", "kind": ["lib"]}}, {{"name": "locks", "kind": ["{kind}"]}}]}}]}}"#
            )
        };
        let root = Path::new("/r");
        let found = parse_metadata(&metadata("bench", "bench"), root).unwrap().unwrap();
        assert_eq!(
            (found.package.as_path(), found.benches.as_slice()),
            (Path::new("/r/bench"), &["locks".to_owned()][..])
        );
        assert_eq!(parse_metadata(&metadata("benches", "bench"), root), Ok(None));
        assert_eq!(parse_metadata(&metadata("bench", "test"), root), Ok(None));
        assert!(parse_metadata("{}", root).is_err());
    }

    #[test]
    fn the_programs_are_those_of_bench_targets() {
        let messages = r#"
{"reason":"compiler-artifact","target":{"kind":["lib"],"name":"bench"},"executable":null}
{"reason":"compiler-artifact","target":{"kind":["bin"],"name":"bench-compare"},"executable":"/t/bench-compare"}
{"reason":"compiler-artifact","target":{"kind":["bench"],"name":"locks"},"executable":"/t/locks-1"}
{"reason":"build-script-executed","package_id":"x"}
{"reason":"build-finished","success":true}
"#;
        let programs = parse_artifacts(messages).unwrap();
        assert_eq!(programs, BTreeMap::from([("locks".to_owned(), PathBuf::from("/t/locks-1"))]));
    }

    #[test]
    fn a_lock_file_names_one_version_of_a_dependency() {
        let lock = "version = 4\n\n[[package]]\nname = \"gungraun-macros\"\nversion = \"0.10.0\"\n\n\
                    [[package]]\nname = \"gungraun\"\nversion = \"0.20.0\"\nsource = \"registry\"\n";
        assert_eq!(parse_lock(lock, "gungraun"), Some("0.20.0"));
        assert_eq!(parse_lock(lock, "gungraun-macros"), Some("0.10.0"));
        assert_eq!(parse_lock(lock, "criterion"), None);
    }
}
