//! What the database knows of a sale. The generator asks it directly, as the service is what is being judged.

use std::io;
use std::time::Duration;

use loadgen::audit::OrderRow;
use sqlx::postgres::{PgConnectOptions, PgPoolOptions};
use sqlx::{ConnectOptions, Connection, PgExecutor, PgPool};

use crate::error::Error;
use crate::service::Goods;

/// How long a connection may take.
const CONNECT_WITHIN: Duration = Duration::from_secs(10);
/// How a transaction begins that sees one moment, whatever others commit meanwhile.
const BEGIN_SNAPSHOT: &str = "begin isolation level repeatable read, read only";

/// The service's database, read only.
#[derive(Debug, Clone)]
pub(crate) struct Database(PgPool);

impl Database {
    /// Connects.
    ///
    /// # Errors
    ///
    /// [`Error::PostgresUnreachable`] when the database does not answer, [`Error::Usage`] when the URL is none.
    ///
    /// # Cancel safety
    ///
    /// Cancelling leaves nothing behind.
    pub(crate) async fn connect(url: &str) -> Result<Database, Error> {
        let invalid = |error| Error::Usage(format!("the database URL cannot be read: {error}"));
        let options: PgConnectOptions = url.parse().map_err(invalid)?;
        // A pool tries again and again, and then knows no more than that its time is over.
        let trying = async { options.connect().await?.close().await };
        let tried = tokio::time::timeout(CONNECT_WITHIN, trying).await.unwrap_or_else(|_| {
            let text = format!("no answer within {} s", CONNECT_WITHIN.as_secs());
            Err(sqlx::Error::Io(io::Error::new(io::ErrorKind::TimedOut, text)))
        });
        tried.map_err(|source| Error::PostgresUnreachable { address: address(&options), source })?;
        let pool = PgPoolOptions::new().max_connections(2).acquire_timeout(CONNECT_WITHIN);
        Ok(Database(pool.connect_lazy_with(options)))
    }

    /// The stock of a SKU.
    ///
    /// # Errors
    ///
    /// [`Error::Postgres`] when the SKU is not there or the database does not answer.
    ///
    /// # Cancel safety
    ///
    /// Cancelling loses nothing.
    pub(crate) async fn goods(&self, goods_no: i64) -> Result<Goods, Error> {
        read_goods(&self.0, goods_no).await
    }

    /// The stock of a SKU and all orders of a sale, both at the same moment.
    ///
    /// # Errors
    ///
    /// [`Error::Postgres`] when the SKU is not there or the database does not answer.
    ///
    /// # Cancel safety
    ///
    /// Cancelling loses nothing.
    pub(crate) async fn books(&self, goods_no: i64, sale: i64) -> Result<(Goods, Vec<OrderRow>), Error> {
        let mut snapshot = self.0.begin_with(BEGIN_SNAPSHOT).await.map_err(Error::postgres("begin to read"))?;
        let goods = read_goods(&mut *snapshot, goods_no).await?;
        let orders = sqlx::query_as!(
            OrderRow,
            "select order_id, quantity, strategy from order_lines join orders using (order_id)
             where goods_no = $1 and sale = $2",
            goods_no,
            sale
        )
        .fetch_all(&mut *snapshot)
        .await
        .map_err(Error::postgres("read the orders"))?;
        snapshot.commit().await.map_err(Error::postgres("end the reading"))?;
        Ok((goods, orders))
    }

    /// How many orders a sale has.
    ///
    /// # Errors
    ///
    /// [`Error::Postgres`] when the database does not answer.
    ///
    /// # Cancel safety
    ///
    /// Cancelling loses nothing.
    pub(crate) async fn order_count(&self, goods_no: i64, sale: i64) -> Result<u64, Error> {
        let count = sqlx::query_scalar!(
            r#"select count(*) as "count!" from order_lines where goods_no = $1 and sale = $2"#,
            goods_no,
            sale
        )
        .fetch_one(&self.0)
        .await
        .map_err(Error::postgres("count the orders"))?;
        Ok(u64::try_from(count).unwrap_or_default())
    }

    /// The version of the server, such as `15.18`.
    ///
    /// # Errors
    ///
    /// [`Error::Postgres`] when the database does not answer.
    ///
    /// # Cancel safety
    ///
    /// Cancelling loses nothing.
    pub(crate) async fn version(&self) -> Result<String, Error> {
        let version = sqlx::query_scalar!(r#"select current_setting('server_version') as "version!""#)
            .fetch_one(&self.0)
            .await
            .map_err(Error::postgres("read the version"))?;
        // Distributions add their own to it: `15.18 (Debian 15.18-0+deb12u1)`.
        Ok(version.split_whitespace().next().unwrap_or_default().to_owned())
    }
}

async fn read_goods(executor: impl PgExecutor<'_>, goods_no: i64) -> Result<Goods, Error> {
    sqlx::query_as!(Goods, "select sale, stock_initial, on_hand from goods where goods_no = $1", goods_no)
        .fetch_one(executor)
        .await
        .map_err(Error::postgres("read the stock"))
}

/// Where the options lead, without the user and the password.
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
    async fn an_unreachable_database_is_named_with_the_cause_and_without_the_password() {
        let error = Database::connect("postgres://buyer:s3cret@127.0.0.1:1/seckill").await.unwrap_err();
        let text = error.chain();
        assert!(text.starts_with("could not connect to postgres at 127.0.0.1:1: "), "{text}");
        assert!(text.contains("refused") && !text.contains("s3cret"), "{text}");
    }

    #[tokio::test]
    async fn the_books_of_a_sale_are_read_as_of_one_moment() {
        let server = TestDatabase::create().await.unwrap();
        let database = Database::connect(server.url()).await.unwrap();
        sqlx::migrate!("../migrations").run(&database.0).await.unwrap();
        let execute = async |statement: &'static str| sqlx::query(statement).execute(&database.0).await.unwrap();
        execute("insert into goods (goods_no, sale, stock_initial, on_hand) values (1, 7, 9, 8)").await;
        execute("insert into orders (strategy, instance) values ('a', 'x'), ('b', 'x')").await;
        execute("insert into order_lines (order_id, goods_no, sale, quantity) values (1, 1, 7, 1), (2, 1, 6, 1)").await;

        let (goods, orders) = database.books(1, 7).await.unwrap();
        assert_eq!(goods, Goods { sale: 7, stock_initial: 9, on_hand: 8 });
        assert_eq!(orders, [OrderRow { order_id: 1, quantity: 1, strategy: "a".to_owned() }]);

        let mut snapshot = database.0.begin_with(BEGIN_SNAPSHOT).await.unwrap();
        assert_eq!(read_goods(&mut *snapshot, 1).await.unwrap().on_hand, 8);
        execute("update goods set on_hand = 3").await;
        assert_eq!(read_goods(&mut *snapshot, 1).await.unwrap().on_hand, 8, "the moment has passed");
    }
}
