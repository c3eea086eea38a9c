//! The configuration of a ZooKeeper server: its files and the arguments of its Java.

use std::ffi::OsString;
use std::ops::RangeInclusive;
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::properties::escaped;
use crate::Error;
use crate::account::Account;
use crate::authority;
use crate::find::{java, zookeeper_class_path};
use crate::folder::Folder;
use crate::zookeeper::ZooKeeperTls;

/// The longest session timeout that is granted by default, unless 20 ticks are longer. No test needs a longer one.
const SESSION_TIMEOUT_MAX: Duration = Duration::from_secs(600);
/// Time limit for the servers of an ensemble to find each other, unless 10 ticks are longer. Three servers that start
/// at once on a busy machine are slow, whatever the tick.
const JOIN_WITHIN: Duration = Duration::from_secs(30);
/// Number of ticks of silence after which a leader and its followers part.
const SYNC_TICKS: u32 = 5;

/// The longest pause between two votes of a server that looks for a leader behind broken links. ZooKeeper's default is
/// a minute. So a server that was alone for long might be silent for a minute after its links are healed.
const VOTE_INTERVAL_MAX: Duration = Duration::from_secs(1);

/// The server's own configuration.
pub(crate) const ZOO_CFG: &str = "zoo.cfg";
/// The extension tells the server the format.
const KEY_STORE: &str = "server.pem";
const TRUST_STORE: &str = "clients.pem";

/// Logs only why a server fails: more would cost time under load. Each logging backend of the releases has a
/// configuration, which it reads from the class path. A property configures Debian's.
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

/// The parts of this machine that ZooKeeper needs.
#[derive(Debug, Clone)]
pub(crate) struct Installation {
    pub(crate) java: PathBuf,
    pub(crate) class_path: OsString,
    pub(crate) account: Option<Account>,
}

impl Installation {
    pub(crate) fn find() -> Result<Self, Error> {
        let java = java()?;
        let class_path = zookeeper_class_path()?;
        Ok(Self { java, class_path, account: Account::unprivileged(&["zookeeper", "nobody"])? })
    }
}

/// The settings of a server, in the units that it counts them in.
#[derive(Debug, Clone)]
pub(crate) struct ServerSettings {
    tick_ms: u32,
    container_check_ms: u32,
    heap_max_mib: u32,
    /// The shortest and the longest session timeout that is granted; the defaults when `None`.
    session_timeouts_ms: Option<[u32; 2]>,
    /// The most connections of one host; 0: any number.
    connections_max: u32,
    properties: &'static [&'static str],
    stores: Option<Stores>,
}

impl ServerSettings {
    pub(crate) fn new(
        tick_time: Duration,
        container_check_interval: Duration,
        heap_max_mib: u32,
    ) -> Result<Self, Error> {
        Ok(Self {
            tick_ms: whole_ms("tick time", tick_time)?,
            container_check_ms: whole_ms("container check interval", container_check_interval)?,
            heap_max_mib,
            session_timeouts_ms: None,
            connections_max: 0,
            properties: &[],
            stores: None,
        })
    }

    /// Sets the limits of the session timeouts.
    pub(crate) fn with_session_timeouts(self, limits: Option<&RangeInclusive<Duration>>) -> Result<Self, Error> {
        Ok(Self { session_timeouts_ms: limits.map(session_timeouts_ms).transpose()?, ..self })
    }

    /// Sets the limit of the connections of one host.
    pub(crate) fn with_connections_max(self, limit: Option<u32>) -> Self {
        Self { connections_max: limit.unwrap_or(0), ..self }
    }

    /// Sets properties of Java.
    pub(crate) fn with_properties(self, properties: &'static [&'static str]) -> Self {
        Self { properties, ..self }
    }

    /// Sets the files of a server that speaks TLS.
    pub(crate) fn with_stores(self, stores: Option<Stores>) -> Self {
        Self { stores, ..self }
    }
}

/// The contents of the files that a server that speaks TLS reads.
#[derive(Debug, Clone)]
pub(crate) struct Stores {
    /// Its key and its certificate.
    key_store: String,
    /// The certificate of the authority of the clients.
    trust_store: String,
}

impl Stores {
    pub(crate) fn read(tls: &ZooKeeperTls) -> Result<Self, Error> {
        let [certificate, key] = tls.identity.read()?;
        Ok(Self { key_store: key + &certificate, trust_store: authority::read(&tls.client_authority)? })
    }
}

/// Returns a setting in milliseconds, which the server keeps in a Java `int`.
fn whole_ms(setting: &str, value: Duration) -> Result<u32, Error> {
    match i32::try_from(value.as_millis()) {
        Ok(value_ms) if value_ms >= 1 => Ok(value_ms.unsigned_abs()),
        _ => Err(Error::Setting(format!("{setting} {value:?} is not between 1 ms and {} ms", i32::MAX))),
    }
}

fn session_timeouts_ms(limits: &RangeInclusive<Duration>) -> Result<[u32; 2], Error> {
    if limits.is_empty() {
        return Err(Error::Setting(format!("session timeout {:?} is above {:?}", limits.start(), limits.end())));
    }
    Ok([whole_ms("session timeout", *limits.start())?, whole_ms("session timeout", *limits.end())?])
}

/// The ports at which one server of an ensemble listens for the others.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Peer {
    /// For its followers, while it leads.
    pub(crate) quorum_port: u16,
    /// For votes.
    pub(crate) election_port: u16,
}

/// A server's number in an ensemble.
#[derive(Debug, Clone)]
pub(crate) struct Membership {
    /// Its index in `peers`; its ZooKeeper id is one more.
    pub(crate) index: usize,
    pub(crate) peers: Vec<Peer>,
    /// The port of the proxy through which the server reaches the others.
    pub(crate) proxy_port: Option<u16>,
}

/// The whole configuration of a server.
#[derive(Debug, Clone)]
pub(crate) struct Configuration {
    pub(crate) client_port: u16,
    /// The port for TLS.
    pub(crate) secure_port: Option<u16>,
    pub(crate) settings: ServerSettings,
    /// `None` for a standalone server.
    pub(crate) membership: Option<Membership>,
}

impl Configuration {
    /// Writes all that the server reads into its folder.
    pub(crate) fn write_files(&self, folder: &Folder) -> Result<(), Error> {
        if let Some((_, stores)) = self.tls() {
            folder.write(KEY_STORE, &stores.key_store)?;
            folder.write(TRUST_STORE, &stores.trust_store)?;
        }
        folder.write(ZOO_CFG, &self.zoo_cfg(folder.path()))?;
        folder.write("logback.xml", LOGBACK_XML)?;
        folder.write("log4j.properties", LOG4J_PROPERTIES)?;
        folder.create_dir("data")?;
        match &self.membership {
            Some(Membership { index, .. }) => folder.write("data/myid", &format!("{}\n", index + 1)),
            None => Ok(()),
        }
    }

    /// Returns the text of [`ZOO_CFG`].
    pub(crate) fn zoo_cfg(&self, dir: &Path) -> String {
        let Self { client_port, settings, .. } = self;
        let ServerSettings { tick_ms, connections_max, .. } = *settings;
        let mut cfg = format!(
            "tickTime={tick_ms}
{data_dir}
clientPort={client_port}
clientPortAddress=127.0.0.1
maxClientCnxns={connections_max}
admin.enableServer=false
4lw.commands.whitelist=conf,mntr,ruok,srvr
",
            data_dir = escaped(&data_dir_line(dir)),
        );
        cfg += &match settings.session_timeouts_ms {
            Some([min_ms, max_ms]) => format!("minSessionTimeout={min_ms}\nmaxSessionTimeout={max_ms}\n"),
            None => format!("maxSessionTimeout={}\n", session_timeout_max_ms(tick_ms)),
        };
        if let Some(membership) = &self.membership {
            cfg += &quorum_cfg(tick_ms, membership);
        }
        if let Some((secure_port, _)) = self.tls() {
            cfg += &secure_cfg(dir, secure_port);
        }
        cfg
    }

    fn tls(&self) -> Option<(u16, &Stores)> {
        self.secure_port.zip(self.settings.stores.as_ref())
    }

    /// Returns the arguments of Java for the server whose files are in `dir`.
    pub(crate) fn arguments(&self, dir: &Path, class_path: &OsString) -> Vec<OsString> {
        // `.` is the folder that the server runs in, whose name may have colons.
        let mut class_path_with_logging = OsString::from(".:");
        class_path_with_logging.push(class_path);
        let mut tmpdir = OsString::from("-Djava.io.tmpdir=");
        tmpdir.push(dir);
        let main_class = if self.membership.is_some() { "quorum.QuorumPeerMain" } else { "ZooKeeperServerMain" };
        let mut arguments: Vec<OsString> = vec![
            // Without it, a file in the shared temporary folder would outlive a killed server.
            "-XX:-UsePerfData".into(),
            tmpdir,
            format!("-Xmx{}m", self.settings.heap_max_mib).into(),
            format!("-Dznode.container.checkIntervalMs={}", self.settings.container_check_ms).into(),
            "-Djava.net.preferIPv4Stack=true".into(),
            "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn".into(),
        ];
        arguments.extend(self.settings.properties.iter().map(|property| format!("-D{property}").into()));
        let proxy_port = self.membership.as_ref().and_then(|membership| membership.proxy_port);
        arguments.extend(proxy_port.into_iter().flat_map(proxy_arguments));
        arguments.extend(["-cp".into(), class_path_with_logging]);
        arguments.extend([format!("org.apache.zookeeper.server.{main_class}").into(), dir.join(ZOO_CFG).into()]);
        arguments
    }
}

/// Returns the beginning of the line of `conf` that tells where the server keeps its data.
pub(crate) fn data_dir_line(dir: &Path) -> String {
    format!("dataDir={}/data", dir.display())
}

/// Returns the environment of Java, which reads the names of files in the encoding of the locale.
pub(crate) fn variables() -> Vec<(OsString, OsString)> {
    vec![("LC_ALL".into(), "C.UTF-8".into())]
}

fn session_timeout_max_ms(tick_ms: u32) -> u128 {
    let max_ms = SESSION_TIMEOUT_MAX.as_millis().max(20 * u128::from(tick_ms));
    max_ms.min(i32::MAX.unsigned_abs().into())
}

/// Returns the settings for TLS. Only the network layer on Netty speaks it, and asks clients for a certificate by default.
fn secure_cfg(dir: &Path, secure_port: u16) -> String {
    let dir = escaped(&dir.display().to_string());
    format!(
        "serverCnxnFactory=org.apache.zookeeper.server.NettyServerCnxnFactory
secureClientPort={secure_port}
secureClientPortAddress=127.0.0.1
ssl.keyStore.location={dir}/{KEY_STORE}
ssl.trustStore.location={dir}/{TRUST_STORE}
"
    )
}

/// Returns the settings of an ensemble. Without `standaloneEnabled`, an ensemble of one is an ensemble as well.
fn quorum_cfg(tick_ms: u32, membership: &Membership) -> String {
    let join_ticks = JOIN_WITHIN.as_millis().div_ceil(tick_ms.into()).max(10);
    let mut cfg = format!("standaloneEnabled=false\ninitLimit={join_ticks}\nsyncLimit={SYNC_TICKS}\n");
    for (index, Peer { quorum_port, election_port }) in membership.peers.iter().enumerate() {
        cfg += &format!("server.{}=127.0.0.1:{quorum_port}:{election_port}\n", index + 1);
    }
    cfg
}

/// Lets Java make every connection of the server through a SOCKS proxy, also those to this machine.
///
/// An address of a proxy in the `server.N` lines would not do. A server tells the others where it listens for votes, and they
/// connect to it there.
fn proxy_arguments(port: u16) -> [OsString; 4] {
    [
        "-DsocksProxyHost=127.0.0.1".to_owned(),
        format!("-DsocksProxyPort={port}"),
        "-DsocksNonProxyHosts=".to_owned(),
        format!("-Dzookeeper.fastleader.maxNotificationInterval={}", VOTE_INTERVAL_MAX.as_millis()),
    ]
    .map(OsString::from)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn settings(tick_ms: u32) -> ServerSettings {
        ServerSettings {
            tick_ms,
            container_check_ms: 60_000,
            heap_max_mib: 64,
            session_timeouts_ms: None,
            connections_max: 0,
            properties: &[],
            stores: None,
        }
    }

    fn zoo_cfg(settings: ServerSettings, membership: Option<Membership>) -> String {
        Configuration { client_port: 9, secure_port: None, settings, membership }.zoo_cfg("/tmp/x".as_ref())
    }

    fn value<'a>(cfg: &'a str, key: &str) -> Option<&'a str> {
        cfg.lines().find_map(|line| line.strip_prefix(key)?.strip_prefix('='))
    }

    #[test]
    fn a_duration_has_whole_milliseconds_that_fit_the_server() {
        assert_eq!(whole_ms("tick time", Duration::from_secs(2)).unwrap(), 2000);
        assert_eq!(whole_ms("tick time", Duration::from_millis(1)).unwrap(), 1);
        assert!(whole_ms("tick time", Duration::from_micros(999)).is_err());
        assert!(whole_ms("tick time", Duration::from_secs(u64::MAX)).is_err());
    }

    #[test]
    fn the_longest_session_timeout_is_never_below_twenty_ticks() {
        let session_timeout_max = |tick_ms| {
            let cfg = zoo_cfg(settings(tick_ms), None);
            assert_eq!(value(&cfg, "minSessionTimeout"), None, "ZooKeeper's own");
            value(&cfg, "maxSessionTimeout").unwrap().to_owned()
        };
        assert_eq!(session_timeout_max(100), "600000");
        assert_eq!(session_timeout_max(60_000), "1200000");
        assert_eq!(session_timeout_max(i32::MAX.unsigned_abs()), i32::MAX.to_string());
    }

    #[test]
    fn set_limits_of_session_timeouts_replace_the_defaults() {
        let limits = Duration::from_millis(300)..=Duration::from_secs(2);
        let cfg = zoo_cfg(settings(60_000).with_session_timeouts(Some(&limits)).unwrap(), None);
        assert_eq!(value(&cfg, "minSessionTimeout"), Some("300"));
        assert_eq!(value(&cfg, "maxSessionTimeout"), Some("2000"));
    }

    #[test]
    fn limits_of_session_timeouts_are_ordered_and_whole() {
        let [short, long] = [1, 2].map(Duration::from_secs);
        for limits in [long..=short, Duration::ZERO..=long, short..=Duration::from_secs(u64::MAX)] {
            let error = settings(500).with_session_timeouts(Some(&limits)).unwrap_err();
            assert!(matches!(error, Error::Setting(_)), "{error}");
        }
        settings(500).with_session_timeouts(Some(&(short..=short))).unwrap();
    }

    #[test]
    fn java_reads_the_letters_of_a_folder_as_they_are() {
        let cfg = Configuration { client_port: 9, secure_port: None, settings: settings(2000), membership: None }
            .zoo_cfg(r"/tmp/k\u00e4se/ä𝄞".as_ref());
        assert_eq!(value(&cfg, "dataDir"), Some(r"/tmp/k\\u00e4se/\u00e4\ud834\udd1e/data"));
    }

    #[test]
    fn only_a_server_of_an_ensemble_knows_of_others() {
        let peers = [(1, 2), (3, 4)].map(|(quorum_port, election_port)| Peer { quorum_port, election_port });
        let cfg = zoo_cfg(settings(2000), Some(Membership { index: 1, peers: peers.to_vec(), proxy_port: None }));
        assert_eq!(value(&cfg, "server.1"), Some("127.0.0.1:1:2"));
        assert_eq!(value(&cfg, "server.2"), Some("127.0.0.1:3:4"));
        assert_eq!(value(&cfg, "clientPort"), Some("9"));
        assert!(!zoo_cfg(settings(2000), None).contains("server."));
    }

    #[test]
    fn servers_have_time_to_find_each_other_however_short_the_tick() {
        let peers = vec![Peer { quorum_port: 1, election_port: 2 }];
        let join_ticks = |tick_ms| {
            let cfg = quorum_cfg(tick_ms, &Membership { index: 0, peers: peers.clone(), proxy_port: None });
            value(&cfg, "initLimit").unwrap().to_owned()
        };
        assert_eq!(join_ticks(100), "300");
        assert_eq!(join_ticks(7_000), "10");
    }
}
