//! The database of a shop: statements that put the stock on sale, and queries for its books.

use std::fmt;
use std::io;
use std::time::Duration;

use sqlx::postgres::{PgConnectOptions, PgConnection};
use sqlx::{AssertSqlSafe, ConnectOptions as _, Connection as _, Executor as _};

use super::address::is_loopback;
use crate::error::Error;

/// Upper bound of the time for a connection.
const CONNECT_WITHIN: Duration = Duration::from_secs(10);

/// The address of a database, with what is needed to connect.
#[derive(Clone)]
pub(crate) struct DatabaseUrl(Box<PgConnectOptions>);

/// An order, as the database has it.
#[derive(Debug, Clone, PartialEq, Eq, sqlx::FromRow)]
pub(crate) struct BookedOrder {
    /// Its number.
    pub(crate) order_id: Option<String>,
    /// Its buyer.
    pub(crate) buyer: Option<String>,
    /// Its units.
    pub(crate) quantity: i64,
}

impl DatabaseUrl {
    /// Reads a URL. The error does not repeat it, because it may have a password.
    pub(super) fn read(text: &str) -> Result<DatabaseUrl, String> {
        match text.split_once("://") {
            Some(("postgres" | "postgresql", _)) => {}
            Some((scheme, _)) => {
                return Err(format!(
                    "databases of {scheme} are not supported; supported is postgres://, or write requests in place of sql"
                ));
            }
            None => return Err("this is no URL of a database; write postgres://USER@HOST/DATABASE".to_owned()),
        }
        program::one_postgres(text).map_err(|what| format!("the URL of the database cannot be read: {what}"))?;
        let options: PgConnectOptions = text.parse().map_err(|error: sqlx::Error| {
            format!("the URL of the database cannot be read: {error}; write postgres://USER@HOST/DATABASE")
        })?;
        Ok(DatabaseUrl(Box::new(options)))
    }

    /// Returns the address of the server, without the user and the password.
    pub(crate) fn address(&self) -> String {
        match self.0.get_socket() {
            Some(folder) => format!("postgres in {}", folder.display()),
            None => format!("postgres://{}:{}", self.0.get_host(), self.0.get_port()),
        }
    }

    /// Writes the command of a shell that sends a statement and prints what it finds. The address is not in it, as it may have a
    /// password.
    pub(super) fn client(&self, statement: &str) -> String {
        let statement = statement.replace('\'', r"'\''");
        format!("psql \"${{SHOP_DATABASE:?set it to the URL of the shop's database}}\" -qAtc '{statement}'")
    }

    /// Tells whether the server is on this machine.
    pub(super) fn is_here(&self) -> bool {
        let host = self.0.get_host();
        self.0.get_socket().is_some() || host.starts_with('/') || is_loopback(host)
    }

    async fn connect(&self) -> Result<PgConnection, Error> {
        let connected = tokio::time::timeout(CONNECT_WITHIN, self.0.connect()).await.unwrap_or_else(|_| {
            let text = format!("no answer within {} s", CONNECT_WITHIN.as_secs());
            Err(sqlx::Error::Io(io::Error::new(io::ErrorKind::TimedOut, text)))
        });
        connected.map_err(|source| Error::PostgresUnreachable { address: self.address(), source })
    }

    /// Runs statements one after the other.
    ///
    /// # Errors
    ///
    /// The database does not answer, or refuses a statement. The statements before it stay done.
    pub(crate) async fn run(&self, statements: &[String]) -> Result<(), Error> {
        let mut connection = self.connect().await?;
        for statement in statements {
            let ran = sqlx::raw_sql(AssertSqlSafe(statement.clone())).execute(&mut connection).await;
            ran.map_err(Error::postgres("run a statement of the shop file"))?;
        }
        connection.close().await.map_err(Error::postgres("end the connection"))
    }

    /// Reads the one number of a query for the units that are left.
    ///
    /// # Errors
    ///
    /// The database does not answer, refuses the query, or has no number for it.
    pub(crate) async fn stock(&self, query: &str) -> Result<i64, Error> {
        let whole = format!("select stock::bigint from ({}\n) as books(stock)", bare(query));
        let mut connection = self.connect_for_reading().await?;
        let found: Option<Option<i64>> = sqlx::query_scalar(AssertSqlSafe(whole))
            .fetch_optional(&mut connection)
            .await
            .map_err(Error::postgres("read the stock of the shop by the query of [books]"))?;
        let none = || {
            Error::Shop(format!(
                "the query for the stock in [books] finds no number in {}; name the row that has the units left",
                self.address()
            ))
        };
        found.flatten().ok_or_else(none)
    }

    /// Reads the orders of a query with the columns number, buyer and units.
    ///
    /// # Errors
    ///
    /// The database does not answer, or refuses the query.
    pub(crate) async fn orders(&self, query: &str) -> Result<Vec<BookedOrder>, Error> {
        let whole = format!(
            "select order_id::text, buyer::text, quantity::bigint from ({}\n) as books(order_id, buyer, quantity)",
            bare(query)
        );
        let mut connection = self.connect_for_reading().await?;
        sqlx::query_as(AssertSqlSafe(whole))
            .fetch_all(&mut connection)
            .await
            .map_err(Error::postgres("read the orders of the shop by the query of [books]"))
    }

    /// Connects, and lets the server refuse every write.
    async fn connect_for_reading(&self) -> Result<PgConnection, Error> {
        let mut connection = self.connect().await?;
        connection.execute("begin read only").await.map_err(Error::postgres("begin to read"))?;
        Ok(connection)
    }
}

impl fmt::Debug for DatabaseUrl {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.address())
    }
}

/// Returns a query without the semicolon at its end.
fn bare(query: &str) -> &str {
    query.trim().trim_end_matches(';')
}

#[cfg(test)]
mod tests {
    use testbed::TestDatabase;

    use super::*;

    #[test]
    fn another_database_is_refused_by_its_name() {
        for (url, expected) in [
            ("mysql://root@127.0.0.1/shop", "databases of mysql are not supported; supported is postgres://"),
            ("sqlite://shop.db", "databases of sqlite are not supported"),
            ("127.0.0.1/shop", "this is no URL of a database; write postgres://"),
            ("postgres://me:s3cret@a,b/shop", "it names several hosts; name the primary"),
            ("postgres://me:s3cret@a:port/shop", "the URL of the database cannot be read"),
        ] {
            let refused = DatabaseUrl::read(url).unwrap_err();
            assert!(refused.contains(expected) && !refused.contains("s3cret"), "{url}: {refused}");
        }
    }

    #[test]
    fn a_database_is_named_without_its_password() {
        let database = DatabaseUrl::read("postgres://me:s3cret@db.example:5433/shop").unwrap();
        assert_eq!(format!("{database:?}"), "postgres://db.example:5433");
        assert!(!database.is_here());
        assert!(DatabaseUrl::read("postgres://me@127.0.0.1/shop").unwrap().is_here());
    }

    #[tokio::test]
    async fn the_books_of_a_database_are_read_whatever_their_types() {
        let server = TestDatabase::create().await.unwrap();
        let database = DatabaseUrl::read(server.url()).unwrap();
        let statements = [
            "create table item (units int); insert into item values (3)",
            "create table sold (id uuid, who varchar(9), n smallint)",
            "insert into sold values ('00000000-0000-0000-0000-000000000001', 'ann', 2), (null, null, 1)",
        ];
        database.run(&statements.map(str::to_owned)).await.unwrap();
        assert_eq!(database.stock("select units from item;").await.unwrap(), 3);
        let orders = database.orders("select id, who, n from sold order by n desc -- all").await.unwrap();
        let of_ann = BookedOrder {
            order_id: Some("00000000-0000-0000-0000-000000000001".to_owned()),
            buyer: Some("ann".to_owned()),
            quantity: 2,
        };
        assert_eq!(orders, [of_ann, BookedOrder { order_id: None, buyer: None, quantity: 1 }]);
    }

    #[tokio::test]
    async fn a_query_for_the_books_can_write_nothing() {
        let server = TestDatabase::create().await.unwrap();
        let database = DatabaseUrl::read(server.url()).unwrap();
        database.run(&["create table item (units int); create sequence numbers".to_owned()]).await.unwrap();
        let missing = database.stock("select units from item").await.unwrap_err().to_string();
        assert!(missing.starts_with("the query for the stock in [books] finds no number in postgres://"), "{missing}");
        let refused = program::chain(&database.stock("select nextval('numbers')").await.unwrap_err());
        assert!(refused.contains("in a read-only transaction"), "{refused}");
    }
}
