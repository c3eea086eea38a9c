//! The database of a shop that uses MySQL or MariaDB.

use reqwest::Url;
use sqlx::{ConnectOptions as _, Executor as _};
use sqlx_mysql::{MySqlConnectOptions, MySqlConnection};

use super::super::address::is_loopback;
use super::connection::Access;

/// The parameters of a URL. The driver would skip a wrong one, such as a misspelt `ssl-mode`.
const PARAMETERS: [&str; 10] = [
    "charset",
    "collation",
    "socket",
    "ssl-ca",
    "ssl-cert",
    "ssl-key",
    "ssl-mode",
    "statement-cache-capacity",
    "time-zone",
    "timezone",
];

/// The URL of a database of MySQL or MariaDB.
#[derive(Clone)]
pub(super) struct MySqlUrl {
    /// The name of the server in the URL.
    scheme: String,
    options: Box<MySqlConnectOptions>,
}

impl MySqlUrl {
    pub(super) fn read(text: &str) -> Result<MySqlUrl, String> {
        let unreadable =
            |what: String| format!("the URL of the database cannot be read: {what}; write mysql://USER@HOST/DATABASE");
        let url = Url::parse(text).map_err(|error| unreadable(error.to_string()))?;
        if let Some((name, _)) = url.query_pairs().find(|(name, _)| !PARAMETERS.contains(&name.as_ref())) {
            let known = PARAMETERS.join(", ");
            return Err(format!(
                "the URL of the database has the parameter {name}, which is not supported; supported are {known}"
            ));
        }
        let options = MySqlConnectOptions::from_url(&url).map_err(|error| unreadable(error.to_string()))?;
        Ok(MySqlUrl { scheme: url.scheme().to_owned(), options: Box::new(as_the_user(options, &url)) })
    }

    pub(super) fn address(&self) -> String {
        let scheme = &self.scheme;
        match self.options.get_socket() {
            Some(socket) => format!("{scheme} in {}", socket.display()),
            None => format!("{scheme}://{}:{}", self.options.get_host(), self.options.get_port()),
        }
    }

    pub(super) fn is_here(&self) -> bool {
        self.options.get_socket().is_some() || is_loopback(self.options.get_host())
    }

    pub(super) async fn connect(&self, access: Access) -> Result<MySqlConnection, sqlx::Error> {
        let mut connection = self.options.connect().await.map_err(in_plain_words)?;
        if access == Access::Read {
            connection.execute("start transaction read only").await?;
        }
        Ok(connection)
    }

    /// Returns a query for the columns of another one, as text. Bytes become hexadecimal digits, as in a binary UUID.
    ///
    /// Neither MySQL 5.7 nor MariaDB 10 can name the columns of a derived table, so an empty query before it names them. A number
    /// or a time is binary by itself and text in `concat`. Bytes stay binary there.
    pub(super) fn as_text(&self, query: &str, columns: &[&str]) -> String {
        let names: Vec<_> = columns.iter().map(|column| format!("null as {column}")).collect();
        let text = |column: &&str| {
            format!("if(charset(concat({column}, '')) = 'binary', lower(hex({column})), cast({column} as char))")
        };
        let texts: Vec<_> = columns.iter().map(text).collect();
        format!(
            "select {} from (select {} from dual where 1 = 0 union all select * from ({query}\n) as found) as books",
            texts.join(", "),
            names.join(", ")
        )
    }
}

/// Lets a session have the settings of the user's own client. The driver would change the meaning of `||` and the time zone, and so
/// a sale that begins at `now()` could begin hours later or earlier.
fn as_the_user(options: MySqlConnectOptions, url: &Url) -> MySqlConnectOptions {
    let has_zone = url.query_pairs().any(|(name, _)| ["timezone", "time-zone"].contains(&name.as_ref()));
    let options = options.pipes_as_concat(false).no_engine_substitution(false);
    if has_zone { options } else { options.timezone(None) }
}

/// Says what helps where the driver's own text names a feature of its build. MySQL 8 asks for the password in this way.
fn in_plain_words(error: sqlx::Error) -> sqlx::Error {
    match error {
        sqlx::Error::Configuration(cause) if cause.to_string().contains("RSA") => sqlx::Error::Configuration(
            "the server takes the password only through TLS, and the connection has none: let the URL end with ?ssl-mode=REQUIRED"
                .into(),
        ),
        other => other,
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;
    use std::sync::atomic::{AtomicU32, Ordering};

    use testbed::MariaDb;
    use tokio::sync::OnceCell;

    use super::super::DatabaseUrl;
    use super::*;

    /// One server for all tests of the process. Its guard sees the end of the process.
    static SERVER: OnceCell<MariaDb> = OnceCell::const_new();
    static DATABASES: AtomicU32 = AtomicU32::new(0);

    fn read(url: &str) -> Result<DatabaseUrl, String> {
        DatabaseUrl::read(url, Path::new(""))
    }

    async fn run(database: &DatabaseUrl, statements: &[&str]) -> Result<(), String> {
        let statements: Vec<_> = statements.iter().map(|statement| (*statement).to_owned()).collect();
        database.run(&statements).await.map_err(|error| program::chain(&error))
    }

    /// Makes an empty database.
    async fn database() -> DatabaseUrl {
        let server = SERVER.get_or_try_init(MariaDb::start).await.unwrap();
        let name = format!("shop_{}", DATABASES.fetch_add(1, Ordering::Relaxed));
        run(&read(&server.url("mysql")).unwrap(), &[&format!("create database {name}")]).await.unwrap();
        read(&server.url(&name)).unwrap()
    }

    /// Returns the orders of a query, each with its columns.
    async fn orders(database: &DatabaseUrl, query: &str) -> Vec<(Option<String>, Option<String>, i64)> {
        let orders = database.orders(query).await.unwrap();
        orders.into_iter().map(|order| (order.number, order.buyer, order.units)).collect()
    }

    #[test]
    fn a_url_is_shown_without_its_user() {
        for (url, address, is_here) in [
            ("mysql://me:s3cret@db.example/shop", "mysql://db.example:3306", false),
            ("mariadb://me:s3cret@localhost:3307/shop?ssl-mode=REQUIRED", "mariadb://localhost:3307", true),
            ("mysql://me:s3cret@db.example/shop?socket=/run/my.sock", "mysql in /run/my.sock", true),
            ("mysql:///shop", "mysql://localhost:3306", true),
        ] {
            let database = read(url).unwrap();
            assert_eq!((database.address().as_str(), database.is_here()), (address, is_here), "{url}");
        }
    }

    #[test]
    fn a_url_that_would_be_half_read_is_refused() {
        for (url, expected) in [
            (
                "mysql://me:s3cret@a:port/shop",
                "the URL of the database cannot be read: invalid port number; write mysql://",
            ),
            ("mysql://me:s3cret@a/shop?ssl-mode=maybe", "the URL of the database cannot be read: "),
            ("mysql://me:s3cret@a/shop?useSSL=true", "the URL of the database has the parameter useSSL, which is not"),
        ] {
            let refused = read(url).unwrap_err();
            assert!(refused.starts_with(expected) && !refused.contains("s3cret"), "{url}: {refused}");
        }
    }

    #[test]
    fn a_password_that_needs_tls_is_told_in_plain_words() {
        let error = in_plain_words(sqlx::Error::Configuration("RSA auth backend disabled; enable feature".into()));
        assert!(error.to_string().ends_with("let the URL end with ?ssl-mode=REQUIRED"), "{error}");
        let other = in_plain_words(sqlx::Error::Configuration("no such file".into()));
        assert!(other.to_string().ends_with("no such file"), "{other}");
    }

    #[tokio::test]
    async fn numbers_of_orders_are_read_whatever_their_types() {
        let shop = database().await;
        let id = "0190a1b2-c3d4-7000-8000-00000000000f";
        for (column, value, expected) in [
            ("bigint unsigned", "18446744073709551615", "18446744073709551615"),
            ("char(36) character set ascii", &format!("'{id}'"), id),
            ("binary(16)", &format!("unhex('{}')", id.replace('-', "")), &id.replace('-', "")),
            ("varbinary(4)", "'AB'", "4142"),
            ("varchar(9) character set latin1", "'é'", "é"),
            ("varchar(9) character set utf16", "'库存'", "库存"),
            ("uuid", &format!("'{id}'"), id),
            ("json", "'[1]'", "[1]"),
            ("decimal(9, 0)", "12", "12"),
            ("datetime", "'2026-01-02 03:04:05'", "2026-01-02 03:04:05"),
            ("enum('a', 'b')", "'b'", "b"),
            ("text", "'t'", "t"),
        ] {
            let table = format!("create or replace table sold (id {column}, who {column}, n int)");
            run(&shop, &[&table, &format!("insert into sold values ({value}, {value}, 2), (null, null, 1)")])
                .await
                .unwrap();
            let found = orders(&shop, "select id, who, n from sold order by n desc limit 9 # all").await;
            let expected = Some(expected.to_owned());
            assert_eq!(found, [(expected.clone(), expected, 2), (None, None, 1)], "{column}");
        }
    }

    #[tokio::test]
    async fn units_are_read_whatever_their_types() {
        let shop = database().await;
        for (column, value) in [
            ("tinyint(1)", "7"),
            ("bigint unsigned", "7"),
            ("decimal(9, 2)", "7"),
            ("double", "7"),
            ("varchar(9)", "'7'"),
        ] {
            let table = format!("create or replace table item (units {column})");
            run(&shop, &[&table, &format!("insert into item values ({value})")]).await.unwrap();
            assert_eq!(shop.stock("select units from item;").await.unwrap(), 7, "{column}");
            assert_eq!(shop.stock("select sum(units) from item").await.unwrap(), 7, "{column}");
            let found = orders(&shop, "with one as (select units from item) select 1, 2, units from one").await;
            assert_eq!(found, [(Some("1".to_owned()), Some("2".to_owned()), 7)], "{column}");
        }
    }

    #[tokio::test]
    async fn a_query_for_the_books_can_write_nothing() {
        let shop = database().await;
        let statements = [
            "create table item (units int)",
            "insert into item values (3)",
            "create sequence numbers",
            "create function take() returns int begin update item set units = units - 1; return 1; end",
        ];
        run(&shop, &statements).await.unwrap();
        for (query, expected) in [
            ("select take()", "READ ONLY transaction"),
            ("select nextval(numbers)", "READ ONLY transaction"),
            ("select 1) as found) as books; update item set units = 0; -- ", "error in your SQL syntax"),
        ] {
            let refused = program::chain(&shop.stock(query).await.unwrap_err());
            assert!(refused.contains(expected), "{query}: {refused}");
        }
        assert_eq!(shop.stock("select units from item").await.unwrap(), 3);
        let mut connection = shop.connect(Access::Read).await.unwrap();
        assert!(connection.run("update item set units = 0").await.unwrap_err().to_string().contains("READ ONLY"));
    }

    #[tokio::test]
    async fn a_session_is_set_as_the_users_own() {
        let shop = database().await;
        assert_eq!(shop.stock("select @@session.time_zone = @@global.time_zone").await.unwrap(), 1);
        assert_eq!(shop.stock("select 1 || 0").await.unwrap(), 1, "|| means or");
        let address = shop.address();
        let zoned = read(&format!("mysql://root@{}/mysql?time-zone=%2B08:00", &address["mysql://".len()..])).unwrap();
        assert_eq!(zoned.stock("select @@session.time_zone = '+08:00'").await.unwrap(), 1);
    }

    #[tokio::test]
    async fn a_refusal_names_the_server_and_not_the_password() {
        let shop = database().await;
        let address = shop.address();
        let refused = run(&shop, &["create table item (units int)", "update itm set units = 1"]).await.unwrap_err();
        let beginning = format!("could not run statement 2 of sql in [sale] in {address}: ");
        assert!(refused.starts_with(&beginning) && refused.contains("itm' doesn't exist"), "{refused}");
        let stranger = format!("mysql://me:s3cret@{}/mysql", &address["mysql://".len()..]);
        let refused = program::chain(&read(&stranger).unwrap().stock("select 1").await.unwrap_err());
        assert!(refused.starts_with(&format!("could not connect to {address}: ")), "{refused}");
        assert!(refused.contains("Access denied for user 'me'") && !refused.contains("s3cret"), "{refused}");
        assert!(refused.ends_with("; start the server, or correct url in the shop file"), "{refused}");
        let wide = program::chain(&shop.orders("select 1, 2").await.unwrap_err());
        assert!(
            wide.starts_with("could not read the orders of the shop by the query of [books] in mysql://"),
            "{wide}"
        );
    }
}
