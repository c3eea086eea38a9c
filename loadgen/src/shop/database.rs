//! The database of a shop: statements that put the stock on sale, and queries for its books.
//!
//! A query is wrapped into one that turns its columns into text, because shops have columns of every type. So the three servers
//! are read in the same way: `postgres`, `mysql` and `sqlite` have what differs, and `connection` has the rest.

mod connection;
#[cfg(feature = "shop-databases")]
mod mysql;
mod postgres;
#[cfg(feature = "shop-databases")]
mod sqlite;

use std::fmt;
use std::io;
use std::path::Path;
use std::time::Duration;

use self::connection::{Access, DatabaseConnection};
#[cfg(feature = "shop-databases")]
use self::mysql::MySqlUrl;
use self::postgres::PostgresUrl;
#[cfg(feature = "shop-databases")]
use self::sqlite::SqliteFile;
use crate::audit::shop::ShopOrder;
use crate::error::Error;

/// Upper bound of the time for a connection.
const CONNECT_WITHIN: Duration = Duration::from_secs(10);

/// The databases that a build without the feature `shop-databases` cannot read.
const LEFT_OUT: &[&str] = if cfg!(feature = "shop-databases") { &[] } else { &["mysql", "mariadb", "sqlite"] };

/// The address of a database, with what is needed to connect.
#[derive(Clone)]
pub(crate) struct DatabaseUrl {
    kind: DatabaseKind,
    text: String,
}

#[derive(Clone)]
enum DatabaseKind {
    Postgres(PostgresUrl),
    #[cfg(feature = "shop-databases")]
    MySql(MySqlUrl),
    #[cfg(feature = "shop-databases")]
    Sqlite(SqliteFile),
}

/// Evaluates an expression for the server of a URL.
macro_rules! with_server {
    ($url:expr, $server:ident => $value:expr) => {
        match &$url.kind {
            DatabaseKind::Postgres($server) => $value,
            #[cfg(feature = "shop-databases")]
            DatabaseKind::MySql($server) => $value,
            #[cfg(feature = "shop-databases")]
            DatabaseKind::Sqlite($server) => $value,
        }
    };
}

impl DatabaseUrl {
    /// Reads a URL. The path of an SQLite file begins in the folder. The error does not repeat the URL, because it may have a
    /// password.
    pub(super) fn read(
        text: &str,
        #[cfg_attr(not(feature = "shop-databases"), expect(unused_variables, reason = "only SQLite needs it"))]
        folder: &Path,
    ) -> Result<DatabaseUrl, String> {
        let kind = match scheme(text)? {
            "postgres" | "postgresql" => DatabaseKind::Postgres(PostgresUrl::read(text)?),
            #[cfg(feature = "shop-databases")]
            "mysql" | "mariadb" => DatabaseKind::MySql(MySqlUrl::read(text)?),
            #[cfg(feature = "shop-databases")]
            "sqlite" => DatabaseKind::Sqlite(SqliteFile::read(text, folder)?),
            other => return Err(refusal(other, LEFT_OUT)),
        };
        Ok(DatabaseUrl { kind, text: text.to_owned() })
    }

    /// Returns the address of the server, without the user and the password, or the path of the file.
    pub(crate) fn address(&self) -> String {
        with_server!(self, server => server.address())
    }

    /// Writes the line of a shell's function that runs its first argument and prints what it finds, with tabs between the columns.
    /// `variable` has the URL of a server, as it may have a password.
    pub(super) fn client(&self, variable: &str) -> String {
        match &self.kind {
            DatabaseKind::Postgres(_) => {
                format!("    psql -XqAt -v ON_ERROR_STOP=1 -F \"$(printf '\\t')\" -c \"$1\" \"${variable}\"\n")
            }
            #[cfg(feature = "shop-databases")]
            DatabaseKind::MySql(_) => {
                format!("    # shellcheck disable=SC2086\n    mysql ${variable} -NBe \"$1\"\n")
            }
            #[cfg(feature = "shop-databases")]
            DatabaseKind::Sqlite(file) => {
                let address = file.address();
                let path = address.trim_start_matches("sqlite:").replace('\'', r"'\''");
                format!(
                    "    sqlite3 -batch -bail -cmd '.timeout 10000' -separator \"$(printf '\\t')\" '{path}' \"$1\"\n"
                )
            }
        }
    }

    /// Names the program of [`DatabaseUrl::client`].
    pub(super) fn program(&self) -> &'static str {
        match &self.kind {
            DatabaseKind::Postgres(_) => "psql",
            #[cfg(feature = "shop-databases")]
            DatabaseKind::MySql(_) => "mysql",
            #[cfg(feature = "shop-databases")]
            DatabaseKind::Sqlite(_) => "sqlite3",
        }
    }

    /// Says what the variable of [`DatabaseUrl::client`] has. `None` if it needs none.
    pub(super) fn needs(&self) -> Option<&'static str> {
        match &self.kind {
            DatabaseKind::Postgres(_) => Some("the URL of the database"),
            #[cfg(feature = "shop-databases")]
            DatabaseKind::MySql(_) => {
                Some("the database as options of mysql, such as -h HOST -u NAME -pPASSWORD DATABASE,")
            }
            #[cfg(feature = "shop-databases")]
            DatabaseKind::Sqlite(_) => None,
        }
    }

    /// Returns the URL itself, which may have a password.
    pub(super) fn text(&self) -> &str {
        &self.text
    }

    /// Returns a query for the columns of another one, as text.
    pub(super) fn as_text(&self, query: &str, columns: &[&str]) -> String {
        let bare = query.trim().trim_end_matches(';');
        with_server!(self, server => server.as_text(bare, columns))
    }

    /// Tells whether the database is on this machine.
    pub(super) fn is_here(&self) -> bool {
        match &self.kind {
            DatabaseKind::Postgres(server) => server.is_here(),
            #[cfg(feature = "shop-databases")]
            DatabaseKind::MySql(server) => server.is_here(),
            #[cfg(feature = "shop-databases")]
            DatabaseKind::Sqlite(_) => true,
        }
    }

    /// Says what helps if there is no connection.
    fn remedy(&self) -> &'static str {
        let server = "start the server, or correct url in the shop file";
        match &self.kind {
            DatabaseKind::Postgres(_) => server,
            #[cfg(feature = "shop-databases")]
            DatabaseKind::MySql(_) => server,
            #[cfg(feature = "shop-databases")]
            DatabaseKind::Sqlite(_) => "start the shop, which makes the file, or correct url in the shop file",
        }
    }

    /// Runs statements one after the other.
    ///
    /// # Errors
    ///
    /// The database does not answer, or refuses a statement. The statements before it stay done.
    pub(crate) async fn run(&self, statements: &[String]) -> Result<(), Error> {
        let mut connection = self.connect(Access::Write).await?;
        for (number, statement) in (1..).zip(statements) {
            let ran = connection.run(statement).await;
            ran.map_err(self.failed(format!("run statement {number} of sql in [sale]")))?;
        }
        connection.close().await.map_err(self.failed("end the connection"))
    }

    /// Reads the one number of a query for the units that are left.
    ///
    /// # Errors
    ///
    /// The database does not answer, refuses the query, or has no number for it.
    pub(crate) async fn stock(&self, query: &str) -> Result<i64, Error> {
        let action = "read the stock of the shop by the query of [books]";
        let rows = self.rows(query, ["stock"], action).await?;
        let Some([Some(text)]) = rows.into_iter().next() else {
            return Err(Error::Shop(format!(
                "the query for the stock in [books] finds no number in {}; name the row that has the units left",
                self.address()
            )));
        };
        whole_number(&text).ok_or_else(|| {
            Error::Shop(format!(
                "the query for the stock in [books] finds {text:?} in {}, and the books need a whole number; name the column \
                 that has the units left",
                self.address()
            ))
        })
    }

    /// Reads the orders of a query with the columns number, buyer and units.
    ///
    /// # Errors
    ///
    /// The database does not answer, refuses the query, or has no number for the units of an order.
    pub(crate) async fn orders(&self, query: &str) -> Result<Vec<ShopOrder>, Error> {
        let action = "read the orders of the shop by the query of [books]";
        let rows = self.rows(query, ["order_id", "buyer", "quantity"], action).await?;
        rows.into_iter().map(|row| self.order(row)).collect()
    }

    fn order(&self, [number, buyer, quantity]: [Option<String>; 3]) -> Result<ShopOrder, Error> {
        let Some(units) = quantity.as_deref().and_then(whole_number) else {
            let found = quantity.map_or_else(|| "nothing".to_owned(), |text| format!("{text:?}"));
            let order = number.map_or_else(|| "an order without a number".to_owned(), |id| format!("order {id}"));
            return Err(Error::Shop(format!(
                "the query for the orders in [books] finds {found} as the units of {order} in {}, and the books need a whole \
                 number; write the columns in the order number, buyer, units",
                self.address()
            )));
        };
        Ok(ShopOrder { number, buyer, units })
    }

    /// Reads the rows of a query, with these columns as text, while the database refuses every write.
    async fn rows<const N: usize>(
        &self,
        query: &str,
        columns: [&str; N],
        action: &str,
    ) -> Result<Vec<[Option<String>; N]>, Error> {
        let as_text = self.as_text(query, &columns);
        let mut connection = self.connect(Access::Read).await?;
        let rows = connection.rows(as_text).await.map_err(self.failed(action))?;
        connection.close().await.map_err(self.failed("end the connection"))?;
        Ok(rows)
    }

    async fn connect(&self, access: Access) -> Result<DatabaseConnection, Error> {
        let connecting = async { with_server!(self, server => server.connect(access).await.map(Into::into)) };
        let connected = tokio::time::timeout(CONNECT_WITHIN, connecting).await.unwrap_or_else(|_| {
            let text = format!("no answer within {} s", CONNECT_WITHIN.as_secs());
            Err(sqlx::Error::Io(io::Error::new(io::ErrorKind::TimedOut, text)))
        });
        connected.map_err(|source| Error::DatabaseUnreachable {
            address: self.address(),
            remedy: self.remedy(),
            source,
        })
    }

    /// Makes the error of a failed statement, for `map_err`.
    fn failed(&self, action: impl Into<String>) -> impl FnOnce(sqlx::Error) -> Error {
        let action = action.into();
        move |source| Error::Database { action, database: self.address(), source }
    }
}

impl fmt::Debug for DatabaseUrl {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.address())
    }
}

/// Returns the scheme of a URL of a database.
fn scheme(text: &str) -> Result<&str, String> {
    let scheme = text.split_once(':').map_or("", |(scheme, _)| scheme);
    if scheme.is_empty() || !scheme.bytes().all(|letter| letter.is_ascii_alphabetic()) {
        return Err(
            "this is no URL of a database; write one such as postgres://USER@HOST/DATABASE or sqlite:FILE".to_owned()
        );
    }
    Ok(scheme)
}

/// Says why a database is not read.
fn refusal(scheme: &str, left_out: &[&str]) -> String {
    if left_out.contains(&scheme) {
        return format!(
            "this loadgen is built without {scheme}; build one with `cargo build --release -p loadgen`, take the one of a \
             release, or write requests in place of sql"
        );
    }
    format!(
        "databases of {scheme} are not supported; supported are postgres://, mysql://, mariadb:// and sqlite:, or write requests \
         in place of sql"
    )
}

/// Reads a whole number as databases write it: `7`, and from a column with a fraction `7.00`.
fn whole_number(text: &str) -> Option<i64> {
    let (whole, fraction) = text.trim().split_once('.').unwrap_or((text.trim(), ""));
    if fraction.bytes().any(|digit| digit != b'0') {
        return None;
    }
    whole.parse().ok()
}

#[cfg(test)]
mod fuzzed;
#[cfg(test)]
mod tests;
