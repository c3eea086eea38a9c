//! A throwaway ZooKeeper.

use std::ffi::OsString;
use std::io;
use std::path::Path;
use std::time::Duration;

use nix::sys::signal::{Signal, kill};

use crate::account::Account;
use crate::find::{java, zookeeper_class_path};
use crate::folder::Folder;
use crate::guard::{Guard, Launch, Output};
use crate::ready::{on_free_port, until_ready};
use crate::{Error, StopSignal, four_letter};

/// The longest session timeout a client may ask for, unless 20 ticks are longer: long enough to never be in the way.
const SESSION_TIMEOUT_MAX: Duration = Duration::from_secs(600);

/// How long a running server may take to answer a four-letter word.
const ANSWER_WITHIN: Duration = Duration::from_secs(5);

/// Only what is needed to see why a server failed; the rest would cost time under load. One configuration for each of the
/// logging backends that releases come with, read from the class path; Debian's is configured by a property.
const LOGBACK_XML: &str = r#"<configuration>
  <appender name="STDERR" class="ch.qos.logback.core.ConsoleAppender">
    <target>System.err</target>
    <encoder><pattern>%d{HH:mm:ss.SSS} %-5level %logger{0} - %msg%n</pattern></encoder>
  </appender>
  <root level="WARN"><appender-ref ref="STDERR"/></root>
</configuration>
"#;
const LOG4J_PROPERTIES: &str = "log4j.rootLogger=WARN, STDERR
log4j.appender.STDERR=org.apache.log4j.ConsoleAppender
log4j.appender.STDERR.Target=System.err
log4j.appender.STDERR.layout=org.apache.log4j.PatternLayout
log4j.appender.STDERR.layout.ConversionPattern=%d{HH:mm:ss.SSS} %-5p %c{1} - %m%n
";

/// Settings of a throwaway ZooKeeper.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ZooKeeperConfig {
    /// The server's unit of time, in whole milliseconds. Sessions time out after two ticks at the least, and are looked
    /// through for expired ones once a tick; a short tick makes a test of expiry short.
    pub tick_time: Duration,
    /// How often the server looks for empty containers to delete, in whole milliseconds. A short interval makes a test of their removal short.
    pub container_check_interval: Duration,
}

impl Default for ZooKeeperConfig {
    fn default() -> Self {
        Self { tick_time: Duration::from_secs(2), container_check_interval: Duration::from_secs(60) }
    }
}

/// A standalone ZooKeeper server of its own, on a free port of 127.0.0.1, with its data in a temporary folder.
///
/// Writes are durable, as by default, and it takes any number of connections. The four-letter words `conf`, `mntr`, `ruok` and
/// `srvr` are open, the admin server is off. Run as root, it is started under the account `zookeeper` or `nobody`. Dropping it
/// stops it and removes its data; that blocks, usually for less than a second.
#[derive(Debug)]
pub struct ZooKeeper {
    port: u16,
    guard: Guard,
}

impl ZooKeeper {
    /// Starts a server. It serves requests when this returns.
    ///
    /// # Errors
    ///
    /// [`Error::NotInstalled`] without ZooKeeper or Java on this machine; [`Error::Setting`] for a duration below a
    /// millisecond or beyond `i32::MAX` of them; [`Error::Ended`], with the end of its log, when the server gives up; [`Error::NotReady`]
    /// when it does not answer within a minute; [`Error::System`] when the operating system refuses a process, a port or a
    /// folder.
    ///
    /// # Cancel safety
    ///
    /// A server that was starting is stopped, and its folder removed.
    pub async fn start(config: ZooKeeperConfig) -> Result<Self, Error> {
        let tick_ms = whole_ms("tick time", config.tick_time)?;
        let container_check_ms = whole_ms("container check interval", config.container_check_interval)?;
        let (java, class_path) = (java()?, zookeeper_class_path()?);
        let account = Account::unprivileged(&["zookeeper", "nobody"])?;
        on_free_port(async |port| {
            let folder = Folder::create(account)?;
            let dir = folder.path().to_owned();
            folder.write("zoo.cfg", &zoo_cfg(&dir, port, tick_ms))?;
            folder.write("logback.xml", LOGBACK_XML)?;
            folder.write("log4j.properties", LOG4J_PROPERTIES)?;
            let launch = Launch {
                program: java.clone(),
                args: arguments(&dir, &class_path, container_check_ms),
                envs: Vec::new(),
                dir: Some(dir.clone()),
                stop_signal: StopSignal::Terminate,
                stop_within: Duration::from_secs(10),
                stdout: Output::Log,
                log_file: None,
            };
            let mut guard = Guard::spawn(launch, folder)?;
            until_ready("zookeeper", &mut guard, async || serves_from(&dir, port).await).await?;
            Ok(Self { port, guard })
        })
        .await
    }

    /// Where the server is, for any ZooKeeper client: `127.0.0.1:PORT`.
    #[must_use]
    pub fn connect_string(&self) -> String {
        format!("127.0.0.1:{}", self.port)
    }

    /// Freezes the server (`SIGSTOP`): connections stay open, nothing is answered and no time passes for it.
    ///
    /// # Errors
    ///
    /// [`Error::System`] when the server is gone.
    pub fn pause(&self) -> Result<(), Error> {
        self.signal(Signal::SIGSTOP)
    }

    /// Lets a frozen server go on. It finds its sessions as old as the freeze was long.
    ///
    /// # Errors
    ///
    /// [`Error::System`] when the server is gone.
    pub fn resume(&self) -> Result<(), Error> {
        self.signal(Signal::SIGCONT)
    }

    fn signal(&self, signal: Signal) -> Result<(), Error> {
        kill(self.guard.pid(), signal)
            .map_err(|errno| Error::system(format!("send {signal} to zookeeper"))(errno.into()))
    }

    /// One counter of the server, by the name that `mntr` gives it; zero for a counter that it does not list yet.
    ///
    /// # Errors
    ///
    /// [`Error::System`] when the server does not answer within five seconds, as while it is frozen.
    ///
    /// # Cancel safety
    ///
    /// Nothing is lost.
    pub async fn metric(&self, name: &str) -> Result<u64, Error> {
        let address = self.connect_string();
        let answer = tokio::time::timeout(ANSWER_WITHIN, four_letter::ask(&address, "mntr")).await;
        let answer = answer
            .unwrap_or_else(|_| Err(io::ErrorKind::TimedOut.into()))
            .map_err(Error::system("ask zookeeper for its counters"))?;
        let value = answer.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix('\t'));
        Ok(value.and_then(|value| value.trim().parse().ok()).unwrap_or(0))
    }
}

/// A setting in the milliseconds that the server counts it in.
fn whole_ms(setting: &str, value: Duration) -> Result<i32, Error> {
    match i32::try_from(value.as_millis()) {
        Ok(value_ms) if value_ms >= 1 => Ok(value_ms),
        _ => Err(Error::Setting(format!("{setting} {value:?} is not between 1 ms and {} ms", i32::MAX))),
    }
}

fn zoo_cfg(dir: &Path, port: u16, tick_ms: i32) -> String {
    let session_timeout_max_ms = SESSION_TIMEOUT_MAX.as_millis().max(20 * u128::from(tick_ms.unsigned_abs()));
    let session_timeout_max_ms = session_timeout_max_ms.min(i32::MAX.unsigned_abs().into());
    format!(
        "tickTime={tick_ms}
dataDir={}/data
clientPort={port}
clientPortAddress=127.0.0.1
maxClientCnxns=0
maxSessionTimeout={session_timeout_max_ms}
standaloneEnabled=true
admin.enableServer=false
4lw.commands.whitelist=conf,mntr,ruok,srvr
",
        dir.display()
    )
}

fn arguments(dir: &Path, class_path: &OsString, container_check_ms: i32) -> Vec<OsString> {
    let mut class_path_with_logging = dir.as_os_str().to_owned();
    class_path_with_logging.push(":");
    class_path_with_logging.push(class_path);
    let mut tmpdir = OsString::from("-Djava.io.tmpdir=");
    tmpdir.push(dir);
    vec![
        // Without it, a file in the shared temporary folder would outlive a killed server.
        "-XX:-UsePerfData".into(),
        tmpdir,
        "-Xmx1g".into(),
        format!("-Dznode.container.checkIntervalMs={container_check_ms}").into(),
        "-Djava.net.preferIPv4Stack=true".into(),
        "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn".into(),
        "-cp".into(),
        class_path_with_logging,
        "org.apache.zookeeper.server.ZooKeeperServerMain".into(),
        dir.join("zoo.cfg").into(),
    ]
}

/// Whether the server at the port serves requests and keeps its data in `dir`: the proof that it is the one that was started.
///
/// `conf` is refused by a server that does not serve yet, while `ruok` is not.
async fn serves_from(dir: &Path, port: u16) -> bool {
    let data = format!("dataDir={}/data", dir.display());
    match four_letter::ask(&format!("127.0.0.1:{port}"), "conf").await {
        Ok(answer) => answer.lines().any(|line| line.starts_with(&data)),
        Err(_) => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_duration_must_be_a_whole_number_of_milliseconds_that_the_server_can_hold() {
        assert_eq!(whole_ms("tick time", Duration::from_secs(2)).unwrap(), 2000);
        assert_eq!(whole_ms("tick time", Duration::from_millis(1)).unwrap(), 1);
        assert!(whole_ms("tick time", Duration::from_micros(999)).is_err());
        assert!(whole_ms("tick time", Duration::from_secs(u64::MAX)).is_err());
    }

    #[test]
    fn the_longest_session_timeout_is_never_below_twenty_ticks() {
        let session_timeout_max = |tick_ms| {
            let cfg = zoo_cfg("/tmp/x".as_ref(), 1, tick_ms);
            cfg.lines().find_map(|line| line.strip_prefix("maxSessionTimeout=").map(str::to_owned)).unwrap()
        };
        assert_eq!(session_timeout_max(100), "600000");
        assert_eq!(session_timeout_max(60_000), "1200000");
        assert_eq!(session_timeout_max(i32::MAX), i32::MAX.to_string());
    }
}
