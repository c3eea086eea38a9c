//! Idempotency keys. A key is written together with its order, so every key has an order. A refusal leaves no key.
//!
//! The key is the last row of the transaction. A second purchase under the same key waits at that row. If the first one
//! commits, the second one rolls back and answers with the order of the first one.

use sqlx::types::Json;

use super::Store;
use super::connections::Connection;
use crate::failure::Failure;
use crate::sale::{Cart, IdempotencyKey, LockOrder, Order};

/// The most keys that one statement deletes.
const FORGET_MAX: i64 = 1000;

/// What was bought under a key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Remembered {
    /// Another cart.
    OtherCart,
    /// The same cart, by this order.
    Order(Order),
}

/// The keys and the transactions at one moment.
///
/// A purchase has a transaction number as soon as it has an order number. So when every transaction before `transaction` is over,
/// no more keys of orders up to `last_order` come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct KeySurvey {
    /// The greatest order with a key. `None` if there are no keys.
    pub last_order: Option<i64>,
    /// All transactions before this one are over.
    pub oldest_transaction: i64,
    /// Greater than every transaction that had begun to write by then.
    pub transaction: i64,
}

/// Returns the stored form of a cart. Its lines are sorted by SKU number, because the order of the lines does not
/// matter.
pub(super) fn cart_json(cart: &Cart) -> Json<Vec<(i64, i64)>> {
    let lines = cart.in_order(LockOrder::Canonical);
    Json(lines.iter().map(|line| (line.goods_no.get(), line.quantity.get())).collect())
}

impl Store {
    /// Reads what was bought under a key. Returns `None` if nothing was.
    ///
    /// # Errors
    /// As [`Failure::of_database`].
    ///
    /// # Cancel safety
    /// Nothing is lost.
    pub async fn recall(&self, key: &IdempotencyKey, cart: &Cart) -> Result<Option<Remembered>, Failure> {
        let (key, cart) = (key.clone(), cart_json(cart));
        self.finish(move |mut connection: Connection| async move {
            let row = sqlx::query!(
                r#"select cart = $2 as "is_same!", order_id from idempotency_keys where key = $1"#,
                key.as_str(),
                cart as _,
            );
            let row = row.fetch_optional(connection.ask()).await;
            let Some(row) = connection.heard(row)? else { return Ok(None) };
            if !row.is_same {
                return Ok(Some(Remembered::OtherCart));
            }
            let order = super::order(connection.ask(), row.order_id).await;
            Ok(connection.heard(order)?.map(Remembered::Order))
        })
        .await
    }

    /// Looks up to which order there are keys, and which transactions run.
    ///
    /// # Errors
    /// As [`Failure::of_database`].
    ///
    /// # Cancel safety
    /// It only reads.
    pub async fn survey_keys(&self) -> Result<KeySurvey, Failure> {
        let survey = async {
            let mut connection = self.connections.get().await?;
            // The statement's snapshot is older than its own transaction number.
            let row = sqlx::query_as!(
                KeySurvey,
                r#"select max(order_id) as last_order,
                          pg_snapshot_xmin(pg_current_snapshot())::text::bigint as "oldest_transaction!",
                          pg_current_xact_id()::text::bigint as "transaction!"
                   from idempotency_keys"#,
            );
            let row = row.fetch_one(connection.ask()).await;
            connection.heard(row)
        };
        self.in_time(survey).await
    }

    /// Deletes some of the keys of the orders up to this one. Returns whether more of them may be left.
    ///
    /// # Errors
    /// As [`Failure::of_database`].
    ///
    /// # Cancel safety
    /// Dropped, some keys may have been deleted.
    pub async fn forget_keys(&self, last_order: i64) -> Result<bool, Failure> {
        let forget = async {
            let mut connection = self.connections.get().await?;
            let deleted = sqlx::query!(
                "delete from idempotency_keys where key in (
                 select key from idempotency_keys where order_id <= $1 order by order_id limit $2)",
                last_order,
                FORGET_MAX,
            );
            let deleted = deleted.execute(connection.ask()).await;
            Ok(connection.heard(deleted)?.rows_affected() >= FORGET_MAX.unsigned_abs())
        };
        self.in_time(forget).await
    }
}
