//! The database of a shop that uses Postgres.

use sqlx::postgres::{PgConnectOptions, PgConnection};
use sqlx::{ConnectOptions as _, Executor as _};

use super::super::address::is_loopback;
use super::connection::Access;

/// The URL of a database of Postgres.
#[derive(Clone)]
pub(super) struct PostgresUrl(Box<PgConnectOptions>);

impl PostgresUrl {
    pub(super) fn read(text: &str) -> Result<PostgresUrl, String> {
        program::one_postgres(text).map_err(|what| format!("the URL of the database cannot be read: {what}"))?;
        let options: PgConnectOptions = text.parse().map_err(|error: sqlx::Error| {
            format!("the URL of the database cannot be read: {error}; write postgres://USER@HOST/DATABASE")
        })?;
        Ok(PostgresUrl(Box::new(options)))
    }

    pub(super) fn address(&self) -> String {
        match self.0.get_socket() {
            Some(folder) => format!("postgres in {}", folder.display()),
            None => format!("postgres://{}:{}", self.0.get_host(), self.0.get_port()),
        }
    }

    pub(super) fn is_here(&self) -> bool {
        let host = self.0.get_host();
        self.0.get_socket().is_some() || host.starts_with('/') || is_loopback(host)
    }

    pub(super) async fn connect(&self, access: Access) -> Result<PgConnection, sqlx::Error> {
        let mut connection = self.0.connect().await?;
        if access == Access::Read {
            connection.execute("begin read only").await?;
        }
        Ok(connection)
    }

    /// Returns a query for the columns of another one, as text.
    pub(super) fn as_text(&self, query: &str, columns: &[&str]) -> String {
        let names = columns.join(", ");
        let texts: Vec<_> = columns.iter().map(|column| format!("{column}::text")).collect();
        format!("select {} from ({query}\n) as books({names})", texts.join(", "))
    }
}
