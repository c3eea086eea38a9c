//! The commands of `scripts/bench-compare.sh`, and its exit status. Programs of the same names stand in for cargo and
//! critcmp, and for the benches that cargo builds.

use std::env;
use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Command, Output};

use tempfile::TempDir;

use crate::architecture::root;

/// Builds benches. Those of head end with a status of the test's choice.
const CARGO: &str = r#"while [ $# -gt 0 ]; do
    case $1 in
        --target-dir) mkdir -p "$2"; folder=$(cd "$2" && pwd); shift ;;
        --bench=*) benches="$benches ${1#--bench=}" ;;
    esac
    shift
done
for bench in $benches; do
    printf '#!/bin/sh\necho "$@"\ncase $0 in */head/*) exit STATUS ;; esac\n' >"$folder/$bench-0f"
    chmod +x "$folder/$bench-0f"
    printf '{"target":{"kind":["bench"]},"executable":"%s"}\n' "$folder/$bench-0f"
done"#;

struct Checkout(TempDir);

impl Checkout {
    fn new(status_of_head: i32) -> Self {
        let checkout = Self(tempfile::tempdir().unwrap());
        for folder in ["scripts", "programs", "bench"] {
            fs::create_dir(checkout.path().join(folder)).unwrap();
        }
        checkout.write("programs/cargo", &CARGO.replace("STATUS", &status_of_head.to_string()));
        checkout.write("programs/critcmp", r#"shift 2; echo "compared: $*""#);
        checkout.write("bench/README.md", "");
        fs::copy(root().join("scripts/bench-compare.sh"), checkout.path().join("scripts/bench-compare.sh")).unwrap();
        checkout.git(&["init", "--quiet"]);
        checkout.git(&["add", "bench"]);
        checkout.git(&["-c", "user.name=a", "-c", "user.email=a@example.org", "commit", "--quiet", "--message=Begin"]);
        checkout
    }

    fn path(&self) -> &Path {
        self.0.path()
    }

    fn write(&self, name: &str, script: &str) {
        let path = self.path().join(name);
        fs::write(&path, format!("#!/bin/sh\n{script}\n")).unwrap();
        fs::set_permissions(&path, Permissions::from_mode(0o755)).unwrap();
    }

    fn git(&self, arguments: &[&str]) -> String {
        let output = Command::new("git").args(arguments).current_dir(self.path()).output().unwrap();
        assert!(output.status.success(), "{output:?}");
        String::from_utf8(output.stdout).unwrap()
    }

    fn compare(&self, arguments: &[&str]) -> Output {
        let path = format!("{}:{}", self.path().join("programs").display(), env::var("PATH").unwrap());
        let mut command = Command::new(self.path().join("scripts/bench-compare.sh"));
        command.args(arguments).env("PATH", path).output().unwrap()
    }

    fn log(&self, name: &str) -> String {
        fs::read_to_string(self.path().join("target/bench-compare/results").join(name)).unwrap()
    }
}

#[test]
fn a_bench_that_takes_more_instructions_ends_with_1() {
    for (of_head, expected) in [(0, 0), (3, 1), (1, 3), (101, 3)] {
        let checkout = Checkout::new(of_head);
        let output = checkout.compare(&["HEAD", "instructions"]);
        assert_eq!(output.status.code(), Some(expected), "{of_head}: {output:?}");
        assert!(checkout.log("instructions-base.log").contains("--save-baseline=base"));
        assert!(checkout.log("instructions-head.log").contains("--baseline=base --callgrind-limits=ir=5%"));
        assert_eq!(checkout.git(&["worktree", "list"]).lines().count(), 1, "the sources of base are left");
    }
}

#[test]
fn times_are_taken_in_turns() {
    let checkout = Checkout::new(0);
    let output = checkout.compare(&["HEAD", "times", "handover/mutex"]);
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    assert_eq!(String::from_utf8_lossy(&output.stdout), "compared: base-1 base-2 head-1 head-2\n");
    let expected: Vec<_> = ["locks", "deductions"]
        .into_iter()
        .flat_map(|bench| {
            ["base-1", "head-1", "head-2", "base-2"].map(|turn| format!("bench-compare: {bench}, {turn}"))
        })
        .collect();
    assert_eq!(String::from_utf8_lossy(&output.stderr).lines().collect::<Vec<_>>(), expected);
    assert_eq!(checkout.log("locks-head-2.log"), "--bench --noplot --save-baseline head-2 handover/mutex\n");
}

#[test]
fn both_are_compared_unless_one_is_chosen() {
    let checkout = Checkout::new(0);
    let output = checkout.compare(&["HEAD"]);
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    for log in ["locks-base-1.log", "deductions-head-2.log", "instructions-head.log"] {
        assert!(checkout.log(log).starts_with("--bench "), "{log}");
    }
}

#[test]
fn a_comparison_with_nothing_is_a_usage_error() {
    let checkout = Checkout::new(0);
    for arguments in [&[][..], &["HEAD", "all"], &["no-such-revision"], &["--help"]] {
        assert_eq!(checkout.compare(arguments).status.code(), Some(64), "{arguments:?}");
    }
}
