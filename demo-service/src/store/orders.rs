//! The statement that writes the order of one purchase, with its key and the units of its buyer.

use super::keys::cart_json;
use super::transaction::{Transaction, TransactionId, WrittenOrder};
use crate::failure::Failure;
use crate::sale::{BuyerId, Cart, IdempotencyKey, OrderLine, Quantity};

/// What an order records about its purchase.
#[derive(Debug, Clone, Copy)]
pub struct OrderToWrite<'a> {
    /// The strategy that decided it.
    pub strategy: &'a str,
    /// The instance of the service that writes it.
    pub instance: &'a str,
    /// The idempotency key of the purchase, if it has one.
    pub key: Option<&'a IdempotencyKey>,
    /// The cart, which is stored with the key.
    pub cart: &'a Cart,
    /// The buyer, if the purchase names one.
    pub buyer: Option<&'a BuyerId>,
    /// What was sold, in the order of the SKUs.
    pub lines: &'a [OrderLine],
    /// For each line, the most units that one buyer may have of its sale, if the order has to keep such a limit.
    pub limits: &'a [Option<Quantity>],
}

/// Why an order cannot be committed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NotWritten {
    /// The key has an order already.
    Repeated,
    /// The buyer would have too many units of this SKU.
    OverLimit(i64),
}

impl Transaction {
    /// Writes the order with all of its lines, and its key if it has one. Counts the units of the buyer where there is a limit.
    /// Waits for the end of any transaction that writes the same key, or the units of the same buyer. If the order must not be
    /// committed, says why. The caller must then roll back, because the order is written as well.
    ///
    /// # Errors
    /// As [`Failure::of_database`].
    pub async fn insert_order(&mut self, order: OrderToWrite<'_>) -> Result<Result<WrittenOrder, NotWritten>, Failure> {
        fn column<T>(lines: &[OrderLine], value: impl Fn(&OrderLine) -> T) -> Vec<T> {
            lines.iter().map(value).collect()
        }
        let lines = order.lines;
        let row = sqlx::query!(
            r#"with header as (
                   insert into orders (strategy, instance, buyer) values ($1, $2, $11) returning order_id
               ), limited as (
                   insert into buyer_units (goods_no, sale, buyer, units, units_max)
                   select goods_no, sale, $11, quantity, units_max
                   from unnest($3::bigint[], $4::bigint[], $5::bigint[], $12::bigint[])
                       as line (goods_no, sale, quantity, units_max)
                   where units_max is not null order by goods_no
                   on conflict (goods_no, sale, buyer) do update set units = buyer_units.units + excluded.units
                   where buyer_units.units + excluded.units <= buyer_units.units_max
                   returning goods_no
               ), lines as (
                   insert into order_lines (order_id, goods_no, sale, quantity, remaining, token, token_handover)
                   select header.order_id, line.* from header, unnest(
                       $3::bigint[], $4::bigint[], $5::bigint[], $6::bigint[], $7::bigint[], $8::bigint[]) as line
               ), keyed as (
                   insert into idempotency_keys (key, cart, goods_no, sale, order_id)
                   select $9::text, $10::jsonb, ($3::bigint[])[1], ($4::bigint[])[1], order_id
                   from header, (select count(*) from limited) as buyers_first
                   where $9::text is not null
                   on conflict (key) do nothing
                   returning order_id
               )
               select order_id, pg_current_xact_id()::text as "transaction!",
                   ($9::text is null or exists (select from keyed)) as "is_first!",
                   coalesce((select array_agg(goods_no) from limited), '{}') as "within_limits!"
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
            order.buyer.map(BuyerId::as_str),
            &order.limits.iter().map(|limit| limit.map(Quantity::get)).collect::<Vec<_>>() as _,
        );
        let row = row.fetch_one(self.connection()).await;
        let row = self.heard(row)?;
        let written = WrittenOrder { order_id: row.order_id, transaction: TransactionId::new(row.transaction) };
        let limited = lines.iter().zip(order.limits).filter(|(_, limit)| limit.is_some());
        let over_limit = limited.map(|(line, _)| line.goods_no).find(|goods_no| !row.within_limits.contains(goods_no));
        Ok(match (row.is_first, over_limit) {
            (false, _) => Err(NotWritten::Repeated),
            (true, Some(goods_no)) => Err(NotWritten::OverLimit(goods_no)),
            (true, None) => Ok(written),
        })
    }
}
