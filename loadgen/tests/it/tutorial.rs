//! The tutorial: the commands of each chapter print what the chapter shows.
//!
//! The commands stand in blocks of `sh`, and their output in blocks of `text` behind them. An HTML comment before a block
//! qualifies it: `first terminal` runs beside the other blocks, and `figures vary` compares everything but the numbers.

// C38

use std::env;
use std::ffi::OsString;
use std::fs;
use std::os::unix::fs::symlink;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, Stdio};

use nix::sys::signal::{Signal, killpg};
use regex::Regex;

use crate::support::{PATIENCE, Running, TestFolder, demo_service, eventually, zk_lock};

const CHAPTERS: [&str; 7] = ["1-oversell", "2-herd", "3-queue", "4-fence", "5-batches", "6-your-own-shop", "7-gate"];
/// The line that the shell prints after the output of each step.
const END: &str = "--- end of the step";

/// One block of commands, and its output in the chapter.
#[derive(Debug, PartialEq, Eq)]
struct Step {
    commands: String,
    is_first_terminal: bool,
    shown: Vec<Shown>,
}

#[derive(Debug, PartialEq, Eq)]
struct Shown {
    text: String,
    do_figures_vary: bool,
}

/// Reads the steps of a chapter in a folder of `docs`.
fn steps(folder: &str, chapter: &str) -> Vec<Step> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs").join(folder).join(format!("{chapter}.md"));
    let text = fs::read_to_string(path).unwrap();
    let mut steps: Vec<Step> = Vec::new();
    let mut before = "";
    for (at, part) in text.split("```").enumerate() {
        let is_marked = |mark: &str| before.trim_end().ends_with(&format!("<!-- {mark} -->"));
        match part.split_once('\n') {
            Some(("sh", commands)) if at % 2 == 1 => steps.push(Step {
                commands: commands.to_owned(),
                is_first_terminal: is_marked("first terminal"),
                shown: Vec::new(),
            }),
            Some(("text", shown)) if at % 2 == 1 => steps
                .last_mut()
                .unwrap()
                .shown
                .push(Shown { text: shown.to_owned(), do_figures_vary: is_marked("figures vary") }),
            _ => assert!(at % 2 == 0, "{folder}/{chapter}: a block is neither of `sh` nor of `text`: {part}"),
        }
        before = part;
    }
    steps
}

impl Shown {
    /// Returns a pattern for each line. `…` stands for anything, and a run of spaces for any other run.
    fn patterns(&self) -> impl Iterator<Item = Regex> {
        let space = Regex::new(r"\s+").unwrap();
        let number = Regex::new(r"\d[\d.]*").unwrap();
        let lines = self.text.lines().filter(|line| line.trim() != "…");
        lines.map(move |line| {
            let mut pattern = regex::escape(line.trim()).replace('…', ".*").replace(r"\.", ".");
            if self.do_figures_vary {
                pattern = number.replace_all(&pattern, r"[\d.]+").into_owned();
            }
            Regex::new(&format!(r"^\s*{}\s*$", space.replace_all(&pattern, r"\s+"))).unwrap()
        })
    }

    /// Expects a line of its own in the output for each line that is shown, in any order: some processes run at once.
    fn assert_is_in(&self, output: &[String]) {
        let mut left: Vec<&String> = output.iter().collect();
        for pattern in self.patterns() {
            let found = left.iter().position(|line| pattern.is_match(line));
            let found = found.unwrap_or_else(|| panic!("no line left is like {pattern} in:\n{}", output.join("\n")));
            left.remove(found);
        }
    }
}

/// A shell with a process group of its own, which a signal reaches as a whole.
struct Terminal {
    running: Running,
}

impl Terminal {
    fn open(folder: &TestFolder, script: &str) -> Terminal {
        let mut path = env::var_os("PATH").unwrap_or_default();
        // Homebrew keeps `psql` out of PATH.
        path.push(OsString::from(":"));
        path.push(testbed::postgres_bin().unwrap());
        path.push(OsString::from(":"));
        path.push(testbed::redis_bin().unwrap());
        let mut shell = Command::new("sh");
        shell.args(["-c", &format!("exec 2>&1\n{script}")]).current_dir(folder.path("")).stdin(Stdio::null());
        shell.env("PATH", path).env("TMPDIR", folder.path("tmp")).env("LC_ALL", "C.UTF-8").process_group(0);
        for name in ["DATABASE_URL", "ZOOKEEPER_CONNECT", "ADMIN_TOKEN"] {
            shell.env_remove(name);
        }
        Terminal { running: Running::start(&mut shell) }
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        // Already gone, unless the test has failed.
        let _ = killpg(self.running.pid(), Signal::SIGKILL);
    }
}

/// Runs a chapter of the tutorial, expects what it shows, and returns what its commands printed in the second terminal.
fn follow(chapter: &str) -> Vec<Vec<String>> {
    run(chapter, &steps("tutorial", chapter))
}

fn run(chapter: &str, steps: &[Step]) -> Vec<Vec<String>> {
    let folder = TestFolder::new();
    fs::create_dir(folder.path("target")).unwrap();
    let programs = demo_service().parent().unwrap();
    assert_eq!(zk_lock().parent(), Some(programs));
    symlink(programs, folder.path("target/release")).unwrap();

    let (first, second): (Vec<&Step>, Vec<&Step>) = steps.iter().partition(|step| step.is_first_terminal);
    let [first] = first.as_slice() else { panic!("{chapter} starts one lab") };
    let ready = first.shown[0].text.lines().last().unwrap().trim_end_matches('…');
    let up = Terminal::open(&folder, &first.commands);
    first.shown[0].assert_is_in(&up.running.until_stdout(ready));

    let script: String = second.iter().map(|step| format!("{}\necho '{END}'\n", step.commands)).collect();
    let shell = Terminal::open(&folder, &script);
    let outputs: Vec<_> = second.iter().map(|_| shell.running.until_stdout(END)).collect();
    for (step, output) in second.iter().zip(&outputs) {
        step.shown.iter().for_each(|shown| shown.assert_is_in(output));
    }
    killpg(up.running.pid(), Signal::SIGINT).unwrap();
    eventually("the lab is gone", PATIENCE, || folder.is_clean());
    outputs
}

/// Returns the numbers of the lines that begin like this, in all steps.
fn figures(outputs: &[Vec<String>], beginning: &str) -> Vec<Vec<f64>> {
    let lines = outputs.iter().flatten().filter_map(|line| line.trim_start().strip_prefix(beginning));
    lines.map(|rest| rest.split_whitespace().filter_map(|word| word.parse().ok()).collect()).collect()
}

#[test]
fn chapter_1_oversells_without_a_guard_and_not_with_one() {
    follow("1-oversell");
}

#[test]
fn chapter_2_wakes_the_herd_or_one_waiter_of_a_queue() {
    let outputs = follow("2-herd");
    assert_eq!(figures(&outputs, "zk_max_node_deleted_watch_count")[0], [10.0]);
    let sums = figures(&outputs, "zk_sum_node_deleted_watch_count").concat();
    // A waiter that has not watched again by the next release is not woken by it.
    assert!((10.0..=55.0).contains(&sums[0]) && (5.0..=15.0).contains(&(sums[2] - sums[1])), "{sums:?}");
    for users in [10, 20, 40] {
        let woken = |strategy| *figures(&outputs, &format!("{strategy} @{users} "))[0].last().unwrap();
        let naive = woken("zk-naive");
        let queue = woken("zk-mutex");
        assert!(naive > 1.0 && queue <= 1.0, "{users} users: {naive} and {queue}");
    }
}

#[test]
fn chapter_3_wakes_one_waiter_for_each_release() {
    follow("3-queue");
}

#[test]
fn chapter_4_oversells_by_a_stale_write_without_a_fence() {
    follow("4-fence");
}

#[test]
fn chapter_5_writes_many_orders_by_one_commit() {
    let outputs = follow("5-batches");
    let counted = |strategy: &str| {
        let is_row = |line: &&String| line.split('|').next().unwrap().trim() == strategy && line.contains('|');
        let row = outputs.iter().flatten().find(is_row).unwrap();
        let counts: Vec<u64> = row.split('|').skip(1).map(|count| count.trim().parse().unwrap()).collect();
        (counts[0], counts[1])
    };
    let (orders, commits) = counted("pg-conditional");
    assert!(orders == commits && orders > 0, "{orders} orders, {commits} commits");
    for strategy in ["pg-merge", "zk-owner"] {
        let (orders, commits) = counted(strategy);
        assert!(orders > commits && commits > 0, "{strategy}: {orders} orders, {commits} commits");
    }
}

#[test]
fn chapter_6_shows_with_two_buyers_that_a_shop_oversells() {
    follow("6-your-own-shop");
}

#[test]
fn chapter_7_sells_by_a_gate_what_nobody_gets() {
    follow("7-gate");
}

#[test]
fn the_audit_grades_the_homework_of_the_lesson() {
    // Its first step only builds.
    run("teaching", &steps("", "teaching")[1..]);
}

#[test]
fn both_languages_have_the_same_commands_and_outputs() {
    for chapter in CHAPTERS {
        assert_eq!(steps("tutorial", chapter), steps("tutorial.zh-CN", chapter), "{chapter}");
    }
}
