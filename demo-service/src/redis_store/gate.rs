//! Gates: the free units of a sale and the units of its buyers, in Redis. A script decides a purchase there, and appends the order to a
//! stream. A consumer of the stream writes the order, and settles it.
//!
//! A gate has these fields. `free`: the units that may still be promised. `withheld`: units that the row may not have, after it has
//! refused an order. `pending`: the units of orders that are promised and not settled. `in_database` and `version`: the units and the version of the row, as they were last settled. `limit`: most units of one
//! buyer, if there is such a limit. `sale`: the sale. `load`: the identity of the load, so that orders from before a load are not
//! counted twice.

use std::sync::LazyLock;
use std::time::Duration;

use redis::{RedisError, Script};

use super::stream::Message;
use super::{RedisStore, RedisTrouble};
use crate::sale::{BuyerId, Cart, GoodsNo, IdempotencyKey, Level, Line, PromisedOrder, Purchase, Quantity};

static PROMISE: LazyLock<Script> = LazyLock::new(|| Script::new(include_str!("gate/promise.lua")));
static LOAD: LazyLock<Script> = LazyLock::new(|| Script::new(include_str!("gate/load.lua")));
static SETTLE: LazyLock<Script> = LazyLock::new(|| Script::new(include_str!("gate/settle.lua")));
static CLOSE: LazyLock<Script> = LazyLock::new(|| Script::new(include_str!("gate/close.lua")));

/// The most units that a gate counts: numbers up to here are exact in a script.
const UNITS_MAX: i64 = 1 << 53;

/// The most buyers that one call loads. Redis does nothing else during a call.
const BUYERS_PER_CALL: usize = 5000;

/// The gates of one family of strategies, with their stream.
#[derive(Clone)]
pub struct Gates {
    pub(super) store: RedisStore,
    /// The beginning of the family's keys.
    pub(super) prefix: String,
    /// The key of the last number of an order. Both families number the orders of one table.
    last_order: String,
}

/// What is asked of a gate.
#[derive(Debug, Clone, Copy)]
pub struct GateRequest<'a> {
    /// What the buyer wants. The cart has one line.
    pub purchase: &'a Purchase,
    /// The sale to which the purchase was admitted.
    pub sale: i64,
    /// The instance of the service that asks.
    pub instance: &'a str,
    /// The name of a wait that is told when the order is settled, if a buyer waits for that.
    pub waiter: Option<&'a str>,
    /// How long the idempotency key is kept.
    pub key_lifetime: Duration,
}

/// What a gate has decided.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum GateReply {
    /// The order is promised.
    Promised {
        /// The order.
        order: PromisedOrder,
        /// Whether an earlier request with the same key made it.
        is_repeated: bool,
    },
    /// Another purchase was promised under the key.
    OtherCart,
    /// Too few units are free.
    SoldOut,
    /// The buyer would have too many units.
    OverLimit,
    /// A later sale has started.
    Restarted,
    /// The gate has no units of this sale yet. Nothing was decided.
    NotLoaded,
}

/// What became of an order.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SettledOrder<'a> {
    /// The message of the order.
    pub message: &'a Message,
    /// Whether the database has refused it.
    pub is_refused: bool,
}

impl Gates {
    /// Returns the gates of a family, whose keys begin like all keys of the shop.
    pub(super) fn new(store: RedisStore, shop: &str, family: &str) -> Self {
        Self { store, prefix: format!("{shop}:{family}"), last_order: format!("{shop}:last-order") }
    }

    pub(super) fn key(&self, name: impl std::fmt::Display) -> String {
        format!("{}:{name}", self.prefix)
    }

    fn gate(&self, goods_no: GoodsNo) -> [String; 2] {
        [self.key(format_args!("gate:{goods_no}")), self.key(format_args!("buyers:{goods_no}"))]
    }

    fn idempotency(&self, key: &IdempotencyKey) -> String {
        self.key(format_args!("key:{key}"))
    }

    /// Decides a purchase. A promise takes the units and appends the order to the stream, in one step.
    ///
    /// # Errors
    /// If it is [unanswered](RedisTrouble::is_unanswered), the order may have been promised, or may be later. Otherwise nothing was
    /// changed.
    ///
    /// # Cancel safety
    /// Dropped, the order may have been promised.
    pub async fn promise(&self, request: GateRequest<'_>) -> Result<GateReply, RedisTrouble> {
        let Purchase { cart, key, buyer } = request.purchase;
        let Line { goods_no, quantity } = cart.lines()[0];
        let mut call = PROMISE.prepare_invoke();
        call.key(&self.gate(goods_no)[..]).key(&self.last_order).key(self.key("orders"));
        if let Some(key) = key {
            call.key(self.idempotency(key));
        }
        call.arg(goods_no.get()).arg(request.sale).arg(quantity.get());
        call.arg(buyer.as_ref().map_or("", BuyerId::as_str)).arg(key.as_ref().map_or("", IdempotencyKey::as_str));
        call.arg(request.instance).arg(request.waiter.unwrap_or_default());
        call.arg(millis(request.key_lifetime));
        let mut connection = self.store.link.connection()?;
        let answer: Vec<String> = self.store.link.ask(call.invoke_async(&mut connection)).await?;
        let words: Vec<&str> = answer.iter().map(String::as_str).collect();
        let own = |order_id, remaining| PromisedOrder {
            order_id,
            sale: request.sale,
            purchase: request.purchase.clone(),
            remaining,
            instance: request.instance.to_owned(),
        };
        Ok(match words[..] {
            ["sold-out"] => GateReply::SoldOut,
            ["over-limit"] => GateReply::OverLimit,
            ["restarted"] => GateReply::Restarted,
            ["not-loaded"] => GateReply::NotLoaded,
            ["promised", order_id, remaining] => {
                let order = own(number(order_id)?, number(remaining)?);
                GateReply::Promised { order, is_repeated: false }
            }
            ["known", known] => match known_order(known, request.purchase).ok_or_else(|| unreadable(known))? {
                order if order.purchase.cart == *cart => GateReply::Promised { order, is_repeated: true },
                _ => GateReply::OtherCart,
            },
            _ => return Err(unreadable(&words.join(" "))),
        })
    }

    /// Loads the gate of a sale with what the database has, unless it is loaded or has a later sale. `buyers` are those that have
    /// units of a sale with a limit.
    ///
    /// # Errors
    /// Why Redis did not do so.
    ///
    /// # Cancel safety
    /// Dropped, the gate is loaded or not.
    pub async fn load(&self, goods_no: GoodsNo, level: &Level, buyers: &[(String, i64)]) -> Result<(), RedisTrouble> {
        let identity = format!("{:016x}", rand::random::<u64>());
        let limit = level.per_buyer.map(|limit| limit.to_string()).unwrap_or_default();
        let calls = buyers.len().div_ceil(BUYERS_PER_CALL).max(1);
        for number in 0..calls {
            let some = buyers.iter().skip(number * BUYERS_PER_CALL).take(BUYERS_PER_CALL);
            let mut call = LOAD.prepare_invoke();
            call.key(&self.gate(goods_no)[..]);
            call.arg(level.sale).arg(&identity).arg(level.on_hand.min(UNITS_MAX)).arg(level.version).arg(&limit);
            call.arg(i32::from(number + 1 == calls));
            for (buyer, units) in some {
                call.arg(buyer).arg(units);
            }
            let mut connection = self.store.link.connection()?;
            let _: i64 = self.store.link.ask(call.invoke_async(&mut connection)).await?;
        }
        Ok(())
    }

    /// Acknowledges the orders of a SKU that are decided, and deletes their messages. `level` is the row behind the decision, if there
    /// is one. The units of refused orders are free again as far as the row has them. Returns how many were settled, and by no other consumer.
    ///
    /// # Errors
    /// Why Redis did not do so. The orders stay in the stream, and are delivered again.
    ///
    /// # Cancel safety
    /// Dropped, they are settled or not.
    pub async fn settle(
        &self,
        goods_no: GoodsNo,
        level: Option<&Level>,
        orders: &[SettledOrder<'_>],
    ) -> Result<i64, RedisTrouble> {
        let mut call = SETTLE.prepare_invoke();
        call.key(self.key("orders"));
        call.key(&self.gate(goods_no)[..]);
        let [sale, version, on_hand] =
            level.map_or([0; 3], |level| [level.sale, level.version, level.on_hand.min(UNITS_MAX)]);
        call.arg(super::stream::GROUP).arg(sale).arg(version).arg(on_hand);
        let mut keys = 0;
        for SettledOrder { message, is_refused } in orders {
            let PromisedOrder { order_id, purchase, .. } = &message.order;
            let freed = match (is_refused, &purchase.key) {
                (false, _) => -1,
                (true, None) => 0,
                (true, Some(key)) => {
                    call.key(self.idempotency(key));
                    keys += 1;
                    keys
                }
            };
            call.arg(&message.id).arg(&message.load).arg(message.order.quantity().get());
            call.arg(purchase.buyer.as_ref().map_or("", BuyerId::as_str)).arg(order_id).arg(freed);
        }
        let mut connection = self.store.link.connection()?;
        self.store.link.ask(call.invoke_async(&mut connection)).await
    }

    /// Closes the gate of an earlier sale, because `sale` has started.
    ///
    /// # Errors
    /// Why Redis did not do so.
    ///
    /// # Cancel safety
    /// Dropped, the gate is closed or not.
    pub async fn close(&self, goods_no: GoodsNo, sale: i64) -> Result<(), RedisTrouble> {
        let mut call = CLOSE.prepare_invoke();
        call.key(&self.gate(goods_no)[..]);
        call.arg(sale);
        let mut connection = self.store.link.connection()?;
        let _: i64 = self.store.link.ask(call.invoke_async(&mut connection)).await?;
        Ok(())
    }
}

/// Reads what is kept under an idempotency key. The buyer is the one who asks now.
pub(super) fn known_order(text: &str, purchase: &Purchase) -> Option<PromisedOrder> {
    let words: Vec<&str> = text.splitn(6, ' ').collect();
    let [order_id, goods_no, sale, quantity, remaining, instance] = words[..] else { return None };
    let cart = Cart::of_one(goods_no.parse().ok()?, Quantity::new(quantity.parse().ok()?)?);
    let order = PromisedOrder {
        order_id: order_id.parse().ok()?,
        sale: sale.parse().ok()?,
        purchase: Purchase { cart, ..purchase.clone() },
        remaining: remaining.parse().ok()?,
        instance: instance.to_owned(),
    };
    Some(order).filter(PromisedOrder::is_possible)
}

fn number(text: &str) -> Result<i64, RedisTrouble> {
    text.parse().map_err(|_| unreadable(text))
}

fn unreadable(answer: &str) -> RedisTrouble {
    let error = RedisError::from((redis::ErrorKind::UnexpectedReturnType, "a script answered", answer.to_owned()));
    RedisTrouble::of(error)
}

fn millis(time: Duration) -> String {
    time.as_millis().to_string()
}
