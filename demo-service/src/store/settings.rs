//! What every connection to Postgres has, whatever the server, the database, the role or a pooler says.

use std::fmt::{Display, Write};

use sqlx::postgres::{PgConnectOptions, PgConnection};
use sqlx::{AssertSqlSafe, ConnectOptions, Connection, Executor, Row};

use super::unusable::{address, unusable};
use crate::setup_error::SetupError;

/// The settings of a connection. They are statements and no startup parameters, because a pooler refuses startup parameters that
/// it does not know, or drops them.
#[derive(Debug, Clone)]
pub(super) struct ConnectionSettings(String);

impl ConnectionSettings {
    /// Makes the settings that every statement of the service relies on. A transaction that names no isolation level is to see
    /// what others have committed before each of its statements.
    pub(super) fn new() -> Self {
        Self("set default_transaction_isolation = 'read committed'".to_owned())
    }

    /// Adds a setting.
    #[must_use]
    pub(super) fn with(mut self, name: &'static str, value: impl Display) -> Self {
        write!(self.0, "; set {name} = {value}").expect("BUG: a string takes any text");
        self
    }

    /// Makes the settings those of a connection.
    pub(super) async fn apply(&self, connection: &mut PgConnection) -> Result<(), sqlx::Error> {
        // The SQL text is safe: it has only names and numbers of this program.
        connection.execute(AssertSqlSafe(self.0.clone())).await.map(drop)
    }
}

/// Refuses a pooler that has no server process for each of its clients. Behind it, settings, prepared statements and the lock
/// that shows that an instance is connected do not last.
///
/// Such a pooler gives the process that it used last to the next statement of any client. Or it takes one process after the
/// other, also for the statements of one client. Both show within three statements.
pub(super) async fn refuse_shared_process(
    options: &PgConnectOptions,
    first: &mut PgConnection,
) -> Result<(), SetupError> {
    let failed = |source| unusable(options, source);
    let mut second = options.connect().await.map_err(failed)?;
    let one = process(first).await.map_err(failed)?;
    let again = process(first).await.map_err(failed)?;
    let other = process(&mut second).await.map_err(failed)?;
    second.close().await.map_err(failed)?;
    if one == again && one != other { Ok(()) } else { Err(SetupError::Pooler { address: address(options) }) }
}

/// Returns the server process that answers. No statement is prepared, because such a pooler would leave it with the process.
async fn process(connection: &mut PgConnection) -> Result<i32, sqlx::Error> {
    sqlx::raw_sql("select pg_backend_pid()").fetch_one(connection).await?.try_get(0)
}

/// Refuses a database that cannot keep every text.
pub(super) async fn refuse_encoding(
    options: &PgConnectOptions,
    connection: &mut PgConnection,
) -> Result<(), SetupError> {
    let encoding: String = sqlx::query_scalar("select current_setting('server_encoding')")
        .fetch_one(connection)
        .await
        .map_err(|source| unusable(options, source))?;
    // A database that is SQL_ASCII keeps the bytes as they are.
    if ["UTF8", "SQL_ASCII"].contains(&&*encoding) {
        Ok(())
    } else {
        Err(SetupError::Encoding { address: address(options), encoding })
    }
}

/// Returns how many more connections the server has room for, as far as it tells. Others may take them. A role, a database and
/// the server each have a limit.
pub(super) async fn connections_left(connection: &mut PgConnection) -> Result<i64, sqlx::Error> {
    // Only the limit of the server counts for a superuser. `reserved_connections` is new in Postgres 16.
    let left = "select least(
            current_setting('max_connections')::bigint - case when rolsuper then 0 else
                current_setting('superuser_reserved_connections')::bigint
                + coalesce(current_setting('reserved_connections', true)::bigint, 0) end
                - (select sum(numbackends) from pg_stat_database)::bigint,
            case when not rolsuper then nullif(rolconnlimit, -1) end,
            case when not rolsuper then nullif(datconnlimit, -1) - numbackends end)
        from pg_roles, pg_database join pg_stat_database using (datname)
        where rolname = current_user and datname = current_database()";
    sqlx::query_scalar(left).fetch_one(connection).await
}
