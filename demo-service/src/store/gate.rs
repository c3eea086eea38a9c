//! Orders that were promised at a gate: written under the numbers that the gate has given them, or refused. Either is done once,
//! however often the order is delivered.

use std::collections::HashMap;

use super::connections::PooledConnection;
use super::keys::cart_json;
use super::transaction::Transaction;
use super::{Store, is_over_limit, is_repeated_key};
use crate::failure::{self, Failure};
use crate::sale::{BuyerId, GoodsNo, IdempotencyKey, Level, Order, PromisedOrder};

/// The time limit of the wait for a purchase under the same key that is in progress. The order is delivered again.
const KEY_WAIT_MS: i32 = 100;

/// The reasons for which an order is refused.
const REASONS: [&failure::Kind; 5] =
    [&failure::SOLD_OUT, &failure::OVER_LIMIT, &failure::SALE_RESTARTED, &failure::REPEATED, &failure::INTERNAL];

/// What became of a promised order.
#[derive(Debug, Clone)]
pub enum PromiseLook {
    /// Nobody has decided it, or there is none of that number.
    Undecided,
    /// It was written.
    Written(Order),
    /// It was refused, for a reason of this kind.
    Refused(&'static failure::Kind),
}

/// Promised orders that are written together: orders of one SKU, each with enough units.
#[derive(Debug, Clone, Copy)]
pub struct PromisedWrite<'a> {
    /// The SKU.
    pub goods_no: GoodsNo,
    /// The locked row.
    pub level: &'a Level,
    /// The strategy that has promised the orders.
    pub strategy: &'a str,
    /// The orders.
    pub orders: &'a [&'a PromisedOrder],
}

/// Returns the kind of a reason for which an order was refused.
pub fn refusal_kind(slug: &str) -> &'static failure::Kind {
    REASONS.into_iter().find(|kind| kind.slug() == slug).unwrap_or(&failure::INTERNAL)
}

fn column<'a, T>(orders: &[&'a PromisedOrder], value: impl Fn(&'a PromisedOrder) -> T) -> Vec<T> {
    orders.iter().map(|order| value(order)).collect()
}

impl Store {
    /// Looks what became of a promised order.
    ///
    /// # Errors
    /// As [`Failure::of_database`].
    ///
    /// # Cancel safety
    /// Nothing is lost.
    pub async fn promised(&self, order_id: i64) -> Result<PromiseLook, Failure> {
        self.finish(move |mut connection: PooledConnection| async move {
            let order = super::order(connection.ask(), order_id).await;
            if let Some(order) = connection.heard(order)? {
                return Ok(PromiseLook::Written(order));
            }
            let reason = sqlx::query_scalar!("select reason from refused_orders where order_id = $1", order_id);
            let reason = reason.fetch_optional(connection.ask()).await;
            let reason = connection.heard(reason)?;
            Ok(reason.map_or(PromiseLook::Undecided, |reason| PromiseLook::Refused(refusal_kind(&reason))))
        })
        .await
    }

    /// Reads the units that each buyer has of a sale with a limit per buyer.
    ///
    /// # Errors
    /// As [`Failure::of_database`].
    ///
    /// # Cancel safety
    /// Nothing is lost.
    pub async fn units_by_buyer(&self, goods_no: GoodsNo, sale: i64) -> Result<Vec<(String, i64)>, Failure> {
        self.finish(move |mut connection: PooledConnection| async move {
            let units = sqlx::query!(
                "select buyer, units from buyer_units where goods_no = $1 and sale = $2",
                goods_no.get(),
                sale
            );
            let units = units.fetch_all(connection.ask()).await;
            Ok(connection.heard(units)?.into_iter().map(|row| (row.buyer, row.units)).collect())
        })
        .await
    }
}

impl Transaction {
    /// Returns those of the orders that are decided, each with its reason if it was refused.
    ///
    /// # Errors
    /// As [`Failure::of_database`].
    pub async fn decided_orders(
        &mut self,
        orders: &[i64],
    ) -> Result<HashMap<i64, Option<&'static failure::Kind>>, Failure> {
        let decided = sqlx::query!(
            r#"select order_id as "order_id!", null::text as reason from orders where order_id = any($1)
               union all select order_id, reason from refused_orders where order_id = any($1)"#,
            orders,
        );
        let decided = decided.fetch_all(self.connection()).await;
        let decided = self.heard(decided)?.into_iter();
        Ok(decided.map(|row| (row.order_id, row.reason.map(|reason| refusal_kind(&reason)))).collect())
    }

    /// Takes the units of promised orders from the stock, and writes the orders and keys. There is at least one. The caller has
    /// locked the row. Returns the row as it is then.
    ///
    /// # Errors
    /// [`REPEATED`](failure::REPEATED) if another transaction has written one of the keys meanwhile, and
    /// [`OVER_LIMIT`](failure::OVER_LIMIT) if one has sold to one of the buyers. [`LOCK_TIMEOUT`](failure::LOCK_TIMEOUT) if one is
    /// about to write a key. Then the caller must roll back. Otherwise as [`Failure::of_database`].
    pub async fn write_promised(&mut self, write: PromisedWrite<'_>) -> Result<Level, Failure> {
        let PromisedWrite { goods_no, level, strategy, orders } = write;
        let row = sqlx::query!(
            r#"with bounded as materialized (
                   select set_config('lock_timeout', $1::integer::text, true)
               ), sold as materialized (
                   select line.* from bounded, unnest(
                       $2::bigint[], $3::bigint[], $4::bigint[], $5::text[], $6::text[], $7::jsonb[], $8::text[]
                   ) as line (order_id, quantity, remaining, instance, key, cart, buyer)
               ), taken as (
                   update goods set on_hand = on_hand - (select sum(quantity) from sold)::bigint, version = version + 1
                   where goods_no = $9 and sale = $10
                   returning on_hand, version
               ), headers as (
                   insert into orders (order_id, strategy, instance, buyer) overriding system value
                   select order_id, $11, instance, buyer from sold
               ), lines as (
                   insert into order_lines (order_id, goods_no, sale, quantity, remaining)
                   select order_id, $9, $10, quantity, remaining from sold
               ), limited as (
                   insert into buyer_units (goods_no, sale, buyer, units, units_max)
                   select $9, $10, buyer, sum(quantity), $12 from sold where $12::bigint is not null
                   group by buyer order by buyer
                   on conflict (goods_no, sale, buyer) do update set units = buyer_units.units + excluded.units
               ), keyed as (
                   insert into idempotency_keys (key, cart, goods_no, sale, order_id)
                   select key, cart, $9, $10, order_id from sold where key is not null order by key
               )
               select on_hand, version from taken"#,
            KEY_WAIT_MS,
            &column(orders, |order| order.order_id),
            &column(orders, |order| order.quantity().get()),
            &column(orders, |order| order.remaining),
            &column(orders, |order| order.instance.as_str()) as _,
            &column(orders, |order| order.purchase.key.as_ref().map(IdempotencyKey::as_str)) as _,
            &column(orders, |order| order.purchase.key.as_ref().map(|_| cart_json(&order.purchase.cart))) as _,
            &column(orders, |order| order.purchase.buyer.as_ref().map(BuyerId::as_str)) as _,
            goods_no.get(),
            level.sale,
            strategy,
            level.per_buyer,
        );
        let row = row.fetch_one(self.connection()).await;
        let row = match self.note(row) {
            Err(error) if is_repeated_key(&error) => return Err(Failure::repeated().caused_by(error)),
            Err(error) if is_over_limit(&error) => return Err(Failure::over_limit(goods_no).caused_by(error)),
            row => row.map_err(Failure::of_database)?,
        };
        Ok(Level { version: row.version, ..level.clone().after(row.on_hand) })
    }

    /// Notes that promised orders are refused, each for a reason, so that somebody can tell their buyers.
    ///
    /// # Errors
    /// As [`Failure::of_database`].
    pub async fn refuse_orders(
        &mut self,
        strategy: &str,
        refused: &[(&PromisedOrder, &failure::Kind)],
    ) -> Result<(), Failure> {
        let orders: Vec<_> = refused.iter().map(|(order, _)| *order).collect();
        let orders = &orders[..];
        let reasons: Vec<&str> = refused.iter().map(|(_, kind)| kind.slug()).collect();
        let write = sqlx::query!(
            "insert into refused_orders (order_id, strategy, instance, goods_no, sale, quantity, buyer, key, reason)
             select order_id, $1, instance, goods_no, sale, quantity, buyer, key, reason
             from unnest($2::bigint[], $3::text[], $4::bigint[], $5::bigint[], $6::bigint[], $7::text[], $8::text[], $9::text[])
                 as refused (order_id, instance, goods_no, sale, quantity, buyer, key, reason)
             on conflict (order_id) do nothing",
            strategy,
            &column(orders, |order| order.order_id),
            &column(orders, |order| order.instance.as_str()) as _,
            &column(orders, |order| order.purchase.cart.lines()[0].goods_no.get()),
            &column(orders, |order| order.sale),
            &column(orders, |order| order.quantity().get()),
            &column(orders, |order| order.purchase.buyer.as_ref().map(BuyerId::as_str)) as _,
            &column(orders, |order| order.purchase.key.as_ref().map(IdempotencyKey::as_str)) as _,
            &reasons as _,
        );
        let written = write.execute(self.connection()).await;
        self.heard(written).map(drop)
    }
}
