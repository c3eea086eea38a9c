//! The command line, and the configuration made from it.

mod help;
mod servers;
mod times;
mod values;

use std::convert::Infallible;
use std::env;
use std::ffi::OsString;
use std::net::SocketAddr;
use std::num::NonZeroU32;
use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::error::ErrorKind;
use clap::{CommandFactory, FromArgMatches, Parser};
use program::renamed;

use self::values::{
    default_instance, instance_name, key_lifetime, lock_ttl, positive_duration, rate, reachable_address,
    session_timeout, strategy_parser,
};
use crate::sale::{BusinessTime, LockSequence};
use crate::secrets::{ADMIN_TOKEN, REDIS_URL, SERVICE_PASSWORD, Secret, ZOOKEEPER_AUTH, ZooKeeperUser};
use crate::strategy::entry::{Entry, Mechanism};
use crate::strategy::owner;
use crate::strategy::registry::STRATEGIES;
use crate::telemetry::LogFormat;

/// Sells the stock of a flash sale over HTTP, decided by a strategy of your choice.
#[derive(Clone, Parser)]
#[command(name = "demo-service", version, max_term_width = 100, after_help = help::epilogue().to_string())]
#[command(mut_args(help::grouped()))]
pub struct Config {
    /// Address for buyers; port 0 takes any free port
    #[arg(long, env, default_value = "127.0.0.1:8080", value_name = "ADDRESS:PORT")]
    pub listen: SocketAddr,
    /// Address for operators: /metrics, /admin and the probes. Buyers then reach neither /metrics nor /admin [default: none]
    #[arg(long, env, value_name = "ADDRESS:PORT")]
    pub operators_listen: Option<SocketAddr>,
    /// Address for the other instances, which hand the buyers of zk-owner over to the owner of a SKU. It is open only if zk-owner
    /// is offered. The connections are not encrypted. The default serves instances on one host
    #[arg(long = "peers-listen", env = "PEERS_LISTEN", default_value = "127.0.0.1:0", value_name = "ADDRESS:PORT")]
    pub instances_listen: SocketAddr,
    /// Address at which the other instances reach --peers-listen [default: the address of --peers-listen]
    #[arg(long = "peers-address", env = "PEERS_ADDRESS", value_name = "HOST:PORT", value_parser = reachable_address)]
    pub instances_address: Option<String>,
    /// Name that this instance writes into its orders [default: the host name and the process id]
    #[arg(
        long,
        env,
        default_value_t = default_instance(),
        hide_default_value = true,
        value_name = "NAME",
        value_parser = instance_name,
    )]
    pub instance: String,
    /// Postgres server, as postgres://USER:PASSWORD@HOST:PORT/DATABASE. If the user may create tables, the service migrates the
    /// database at its start. Otherwise it only checks the tables. ?sslmode=verify-full&sslrootcert=FILE encrypts the connection
    /// and checks the server's certificate. A password that the URL lacks comes from PGPASSWORD, or else from the file in
    /// PGPASSFILE or ~/.pgpass. Only its owner may read that file
    #[arg(long, env, value_name = "URL")]
    pub database_url: String,
    /// Migrates the database as its owner, makes the role seckill_service with only the rights that the service needs, and ends
    #[arg(long, env)]
    pub migrate_only: bool,
    /// File with the password of the role seckill_service, instead of SERVICE_PASSWORD
    #[arg(long, env, value_name = "FILE")]
    pub service_password_file: Option<PathBuf>,
    /// Upper bound of the database connections for requests. A purchase that waits for a lock of Postgres occupies one. Two
    /// more connections serve the probes and ask whether a commit is over
    #[arg(long, env, default_value_t = 20, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub db_connections: u32,
    /// ZooKeeper servers, with the chroot at the end if there is one. Required without --migrate-only
    #[arg(long, env = "ZOOKEEPER_CONNECT", value_name = "HOST:PORT,…")]
    pub zookeeper: Option<String>,
    /// Makes these ZooKeeper servers the ones whose locks protect the sales of the database, as its owner, and ends. Needed after
    /// an ensemble was rebuilt or the chroot has changed. Refused while an instance is connected to the database
    #[arg(long, env, conflicts_with = "migrate_only")]
    pub adopt_zookeeper: bool,
    /// File with USER:PASSWORD for ZooKeeper, instead of ZOOKEEPER_AUTH
    #[arg(long, env, value_name = "FILE")]
    pub zookeeper_auth_file: Option<PathBuf>,
    /// PEM file of the authority that issued the certificates of the ZooKeeper servers. It turns TLS on for all of them
    #[arg(long, env, value_name = "FILE")]
    pub zookeeper_ca: Option<PathBuf>,
    /// PEM file with the certificate that the service shows to ZooKeeper
    #[arg(long, env, value_name = "FILE", requires_all = ["zookeeper_ca", "zookeeper_key"])]
    pub zookeeper_cert: Option<PathBuf>,
    /// PEM file with the private key of --zookeeper-cert
    #[arg(long, env, value_name = "FILE", requires = "zookeeper_cert")]
    pub zookeeper_key: Option<PathBuf>,
    /// ZooKeeper sessions of the instance, which purchases use in rotation
    #[arg(long, env, default_value_t = 1, value_name = "N", value_parser = clap::value_parser!(u16).range(1..))]
    pub zk_sessions: u16,
    /// Silence after which ZooKeeper ends a session and frees its locks. Also the longest time to open a session
    #[arg(long, env, default_value = "10s", value_name = "TIME", value_parser = session_timeout)]
    pub zk_session_timeout: Duration,
    /// Redis server for redis-lock and redis-lock-fenced, as redis://:PASSWORD@HOST:PORT/DATABASE, or rediss://… for TLS. Without it,
    /// they are not offered. All instances must name one server
    #[arg(long, env, value_name = "URL")]
    pub redis_url: Option<OsString>,
    /// File with the URL of Redis, instead of REDIS_URL
    #[arg(long, env, value_name = "FILE")]
    pub redis_url_file: Option<PathBuf>,
    /// PEM file of the authority that issued the certificate of Redis, for rediss:// [default: the authorities of the system]
    #[arg(long, env, value_name = "FILE")]
    pub redis_ca: Option<PathBuf>,
    /// Time to live of a lock in Redis. A holder renews it after a third of that
    #[arg(long, env, default_value = "30s", value_name = "TIME", value_parser = lock_ttl)]
    pub redis_lock_ttl: Duration,
    /// Strategy of every sale for which neither the administrator nor the first purchase names another
    #[arg(long, env, default_value = "zk-mutex", value_name = "STRATEGY", value_parser = strategy_parser())]
    pub strategy: &'static Entry,
    /// Strategies that a sale or a request may name. --strategy is always one of them [default: all]
    #[arg(
        long,
        env,
        value_delimiter = ',',
        value_name = "STRATEGY,…",
        value_parser = strategy_parser(),
        hide_possible_values = true
    )]
    pub offer: Vec<&'static Entry>,
    /// Prints what GET /strategies would answer, and ends. Checks the whole command line for it, and connects to nothing
    #[arg(long, env)]
    pub list_strategies: bool,
    /// Business time of a deduction: fixed (2ms) or uniform (1ms..5ms)
    #[arg(long, env, default_value = "0ms", value_name = "TIME")]
    pub business_time: BusinessTime,
    /// The former name of `--business-time`.
    #[arg(long, env, hide = true, value_parser = renamed("--business-time (BUSINESS_TIME)"))]
    pub hold: Option<Infallible>,
    /// Order in which a purchase takes the locks of its cart
    #[arg(long, env, default_value = "canonical", value_name = "ORDER")]
    pub lock_order: LockSequence,
    /// Permits of zk-semaphore: buyers of one SKU that may be in the database at once
    #[arg(long, env, default_value_t = 4, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub permits: u32,
    /// Time for which a reservation of pg-reserve holds its units. A purchase in one request holds them for its business time
    #[arg(long, env, default_value = "60s", value_name = "TIME", value_parser = positive_duration)]
    pub reservation_ttl: Duration,
    /// Upper bound of the attempts of one deduction after conflicts (pg-optimistic, pg-serializable)
    #[arg(long, env, default_value_t = 200, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub attempts_max: u32,
    /// Remembers in memory which SKUs are sold out, and refuses their buyers after one shared read, without a lock
    #[arg(long, env)]
    pub remember_sold_out: bool,
    /// Deadline for the lock of a deduction, counted from the arrival of the request
    #[arg(long, env, default_value = "5s", value_name = "TIME", value_parser = positive_duration)]
    pub lock_wait: Duration,
    /// Deadline for a whole deduction, counted from the arrival of the request. Also the upper bound of each wait for a database
    /// connection, a statement or a row lock
    #[arg(long, env, default_value = "10s", value_name = "TIME", value_parser = positive_duration)]
    pub db_timeout: Duration,
    /// Deadline for the answer, counted from the arrival of the request
    #[arg(long, env, default_value = "20s", value_name = "TIME", value_parser = positive_duration)]
    pub http_timeout: Duration,
    /// Time for which the service at least remembers an idempotency key after its order. Time in which no instance runs does not
    /// count
    #[arg(long, env, default_value = "24h", value_name = "TIME", value_parser = key_lifetime)]
    pub key_lifetime: Duration,
    /// Upper bound of the buyers' requests in progress, lower if --connections-max is low; the service refuses further ones
    #[arg(long, env, default_value_t = 2048, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub concurrency_max: u32,
    /// Upper bound of the client connections of each listener, lower if the limit of open files is low. A further one
    /// replaces the one whose last purchase is longest ago
    #[arg(long, env, default_value_t = 4096, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub connections_max: u32,
    /// Upper bound of the connections of one client. A further one replaces another one of the client. A client is
    /// as for --rate-per-client, so do not set it behind a proxy. It does not count for --peers-listen [default: unlimited]
    #[arg(long, env, value_name = "N")]
    pub connections_per_client: Option<NonZeroU32>,
    /// Purchases per second of one client, and its largest burst; the service answers 429 to more. A client is an IPv4 address
    /// or a /64 network of IPv6. Behind a proxy all buyers have the proxy's address: let the proxy limit them there
    /// [default: unlimited]
    #[arg(long, env, value_name = "N", value_parser = rate)]
    pub rate_per_client: Option<NonZeroU32>,
    /// Purchases per second under one Idempotency-Key, and the largest burst; the service answers 429 to more
    /// [default: unlimited]
    #[arg(long, env, value_name = "N", value_parser = rate)]
    pub rate_per_key: Option<NonZeroU32>,
    /// File with the token of the administrator, instead of ADMIN_TOKEN
    #[arg(long, env, value_name = "FILE")]
    pub admin_token_file: Option<PathBuf>,
    /// Records of critical sections that are kept for GET /admin/history; new records replace the oldest
    #[arg(
        long,
        env,
        default_value_t = 65_536,
        value_name = "N",
        value_parser = clap::value_parser!(u32).range(1..=10_000_000)
    )]
    pub history: u32,
    /// Format of the log, which goes to standard error
    #[arg(long, env, default_value = "text", value_name = "FORMAT")]
    pub log_format: LogFormat,
    /// Token of the administrator. Without a token there is no administration.
    #[arg(skip)]
    pub admin_token: Option<Secret>,
    /// Password that the role of the service gets when `--migrate-only` migrates the database.
    #[arg(skip)]
    pub service_password: Option<Secret>,
    /// URL of Redis, from wherever it was given.
    #[arg(skip)]
    pub redis: Option<Secret>,
    /// User of the service in ZooKeeper. Without a user, the sessions do not authenticate.
    #[arg(skip)]
    pub zookeeper_user: Option<ZooKeeperUser>,
}

impl Config {
    /// Parses a command line, whose first word is the program. Takes the secrets from the environment or from their
    /// files.
    ///
    /// # Errors
    /// A wrong command line, or a request for help or for the version. In both cases, [`clap::Error::print`] it.
    pub fn parse_from_env(words: impl IntoIterator<Item = OsString>) -> Result<Self, clap::Error> {
        let mut command = Self::command();
        let matches = command.try_get_matches_from_mut(words)?;
        let config = Self::from_arg_matches(&matches).map_err(|wrong| wrong.format(&mut command))?.with_secrets();
        let config = config.and_then(|config| config.check().map(|()| config));
        config.map_err(|wrong| Self::command().error(ErrorKind::ValueValidation, wrong))
    }

    /// Returns the strategies that requests may name. Those of Redis need a Redis, except in a mere list.
    pub fn offered(&self) -> impl Iterator<Item = &'static Entry> {
        let has_redis = self.redis.is_some() || self.list_strategies;
        let is_offered = move |entry: &&Entry| {
            let mut named = self.offer.iter().chain([&self.strategy]);
            let is_named = self.offer.is_empty() || named.any(|offered| offered.name == entry.name);
            is_named && (has_redis || entry.mechanism != Mechanism::Redis)
        };
        STRATEGIES.iter().filter(is_offered)
    }

    /// Returns whether the instances hand purchases over to each other: a strategy that does it is offered.
    pub fn hands_over(&self) -> bool {
        self.offered().any(|entry| entry.name == owner::NAME)
    }

    fn with_secrets(self) -> Result<Self, String> {
        let secret = |variable: &str, file: Option<&Path>| Secret::read(variable, env::var_os(variable), file);
        let zookeeper_user = secret(ZOOKEEPER_AUTH, self.zookeeper_auth_file.as_deref())?;
        Ok(Self {
            redis: Secret::read(REDIS_URL, self.redis_url.clone(), self.redis_url_file.as_deref())?,
            redis_url: None,
            admin_token: secret(ADMIN_TOKEN, self.admin_token_file.as_deref())?,
            service_password: secret(SERVICE_PASSWORD, self.service_password_file.as_deref())?,
            zookeeper_user: zookeeper_user.map(|user| ZooKeeperUser::parse(user.expose())).transpose()?,
            ..self
        })
    }

    /// Returns whether the service limits the rate of purchases, per client or per idempotency key.
    pub fn limits_rates(&self) -> bool {
        self.rate_per_client.is_some() || self.rate_per_key.is_some()
    }

    /// Refuses a service without ZooKeeper, and settings that do not fit together.
    fn check(&self) -> Result<(), String> {
        if self.zookeeper.is_none() && !self.migrate_only {
            return Err("give the ZooKeeper servers as --zookeeper HOST:PORT (ZOOKEEPER_CONNECT)".to_owned());
        }
        self.check_redis()?;
        self.check_instances()?;
        self.check_times()
    }

    /// Refuses strategies of Redis that are named without a Redis.
    fn check_redis(&self) -> Result<(), String> {
        let mut named = self.offer.iter().chain([&self.strategy]).filter(|entry| entry.mechanism == Mechanism::Redis);
        match named.next() {
            Some(entry) if self.redis.is_none() && !self.list_strategies => Err(format!(
                "{} needs a Redis: give its server as --redis-url redis://HOST:PORT/ (REDIS_URL)",
                entry.name
            )),
            Some(_) | None => Ok(()),
        }
    }

    /// Refuses an address at which no other instance reaches this one.
    fn check_instances(&self) -> Result<(), String> {
        let listen = self.instances_listen;
        match &self.instances_address {
            _ if !self.hands_over() => Ok(()),
            None if listen.ip().is_unspecified() => Err(format!(
                "--peers-listen {listen} (PEERS_LISTEN) needs --peers-address HOST:PORT (PEERS_ADDRESS): how the other instances reach it"
            )),
            Some(address) if listen.port() == 0 => Err(format!(
                "--peers-address {address} (PEERS_ADDRESS) needs a port in --peers-listen (PEERS_LISTEN): {listen} takes any \
                 free port; give --peers-listen 0.0.0.0:PORT"
            )),
            None | Some(_) => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::strategy::registry;

    fn parse(arguments: &[&str]) -> Result<Config, clap::Error> {
        let servers = ["demo-service", "--database-url", "postgres://localhost/lab", "--zookeeper", "localhost:2181"];
        let redis = ["--redis-url", "redis://localhost"];
        Config::parse_from_env(servers.iter().chain(&redis).chain(arguments).map(OsString::from))
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
    fn the_default_is_offered_and_what_is_named_beside_it() {
        let offered =
            |arguments: &[&str]| parse(arguments).unwrap().offered().map(|entry| entry.name).collect::<Vec<_>>();
        assert_eq!(offered(&[]), registry::names().collect::<Vec<_>>());
        assert_eq!(offered(&["--offer", "zk-multi"]), ["zk-mutex", "zk-multi"]);
        let safe = ["--strategy", "pg-conditional", "--offer", "pg-row-lock,pg-advisory"];
        assert_eq!(offered(&safe), ["pg-conditional", "pg-row-lock", "pg-advisory"]);
    }

    // S60
    #[test]
    fn wrong_command_lines_name_what_is_wrong() {
        for (arguments, expected) in [
            (&["--strategy", "hope"][..], "unguarded"),
            (&["--offer", "zk-mutex,hope"], "unguarded"),
            (&["--business-time", "5"], "give a duration with its unit (2ms)"),
            (&["--hold", "2ms"], "use --business-time (BUSINESS_TIME)"),
            (&["--lock-wait", "10s"], "--lock-wait (10s) must be less than --db-timeout (10s)"),
            (&["--db-timeout", "30s"], "--db-timeout (30s) must be less than --http-timeout (20s)"),
            (
                &["--business-time", "1s..5s"],
                "--lock-wait (5s) and --business-time (1s..5s) together must be less than --db-timeout (10s)",
            ),
            (&["--reservation-ttl", "0s"], "from 1ms to 1day"),
            (
                &["--reservation-ttl", "5ms", "--business-time", "1ms..5ms"],
                "--business-time (1ms..5ms) must be less than --reservation-ttl (5ms)",
            ),
            (&["--zk-session-timeout", "999ms"], "from 1s to 10m"),
            (&["--zk-session-timeout", "11m"], "from 1s to 10m"),
            (&["--redis-lock-ttl", "999ms"], "from 1s to 10m"),
            (&["--key-lifetime", "0s"], "from 1s to 365days"),
            (&["--key-lifetime", "40s"], "--key-lifetime (40s) must be more than twice --http-timeout (20s)"),
            (&["--zk-sessions", "0"], "0 is not in 1.."),
            (&["--rate-per-client", "0"], "give a number of purchases a second, from 1 to 4294967295"),
            (&["--rate-per-key", "1.5"], "give a number of purchases a second"),
            (&["--lock-wait", "0s"], "from 1ms to 1day"),
            (&["--http-timeout", "1000years"], "from 1ms to 1day"),
            (&["--listen", "8080"], "8080"),
            (&["--instance", ""], "1 to 100 bytes"),
            (&["--peers-listen", "0.0.0.0:7070"], "needs --peers-address HOST:PORT"),
            (&["--peers-address", "demo-1"], "give a host and a port"),
            (&["--peers-address", "demo-1:0"], "give a host and a port"),
            (&["--peers-listen", "0.0.0.0:7070", "--peers-address", "0.0.0.0:7070"], "that the other instances reach"),
            (&["--peers-listen", "[::]:7070", "--peers-address", "[::]:7070"], "that the other instances reach"),
            (
                &["--peers-address", "demo-1:7070"],
                "--peers-address demo-1:7070 (PEERS_ADDRESS) needs a port in --peers-listen",
            ),
            (&["--zookeeper-ca", "ca.pem", "--zookeeper-cert", "shop.pem"], "--zookeeper-key"),
            (&["--zookeeper-cert", "shop.pem", "--zookeeper-key", "shop.key"], "--zookeeper-ca"),
        ] {
            let error = parse(arguments).err().unwrap();
            assert!(error.to_string().contains(expected), "{arguments:?}: {error}");
            assert!(error.use_stderr(), "{arguments:?}");
        }
    }
}
