//! Every SQL statement of the domain, checked against the schema at compile time.
//!
//! Callers compose the statements; none of them decides anything.

mod sales;
mod shared_reads;
mod transaction;

use std::panic::resume_unwind;
use std::sync::Arc;
use std::time::Duration;

use sqlx::postgres::{PgConnectOptions, PgPoolOptions};
use sqlx::{AssertSqlSafe, Connection, PgPool, SqlSafeStr, Transaction};

use self::shared_reads::SharedReads;
pub use self::transaction::{Isolation, NewOrder, SaleTransaction, TransactionId, WaitTag, WrittenOrder};
use super::{Goods, GoodsNo, Level, Order, OrderLine, Token};
use crate::purchase::{Cart, IdempotencyKey};

/// An idle connection older than this is probed before it is used again. Probing every time would add a round trip to
/// every critical section; never probing would fail one request for each connection that a restarted server dropped.
const PROBE_IDLE_AFTER: Duration = Duration::from_secs(1);

/// The connections that are kept aside: for questions about others that may have taken all the rest.
const ASIDE_CONNECTIONS: u32 = 1;

/// The stock and the orders, in Postgres.
#[derive(Clone)]
pub struct Store {
    pool: PgPool,
    looks: Arc<SharedReads<GoodsNo, Look>>,
    /// For what must be had while every connection of the pool waits for a lock or a commit: a sign of life, whether a
    /// transaction is over, and the end of a wait that nobody is interested in any more.
    aside: PgPool,
}

/// What a statement says that many may have asked for.
type Look = Result<Option<Goods>, Arc<sqlx::Error>>;

/// How the connections to the database are used.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct PoolCounts {
    /// At work, or on their way back from a statement that was given up.
    pub in_use: u32,
    /// Open and waiting for work.
    pub idle: u32,
}

/// What the database says when it is asked for a sign of life.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Health {
    /// It can be written to.
    Writable,
    /// It is a standby, or was made read-only: nothing can be sold.
    ReadOnly,
}

/// What is known of an idempotency key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Remembered {
    /// It was asked with another cart.
    OtherCart,
    /// The order that was written.
    Order(Order),
    /// Not enough was left of this SKU.
    SoldOut(GoodsNo),
}

impl Store {
    /// A store that opens up to `connections_max` connections as they are needed, and one more for questions that must
    /// be answered while all of those wait. Waiting for one, and every statement, is bounded by `within`. Nothing is
    /// connected yet.
    pub fn open(options: PgConnectOptions, connections_max: u32, within: Duration) -> Self {
        let within_ms = within.as_millis();
        let options = options.application_name("demo-service").options([
            ("statement_timeout", within_ms),
            ("lock_timeout", within_ms),
            // Ends, on the server, the transaction of an instance that froze in the middle of a critical section.
            ("idle_in_transaction_session_timeout", within_ms),
        ]);
        let pool = |connections_max| {
            PgPoolOptions::new()
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
                .connect_lazy_with(options.clone())
        };
        Self { pool: pool(connections_max), looks: Arc::default(), aside: pool(ASIDE_CONNECTIONS) }
    }

    /// How the connections of the pool are used now.
    pub fn pool_counts(&self) -> PoolCounts {
        // Read one after the other, so there may be one more idle by then.
        let (idle, size) = (u32::try_from(self.pool.num_idle()).unwrap_or(u32::MAX), self.pool.size());
        PoolCounts { in_use: size.saturating_sub(idle), idle }
    }

    /// Asks the database for a sign of life, and whether it can be written to.
    ///
    /// # Errors
    /// Whatever the driver says: no connection in time, or no answer.
    ///
    /// # Cancel safety
    /// Nothing is lost.
    pub async fn check(&self) -> Result<Health, sqlx::Error> {
        // A standby says so, too.
        let read_only = sqlx::query_scalar!(r#"select current_setting('transaction_read_only')::bool as "read_only!""#);
        let read_only = read_only.fetch_one(&self.aside).await?;
        Ok(if read_only { Health::ReadOnly } else { Health::Writable })
    }

    /// One SKU as it stands, or `None` when there is no such SKU.
    ///
    /// # Errors
    /// Whatever the driver says.
    ///
    /// # Cancel safety
    /// Nothing is lost.
    pub async fn goods(&self, goods_no: GoodsNo) -> Result<Option<Goods>, sqlx::Error> {
        goods(&self.pool, goods_no).await
    }

    /// As [`goods`](Self::goods), of an SKU that exists, by a statement that is shared with whoever asks for the same at the
    /// same time. All that was committed before the call is seen.
    ///
    /// # Errors
    /// Whatever the driver says, to all who shared the statement.
    ///
    /// # Cancel safety
    /// Nothing is lost.
    pub async fn look(&self, goods_no: GoodsNo) -> Result<Option<Goods>, Arc<sqlx::Error>> {
        let pool = self.pool.clone();
        self.looks.read(goods_no, async move { goods(&pool, goods_no).await.map_err(Arc::new) }).await
    }

    /// Begins a transaction. Where `wait` is given, its statements wait for a lock for so long at most, each of them, and
    /// can be [interrupted](Self::interrupt) by the tag.
    ///
    /// # Errors
    /// Whatever the driver says, among it that no connection was free in time.
    ///
    /// # Cancel safety
    /// Dropped, a transaction that had begun is rolled back.
    pub async fn begin(
        &self,
        isolation: Isolation,
        wait: Option<(WaitTag, Duration)>,
    ) -> Result<SaleTransaction, sqlx::Error> {
        let begin = isolation.begin();
        let statement = match wait {
            None => begin.into_sql_str(),
            Some((tag, wait)) => {
                // 0 would be for ever. There is nothing in the text but numbers.
                let wait_ms = wait.as_millis().max(1);
                let bounded =
                    format!("{begin}; set local lock_timeout = {wait_ms}; set local application_name = '{tag}'");
                AssertSqlSafe(bounded).into_sql_str()
            }
        };
        let connection = self.pool.acquire().await?;
        // Whoever gives up here must not stop the statement half way: the driver notes a transaction when it is answered, and
        // one that it has not noted is never rolled back. It would stay open on the connection, and the next statement of
        // somebody else would become part of it. (sqlx 0.9.0; its issue 4393.)
        let begun = tokio::spawn(Transaction::begin(connection, Some(statement))).await;
        // Nothing aborts it.
        let begun = begun.unwrap_or_else(|error| resume_unwind(error.into_panic()));
        begun.map(SaleTransaction::new)
    }

    /// Reads what is left of a SKU that exists, and raises its fence to `token`. `None` when a later token was there
    /// before.
    ///
    /// Committed at once, so that the row is not locked while the reader makes up its mind; and not flushed to disk, which
    /// nobody needs: if a crash takes the raised fence, it takes nothing that was written under it. The log is flushed in
    /// order, so such a write would have taken the fence along.
    ///
    /// # Errors
    /// Whatever the driver says.
    ///
    /// # Cancel safety
    /// Dropped, the fence may have been raised or not.
    pub async fn raise_fence(&self, goods_no: GoodsNo, token: Token) -> Result<Option<Level>, sqlx::Error> {
        sqlx::query_as!(
            Level,
            "with lazy as materialized (select set_config('synchronous_commit', 'off', true))
             update goods set fence = $2, fence_handover = $3 from lazy
             where goods_no = $1 and (fence, fence_handover) <= ($2, $3)
             returning sale, on_hand, version",
            goods_no.get(),
            token.number,
            token.handover,
        )
        .fetch_optional(&self.pool)
        .await
    }

    /// An order, or `None` when there is none of that number.
    ///
    /// # Errors
    /// Whatever the driver says.
    ///
    /// # Cancel safety
    /// Nothing is lost.
    pub async fn order(&self, order_id: i64) -> Result<Option<Order>, sqlx::Error> {
        let order = sqlx::query!("select strategy, instance from orders where order_id = $1", order_id)
            .fetch_optional(&self.pool)
            .await?;
        let Some(order) = order else { return Ok(None) };
        // Orders are never changed, so both reads see the same one.
        let lines = sqlx::query!(
            "select goods_no, sale, quantity, remaining, token, token_handover
             from order_lines where order_id = $1 order by goods_no",
            order_id
        )
        .fetch_all(&self.pool)
        .await?;
        let lines = lines.into_iter().map(|line| OrderLine {
            goods_no: line.goods_no,
            sale: line.sale,
            quantity: line.quantity,
            remaining: line.remaining,
            token: line.token.zip(line.token_handover).map(|(number, handover)| Token { number, handover }),
        });
        Ok(Some(Order { order_id, strategy: order.strategy, instance: order.instance, lines: lines.collect() }))
    }

    /// What came of the purchase of `cart` under a key, or `None` when it has none or is not over.
    ///
    /// # Errors
    /// Whatever the driver says.
    ///
    /// # Cancel safety
    /// Nothing is lost.
    pub async fn recall(&self, key: &IdempotencyKey, cart: &Cart) -> Result<Option<Remembered>, sqlx::Error> {
        let row = sqlx::query!(
            r#"select cart = $2 as "is_same!", sold_out, order_id as "order_id?"
               from idempotency_keys left join orders on idempotency_key = key where key = $1"#,
            key.as_str(),
            transaction::cart_json(cart) as _,
        )
        .fetch_optional(&self.pool)
        .await?;
        let Some(row) = row else { return Ok(None) };
        if !row.is_same {
            return Ok(Some(Remembered::OtherCart));
        }
        let sold_out = row.sold_out.and_then(|goods_no| GoodsNo::try_from(goods_no).ok());
        match (row.order_id, sold_out) {
            (Some(order_id), _) => Ok(self.order(order_id).await?.map(Remembered::Order)),
            (None, sold_out) => Ok(sold_out.map(Remembered::SoldOut)),
        }
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
            transaction.as_str()
        )
        .fetch_one(&self.aside)
        .await
    }

    /// Ends the statement that a transaction with a [`WaitTag`] is waiting in, so that its connection need not wait for a
    /// lock that nobody wants any more. The caller keeps the transaction until this is answered: another one on its
    /// connection cannot be hit, as the tag goes with the transaction.
    ///
    /// # Errors
    /// Whatever the driver says. The statement then goes on until its time for the lock is over.
    ///
    /// # Cancel safety
    /// Dropped, the statement may have been ended or not.
    pub async fn interrupt(&self, tag: WaitTag) -> Result<(), sqlx::Error> {
        sqlx::query!(
            "select pg_cancel_backend(pid) from pg_stat_activity
             where datname = current_database() and application_name = $1",
            tag.to_string(),
        )
        .fetch_all(&self.aside)
        .await
        .map(drop)
    }

    /// Closes every connection; waits for those in use.
    ///
    /// # Cancel safety
    /// The pool is closed from the first poll on; dropped, only the waiting ends.
    pub async fn close(&self) {
        self.pool.close().await;
        self.aside.close().await;
    }
}

async fn goods(pool: &PgPool, goods_no: GoodsNo) -> Result<Option<Goods>, sqlx::Error> {
    let row = sqlx::query!("select sale, stock_initial, on_hand from goods where goods_no = $1", goods_no.get())
        .fetch_optional(pool)
        .await?;
    Ok(row.map(|row| Goods { goods_no, sale: row.sale, stock_initial: row.stock_initial, on_hand: row.on_hand }))
}
