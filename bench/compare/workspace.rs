//! The benches of a checked-out revision, as cargo knows and builds them.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use cargo_metadata::{Message, Metadata, MetadataCommand};
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
        let command = MetadataCommand::new().manifest_path(manifest).no_deps().cargo_command();
        let metadata = output(&what, &mut command.into()).await?;
        let metadata = MetadataCommand::parse(metadata).map_err(|error| Error::unreadable(what, error))?;
        Self::of(&metadata, root).ok_or_else(|| Error::NoBenches(revision.to_owned()))
    }

    fn of(metadata: &Metadata, root: &Path) -> Option<Self> {
        let package = metadata.packages.iter().find(|package| package.name.as_str() == PACKAGE)?;
        let benches: Vec<String> =
            package.targets.iter().filter(|target| target.is_bench()).map(|target| target.name.clone()).collect();
        let package = package.manifest_path.parent()?.as_std_path().to_owned();
        let target_directory = metadata.target_directory.as_std_path().to_owned();
        (!benches.is_empty()).then(|| Self { root: root.to_owned(), package, target_directory, benches })
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
        programs(&messages).map_err(|error| Error::unreadable(what, error))
    }

    /// The version of a dependency that the lock file names.
    ///
    /// # Errors
    /// When the lock file cannot be read.
    pub(crate) fn locked_version(&self, dependency: &str) -> Result<Option<String>, Error> {
        let path = self.root.join("Cargo.lock");
        let lock = std::fs::read_to_string(&path).map_err(Error::file("read", &path))?;
        version_in(&lock, dependency).map_err(|error| Error::unreadable(path.display(), error))
    }
}

/// The cargo that has started this program, if one has: both revisions are built by the same toolchain.
fn cargo() -> Command {
    Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()))
}

/// The programs of the benches among what cargo says it has built.
fn programs(messages: &str) -> std::io::Result<BTreeMap<String, PathBuf>> {
    let mut programs = BTreeMap::new();
    for message in Message::parse_stream(messages.as_bytes()) {
        if let Message::CompilerArtifact(artifact) = message?
            && artifact.target.is_bench()
            && let Some(program) = artifact.executable
        {
            programs.insert(artifact.target.name, program.into_std_path_buf());
        }
    }
    Ok(programs)
}

/// The version of a dependency in a lock file.
fn version_in(lock: &str, dependency: &str) -> Result<Option<String>, toml::de::Error> {
    #[derive(Deserialize)]
    struct Lock {
        #[serde(default)]
        package: Vec<Package>,
    }
    #[derive(Deserialize)]
    struct Package {
        name: String,
        version: String,
    }
    let Lock { package: packages } = toml::from_str(lock)?;
    Ok(packages.into_iter().find(|package| package.name == dependency).map(|package| package.version))
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[tokio::test]
    async fn the_benches_are_the_bench_targets_of_the_package_of_that_name() {
        let package = Path::new(env!("CARGO_MANIFEST_DIR"));
        let found = Workspace::read(package.parent().unwrap(), "the work tree").await.unwrap();
        assert_eq!(found.package, package);
        for bench in ["locks", "deductions", INSTRUCTIONS] {
            assert!(found.benches.iter().any(|name| name == bench), "{bench} is not in {found:?}");
        }
    }

    #[tokio::test]
    async fn a_package_of_another_name_has_no_benches() {
        let root = tempfile::tempdir().unwrap();
        let manifest = "[package]\nname = \"benches\"\nedition = \"2024\"\n[lib]\npath = \"lib.rs\"\n";
        fs::write(root.path().join("Cargo.toml"), manifest).unwrap();
        fs::write(root.path().join("lib.rs"), "").unwrap();
        let error = Workspace::read(root.path(), "HEAD").await.unwrap_err();
        assert!(matches!(&error, Error::NoBenches(revision) if revision == "HEAD"), "{error}");
    }

    #[test]
    fn the_programs_are_those_of_bench_targets() {
        let artifact = |kind: &str, name: &str, executable: &str| {
            format!(
                r#"{{"reason":"compiler-artifact","package_id":"bench","manifest_path":"/r/bench/Cargo.toml",
                    "target":{{"kind":["{kind}"],"crate_types":["bin"],"name":"{name}","src_path":"/r/{name}.rs",
                    "edition":"2024","doc":false,"doctest":false,"test":false}},
                    "profile":{{"opt_level":"3","debuginfo":0,"debug_assertions":false,"overflow_checks":false,"test":false}},
                    "features":[],"filenames":[],"executable":{executable},"fresh":true}}"#
            )
            .replace('\n', " ")
        };
        let messages = [
            artifact("lib", "bench", "null"),
            artifact("bin", "bench-compare", r#""/t/bench-compare""#),
            "a line of text".to_owned(),
            artifact("bench", "locks", r#""/t/locks-1""#),
            r#"{"reason":"build-finished","success":true}"#.to_owned(),
        ];
        let programs = programs(&messages.join("\n")).unwrap();
        assert_eq!(programs, BTreeMap::from([("locks".to_owned(), PathBuf::from("/t/locks-1"))]));
    }

    #[test]
    fn a_lock_file_names_one_version_of_a_dependency() {
        let lock = "version = 4\n\n[[package]]\nname = \"gungraun-macros\"\nversion = \"0.10.0\"\n\n\
                    [[package]]\nname = \"gungraun\"\nversion = \"0.20.0\"\nsource = \"registry\"\n";
        assert_eq!(version_in(lock, "gungraun").unwrap().as_deref(), Some("0.20.0"));
        assert_eq!(version_in(lock, "criterion").unwrap(), None);
        assert_eq!(version_in("version = 4\n", "gungraun").unwrap(), None);
        assert!(version_in("[[package]]\n", "gungraun").is_err());
    }
}
