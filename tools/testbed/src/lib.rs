//! Throwaway servers, faults between them and their clients, and guarded child processes.
//!
//! # Which one should I use?
//!
//! | you need | take |
//! |---|---|
//! | a database for one test | [`TestDatabase::create`] |
//! | a ZooKeeper namespace for one test | [`TestChroot::create`] |
//! | a server of your own, to restart, starve or stop | [`Postgres::start`], [`ZooKeeper::start`] |
//! | a server that goes away and comes back with its data | [`ZooKeeper::stop`], [`ZooKeeper::start_again`] |
//! | a server that grants other session timeouts after a restart | [`ZooKeeper::set_session_timeouts`] |
//! | a server that throttles, or enforces quotas or authentication | [`ZooKeeperConfig::properties`] |
//! | sequential nodes near the end of their numbers | [`ZooKeeper::number_next_child`] |
//! | replicated servers, to lose a leader or a quorum | [`Ensemble::start`] |
//! | replicated servers that cannot reach each other | [`Ensemble::isolate`], [`Ensemble::break_link`] |
//! | certificates, for servers that speak TLS | [`Authority::create`] |
//! | a network that fails: cut connections, lost replies, silence | [`Proxy::start`] in front of a server |
//! | a pooler in front of a Postgres server | [`PgBouncer::start`] |
//! | any other program as a child | [`Process::spawn`] |
//! | a MariaDB server | [`MariaDb::start`] |
//! | a Redis server, with or without a log, a password, a limit, replicas | [`Redis::start`], [`Redis::start_replica`] |
//! | a Redis that is killed, or restored from an older backup | [`Redis::kill`], [`Redis::restart`], [`Redis::dump`], [`Redis::restore`] |
//! | Apache JMeter, or Java that uses it | [`jmeter()`] |
//! | what a ZooKeeper or Redis server counts | [`four_letter_word`], [`zookeeper_version`], [`Redis::metric`], [`Counters`] |
//! | what a node of ZooKeeper has | [`node_data`] |
//! | whether a process stands still, and its children | [`ProcessStat`] |
//! | Postgres, ZooKeeper and perhaps Redis around a command | the binary: `testbed -- COMMAND` |
//!
//! # Nothing stays behind
//!
//! Every child runs under a small shell guard in a process group of its own, which holds one end of a socket and reads it.
//! The other end is owned by the Rust value. It closes when the value is dropped, when the process exits without dropping
//! its statics, and when any signal kills the process, `SIGKILL` included. Then the guard stops the child, kills it if it
//! does not stop in time, and removes its folder. The group is not the terminal's, so Ctrl-C reaches the child only through
//! its owner. The folder of the data of a ZooKeeper or Redis server has a guard to
//! itself, and stays while the server is stopped.
//!
//! # Nothing comes in
//!
//! A server has no variable of the user's environment but `PATH`, `HOME` and `LD_LIBRARY_PATH`. A client library may read more:
//! [`forget_postgres_variables`].
//!
//! # Examples
//!
//! ```no_run
//! # async fn example() -> Result<(), testbed::Error> {
//! use testbed::{Postgres, PostgresConfig, ZooKeeper, ZooKeeperConfig};
//!
//! let (postgres, zookeeper) = tokio::try_join!(
//!     Postgres::start(PostgresConfig::default()),
//!     ZooKeeper::start(ZooKeeperConfig::default()),
//! )?;
//! println!("{} {}", postgres.url("postgres"), zookeeper.connect_string());
//! # Ok(())
//! # }
//! ```

mod account;
mod authority;
mod chroot;
mod clock;
mod counters;
mod database;
mod disk;
mod ensemble;
mod error;
mod find;
mod folder;
mod four_letter;
mod guard;
mod jmeter;
mod kept;
mod lasting;
mod mariadb;
mod node;
mod pause;
mod pgbouncer;
mod port;
mod postgres;
mod process;
mod proxy;
mod ready;
mod redis;
mod signals;
mod stat;
mod variables;
mod worker;
mod zookeeper;

pub use authority::{Authority, Identity};
pub use chroot::TestChroot;
pub use counters::Counters;
pub use database::TestDatabase;
pub use ensemble::{Ensemble, EnsembleConfig, LinkFault};
pub use error::Error;
pub use find::{java, postgres_bin, redis_bin};
pub use four_letter::{four_letter_word, zookeeper_version};
pub use jmeter::jmeter;
pub use mariadb::MariaDb;
pub use node::{delete_below, lasting_below, node_data, restore_nodes};
pub use pgbouncer::PgBouncer;
pub use port::Port;
pub use postgres::{Postgres, PostgresConfig};
pub use process::{Process, ProcessConfig, Stdout, StopSignal};
pub use proxy::{Direction, Proxy, ProxyTraffic};
pub use redis::{Redis, RedisConfig, RedisDump, RedisDurability};
pub use signals::with_default_signals;
pub use stat::ProcessStat;
pub use variables::forget_postgres_variables;
pub use zookeeper::{ZooKeeper, ZooKeeperConfig, ZooKeeperTls};
