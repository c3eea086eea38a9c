//! Contenders of other languages, in two processes that all tests of this process share.

use std::env;
use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};
use std::time::Duration;

use testbed::{Process, ProcessConfig, Stdout};
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader, Lines};
use tokio::net::TcpStream;
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::sync::OnceCell;

use crate::support::{Lab, SOON};

/// How long a rival waits for a lock that it shall not get.
pub(crate) const TRY: Duration = Duration::from_millis(100);

const REMEDY: &str = "`make deps-test` installs what it needs";
const DEBIAN_JARS: &str = "/usr/share/java";
/// Curator's are what is tested; their manifests name the rest, but no backend for the logging facade.
const JARS: [&str; 5] =
    ["curator-recipes.jar", "curator-framework.jar", "curator-client.jar", "zookeeper.jar", "slf4j-simple.jar"];

/// Statics are never dropped: the guards of the processes see the end of this one.
static CURATOR: OnceCell<Program> = OnceCell::const_new();
static KAZOO: OnceCell<Program> = OnceCell::const_new();

/// A rival program, which serves one connection a contender.
struct Program {
    name: String,
    port: u16,
    process: Process,
}

/// One contender: a session of Curator or of kazoo, and the thread that its locks belong to.
pub(crate) struct Rival {
    program: &'static Program,
    answers: Lines<BufReader<OwnedReadHalf>>,
    requests: OwnedWriteHalf,
}

impl Rival {
    pub(crate) async fn curator(lab: &Lab) -> Self {
        let program = CURATOR.get_or_init(|| Program::start(curator())).await;
        Self::connect(program, lab).await
    }

    pub(crate) async fn kazoo(lab: &Lab) -> Self {
        let program = KAZOO.get_or_init(|| Program::start(kazoo())).await;
        Self::connect(program, lab).await
    }

    async fn connect(program: &'static Program, lab: &Lab) -> Self {
        let stream = TcpStream::connect(("127.0.0.1", program.port)).await.unwrap();
        stream.set_nodelay(true).unwrap();
        let (read, requests) = stream.into_split();
        let mut rival = Self { program, answers: BufReader::new(read).lines(), requests };
        rival.request(&format!("connect {}", lab.connect_string()), "connected").await;
        rival
    }

    /// Sends a request without waiting for its answer.
    pub(crate) async fn send(&mut self, request: &str) {
        self.requests.write_all(format!("{request}\n").as_bytes()).await.unwrap();
    }

    /// Returns the next line that the rival says.
    pub(crate) async fn answer(&mut self) -> String {
        let line = tokio::time::timeout(SOON, self.answers.next_line()).await;
        let line = line.unwrap_or_else(|_| panic!("{} said nothing within {SOON:?}", self.program.name)).unwrap();
        line.unwrap_or_else(|| panic!("{} has gone: {}", self.program.name, self.program.process.log_tail()))
    }

    /// Waits for a line that must be this one.
    pub(crate) async fn says(&mut self, expected: &str) {
        assert_eq!(self.answer().await, expected, "from {}", self.program.name);
    }

    /// Sends a request whose answer must be this one.
    pub(crate) async fn request(&mut self, request: &str, expected: &str) {
        self.send(request).await;
        self.says(expected).await;
    }

    /// Sends a request and returns what follows the first word of its answer, which must be `word`.
    pub(crate) async fn ask(&mut self, request: &str, word: &str) -> String {
        self.send(request).await;
        let answer = self.answer().await;
        let rest = answer.strip_prefix(word).unwrap_or_else(|| panic!("{} said: {answer}", self.program.name));
        rest.trim_start().to_owned()
    }

    /// Panics when the rival has answered what it should still wait for.
    pub(crate) async fn assert_silent(&mut self) {
        if let Ok(line) = tokio::time::timeout(Duration::ZERO, self.answers.next_line()).await {
            panic!("{} should still wait, but said {line:?}", self.program.name);
        }
    }

    pub(crate) async fn acquire(&mut self, recipe: &str, path: &str) {
        self.request(&format!("acquire {recipe} {path}"), "acquired").await;
    }

    /// Asks for the lock without waiting for the grant.
    pub(crate) async fn queue(&mut self, recipe: &str, path: &str) {
        self.send(&format!("acquire {recipe} {path}")).await;
    }

    /// Returns whether the rival got the lock, for which it waited a moment.
    pub(crate) async fn try_acquire(&mut self, recipe: &str, path: &str) -> bool {
        self.send(&format!("try {recipe} {path} {}", TRY.as_millis())).await;
        match self.answer().await.as_str() {
            "acquired" => true,
            "timeout" => false,
            answer => panic!("{} said: {answer}", self.program.name),
        }
    }

    pub(crate) async fn release(&mut self, recipe: &str, path: &str) {
        self.request(&format!("release {recipe} {path}"), "released").await;
    }
}

impl Program {
    async fn start(config: ProcessConfig) -> Self {
        let name = config.args.last().map(PathBuf::from).unwrap_or_default();
        let name = name.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let mut process = Process::spawn(ProcessConfig { stdout: Stdout::Lines, ..config })
            .unwrap_or_else(|error| panic!("{name} could not be started; {REMEDY}: {error}"));
        let line = process.line(SOON).await.unwrap();
        let line = line.unwrap_or_else(|| panic!("{name} has ended; {REMEDY}: {}", process.log_tail()));
        let port = line.strip_prefix("listening ").and_then(|port| port.parse().ok());
        let port = port.unwrap_or_else(|| panic!("{name} said: {line}"));
        Self { name, port, process }
    }
}

/// Java compiles and runs a source file by itself.
fn curator() -> ProcessConfig {
    let java = testbed::java().unwrap_or_else(|error| panic!("Curator needs Java; {REMEDY}: {error}"));
    ProcessConfig::new(java)
        // The start of the program counts, not its speed in the long run.
        .args(["-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-Xmx256m"])
        .args(["-Dorg.slf4j.simpleLogger.defaultLogLevel=error", "-cp"])
        .args([class_path()])
        .args([programs().join("CuratorRival.java")])
}

fn class_path() -> OsString {
    if let Some(given) = env::var_os("CURATOR_CLASSPATH").filter(|given| !given.is_empty()) {
        return given;
    }
    let jars = JARS.map(|name| Path::new(DEBIAN_JARS).join(name));
    for jar in &jars {
        assert!(jar.is_file(), "{} not found; {REMEDY}, and CURATOR_CLASSPATH may name other jars", jar.display());
    }
    jars.map(PathBuf::into_os_string).join(OsStr::new(":"))
}

fn kazoo() -> ProcessConfig {
    let python = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target/interop-python/bin/python");
    ProcessConfig::new(python).args([programs().join("kazoo_rival.py")])
}

fn programs() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/interop")
}
