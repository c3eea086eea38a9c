//! Why the service cannot start.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use program::{Exit, chain};
use zk_recipes::Error::{Connect, CredentialsMissing, CredentialsRefused, InvalidTls, TlsRefused};

use crate::redis_store::RedisTrouble;
use crate::sessions::OpenError;

/// The service could not start. Each text is one line: what failed, the cause, then the remedy.
#[derive(Debug, thiserror::Error)]
pub enum SetupError {
    /// The listening socket could not be opened.
    #[error("cannot listen on {address}: {source}; choose another address with {setting}")]
    Listen {
        /// The address asked for.
        address: SocketAddr,
        /// The setting that names it.
        setting: &'static str,
        /// What the system said.
        source: std::io::Error,
    },
    /// The system allows too few open files.
    #[error(
        "the limit of {limit} open files is too low for --connections-max {asked} (CONNECTIONS_MAX): even the fewest client \
         connections need {needed}; raise it with ulimit -n, LimitNOFILE of systemd or ulimits of a compose file"
    )]
    OpenFiles {
        /// The limit of the system.
        limit: u64,
        /// The client connections asked for.
        asked: u32,
        /// The limit that a few client connections need.
        needed: u64,
    },
    /// The database URL is not a URL of Postgres.
    #[error(
        "the database url is not valid: {0}; give postgres://USER@HOST:PORT/DATABASE as --database-url (DATABASE_URL)"
    )]
    DatabaseUrl(String),
    /// The database did not answer, or refused.
    #[error("cannot use the database at {address}: {source}; check --database-url (DATABASE_URL)")]
    Database {
        /// Host, port and database, never the password.
        address: String,
        /// What the driver said.
        source: sqlx::Error,
    },
    /// TLS was asked for, but the database does not support it or did not prove its identity.
    #[error(
        "cannot use the database at {address} over TLS: {source}; check that its certificate is for this host, and that \
         sslrootcert in --database-url (DATABASE_URL) is a PEM file of the authority that issued it"
    )]
    DatabaseTls {
        /// Host, port and database, never the password.
        address: String,
        /// What the driver said.
        source: sqlx::Error,
    },
    /// The database server is too old: it lacks settings that the service needs.
    #[error(
        "the server of the database at {address} is too old: it is Postgres {version}, and 14 or newer is needed; upgrade it or \
         point --database-url (DATABASE_URL) at another one"
    )]
    DatabaseTooOld {
        /// Host, port and database.
        address: String,
        /// Its major version.
        version: u32,
    },
    /// A pooler gives the statements of a connection to changing server processes.
    #[error(
        "the database at {address} is behind a pooler that shares server processes among connections, so settings and locks do not \
         last; set pool_mode = session in pgbouncer, or name the server in --database-url (DATABASE_URL)"
    )]
    Pooler {
        /// Host, port and database.
        address: String,
    },
    /// The database cannot keep every text.
    #[error(
        "the database at {address} has the encoding {encoding}, which cannot keep every text; make one with create database NAME \
         encoding 'UTF8' template template0, and name it in --database-url (DATABASE_URL)"
    )]
    Encoding {
        /// Host, port and database.
        address: String,
        /// Its encoding.
        encoding: String,
    },
    /// The database has tables of another program.
    #[error(
        "the database at {address} belongs to another program: {source}; name an empty database in --database-url (DATABASE_URL)"
    )]
    NotEmpty {
        /// Host, port and database.
        address: String,
        /// What the database said.
        source: sqlx::Error,
    },
    /// The database did not finish connecting or migrating in time.
    #[error(
        "the database at {address} was not ready within {within:?}; check --database-url (DATABASE_URL) \
         and whether another migration is stuck"
    )]
    DatabaseTimeout {
        /// Host, port and database.
        address: String,
        /// The time limit.
        within: Duration,
    },
    /// The database was migrated by a later version of the service.
    #[error(
        "the database has migration {version}, which this build does not know; start a newer \
         demo-service or point --database-url (DATABASE_URL) at another database"
    )]
    SchemaNewer {
        /// The first migration that this build does not know.
        version: i64,
    },
    /// The database was migrated by a revision from before the first release.
    #[error(
        "the database at {address} has migration {version} of a revision before the first release, which is not upgraded; name \
         an empty database in --database-url (DATABASE_URL), or drop this one and create it again"
    )]
    SchemaEarlier {
        /// Host, port and database.
        address: String,
        /// The first migration that this build does not have any more.
        version: i64,
    },
    /// A migration in the database differs from the migration embedded in this build.
    #[error(
        "migration {version} was applied to the database with other contents; point --database-url (DATABASE_URL) at a database \
         that this build migrated"
    )]
    SchemaDiffers {
        /// The migration that differs.
        version: i64,
    },
    /// The database lacks a migration, and the role may not apply it.
    #[error(
        "the database at {address} lacks migration {version}, or keeps it from the role {role}, which may not create \
         tables; run demo-service --migrate-only with the owner's url as --database-url (DATABASE_URL) first"
    )]
    SchemaOlder {
        /// Host, port and database.
        address: String,
        /// The role of the database URL.
        role: String,
        /// The first migration that is missing.
        version: i64,
    },
    /// The role of the service could not be created, or not get its rights or its password.
    #[error(
        "cannot prepare the role seckill_service: {0}; run --migrate-only as a role that owns the tables and may create \
         roles, or create the role by hand and leave SERVICE_PASSWORD out"
    )]
    ServiceRole(#[source] sqlx::Error),
    /// The database belongs to another ZooKeeper ensemble.
    #[error(
        "{0}; name that ensemble as --zookeeper (ZOOKEEPER_CONNECT); or, if the other one replaces it, stop every instance and run \
         demo-service --adopt-zookeeper as the owner of the database"
    )]
    OtherEnsemble(#[source] Box<dyn std::error::Error + Send + Sync>),
    /// The sessions are on two ZooKeeper ensembles.
    #[error(
        "{0}; let --zookeeper (ZOOKEEPER_CONNECT) name the servers of one ensemble only, and look whether a server has lost its data"
    )]
    TwoEnsembles(#[source] OpenError),
    /// An instance uses the database, so it cannot change hands.
    #[error(
        "cannot adopt the ZooKeeper ensemble: instances of the service are connected to the database (server processes {}); stop \
         every instance first, and end the connections of one that cannot be reached with select pg_terminate_backend(…)",
        .pids.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ")
    )]
    InstancesConnected {
        /// The server processes of their connections.
        pids: Vec<i32>,
    },
    /// The ensemble could not be noted in the database.
    #[error("cannot adopt the ZooKeeper ensemble: {0}; run --adopt-zookeeper as the role that owns the tables")]
    Adoption(#[source] sqlx::Error),
    /// A migration failed.
    #[error("cannot migrate the database at {address}: {source}; the role needs the right to create tables")]
    Migrate {
        /// Host, port and database.
        address: String,
        /// What the migrator said.
        source: sqlx::migrate::MigrateError,
    },
    /// No session with ZooKeeper could be opened. The source names the servers.
    #[error("cannot open a ZooKeeper session: {}; check --zookeeper (ZOOKEEPER_CONNECT)", chain(.0))]
    ZooKeeper(#[source] zk_recipes::Error),
    /// ZooKeeper closes further connections: it has as many of this host as it allows.
    #[error(
        "cannot open all ZooKeeper sessions: {}; give fewer --zk-sessions (ZK_SESSIONS) or raise maxClientCnxns of the ZooKeeper \
         servers, which by default allows 60 connections of one host",
        chain(.0)
    )]
    TooManySessions(#[source] zk_recipes::Error),
    /// A file for TLS cannot be read.
    #[error("cannot read {path} of {setting}: {source}; give a PEM file that the service may read", path = .path.display())]
    TlsFile {
        /// The setting that names the file.
        setting: &'static str,
        /// The file.
        path: PathBuf,
        /// What the system said.
        source: std::io::Error,
    },
    /// No ZooKeeper server proves its identity or accepts the certificate of the service. Or a file for TLS is not
    /// valid.
    #[error(
        "cannot open an encrypted ZooKeeper session: {}; check {authority} of --zookeeper-ca (ZOOKEEPER_CA), --zookeeper-cert \
         (ZOOKEEPER_CERT) and --zookeeper-key (ZOOKEEPER_KEY)",
        chain(.source),
        authority = .authority.display()
    )]
    ZooKeeperTls {
        /// The file with the certificate of the authority.
        authority: PathBuf,
        /// What is wrong, and with which server.
        source: zk_recipes::Error,
    },
    /// ZooKeeper answers, but refuses to grant a lock or to keep the identity of the ensemble.
    #[error(
        "cannot take a lock in ZooKeeper: {}; allow creating and deleting below the chroot of --zookeeper (ZOOKEEPER_CONNECT) or \
         give the user whose locks they are in ZOOKEEPER_AUTH",
        chain(.0)
    )]
    LockRefused(#[source] zk_recipes::Error),
    /// The URL of Redis is not valid.
    #[error(
        "the Redis url is not valid: {0}; give redis://:PASSWORD@HOST:PORT/ or rediss://… as --redis-url (REDIS_URL)"
    )]
    RedisUrl(String),
    /// Redis does not answer, refuses, or is not fit for locks. The source has the remedy.
    #[error("cannot use the Redis at {address}: {source}")]
    Redis {
        /// Host and port, never the password.
        address: String,
        /// What is wrong with it.
        source: RedisTrouble,
    },
    /// Another instance cannot hand purchases over to this one.
    #[error(
        "the instance at {theirs} is in another network and does not reach this one at {ours}; give each instance an address \
         that the others reach, by --peers-listen (PEERS_LISTEN) and --peers-address (PEERS_ADDRESS)"
    )]
    NotReached {
        /// The address of this instance.
        ours: String,
        /// The address of the other one.
        theirs: String,
    },
    /// The log filter could not be parsed.
    #[error("the log filter is not valid: {0}; give RUST_LOG as, for instance, info,demo_service=debug")]
    LogFilter(#[source] tracing_subscriber::filter::ParseError),
    /// The ready line could not be written to standard output.
    #[error("cannot write to standard output: {0}; leave it open or redirect it")]
    Stdout(#[source] std::io::Error),
    /// The signal handlers could not be installed.
    #[error("cannot listen for signals: {0}; run on a system that has SIGINT, SIGTERM and SIGHUP")]
    Signals(#[source] std::io::Error),
}

impl SetupError {
    /// Returns the exit. A setting that is malformed, or that names a server that refuses the service or does not fit, is a wrong
    /// environment: starting again does not help.
    pub fn exit(&self) -> Exit {
        let is_setting = match self {
            Self::DatabaseUrl(_) | Self::DatabaseTooOld { .. } | Self::Pooler { .. } | Self::Encoding { .. } => true,
            Self::NotEmpty { .. }
            | Self::SchemaNewer { .. }
            | Self::SchemaEarlier { .. }
            | Self::SchemaDiffers { .. } => true,
            Self::OtherEnsemble(_) | Self::TwoEnsembles(_) | Self::RedisUrl(_) | Self::LogFilter(_) => true,
            Self::Database { source, .. } => is_refused(source),
            Self::Redis { source, .. } => source.is_of_setting(),
            _ => false,
        };
        if is_setting { Exit::Usage } else { Exit::Setup }
    }

    /// Returns the error for this many sessions that could not be opened. `authority` is the file of `--zookeeper-ca`.
    pub fn of_sessions(error: OpenError, count: u16, authority: Option<&Path>) -> Self {
        match (error, authority) {
            (OpenError::Session(source @ (TlsRefused { .. } | InvalidTls { .. })), Some(authority)) => {
                Self::ZooKeeperTls { authority: authority.to_owned(), source }
            }
            // A proxy before a server that has not started closes connections, too. One session is never too many.
            (OpenError::Session(source @ Connect { is_limited: true, .. }), _) if count > 1 => {
                Self::TooManySessions(source)
            }
            (OpenError::Session(source @ (CredentialsMissing { .. } | CredentialsRefused { .. })), _)
            | (OpenError::Identity(source), _) => Self::LockRefused(source),
            (OpenError::Session(source), _) => Self::ZooKeeper(source),
            (error @ OpenError::TwoEnsembles(_), _) => Self::TwoEnsembles(error),
        }
    }
}

/// Returns whether the database refused the user, the password or the name of the database.
fn is_refused(error: &sqlx::Error) -> bool {
    /// The class of an invalid authorization, and the code of a database that does not exist.
    const REFUSED: [&str; 2] = ["28", "3D000"];
    let code = error.as_database_error().and_then(sqlx::error::DatabaseError::code);
    code.is_some_and(|code| REFUSED.iter().any(|refused| code.starts_with(refused)))
}
