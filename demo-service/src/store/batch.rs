//! The statements of a batch: many purchases of one SKU in one transaction.

use std::collections::{HashMap, HashSet};

use tokio::time::Instant;

use super::keys::cart_json;
use super::transaction::{Transaction, TransactionId, WrittenOrder, left_ms};
use super::{is_over_limit, is_repeated_key};
use crate::failure::{self, Failure};
use crate::sale::{BuyerId, Cart, Fence, GoodsNo, IdempotencyKey};

/// The time limit of the wait for a purchase under the same key that is in progress. All who come later wait with it. A batch
/// waits for its row for at least that long, too, so a late batch that waits again does not wait in a busy loop.
const KEY_WAIT_MS: i32 = 100;

/// The same for a batch of several orders. A batch that is refused is divided, so it meets that purchase again.
const SHARED_KEY_WAIT_MS: i32 = 10;

/// The longest pause between a written batch and its `commit`, which follows at once. After it the server rolls back, so
/// an instance that freezes in between does not keep the row locked.
const IDLE_MS: i32 = 1000;

/// The orders of a batch.
#[derive(Debug, Clone, Copy)]
pub struct BatchWrite<'a> {
    /// The SKU.
    pub goods_no: GoodsNo,
    /// Its sale.
    pub sale: i64,
    /// The stock at the decision. Only a row with this stock is written.
    pub on_hand: i64,
    /// The family of the strategy. Only a sale that this family guards is written.
    pub guard: &'a str,
    /// The strategy that decided the purchases.
    pub strategy: &'a str,
    /// The instance of the service that writes them.
    pub instance: &'a str,
    /// Most units of the sale that one buyer may have, if there is such a limit.
    pub per_buyer: Option<i64>,
    /// The fence of the batch, if it has one. Then the row is written only if it still has this fence.
    pub fence: Option<Fence>,
    /// What was sold, in the order of the decisions.
    pub orders: &'a [BatchOrder<'a>],
    /// The deadline of the wait for the row. The wait for a key has a short limit of its own.
    pub until: Instant,
}

/// One order of a batch.
#[derive(Debug, Clone, Copy)]
pub struct BatchOrder<'a> {
    /// How many units were sold.
    pub quantity: i64,
    /// Units left after it.
    pub remaining: i64,
    /// The idempotency key of the purchase, if it has one.
    pub key: Option<&'a IdempotencyKey>,
    /// The cart, which is stored with the key.
    pub cart: &'a Cart,
    /// The buyer, if the purchase names one.
    pub buyer: Option<&'a BuyerId>,
}

fn column<'a, T>(batch: BatchWrite<'a>, value: impl Fn(&BatchOrder<'a>) -> T) -> Vec<T> {
    batch.orders.iter().map(value).collect()
}

impl Transaction {
    /// Returns those of the keys that have an order already.
    ///
    /// # Errors
    /// As [`Failure::of_database`].
    pub async fn known_keys(&mut self, keys: &[&str]) -> Result<HashSet<String>, Failure> {
        if keys.is_empty() {
            return Ok(HashSet::new());
        }
        let known = sqlx::query_scalar!("select key from idempotency_keys where key = any($1::text[])", keys as _,);
        let known = known.fetch_all(self.connection()).await;
        Ok(self.heard(known)?.into_iter().collect())
    }

    /// Returns the units that each of these buyers has of a sale with a limit per buyer. A buyer without any is left out.
    ///
    /// # Errors
    /// As [`Failure::of_database`].
    pub async fn units_of_buyers(
        &mut self,
        goods_no: GoodsNo,
        sale: i64,
        buyers: &[&str],
    ) -> Result<HashMap<String, i64>, Failure> {
        let units = sqlx::query!(
            "select buyer, units from buyer_units where goods_no = $1 and sale = $2 and buyer = any($3::text[])",
            goods_no.get(),
            sale,
            buyers as _,
        );
        let units = units.fetch_all(self.connection()).await;
        Ok(self.heard(units)?.into_iter().map(|row| (row.buyer, row.units)).collect())
    }

    /// Takes the units of all orders from the stock, and writes the orders and keys. Returns the orders as they were given.
    /// There is at least one. The caller has locked the row, or read it under the fence. A stock that
    /// was read under the fence may be wrong by now, if the database was restored or somebody has changed the row by hand.
    ///
    /// # Errors
    /// [`REPEATED`](failure::REPEATED) if another transaction has written one of the keys meanwhile, and
    /// [`OVER_LIMIT`](failure::OVER_LIMIT) if one has sold to one of the buyers. [`LOCK_TIMEOUT`](failure::LOCK_TIMEOUT) if one
    /// is about to write a key, or if the row is locked until `until`. [`FENCED`](failure::FENCED) if a later holder came first,
    /// and [`SALE_RESTARTED`](failure::SALE_RESTARTED) if the row has another sale or stock. In all of these cases the caller must
    /// roll back. Otherwise as [`Failure::of_database`].
    pub async fn write_batch(&mut self, batch: BatchWrite<'_>) -> Result<Vec<WrittenOrder>, Failure> {
        // The row is taken first, under its own time limit. All that follows reads from it, so the row is locked when the
        // limit for the keys is set. Identity values grow in the order of the rows of an `insert ... select ... order by`.
        // That joins the orders to their lines. The keys are written in their own order, so that two batches cannot wait for
        // each other's.
        let key_wait_ms = if batch.orders.len() > 1 { SHARED_KEY_WAIT_MS } else { KEY_WAIT_MS };
        let rows = sqlx::query!(
            r#"with bounded as materialized (
                   select set_config('lock_timeout', $15::integer::text, true),
                       set_config('idle_in_transaction_session_timeout', $13::integer::text, true)
               ), taken as (
                   update goods set on_hand = $16, version = version + 1 from bounded
                   where goods_no = $1 and sale = $2 and guard = $10 and on_hand = $17
                       and ($11::bigint is null or (fence, fence_handover, fence_hold) = ($11, $12::bigint, $14::bigint))
                   returning goods_no
               ), keys_bounded as materialized (
                   select set_config('lock_timeout', $9::integer::text, true) from taken
               ), sold as materialized (
                   select line.* from keys_bounded,
                       unnest($5::bigint[], $6::bigint[], $7::text[], $8::jsonb[], $18::text[])
                       with ordinality as line (quantity, remaining, key, cart, buyer, number)
               ), headers as (
                   insert into orders (strategy, instance, buyer) select $3, $4, buyer from sold order by number
                   returning order_id
               ), numbered as (
                   select order_id, row_number() over (order by order_id) as number from headers
               ), written as materialized (
                   select * from numbered join sold using (number)
               ), lines as (
                   insert into order_lines (order_id, goods_no, sale, quantity, remaining, token, token_handover)
                   select order_id, $1, $2, quantity, remaining, $11, $12 from written
               ), limited as (
                   insert into buyer_units (goods_no, sale, buyer, units, units_max)
                   select $1, $2, buyer, sum(quantity), $19 from written where $19::bigint is not null
                   group by buyer order by buyer
                   on conflict (goods_no, sale, buyer) do update set units = buyer_units.units + excluded.units
               ), keyed as (
                   insert into idempotency_keys (key, cart, goods_no, sale, order_id)
                   select key, cart, $1, $2, order_id from written where key is not null order by key
               )
               select order_id as "order_id!", pg_current_xact_id()::text as "transaction!" from written order by number"#,
            batch.goods_no.get(),
            batch.sale,
            batch.strategy,
            batch.instance,
            &column(batch, |order| order.quantity),
            &column(batch, |order| order.remaining),
            &column(batch, |order| order.key.map(IdempotencyKey::as_str)) as _,
            &column(batch, |order| order.key.map(|_| cart_json(order.cart))) as _,
            key_wait_ms,
            batch.guard,
            batch.fence.map(|fence| fence.token.number),
            batch.fence.map(|fence| fence.token.handover),
            IDLE_MS,
            batch.fence.map(|fence| fence.hold),
            left_ms(batch.until).max(KEY_WAIT_MS),
            batch.orders.last().map(|order| order.remaining),
            batch.on_hand,
            &column(batch, |order| order.buyer.map(BuyerId::as_str)) as _,
            batch.per_buyer,
        );
        let rows = rows.fetch_all(self.connection()).await;
        let rows = match self.note(rows) {
            Err(error) if is_repeated_key(&error) => return Err(Failure::repeated().caused_by(error)),
            Err(error) if is_over_limit(&error) => return Err(Failure::over_limit(batch.goods_no).caused_by(error)),
            rows => rows.map_err(Failure::of_database)?,
        };
        if rows.is_empty() {
            let is_fenced = self.is_fenced(batch).await?;
            return Err(if is_fenced { Failure::fenced() } else { Failure::of(&failure::SALE_RESTARTED) });
        }
        let order = |order_id, number| WrittenOrder { order_id, transaction: TransactionId::new(number) };
        Ok(rows.into_iter().map(|row| order(row.order_id, row.transaction)).collect())
    }

    /// Returns whether the sale of a batch goes on under another fence.
    async fn is_fenced(&mut self, batch: BatchWrite<'_>) -> Result<bool, Failure> {
        let Some(fence) = batch.fence else { return Ok(false) };
        let is_fenced = sqlx::query_scalar!(
            r#"select (fence, fence_handover, fence_hold) is distinct from ($3, $4, $5) as "is_fenced!"
               from goods where goods_no = $1 and sale = $2"#,
            batch.goods_no.get(),
            batch.sale,
            fence.token.number,
            fence.token.handover,
            fence.hold,
        );
        let is_fenced = is_fenced.fetch_optional(self.connection()).await;
        Ok(self.heard(is_fenced)?.unwrap_or(false))
    }
}
