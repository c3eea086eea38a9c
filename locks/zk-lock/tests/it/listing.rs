//! `--list`: the holders of a lock and its waiters.

use std::fs;
use std::process::Command;

use crate::support::{Lab, PATH, PROGRAM, Running};

const UNTIL_GO: &str = "until [ -e go ]; do sleep 0.02; done";

/// Lets contenders of these recipes queue in this order.
async fn queue(lab: &Lab, recipes: &[&str]) -> Vec<Running> {
    let mut running = Vec::new();
    for recipe in recipes {
        running.push(lab.start_script(&["--recipe", recipe], UNTIL_GO));
        lab.until_listed(running.len()).await;
    }
    running
}

async fn rows(lab: &Lab) -> Vec<Vec<String>> {
    let finished = lab.start(["--list", PATH]).finish().await;
    finished.assert_status(0);
    finished.stdout.lines().map(|line| line.split_whitespace().map(str::to_owned).collect()).collect()
}

async fn end(lab: &Lab, queue: Vec<Running>) {
    fs::write(lab.file("go"), "").unwrap();
    for running in queue {
        running.finish().await.assert_status(0);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_mixed_queue_is_printed_in_its_order() {
    let lab = Lab::new().await;
    let running = queue(&lab, &["read", "read", "write", "read"]).await;
    let rows = rows(&lab).await;
    let found = lab.queue(PATH).await;
    let states: Vec<_> = rows.iter().map(|row| [row[0].as_str(), &row[1], &row[2]]).collect();
    let expected = [
        ["1", "holder", "shared"],
        ["2", "holder", "shared"],
        ["3", "waiting", "exclusive"],
        ["4", "waiting", "shared"],
    ];
    assert_eq!(states, expected);
    for (row, participant) in rows.iter().zip(&found) {
        assert_eq!(row[3], format!("{:#x}", participant.session));
        assert_eq!(row[4], participant.token.to_string());
        assert_eq!(format!("{PATH}/{}", row[5]), participant.path);
        assert_eq!(row[6].as_bytes(), participant.data);
    }
    end(&lab, running).await;
}

// C28
#[cfg(target_os = "linux")]
#[tokio::test(flavor = "multi_thread")]
async fn a_full_disk_behind_the_list_is_an_error() {
    let lab = Lab::new().await;
    for args in
        [&["--list", PATH][..], &["--list", PATH, "--json"], &["--help"], &["--man"], &["--completions", "bash"]]
    {
        let full = fs::File::options().write(true).open("/dev/full").unwrap();
        let mut command = Command::new(PROGRAM);
        let output = command.args(args).env("ZOOKEEPER_CONNECT", &lab.connect_string).stdout(full).output().unwrap();
        let stderr = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(71), "{args:?}: {stderr}");
        assert!(stderr.starts_with("zk-lock: cannot write the "), "{args:?}: {stderr}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_queue_as_json_says_the_same() {
    let lab = Lab::new().await;
    let running = queue(&lab, &["mutex", "mutex"]).await;
    let finished = lab.start(["--list", PATH, "--json"]).finish().await;
    finished.assert_status(0);
    let json: serde_json::Value = serde_json::from_str(&finished.stdout).unwrap();
    let rows = rows(&lab).await;
    assert_eq!(json.as_array().unwrap().len(), 2);
    for (object, row) in json.as_array().unwrap().iter().zip(rows) {
        let names = ["position", "state", "kind", "session", "token", "node", "data"];
        for (name, column) in names.iter().zip(row) {
            assert_eq!(object[name].as_str().map_or_else(|| object[name].to_string(), str::to_owned), column, "{name}");
        }
    }
    end(&lab, running).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_list_of_a_semaphore_has_leases_and_then_waiters() {
    let lab = Lab::new().await;
    let running = queue(&lab, &["semaphore=2"; 4]).await;
    let rows = rows(&lab).await;
    let states: Vec<_> = rows.iter().map(|row| [row[0].as_str(), &row[1], &row[2]]).collect();
    let expected = [["1", "holder"], ["2", "holder"], ["3", "waiting"], ["4", "waiting"]].map(|[n, s]| [n, s, "lease"]);
    assert_eq!(states, expected);
    let mut sessions: Vec<_> = rows.iter().map(|row| row[3].clone()).collect();
    sessions.dedup();
    assert_eq!(sessions.len(), 4, "each is there once: {rows:#?}");
    end(&lab, running).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_list_of_a_naive_lock_has_its_holder() {
    let lab = Lab::new().await;
    let running = queue(&lab, &["naive"]).await;
    let rows = rows(&lab).await;
    let states: Vec<_> = rows.iter().map(|row| [row[0].as_str(), &row[1], &row[2], &row[5]]).collect();
    assert_eq!(states, [["1", "holder", "exclusive", "a"]]);
    end(&lab, running).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_nodes_of_a_semaphore_mutex_tell_who_made_them() {
    let lab = Lab::new().await;
    let running = lab.start_script(&["--recipe", "semaphore-mutex"], &format!("echo $PPID > parent; {UNTIL_GO}"));
    let parent = lab.pid_in("parent").await;
    assert_eq!(lab.holder_pid().await, parent);
    end(&lab, vec![running]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_empty_queue_says_so() {
    let lab = Lab::new().await;
    let finished = lab.start(["--list", PATH]).finish().await;
    finished.assert_status(0);
    assert_eq!(finished.stdout, "nobody holds /locks/a or waits for it\n");
    let finished = lab.start(["--list", PATH, "--json"]).finish().await;
    finished.assert_status(0);
    assert_eq!(finished.stdout, "[]\n");
}

// Z16
#[cfg(target_os = "linux")]
#[tokio::test(flavor = "multi_thread")]
async fn a_list_that_cannot_be_written_is_an_error() {
    let lab = Lab::new().await;
    let list = ["--list", PATH].map(str::to_owned).to_vec();
    let finished = lab.start_by_exec("exec >/dev/full;", list).finish().await;
    finished.assert_status(71);
    assert!(finished.stderr.starts_with("zk-lock: cannot write the list: "), "{}", finished.stderr);
}
