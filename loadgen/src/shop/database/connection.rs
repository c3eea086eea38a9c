//! A connection to the database of a shop.

use sqlx::postgres::PgConnection;
use sqlx::{AssertSqlSafe, ColumnIndex, Connection as _, Decode, Row, Type};
#[cfg(feature = "shop-databases")]
use sqlx_mysql::MySqlConnection;
#[cfg(feature = "shop-databases")]
use sqlx_sqlite::SqliteConnection;

/// What a connection may do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Access {
    Read,
    Write,
}

/// A connection to one of the servers.
pub(super) enum DatabaseConnection {
    Postgres(PgConnection),
    #[cfg(feature = "shop-databases")]
    MySql(MySqlConnection),
    #[cfg(feature = "shop-databases")]
    Sqlite(SqliteConnection),
}

/// Evaluates an expression for the connection to any server.
macro_rules! with_connection {
    ($connection:expr, $inner:ident => $value:expr) => {
        match $connection {
            DatabaseConnection::Postgres($inner) => $value,
            #[cfg(feature = "shop-databases")]
            DatabaseConnection::MySql($inner) => $value,
            #[cfg(feature = "shop-databases")]
            DatabaseConnection::Sqlite($inner) => $value,
        }
    };
}

impl DatabaseConnection {
    /// Runs a statement.
    pub(super) async fn run(&mut self, statement: &str) -> Result<(), sqlx::Error> {
        let statement = AssertSqlSafe(statement.to_owned());
        with_connection!(self, inner => sqlx::raw_sql(statement).execute(inner).await.map(drop))
    }

    /// Reads the rows of a query whose columns are text.
    pub(super) async fn rows<const N: usize>(
        &mut self,
        query: String,
    ) -> Result<Vec<[Option<String>; N]>, sqlx::Error> {
        let query = AssertSqlSafe(query);
        // A prepared statement is one statement, so no second one can end the transaction that only reads.
        with_connection!(self, inner => {
            sqlx::query(query).fetch_all(inner).await?.iter().map(texts).collect()
        })
    }

    /// Ends the connection.
    pub(super) async fn close(self) -> Result<(), sqlx::Error> {
        with_connection!(self, inner => inner.close().await)
    }
}

/// Returns the columns of a row.
fn texts<R: Row, const N: usize>(row: &R) -> Result<[Option<String>; N], sqlx::Error>
where
    usize: ColumnIndex<R>,
    for<'r> Option<String>: Decode<'r, R::Database> + Type<R::Database>,
{
    let mut texts = [const { None }; N];
    for (number, text) in texts.iter_mut().enumerate() {
        *text = row.try_get(number)?;
    }
    Ok(texts)
}

impl From<PgConnection> for DatabaseConnection {
    fn from(connection: PgConnection) -> Self {
        DatabaseConnection::Postgres(connection)
    }
}

#[cfg(feature = "shop-databases")]
impl From<MySqlConnection> for DatabaseConnection {
    fn from(connection: MySqlConnection) -> Self {
        DatabaseConnection::MySql(connection)
    }
}

#[cfg(feature = "shop-databases")]
impl From<SqliteConnection> for DatabaseConnection {
    fn from(connection: SqliteConnection) -> Self {
        DatabaseConnection::Sqlite(connection)
    }
}
