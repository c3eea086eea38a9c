//! The way to results: revisions checked out, built and run in turns, and nothing left behind. The benches here are of a
//! repository of the test's own, as those of this one would take a while.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use tempfile::TempDir;

use super::{Ended, bench_compare};

/// A condition that has not come true by then never will.
const CONDITION_WITHIN: Duration = Duration::from_secs(60);

const MANIFEST: &str = r#"
[package]
name = "bench"
edition = "2024"
[lib]
path = "lib.rs"
[[bench]]
name = "locks"
path = "locks.rs"
harness = false
"#;

const LOCK: &str = "version = 4\n\n[[package]]\nname = \"bench\"\nversion = \"0.0.0\"\n";

/// A bench that records the time that it is given here, as criterion would, and which run that was.
fn bench_that_takes(ns: u32) -> String {
    format!(
        r#"
        use std::io::Write;
        fn main() {{
            let arguments: Vec<String> = std::env::args().collect();
            let name = arguments.iter().position(|argument| argument == "--save-baseline").unwrap() + 1;
            let home = std::path::PathBuf::from(std::env::var_os("CRITERION_HOME").unwrap());
            let folder = home.join("handoff").join(&arguments[name]);
            std::fs::create_dir_all(&folder).unwrap();
            std::fs::write(folder.join("benchmark.json"), "{{\"full_id\": \"handoff\"}}").unwrap();
            let estimates = "{{\"median\": {{\"point_estimate\": {ns}, \"confidence_interval\": \
                             {{\"lower_bound\": {ns}, \"upper_bound\": {ns}}}}}}}";
            std::fs::write(folder.join("estimates.json"), estimates).unwrap();
            let mut runs = std::fs::File::options().create(true).append(true).open(home.join("runs")).unwrap();
            writeln!(runs, "{{}} {ns}", arguments[name..].join(" ")).unwrap();
        }}
        "#
    )
}

/// A bench that never ends.
const BENCH_WITHOUT_END: &str = r#"
    fn main() {
        println!("pid {}", std::process::id());
        loop {
            std::thread::park();
        }
    }
"#;

/// A repository with one commit that has no benches.
struct Repository(TempDir);

impl Repository {
    fn new() -> Self {
        let repository = Self(tempfile::tempdir().unwrap());
        repository.git(&["init", "--quiet", "--initial-branch=main"]);
        repository.write(".gitignore", "/target/\n");
        repository.commit();
        repository
    }

    fn root(&self) -> &Path {
        self.0.path()
    }

    fn git(&self, arguments: &[&str]) -> String {
        let identity = ["-c", "user.name=bench", "-c", "user.email=bench@localhost", "-c", "commit.gpgsign=false"];
        let output = Command::new("git").args(identity).args(arguments).current_dir(self.root()).output().unwrap();
        assert!(output.status.success(), "{output:?}");
        String::from_utf8(output.stdout).unwrap()
    }

    fn write(&self, file: &str, text: &str) {
        fs::write(self.root().join(file), text).unwrap();
    }

    fn write_bench(&self, program: &str) {
        for (file, text) in [("Cargo.toml", MANIFEST), ("Cargo.lock", LOCK), ("lib.rs", ""), ("locks.rs", program)] {
            self.write(file, text);
        }
    }

    fn commit(&self) {
        self.git(&["add", "--all"]);
        self.git(&["commit", "--quiet", "--message", "another state"]);
    }

    fn results(&self) -> PathBuf {
        self.root().join("target/bench-compare/results")
    }

    fn compare_with(&self, revision: &str, arguments: &[&str]) -> Ended {
        bench_compare(self.root()).args(["--base", revision]).args(arguments).output().unwrap().into()
    }

    #[track_caller]
    fn assert_nothing_left_behind(&self) {
        assert_eq!(self.git(&["worktree", "list"]).lines().count(), 1);
        assert!(!self.root().join("target/bench-compare/base").exists());
    }
}

#[test]
fn both_revisions_are_built_from_their_own_sources_and_run_in_turns() {
    let repository = Repository::new();
    repository.write_bench(&bench_that_takes(100));
    repository.commit();
    // What is on disk counts, committed or not.
    repository.write_bench(&bench_that_takes(150));
    let ended = repository.compare_with("HEAD", &["--only", "wall-clock", "hand"]);
    ended.assert(1, &["regressed: handoff: takes 1.50 times as long"]);
    assert!(ended.stderr.contains("and changes on disk that are not committed"), "{ended:?}");
    let runs = fs::read_to_string(repository.results().join("criterion/runs")).unwrap();
    assert_eq!(runs, "base-1 hand 100\nhead-1 hand 150\nhead-2 hand 150\nbase-2 hand 100\n");
    repository.assert_nothing_left_behind();
}

#[test]
fn without_any_instructions_to_count_the_clock_is_compared_alone() {
    let repository = Repository::new();
    repository.write_bench(&bench_that_takes(100));
    repository.commit();
    let ended = repository.compare_with("main", &[]);
    ended.assert(0, &["instructions were not checked: neither revision counts any"]);
    assert!(!ended.stderr.contains("not committed"), "{ended:?}");
    repository.compare_with("main", &["--only", "instructions"]).assert(3, &["instructions were not checked"]);
    repository.assert_nothing_left_behind();
}

#[test]
fn a_revision_that_does_not_exist_is_named() {
    let ended = Repository::new().compare_with("no-such-branch", &[]);
    ended.assert(64, &["there is no revision \"no-such-branch\" here"]);
    Repository::new().compare_with("--help", &[]).assert(64, &[]);
}

#[test]
fn a_revision_without_benches_is_an_error_that_leaves_no_work_tree() {
    let repository = Repository::new();
    repository.write_bench(&bench_that_takes(100));
    repository.commit();
    repository.compare_with("HEAD~1", &[]).assert(3, &["revision HEAD~1 has no benches"]);
    repository.assert_nothing_left_behind();
}

#[test]
fn a_bench_that_does_not_build_or_fails_is_an_error_that_leaves_no_work_tree() {
    let repository = Repository::new();
    repository.write_bench("fn main() { panic!(\"the server is not installed\") }");
    repository.commit();
    let ended = repository.compare_with("HEAD", &[]);
    ended.assert(3, &["locks, base, first half failed", "the server is not installed"]);
    repository.write_bench("fn main() { no_such_function() }");
    repository.compare_with("HEAD", &[]).assert(3, &["no_such_function", "cargo bench --no-run"]);
    repository.assert_nothing_left_behind();
}

#[test]
fn a_bench_that_records_nothing_is_an_error_that_names_its_logs() {
    let repository = Repository::new();
    repository.write_bench("fn main() {}");
    repository.commit();
    repository.compare_with("HEAD", &[]).assert(3, &["have recorded nothing; what they said is in ", "results/logs"]);
    repository.compare_with("HEAD", &["shell"]).assert(64, &["no bench has a name with \"shell\" in it"]);
    repository.assert_nothing_left_behind();
}

#[test]
fn what_is_not_there_or_cannot_be_written_is_named_with_the_remedy() {
    let repository = Repository::new();
    repository.write_bench("fn main() {}");
    repository.commit();
    let ended = |variable: &str, value: &str| {
        let mut command = bench_compare(repository.root());
        Ended::from(command.args(["--base", "HEAD"]).env(variable, value).output().unwrap())
    };
    ended("PATH", "/nowhere").assert(3, &["git not found; install it, or add its folder to PATH"]);
    ended("CARGO", "/nowhere/cargo").assert(3, &["/nowhere/cargo not found; install it"]);
    let refused = ended("CARGO_TARGET_DIR", "/dev/null");
    refused.assert(3, &["cannot write into /dev/null/bench-compare; name another target folder with CARGO_TARGET_DIR"]);
}

#[test]
fn nobody_listening_is_no_reason_to_panic() {
    let repository = Repository::new();
    repository.write_bench(&bench_that_takes(100));
    repository.commit();
    let (reader, writer) = std::io::pipe().unwrap();
    drop(reader);
    let mut command = bench_compare(repository.root());
    // It comes to the folder of the results, past what it says of both revisions.
    command.args(["--base", "HEAD"]).env("CARGO_TARGET_DIR", "/dev/null").stderr(writer);
    assert_eq!(Ended::from(command.output().unwrap()).code, Some(3));
}

#[test]
fn outside_a_repository_nothing_is_compared() {
    let folder = tempfile::tempdir().unwrap();
    let mut command = bench_compare(folder.path());
    let ended = Ended::from(command.env("GIT_CEILING_DIRECTORIES", "/").args(["--base", "HEAD"]).output().unwrap());
    ended.assert(3, &["git finds no work tree in the current folder"]);
}

#[test]
fn an_interrupt_stops_the_bench_and_removes_the_work_tree() {
    let repository = Repository::new();
    repository.write_bench(BENCH_WITHOUT_END);
    repository.commit();
    let mut command = bench_compare(repository.root());
    let comparison = command.args(["--base", "HEAD"]).stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
    let log = repository.results().join("logs/locks-base-1.log");
    let bench = wait_for(|| fs::read_to_string(&log).ok()?.trim().strip_prefix("pid ")?.parse().ok());
    // A second comparison would overwrite the results of the first.
    repository.compare_with("HEAD", &[]).assert(3, &["another comparison is running in "]);
    // A terminal that is closed tells its programs twice: none of them may cut the cleaning up short.
    for signal in [Signal::SIGINT, Signal::SIGHUP, Signal::SIGHUP] {
        kill(Pid::from_raw(i32::try_from(comparison.id()).unwrap()), signal).unwrap();
    }
    Ended::from(comparison.wait_with_output().unwrap()).assert(130, &["interrupted"]);
    wait_for(|| kill(Pid::from_raw(bench), None).err());
    repository.assert_nothing_left_behind();
}

#[test]
fn what_a_killed_comparison_has_left_does_not_hinder_the_next() {
    let repository = Repository::new();
    repository.write_bench(&bench_that_takes(100));
    repository.commit();
    let left = repository.root().join("target/bench-compare/base");
    repository.git(&["worktree", "add", "--quiet", "--detach", left.to_str().unwrap(), "HEAD~1"]);
    repository.compare_with("HEAD", &["--only", "wall-clock"]).assert(0, &["0 regressed"]);
    repository.assert_nothing_left_behind();
}

/// Waits for something to be there, looking again every few milliseconds.
#[track_caller]
fn wait_for<T>(mut condition: impl FnMut() -> Option<T>) -> T {
    let began = Instant::now();
    while began.elapsed() < CONDITION_WITHIN {
        if let Some(found) = condition() {
            return found;
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    panic!("the condition should come true");
}
