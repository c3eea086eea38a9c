//! What a command gets while it holds the lock, and what its caller gets.

use std::fs;

use crate::support::{Lab, PATH, Running, is_gone, until};

/// Increments a file in two steps, and fails when somebody else is at it.
const INCREMENT: &str = "mkdir busy || exit 9; n=$(cat n); sleep 0.01; echo $((n + 1)) >n; rmdir busy";

// Z1
#[tokio::test(flavor = "multi_thread")]
async fn commands_of_several_processes_exclude_each_other() {
    const PROCESSES: usize = 4;
    const ROUNDS: usize = 5;
    for recipe in ["mutex", "handoff", "cohort", "write", "semaphore-mutex", "semaphore=1", "naive", "leader"] {
        let lab = Lab::new().await;
        fs::write(lab.file("n"), "0").unwrap();
        for _ in 0..ROUNDS {
            let start = |_| lab.start_script(&["--recipe", recipe], INCREMENT);
            let running: Vec<Running> = (0..PROCESSES).map(start).collect();
            for one in running {
                one.finish().await.assert_status(0);
            }
        }
        assert_eq!(lab.read("n"), (PROCESSES * ROUNDS).to_string(), "{recipe}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn readers_and_holders_of_permits_hold_together() {
    for recipe in ["read", "semaphore=2"] {
        let lab = Lab::new().await;
        // Each waits for the other one, which must therefore hold at the same time.
        let meet = |mine: &str, other: &str| format!("touch {mine}; until [ -e {other} ]; do sleep 0.02; done");
        let one = lab.start_script(&["--recipe", recipe], &meet("one", "two"));
        let two = lab.start_script(&["--recipe", recipe], &meet("two", "one"));
        one.finish().await.assert_status(0);
        two.finish().await.assert_status(0);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_command_gets_its_token_and_node_and_no_credentials() {
    let lab = Lab::new().await;
    let script = "echo $LOCK_TOKEN; echo $LOCK_PATH; echo \"<$ZK_LOCK_AUTH>\"; until [ -e go ]; do sleep 0.02; done";
    let script = lab.script(&[], script);
    let config = lab.config(script.iter().map(String::as_str)).env("ZK_LOCK_AUTH", "shop:sesame");
    let mut running = Running::start(config);
    let token = running.line().await;
    let path = running.line().await;
    let queue = lab.queue(PATH).await;
    assert_eq!((queue[0].token.to_string(), &queue[0].path), (token, &path));
    assert!(queue[0].is_holder && path.starts_with("/locks/a/"), "{queue:?}");
    assert_eq!(running.line().await, "<>");
    fs::write(lab.file("go"), "").unwrap();
    running.finish().await.assert_status(0);
    // Its nodes, and the parents that it created, are its own.
    let stranger = lab.start(["--path", PATH, "true"]).finish().await;
    stranger.assert_status(69);
    assert!(
        stranger.stderr.contains("does not allow") && stranger.stderr.contains("ZK_LOCK_AUTH"),
        "{}",
        stranger.stderr
    );
    fs::write(lab.file("secret"), "shop:sesame\n").unwrap();
    let file = lab.file("secret").display().to_string();
    lab.start(["--auth-file", &file, "--path", PATH, "true"]).finish().await.assert_status(0);
}

// Z13
#[tokio::test(flavor = "multi_thread")]
async fn the_program_ends_with_the_status_of_the_command() {
    let lab = Lab::new().await;
    for (script, expected) in [("exit 0", 0), ("exit 3", 3), ("exit 255", 255), ("kill -KILL $$", 128 + 9)] {
        let finished = lab.start_script(&[], script).finish().await;
        finished.assert_status(expected);
        assert_eq!(finished.stderr, "", "{script}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn output_and_arguments_pass_through_untouched() {
    let lab = Lab::new().await;
    let finished = lab.start(["--path", PATH, "printf", "%s|", "a b", "--json", "-v", "*"]).finish().await;
    finished.assert_status(0);
    assert_eq!((finished.stdout.as_str(), finished.stderr.as_str()), ("a b|--json|-v|*|\n", ""));
    let finished = lab.start_script(&[], "echo out; echo err >&2").finish().await;
    assert_eq!((finished.stdout.as_str(), finished.stderr.as_str()), ("out\n", "err"));
}

#[tokio::test(flavor = "multi_thread")]
async fn processes_in_the_background_do_not_keep_the_lock() {
    let lab = Lab::new().await;
    let script = "sh -c 'echo $$ >pid; until [ -e go ]; do sleep 0.02; done' >out 2>&1 &";
    lab.start_script(&[], script).finish().await.assert_status(0);
    assert!(lab.queue(PATH).await.is_empty());
    lab.start(["--timeout", "0s", "--path", PATH, "true"]).finish().await.assert_status(0);
    let background = lab.pid_in("pid").await;
    assert!(!is_gone(background), "it goes on");
    fs::write(lab.file("go"), "").unwrap();
    // The folder must not be removed before: the script would wait for its file for ever.
    until("the background has ended", async || is_gone(background)).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn details_tell_of_wait_hold_and_token() {
    let lab = Lab::new().await;
    let finished = lab.start_script(&["-v", "--recipe", "read"], "echo $LOCK_TOKEN").finish().await;
    let token = finished.stdout.trim();
    let lines: Vec<&str> = finished.stderr.lines().collect();
    let [waiting, got, held] = lines[..] else { panic!("{lines:#?}") };
    assert!(waiting.starts_with("zk-lock: waiting for /locks/a (read), session 0x"), "{waiting}");
    assert!(got.starts_with("zk-lock: got /locks/a after ") && got.contains(&format!("token {token},")), "{got}");
    assert!(held.starts_with("zk-lock: held /locks/a for "), "{held}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_command_that_cannot_be_run_is_named_and_frees_the_lock() {
    let lab = Lab::new().await;
    fs::write(lab.file("data"), "no program").unwrap();
    let data = lab.file("data").display().to_string();
    for (command, status) in [("no-such-command", 127), ("/no/such/command", 127), (data.as_str(), 126), ("/", 126)] {
        let finished = lab.start(["--path", PATH, command]).finish().await;
        finished.assert_status(status);
        assert_eq!(finished.stderr.lines().count(), 1, "{}", finished.stderr);
        assert!(finished.stderr.contains(command), "{}", finished.stderr);
        assert!(lab.queue(PATH).await.is_empty());
    }
}
