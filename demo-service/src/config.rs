//! The command line, and the configuration that it makes.

use std::ffi::OsString;
use std::fmt;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use clap::builder::{PossibleValuesParser, TypedValueParser};
use clap::error::ErrorKind;
use clap::{CommandFactory, Parser, ValueEnum};
use subtle::ConstantTimeEq;

use crate::hold::Hold;
use crate::purchase::LockOrder;
use crate::secrets::{SERVICE_PASSWORD, Secret, ZooKeeperUser};
use crate::strategy::registry::{self, Entry, STRATEGIES};

/// Exit status of a wrong command line (`EX_USAGE` of sysexits.h).
pub const EXIT_USAGE: u8 = 64;

/// The shortest and the longest of the times. Deadlines are reckoned with them, which must not overflow.
const DURATION_MIN: Duration = Duration::from_millis(1);
const DURATION_MAX: Duration = Duration::from_hours(24);

/// The environment variable with the token of the administrator.
pub const ADMIN_TOKEN: &str = "ADMIN_TOKEN";

/// The stock service of a flash sale: one deduction, guarded in as many ways as there are strategies.
#[derive(Clone, Parser)]
#[command(name = "demo-service", version, max_term_width = 100, after_help = AFTER_HELP)]
pub struct Config {
    /// Address to serve on; port 0 takes any that is free
    #[arg(long, env, default_value = "127.0.0.1:8080", value_name = "ADDRESS:PORT")]
    pub listen: SocketAddr,
    /// Postgres, as postgres://USER:PASSWORD@HOST:PORT/DATABASE; migrated at start by a user who may create tables, and
    /// looked at by any other. With ?sslmode=verify-full&sslrootcert=PATH the server must have a certificate of that
    /// authority for that host
    #[arg(long, env, hide_env_values = true, value_name = "URL")]
    pub database_url: String,
    /// Migrate the database as its owner, make the role seckill_service, which may do what the service needs and no more,
    /// and exit
    #[arg(long, env)]
    pub migrate_only: bool,
    /// ZooKeeper servers, as HOST:PORT,HOST:PORT/CHROOT; needed unless there is --migrate-only
    #[arg(long, env = "ZOOKEEPER_CONNECT", value_name = "CONNECT")]
    pub zookeeper: Option<String>,
    /// PEM file of the authority that issued the certificates of the ZooKeeper servers; all of them are spoken to by TLS
    #[arg(long, env, value_name = "PATH")]
    pub zookeeper_ca: Option<PathBuf>,
    /// PEM file with the certificate that proves to ZooKeeper who the service is
    #[arg(long, env, value_name = "PATH", requires_all = ["zookeeper_ca", "zookeeper_key"])]
    pub zookeeper_cert: Option<PathBuf>,
    /// PEM file with the private key of --zookeeper-cert
    #[arg(long, env, value_name = "PATH", requires = "zookeeper_cert")]
    pub zookeeper_key: Option<PathBuf>,
    /// ZooKeeper sessions that the deductions take turns in
    #[arg(long, env, default_value_t = 1, value_name = "N", value_parser = clap::value_parser!(u16).range(1..))]
    pub zk_sessions: u16,
    /// Silence after which ZooKeeper ends a session and frees its locks; also the time to open one
    #[arg(long, env, default_value = "10s", value_name = "TIME", value_parser = positive_duration)]
    pub zk_session_timeout: Duration,
    /// Strategy of the requests that name none
    #[arg(long, env, default_value = "zk-mutex", value_name = "NAME", value_parser = strategy_parser())]
    pub strategy: &'static Entry,
    /// Strategy of the carts that name none
    #[arg(long, env, default_value = "zk-multi", value_name = "NAME", value_parser = cart_strategy_parser())]
    pub cart_strategy: &'static Entry,
    /// Strategies that requests may name, beside the two defaults [default: all]
    #[arg(long, env, value_delimiter = ',', value_name = "NAME,…", value_parser = strategy_parser())]
    pub offer: Vec<&'static Entry>,
    /// Simulated business time of a deduction: fixed (2ms) or uniform (1ms..5ms)
    #[arg(long, env, default_value = "0ms", value_name = "TIME")]
    pub hold: Hold,
    /// By when a deduction must have its lock, counted from the arrival of the request
    #[arg(long, env, default_value = "5s", value_name = "TIME", value_parser = positive_duration)]
    pub lock_wait: Duration,
    /// By when a deduction must be over, counted from the arrival of the request; also bounds each single wait for a
    /// database connection, statement or row lock
    #[arg(long, env, default_value = "10s", value_name = "TIME", value_parser = positive_duration)]
    pub db_timeout: Duration,
    /// By when a request must be answered, counted from its arrival
    #[arg(long, env, default_value = "20s", value_name = "TIME", value_parser = positive_duration)]
    pub http_timeout: Duration,
    /// Order in which the locks of a cart are taken
    #[arg(long, env, default_value = "canonical", value_name = "ORDER")]
    pub lock_order: LockOrder,
    /// Buyers of one SKU that zk-semaphore lets into the database at a time
    #[arg(long, env, default_value_t = 4, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub permits: u32,
    /// Most attempts of a deduction that others overtake (pg-optimistic, pg-serializable)
    #[arg(long, env, default_value_t = 200, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub attempts_max: u32,
    /// Most database connections, of which each that waits for a lock of Postgres has one; one more is kept aside for probes
    /// and for what must be asked about the others
    #[arg(long, env, default_value_t = 20, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub db_connections: u32,
    /// Most requests worked on at once; more are refused. Keep it below --connections-max, above which clients wait unheard
    /// instead
    #[arg(long, env, default_value_t = 2048, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub concurrency_max: u32,
    /// Most open client connections; more wait to be accepted
    #[arg(long, env, default_value_t = 4096, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub connections_max: u32,
    /// Critical sections whose record is kept for GET /admin/history; the oldest make room
    #[arg(long, env, default_value_t = 65_536, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=10_000_000))]
    pub history: u32,
    /// Name that this instance writes into its orders
    #[arg(long, env, default_value_t = default_instance(), value_name = "NAME", value_parser = instance_name)]
    pub instance: String,
    /// Format of the log, which goes to standard error
    #[arg(long, env, default_value = "text", value_name = "FORMAT")]
    pub log_format: LogFormat,
    /// Token of the administrator; without one there is no administration.
    #[arg(skip)]
    pub admin_token: Option<AdminToken>,
    /// Password that the role of the service gets when the database is migrated.
    #[arg(skip)]
    pub service_password: Option<Secret>,
    /// Who the service is in ZooKeeper; nobody in particular without one.
    #[arg(skip)]
    pub zookeeper_user: Option<ZooKeeperUser>,
}

const AFTER_HELP: &str = "\
Environment:
  ADMIN_TOKEN       bearer token that PUT /admin/goods/{goods_no} asks for; unset or empty, there is no administration
  SERVICE_PASSWORD  password that --migrate-only lets the role seckill_service log in with; unset or empty, the role is
                    left as it is, and a new one may not log in
  ZOOKEEPER_AUTH    user:password that the service proves itself with to ZooKeeper, where nobody else may then use its
                    locks; unset or empty, they are open to anyone. Sent as it is: encrypt the connection
  RUST_LOG          what is logged, for instance info,demo_service=debug

Exit status: 0 after SIGINT or SIGTERM and after --migrate-only, 3 when the service cannot start, 64 for a wrong
command line; 130 or 143 when it was told to stop a second time, and did so at once.";

/// How log lines look.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum LogFormat {
    /// For people.
    Text,
    /// One JSON object a line.
    Json,
}

impl Config {
    /// Parses a command line, its first word being the program, and takes the secrets from the environment.
    ///
    /// # Errors
    /// A wrong command line, or a request for help or the version: [`clap::Error::print`] it either way.
    pub fn parse_from_env(words: impl IntoIterator<Item = OsString>) -> Result<Self, clap::Error> {
        let config = Self { admin_token: AdminToken::from_env(), ..Self::try_parse_from(words)? };
        let config = config.with_secrets().and_then(|config| config.check().map(|()| config));
        config.map_err(|wrong| Self::command().error(ErrorKind::ValueValidation, wrong))
    }

    /// The strategies that requests may name.
    pub fn offered(&self) -> impl Iterator<Item = &'static Entry> {
        let is_offered = |entry: &&Entry| {
            let mut named = self.offer.iter().chain([&self.strategy, &self.cart_strategy]);
            self.offer.is_empty() || named.any(|offered| offered.name == entry.name)
        };
        STRATEGIES.iter().filter(is_offered)
    }

    fn with_secrets(self) -> Result<Self, String> {
        let service_password = Secret::from_env(SERVICE_PASSWORD)?;
        Ok(Self { service_password, zookeeper_user: ZooKeeperUser::from_env()?, ..self })
    }

    /// Refuses a service without ZooKeeper, and times that cannot work together. All three count from the arrival of the request, so each must end
    /// before the next, or the answer would come from the wrong layer, and a request that was given up could still
    /// write.
    fn check(&self) -> Result<(), String> {
        if self.zookeeper.is_none() && !self.migrate_only {
            return Err("give the ZooKeeper servers as --zookeeper HOST:PORT (ZOOKEEPER_CONNECT)".to_owned());
        }
        let times =
            [("--lock-wait", self.lock_wait), ("--db-timeout", self.db_timeout), ("--http-timeout", self.http_timeout)];
        for [(inner, shorter), (outer, longer)] in [[times[0], times[1]], [times[1], times[2]]] {
            if shorter >= longer {
                return Err(format!("{inner} ({shorter:?}) must be less than {outer} ({longer:?})"));
            }
        }
        if self.hold.max() >= self.db_timeout {
            return Err(format!(
                "--hold ({}) must be less than --db-timeout ({:?}), as it passes inside the transaction",
                self.hold, self.db_timeout
            ));
        }
        Ok(())
    }
}

/// The administrator's bearer token. Compared in constant time and never shown.
#[derive(Clone)]
pub struct AdminToken(String);

impl AdminToken {
    /// A token, or `None` when `secret` is empty: an empty variable means that there is no administration.
    pub fn new(secret: String) -> Option<Self> {
        (!secret.is_empty()).then_some(Self(secret))
    }

    fn from_env() -> Option<Self> {
        std::env::var(ADMIN_TOKEN).ok().and_then(Self::new)
    }

    /// Whether `candidate` is the token. The time taken tells the length of the token at most.
    pub fn matches(&self, candidate: &[u8]) -> bool {
        self.0.as_bytes().ct_eq(candidate).into()
    }
}

impl fmt::Debug for AdminToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("AdminToken(hidden)")
    }
}

fn strategy_parser() -> impl TypedValueParser<Value = &'static Entry> {
    PossibleValuesParser::new(registry::names()).map(|name| registry::find(&name).expect("BUG: clap let it through"))
}

fn cart_strategy_parser() -> impl TypedValueParser<Value = &'static Entry> {
    let names = STRATEGIES.iter().filter(|entry| entry.carts).map(|entry| entry.name);
    PossibleValuesParser::new(names).map(|name| registry::find(&name).expect("BUG: clap let it through"))
}

fn positive_duration(text: &str) -> Result<Duration, &'static str> {
    match humantime::parse_duration(text) {
        Ok(duration) if (DURATION_MIN..=DURATION_MAX).contains(&duration) => Ok(duration),
        _ => Err("give a duration from 1ms to 1day with its unit, for instance 500ms, 10s or 1m"),
    }
}

fn instance_name(text: &str) -> Result<String, &'static str> {
    let printable = text.chars().all(|character| !character.is_control());
    if printable && (1..=100).contains(&text.len()) {
        Ok(text.to_owned())
    } else {
        Err("give a name of 1 to 100 bytes without control characters")
    }
}

fn default_instance() -> String {
    let host = nix::unistd::gethostname().ok().and_then(|name| name.into_string().ok());
    format!("{}-{}", host.as_deref().unwrap_or("localhost"), std::process::id())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(arguments: &[&str]) -> Result<Config, clap::Error> {
        let servers = ["demo-service", "--database-url", "postgres://localhost/lab", "--zookeeper", "localhost:2181"];
        Config::parse_from_env(servers.iter().chain(arguments).map(OsString::from))
    }

    #[test]
    fn the_command_line_is_well_formed() {
        Config::command().debug_assert();
    }

    #[test]
    fn the_default_strategy_is_a_row_of_the_registry() {
        assert_eq!(parse(&[]).unwrap().strategy.name, "zk-mutex");
        for name in registry::names() {
            assert_eq!(parse(&["--strategy", name]).unwrap().strategy.name, name);
        }
    }

    #[test]
    fn what_is_offered_are_the_defaults_and_what_is_named_beside_them() {
        let offered =
            |arguments: &[&str]| parse(arguments).unwrap().offered().map(|entry| entry.name).collect::<Vec<_>>();
        assert_eq!(offered(&[]), registry::names().collect::<Vec<_>>());
        assert_eq!(offered(&["--offer", "zk-multi"]), ["zk-mutex", "zk-multi"]);
        let safe =
            ["--strategy", "pg-conditional", "--cart-strategy", "pg-conditional", "--offer", "pg-row-lock,pg-advisory"];
        assert_eq!(offered(&safe), ["pg-conditional", "pg-row-lock", "pg-advisory"]);
    }

    #[test]
    fn wrong_command_lines_name_what_is_wrong() {
        for (arguments, expected) in [
            (&["--strategy", "hope"][..], "unguarded"),
            (&["--offer", "zk-mutex,hope"], "unguarded"),
            (&["--hold", "5"], "give a duration with its unit (2ms)"),
            (&["--lock-wait", "10s"], "--lock-wait (10s) must be less than --db-timeout (10s)"),
            (&["--db-timeout", "30s"], "--db-timeout (30s) must be less than --http-timeout (20s)"),
            (&["--hold", "1s..10s"], "--hold (1s..10s) must be less than --db-timeout (10s)"),
            (&["--zk-sessions", "0"], "0 is not in 1.."),
            (&["--lock-wait", "0s"], "from 1ms to 1day"),
            (&["--http-timeout", "1000years"], "from 1ms to 1day"),
            (&["--listen", "8080"], "8080"),
            (&["--instance", ""], "1 to 100 bytes"),
            (&["--zookeeper-ca", "ca.pem", "--zookeeper-cert", "shop.pem"], "--zookeeper-key"),
            (&["--zookeeper-cert", "shop.pem", "--zookeeper-key", "shop.key"], "--zookeeper-ca"),
        ] {
            let error = parse(arguments).err().unwrap();
            assert!(error.to_string().contains(expected), "{arguments:?}: {error}");
            assert!(error.use_stderr(), "{arguments:?}");
        }
    }

    #[test]
    fn a_token_is_matched_whole_and_never_shown() {
        assert!(AdminToken::new(String::new()).is_none());
        let token = AdminToken::new("sesame".to_owned()).unwrap();
        assert!(token.matches(b"sesame"));
        for wrong in ["", "sesam", "sesame ", "Sesame", "sesamesesame"] {
            assert!(!token.matches(wrong.as_bytes()), "{wrong:?}");
        }
        assert!(!format!("{token:?}").contains("sesame"));
    }
}
