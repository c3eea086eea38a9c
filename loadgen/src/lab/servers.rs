//! Postgres and ZooKeeper, and Redis if a strategy needs it: either named by the environment, or started for this run and stopped
//! with it.
//!
//! Each deployment of the service gets a database and a chroot of its own. Keys in Redis have the identity of their database.

use std::ops::RangeInclusive;
use std::time::Duration;

use sqlx::postgres::PgConnectOptions;
use sqlx::{AssertSqlSafe, ConnectOptions, Connection};
use testbed::{
    Ensemble, EnsembleConfig, PgBouncer, Postgres, PostgresConfig, Redis, RedisConfig, RedisDurability, TestChroot,
    TestDatabase, ZooKeeper, ZooKeeperConfig,
};

use crate::error::Error;
use crate::lab::postgres::Database;
use crate::lab::strategy::{Mechanism, Strategy};

/// Spare connections of a throwaway Postgres, for a user with `psql`.
const CONNECTIONS_SPARE: u32 = 38;

/// The session timeouts that an ensemble for faults grants.
pub(super) const SESSION_TIMEOUTS: RangeInclusive<Duration> = Duration::from_millis(500)..=Duration::from_secs(60);

/// The variable that names a Redis.
const REDIS_URL: &str = "REDIS_URL";
/// The name of the process of Redis in a report.
pub(super) const REDIS_PROCESS: &str = "redis";

/// What the strategies of a run ask of Redis.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum RedisNeed {
    /// No strategy needs it.
    None,
    /// Strategies that need it are left out where it is not installed.
    IfInstalled,
    /// A chosen strategy needs it.
    Chosen,
    /// Hazards are to strike it. So it is one of our own, and has no log that would survive a kill.
    Exposed,
}

impl RedisNeed {
    /// Returns the need of chosen strategies.
    pub(crate) fn of(strategies: &[Strategy]) -> RedisNeed {
        match strategies.iter().find(|strategy| strategy.mechanism == Mechanism::Redis) {
            None => RedisNeed::None,
            Some(strategy) if strategy.hazard.is_some() => RedisNeed::Exposed,
            Some(_) => RedisNeed::Chosen,
        }
    }
}

/// What a run with faults asks of its servers.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ExposedNeeds {
    /// Whether a strategy needs Redis.
    pub(crate) redis: bool,
    /// Whether the clocks of ZooKeeper servers are stepped.
    pub(crate) clocks: bool,
    /// Whether a pooler is between the instances and Postgres.
    pub(crate) pooler: bool,
}

/// The servers. `None`: the environment names one, or no strategy needs it.
pub(super) struct OwnServers {
    postgres: Option<Postgres>,
    zookeeper: Option<OwnZooKeeper>,
    redis: Option<Redis>,
    /// The URL of the Redis of the instances, if they have one.
    redis_url: Option<String>,
    /// Whether each deployment reaches Postgres through a pooler.
    is_pooled: bool,
    /// Upper bound of the connections of the deployments and this program to Postgres.
    connections: u32,
}

/// ZooKeeper, as it was started.
enum OwnZooKeeper {
    One(Box<ZooKeeper>),
    /// Servers with links that may fail, for one deployment.
    Several(Ensemble),
}

/// The servers that hazards and faults strike, as far as they were started.
#[derive(Default)]
pub(crate) struct ExposedServers<'a> {
    pub(super) redis: Option<&'a mut Redis>,
    /// Absent for a single server.
    pub(super) ensemble: Option<&'a mut Ensemble>,
    pub(super) postgres: Option<&'a mut Postgres>,
}

/// Room for one deployment on a server.
pub(super) struct Room {
    /// A database URL, or a connect string.
    pub(super) address: String,
    /// Removes the room when it is dropped, if the server keeps running.
    _namespace: Option<Box<dyn Send + Sync>>,
}

impl OwnServers {
    /// Starts those servers that the environment does not name. The deployments and this program may open at most
    /// `connections` to Postgres.
    pub(super) async fn start(connections: u32, redis: RedisNeed) -> Result<OwnServers, Error> {
        let zookeeper = async {
            let is_given = is_set("ZOOKEEPER_CONNECT");
            if is_given {
                return Ok(None);
            }
            ZooKeeper::start(ZooKeeperConfig::default()).await.map(|server| Some(OwnZooKeeper::One(Box::new(server))))
        };
        let postgres = async {
            let connections_max = connections + CONNECTIONS_SPARE;
            let config = PostgresConfig { connections_max, ..PostgresConfig::default() };
            if is_set("DATABASE_URL") { Ok(None) } else { Postgres::start(config).await.map(Some) }
        };
        let given_redis = std::env::var(REDIS_URL).ok().filter(|url| !url.is_empty() && redis != RedisNeed::None);
        if redis == RedisNeed::Exposed && given_redis.is_some() {
            let text = "hazards strike a Redis that this program has started; unset REDIS_URL, or remove --hazards";
            return Err(Error::Usage(text.to_owned()));
        }
        let durability = match redis {
            RedisNeed::Exposed => RedisDurability::None,
            RedisNeed::None | RedisNeed::IfInstalled | RedisNeed::Chosen => RedisDurability::Always,
        };
        let redis = async {
            if redis == RedisNeed::None || given_redis.is_some() {
                return Ok(None);
            }
            match Redis::start(RedisConfig { durability, ..RedisConfig::default() }).await {
                Err(testbed::Error::NotInstalled { .. }) if redis == RedisNeed::IfInstalled => Ok(None),
                started => started.map(Some),
            }
        };
        let (zookeeper, postgres, redis) = tokio::try_join!(zookeeper, postgres, redis)?;
        let redis_url = redis.as_ref().map(Redis::url).or(given_redis);
        Ok(OwnServers { postgres, zookeeper, redis, redis_url, is_pooled: false, connections })
    }

    /// Starts servers for faults: three of ZooKeeper, whose links may fail, Postgres, and Redis with a log if it is needed. The
    /// environment may name none of them.
    pub(super) async fn start_exposed(connections: u32, needs: ExposedNeeds) -> Result<OwnServers, Error> {
        let named = ["ZOOKEEPER_CONNECT", "DATABASE_URL", REDIS_URL].into_iter().find(|variable| is_set(variable));
        if let Some(variable) = named {
            let text = format!("faults strike only servers that this program has started; unset {variable}");
            return Err(Error::Usage(text));
        }
        let ensemble = EnsembleConfig {
            links: true,
            clocks: needs.clocks,
            session_timeouts: Some(SESSION_TIMEOUTS),
            ..EnsembleConfig::default()
        };
        let config = PostgresConfig { connections_max: connections + CONNECTIONS_SPARE, ..PostgresConfig::default() };
        let redis = async {
            let config = RedisConfig { durability: RedisDurability::Always, ..RedisConfig::default() };
            if needs.redis { Redis::start(config).await.map(Some) } else { Ok(None) }
        };
        let (ensemble, postgres, redis) = tokio::try_join!(Ensemble::start(ensemble), Postgres::start(config), redis)?;
        let redis_url = redis.as_ref().map(Redis::url);
        let zookeeper = Some(OwnZooKeeper::Several(ensemble));
        Ok(OwnServers { postgres: Some(postgres), zookeeper, redis, redis_url, is_pooled: needs.pooler, connections })
    }

    /// Tells whether all were started.
    pub(super) fn are_throwaway(&self) -> bool {
        let is_redis_given = self.redis_url.is_some() && self.redis.is_none();
        self.postgres.is_some() && self.zookeeper.is_some() && !is_redis_given
    }

    /// Tells whether instances reach Postgres through a pooler.
    pub(super) fn is_pooled(&self) -> bool {
        self.is_pooled
    }

    /// Returns the URL of the Redis of the instances, if they have one.
    pub(super) fn redis_url(&self) -> Option<&str> {
        self.redis_url.as_deref()
    }

    /// Returns what was started.
    pub(super) fn exposed(&mut self) -> ExposedServers<'_> {
        let ensemble = match &mut self.zookeeper {
            Some(OwnZooKeeper::Several(ensemble)) => Some(ensemble),
            Some(OwnZooKeeper::One(_)) | None => None,
        };
        ExposedServers { redis: self.redis.as_mut(), ensemble, postgres: self.postgres.as_mut() }
    }

    /// Returns the version of the Redis of the instances, if they have one.
    pub(super) async fn redis_version(&self) -> Option<String> {
        self.redis_url.as_ref()?;
        let version = async {
            let info = self.redis.as_ref()?.command(&["INFO", "server"]).await.ok()??;
            info.lines().find_map(|line| line.strip_prefix("redis_version:")).map(|version| version.trim().to_owned())
        };
        // A given server is not asked.
        Some(version.await.unwrap_or_else(|| "unknown".to_owned()))
    }

    /// Returns the servers that were started, by name and process.
    pub(super) fn processes(&self) -> Vec<(&'static str, i32)> {
        let postgres = self.postgres.as_ref().and_then(Postgres::pid);
        let zookeeper = match &self.zookeeper {
            Some(OwnZooKeeper::One(server)) => server.pid(),
            Some(OwnZooKeeper::Several(_)) | None => None,
        };
        let redis = self.redis.as_ref().and_then(Redis::pid);
        [("postgres", postgres), ("zookeeper", zookeeper), (REDIS_PROCESS, redis)]
            .into_iter()
            .filter_map(|(name, pid)| Some((name, pid?)))
            .collect()
    }

    /// Makes the database of a deployment, by its number from zero.
    pub(super) async fn database(&self, number: usize) -> Result<Room, Error> {
        let Some(server) = &self.postgres else {
            let database = TestDatabase::create().await?;
            let max = Database::connect(database.url()).await?.connections_max().await?;
            let needed = self.connections;
            if max < i64::from(needed) {
                return Err(Error::ConnectionsMax { max, needed });
            }
            return Ok(Room { address: database.url().to_owned(), _namespace: Some(Box::new(database)) });
        };
        let name = if number == 0 { "seckill".to_owned() } else { format!("seckill_{}", number + 1) };
        let create = async {
            let mut connection = server.url("postgres").parse::<PgConnectOptions>()?.connect().await?;
            // Not checked at compile time, because the statement makes the database against which it would be checked.
            sqlx::query(AssertSqlSafe(format!("create database {name}"))).execute(&mut connection).await?;
            connection.close().await
        };
        create.await.map_err(Error::postgres("create the database"))?;
        Ok(Room { address: server.url(&name), _namespace: None })
    }

    /// Starts a pooler between the instances of a deployment and its database, if the run has one. It hands out whole sessions, as the
    /// service asks.
    pub(super) async fn pooler(&self, database_url: &str) -> Result<Option<Room>, Error> {
        if !self.is_pooled {
            return Ok(None);
        }
        let sizes = format!("default_pool_size = {0}\nmax_client_conn = {0}", self.connections);
        let pooler = PgBouncer::start(database_url, &format!("pool_mode = session\n{sizes}")).await?;
        Ok(Some(Room { address: pooler.url(), _namespace: Some(Box::new(pooler)) }))
    }

    /// Makes the chroot of a deployment. A lone deployment has a throwaway server to itself.
    pub(super) async fn chroot(&self, is_alone: bool) -> Result<Room, Error> {
        let chroot = match &self.zookeeper {
            Some(OwnZooKeeper::Several(servers)) => {
                return Ok(Room { address: servers.connect_string(), _namespace: None });
            }
            Some(OwnZooKeeper::One(server)) if is_alone => {
                return Ok(Room { address: server.connect_string(), _namespace: None });
            }
            Some(OwnZooKeeper::One(server)) => TestChroot::create_on(server).await?,
            None => TestChroot::create().await?,
        };
        Ok(Room { address: chroot.connect_string().to_owned(), _namespace: Some(Box::new(chroot)) })
    }
}

/// Returns whether the environment names a server by this variable. Then none is started.
pub(crate) fn is_set(variable: &str) -> bool {
    std::env::var_os(variable).is_some_and(|value| !value.is_empty())
}
