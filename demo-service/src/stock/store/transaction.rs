//! The statements of one deduction.

use std::fmt;

use sqlx::types::Json;
use sqlx::{PgConnection, Postgres, Transaction};

use crate::purchase::{Cart, IdempotencyKey};
use crate::stock::{GoodsNo, Level, OrderLine, Quantity, Token};

/// What a transaction sees of others.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Isolation {
    /// Each statement sees what was committed before it, and overwrites what was committed meanwhile.
    ReadCommitted,
    /// As if there were no others; otherwise it fails, with SQLSTATE 40001, and may be tried again.
    Serializable,
}

impl Isolation {
    pub(super) fn begin(self) -> &'static str {
        match self {
            Self::ReadCommitted => "begin isolation level read committed",
            Self::Serializable => "begin isolation level serializable",
        }
    }
}

/// What an order records about the deduction that wrote it.
#[derive(Debug, Clone, Copy)]
pub struct NewOrder<'a> {
    /// The strategy that guarded the deduction.
    pub strategy: &'a str,
    /// The instance of the service that made it.
    pub instance: &'a str,
    /// The key that it was asked for with.
    pub key: Option<&'a IdempotencyKey>,
    /// What was sold.
    pub lines: &'a [OrderLine],
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
#[derive(Debug, Clone)]
pub struct TransactionId(String);

impl TransactionId {
    pub(super) fn as_str(&self) -> &str {
        &self.0
    }
}

/// The name by which the database knows a transaction that may have to be interrupted while it waits for a lock: that of
/// the service and a number that no other transaction has, of this instance or another.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct WaitTag(u128);

impl WaitTag {
    /// A tag that nobody else has.
    pub fn new() -> Self {
        Self(rand::random())
    }
}

impl Default for WaitTag {
    fn default() -> Self {
        Self::new()
    }
}

impl fmt::Display for WaitTag {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "demo-service {:032x}", self.0)
    }
}

/// One transaction of a deduction. Dropped without a commit, it is rolled back.
#[derive(Debug)]
pub struct SaleTransaction {
    inner: Transaction<'static, Postgres>,
}

/// A cart as it is stored with its key: lines in the order of the SKUs, as the same cart in another order is the same.
pub(super) fn cart_json(cart: &Cart) -> Json<Vec<(i64, i64)>> {
    let lines = cart.in_order(crate::purchase::LockOrder::Canonical);
    Json(lines.iter().map(|line| (line.goods_no.get(), line.quantity.get())).collect())
}

impl SaleTransaction {
    pub(super) fn new(inner: Transaction<'static, Postgres>) -> Self {
        Self { inner }
    }

    /// Where its statements go.
    pub(super) fn connection(&mut self) -> &mut PgConnection {
        &mut self.inner
    }

    /// Notes what is asked for under a key, and returns whether nobody had asked under it before. Waits for a transaction
    /// that is just doing the same to end.
    ///
    /// # Errors
    /// Whatever the driver says.
    ///
    /// # Cancel safety
    /// Nothing is lost, but the transaction can only be rolled back.
    pub async fn remember(&mut self, key: &IdempotencyKey, cart: &Cart) -> Result<bool, sqlx::Error> {
        let done = sqlx::query!(
            "insert into idempotency_keys (key, cart) values ($1, $2) on conflict do nothing",
            key.as_str(),
            cart_json(cart) as _,
        )
        .execute(&mut *self.inner)
        .await?;
        Ok(done.rows_affected() == 1)
    }

    /// Notes that there was not enough left of a SKU for what was asked for under a key.
    ///
    /// # Errors
    /// Whatever the driver says.
    ///
    /// # Cancel safety
    /// Nothing is lost, but the transaction can only be rolled back.
    pub async fn remember_sold_out(&mut self, key: &IdempotencyKey, goods_no: GoodsNo) -> Result<(), sqlx::Error> {
        sqlx::query!("update idempotency_keys set sold_out = $2 where key = $1", key.as_str(), goods_no.get())
            .execute(&mut *self.inner)
            .await
            .map(drop)
    }

    /// Reads what is left of a SKU, or `None` when there is no such SKU. Takes no row lock.
    ///
    /// # Errors
    /// Whatever the driver says.
    ///
    /// # Cancel safety
    /// Nothing is lost, but the transaction can only be rolled back.
    pub async fn read(&mut self, goods_no: GoodsNo) -> Result<Option<Level>, sqlx::Error> {
        sqlx::query_as!(Level, "select sale, on_hand, version from goods where goods_no = $1", goods_no.get())
            .fetch_optional(&mut *self.inner)
            .await
    }

    /// As [`read`](Self::read), once nobody else has the row locked, and locks it until the end of the transaction.
    ///
    /// # Errors
    /// Whatever the driver says.
    ///
    /// # Cancel safety
    /// Nothing is lost, but the transaction can only be rolled back.
    pub async fn read_for_update(&mut self, goods_no: GoodsNo) -> Result<Option<Level>, sqlx::Error> {
        sqlx::query_as!(
            Level,
            "select sale, on_hand, version from goods where goods_no = $1 for no key update",
            goods_no.get()
        )
        .fetch_optional(&mut *self.inner)
        .await
    }

    /// Waits for the advisory lock of a SKU, and keeps it until the end of the transaction. Advisory locks belong to the
    /// whole database; the first of the two numbers says that this one is ours. The second is a hash, so that now and then
    /// two SKUs share a lock, which costs time and nothing else.
    ///
    /// # Errors
    /// Whatever the driver says.
    ///
    /// # Cancel safety
    /// Nothing is lost, but the transaction can only be rolled back.
    pub async fn lock_advisory(&mut self, goods_no: GoodsNo) -> Result<(), sqlx::Error> {
        sqlx::query!("select pg_advisory_xact_lock(hashtext('seckill/goods'), hashint8($1))", goods_no.get())
            .execute(&mut *self.inner)
            .await
            .map(drop)
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

    /// As [`overwrite`](Self::overwrite), if nobody with a later token has read the row since it was read with this one,
    /// and returns whether that was so and `sale` is still on.
    ///
    /// # Errors
    /// Whatever the driver says.
    ///
    /// # Cancel safety
    /// Nothing is lost, but the transaction can only be rolled back.
    pub async fn overwrite_fenced(
        &mut self,
        goods_no: GoodsNo,
        sale: i64,
        on_hand: i64,
        token: Token,
    ) -> Result<bool, sqlx::Error> {
        let done = sqlx::query!(
            "update goods set on_hand = $3
             where goods_no = $1 and sale = $2 and (fence, fence_handover) = ($4, $5)",
            goods_no.get(),
            sale,
            on_hand,
            token.number,
            token.handover,
        )
        .execute(&mut *self.inner)
        .await?;
        Ok(done.rows_affected() == 1)
    }

    /// As [`overwrite`](Self::overwrite), if the row has this version still, and returns whether it had.
    ///
    /// # Errors
    /// Whatever the driver says.
    ///
    /// # Cancel safety
    /// Nothing is lost, but the transaction can only be rolled back.
    pub async fn overwrite_version(
        &mut self,
        goods_no: GoodsNo,
        version: i64,
        on_hand: i64,
    ) -> Result<bool, sqlx::Error> {
        let done = sqlx::query!(
            "update goods set on_hand = $3, version = version + 1 where goods_no = $1 and version = $2",
            goods_no.get(),
            version,
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

    /// Writes the order, with all of its lines.
    ///
    /// # Errors
    /// Whatever the driver says.
    ///
    /// # Cancel safety
    /// Nothing is lost, but the transaction can only be rolled back.
    pub async fn insert_order(&mut self, order: NewOrder<'_>) -> Result<WrittenOrder, sqlx::Error> {
        fn column<T>(lines: &[OrderLine], value: impl Fn(&OrderLine) -> T) -> Vec<T> {
            lines.iter().map(value).collect()
        }
        let lines = order.lines;
        let row = sqlx::query!(
            r#"with header as (
                   insert into orders (strategy, instance, idempotency_key) values ($1, $2, $3) returning order_id
               ), lines as (
                   insert into order_lines (order_id, goods_no, sale, quantity, remaining, token, token_handover)
                   select header.order_id, line.* from header, unnest(
                       $4::bigint[], $5::bigint[], $6::bigint[], $7::bigint[], $8::bigint[], $9::bigint[]) as line
               )
               select order_id, pg_current_xact_id()::text as "transaction!" from header"#,
            order.strategy,
            order.instance,
            order.key.map(IdempotencyKey::as_str),
            &column(lines, |line| line.goods_no),
            &column(lines, |line| line.sale),
            &column(lines, |line| line.quantity),
            &column(lines, |line| line.remaining) as _,
            &column(lines, |line| line.token.map(|token| token.number)) as _,
            &column(lines, |line| line.token.map(|token| token.handover)) as _,
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
