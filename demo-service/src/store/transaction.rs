//! The statements of one purchase.

use std::time::Duration;

use sqlx::postgres::PgConnection;
use sqlx::{AssertSqlSafe, Executor};
use tokio::time::{Instant, timeout};

use super::Store;
use super::connections::{PooledConnection, is_usable_after};
use super::layouts::share_sales;
use super::waiters::Waiter;
use crate::failure::{Failure, OUTCOME_UNKNOWN};
use crate::sale::{Fence, GoodsNo, Level, OrderLine, Quantity};

/// The time limit for the reply to a rollback. After it the connection is closed, which rolls back, too.
const ROLLBACK_WITHIN: Duration = Duration::from_secs(1);

/// The isolation level of a transaction.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Isolation {
    /// Each statement sees what was committed before it, and overwrites what was committed meanwhile.
    ReadCommitted,
    /// The transaction runs as if it were alone. If that is impossible, it fails with SQLSTATE 40001 and may be
    /// repeated.
    Serializable,
}

/// An order that is written, but not committed yet.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WrittenOrder {
    /// Its number.
    pub order_id: i64,
    /// The transaction that wrote it.
    pub transaction: TransactionId,
}

/// The number of a transaction. It is unique until the database crashes. Then the database may use the number again.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TransactionId(String);

impl TransactionId {
    pub(super) fn new(number: String) -> Self {
        Self(number)
    }

    pub(super) fn as_str(&self) -> &str {
        &self.0
    }
}

/// One transaction. If it is dropped before it is over, its connection is closed, and the server rolls back.
pub struct Transaction {
    connection: PooledConnection,
    // Dropped after the connection.
    _waiter: Option<Waiter>,
}

/// The wait of a purchase for locks of the database.
#[derive(Debug, Clone)]
pub struct LockWait {
    /// The SKUs of the purchase, in the order of their numbers.
    pub goods: Vec<GoodsNo>,
    /// The deadline of the wait.
    pub until: Instant,
    /// Whether the transaction shares the sales of the SKUs until its end, because it does not write their rows.
    pub shares_sales: bool,
}

/// Returns the time limit of a wait for a lock that ends at `until`, in milliseconds. A limit of 0 would mean none.
pub(super) fn left_ms(until: Instant) -> i32 {
    i32::try_from(until.saturating_duration_since(Instant::now()).as_millis()).unwrap_or(i32::MAX).max(1)
}

impl Store {
    /// Begins a transaction. With `lock_wait`, the transaction may wait for locks of the database. Such transactions
    /// use only a part of the connections. Each wait for a lock lasts at most the time that is left until
    /// `lock_wait.until` when the transaction begins. The caller limits the wait for the connection.
    ///
    /// # Errors
    /// As [`Failure::of_database`], also if no connection was free in time.
    ///
    /// # Cancel safety
    /// Dropped, the transaction is rolled back.
    pub async fn begin(&self, isolation: Isolation, lock_wait: Option<LockWait>) -> Result<Transaction, Failure> {
        let begin = match isolation {
            Isolation::ReadCommitted => "begin isolation level read committed",
            Isolation::Serializable => "begin isolation level serializable",
        };
        let waiter = match &lock_wait {
            None => None,
            Some(wait) => Some(self.wait_for(wait).await?),
        };
        let mut connection = self.connections.get().await?;
        let begun = match lock_wait {
            None => connection.ask().execute(begin).await,
            Some(wait) => {
                // The SQL text is safe: only numbers are inserted into it.
                let shared = if wait.shares_sales { share_sales(&wait.goods) } else { String::new() };
                let bounded = format!("{begin}; set local lock_timeout = {}{shared}", left_ms(wait.until));
                connection.ask().execute(AssertSqlSafe(bounded)).await
            }
        };
        connection.note(&begun);
        // If this fails, a transaction may be open all the same. So the drop closes the connection.
        begun.map_err(Failure::of_database)?;
        Ok(Transaction { connection, _waiter: waiter })
    }

    /// Waits for the right to wait for locks of the database.
    pub(super) async fn wait_for(&self, wait: &LockWait) -> Result<Waiter, Failure> {
        self.waiters.acquire(&wait.goods).await.map_err(|_| Failure::of_database(sqlx::Error::PoolClosed))
    }

    /// Reads the stock of a SKU and raises its fence. Returns `None` if the row has a higher fence, or a fence of the same token
    /// from another hold, or if the SKU has another sale or another guard by now.
    ///
    /// The change is committed at once, so the row is not locked while the purchase is decided. The commit does not
    /// wait until it is flushed to disk. That is enough: the log is flushed in order, so a crash that loses the fence
    /// loses everything that was written under it, too.
    ///
    /// # Errors
    /// As [`Failure::of_database`]: [`LOCK_TIMEOUT`](crate::failure::LOCK_TIMEOUT) if the row is locked until `until`. Without
    /// `until`, the row is waited for as long as for any statement.
    ///
    /// # Cancel safety
    /// Dropped, the fence may have been raised or not.
    pub async fn raise_fence(
        &self,
        goods_no: GoodsNo,
        sale: i64,
        guard: &str,
        fence: Fence,
        until: Option<Instant>,
    ) -> Result<Option<Level>, Failure> {
        let mut connection = self.connections.get().await?;
        let level = sqlx::query_as!(
            Level,
            "with lazy as materialized (
                 select set_config('synchronous_commit', 'off', true),
                     set_config('lock_timeout', coalesce($7::integer::text, current_setting('lock_timeout')), true)
             )
             update goods set fence = $4, fence_handover = $5, fence_hold = $6 from lazy
             where goods_no = $1 and sale = $2 and guard = $3
                 and ((fence, fence_handover) < ($4, $5) or (fence, fence_handover, fence_hold) = ($4, $5, $6))
             returning sale, on_hand, version, guard, per_buyer",
            goods_no.get(),
            sale,
            guard,
            fence.token.number,
            fence.token.handover,
            fence.hold,
            until.map(left_ms),
        );
        let level = level.fetch_optional(connection.ask()).await;
        connection.heard(level)
    }
}

impl Transaction {
    /// Returns the connection for the next statement.
    pub(super) fn connection(&mut self) -> &mut PgConnection {
        self.connection.ask()
    }

    /// Notes the reply to a statement.
    pub(super) fn note<T>(&mut self, reply: Result<T, sqlx::Error>) -> Result<T, sqlx::Error> {
        self.connection.note(&reply);
        reply
    }

    /// Notes the reply to a statement, and turns its error into a failure.
    pub(super) fn heard<T>(&mut self, reply: Result<T, sqlx::Error>) -> Result<T, Failure> {
        self.note(reply).map_err(Failure::of_database)
    }

    /// Reads the stock of a SKU, without a lock. Returns `None` if there is no such SKU.
    ///
    /// # Errors
    /// As [`Failure::of_database`].
    ///
    /// # Cancel safety
    /// Dropped, the transaction can only be rolled back. The same is true of every statement below.
    pub async fn read(&mut self, goods_no: GoodsNo) -> Result<Option<Level>, Failure> {
        let level = sqlx::query_as!(
            Level,
            "select sale, on_hand, version, guard, per_buyer from goods where goods_no = $1",
            goods_no.get()
        );
        let level = level.fetch_optional(self.connection()).await;
        self.heard(level)
    }

    /// Reads as [`read`](Self::read) does, but waits for the lock on the row, and keeps it until the end of the transaction.
    ///
    /// # Errors
    /// As [`Failure::of_database`].
    pub async fn read_for_update(&mut self, goods_no: GoodsNo) -> Result<Option<Level>, Failure> {
        let level = sqlx::query_as!(
            Level,
            "select sale, on_hand, version, guard, per_buyer from goods where goods_no = $1 for no key update",
            goods_no.get()
        );
        let level = level.fetch_optional(self.connection()).await;
        self.heard(level)
    }

    /// Waits for the advisory lock of a SKU, and keeps it until the end of the transaction. The whole database shares
    /// one space of advisory locks. The first of the two numbers marks the lock as ours. The second number is a hash
    /// of the SKU. SKUs with the same hash share a lock, which can delay purchases or make them fail, but oversells
    /// nothing.
    ///
    /// # Errors
    /// As [`Failure::of_database`].
    pub async fn lock_advisory(&mut self, goods_no: GoodsNo) -> Result<(), Failure> {
        let lock =
            sqlx::query!("select pg_advisory_xact_lock(hashtext('seckill/goods'), hashint8($1))", goods_no.get());
        let locked = lock.execute(self.connection()).await;
        self.heard(locked).map(drop)
    }

    /// Overwrites the stock, whatever it is by now. Returns `false` and writes nothing if the sale is over or has
    /// another guard.
    ///
    /// The absolute value is deliberate, because the comparison needs it. If two transactions read the same stock,
    /// both write the same remainder, and one of the two updates is lost.
    ///
    /// # Errors
    /// As [`Failure::of_database`].
    pub async fn overwrite(&mut self, line: &OrderLine, guard: &str) -> Result<bool, Failure> {
        let written = sqlx::query!(
            "update goods set on_hand = $4 where goods_no = $1 and sale = $2 and guard = $3",
            line.goods_no,
            line.sale,
            guard,
            line.remaining,
        );
        let written = written.execute(self.connection()).await;
        Ok(self.heard(written)?.rows_affected() == 1)
    }

    /// Overwrites as [`overwrite`](Self::overwrite) does, but only if the row still has this fence. Then no other holder
    /// has read the row since.
    ///
    /// # Errors
    /// As [`Failure::of_database`].
    pub async fn overwrite_fenced(&mut self, line: &OrderLine, guard: &str, fence: Fence) -> Result<bool, Failure> {
        let written = sqlx::query!(
            "update goods set on_hand = $4
             where goods_no = $1 and sale = $2 and guard = $3 and (fence, fence_handover, fence_hold) = ($5, $6, $7)",
            line.goods_no,
            line.sale,
            guard,
            line.remaining,
            fence.token.number,
            fence.token.handover,
            fence.hold,
        );
        let written = written.execute(self.connection()).await;
        Ok(self.heard(written)?.rows_affected() == 1)
    }

    /// Overwrites as [`overwrite`](Self::overwrite) does, but only if the row still has this version. Increments the version.
    ///
    /// # Errors
    /// As [`Failure::of_database`].
    pub async fn overwrite_version(&mut self, line: &OrderLine, guard: &str, version: i64) -> Result<bool, Failure> {
        let written = sqlx::query!(
            "update goods set on_hand = $4, version = version + 1
             where goods_no = $1 and sale = $2 and guard = $3 and version = $5",
            line.goods_no,
            line.sale,
            guard,
            line.remaining,
            version,
        );
        let written = written.execute(self.connection()).await;
        Ok(self.heard(written)?.rows_affected() == 1)
    }

    /// Takes the units if the sale is still on, has this guard, and has enough units left at this instant. Returns
    /// the units left, or `None` if nothing was taken. The row stays locked until the end of the transaction.
    ///
    /// # Errors
    /// As [`Failure::of_database`].
    pub async fn take_if_enough(
        &mut self,
        goods_no: GoodsNo,
        sale: i64,
        guard: &str,
        quantity: Quantity,
    ) -> Result<Option<i64>, Failure> {
        let remaining = sqlx::query_scalar!(
            "update goods set on_hand = on_hand - $4, version = version + 1
             where goods_no = $1 and sale = $2 and guard = $3 and on_hand >= $4
             returning on_hand",
            goods_no.get(),
            sale,
            guard,
            quantity.get(),
        );
        let remaining = remaining.fetch_optional(self.connection()).await;
        self.heard(remaining)
    }

    /// Commits. `order_id` is the order that the transaction writes. A failure with an unknown outcome names it.
    ///
    /// # Errors
    /// As [`Failure::of_commit`].
    ///
    /// # Cancel safety
    /// Dropped, the transaction may have been committed or not.
    pub async fn commit(mut self, order_id: Option<i64>) -> Result<(), Failure> {
        let committed = self.connection().execute("commit").await;
        self.connection.note(&committed);
        let is_usable = is_usable_after(&committed);
        let committed = committed.map(drop).map_err(|error| Failure::of_commit(error, order_id));
        // A refused commit ends the transaction, too. So the connection can be used again, unless the server has closed it.
        if is_usable && !matches!(&committed, Err(failure) if failure.is(&OUTCOME_UNKNOWN)) {
            self.connection.settle(&Ok(()));
        }
        committed
    }

    /// Rolls back, and keeps the connection if the database answers within a second. If a statement was given up
    /// before, closes the connection, which rolls back, too.
    pub async fn roll_back(mut self) {
        if self.connection.is_asked() {
            return;
        }
        if let Ok(reply @ Ok(_)) = timeout(ROLLBACK_WITHIN, self.connection().execute("rollback")).await {
            self.connection.settle(&reply);
        }
    }
}
