//! Idempotency keys. A key is written together with its order, so every key has an order. A refusal leaves no key.
//!
//! The key is the last row of the transaction. A second purchase under the same key waits at that row. If the first one
//! commits, the second one rolls back and answers with the order of the first one.

use sqlx::types::Json;

use super::Store;
use super::connections::PooledConnection;
use crate::failure::Failure;
use crate::sale::{Cart, IdempotencyKey, LockSequence, Order};

/// What was bought under a key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Remembered {
    /// Another cart.
    OtherCart,
    /// The same cart, by this order.
    Order(Order),
}

/// Returns the stored form of a cart. Its lines are sorted by SKU number, because the order of the lines does not
/// matter.
pub(super) fn cart_json(cart: &Cart) -> Json<Vec<(i64, i64)>> {
    let lines = cart.in_order(LockSequence::Canonical);
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
        let key = key.clone();
        let cart = cart_json(cart);
        self.finish(move |mut connection: PooledConnection| async move {
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
}
