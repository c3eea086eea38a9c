//! A whole purchase in one statement: the function `sell` of the database.

use tokio::time::Instant;

use super::keys::cart_json;
use super::{LockWait, Store, is_repeated_key};
use crate::failure::Failure;
use crate::sale::{BuyerId, Cart, GoodsNo, IdempotencyKey, Line, Quantity};

/// What the function `sell` is called with for a purchase.
#[derive(Debug, Clone, Copy)]
pub struct SellArguments<'a> {
    /// The family of the strategy. Only a sale that this family guards is written.
    pub guard: &'a str,
    /// The strategy that decides the purchase.
    pub strategy: &'a str,
    /// The instance of the service.
    pub instance: &'a str,
    /// The idempotency key of the purchase, if it has one.
    pub key: Option<&'a IdempotencyKey>,
    /// The cart, which is stored with the key.
    pub cart: &'a Cart,
    /// The buyer, if the purchase names one.
    pub buyer: Option<&'a BuyerId>,
    /// The lines of the cart in the order of the SKUs, each with the sale that it must be in.
    pub lines: &'a [(Line, i64)],
    /// For each line, the most units that one buyer may have of its sale, if there is such a limit.
    pub limits: &'a [Option<Quantity>],
}

/// What `sell` did.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SaleOutcome {
    /// It wrote this order. `remaining` has the units left of each line.
    Sold {
        /// The number of the order.
        order_id: i64,
        /// Units left, line by line.
        remaining: Vec<i64>,
    },
    /// It wrote nothing: too few units are left of this SKU.
    SoldOut(GoodsNo),
    /// It wrote nothing: the buyer would have too many units of this SKU.
    OverLimit(GoodsNo),
    /// It wrote nothing: this SKU has another sale or another guard by now.
    Restarted(GoodsNo),
    /// It wrote nothing: the key has an order already.
    Repeated,
}

/// SQLSTATEs of `sell` after it has taken units of an earlier line.
const SOLD_OUT: &str = "SD001";
const RESTARTED: &str = "SD002";
const OVER_LIMIT: &str = "SD003";

impl Store {
    /// Sells a cart in one statement, which commits by itself. The waits for a connection, for the row locks and for the key
    /// end at `until`.
    ///
    /// `sent` is called when the statement is about to be sent. From then on the outcome is unknown until the answer.
    ///
    /// # Errors
    /// As [`Failure::of_database`] if nothing was written, and [`OUTCOME_UNKNOWN`](crate::failure::OUTCOME_UNKNOWN) if
    /// the statement was sent and not answered.
    ///
    /// # Cancel safety
    /// Dropped after `sent`, the purchase may have been committed or not. Dropped before, nothing was written.
    pub async fn sell(
        &self,
        arguments: SellArguments<'_>,
        until: Instant,
        sent: impl FnOnce(),
    ) -> Result<SaleOutcome, Failure> {
        let goods: Vec<_> = arguments.lines.iter().map(|(line, _)| line.goods_no).collect();
        let _waiter = self.wait_for(&LockWait { goods: goods.clone(), until, shares_sales: false }).await?;
        let mut connection = self.connections.get().await?;
        let left = until.saturating_duration_since(Instant::now()).as_millis().max(1);
        let row = sqlx::query!(
            r#"select outcome as "outcome!", line, order_id, remaining from sell($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11)"#,
            &goods.iter().map(|goods_no| goods_no.get()).collect::<Vec<_>>(),
            &arguments.lines.iter().map(|(_, sale)| *sale).collect::<Vec<_>>(),
            &arguments.lines.iter().map(|(line, _)| line.quantity.get()).collect::<Vec<_>>(),
            &arguments.limits.iter().map(|limit| limit.map(Quantity::get)).collect::<Vec<_>>() as _,
            arguments.guard,
            arguments.strategy,
            arguments.instance,
            arguments.buyer.map(BuyerId::as_str),
            arguments.key.map(IdempotencyKey::as_str),
            arguments.key.map(|_| cart_json(arguments.cart)) as _,
            i64::try_from(left).unwrap_or(i64::MAX),
        );
        sent();
        let row = row.fetch_one(connection.ask()).await;
        // The statement is a transaction of its own, so a refusal leaves none open on the connection.
        connection.settle(&row);
        let row = match row {
            Ok(row) => row,
            Err(error) => return refused(error, &goods),
        };
        let goods_no = row.line.map(|line| line_of(&goods, line));
        Ok(match (row.outcome.as_str(), goods_no) {
            ("sold-out", Some(goods_no)) => SaleOutcome::SoldOut(goods_no),
            ("restarted", Some(goods_no)) => SaleOutcome::Restarted(goods_no),
            ("over-limit", Some(goods_no)) => SaleOutcome::OverLimit(goods_no),
            _ => SaleOutcome::Sold {
                order_id: row.order_id.unwrap_or_default(),
                remaining: row.remaining.unwrap_or_default(),
            },
        })
    }
}

/// Reads a refusal of `sell`.
fn refused(error: sqlx::Error, goods: &[GoodsNo]) -> Result<SaleOutcome, Failure> {
    let refusal = error.as_database_error();
    let code = refusal.and_then(|refusal| refusal.code());
    // The message of these errors is the number of the line.
    let line = refusal.map(|refusal| refusal.message().parse());
    match (code.as_deref(), line) {
        (Some(SOLD_OUT), Some(Ok(line))) => Ok(SaleOutcome::SoldOut(line_of(goods, line))),
        (Some(RESTARTED), Some(Ok(line))) => Ok(SaleOutcome::Restarted(line_of(goods, line))),
        (Some(OVER_LIMIT), Some(Ok(line))) => Ok(SaleOutcome::OverLimit(line_of(goods, line))),
        _ if is_repeated_key(&error) => Ok(SaleOutcome::Repeated),
        _ => Err(Failure::of_committing_statement(error)),
    }
}

/// Returns the SKU of a line, by its number from 1.
fn line_of(goods: &[GoodsNo], line: i32) -> GoodsNo {
    let index = usize::try_from(line - 1).unwrap_or_default();
    goods[index.min(goods.len() - 1)]
}
