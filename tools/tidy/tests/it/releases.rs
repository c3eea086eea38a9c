//! The output and the archives of the scripts for a release. Programs of the same names stand in for those that are packed.

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Command, Output};

use crate::architecture::root;

fn stdout(output: &Output) -> String {
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8_lossy(&output.stdout).into_owned()
}

#[test]
fn the_notes_of_a_release_are_those_of_its_version() {
    let checkout = tempfile::tempdir().unwrap();
    let script = checkout.path().join("scripts/release-notes.sh");
    fs::create_dir(script.parent().unwrap()).unwrap();
    fs::copy(root().join("scripts/release-notes.sh"), &script).unwrap();
    let changes =
        "# Changelog\n\n## [Unreleased]\n\n## [0.10.0] - 2027-01-02\n\nNew.\n\n## [0.1.0]\n\n### Added\n\n- Old.\n";
    fs::write(checkout.path().join("CHANGELOG.md"), changes).unwrap();
    let notes = |version: &str| Command::new(&script).arg(version).output().unwrap();
    assert_eq!(stdout(&notes("0.10.0")), "New.\n");
    assert_eq!(stdout(&notes("0.1.0")), "### Added\n\n- Old.\n");
    for version in ["0.1", "0.2.0", "Unreleased"] {
        let output = notes(version);
        let stderr = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(3), "{version}: {stderr}");
        assert!(stderr.contains(&format!("\"## [{version}]\"")), "{stderr}");
    }
}

fn write_program(path: &Path, script: &str) {
    fs::write(path, format!("#!/bin/sh\n{script}\n")).unwrap();
    fs::set_permissions(path, Permissions::from_mode(0o755)).unwrap();
}

/// Packs programs, and returns the names in the archive. A shell script has no names to strip, so a mark stands for that.
fn pack(folder: &Path, programs: &[&str]) -> Vec<String> {
    write_program(&folder.join("strip"), r##"(cat "$3"; echo "# stripped") >"$2"; chmod +x "$2""##);
    let path = format!("{}:{}", folder.display(), std::env::var("PATH").unwrap());
    let mut command = Command::new(root().join("scripts/release-archive.sh"));
    command.env("PATH", path);
    stdout(&command.args(["lab", "."]).args(programs).current_dir(folder).output().unwrap());
    let check = Command::new("shasum").args(["--check", "lab.tar.gz.sha256"]).current_dir(folder).output().unwrap();
    assert_eq!(stdout(&check), "lab.tar.gz: OK\n");
    let list = Command::new("tar").args(["-tzf", "lab.tar.gz"]).current_dir(folder).output().unwrap();
    stdout(&list).lines().map(str::to_owned).collect()
}

#[test]
fn an_archive_has_programs_completions_pages_and_licences() {
    let folder = tempfile::tempdir().unwrap();
    write_program(&folder.path().join("loadgen"), r#"[ "$1" = completions ] && echo "$2" || touch "$3/loadgen.1""#);
    write_program(&folder.path().join("zk-lock"), r#"echo "$@""#);
    write_program(&folder.path().join("demo-service"), "exit 1");
    let packed = pack(folder.path(), &["loadgen", "demo-service", "zk-lock"]);
    let pages = ["man/loadgen.1", "man/zk-lock.1", "completions/loadgen.bash", "completions/zk-lock.fish"];
    for name in
        ["loadgen", "demo-service", "zk-lock", "LICENSE-MIT", "LICENSE-APACHE", "README.md"].iter().chain(&pages)
    {
        assert!(packed.contains(&format!("lab/{name}")), "{name} in {packed:?}");
    }
    let read = |name: &str| fs::read_to_string(folder.path().join("lab").join(name)).unwrap();
    assert_eq!(
        (read("man/zk-lock.1"), read("completions/zk-lock.zsh")),
        ("--man\n".into(), "--completions zsh\n".into())
    );
    assert_eq!(read("README.md"), fs::read_to_string(root().join("README.md")).unwrap());
    for program in ["loadgen", "demo-service", "zk-lock"] {
        assert!(read(program).ends_with("\n# stripped\n"), "{program}");
    }

    let packed = pack(folder.path(), &["zk-lock"]);
    assert!(!packed.iter().any(|name| name.contains("loadgen")), "{packed:?}");
    assert_eq!(read("README.md"), fs::read_to_string(root().join("locks/zk-lock/README.md")).unwrap());
}
