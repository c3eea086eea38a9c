//! The service's database. The generator asks it directly, because the answers of the service are what it judges.

use std::io;
use std::time::Duration;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use sqlx::postgres::{PgConnectOptions, PgPoolOptions};
use sqlx::{ConnectOptions, Connection, PgPool};

use crate::error::Error;

/// Upper bound of the time for a connection.
const CONNECT_WITHIN: Duration = Duration::from_secs(10);
/// One for the trial's own queries, one to sample lock waits, and one for the locks before a hazard.
pub(super) const CONNECTIONS: u32 = 3;

/// A setting of a server.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub(crate) struct Setting {
    /// Its name.
    pub(crate) name: String,
    /// Its value, with the unit.
    pub(crate) value: String,
}

/// The service's database. Only a hazard writes.
#[derive(Debug, Clone)]
pub(crate) struct Database(pub(super) PgPool);

impl Database {
    /// Connects.
    pub(crate) async fn connect(url: &str) -> Result<Database, Error> {
        let invalid = |what| Error::Usage(format!("the database URL cannot be read: {what}"));
        program::one_postgres(url).map_err(invalid)?;
        let options: PgConnectOptions = url.parse().map_err(|error: sqlx::Error| invalid(error.to_string()))?;
        // A pool would retry until its deadline and hide the cause, so the first connection is made without it.
        let trying = async { options.connect().await?.close().await };
        let tried = tokio::time::timeout(CONNECT_WITHIN, trying).await.unwrap_or_else(|_| {
            let text = format!("no answer within {} s", CONNECT_WITHIN.as_secs());
            Err(sqlx::Error::Io(io::Error::new(io::ErrorKind::TimedOut, text)))
        });
        tried.map_err(|source| Error::DatabaseUnreachable {
            address: format!("postgres at {}", address(&options)),
            remedy: "start the server, or correct its URL",
            source,
        })?;
        let pool = PgPoolOptions::new().max_connections(CONNECTIONS).acquire_timeout(CONNECT_WITHIN);
        Ok(Database(pool.connect_lazy_with(options)))
    }

    /// Reads the identity of the ZooKeeper ensemble whose locks guard the sales, and the connect string of the instance that
    /// noted it. `None` if no instance has.
    pub(crate) async fn ensemble(&self) -> Result<Option<(String, String)>, Error> {
        let noted = sqlx::query!("select ensemble, servers from lock_service")
            .fetch_optional(&self.0)
            .await
            .map_err(Error::postgres("read which ZooKeeper guards the sales"))?;
        Ok(noted.map(|noted| (noted.ensemble, noted.servers)))
    }

    /// Reads the most connections that the server accepts, without those that it keeps for superusers.
    pub(super) async fn connections_max(&self) -> Result<i64, Error> {
        let max = "select current_setting('max_connections')::bigint - current_setting('superuser_reserved_connections')::bigint";
        sqlx::query_scalar(max).fetch_one(&self.0).await.map_err(Error::postgres("read its limit of connections"))
    }

    /// Reads the settings that matter for a load of small transactions.
    pub(crate) async fn settings(&self) -> Result<Vec<Setting>, Error> {
        sqlx::query_as!(
            Setting,
            r#"select name as "name!", current_setting(name) as "value!" from pg_settings
               where name in ('fsync', 'synchronous_commit', 'autovacuum', 'full_page_writes', 'max_connections', 'shared_buffers',
                              'default_transaction_isolation', 'wal_level')
               order by name"#
        )
        .fetch_all(&self.0)
        .await
        .map_err(Error::postgres("read the settings"))
    }

    /// Reads the version of the server, such as `15.18`.
    pub(crate) async fn version(&self) -> Result<String, Error> {
        let version = sqlx::query_scalar!(r#"select current_setting('server_version') as "version!""#)
            .fetch_one(&self.0)
            .await
            .map_err(Error::postgres("read the version"))?;
        // Distributions append their own version: `15.18 (Debian 15.18-0+deb12u1)`.
        Ok(version.split_whitespace().next().unwrap_or_default().to_owned())
    }
}

/// Returns the address of the server, without the user and the password.
fn address(options: &PgConnectOptions) -> String {
    match options.get_socket() {
        Some(folder) => format!("{} (port {})", folder.display(), options.get_port()),
        None => format!("{}:{}", options.get_host(), options.get_port()),
    }
}

#[cfg(test)]
mod tests {
    use testbed::TestDatabase;

    use super::*;

    #[tokio::test]
    async fn an_unreachable_database_is_named_without_its_password() {
        let error = Database::connect("postgres://buyer:s3cret@127.0.0.1:1/seckill").await.unwrap_err();
        let text = program::chain(&error);
        assert!(text.starts_with("could not connect to postgres at 127.0.0.1:1: "), "{text}");
        assert!(text.contains("refused") && !text.contains("s3cret"), "{text}");
    }

    #[tokio::test]
    async fn the_settings_tell_whether_commits_are_durable() {
        let server = TestDatabase::create().await.unwrap();
        let database = Database::connect(server.url()).await.unwrap();
        let fsync = Setting { name: "fsync".to_owned(), value: "on".to_owned() };
        assert!(database.settings().await.unwrap().contains(&fsync));
    }
}
