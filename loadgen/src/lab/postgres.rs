//! What the database knows of a sale. The generator asks it directly, as the service is what is being judged.

use std::io;
use std::time::Duration;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use sqlx::postgres::{PgConnectOptions, PgPoolOptions};
use sqlx::{ConnectOptions, Connection, PgConnection, PgExecutor, PgPool};

use crate::audit::ledger::{SaleAudit, SaleRow};
use crate::audit::orders::OrderRow;
use crate::error::Error;
use crate::lab::service::Goods;

/// How long a connection may take.
const CONNECT_WITHIN: Duration = Duration::from_secs(10);
/// One for the questions of the trial, one for the look at who waits.
const CONNECTIONS: u32 = 2;
/// How a transaction begins that sees one moment, whatever others commit meanwhile.
const BEGIN_SNAPSHOT: &str = "begin isolation level repeatable read, read only";

/// A setting of a server.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub(crate) struct Setting {
    /// Its name.
    pub(crate) name: String,
    /// Its value, with the unit.
    pub(crate) value: String,
}

/// The service's database, read only.
#[derive(Debug, Clone)]
pub(crate) struct Database(pub(super) PgPool);

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
        let pool = PgPoolOptions::new().max_connections(CONNECTIONS).acquire_timeout(CONNECT_WITHIN);
        Ok(Database(pool.connect_lazy_with(options)))
    }

    /// The stock of a SKU.
    ///
    /// # Errors
    ///
    /// [`Error::Reset`] when the SKU is not there, [`Error::Postgres`] when the database does not answer.
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
    /// [`Error::Reset`] when the SKU is not there, [`Error::Postgres`] when the database does not answer.
    ///
    /// # Cancel safety
    ///
    /// Cancelling loses nothing.
    pub(crate) async fn books(&self, goods_no: i64, sale: i64) -> Result<(Goods, Vec<OrderRow>), Error> {
        let mut snapshot = self.0.begin_with(BEGIN_SNAPSHOT).await.map_err(Error::postgres("begin to read"))?;
        let goods = read_goods(&mut *snapshot, goods_no).await?;
        let orders = read_orders(&mut *snapshot, goods_no, sale).await?;
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

    /// What the books of every sale say, or of those of one SKU, or of one alone; by SKU and number, all as of one moment.
    ///
    /// # Errors
    ///
    /// [`Error::Postgres`] when the database does not answer, or has no such tables.
    ///
    /// # Cancel safety
    ///
    /// Cancelling loses nothing.
    pub(crate) async fn sale_audits(&self, goods_no: Option<i64>, sale: Option<i64>) -> Result<Vec<SaleAudit>, Error> {
        let mut snapshot = self.0.begin_with(BEGIN_SNAPSHOT).await.map_err(Error::postgres("begin to read"))?;
        let rows = Self::sales(&mut snapshot, goods_no, sale).await?;
        let mut audits = Vec::with_capacity(rows.len());
        for row in rows {
            let orders = read_orders(&mut *snapshot, row.goods_no, row.sale).await?;
            audits.push(SaleAudit::of(&row, &orders));
        }
        snapshot.commit().await.map_err(Error::postgres("end the reading"))?;
        Ok(audits)
    }

    async fn sales(
        connection: &mut PgConnection,
        goods_no: Option<i64>,
        sale: Option<i64>,
    ) -> Result<Vec<SaleRow>, Error> {
        // A sale without a row in the ledger is one from before there was a ledger; only its orders tell of it.
        sqlx::query_as!(
            SaleRow,
            r#"select known.goods_no as "goods_no!", known.sale as "sale!",
                      to_char(started_at at time zone 'utc', 'YYYY-MM-DD"T"HH24:MI:SS"Z"') as started_at,
                      sales.stock_initial as "stock_initial?",
                      case when goods.sale = known.sale then on_hand else on_hand_final end as stock_final,
                      goods.sale = known.sale as "is_on!"
               from (select goods_no, sale from sales union select goods_no, sale from order_lines) as known
                    join goods on goods.goods_no = known.goods_no
                    left join sales on sales.goods_no = known.goods_no and sales.sale = known.sale
               where (known.goods_no = $1 or $1::bigint is null) and (known.sale = $2 or $2::bigint is null)
               order by known.goods_no, known.sale"#,
            goods_no,
            sale
        )
        .fetch_all(connection)
        .await
        .map_err(Error::postgres("read the ledger"))
    }

    /// The settings that matter for a load of small transactions.
    ///
    /// # Errors
    ///
    /// [`Error::Postgres`] when the database does not answer.
    ///
    /// # Cancel safety
    ///
    /// Cancelling loses nothing.
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
    sqlx::query_as!(
        Goods,
        "select sale, stock_initial, on_hand, guard, strategy from goods where goods_no = $1",
        goods_no
    )
    .fetch_optional(executor)
    .await
    .map_err(Error::postgres("read the stock"))?
    .ok_or_else(|| Error::Reset(format!("the database has no SKU {goods_no}; is this the database of the service?")))
}

/// All orders of a sale, in the order of their numbers.
async fn read_orders(executor: impl PgExecutor<'_>, goods_no: i64, sale: i64) -> Result<Vec<OrderRow>, Error> {
    let rows = sqlx::query!(
        r#"select order_id, order_lines.xmin::text::bigint as "transaction!", quantity, strategy, remaining, token,
                  token_handover
           from order_lines join orders using (order_id)
           where goods_no = $1 and sale = $2 order by order_id"#,
        goods_no,
        sale
    )
    .fetch_all(executor)
    .await
    .map_err(Error::postgres("read the orders"))?;
    let orders = rows.into_iter().map(|row| OrderRow {
        order_id: row.order_id,
        transaction: row.transaction,
        quantity: row.quantity,
        strategy: row.strategy,
        remaining: row.remaining,
        token: row.token.map(|token| (token, row.token_handover.unwrap_or(0))),
        arrived_ns: None,
    });
    Ok(orders.collect())
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

    #[tokio::test]
    async fn the_books_of_a_sale_are_read_as_of_one_moment() {
        let server = TestDatabase::create().await.unwrap();
        let database = Database::connect(server.url()).await.unwrap();
        sqlx::migrate!("../migrations").run(&database.0).await.unwrap();
        let execute = async |statement: &'static str| sqlx::query(statement).execute(&database.0).await.unwrap();
        execute(
            "insert into goods (goods_no, sale, stock_initial, on_hand, guard, strategy)
             values (1, 7, 9, 8, 'zk-queue', 'zk-mutex')",
        )
        .await;
        execute("insert into orders (strategy, instance) select s, 'x' from unnest(array['a', 'b', 'a', 'a']) as s")
            .await;
        execute("insert into order_lines (order_id, goods_no, sale, quantity) values (1, 1, 7, 1), (2, 1, 6, 1)").await;
        execute(
            "insert into order_lines (order_id, goods_no, sale, quantity, remaining, token, token_handover)
             values (4, 1, 7, 1, 6, 5, 2), (3, 1, 7, 2, 4, 5, 2)",
        )
        .await;

        let (goods, orders) = database.books(1, 7).await.unwrap();
        let [guard, strategy] = ["zk-queue", "zk-mutex"].map(|name| Some(name.to_owned()));
        assert_eq!(goods, Goods { sale: 7, stock_initial: 9, on_hand: 8, guard, strategy });
        let row = |order_id, transaction, quantity, remaining, token| {
            let strategy = "a".to_owned();
            OrderRow { order_id, transaction, quantity, strategy, remaining, token, arrived_ns: None }
        };
        let [alone, batch] = [&orders[0], &orders[1]].map(|order| order.transaction);
        let of_batch = |order_id, quantity, left| row(order_id, batch, quantity, Some(left), Some((5, 2)));
        assert_eq!(orders, [row(1, alone, 1, None, None), of_batch(3, 2, 4), of_batch(4, 1, 6)]);
        assert_ne!(alone, batch, "they are of different transactions");

        let mut snapshot = database.0.begin_with(BEGIN_SNAPSHOT).await.unwrap();
        assert_eq!(read_goods(&mut *snapshot, 1).await.unwrap().on_hand, 8);
        execute("update goods set on_hand = 3").await;
        assert_eq!(read_goods(&mut *snapshot, 1).await.unwrap().on_hand, 8, "the moment has passed");
    }
}
