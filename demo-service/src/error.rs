//! What can go wrong: [`SetupError`] before the service is ready, [`Failure`] for one request.
//!
//! A failure knows whether anything can have been written; [`crate::problem`] turns it into the answer a client sees.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use zk_recipes::Error::{InvalidTls, TlsRefused};

use crate::config::Config;

/// The service could not start. Each text is one line that names the thing and the remedy.
#[derive(Debug, thiserror::Error)]
pub enum SetupError {
    /// The listening socket could not be had.
    #[error("cannot listen on {address}: {source}; choose another address with --listen (LISTEN)")]
    Listen {
        /// The address asked for.
        address: SocketAddr,
        /// What the system said.
        source: std::io::Error,
    },
    /// The database URL is not one of Postgres.
    #[error(
        "the database url is not valid: {0}; give postgres://USER@HOST:PORT/DATABASE as --database-url (DATABASE_URL)"
    )]
    DatabaseUrl(String),
    /// The database did not answer, or refused.
    #[error("cannot use the database at {place}: {source}; check --database-url (DATABASE_URL)")]
    Database {
        /// Host, port and database, never the password.
        place: String,
        /// What the driver said.
        source: sqlx::Error,
    },
    /// The database speaks no TLS, or did not prove who it is, where that was asked for.
    #[error(
        "cannot use the database at {place} over TLS: {source}; check that its certificate is for this host, and that \
         sslrootcert in --database-url (DATABASE_URL) is a PEM file of the authority that issued it"
    )]
    DatabaseTls {
        /// Host, port and database, never the password.
        place: String,
        /// What the driver said.
        source: sqlx::Error,
    },
    /// The database did not finish connecting or migrating in time.
    #[error(
        "the database at {place} was not ready within {within:?}; check --database-url (DATABASE_URL) \
         and whether another migration is stuck"
    )]
    DatabaseTimeout {
        /// Host, port and database.
        place: String,
        /// How long was waited.
        within: Duration,
    },
    /// The database was migrated by a later version of the service.
    #[error(
        "the database has migration {version}, which this build does not know; start a newer \
         demo-service or point --database-url (DATABASE_URL) at another database"
    )]
    SchemaNewer {
        /// The first migration that is not known here.
        version: i64,
    },
    /// A migration in the database has other contents than the one embedded here.
    #[error(
        "migration {version} was applied to the database with other contents; point --database-url \
         (DATABASE_URL) at a database that this build migrated"
    )]
    SchemaDiffers {
        /// The migration that differs.
        version: i64,
    },
    /// The database lacks a migration, and the role may not make up for it.
    #[error(
        "the database at {place} lacks migration {version}, or keeps it from the role {role}, which may not create \
         tables; run demo-service --migrate-only with the owner's url as --database-url (DATABASE_URL) first"
    )]
    SchemaOlder {
        /// Host, port and database.
        place: String,
        /// Who asked.
        role: String,
        /// The first migration that is missing.
        version: i64,
    },
    /// The role of the service could not be made, given its rights, or given its password.
    #[error(
        "cannot prepare the role {role} of the service: {0}; run --migrate-only as a role that owns the tables and may \
         create roles, or create the role by hand and leave SERVICE_PASSWORD out",
        role = crate::database::SERVICE_ROLE
    )]
    ServiceRole(#[source] sqlx::Error),
    /// A migration failed.
    #[error("cannot migrate the database at {place}: {source}; the role needs the right to create tables")]
    Migrate {
        /// Host, port and database.
        place: String,
        /// What the migrator said.
        source: sqlx::migrate::MigrateError,
    },
    /// No session with ZooKeeper could be had. The source names the servers.
    #[error("cannot open a ZooKeeper session, check --zookeeper (ZOOKEEPER_CONNECT): {0}")]
    ZooKeeper(#[source] zk_recipes::Error),
    /// A file for TLS with ZooKeeper cannot be read.
    #[error("cannot read {path} of {setting}: {source}; give a PEM file that the service may read", path = .path.display())]
    ZooKeeperFile {
        /// Which setting names it.
        setting: &'static str,
        /// The file.
        path: PathBuf,
        /// What the system said.
        source: std::io::Error,
    },
    /// No server of ZooKeeper proves who it is, or accepts how the service does.
    #[error(
        "cannot open an encrypted ZooKeeper session, check {authority} of --zookeeper-ca (ZOOKEEPER_CA), --zookeeper-cert \
         (ZOOKEEPER_CERT) and --zookeeper-key (ZOOKEEPER_KEY): {source}",
        authority = .authority.display()
    )]
    ZooKeeperTls {
        /// The file with the certificate of the authority.
        authority: PathBuf,
        /// What is wrong, and with which server.
        source: zk_recipes::Error,
    },
    /// ZooKeeper answers, but no lock can be taken there.
    #[error(
        "cannot take a lock in ZooKeeper, allow creating and deleting below the chroot of --zookeeper \
         (ZOOKEEPER_CONNECT) or give the user whose locks they are in ZOOKEEPER_AUTH: {0}"
    )]
    LockRefused(#[source] zk_recipes::Error),
    /// The log filter could not be parsed.
    #[error("the log filter is not valid: {0}; give RUST_LOG as, for instance, info,demo_service=debug")]
    LogFilter(#[source] tracing_subscriber::filter::ParseError),
    /// The ready line could not be written to standard output.
    #[error("cannot write to standard output: {0}; leave it open or redirect it")]
    Stdout(#[source] std::io::Error),
    /// The signal handlers could not be installed.
    #[error("cannot listen for signals: {0}; run on a system that has SIGINT and SIGTERM")]
    Signals(#[source] std::io::Error),
}

impl SetupError {
    /// What it means that the sessions could not be opened.
    pub fn of_sessions(source: zk_recipes::Error, config: &Config) -> Self {
        match &config.zookeeper_ca {
            Some(authority) if matches!(source, TlsRefused { .. } | InvalidTls { .. }) => {
                Self::ZooKeeperTls { authority: authority.clone(), source }
            }
            _ => Self::ZooKeeper(source),
        }
    }
}

/// One request failed. Every variant but [`OutcomeUnknown`](Failure::OutcomeUnknown) guarantees that nothing was sold.
#[derive(Debug, thiserror::Error)]
pub enum Failure {
    /// Others held the lock for the whole of the wait.
    #[error("the lock was not had within {waited:?} of the request")]
    LockTimeout {
        /// How long after its beginning the deduction gave up, which is `--lock-wait`.
        waited: Duration,
    },
    /// The hold on the lock was lost, and the section stopped, before the commit was sent.
    #[error("the hold on the lock was lost before the commit: {0}")]
    HoldLost(String),
    /// A later holder of the lock had read the stock before this one wrote.
    #[error("a later holder of the lock came between the read and the write")]
    Fenced,
    /// Others came between in every attempt.
    #[error("others came between in each of {attempts} attempts")]
    Overtaken {
        /// How many there were, which is `--attempts-max`.
        attempts: u32,
    },
    /// The client hung up while the deduction was waiting.
    #[error("the client hung up")]
    ClientGone,
    /// The service was told to stop while the deduction was waiting.
    #[error("the service is shutting down")]
    ShuttingDown,
    /// No session with the lock service, or it refused.
    #[error("the lock service is not available: {0}")]
    LockServiceUnavailable(String),
    /// The database cannot be reached, is shutting down, or was not done by `--db-timeout`.
    #[error("the database is not available: {0}")]
    DatabaseUnavailable(String),
    /// The commit was sent and its answer not seen: the order may exist or not, and may come to exist yet.
    #[error("whether the order was committed is unknown: {0}")]
    OutcomeUnknown(String),
    /// The database refused a statement for a reason that waiting does not cure.
    #[error("the database refused: {0}")]
    Database(#[source] Arc<sqlx::Error>),
}

/// How far a transaction has come, as far as its failure is concerned.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Progress {
    /// No commit has been sent: whatever happens, the database rolls back.
    Open,
    /// The commit has been sent: unless the database refuses it in words, it may have happened.
    Committing,
}

impl Failure {
    /// The failure that a database error means at this point of a transaction.
    pub fn of_database(error: impl Into<Arc<sqlx::Error>>, progress: Progress) -> Self {
        let error = error.into();
        let sqlstate = error.as_database_error().and_then(|refusal| refusal.code());
        let sqlstate = sqlstate.as_deref();
        if progress == Progress::Committing && !sqlstate.is_some_and(refuses_commit) {
            return Self::OutcomeUnknown(error.to_string());
        }
        let unavailable = match &*error {
            sqlx::Error::Database(_) => sqlstate.is_some_and(means_unavailable),
            sqlx::Error::Io(_)
            | sqlx::Error::Tls(_)
            | sqlx::Error::Protocol(_)
            | sqlx::Error::PoolTimedOut
            | sqlx::Error::PoolClosed
            | sqlx::Error::WorkerCrashed
            | sqlx::Error::BeginFailed => true,
            _ => false,
        };
        if unavailable { Self::DatabaseUnavailable(error.to_string()) } else { Self::Database(error) }
    }

    /// The failure that running out of `--db-timeout` means at this point of a transaction.
    pub fn of_database_timeout(within: Duration, progress: Progress) -> Self {
        match progress {
            Progress::Open => {
                Self::DatabaseUnavailable(format!("the transaction was not done within {within:?} of the request"))
            }
            Progress::Committing => {
                Self::OutcomeUnknown(format!("the commit was not answered within {within:?} of the request"))
            }
        }
    }

    /// The failure that a lost hold means at this point of the transaction that it guarded.
    pub fn of_lost_hold(reason: &zk_recipes::Error, progress: Progress) -> Self {
        match progress {
            Progress::Open => Self::HoldLost(reason.to_string()),
            Progress::Committing => Self::OutcomeUnknown(reason.to_string()),
        }
    }
}

/// Whether this SQLSTATE, in answer to a commit, proves that it did not happen: a constraint (class 23) or a rollback
/// (class 40) does, but not 40003, "statement completion unknown". A server that shuts down (class 57) proves nothing.
fn refuses_commit(sqlstate: &str) -> bool {
    sqlstate.starts_with("23") || (sqlstate.starts_with("40") && sqlstate != "40003")
}

/// Whether this SQLSTATE will pass: connection lost (08), transaction timed out or rolled back for a conflict (25P03,
/// 40), resources used up (53), lock not had (55P03), statement cancelled or server shutting down (57), or a refusal
/// to log in (28, 3D), which a client of the service can only see as the database being away.
fn means_unavailable(sqlstate: &str) -> bool {
    matches!(sqlstate, "25P03" | "25P04" | "55P03")
        || ["08", "28", "3D", "40", "53", "57"].iter().any(|class| sqlstate.starts_with(class))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_refusal_in_words_proves_that_a_commit_did_not_happen() {
        for (sqlstate, refuses) in
            [("23505", true), ("40001", true), ("40P01", true), ("40003", false), ("57P01", false), ("08006", false)]
        {
            assert_eq!(refuses_commit(sqlstate), refuses, "{sqlstate}");
        }
    }

    #[test]
    fn a_broken_connection_is_harmless_before_the_commit_and_unknown_after() {
        let broken = || sqlx::Error::Io(std::io::ErrorKind::ConnectionReset.into());
        assert!(matches!(Failure::of_database(broken(), Progress::Open), Failure::DatabaseUnavailable(_)));
        assert!(matches!(Failure::of_database(broken(), Progress::Committing), Failure::OutcomeUnknown(_)));
    }

    #[test]
    fn a_timeout_is_harmless_before_the_commit_and_unknown_after() {
        let within = Duration::from_secs(1);
        assert!(matches!(Failure::of_database_timeout(within, Progress::Open), Failure::DatabaseUnavailable(_)));
        assert!(matches!(Failure::of_database_timeout(within, Progress::Committing), Failure::OutcomeUnknown(_)));
    }

    #[test]
    fn outages_pass_and_mistakes_do_not() {
        for (sqlstate, unavailable) in [
            ("08006", true),
            ("25P03", true),
            ("53300", true),
            ("55P03", true),
            ("57014", true),
            ("57P01", true),
            ("42P01", false),
            ("23503", false),
            ("22003", false),
        ] {
            assert_eq!(means_unavailable(sqlstate), unavailable, "{sqlstate}");
        }
        assert!(matches!(Failure::of_database(sqlx::Error::RowNotFound, Progress::Open), Failure::Database(_)));
    }
}
