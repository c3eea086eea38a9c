//! The statements of one purchase.

use std::time::Duration;

use sqlx::postgres::PgConnection;
use sqlx::{AssertSqlSafe, Executor};
use tokio::time::{Instant, timeout};

use super::Store;
use super::connections::Connection;
use super::keys::cart_json;
use super::waiters::Waiter;
use crate::failure::{Failure, OUTCOME_UNKNOWN};
use crate::sale::{Cart, GoodsNo, IdempotencyKey, Level, OrderLine, Quantity, Token};

/// The time for the answer to a rollback. The connection is closed otherwise, which rolls back too.
const ROLLBACK_WITHIN: Duration = Duration::from_secs(1);

/// What a transaction sees of others.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Isolation {
    /// Each statement sees what was committed before it, and overwrites what was committed meanwhile.
    ReadCommitted,
    /// As if there were no others; otherwise it fails with SQLSTATE 40001, and may be tried again.
    Serializable,
}

/// What an order records about its purchase.
#[derive(Debug, Clone, Copy)]
pub struct NewOrder<'a> {
    /// The strategy that decided it.
    pub strategy: &'a str,
    /// The instance of the service that writes it.
    pub instance: &'a str,
    /// The idempotency key of the purchase, if it has one.
    pub key: Option<&'a IdempotencyKey>,
    /// The cart, which is stored with the key.
    pub cart: &'a Cart,
    /// What was sold, in the order of the SKUs.
    pub lines: &'a [OrderLine],
}

/// An order that is written and not committed yet.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WrittenOrder {
    /// Its number.
    pub order_id: i64,
    /// The transaction that wrote it.
    pub transaction: TransactionId,
}

/// The number of a transaction. Unique until the database crashes, which may give it out again.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TransactionId(String);

impl TransactionId {
    pub(super) fn as_str(&self) -> &str {
        &self.0
    }
}

/// One transaction. Dropped before it is over, its connection is closed, and the server rolls back.
pub struct Transaction {
    connection: Connection,
    // Given back after the connection.
    _waiter: Option<Waiter>,
}

/// The wait of a purchase for locks of the database.
#[derive(Debug, Clone)]
pub struct LockWait {
    /// The SKUs of the purchase, in the order of their numbers.
    pub goods: Vec<GoodsNo>,
    /// When the wait is given up.
    pub until: Instant,
}

impl Store {
    /// Begins a transaction. With `lock_wait`, it may wait for locks of the database: such transactions use only a part of
    /// the connections, and each of their locks is waited for as long as is left when they begin. The caller bounds the wait
    /// for the connection.
    ///
    /// # Errors
    /// As [`Failure::of_database`], among it that no connection was free in time.
    ///
    /// # Cancel safety
    /// Dropped, a transaction that had begun is rolled back.
    pub async fn begin(&self, isolation: Isolation, lock_wait: Option<LockWait>) -> Result<Transaction, Failure> {
        let begin = match isolation {
            Isolation::ReadCommitted => "begin isolation level read committed",
            Isolation::Serializable => "begin isolation level serializable",
        };
        let waiter = match &lock_wait {
            None => None,
            Some(wait) => {
                let waiter = self.waiters.acquire(&wait.goods).await;
                Some(waiter.map_err(|_| Failure::of_database(sqlx::Error::PoolClosed))?)
            }
        };
        let mut connection = self.connections.get().await?;
        let begun = match lock_wait {
            None => connection.ask().execute(begin).await,
            Some(wait) => {
                // 0 would be for ever. There is nothing in the text but a number.
                let left = wait.until.saturating_duration_since(Instant::now());
                let bounded = format!("{begin}; set local lock_timeout = {}", left.as_millis().max(1));
                connection.ask().execute(AssertSqlSafe(bounded)).await
            }
        };
        connection.note(&begun);
        // If it fails, a transaction may be open all the same, so the connection is closed.
        begun.map_err(Failure::of_database)?;
        Ok(Transaction { connection, _waiter: waiter })
    }

    /// Reads what is left of a SKU and raises its fence to `token`. `None` if the fence is higher already, or the SKU has
    /// another sale or another guard by now.
    ///
    /// It is committed at once, so that the row is not locked while the reader makes up its mind, and not flushed to disk.
    /// That is enough: the log is flushed in order, so a crash that takes the fence takes everything that was written under
    /// it.
    ///
    /// # Errors
    /// As [`Failure::of_database`].
    ///
    /// # Cancel safety
    /// Dropped, the fence may have been raised or not.
    pub async fn raise_fence(
        &self,
        goods_no: GoodsNo,
        sale: i64,
        guard: &str,
        token: Token,
    ) -> Result<Option<Level>, Failure> {
        let mut connection = self.connections.get().await?;
        let level = sqlx::query_as!(
            Level,
            "with lazy as materialized (select set_config('synchronous_commit', 'off', true))
             update goods set fence = $4, fence_handover = $5 from lazy
             where goods_no = $1 and sale = $2 and guard = $3 and (fence, fence_handover) <= ($4, $5)
             returning sale, on_hand, version, guard",
            goods_no.get(),
            sale,
            guard,
            token.number,
            token.handover,
        );
        let level = level.fetch_optional(connection.ask()).await;
        connection.heard(level)
    }
}

impl Transaction {
    /// Where its statements go.
    pub(super) fn connection(&mut self) -> &mut PgConnection {
        self.connection.ask()
    }

    /// Notes the answer to a statement, and names its failure.
    pub(super) fn heard<T>(&mut self, answer: Result<T, sqlx::Error>) -> Result<T, Failure> {
        self.connection.note(&answer);
        answer.map_err(Failure::of_database)
    }

    /// Reads what is left of a SKU, or `None` if there is no such SKU. Takes no lock.
    ///
    /// # Errors
    /// As [`Failure::of_database`].
    ///
    /// # Cancel safety
    /// The transaction can only be rolled back. The same holds for every statement below.
    pub async fn read(&mut self, goods_no: GoodsNo) -> Result<Option<Level>, Failure> {
        let level = sqlx::query_as!(
            Level,
            "select sale, on_hand, version, guard from goods where goods_no = $1",
            goods_no.get()
        );
        let level = level.fetch_optional(self.connection()).await;
        self.heard(level)
    }

    /// As [`read`](Self::read), once nobody else has the row locked, and locks it until the end of the transaction.
    ///
    /// # Errors
    /// As [`Failure::of_database`].
    pub async fn read_for_update(&mut self, goods_no: GoodsNo) -> Result<Option<Level>, Failure> {
        let level = sqlx::query_as!(
            Level,
            "select sale, on_hand, version, guard from goods where goods_no = $1 for no key update",
            goods_no.get()
        );
        let level = level.fetch_optional(self.connection()).await;
        self.heard(level)
    }

    /// Waits for the advisory lock of a SKU, and keeps it until the end of the transaction. Advisory locks belong to the
    /// whole database; the first of the two numbers says that this one is ours. The second is a hash, so now and then two
    /// SKUs share a lock, which costs time and nothing else.
    ///
    /// # Errors
    /// As [`Failure::of_database`].
    pub async fn lock_advisory(&mut self, goods_no: GoodsNo) -> Result<(), Failure> {
        let lock =
            sqlx::query!("select pg_advisory_xact_lock(hashtext('seckill/goods'), hashint8($1))", goods_no.get());
        let locked = lock.execute(self.connection()).await;
        self.heard(locked).map(drop)
    }

    /// Overwrites what is left, whatever it is by now, and returns whether the sale is still on and has this guard.
    ///
    /// The absolute value is the point of the comparison: two transactions that read the same stock both write the same
    /// remainder, and one of the two updates is lost.
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

    /// As [`overwrite`](Self::overwrite), if the fence of the row is the token of the line still: no later holder has read
    /// the row.
    ///
    /// # Errors
    /// As [`Failure::of_database`].
    pub async fn overwrite_fenced(&mut self, line: &OrderLine, guard: &str) -> Result<bool, Failure> {
        let written = sqlx::query!(
            "update goods set on_hand = $4
             where goods_no = $1 and sale = $2 and guard = $3 and (fence, fence_handover) = ($5, $6)",
            line.goods_no,
            line.sale,
            guard,
            line.remaining,
            line.token.map(|token| token.number),
            line.token.map(|token| token.handover),
        );
        let written = written.execute(self.connection()).await;
        Ok(self.heard(written)?.rows_affected() == 1)
    }

    /// As [`overwrite`](Self::overwrite), if the row has this version still, which it then leaves behind.
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

    /// Takes the units if the sale is still on, has this guard, and has enough left at this instant. Returns what remains.
    /// The row stays locked until the end of the transaction.
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

    /// Writes the order with all of its lines, and its key if it has one. `None` if the key has an order already: the caller
    /// rolls back, as this order is written too. Waits for a transaction that writes the same key to end.
    ///
    /// # Errors
    /// As [`Failure::of_database`].
    pub async fn insert_order(&mut self, order: NewOrder<'_>) -> Result<Option<WrittenOrder>, Failure> {
        fn column<T>(lines: &[OrderLine], value: impl Fn(&OrderLine) -> T) -> Vec<T> {
            lines.iter().map(value).collect()
        }
        let lines = order.lines;
        let row = sqlx::query!(
            r#"with header as (
                   insert into orders (strategy, instance) values ($1, $2) returning order_id
               ), lines as (
                   insert into order_lines (order_id, goods_no, sale, quantity, remaining, token, token_handover)
                   select header.order_id, line.* from header, unnest(
                       $3::bigint[], $4::bigint[], $5::bigint[], $6::bigint[], $7::bigint[], $8::bigint[]) as line
               ), keyed as (
                   insert into idempotency_keys (key, cart, goods_no, sale, order_id)
                   select $9::text, $10::jsonb, ($3::bigint[])[1], ($4::bigint[])[1], order_id from header
                   where $9::text is not null
                   on conflict do nothing
                   returning order_id
               )
               select order_id, pg_current_xact_id()::text as "transaction!",
                   ($9::text is null or exists (select from keyed)) as "is_first!"
               from header"#,
            order.strategy,
            order.instance,
            &column(lines, |line| line.goods_no),
            &column(lines, |line| line.sale),
            &column(lines, |line| line.quantity),
            &column(lines, |line| line.remaining) as _,
            &column(lines, |line| line.token.map(|token| token.number)) as _,
            &column(lines, |line| line.token.map(|token| token.handover)) as _,
            order.key.map(IdempotencyKey::as_str),
            order.key.map(|_| cart_json(order.cart)) as _,
        );
        let row = row.fetch_one(self.connection()).await;
        let row = self.heard(row)?;
        let written = WrittenOrder { order_id: row.order_id, transaction: TransactionId(row.transaction) };
        Ok(row.is_first.then_some(written))
    }

    /// Commits. `order_id` is the order that it writes, for a failure that leaves the outcome open.
    ///
    /// # Errors
    /// As [`Failure::of_commit`].
    ///
    /// # Cancel safety
    /// Dropped, the transaction may have been committed or not.
    pub async fn commit(mut self, order_id: Option<i64>) -> Result<(), Failure> {
        let committed = self.connection().execute("commit").await;
        self.connection.note(&committed);
        let committed = committed.map(drop).map_err(|error| Failure::of_commit(error, order_id));
        // A refusal in words ends the transaction, too.
        if !matches!(&committed, Err(failure) if failure.is(&OUTCOME_UNKNOWN)) {
            self.connection.settle(&Ok(()));
        }
        committed
    }

    /// Rolls back, and keeps the connection if the database answers soon. If a statement was given up, the connection is
    /// closed, which rolls back too.
    pub async fn roll_back(mut self) {
        if self.connection.is_asked() {
            return;
        }
        if let Ok(answer @ Ok(_)) = timeout(ROLLBACK_WITHIN, self.connection().execute("rollback")).await {
            self.connection.settle(&answer);
        }
    }
}
