//! A database for one test.

use std::env;
use std::str::FromStr;

use sqlx::postgres::PgConnectOptions;
use sqlx::{AssertSqlSafe, ConnectOptions, Connection};
use tokio::sync::OnceCell;
use uuid::Uuid;

use crate::lasting::clean_up;
use crate::{Error, Postgres, PostgresConfig};

/// Generous, because all tests of a process share the server.
const CONNECTIONS_MAX: u32 = 500;

/// One throwaway server per process. Statics are never dropped: its guard sees the end of the process.
static SHARED: OnceCell<Postgres> = OnceCell::const_new();

/// An empty database of its own, named `seckill_test_` and a random number.
///
/// It is made on the server of the environment variable `DATABASE_URL`, whose account must be allowed to create databases.
/// Without the variable, it is made on a throwaway server that the whole process shares. Dropping the value drops the database
/// from a lasting server, with the connections to it, which blocks. A throwaway server is deleted as a whole.
///
/// # Examples
///
/// ```no_run
/// # async fn example() -> Result<(), Box<dyn std::error::Error>> {
/// let database = testbed::TestDatabase::create().await?;
/// let pool = sqlx::PgPool::connect(database.url()).await?;
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct TestDatabase {
    name: String,
    url: String,
    /// The server to drop the database from, when it outlives this process.
    lasting_server: Option<PgConnectOptions>,
}

impl TestDatabase {
    /// Creates a database.
    ///
    /// # Errors
    ///
    /// Those of [`Postgres::start`] without `DATABASE_URL`; [`Error::Postgres`] when the server of `DATABASE_URL` is not
    /// reachable or refuses.
    ///
    /// # Cancel safety
    ///
    /// On a lasting server an empty database may be left.
    pub async fn create() -> Result<Self, Error> {
        let given = env::var("DATABASE_URL").ok().filter(|url| !url.is_empty());
        let url = match &given {
            Some(url) => url.clone(),
            None => shared().await?.url("postgres"),
        };
        let server = PgConnectOptions::from_str(&url)
            .map_err(|source| Error::Postgres { action: "read DATABASE_URL".to_owned(), source })?;
        let name = format!("seckill_test_{}", Uuid::new_v4().simple());
        // From `template0`, because `template1` may have tables, and may be in use.
        execute(&server, format!(r#"create database "{name}" template template0"#)).await.map_err(|source| {
            let at = given
                .as_ref()
                .map(|_| format!(" at {}:{}, the server of DATABASE_URL", server.get_host(), server.get_port()));
            Error::Postgres { action: format!("create database {name}{}", at.unwrap_or_default()), source }
        })?;
        Ok(Self { url: with_database(&url, &name), name, lasting_server: given.map(|_| server) })
    }

    /// Returns the URL of the database.
    #[must_use]
    pub fn url(&self) -> &str {
        &self.url
    }
}

impl Drop for TestDatabase {
    fn drop(&mut self) {
        let Some(server) = self.lasting_server.take() else { return };
        let name = &self.name;
        clean_up(&format!("database {name}"), async {
            execute(&server, format!(r#"drop database if exists "{name}" with (force)"#)).await
        });
    }
}

/// Returns the URL of another database of the same server. Keeps the parameters.
fn with_database(url: &str, database: &str) -> String {
    let (location, parameters) = url.split_once('?').unwrap_or((url, ""));
    let (scheme, location) = location.split_once("://").unwrap_or(("postgres", location));
    let authority = location.split('/').next().unwrap_or_default();
    // This parameter would override the path.
    let parameters: Vec<_> =
        parameters.split('&').filter(|parameter| !parameter.is_empty() && !parameter.starts_with("dbname=")).collect();
    let separator = if parameters.is_empty() { "" } else { "?" };
    format!("{scheme}://{authority}/{database}{separator}{}", parameters.join("&"))
}

async fn shared() -> Result<&'static Postgres, Error> {
    SHARED
        .get_or_try_init(|| {
            Postgres::start(PostgresConfig { connections_max: CONNECTIONS_MAX, ..PostgresConfig::default() })
        })
        .await
}

async fn execute(server: &PgConnectOptions, statement: String) -> Result<(), sqlx::Error> {
    let mut connection = server.connect().await?;
    sqlx::query(AssertSqlSafe(statement)).execute(&mut connection).await?;
    connection.close().await
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_database_of_a_url_changes() {
        for (url, expected) in [
            ("postgres://postgres@127.0.0.1:5432/postgres", "postgres://postgres@127.0.0.1:5432/x"),
            (
                "postgresql://u:p%2Fw@db.example:5432/a?sslmode=require",
                "postgresql://u:p%2Fw@db.example:5432/x?sslmode=require",
            ),
            ("postgres://localhost", "postgres://localhost/x"),
            ("postgres:///a?host=/run/postgresql&dbname=b", "postgres:///x?host=/run/postgresql"),
        ] {
            assert_eq!(with_database(url, "x"), expected);
        }
    }
}
