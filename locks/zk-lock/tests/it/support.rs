//! What the tests share: a ZooKeeper to lock at, `zk-lock` as a process, waiting for conditions.

use std::fs;
use std::path::PathBuf;
use std::process::ExitStatus;
use std::time::Duration;

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use tempfile::TempDir;
use testbed::{Process, ProcessConfig, Proxy, Stdout, TestChroot, ZooKeeper, ZooKeeperConfig};
use zk_recipes::{Participant, Session, SessionConfig, participants};

pub(crate) const PROGRAM: &str = env!("CARGO_BIN_EXE_zk-lock");

/// Time limit for anything that must happen on a busy machine. Only a failing test waits for so long.
pub(crate) const SOON: Duration = Duration::from_secs(60);

/// The lock of most tests; each has a chroot or a server of its own.
pub(crate) const PATH: &str = "/locks/a";

/// A folder of the test's own, and a session that looks at its ZooKeeper.
pub(crate) struct Lab {
    pub(crate) connect_string: String,
    session: Session,
    folder: TempDir,
    _chroot: Option<TestChroot>,
}

impl Lab {
    pub(crate) async fn new() -> Self {
        let chroot = TestChroot::create().await.unwrap();
        let connect_string = chroot.connect_string().to_owned();
        Self::at(connect_string, Some(chroot)).await
    }

    pub(crate) async fn at(connect_string: String, chroot: Option<TestChroot>) -> Self {
        let session = Session::connect(&connect_string, SessionConfig::default()).await.unwrap();
        Self { connect_string, session, folder: tempfile::tempdir().unwrap(), _chroot: chroot }
    }

    /// Returns the settings of a `zk-lock` with these arguments, whose output is read by lines.
    pub(crate) fn config<'a>(&self, args: impl IntoIterator<Item = &'a str>) -> ProcessConfig {
        let config = ProcessConfig::new(PROGRAM).args(args.into_iter().map(str::to_owned));
        ProcessConfig { stdout: Stdout::Lines, ..config.env("ZOOKEEPER_CONNECT", &self.connect_string) }
    }

    pub(crate) fn start<'a>(&self, args: impl IntoIterator<Item = &'a str>) -> Running {
        Running::start(self.config(args))
    }

    /// Starts a `zk-lock` that runs a shell script under [`PATH`], in the folder of the test.
    pub(crate) fn start_script(&self, options: &[&str], script: &str) -> Running {
        self.start(self.script(options, script).iter().map(String::as_str))
    }

    /// Starts a shell that runs `before` and becomes `zk-lock` by `exec`.
    pub(crate) fn start_by_exec(&self, before: &str, args: Vec<String>) -> Running {
        let shell = ["-c".to_owned(), format!("{before} exec \"$0\" \"$@\""), PROGRAM.to_owned()];
        let args = shell.into_iter().chain(args).map(Into::into).collect();
        Running::start(ProcessConfig { program: "sh".into(), args, ..self.config([]) })
    }

    /// Returns the arguments for a shell script under [`PATH`], in the folder of the test.
    pub(crate) fn script(&self, options: &[&str], script: &str) -> Vec<String> {
        let folder = self.folder.path().display();
        let command = ["--", "sh", "-c", &format!("cd '{folder}' || exit 99; {script}")].map(str::to_owned);
        ["--path", PATH].iter().chain(options).map(|&word| word.to_owned()).chain(command).collect()
    }

    pub(crate) fn file(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// Returns the text of a file in the folder. A missing file is empty.
    pub(crate) fn read(&self, name: &str) -> String {
        fs::read_to_string(self.file(name)).unwrap_or_default().trim().to_owned()
    }

    /// Waits for the process id that a script writes into a file.
    pub(crate) async fn pid_in(&self, name: &str) -> Pid {
        until(&format!("a process id is in {name}"), async || self.read(name).parse::<i32>().is_ok()).await;
        Pid::from_raw(self.read(name).parse().unwrap())
    }

    pub(crate) async fn queue(&self, path: &str) -> Vec<Participant> {
        participants(&self.session, path).await.unwrap()
    }

    pub(crate) async fn until_queued(&self, count: usize) {
        until(&format!("{count} are in the queue"), async || self.queue(PATH).await.len() == count).await;
    }

    /// Waits until `--list` prints `count` participants of the queue at [`PATH`].
    pub(crate) async fn until_listed(&self, count: usize) {
        let listed = async || self.start(["--list", PATH, "--json"]).finish().await.stdout.matches("position").count();
        until(&format!("{count} are listed"), async || listed().await == count).await;
    }

    /// Returns the process id of the `zk-lock` that holds [`PATH`], from the data of its node.
    pub(crate) async fn holder_pid(&self) -> Pid {
        let data = String::from_utf8(self.queue(PATH).await.remove(0).data).unwrap();
        let (pid, _) = data.rsplit_once(" permits=").unwrap_or((data.as_str(), ""));
        Pid::from_raw(pid.rsplit(':').next().unwrap().parse().unwrap())
    }
}

/// A lab with a server of its own, and a network that can fail between the server and some of its clients.
pub(crate) struct FaultyLab {
    pub(crate) lab: Lab,
    pub(crate) proxy: Proxy,
    _server: ZooKeeper,
}

impl FaultyLab {
    pub(crate) async fn new() -> Self {
        let tick_time = Duration::from_secs(1);
        let server = ZooKeeper::start(ZooKeeperConfig { tick_time, ..ZooKeeperConfig::default() }).await.unwrap();
        let proxy = Proxy::start(&server.connect_string()).await.unwrap();
        let lab = Lab::at(server.connect_string(), None).await;
        Self { lab, proxy, _server: server }
    }

    /// Starts a `zk-lock` behind the network that can fail.
    pub(crate) fn start_script(&self, options: &[&str], script: &str) -> Running {
        let address = self.proxy.connect_string();
        self.lab.start_script(&[&["--zookeeper", &address][..], options].concat(), script)
    }
}

/// A `zk-lock` that runs; stopped, and killed if need be, when the test is over.
pub(crate) struct Running {
    process: Process,
}

/// What a `zk-lock` that has ended said.
pub(crate) struct Finished {
    status: ExitStatus,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

impl Running {
    pub(crate) fn start(config: ProcessConfig) -> Self {
        Self { process: Process::spawn(config).unwrap() }
    }

    pub(crate) fn signal(&self, signal: Signal) {
        kill(Pid::from_raw(self.process.pid()), signal).unwrap();
    }

    /// Waits for the next line of its output, or COMMAND's.
    pub(crate) async fn line(&mut self) -> String {
        self.process.line(SOON).await.unwrap().expect("the output has not ended")
    }

    pub(crate) async fn until_says(&self, text: &str) {
        until(&format!("standard error says {text:?}"), async || self.process.log_tail().contains(text)).await;
    }

    pub(crate) async fn finish(mut self) -> Finished {
        let status = tokio::time::timeout(SOON, self.process.wait()).await.expect("zk-lock ends").unwrap();
        let mut stdout = String::new();
        while let Some(line) = self.process.line(SOON).await.unwrap() {
            stdout += &(line + "\n");
        }
        Finished { status, stdout, stderr: self.process.log_tail() }
    }
}

impl Finished {
    /// Asserts the status as a shell shows it: 128 and the number of the signal that ended a program.
    #[track_caller]
    pub(crate) fn assert_status(&self, expected: i32) {
        use std::os::unix::process::ExitStatusExt as _;
        let shown = self.status.code().or(self.status.signal().map(|signal| 128 + signal));
        assert_eq!(shown, Some(expected), "{}", self.stderr);
    }
}

/// Waits for a condition by asking again and again.
pub(crate) async fn until(what: &str, mut condition: impl AsyncFnMut() -> bool) {
    let deadline = tokio::time::Instant::now() + SOON;
    while !condition().await {
        assert!(tokio::time::Instant::now() < deadline, "waited {SOON:?} in vain until {what}");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

pub(crate) fn is_gone(pid: Pid) -> bool {
    kill(pid, None).is_err()
}

/// Returns whether a process is in a state, by the letter that `ps` shows.
pub(crate) fn is_in_state(pid: Pid, state: char) -> bool {
    let output = std::process::Command::new("ps").args(["-o", "stat=", "-p", &pid.to_string()]).output().unwrap();
    String::from_utf8(output.stdout).unwrap().trim().starts_with(state)
}
