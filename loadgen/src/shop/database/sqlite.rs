//! The database of a shop that uses SQLite.

use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use sqlx::ConnectOptions as _;
use sqlx_sqlite::{SqliteConnectOptions, SqliteConnection};

use super::connection::Access;

/// Upper bound of the time for another program, such as the shop, to end its write.
const BUSY_WITHIN: Duration = Duration::from_secs(10);

/// A file of SQLite.
#[derive(Clone)]
pub(super) struct SqliteFile(PathBuf);

impl SqliteFile {
    pub(super) fn read(text: &str, folder: &Path) -> Result<SqliteFile, String> {
        let name = text.strip_prefix("sqlite:").unwrap_or(text);
        let name = name.strip_prefix("//").unwrap_or(name);
        if name.is_empty() || name == ":memory:" {
            return Err("this names no file, and another program's memory cannot be read; write sqlite:FILE".to_owned());
        }
        if name.contains('?') {
            return Err("parameters of a file of SQLite are not supported; leave out what follows the ?, and write a ? in the name \
                        of the file as %3F"
                .to_owned());
        }
        let unreadable =
            |what: String| format!("the name of the database file cannot be read: {what}; write sqlite:FILE");
        let options: SqliteConnectOptions =
            format!("sqlite://{name}").parse().map_err(|error: sqlx::Error| unreadable(error.to_string()))?;
        if options.get_filename().as_os_str().as_encoded_bytes().contains(&0) {
            return Err(unreadable("it has a NUL character".to_owned()));
        }
        // Of a relative path, SQLite would take a beginning such as `file:` for a URL.
        let path = std::path::absolute(folder.join(options.get_filename()));
        path.map(SqliteFile).map_err(|error| unreadable(error.to_string()))
    }

    pub(super) fn address(&self) -> String {
        format!("sqlite:{}", self.0.display())
    }

    pub(super) async fn connect(&self, access: Access) -> Result<SqliteConnection, sqlx::Error> {
        if !self.0.is_file() {
            return Err(sqlx::Error::Io(io::Error::new(io::ErrorKind::NotFound, "there is no such file")));
        }
        let options = SqliteConnectOptions::new().filename(&self.0).create_if_missing(false).busy_timeout(BUSY_WITHIN);
        // SQLite's own default. A statement of the file can change it.
        options.foreign_keys(false).read_only(access == Access::Read).connect().await
    }

    /// Returns a query for the columns of another one, as text. Bytes become hexadecimal digits, as in a binary UUID.
    pub(super) fn as_text(&self, query: &str, columns: &[&str]) -> String {
        let names = columns.join(", ");
        let text = |column: &&str| {
            format!("case typeof({column}) when 'blob' then lower(hex({column})) else cast({column} as text) end")
        };
        let texts: Vec<_> = columns.iter().map(text).collect();
        format!("with books({names}) as ({query}\n) select {} from books", texts.join(", "))
    }
}

#[cfg(test)]
mod tests {
    use sqlx::Connection as _;
    use tempfile::TempDir;

    use super::super::DatabaseUrl;
    use super::*;

    async fn run(database: &DatabaseUrl, statements: &[&str]) -> Result<(), String> {
        let statements: Vec<_> = statements.iter().map(|statement| (*statement).to_owned()).collect();
        database.run(&statements).await.map_err(|error| program::chain(&error))
    }

    /// Makes a database as a shop does, in the file `shop.db` of a folder, and keeps it open.
    async fn shop_of(folder: &TempDir, statements: &'static str) -> SqliteConnection {
        let options = SqliteConnectOptions::new().filename(folder.path().join("shop.db")).create_if_missing(true);
        let mut connection = options.connect().await.unwrap();
        sqlx::raw_sql(statements).execute(&mut connection).await.unwrap();
        connection
    }

    fn read(url: &str, folder: &TempDir) -> Result<DatabaseUrl, String> {
        DatabaseUrl::read(url, folder.path())
    }

    #[test]
    fn a_relative_path_begins_in_the_folder_of_the_shop_file() {
        for (url, expected) in [
            ("sqlite:shop.db", "sqlite:/shops/shop.db"),
            ("sqlite://data/shop.db", "sqlite:/shops/data/shop.db"),
            ("sqlite:///data/shop.db", "sqlite:/data/shop.db"),
            ("sqlite:////data/shop.db", "sqlite://data/shop.db"),
            ("sqlite:/data/a%20b%3F.db", "sqlite:/data/a b?.db"),
            ("sqlite:file:shop.db", "sqlite:/shops/file:shop.db"),
        ] {
            let database = DatabaseUrl::read(url, Path::new("/shops")).unwrap();
            assert_eq!((database.address().as_str(), database.is_here()), (expected, true), "{url}");
        }
        let here = std::env::current_dir().unwrap().join("shop.db");
        let database = DatabaseUrl::read("sqlite:shop.db", Path::new("")).unwrap();
        assert_eq!(database.address(), format!("sqlite:{}", here.display()));
    }

    #[test]
    fn a_url_that_names_no_file_is_refused() {
        for (url, expected) in [
            ("sqlite:", "this names no file, and another program's memory cannot be read; write sqlite:FILE"),
            ("sqlite://", "this names no file"),
            ("sqlite::memory:", "this names no file"),
            ("sqlite:shop.db?mode=rwc", "parameters of a file of SQLite are not supported"),
            ("sqlite:%ff.db", "the name of the database file cannot be read: "),
            ("sqlite:a%00.db", "the name of the database file cannot be read: it has a NUL character"),
        ] {
            let refused = DatabaseUrl::read(url, Path::new("/shops")).unwrap_err();
            assert!(refused.starts_with(expected), "{url}: {refused}");
        }
    }

    #[tokio::test]
    async fn the_books_are_read_whatever_their_types() {
        let folder = TempDir::new().unwrap();
        let statements = "create table item (units); insert into item values (3.0);
                          create table sold (id, who, n);
                          insert into sold values (x'00ff', 'ann', '4'), (17, 2.5, 3), ('库存', null, 2), (null, '', 1.0)";
        let _kept = shop_of(&folder, statements).await;
        let database = read("sqlite:shop.db", &folder).unwrap();
        assert_eq!(database.stock("select units from item;").await.unwrap(), 3);
        let orders = database.orders("select * from sold order by cast(n as int) desc -- all").await.unwrap();
        let found: Vec<_> =
            orders.iter().map(|order| (order.number.as_deref(), order.buyer.as_deref(), order.units)).collect();
        let expected = [
            (Some("00ff"), Some("ann"), 4),
            (Some("17"), Some("2.5"), 3),
            (Some("库存"), None, 2),
            (None, Some(""), 1),
        ];
        assert_eq!(found, expected);
        let with = "with some as (select id from sold) select count(*) from some";
        assert_eq!(database.stock(with).await.unwrap(), 4);
    }

    #[tokio::test]
    async fn a_file_that_does_not_exist_is_never_made() {
        let folder = TempDir::new().unwrap();
        let database = read("sqlite:shop.db", &folder).unwrap();
        let expected = format!("could not connect to sqlite:{}/shop.db: ", folder.path().display());
        let refused = [
            program::chain(&database.stock("select 1").await.unwrap_err()),
            run(&database, &["create table item (units)"]).await.unwrap_err(),
        ];
        for refused in refused {
            assert!(
                refused.starts_with(&expected) && refused.contains("there is no such file; start the shop"),
                "{refused}"
            );
        }
        assert!(!folder.path().join("shop.db").exists());
    }

    #[tokio::test]
    async fn the_books_are_read_without_a_write() {
        let folder = TempDir::new().unwrap();
        let _kept = shop_of(&folder, "create table item (units); insert into item values (3)").await;
        let database = read("sqlite:shop.db", &folder).unwrap();
        let mut connection = database.connect(Access::Read).await.unwrap();
        let refused = connection.run("update item set units = 0").await.unwrap_err().to_string();
        assert!(refused.contains("attempt to write a readonly database"), "{refused}");
        assert_eq!(database.stock("select units from item").await.unwrap(), 3);
    }

    #[tokio::test]
    async fn a_shop_with_a_log_is_read_while_it_runs_and_afterwards() {
        let folder = TempDir::new().unwrap();
        let mut shop =
            shop_of(&folder, "pragma journal_mode = wal; create table item (units); insert into item values (3)").await;
        let database = read("sqlite:shop.db", &folder).unwrap();
        sqlx::raw_sql("begin immediate; update item set units = 2").execute(&mut shop).await.unwrap();
        assert_eq!(database.stock("select units from item").await.unwrap(), 3, "nothing is committed yet");
        sqlx::raw_sql("commit").execute(&mut shop).await.unwrap();
        assert_eq!(database.stock("select units from item").await.unwrap(), 2);
        shop.close().await.unwrap();
        assert_eq!(database.stock("select units from item").await.unwrap(), 2);
    }

    #[tokio::test]
    async fn a_connection_waits_for_the_shop_and_is_set_as_sqlites_own() {
        let folder = TempDir::new().unwrap();
        let _kept = shop_of(&folder, "create table item (units)").await;
        let database = read("sqlite:shop.db", &folder).unwrap();
        assert_eq!(database.stock("select timeout from pragma_busy_timeout").await.unwrap(), 10_000);
        assert_eq!(database.stock("select foreign_keys from pragma_foreign_keys").await.unwrap(), 0);
    }

    #[tokio::test]
    async fn statements_run_in_their_order_until_one_is_refused() {
        let folder = TempDir::new().unwrap();
        let _kept = shop_of(&folder, "create table item (units); insert into item values (3)").await;
        let database = read("sqlite:shop.db", &folder).unwrap();
        run(&database, &["delete from item; insert into item values (5)", "update item set units = units * 2"])
            .await
            .unwrap();
        assert_eq!(database.stock("select units from item").await.unwrap(), 10);
        let refused = run(&database, &["update item set units = 1", "update itm set units = 2"]).await.unwrap_err();
        assert!(refused.starts_with("could not run statement 2 of sql in [sale] in sqlite:/"), "{refused}");
        assert!(refused.contains("no such table: itm"), "{refused}");
        assert_eq!(database.stock("select units from item").await.unwrap(), 1);
        std::fs::write(folder.path().join("shop.db"), "no database at all, but long enough to have a header").unwrap();
        let refused = program::chain(&database.stock("select 1 from item").await.unwrap_err());
        assert!(refused.contains("file is not a database"), "{refused}");
    }
}
