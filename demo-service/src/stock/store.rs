//! Every SQL statement of the domain, checked against the schema at compile time.
//!
//! Callers compose the statements; none of them decides anything.

use std::time::Duration;

use sqlx::postgres::{PgConnectOptions, PgPoolOptions};
use sqlx::{Connection, PgPool, Postgres, Transaction};

use super::{Goods, GoodsNo, Level, Quantity, Stock};

/// An idle connection older than this is probed before it is used again. Probing every time would add a round trip to
/// every critical section; never probing would fail one request for each connection that a restarted server dropped.
const PROBE_IDLE_AFTER: Duration = Duration::from_secs(1);

/// The stock and the orders, in Postgres.
#[derive(Debug, Clone)]
pub struct Store {
    pool: PgPool,
}

impl Store {
    /// A store that opens up to `connections_max` connections as they are needed. Waiting for one, and every statement,
    /// is bounded by `within`. Nothing is connected yet.
    pub fn open(options: PgConnectOptions, connections_max: u32, within: Duration) -> Self {
        let within_ms = within.as_millis();
        let options = options.application_name("demo-service").options([
            ("statement_timeout", within_ms),
            ("lock_timeout", within_ms),
            // Ends, on the server, the transaction of an instance that froze in the middle of a critical section.
            ("idle_in_transaction_session_timeout", within_ms),
        ]);
        let pool = PgPoolOptions::new()
            .max_connections(connections_max)
            .acquire_timeout(within)
            .test_before_acquire(false)
            .before_acquire(|connection, meta| {
                Box::pin(async move {
                    if meta.idle_for >= PROBE_IDLE_AFTER {
                        connection.ping().await?;
                    }
                    Ok(true)
                })
            })
            .connect_lazy_with(options);
        Self { pool }
    }

    /// Asks the database for a sign of life.
    ///
    /// # Errors
    /// Whatever the driver says: no connection in time, or no answer.
    ///
    /// # Cancel safety
    /// Nothing is lost.
    pub async fn check(&self) -> Result<(), sqlx::Error> {
        sqlx::query!("select").execute(&self.pool).await.map(drop)
    }

    /// One SKU as it stands, or `None` when there is no such SKU.
    ///
    /// # Errors
    /// Whatever the driver says.
    ///
    /// # Cancel safety
    /// Nothing is lost.
    pub async fn goods(&self, goods_no: GoodsNo) -> Result<Option<Goods>, sqlx::Error> {
        let row = sqlx::query!("select sale, stock_initial, on_hand from goods where goods_no = $1", goods_no.get())
            .fetch_optional(&self.pool)
            .await?;
        Ok(row.map(|row| Goods { goods_no, sale: row.sale, stock_initial: row.stock_initial, on_hand: row.on_hand }))
    }

    /// Starts the next sale of a SKU with `stock` units, and creates the SKU if it is new. Orders are never deleted.
    ///
    /// # Errors
    /// Whatever the driver says. After a lost connection the sale may have started or not; starting one more is
    /// harmless.
    ///
    /// # Cancel safety
    /// Dropped, the sale may have started or not.
    pub async fn start_sale(&self, goods_no: GoodsNo, stock: Stock) -> Result<Goods, sqlx::Error> {
        let row = sqlx::query!(
            "insert into goods (goods_no, sale, stock_initial, on_hand) values ($1, 1, $2, $2)
             on conflict (goods_no) do update
             set sale = goods.sale + 1, stock_initial = excluded.stock_initial, on_hand = excluded.on_hand
             returning sale, stock_initial, on_hand",
            goods_no.get(),
            stock.get(),
        )
        .fetch_one(&self.pool)
        .await?;
        Ok(Goods { goods_no, sale: row.sale, stock_initial: row.stock_initial, on_hand: row.on_hand })
    }

    /// Begins a transaction that only sees and overwrites what others have committed.
    ///
    /// # Errors
    /// Whatever the driver says, among it that no connection was free in time.
    ///
    /// # Cancel safety
    /// Dropped, a transaction that had begun is rolled back.
    pub async fn begin(&self) -> Result<SaleTransaction, sqlx::Error> {
        let inner = self.pool.begin_with("begin isolation level read committed").await?;
        Ok(SaleTransaction { inner })
    }

    /// Whether a transaction is over, committed or not.
    ///
    /// # Errors
    /// Whatever the driver says.
    ///
    /// # Cancel safety
    /// Nothing is lost.
    pub async fn is_over(&self, transaction: &TransactionId) -> Result<bool, sqlx::Error> {
        sqlx::query_scalar!(
            r#"select pg_xact_status($1::text::xid8) is distinct from 'in progress' as "over!""#,
            transaction.0
        )
        .fetch_one(&self.pool)
        .await
    }

    /// Closes every connection; waits for those in use.
    ///
    /// # Cancel safety
    /// The pool is closed from the first poll on; dropped, only the waiting ends.
    pub async fn close(&self) {
        self.pool.close().await;
    }
}

/// What an order records about the deduction that wrote it.
#[derive(Debug, Clone, Copy)]
pub struct NewOrder<'a> {
    /// The SKU.
    pub goods_no: GoodsNo,
    /// The sale that the units were taken from.
    pub sale: i64,
    /// How many units.
    pub quantity: Quantity,
    /// The strategy that guarded the deduction.
    pub strategy: &'a str,
    /// The instance of the service that made it.
    pub instance: &'a str,
    /// The fencing token of the hold, where there was one.
    pub token: Option<i64>,
}

/// An order that is written and not committed yet.
#[derive(Debug)]
pub struct WrittenOrder {
    /// Its number.
    pub order_id: i64,
    /// The transaction that wrote it.
    pub transaction: TransactionId,
}

/// What the database calls a transaction. Unique until the database crashes: it may then be given out again.
#[derive(Debug)]
pub struct TransactionId(String);

/// One transaction of a deduction. Dropped without a commit, it is rolled back.
#[derive(Debug)]
pub struct SaleTransaction {
    inner: Transaction<'static, Postgres>,
}

impl SaleTransaction {
    /// Reads what is left of a SKU, or `None` when there is no such SKU. Takes no row lock.
    ///
    /// # Errors
    /// Whatever the driver says.
    ///
    /// # Cancel safety
    /// Nothing is lost, but the transaction can only be rolled back.
    pub async fn read(&mut self, goods_no: GoodsNo) -> Result<Option<Level>, sqlx::Error> {
        sqlx::query_as!(Level, "select sale, on_hand from goods where goods_no = $1", goods_no.get())
            .fetch_optional(&mut *self.inner)
            .await
    }

    /// Overwrites what is left with `on_hand`, whatever it is by now, and returns whether `sale` is still on.
    ///
    /// The absolute value is the point of the comparison: two transactions that read the same stock both write the same
    /// remainder, and one of the two updates is lost.
    ///
    /// # Errors
    /// Whatever the driver says.
    ///
    /// # Cancel safety
    /// Nothing is lost, but the transaction can only be rolled back.
    pub async fn overwrite(&mut self, goods_no: GoodsNo, sale: i64, on_hand: i64) -> Result<bool, sqlx::Error> {
        let done = sqlx::query!(
            "update goods set on_hand = $3 where goods_no = $1 and sale = $2",
            goods_no.get(),
            sale,
            on_hand,
        )
        .execute(&mut *self.inner)
        .await?;
        Ok(done.rows_affected() == 1)
    }

    /// Takes `quantity` units if `sale` is still on and that many are left at this instant, and returns what remains.
    /// The row stays locked until the end of the transaction.
    ///
    /// # Errors
    /// Whatever the driver says.
    ///
    /// # Cancel safety
    /// Nothing is lost, but the transaction can only be rolled back.
    pub async fn take_if_enough(
        &mut self,
        goods_no: GoodsNo,
        sale: i64,
        quantity: Quantity,
    ) -> Result<Option<i64>, sqlx::Error> {
        sqlx::query_scalar!(
            "update goods set on_hand = on_hand - $3 where goods_no = $1 and sale = $2 and on_hand >= $3
             returning on_hand",
            goods_no.get(),
            sale,
            quantity.get(),
        )
        .fetch_optional(&mut *self.inner)
        .await
    }

    /// Writes the order.
    ///
    /// # Errors
    /// Whatever the driver says.
    ///
    /// # Cancel safety
    /// Nothing is lost, but the transaction can only be rolled back.
    pub async fn insert_order(&mut self, order: NewOrder<'_>) -> Result<WrittenOrder, sqlx::Error> {
        let row = sqlx::query!(
            r#"insert into orders (goods_no, sale, quantity, strategy, instance, token)
               values ($1, $2, $3, $4, $5, $6) returning order_id, pg_current_xact_id()::text as "transaction!""#,
            order.goods_no.get(),
            order.sale,
            order.quantity.get(),
            order.strategy,
            order.instance,
            order.token,
        )
        .fetch_one(&mut *self.inner)
        .await?;
        Ok(WrittenOrder { order_id: row.order_id, transaction: TransactionId(row.transaction) })
    }

    /// Commits.
    ///
    /// # Errors
    /// Whatever the driver says. Unless the database refused in words, the transaction may have been committed.
    ///
    /// # Cancel safety
    /// Dropped, the transaction may have been committed or not.
    pub async fn commit(self) -> Result<(), sqlx::Error> {
        self.inner.commit().await
    }
}
