//! The examples do what they say.

use std::process::Stdio;

use testbed::{Proxy, TestChroot, ZooKeeper, ZooKeeperConfig};
use tokio::io::{AsyncBufReadExt, BufReader, Lines};
use tokio::process::{Child, ChildStdout, Command};

use crate::support::soon;

/// Cargo, as an example says to run it. It was not built with the tests, but all that it depends on was.
fn cargo(verb: &str, example: &str, servers: &str) -> Command {
    let mut command = Command::new(env!("CARGO"));
    command.args([verb, "--quiet", "--locked", "--offline", "--package", "zk-recipes", "--example", example]);
    command.current_dir(env!("CARGO_MANIFEST_DIR")).env("ZOOKEEPER_CONNECT", servers);
    command
}

// L15
#[tokio::test]
async fn a_paused_holder_is_fenced_off() {
    let chroot = TestChroot::create().await.unwrap();
    let output = cargo("run", "fenced_off", chroot.connect_string()).output().await.unwrap();
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{said}{}", String::from_utf8_lossy(&output.stderr));
    assert!(
        said.contains("refused") && said.ends_with("stock: 10 before, 9 now; sold by B: true, by A: false\n"),
        "{said}"
    );
}

/// An instance of the example `leader`.
struct Instance {
    process: Child,
    lines: Lines<BufReader<ChildStdout>>,
    said: Vec<String>,
}

impl Instance {
    fn start(servers: &str) -> Self {
        let mut command = cargo("run", "leader", servers);
        let mut process = command.stdin(Stdio::piped()).stdout(Stdio::piped()).kill_on_drop(true).spawn().unwrap();
        let lines = BufReader::new(process.stdout.take().unwrap()).lines();
        Self { process, lines, said: Vec::new() }
    }

    /// Waits for the next line that begins so. Returns the rest of it.
    async fn says(&mut self, words: &str) -> String {
        loop {
            let line = soon(words, self.lines.next_line()).await.unwrap();
            let line = line.unwrap_or_else(|| panic!("it has ended without {words:?}: {:?}", self.said));
            self.said.push(line);
            if let Some(rest) = self.said[self.said.len() - 1].strip_prefix(words) {
                return rest.to_owned();
            }
        }
    }

    async fn leads(&mut self) -> i64 {
        self.says("leads with token ").await.parse().unwrap()
    }

    /// Ends its standard input, and waits for its end.
    async fn stop(mut self) {
        drop(self.process.stdin.take());
        self.says("gave the office back").await;
        assert!(soon("the end", self.process.wait()).await.unwrap().success());
    }
}

// L86
#[tokio::test(flavor = "multi_thread")]
async fn a_leader_stands_again_on_another_session() {
    let server = ZooKeeper::start(ZooKeeperConfig::default()).await.unwrap();
    assert!(cargo("build", "leader", &server.connect_string()).status().await.unwrap().success());
    let proxy = Proxy::start(&server.connect_string()).await.unwrap();
    let mut first = Instance::start(&proxy.connect_string());
    let session = first.says("session ").await;
    let first_token = first.leads().await;
    let mut second = Instance::start(&server.connect_string());
    second.says("session ").await;

    proxy.refuse();
    proxy.cut();
    first.says("the hold of /leaders/example was lost: ").await;
    let second_token = second.leads().await;
    proxy.accept();
    let id = session.strip_suffix(" is open").unwrap();
    assert_eq!(first.says(&format!("session {id} ")).await, "has ended: the session expired");
    assert_ne!(first.says("session ").await, session);
    second.stop().await;

    let third_token = first.leads().await;
    assert!(first_token < second_token && second_token < third_token);
    assert!(first.said.iter().any(|line| line == "the task of the term has ended"), "{:?}", first.said);
    first.stop().await;
}
