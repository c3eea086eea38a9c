//! A hold that is lost, or nearly so, while the command runs.

use std::fs::{self, OpenOptions};
use std::io::{ErrorKind, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;

use nix::fcntl::OFlag;
use nix::sys::signal::{Signal, kill};
use nix::sys::stat::Mode;
use nix::unistd::{Pid, mkfifo};
use testbed::{Proxy, ZooKeeper, ZooKeeperConfig};
use zookeeper_client::Client;

use crate::support::{FaultyLab, Lab, PATH, Running, is_gone, is_in_state, until};

/// Short for the sake of the tests. The kill then has 200 ms until the server may grant to another.
const TIMEOUT: [&str; 2] = ["--session-timeout", "4s"];

/// Says that it was asked to stop, and goes on.
const STUBBORN: &str = "trap 'echo asked >asked' TERM; echo $$ >pid; while :; do sleep 0.02; done";

/// Goes on until a file is there.
const UNTIL_GO: &str = "echo $$ >pid; until [ -e go ]; do sleep 0.02; done";

// Z2
#[tokio::test(flavor = "multi_thread")]
async fn a_stubborn_command_is_dead_before_the_next_grant() {
    for recipe in ["mutex", "semaphore=1", "leader"] {
        let faulty = FaultyLab::new().await;
        let recipe = ["--recipe", recipe];
        let holder = faulty.start_script(&[recipe, TIMEOUT].concat(), STUBBORN);
        let command = faulty.lab.pid_in("pid").await;
        let look = format!("if kill -0 {command}; then echo alive; else echo dead; fi");
        let next = faulty.lab.start_script(&recipe, &look);
        faulty.lab.until_queued(2).await;
        faulty.proxy.blackhole();

        let finished = holder.finish().await;
        finished.assert_status(76);
        assert!(is_gone(command));
        assert_eq!(faulty.lab.read("asked"), "asked", "it was asked first");
        let expected = "zk-lock: the hold of /locks/a was lost: no server answered for too long\n\
                        zk-lock: the command was stopped";
        assert!(finished.stderr.contains(expected), "{}", finished.stderr);
        let next = next.finish().await;
        assert_eq!(next.stdout, "dead\n", "{}", next.stderr);
    }
}

// L41
#[tokio::test(flavor = "multi_thread")]
async fn a_command_whose_session_is_replaced_is_stopped() {
    let faulty = FaultyLab::new().await;
    let holder = faulty.start_script(&TIMEOUT, UNTIL_GO);
    let command = faulty.lab.pid_in("pid").await;
    faulty.proxy.replace_sessions();
    faulty.proxy.cut();
    let finished = holder.finish().await;
    finished.assert_status(76);
    assert!(is_gone(command));
    assert!(finished.stderr.contains("the hold of /locks/a was lost: the session expired"), "{}", finished.stderr);
}

// Z6
#[tokio::test(flavor = "multi_thread")]
async fn a_command_whose_node_is_deleted_is_stopped() {
    for recipe in ["leader", "mutex", "handoff", "cohort", "semaphore=1"] {
        let lab = Lab::new().await;
        let holder = lab.start_script(&["--recipe", recipe], UNTIL_GO);
        let command = lab.pid_in("pid").await;
        let next = lab.start_script(&["--recipe", recipe], "echo holds");
        lab.until_queued(2).await;
        let client = Client::connect(&lab.connect_string).await.unwrap();
        client.delete(&lab.queue(PATH).await[0].path, None).await.unwrap();
        let finished = holder.finish().await;
        finished.assert_status(76);
        assert!(is_gone(command), "{recipe}");
        let expected = "zk-lock: the hold of /locks/a was lost: its node was deleted by somebody else\n\
                        zk-lock: the command was stopped";
        assert!(finished.stderr.contains(expected), "{recipe}: {}", finished.stderr);
        let next = next.finish().await;
        next.assert_status(0);
        assert_eq!(next.stdout, "holds\n");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_command_that_obeys_is_not_killed() {
    let faulty = FaultyLab::new().await;
    let script = "trap 'echo cleaned >cleaned; exit 0' TERM; echo $$ >pid; while :; do sleep 0.02; done";
    let holder = faulty.start_script(&[&TIMEOUT[..], &["--kill-after", "1h"]].concat(), script);
    let command = faulty.lab.pid_in("pid").await;
    faulty.proxy.blackhole();
    holder.finish().await.assert_status(76);
    assert!(is_gone(command));
    assert_eq!(faulty.lab.read("cleaned"), "cleaned");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_halted_command_is_stopped_too() {
    let faulty = FaultyLab::new().await;
    let holder = faulty.start_script(&TIMEOUT, "echo $$ >pid; kill -STOP $$");
    let command = faulty.lab.pid_in("pid").await;
    faulty.proxy.blackhole();
    holder.finish().await.assert_status(76);
    assert!(is_gone(command));
}

// Only Linux finds a process that has left the process group.
// Z2
#[cfg(target_os = "linux")]
#[tokio::test(flavor = "multi_thread")]
async fn descendants_are_stopped_with_the_command_wherever_they_are() {
    let faulty = FaultyLab::new().await;
    let far = "trap : TERM; echo $$ >far; while :; do sleep 0.02; done";
    // In a session of its own, and an orphan as soon as the command ends, which it does when it is asked to.
    let script = format!("setsid sh -c '{far}' & echo $$ >pid; while :; do sleep 0.02; done");
    let holder = faulty.start_script(&TIMEOUT, &script);
    let near = faulty.lab.pid_in("pid").await;
    let far = faulty.lab.pid_in("far").await;
    faulty.proxy.blackhole();
    holder.finish().await.assert_status(76);
    assert!(is_gone(near) && is_gone(far));
}

// A shell that starts a process and then becomes `zk-lock` leaves it a child: `exec > >(tee log)`, for example.
// Z4
#[cfg(target_os = "linux")]
#[tokio::test(flavor = "multi_thread")]
async fn a_child_from_before_the_command_is_left_alone() {
    let faulty = FaultyLab::new().await;
    let folder = faulty.lab.file("");
    let stranger = "echo $$ >stranger; until [ -e go ]; do sleep 0.02; done";
    let before = format!("cd '{}'; sh -c '{stranger}' >out 2>&1 &", folder.display());
    let address = faulty.proxy.connect_string();
    let args = faulty.lab.script(&[&["--zookeeper", &address], &TIMEOUT[..]].concat(), STUBBORN);
    let holder = faulty.lab.start_by_exec(&before, args);
    let command = faulty.lab.pid_in("pid").await;
    let stranger = faulty.lab.pid_in("stranger").await;
    faulty.proxy.blackhole();
    let finished = holder.finish().await;
    finished.assert_status(76);
    assert!(finished.stderr.contains("the command was stopped"), "{}", finished.stderr);
    assert!(is_gone(command));
    assert!(!is_gone(stranger), "it does not belong to the command");
    fs::write(faulty.lab.file("go"), "").unwrap();
    until("the stranger has ended", async || is_gone(stranger)).await;
}

/// Lets COMMAND end while its `zk-lock` is halted, and then lets `zk-lock` go on.
async fn end_before(holder: &Running, command: Pid, lab: &Lab) {
    fs::write(lab.file("go"), "").unwrap();
    kill(command, Signal::SIGCONT).unwrap();
    until("the command has ended", async || is_in_state(command, 'Z')).await;
    holder.signal(Signal::SIGCONT);
}

// Z5
#[tokio::test(flavor = "multi_thread")]
async fn a_command_halted_past_its_hold_did_not_succeed() {
    let lab = Lab::new().await;
    let holder = lab.start_script(&TIMEOUT, UNTIL_GO);
    let command = lab.pid_in("pid").await;
    holder.signal(Signal::SIGSTOP);
    kill(command, Signal::SIGSTOP).unwrap();
    let mut next = lab.start_script(&[], "echo holds; until [ -e go ]; do sleep 0.02; done");
    assert_eq!(next.line().await, "holds");
    end_before(&holder, command, &lab).await;
    let finished = holder.finish().await;
    finished.assert_status(76);
    assert!(finished.stderr.contains("the hold of /locks/a was lost"), "{}", finished.stderr);
    next.finish().await.assert_status(0);
}

// Our clock shows nothing here, as after a suspension of the machine. Only the server tells of the loss.
// Z5
#[tokio::test(flavor = "multi_thread")]
async fn a_session_found_expired_at_the_release_is_a_loss() {
    let faulty = FaultyLab::new().await;
    // It stands for the same server after it was restored from before the session.
    let restored = ZooKeeper::start(ZooKeeperConfig::default()).await.unwrap();
    let later = Proxy::start(&restored.connect_string()).await.unwrap();
    later.refuse();
    let servers = format!("{},{}", faulty.proxy.connect_string(), later.connect_string());
    let holder = faulty.lab.start_script(&["--zookeeper", &servers, "--session-timeout", "5m"], UNTIL_GO);
    let command = faulty.lab.pid_in("pid").await;
    holder.signal(Signal::SIGSTOP);
    kill(command, Signal::SIGSTOP).unwrap();
    faulty.proxy.refuse();
    faulty.proxy.cut();
    let script = "echo holds; until [ -e go ]; do sleep 0.02; done";
    let mut next = faulty.lab.start_script(&["--zookeeper", &restored.connect_string()], script);
    assert_eq!(next.line().await, "holds");
    later.accept();
    end_before(&holder, command, &faulty.lab).await;
    let finished = holder.finish().await;
    finished.assert_status(76);
    let expected = "zk-lock: the hold of /locks/a was lost: the session expired; \
                    another may have held it while the command ran";
    assert!(finished.stderr.contains(expected), "{}", finished.stderr);
    next.finish().await.assert_status(0);
}

// Z5
#[tokio::test(flavor = "multi_thread")]
async fn a_warned_command_goes_on_and_its_success_is_not_believed() {
    for (status, expected) in [(0, 76), (7, 7)] {
        let faulty = FaultyLab::new().await;
        let options = [&TIMEOUT[..], &["--on-lost", "warn"]].concat();
        let holder = faulty.start_script(&options, &format!("{UNTIL_GO}; exit {status}"));
        let command = faulty.lab.pid_in("pid").await;
        faulty.proxy.blackhole();
        holder.until_says("another may hold it now, and the command goes on").await;
        // Another does.
        faulty.lab.start_script(&[], "true").finish().await.assert_status(0);
        assert!(!is_gone(command));
        fs::write(faulty.lab.file("go"), "").unwrap();
        holder.finish().await.assert_status(expected);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_suspect_hold_and_its_recovery_are_reported() {
    let faulty = FaultyLab::new().await;
    let holder = faulty.start_script(&["--session-timeout", "20s"], UNTIL_GO);
    faulty.lab.pid_in("pid").await;
    faulty.proxy.blackhole();
    holder.until_says("zk-lock: ZooKeeper does not answer; the hold of /locks/a is suspect").await;
    faulty.proxy.deliver();
    holder.until_says("zk-lock: ZooKeeper answers again; the hold of /locks/a is certain").await;
    fs::write(faulty.lab.file("go"), "").unwrap();
    let finished = holder.finish().await;
    finished.assert_status(0);
    assert_eq!(finished.stderr.lines().count(), 2, "{}", finished.stderr);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_missing_server_delays_the_end_by_seconds_only() {
    let faulty = FaultyLab::new().await;
    let holder = faulty.start_script(&["--session-timeout", "60s"], UNTIL_GO);
    faulty.lab.pid_in("pid").await;
    faulty.proxy.blackhole();
    fs::write(faulty.lab.file("go"), "").unwrap();
    let finished = holder.finish().await;
    finished.assert_status(0);
    assert!(finished.stderr.contains("did not confirm the end of the session"), "{}", finished.stderr);
    assert!(finished.stderr.contains("after 1m of silence"), "{}", finished.stderr);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_full_standard_error_does_not_hide_a_loss() {
    let faulty = FaultyLab::new().await;
    let pipe = faulty.lab.file("pipe");
    mkfifo(&pipe, Mode::S_IRWXU).unwrap();
    let options = OpenOptions::new().read(true).write(true).custom_flags(OFlag::O_NONBLOCK.bits()).clone();
    let mut full = options.open(&pipe).unwrap();
    let refusal = std::iter::repeat_with(|| full.write(&[b'x'; 512])).find_map(Result::err).unwrap();
    assert_eq!(refusal.kind(), ErrorKind::WouldBlock);

    let address = faulty.proxy.connect_string();
    let args = faulty.lab.script(&[&["-v", "--zookeeper", &address], &TIMEOUT[..]].concat(), STUBBORN);
    let holder = faulty.lab.start_by_exec(&format!("exec 2>'{}';", pipe.display()), args);
    let command = faulty.lab.pid_in("pid").await;
    faulty.proxy.blackhole();
    holder.finish().await.assert_status(76);
    assert!(is_gone(command));
}
