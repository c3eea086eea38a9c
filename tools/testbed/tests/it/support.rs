//! What the tests share: waiting for conditions, and looking at processes from outside.

use std::fs::{self, Permissions};
use std::future::Future;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, kill, killpg};
use nix::unistd::{Pid, getpgid};
use tempfile::TempDir;
use testbed::Ensemble;
use zookeeper_client::{Acls, Client, CreateMode, CreateOptions, SessionState};

pub(crate) const PERSISTENT: CreateOptions<'static> = CreateMode::Persistent.with_acls(Acls::anyone_all());

/// Far above the time that anything here takes on an idle machine.
pub(crate) const DEADLINE: Duration = Duration::from_secs(60);

/// Waits until the condition holds.
#[track_caller]
pub(crate) fn eventually(what: &str, mut holds: impl FnMut() -> bool) {
    let deadline = Instant::now() + DEADLINE;
    while !holds() {
        assert!(Instant::now() < deadline, "not within {DEADLINE:?}: {what}");
        thread::sleep(Duration::from_millis(10));
    }
}

/// Waits for something that takes a moment.
pub(crate) async fn soon<T>(what: &str, future: impl Future<Output = T>) -> T {
    tokio::time::timeout(DEADLINE, future).await.unwrap_or_else(|_| panic!("not within {DEADLINE:?}: {what}"))
}

/// Waits until a session is in this state.
pub(crate) async fn until_state(client: &Client, state: SessionState) {
    let mut states = client.state_watcher();
    let seen = async { while states.state() != state && states.changed().await != state {} };
    soon(&format!("the session is {state}"), seen).await;
}

/// Opens a client with a session of 20 s.
pub(crate) async fn client_of(connect_string: &str) -> Client {
    let connector = Client::connector().with_session_timeout(Duration::from_secs(20));
    soon("a session", connector.connect(connect_string)).await.unwrap()
}

/// Creates a node. The client may be between two servers, and then a request fails and is sent again.
pub(crate) async fn write(client: &Client, path: &str) {
    let written = async {
        while client.create(path, &[], &PERSISTENT).await.is_err() {
            until_state(client, SessionState::SyncConnected).await;
        }
    };
    soon("a write", written).await;
}

/// Waits for a leader other than this server.
pub(crate) async fn leader_other_than(ensemble: &Ensemble, server: Option<usize>) -> usize {
    let elected = async {
        loop {
            match ensemble.leader().await {
                Some(leader) if Some(leader) != server => return leader,
                _ => tokio::time::sleep(Duration::from_millis(10)).await,
            }
        }
    };
    soon("a leader", elected).await
}

/// Waits until `followers` servers follow the leader.
pub(crate) async fn until_followed(ensemble: &Ensemble, leader: usize, followers: u64) {
    let followed = async {
        while ensemble.metric(leader, "zk_synced_followers").await.unwrap() != followers {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    soon(&format!("{followers} servers follow server {leader}"), followed).await;
}

/// Returns the answer of a ZooKeeper server to a four-letter word.
pub(crate) fn four_letter_word(address: &str, word: &str) -> String {
    let mut stream = TcpStream::connect(address).unwrap();
    stream.write_all(word.as_bytes()).unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    answer
}

/// Returns the process group of a guarded program. Its guard leads it.
pub(crate) fn group_of(pid: i32) -> Pid {
    getpgid(Some(Pid::from_raw(pid))).unwrap()
}

pub(crate) fn is_group_gone(group: Pid) -> bool {
    killpg(group, None).is_err()
}

pub(crate) fn is_gone(pid: i32) -> bool {
    kill(Pid::from_raw(pid), None).is_err()
}

pub(crate) fn is_listening(address: &str) -> bool {
    TcpStream::connect(address).is_ok()
}

/// Returns `host:port` of a Postgres URL.
pub(crate) fn address_of(url: &str) -> &str {
    url.split(['@', '/']).nth(3).unwrap()
}

/// A server of another process.
pub(crate) struct OutsideServer {
    pub(crate) pid: i32,
    group: Pid,
}

/// Another process: the testbed binary, or a second run of these tests. It has a folder for its temporary files, and an input
/// that ends with this value.
pub(crate) struct Outside {
    pub(crate) child: Child,
    tmp: TempDir,
}

impl Outside {
    pub(crate) fn testbed(args: &[&str]) -> Self {
        Self::spawn(testbed::with_default_signals(env!("CARGO_BIN_EXE_testbed")).args(args))
    }

    pub(crate) fn spawn(command: &mut Command) -> Self {
        let tmp = tempfile::tempdir().unwrap();
        // The servers' accounts need to get in.
        fs::set_permissions(tmp.path(), Permissions::from_mode(0o1777)).unwrap();
        let child = command
            .env("TMPDIR", tmp.path())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        Self { child, tmp }
    }

    /// Returns the folders of its children.
    pub(crate) fn folders(&self) -> Vec<PathBuf> {
        let folders = fs::read_dir(self.tmp.path()).unwrap();
        folders.map(|entry| entry.unwrap().path()).collect()
    }

    /// Waits until both of its servers, and the processes that keep their data, have process ids. Returns them.
    pub(crate) fn servers(&self) -> Vec<OutsideServer> {
        self.children(4)
    }

    /// Waits until this many of its children have process ids. Returns them.
    pub(crate) fn children(&self, count: usize) -> Vec<OutsideServer> {
        let mut pids = Vec::new();
        eventually(&format!("{count} servers and keepers of data have a process id"), || {
            pids = self.folders().iter().filter_map(|folder| pid_in(folder)).collect();
            pids.len() == count
        });
        pids.into_iter().map(|pid| OutsideServer { pid, group: group_of(pid) }).collect()
    }

    #[track_caller]
    pub(crate) fn assert_nothing_is_left(&self, servers: &[OutsideServer]) {
        eventually("the servers are gone", || servers.iter().all(|server| is_gone(server.pid)));
        eventually("their guards are gone", || servers.iter().all(|server| is_group_gone(server.group)));
        eventually("their folders are gone", || self.folders().is_empty());
    }

    pub(crate) fn signal(&self, signal: Signal) {
        kill(Pid::from_raw(self.child.id().try_into().unwrap()), signal).unwrap();
    }
}

impl Drop for Outside {
    fn drop(&mut self) {
        // The process still runs only after a failed assertion.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn pid_in(folder: &Path) -> Option<i32> {
    fs::read_to_string(folder.join("pid")).ok()?.trim().parse().ok()
}
