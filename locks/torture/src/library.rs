//! The libraries that contend, and how their adapters are started.

use std::env;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::time::Duration;

use testbed::{ProcessConfig, Stdout};

use crate::TortureError;
use crate::lines::LockKind;

/// The folder of the workspace.
pub(crate) const WORKSPACE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../..");
/// The adapters in other languages.
const ADAPTERS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/adapters");
const DEBIAN_JARS: &str = "/usr/share/java";
/// Curator's are what contends; their manifests name the rest, but no backend for the logging facade.
const JARS: [&str; 5] =
    ["curator-recipes.jar", "curator-framework.jar", "curator-client.jar", "zookeeper.jar", "slf4j-simple.jar"];
/// How long an adapter has to end by itself.
const STOP_WITHIN: Duration = Duration::from_secs(5);

/// The server of a library.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum LibraryServer {
    Zookeeper,
    Redis,
}

/// A library and its adapter.
#[derive(Debug, Clone)]
pub(crate) struct Library {
    pub(crate) name: String,
    pub(crate) server: LibraryServer,
    program: PathBuf,
    args: Vec<OsString>,
}

/// The names of the libraries that have an adapter here.
pub(crate) const NAMES: [&str; 5] = ["zk-recipes", "curator", "kazoo", "zookeeper-client", "redis-py"];

impl Library {
    /// Returns the library of a name. The name `NAME=PROGRAM` is an adapter of the user's.
    pub(crate) fn named(text: &str) -> Result<Library, TortureError> {
        let own = || env::current_exe().map_err(TortureError::Program);
        let adapter = |file: &str| Path::new(ADAPTERS).join(file).into_os_string();
        let python = Path::new(WORKSPACE).join("target/interop-python/bin/python");
        let (program, args) = match text {
            "zk-recipes" | "zookeeper-client" => (own()?, vec!["contend".into(), text.into()]),
            "curator" => (testbed::java()?, java_args(adapter("CuratorAdapter.java"))?),
            "kazoo" => (installed(python)?, vec![adapter("kazoo_adapter.py")]),
            "redis-py" => (installed(python)?, vec![adapter("redis_adapter.py")]),
            _ => match text.split_once('=') {
                Some((name, program)) if !name.is_empty() && !program.is_empty() && !NAMES.contains(&name) => {
                    let name = name.to_owned();
                    return Ok(Library {
                        name,
                        server: LibraryServer::Zookeeper,
                        program: program.into(),
                        args: vec![],
                    });
                }
                _ => {
                    let meant = program::did_you_mean(text, NAMES);
                    return Err(TortureError::UnknownLibrary { name: text.to_owned(), meant });
                }
            },
        };
        let server = if text == "redis-py" { LibraryServer::Redis } else { LibraryServer::Zookeeper };
        Ok(Library { name: text.to_owned(), server, program, args })
    }

    /// Returns how its adapter is started.
    pub(crate) fn config(&self, connect_string: &str, session_timeout: Duration) -> ProcessConfig {
        let last: [OsString; 2] = [connect_string.into(), session_timeout.as_millis().to_string().into()];
        ProcessConfig {
            stdout: Stdout::Dialogue,
            stop_within: STOP_WITHIN,
            ..ProcessConfig::new(&self.program).args(self.args.iter().cloned().chain(last))
        }
    }

    /// Tells whether the library promises that holders know when their holds end.
    pub(crate) fn is_ours(&self) -> bool {
        self.name == crate::judge::OURS
    }
}

/// Java compiles and runs a source file by itself.
fn java_args(source: OsString) -> Result<Vec<OsString>, TortureError> {
    let classes = match env::var_os("CURATOR_CLASSPATH").filter(|given| !given.is_empty()) {
        Some(given) => given,
        None => {
            let jars = JARS.map(|name| Path::new(DEBIAN_JARS).join(name));
            for jar in &jars {
                installed(jar.clone())?;
            }
            jars.map(PathBuf::into_os_string).join(":".as_ref())
        }
    };
    let options = ["-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-Xmx128m"].map(OsString::from);
    let log = OsString::from("-Dorg.slf4j.simpleLogger.defaultLogLevel=off");
    Ok(options.into_iter().chain([log, "-cp".into(), classes, source]).collect())
}

fn installed(file: PathBuf) -> Result<PathBuf, TortureError> {
    if file.exists() { Ok(file) } else { Err(TortureError::NotInstalled(file)) }
}

/// A lock of the campaign: a path, and what contenders ask for there.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ContendedLock {
    pub(crate) kind: LockKind,
    pub(crate) paths: &'static [&'static str],
    /// How often it is chosen, compared with the others.
    pub(crate) weight: u32,
}

/// The permits of the semaphore.
pub(crate) const PERMITS: u32 = 3;
/// What is contended for.
pub(crate) const LOCKS: [ContendedLock; 10] = [
    lock(LockKind::Mutex, &["/torture/queue"], 6),
    lock(LockKind::Handoff, &["/torture/queue"], 3),
    lock(LockKind::Cohort, &["/torture/queue"], 3),
    lock(LockKind::LingeringCohort, &["/torture/queue"], 2),
    lock(LockKind::Multi, &["/torture/queue", "/torture/second"], 2),
    lock(LockKind::Read, &["/torture/read-write"], 4),
    lock(LockKind::Write, &["/torture/read-write"], 3),
    lock(LockKind::Semaphore, &["/torture/semaphore"], 3),
    lock(LockKind::SemaphoreMutex, &["/torture/semaphore-mutex"], 2),
    lock(LockKind::Leader, &["/torture/leader"], 2),
];

const fn lock(kind: LockKind, paths: &'static [&'static str], weight: u32) -> ContendedLock {
    ContendedLock { kind, paths, weight }
}

#[cfg(test)]
mod tests {
    use testbed::{Ensemble, EnsembleConfig, Process};

    use super::*;

    const SOON: Duration = Duration::from_secs(120);

    async fn until(adapter: &mut Process, said: &str) {
        while !adapter.line(SOON).await.unwrap().unwrap().contains(said) {}
    }

    #[tokio::test]
    async fn a_release_before_the_second_hold_is_left_frees_the_lock() {
        let servers = Ensemble::start(EnsembleConfig { servers: 1, ..EnsembleConfig::default() }).await.unwrap();
        let config = Library::named("curator").unwrap().config(&servers.connect_string(), SOON);
        let mut adapter = Process::spawn(config).unwrap();
        until(&mut adapter, "ready").await;
        let acquire = |id: u64| {
            format!(r#"{{"do":"acquire","id":{id},"lock":"mutex","paths":["/lock"],"within_ms":20000,"permits":null}}"#)
        };
        adapter.say(&acquire(1)).unwrap();
        until(&mut adapter, "acquired").await;
        adapter.say(r#"{"do":"reenter","id":1}"#).unwrap();
        adapter.say(r#"{"do":"release","id":1}"#).unwrap();
        until(&mut adapter, "released").await;
        adapter.say(&acquire(2)).unwrap();
        let line = loop {
            let line = adapter.line(SOON).await.unwrap().unwrap();
            if line.contains(r#""id": 2"#) {
                break line;
            }
        };
        assert!(line.contains("acquired"), "{line}");
    }
}
