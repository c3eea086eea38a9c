//! The worker processes, which live as long as the run, so that they are warm.

use std::collections::{BTreeMap, BTreeSet};
use std::env;
use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};
use std::time::Duration;

use bench::Error;
use program::FromSystem as _;
use testbed::{Process, ProcessConfig, Stdout};

use crate::implementation::Host;
use crate::protocol::{Answer, Request};

/// A Java virtual machine has to compile the program first.
const READY_WITHIN: Duration = Duration::from_secs(60);
const DEBIAN_JARS: &str = "/usr/share/java";
/// The manifests of Curator's jars name the rest, but no backend for the logging facade.
const JARS: [&str; 5] =
    ["curator-recipes.jar", "curator-framework.jar", "curator-client.jar", "zookeeper.jar", "slf4j-simple.jar"];

/// A worker for each host that is needed.
pub(crate) struct Fleet {
    workers: BTreeMap<Host, WorkerProcess>,
}

struct WorkerProcess {
    process: Process,
    /// The version that it printed.
    version: String,
}

impl Host {
    /// Returns the name of the host in errors.
    fn name(self) -> &'static str {
        match self {
            Self::Java => "curator",
            Self::Python => "kazoo",
            Self::Rust => "the rust implementations",
        }
    }

    /// Returns what would make the host run.
    fn remedy(self) -> String {
        match (self, given_class_path()) {
            (Self::Java, Some(given)) => format!(
                "let CURATOR_CLASSPATH, which is {}, name the jars of Curator and all that they need, or unset it and run \
                 `make deps-test`",
                given.display()
            ),
            _ => "install what it needs with `make deps-test`".to_owned(),
        }
    }

    /// Makes the error of a host that lacks something.
    fn missing(self, what: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> Error {
        let action = format!("measure {}", self.name());
        Error::Setup { action, source: what.into(), remedy: format!("{}, or leave it out with --only", self.remedy()) }
    }

    fn config(self) -> Result<ProcessConfig, Error> {
        let config = match self {
            Self::Java => curator()?,
            Self::Python => kazoo()?,
            Self::Rust => {
                let program = env::current_exe().map_err(Error::system("find this program"))?;
                ProcessConfig::new(program).args(["worker"])
            }
        };
        Ok(ProcessConfig { stdout: Stdout::Dialogue, ..config })
    }
}

impl Fleet {
    /// Starts the workers of these hosts, all at once.
    pub(crate) async fn start(hosts: impl IntoIterator<Item = Host>) -> Result<Self, Error> {
        let hosts: BTreeSet<Host> = hosts.into_iter().collect();
        // All workers are launched before one is waited for: the Java machine compiles its program meanwhile.
        let launched: Vec<_> = hosts.into_iter().map(|host| Ok((host, launch(host)?))).collect::<Result<_, Error>>()?;
        let mut workers = BTreeMap::new();
        for (host, process) in launched {
            workers.insert(host, until_ready(host, process).await?);
        }
        Ok(Self { workers })
    }

    /// Returns the versions of the workers, in a line.
    pub(crate) fn versions(&self) -> String {
        let versions: Vec<&str> = self.workers.values().map(|worker| worker.version.as_str()).collect();
        versions.join("; ")
    }

    /// Sends a request and waits for its answer. A failure is the error, whether the worker gives its reason or does
    /// not answer any more. The worker must then be [replaced](Self::replace).
    pub(crate) async fn ask(&mut self, host: Host, request: &Request, within: Duration) -> Result<Answer, String> {
        let worker = self.workers.get_mut(&host).expect("BUG: the worker of every implementation was started");
        match worker.ask(request, within).await? {
            Answer::Failed(reason) => Err(reason),
            answer => Ok(answer),
        }
    }

    /// Replaces a worker whose state is unknown.
    pub(crate) async fn replace(&mut self, host: Host) -> Result<(), Error> {
        // The old processes and connections must be gone before the new worker starts.
        self.workers.remove(&host);
        let worker = until_ready(host, launch(host)?).await?;
        self.workers.insert(host, worker);
        Ok(())
    }
}

impl Drop for Fleet {
    fn drop(&mut self) {
        // All workers stop at once. Each drop below waits for one of them.
        self.workers.values().for_each(|worker| worker.process.request_stop());
    }
}

impl WorkerProcess {
    async fn ask(&mut self, request: &Request, within: Duration) -> Result<Answer, String> {
        let word = request.to_string();
        let word = word.split(' ').next().unwrap_or_default();
        let ended =
            |process: &Process| format!("the worker ended at {word}; its log ends with: {}", process.log_tail());
        if self.process.say(&request.to_string()).is_err() {
            return Err(ended(&self.process));
        }
        match self.process.line(within).await {
            Ok(Some(line)) => line.parse().map_err(|error| format!("answer to {word} {error}")),
            Ok(None) => Err(ended(&self.process)),
            Err(_) => Err(format!("no answer to {word} within {}", humantime::format_duration(within))),
        }
    }
}

fn launch(host: Host) -> Result<Process, Error> {
    Process::spawn(host.config()?).map_err(|error| match error {
        testbed::Error::NoSuchProgram { .. } => host.missing(error),
        other => other.into(),
    })
}

async fn until_ready(host: Host, mut process: Process) -> Result<WorkerProcess, Error> {
    let failed = |what: String, process: &Process| match host {
        Host::Rust => {
            Error::Failed(format!("the worker for {} {what}; its log ends with:\n{}", host.name(), process.log_tail()))
        }
        Host::Java | Host::Python => {
            let reason = complaint(&process.log_head(), &process.log_tail()).map(|line| format!(": {line}"));
            host.missing(format!("its worker {what}{}", reason.unwrap_or_default()))
        }
    };
    match process.line(READY_WITHIN).await {
        Ok(Some(line)) => match line.strip_prefix("ready ") {
            Some(version) => Ok(WorkerProcess { version: version.to_owned(), process }),
            None => Err(failed(format!("said {line:?} instead of being ready"), &process)),
        },
        Ok(None) => Err(failed("ended while it was starting".to_owned(), &process)),
        Err(_) => Err(failed(format!("was not ready within {READY_WITHIN:?}"), &process)),
    }
}

/// Returns how to run the worker of Curator. Java compiles and runs a source file by itself.
fn curator() -> Result<ProcessConfig, Error> {
    let java = testbed::java().map_err(|error| Host::Java.missing(error))?;
    let class_path = class_path(given_class_path(), DEBIAN_JARS.as_ref()).map_err(|what| Host::Java.missing(what))?;
    Ok(ProcessConfig::new(java)
        .args(["-Xmx1g", "-Dorg.slf4j.simpleLogger.defaultLogLevel=error", "-cp"])
        .args([class_path])
        .args([programs().join("CuratorRival.java")]))
}

/// Returns the class path that the environment names.
fn given_class_path() -> Option<OsString> {
    env::var_os("CURATOR_CLASSPATH").filter(|given| !given.is_empty())
}

/// Returns the given class path, or else the jars in `folder`.
fn class_path(given: Option<OsString>, folder: &Path) -> Result<OsString, String> {
    if let Some(given) = given {
        return Ok(given);
    }
    let jars = JARS.map(|name| folder.join(name));
    match jars.iter().find(|jar| !jar.is_file()) {
        Some(missing) => Err(format!("{} not found, and CURATOR_CLASSPATH names no other jars", missing.display())),
        None => Ok(jars.map(PathBuf::into_os_string).join(OsStr::new(":"))),
    }
}

fn kazoo() -> Result<ProcessConfig, Error> {
    let python = workspace().join("target/interop-python/bin/python");
    if !python.exists() {
        return Err(Host::Python.missing(format!("its environment {} not found", python.display())));
    }
    Ok(ProcessConfig::new(python).args([programs().join("kazoo_rival.py")]))
}

/// Returns the first line of the log's `head` that names an error, or else the last line of its `tail`. A compiler prints
/// the consequences after the first error; a traceback ends with its error.
fn complaint<'a>(head: &'a str, tail: &'a str) -> Option<&'a str> {
    let lines_of = |log: &'a str| log.lines().map(str::trim).filter(|line| !line.is_empty());
    lines_of(head).find(|line| line.to_lowercase().contains("error:")).or_else(|| lines_of(tail).next_back())
}

fn workspace() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap_or(Path::new(".")).to_owned()
}

fn programs() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("src/locks")
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn a_given_class_path_replaces_the_jars_of_debian() {
        let folder = tempfile::tempdir().unwrap();
        let error = class_path(None, folder.path()).unwrap_err();
        assert!(error.contains("curator-recipes.jar not found"), "{error}");
        JARS.iter().for_each(|jar| fs::write(folder.path().join(jar), "").unwrap());
        let found = class_path(None, folder.path()).unwrap();
        assert_eq!(env::split_paths(&found).count(), JARS.len());
        assert_eq!(class_path(Some("/lib/*".into()), folder.path()), Ok("/lib/*".into()));
    }

    #[test]
    fn an_error_tells_one_line_of_a_log() {
        let javac = "Rival.java:18: error: package org.apache does not exist\nimport org.apache.Lock;\n               ^\n\
                     Rival.java:19: error: cannot find symbol\n2 errors\nerror: compilation failed\n";
        assert_eq!(
            complaint(javac, "error: compilation failed"),
            Some("Rival.java:18: error: package org.apache does not exist")
        );
        let python = "Traceback (most recent call last):\n  File \"rival.py\", line 3, in <module>\n    import kazoo\n\
                      ModuleNotFoundError: No module named 'kazoo'\n";
        assert_eq!(complaint(python, python), Some("ModuleNotFoundError: No module named 'kazoo'"));
        assert_eq!(complaint("starting\n", "starting\nout of memory\n\n"), Some("out of memory"));
        assert_eq!(complaint("\n", "\n"), None);
    }
}
