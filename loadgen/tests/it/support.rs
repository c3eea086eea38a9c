//! Helpers that run `loadgen`, and check that it leaves nothing behind.

use std::collections::BTreeMap;
use std::env;
use std::ffi::OsStr;
use std::fs::{self, Permissions};
use std::io::{BufRead, BufReader, Read};
use std::net::TcpListener;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::OnceLock;
use std::sync::mpsc::{Receiver, channel};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant, SystemTime};

use nix::errno::Errno;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::Value;
use tempfile::TempDir;

/// Far longer than any step takes on a busy machine, so only a defect reaches it.
pub(crate) const PATIENCE: Duration = Duration::from_secs(180);
const POLL: Duration = Duration::from_millis(20);

/// A folder for everything that one run of `loadgen` and its children write.
pub(crate) struct TestFolder {
    folder: TempDir,
}

impl TestFolder {
    pub(crate) fn new() -> TestFolder {
        let folder = tempfile::tempdir().unwrap();
        // Writable for all, like /tmp: servers under accounts of their own make and remove folders in it.
        fs::set_permissions(folder.path(), Permissions::from_mode(0o1777)).unwrap();
        fs::create_dir(folder.path().join("tmp")).unwrap();
        fs::set_permissions(folder.path().join("tmp"), Permissions::from_mode(0o1777)).unwrap();
        TestFolder { folder }
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// Returns `loadgen` with its temporary folders in this one.
    pub(crate) fn loadgen<S: AsRef<OsStr>>(&self, args: impl IntoIterator<Item = S>) -> Command {
        self.program(Path::new(env!("CARGO_BIN_EXE_loadgen")), args)
    }

    /// Returns a program with its temporary folders in this one.
    pub(crate) fn program<S: AsRef<OsStr>>(&self, program: &Path, args: impl IntoIterator<Item = S>) -> Command {
        let mut command = testbed::with_default_signals(program);
        command
            .args(args)
            .env("LC_ALL", "C.UTF-8")
            .env("TMPDIR", self.path("tmp"))
            .current_dir(self.folder.path())
            .stdin(Stdio::null());
        command
    }

    /// Returns `loadgen` with throwaway servers, without the servers that the environment names.
    pub(crate) fn loadgen_throwaway<S: AsRef<OsStr>>(&self, args: impl IntoIterator<Item = S>) -> Command {
        let mut command = self.loadgen(args);
        command.env_remove("DATABASE_URL").env_remove("ZOOKEEPER_CONNECT");
        command
    }

    /// Returns `loadgen` with the service that these tests start.
    pub(crate) fn lab<S: AsRef<OsStr>>(&self, args: impl IntoIterator<Item = S>) -> Command {
        let mut command = self.loadgen(args);
        command.arg("--demo-service").arg(demo_service());
        command
    }

    /// Returns `loadgen` with this service and with throwaway servers, without the servers that the environment names.
    pub(crate) fn throwaway_lab<S: AsRef<OsStr>>(&self, args: impl IntoIterator<Item = S>) -> Command {
        let mut command = self.loadgen_throwaway(args);
        command.arg("--demo-service").arg(demo_service());
        command
    }

    pub(crate) fn report(&self) -> Value {
        serde_json::from_str(&fs::read_to_string(self.path("report/report.json")).unwrap()).unwrap()
    }

    /// Writes a program that notes its process id and becomes the service. A call that only lists the strategies is not noted.
    pub(crate) fn noting_service(&self) -> PathBuf {
        let program = self.path("service");
        let pids = self.path("pids");
        let real = demo_service();
        let note = format!("[ \"$1\" = --list-strategies ] || echo $$ >>'{}'", pids.display());
        write_program(&program, &format!("{note}; exec '{}' \"$@\"", real.display()));
        program
    }

    /// Returns the first instance that was started by [`TestFolder::noting_service`].
    pub(crate) fn first_instance(&self) -> Pid {
        let pids = fs::read_to_string(self.path("pids")).unwrap();
        Pid::from_raw(pids.lines().next().unwrap().parse().unwrap())
    }

    /// Returns the processes that guards have started for this folder, and not yet seen end.
    pub(crate) fn processes(&self) -> Vec<Pid> {
        let folders = fs::read_dir(self.path("tmp")).unwrap().flatten();
        let pids = folders.filter_map(|folder| fs::read_to_string(folder.path().join("pid")).ok());
        pids.filter_map(|pid| pid.trim().parse().ok()).map(Pid::from_raw).collect()
    }

    /// Tells whether no temporary folder is left.
    pub(crate) fn is_clean(&self) -> bool {
        fs::read_dir(self.path("tmp")).unwrap().next().is_none()
    }
}

/// Writes a program of the shell.
pub(crate) fn write_program(path: &Path, script: &str) {
    fs::write(path, format!("#!/bin/sh\n{script}\n")).unwrap();
    fs::set_permissions(path, Permissions::from_mode(0o755)).unwrap();
}

/// Returns the command with `SIGHUP` ignored from its start.
pub(crate) fn under_nohup(command: &Command) -> Command {
    under(&["nohup"], command)
}

/// Returns the command with a limit of open files.
pub(crate) fn with_open_files(limit: u32, command: &Command) -> Command {
    under(&["sh", "-c", &format!("ulimit -n {limit}; exec \"$@\""), "sh"], command)
}

/// Wraps the command into another one.
fn under(other: &[&str], command: &Command) -> Command {
    let mut whole = Command::new(other[0]);
    let restores_signals = |argument: &&OsStr| argument.as_encoded_bytes().starts_with(b"--default-signal");
    let args = command.get_args().filter(|argument| !restores_signals(argument));
    whole.args(&other[1..]).arg(command.get_program()).args(args).stdin(Stdio::null());
    for (name, value) in command.get_envs() {
        match value {
            Some(value) => whole.env(name, value),
            None => whole.env_remove(name),
        };
    }
    whole.current_dir(command.get_current_dir().unwrap());
    whole
}

/// Tells whether a process exists, even as a zombie.
pub(crate) fn is_alive(pid: Pid) -> bool {
    kill(pid, None) != Err(Errno::ESRCH)
}

/// Returns when the condition holds.
pub(crate) fn eventually(what: &str, within: Duration, mut condition: impl FnMut() -> bool) {
    let deadline = Instant::now() + within;
    while !condition() {
        assert!(Instant::now() < deadline, "not within {within:?}: {what}");
        thread::sleep(POLL);
    }
}

/// The output of a finished `loadgen`.
pub(crate) struct Finished {
    pub(crate) code: Option<i32>,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

impl Finished {
    /// Expects this exit status, and this text on standard error.
    pub(crate) fn assert_error(&self, code: i32, expected: &str) {
        assert_eq!(self.code, Some(code), "{}{}", self.stdout, self.stderr);
        assert!(self.stderr.contains(expected), "{}", self.stderr);
    }

    /// Expects that every promise was kept. The generator may be the bottleneck on a busy machine, which spoils only times.
    pub(crate) fn assert_kept(&self) {
        assert!([Some(0), Some(4)].contains(&self.code), "{}{}", self.stdout, self.stderr);
    }
}

pub(crate) fn finish(command: &mut Command) -> Finished {
    let output = command.output().unwrap();
    Finished {
        code: output.status.code(),
        stdout: String::from_utf8(output.stdout).unwrap(),
        stderr: String::from_utf8(output.stderr).unwrap(),
    }
}

/// A `loadgen` that runs; killed when the test gives up on it.
pub(crate) struct Running {
    child: Child,
    stdout: Receiver<String>,
    stderr: Receiver<String>,
    readers: Vec<JoinHandle<()>>,
}

impl Running {
    pub(crate) fn start(command: &mut Command) -> Running {
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let (out, stdout) = lines(child.stdout.take().unwrap());
        let (err, stderr) = lines(child.stderr.take().unwrap());
        Running { child, stdout, stderr, readers: vec![out, err] }
    }

    /// Waits for a line on standard error that begins like this.
    pub(crate) fn until_stderr(&self, beginning: &str) {
        until(&self.stderr, beginning);
    }

    /// Returns the lines on standard output up to the one that begins like this.
    pub(crate) fn until_stdout(&self, beginning: &str) -> Vec<String> {
        until(&self.stdout, beginning)
    }

    pub(crate) fn pid(&self) -> Pid {
        Pid::from_raw(self.child.id().cast_signed())
    }

    pub(crate) fn signal(&self, signal: Signal) {
        kill(self.pid(), signal).unwrap();
    }

    pub(crate) fn has_ended(&mut self) -> bool {
        self.child.try_wait().unwrap().is_some()
    }

    /// Waits for its end. Returns how it ended, and the rest of its standard output.
    pub(crate) fn wait(mut self) -> (ExitStatus, String) {
        let deadline = Instant::now() + PATIENCE;
        let status = loop {
            match self.child.try_wait().unwrap() {
                Some(status) => break status,
                None => assert!(Instant::now() < deadline, "loadgen does not end"),
            }
            thread::sleep(POLL);
        };
        for reader in self.readers.drain(..) {
            reader.join().unwrap();
        }
        (status, self.stdout.try_iter().map(|line| line + "\n").collect())
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // Already gone, unless the test has failed.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

pub(crate) fn lines(stream: impl Read + Send + 'static) -> (JoinHandle<()>, Receiver<String>) {
    let (sender, receiver) = channel();
    let reader = thread::spawn(move || {
        for line in BufReader::new(stream).lines().map_while(Result::ok) {
            let _ = sender.send(line);
        }
    });
    (reader, receiver)
}

fn until(stream: &Receiver<String>, beginning: &str) -> Vec<String> {
    let mut seen = Vec::new();
    loop {
        let Ok(line) = stream.recv_timeout(PATIENCE) else {
            panic!("no line begins with {beginning:?}, only {seen:#?}");
        };
        let found = line.starts_with(beginning);
        seen.push(line);
        if found {
            return seen;
        }
    }
}

/// Returns the variables that `up` tells a shell to export.
pub(crate) fn exports(lines: &[String]) -> BTreeMap<String, String> {
    let assignments = lines.iter().filter_map(|line| line.strip_prefix("export ")?.split_once('='));
    assignments.map(|(name, value)| (name.to_owned(), value.trim_matches('\'').to_owned())).collect()
}

/// Returns a port that was free a moment ago.
pub(crate) fn free_port() -> u16 {
    TcpListener::bind(("127.0.0.1", 0)).unwrap().local_addr().unwrap().port()
}

pub(crate) fn demo_service() -> &'static Path {
    static PROGRAM: OnceLock<PathBuf> = OnceLock::new();
    let sources = ["demo-service", "locks/recipes/src", "migrations"];
    PROGRAM.get_or_init(|| built("demo-service", &["--package", "demo-service"], &sources))
}

pub(crate) fn zk_lock() -> &'static Path {
    static PROGRAM: OnceLock<PathBuf> = OnceLock::new();
    PROGRAM.get_or_init(|| built("zk-lock", &["--package", "zk-lock"], &["locks/zk-lock", "locks/recipes/src"]))
}

/// Returns the example whose goose scenario buys at the shop in the style of a course.
pub(crate) fn goose_scenario() -> &'static Path {
    static PROGRAM: OnceLock<PathBuf> = OnceLock::new();
    let what = ["--package", "loadgen", "--example", "goose_scenario"];
    let sources = ["loadgen/examples", "loadgen/src", "loadgen/buyers/src"];
    PROGRAM.get_or_init(|| built("examples/goose_scenario", &what, &sources))
}

/// Returns a program that cargo has built for other tests, such as those of its own crate. Other runs of these tests build it
/// here, unless it is there and no older than `sources`.
fn built(program: &str, what: &[&str], sources: &[&str]) -> PathBuf {
    let loadgen = Path::new(env!("CARGO_BIN_EXE_loadgen"));
    let program = loadgen.with_file_name(program);
    if is_stale(&program, &[&["Cargo.lock"], sources].concat()) {
        let folder = loadgen.parent().unwrap();
        let target = loadgen.ancestors().nth(2).unwrap();
        let profile = match folder.file_name().and_then(OsStr::to_str).unwrap() {
            "debug" => "dev",
            profile => profile,
        };
        let status = Command::new(env::var_os("CARGO").unwrap_or_else(|| "cargo".into()))
            .args(["build", "--quiet", "--profile", profile, "--target-dir"])
            .arg(target)
            .args(what)
            .status()
            .unwrap();
        assert!(status.success(), "{} does not build", program.display());
    }
    program
}

/// Tells whether the program has to be built: it is missing, or a test that cargo runs finds a newer source of it.
fn is_stale(program: &Path, sources: &[&str]) -> bool {
    let Ok(built) = program.metadata().and_then(|metadata| metadata.modified()) else { return true };
    let workspace = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
    env::var_os("CARGO").is_some() && sources.iter().any(|source| changed(&workspace.join(source)) > built)
}

/// Returns when a file, or anything in a folder, was changed last.
fn changed(path: &Path) -> SystemTime {
    let own = path.metadata().unwrap().modified().unwrap();
    if !path.is_dir() {
        return own;
    }
    let inside = fs::read_dir(path).unwrap().map(|entry| changed(&entry.unwrap().path()));
    inside.max().map_or(own, |inside| own.max(inside))
}
