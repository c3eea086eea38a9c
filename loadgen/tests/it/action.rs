//! The actions in `.github/actions`: a test runs the steps of an action as a runner does. A program named `gh` stands in for
//! GitHub's.

use std::collections::BTreeMap;
use std::env;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use axum::Router;
use axum::extract::State;
use axum::http::{StatusCode, Uri};
use regex::Regex;
use serde_json::json;
use tokio::net::TcpListener;

use crate::shops::{STOCK, ShopProcess};
use crate::support::{Finished, TestFolder, demo_service, finish, write_program};

/// The repository and the pull request of the workflow.
const REPOSITORY: &str = "owner/shop";
const PULL_REQUEST: &str = "7";

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap()
}

/// Returns the folder of the programs that cargo has built.
fn programs() -> String {
    Path::new(env!("CARGO_BIN_EXE_loadgen")).parent().unwrap().display().to_string()
}

/// A job that uses an action.
struct Job {
    folder: TestFolder,
    /// The folder of the action.
    action: PathBuf,
    /// The steps of the action by their ids, each with its line of shell and its variables.
    steps: BTreeMap<String, (String, Vec<(String, String)>)>,
    /// The values of expressions: inputs, outputs, and what GitHub tells.
    values: BTreeMap<String, String>,
}

impl Job {
    /// Reads the action, with these inputs in place of its defaults.
    fn new(action: &str, with: &[(&str, &str)]) -> Job {
        let folder = TestFolder::new();
        let action = root().join(".github/actions").join(action);
        let text = fs::read_to_string(action.join("action.yml")).unwrap();
        let (inputs, runs) = text.split_once("\noutputs:").unwrap();
        let input = Regex::new(r"(?m)^  ([a-z-]+):\n(?:    .*\n)*?    default: (.*)$").unwrap();
        let mut values: BTreeMap<_, _> = input
            .captures_iter(inputs)
            .map(|found| (format!("inputs.{}", &found[1]), found[2].trim_matches('"').to_owned()))
            .collect();
        for (name, value) in with {
            let default = values.insert(format!("inputs.{name}"), (*value).to_owned());
            assert!(default.is_some(), "the action has no input {name}");
        }
        values.insert("github.action_repository".to_owned(), "owner/lab".to_owned());
        values.insert("github.event.pull_request.number".to_owned(), PULL_REQUEST.to_owned());
        let id = Regex::new(r"^id: (\w+)").unwrap();
        let line = Regex::new(r"\n      run: '(.*)'\n?").unwrap();
        let variable = Regex::new(r"(?m)^        ([A-Z_]+): \$\{\{ (.*) \}\}$").unwrap();
        let read = |step: &str| {
            let variables = variable.captures_iter(step).map(|found| (found[1].to_owned(), found[2].to_owned()));
            (
                id.captures(step).unwrap()[1].to_owned(),
                (line.captures(step).unwrap()[1].to_owned(), variables.collect()),
            )
        };
        let steps = runs.split("\n    - ").skip(1).map(read).collect();
        let job = Job { folder, action, steps, values };
        job.add_gh(&[], "");
        job
    }

    /// Makes a `gh` that notes its arguments, and knows these comments. `end` is what it does at its end.
    fn add_gh(&self, comments: &[serde_json::Value], end: &str) {
        fs::write(self.folder.path("comments"), json!({ "comments": comments }).to_string()).unwrap();
        fs::create_dir_all(self.folder.path("bin")).unwrap();
        let script = format!("echo \"$*\" >>gh.log\n[ \"$1\" != pr ] || cat comments\n{end}");
        write_program(&self.folder.path("bin/gh"), &script);
    }

    /// Runs a step, and keeps its outputs.
    fn run(&mut self, id: &str) -> Finished {
        let (line, variables) = &self.steps[id];
        let output = self.folder.path(&format!("{id}.output"));
        let path = format!("{}:{}", self.folder.path("bin").display(), env::var("PATH").unwrap());
        let mut command = Command::new("bash");
        command.args(["--noprofile", "--norc", "-eo", "pipefail", "-c", line]).current_dir(self.folder.path(""));
        command.env("PATH", path).env("TMPDIR", self.folder.path("tmp")).env("RUNNER_TEMP", self.folder.path("tmp"));
        command.env("GITHUB_ACTION_PATH", &self.action).env("GITHUB_OUTPUT", &output);
        command.env("GITHUB_STEP_SUMMARY", self.folder.path("summary")).env("GITHUB_REPOSITORY", REPOSITORY);
        command.env_remove("DATABASE_URL").env_remove("ZOOKEEPER_CONNECT");
        for (name, expression) in variables {
            command.env(name, self.values.get(expression).map_or("", String::as_str));
        }
        if let Some(server) = self.values.get("github.server_url") {
            command.env("GITHUB_SERVER_URL", server);
        }
        let finished = finish(&mut command);
        for (name, value) in
            fs::read_to_string(output).unwrap_or_default().lines().filter_map(|line| line.split_once('='))
        {
            self.values.insert(format!("steps.{id}.outputs.{name}"), value.to_owned());
        }
        finished
    }

    fn output(&self, name: &str) -> Option<&str> {
        self.values.get(&format!("steps.{name}")).map(String::as_str)
    }

    fn read(&self, name: &str) -> String {
        fs::read_to_string(self.folder.path(name)).unwrap()
    }
}

fn assert_ended(finished: &Finished, code: i32) {
    assert_eq!(finished.code, Some(code), "{}{}", finished.stdout, finished.stderr);
}

/// Returns a job that checks a shop with a file of its own, for a few buyers.
fn job_with_file(shop: &ShopProcess) -> Job {
    let with =
        [("shop", "shop.toml"), ("users", "30"), ("trials", "1"), ("args", "--no-warm-up"), ("programs", &programs())];
    let job = Job::new("check", &with);
    let file = shop.file("shop_js.toml", &[("stock = 100", &format!("stock = {STOCK}"))]);
    fs::write(job.folder.path("shop.toml"), file).unwrap();
    job
}

// C48
#[test]
fn a_right_shop_passes_the_action() {
    let shop = ShopProcess::start("shop.js", &["--stock", &STOCK.to_string(), "--one-process"]);
    let mut job = job_with_file(&shop);
    assert_ended(&job.run("get"), 0);
    let finished = job.run("check");
    // On a busy machine loadgen ends with 4, which passes by default.
    assert_ended(&finished, 0);
    assert!(["0", "4"].contains(&job.output("check.outputs.status").unwrap()));
    assert_eq!(job.output("check.outputs.report"), Some("report"));
    assert_eq!(job.read("summary"), job.read("report/report.md"));
    assert!(!finished.stdout.contains("::error"), "{}", finished.stdout);
}

/// Returns a job that checks a shop by its pages, which sells three units more than the check knows of.
fn job_without_file(shop: &ShopProcess, pass_on: &str) -> Job {
    let url = shop.url();
    let args = format!(
        "--no-warm-up --stock {} --order $.order --sold '201'\n--buy 'curl {url}/buy -d buyer={{{{number}}}}' --reset \"curl -X \
         POST {url}/reset\"",
        STOCK - 3
    );
    let with = [("users", "30"), ("trials", "1"), ("args", &args), ("programs", &programs()), ("pass-on", pass_on)];
    Job::new("check", &with)
}

// C48
#[test]
fn a_wrong_shop_fails_the_action_unless_that_passes() {
    let shop = ShopProcess::start("shop.js", &["--stock", &STOCK.to_string(), "--one-process"]);
    for (pass_on, code) in [("4", 2), ("1, 2", 0)] {
        let mut job = job_without_file(&shop, pass_on);
        assert_ended(&job.run("get"), 0);
        let finished = job.run("check");
        assert_ended(&finished, code);
        assert_eq!(job.output("check.outputs.status"), Some("2"));
        assert!(job.read("summary").contains("oversold by up to 3 units"), "{}", job.read("summary"));
        assert_eq!(finished.stdout.contains("::error title=loadgen check::ended with status 2"), code == 2);
        assert_ended(&job.run("comment"), 0);
        let log = job.read("gh.log");
        assert_eq!(log.lines().next(), Some("pr view 7 --repo owner/shop --json comments"));
        assert!(log.contains("api --silent --method POST repos/owner/shop/issues/7/comments --field body=@"), "{log}");
        let expected = format!("<!-- loadgen check -->\n\n{}", job.read("summary"));
        assert_eq!(job.read("tmp/loadgen-comment.md"), expected);
    }
}

// C48
#[test]
fn a_run_without_a_report_shows_its_last_lines() {
    let mut job = Job::new("check", &[("shop", "$(touch run) `touch run`.toml"), ("programs", &programs())]);
    fs::create_dir(job.folder.path("report")).unwrap();
    fs::write(job.folder.path("report/report.md"), "of yesterday").unwrap();
    assert_ended(&job.run("get"), 0);
    assert_ended(&job.run("check"), 64);
    let summary = job.read("summary");
    assert!(summary.starts_with("### loadgen check ended with status 64 and no report\n"), "{summary}");
    assert!(summary.contains("$(touch run) `touch run`.toml") && !summary.contains("of yesterday"), "{summary}");
    assert!(!job.folder.path("run").exists(), "a shell has read an input");
    assert_eq!(job.output("check.outputs.report"), None);
    let mut job = Job::new("check", &[("args", "--sold '200"), ("programs", &programs())]);
    assert_ended(&job.run("get"), 0);
    job.run("check").assert_error(64, "args has a quote without its other half: --sold '200");
}

// C48
#[test]
fn only_the_comment_of_an_earlier_run_is_replaced() {
    let mut job = Job::new("check", &[("comment-name", "shop")]);
    job.values.insert("steps.check.outputs.text".to_owned(), "text.md".to_owned());
    fs::write(job.folder.path("text.md"), "line\n".repeat(20_000)).unwrap();
    let comment = |number: u32, is_ours: bool, body: &str| {
        let url = format!("https://github.com/owner/shop/pull/7#issuecomment-{number}");
        json!({ "url": url, "viewerDidAuthor": is_ours, "body": body })
    };
    let earlier = comment(12, true, "<!-- shop -->\r\n\r\nold");
    let others =
        [comment(13, false, "<!-- shop --> forged"), comment(14, true, "<!-- coverage -->"), comment(15, true, "hi")];
    job.add_gh(&[&[earlier][..], &others].concat(), "");
    assert_ended(&job.run("comment"), 0);
    let log = job.read("gh.log");
    assert!(log.contains("--method PATCH repos/owner/shop/issues/comments/12 "), "{log}");
    assert_eq!(log.lines().count(), 2, "{log}");
    // A comment has at most 65 536 characters.
    let text = job.read("tmp/loadgen-comment.md");
    assert!(text.len() < 65_536 && text.ends_with("line\n\nThe summary of the job has the rest.\n"), "{}", text.len());

    job.add_gh(&others, "");
    assert_ended(&job.run("comment"), 0);
    assert!(job.read("gh.log").ends_with("tmp/loadgen-comment.md\n") && job.read("gh.log").contains("--method POST"));
    job.add_gh(&[], "exit 1");
    job.run("comment")
        .assert_error(3, "action: no comment was written; give the job the permission pull-requests: write");
    assert!(job.read("gh.log").lines().count() == 5, "nothing is written when the comments are unknown");
}

/// Serves the files of a folder by their names.
async fn serve(folder: PathBuf) -> String {
    let file = async |State(folder): State<PathBuf>, uri: Uri| {
        let name = uri.path().strip_prefix("/owner/lab/releases/download/v0.0.1/");
        name.and_then(|name| fs::read(folder.join(name)).ok()).ok_or(StatusCode::NOT_FOUND)
    };
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move { axum::serve(listener, Router::new().fallback(file).with_state(folder)).await });
    format!("http://{address}")
}

// C49
#[tokio::test(flavor = "multi_thread")]
async fn a_release_is_downloaded_and_its_checksum_verified() {
    let release = TestFolder::new();
    let system = Command::new("sh").args(["-c", "uname -sm"]).output().unwrap().stdout;
    let target = match String::from_utf8(system).unwrap().trim() {
        "Linux x86_64" => "x86_64-unknown-linux-gnu",
        "Linux aarch64" => "aarch64-unknown-linux-gnu",
        "Darwin x86_64" => "x86_64-apple-darwin",
        "Darwin arm64" => "aarch64-apple-darwin",
        other => panic!("no release for {other}"),
    };
    let archive = format!("seckill-v0.0.1-{target}");
    let mut pack = Command::new(root().join("scripts/release-archive.sh"));
    pack.args([&archive, &programs(), "loadgen"]).current_dir(release.path(""));
    assert_ended(&finish(&mut pack), 0);
    let server = serve(release.path("")).await;
    let download = |version: &str| {
        let mut job = Job::new("check", &[("version", version)]);
        job.values.insert("github.server_url".to_owned(), server.clone());
        let finished = job.run("get");
        (job, finished)
    };
    let (job, finished) = download("v0.0.1");
    assert_ended(&finished, 0);
    let program = Path::new(job.output("get.outputs.programs").unwrap()).join("loadgen");
    assert_ended(&finish(Command::new(program).arg("--version")), 0);

    let (_, missing) = download("0.0.2");
    missing.assert_error(3, "could not be downloaded; name a release: version: X.Y.Z, or build: version: source");
    let (_, wrong) = download("../0.0.1");
    wrong.assert_error(64, "\"../0.0.1\" is no version; write X.Y.Z or source");
    fs::write(release.path(&format!("{archive}.tar.gz")), "another file").unwrap();
    let (job, finished) = download("0.0.1");
    finished.assert_error(3, "does not have its checksum");
    assert_eq!(job.output("get.outputs.programs"), None);
}

#[test]
fn the_action_names_the_archives_of_a_release() {
    let read = |name: &str| fs::read_to_string(root().join(name)).unwrap();
    let release = read(".github/workflows/release.yml");
    let targets = Regex::new(r"\{ target: (\S+), runner: [\w.-]+ \}").unwrap();
    let targets: Vec<_> = targets.captures_iter(&release).map(|found| found[1].to_owned()).collect();
    assert_eq!(targets.len(), 4, "{targets:?}");
    let script = read("scripts/action.sh");
    for target in targets {
        assert!(script.contains(&format!(") echo {target} ;;\n")), "{target}");
    }
    assert!(release.contains("${{ matrix.only || 'seckill' }}") && script.contains("archive=seckill-v$1-"));
}

// C48
#[test]
fn strategies_are_compared_by_the_action() {
    assert_eq!(demo_service().parent().unwrap().display().to_string(), programs());
    // Buyers meet under the lock even if the machine is busy with something else.
    let args = "--no-warm-up --instances 1 --no-request-log --stock 5 --business-time 100ms";
    let with =
        [("strategies", "pg-conditional"), ("users", "20"), ("trials", "1"), ("args", args), ("programs", &programs())];
    let mut job = Job::new("compare", &with);
    for step in ["get", "servers", "compare", "comment"] {
        assert_ended(&job.run(step), 0);
    }
    assert!(job.read("summary").contains("pg-conditional"), "{}", job.read("summary"));
    assert!(job.read("tmp/loadgen-comment.md").starts_with("<!-- loadgen compare -->\n"));
}
