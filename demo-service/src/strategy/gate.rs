//! `redis-gate` and `redis-gate-confirmed`: Redis decides, a stream carries the order, the database follows. That is the design of most
//! tutorials.
//!
//! A script checks the stock and the buyer, takes the units and appends the order to a stream. Under `redis-gate` the buyer is told
//! "sold" then. Consumers of all instances write the orders in [batches](consumer). The row decides once more, so nothing is oversold.
//! A buyer was told a lie if Redis loses the order, or if the database refuses it. Under `redis-gate-confirmed` the buyer is
//! [told](confirmations) when the order is committed or refused.
//!
//! A gate is loaded from the database when a purchase finds that it has no units of the sale. The load counts all units that the row
//! has. So after Redis has lost its data, the units of lost orders are sold again. Units that a gate has lost, with their orders, are
//! nobody's until it is loaded again: by the next sale, or when an operator deletes its key.

mod confirmations;
mod consumer;

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::Notify;
use tokio::time::{Instant, sleep};
use tracing::warn;

use self::confirmations::{Awaited, Confirmations};
use super::attempt::{do_business_first, restarted};
use super::call::{Call, Sent};
use super::context::Context;
use super::{Boxed, Decided, Strategy};
use crate::failure::{self, Failure, Kind};
use crate::redis_store::RedisTrouble;
use crate::redis_store::gate::{GateReply, GateRequest, Gates};
use crate::sale::{GoodsNo, Level, PromisedOrder, Receipt};
use crate::shared_reads::SharedReads;
use crate::store::{Isolation, PromiseLook};

/// How often a purchase asks again whose gate has to be loaded. Another sale may start meanwhile, or Redis may lose its data.
const ASKED_MAX: usize = 4;

/// How often the database is asked at most whether a sale goes on whose gate has too few units. Nobody may have closed the gate as the
/// next sale started: Redis was away, or the instance that started it has none.
const ASK_FOR_SALE_EVERY: Duration = Duration::from_secs(1);

/// How often the database is asked for an order whose buyer waits. Usually a consumer tells of it before, unless the message is lost.
const ASK_EVERY: Duration = Duration::from_millis(500);

/// The same for a repeated request, of which no consumer knows.
const ASK_FOR_REPEATED_EVERY: Duration = Duration::from_millis(50);

/// Promises orders at gates in Redis, and writes them.
pub(super) struct RedisGate {
    context: Context,
    gates: Option<Gates>,
    /// Buyers who wait until their orders are committed. `None` if buyers are answered at the gate.
    confirmations: Option<Confirmations>,
    /// Told that an order was promised here.
    promised: Notify,
    loads: Arc<SharedReads<(GoodsNo, i64), Result<Loaded, Failure>>>,
    /// When the database was last asked whether a sale goes on whose gate has too few units.
    asked: Mutex<HashMap<GoodsNo, Instant>>,
}

/// Whether a gate was loaded.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Loaded {
    Done,
    /// The SKU has another sale or another guard by now.
    Restarted,
}

impl RedisGate {
    pub(super) fn new(context: Context) -> Self {
        let gates = context.shared.redis.as_ref().map(|redis| redis.gates(context.family));
        Self {
            context,
            gates,
            confirmations: None,
            promised: Notify::new(),
            loads: Arc::default(),
            asked: Mutex::default(),
        }
    }

    /// Answers buyers when their orders are committed.
    pub(super) fn confirmed(self) -> Self {
        Self { confirmations: Some(Confirmations::new()), ..self }
    }

    /// Asks the gate of a SKU for an order.
    async fn sell(&self, call: &Call) -> Result<Receipt, Failure> {
        do_business_first(&self.context, call).await?;
        let gates = self.gates.as_ref().ok_or_else(|| Failure::of(&failure::LOCK_SERVICE_UNAVAILABLE))?;
        let awaited = self.confirmations.as_ref().map(Confirmations::expect);
        let goods_no = call.purchase.cart.lines()[0].goods_no;
        let request = GateRequest {
            purchase: &call.purchase,
            sale: call.sale_of(goods_no),
            instance: &self.context.shared.instance,
            waiter: awaited.as_ref().map(Awaited::name),
            key_lifetime: self.context.shared.settings.key_lifetime,
        };
        for _ in 0..ASKED_MAX {
            call.still_wanted()?;
            call.commit.note(Sent::AtGate(None));
            let answer = gates.promise(request).await;
            if !answer.as_ref().is_err_and(RedisTrouble::is_unanswered) {
                call.commit.forget();
            }
            match answer.map_err(unanswered)? {
                GateReply::Promised { order, is_repeated } => {
                    self.promised.notify_one();
                    return match awaited {
                        None => Ok(Receipt::Promised { order: order.order(self.context.strategy), is_repeated }),
                        Some(awaited) => self.confirm(call, order, (!is_repeated).then_some(awaited)).await,
                    };
                }
                GateReply::OtherCart => return Err(Failure::key_reused()),
                GateReply::SoldOut => return Err(self.sold_out(call, gates, goods_no).await),
                GateReply::OverLimit => return Err(Failure::over_limit(goods_no)),
                GateReply::Restarted => return Err(restarted(call, goods_no)),
                GateReply::NotLoaded => {
                    let load = || load(self.context.clone(), gates.clone(), goods_no, request.sale);
                    if self.loads.read((goods_no, request.sale), load).await? == Loaded::Restarted {
                        return Err(restarted(call, goods_no));
                    }
                }
            }
        }
        Err(Failure::of(&failure::OVERTAKEN))
    }

    /// Returns the failure of a purchase for which a gate has too few units. Asks the database seldom whether the sale goes on.
    async fn sold_out(&self, call: &Call, gates: &Gates, goods_no: GoodsNo) -> Failure {
        if self.has_to_ask(goods_no)
            && let Ok(Some(goods)) = self.context.shared.store.look(goods_no).await
            && goods.sale > call.sale_of(goods_no)
        {
            close(gates, goods_no, goods.sale).await;
            return restarted(call, goods_no);
        }
        Failure::sold_out(goods_no)
    }

    fn has_to_ask(&self, goods_no: GoodsNo) -> bool {
        let now = Instant::now();
        let mut asked = self.asked.lock();
        let has_to_ask = asked.get(&goods_no).is_none_or(|last| now.duration_since(*last) >= ASK_FOR_SALE_EVERY);
        if has_to_ask {
            asked.insert(goods_no, now);
        }
        has_to_ask
    }

    /// Waits until an order is committed or refused. Without `awaited`, an earlier request with the same key has made it.
    async fn confirm(
        &self,
        call: &Call,
        order: PromisedOrder,
        mut awaited: Option<Awaited<'_>>,
    ) -> Result<Receipt, Failure> {
        call.commit.note(Sent::AtGate(Some(order.order_id)));
        let is_repeated = awaited.is_none();
        let pause = if is_repeated { ASK_FOR_REPEATED_EVERY } else { ASK_EVERY };
        let refused = loop {
            let told = async {
                match &mut awaited {
                    Some(awaited) => awaited.told().await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                refused = told => break refused,
                () = sleep(pause) => {}
            }
            match self.context.shared.store.promised(order.order_id).await {
                Ok(PromiseLook::Written(_)) => break None,
                Ok(PromiseLook::Refused(kind)) => break Some(kind),
                Ok(PromiseLook::Undecided) | Err(_) => {}
            }
        };
        call.commit.forget();
        match refused {
            Some(kind) => Err(refusal(call, kind)),
            // The order under the key is looked up, and told as a repeated one.
            None if is_repeated => Err(Failure::repeated()),
            None => Ok(Receipt::Order(order.order(self.context.strategy))),
        }
    }
}

/// Loads the gate of a sale with what the database has.
async fn load(context: Context, gates: Gates, goods_no: GoodsNo, sale: i64) -> Result<Loaded, Failure> {
    let store = &context.shared.store;
    let mut transaction = store.begin(Isolation::ReadCommitted, None).await?;
    let level = transaction.read(goods_no).await;
    transaction.roll_back().await;
    let is_same = |level: &Level| level.sale == sale && level.guard.as_deref() == Some(context.family);
    let Some(level) = level?.filter(is_same) else { return Ok(Loaded::Restarted) };
    let buyers = if level.per_buyer.is_some() { store.units_by_buyer(goods_no, sale).await? } else { Vec::new() };
    // A load promises nothing, so it may be repeated.
    gates.load(goods_no, &level, &buyers).await.map_err(unavailable)?;
    Ok(Loaded::Done)
}

/// Closes the gate of an earlier sale, because `sale` has started. If that fails, the instances that find the new sale close it.
async fn close(gates: &Gates, goods_no: GoodsNo, sale: i64) {
    if let Err(trouble) = gates.close(goods_no, sale).await {
        let error = program::chain(&trouble);
        warn!(%goods_no, sale, error, "the gate of the sale before could not be closed, and may promise orders that are refused");
    }
}

/// Returns the failure of a purchase that a gate did not answer.
fn unanswered(trouble: RedisTrouble) -> Failure {
    if trouble.is_unanswered() {
        return Failure::outcome_unknown_at_gate(None).caused_by(trouble);
    }
    unavailable(trouble)
}

fn unavailable(trouble: RedisTrouble) -> Failure {
    let detail = if trouble.is_refusal() {
        "Redis refused to decide the purchase, and nothing is sold past its gate; nothing was written"
    } else {
        "Redis did not answer, and nothing is sold past its gate; nothing was written"
    };
    Failure::new(&failure::LOCK_SERVICE_UNAVAILABLE, detail).caused_by(trouble)
}

/// Returns the failure of a purchase whose order the database has refused.
fn refusal(call: &Call, kind: &'static Kind) -> Failure {
    let goods_no = call.purchase.cart.lines()[0].goods_no;
    match kind {
        kind if *kind == failure::SALE_RESTARTED => restarted(call, goods_no),
        kind if *kind == failure::REPEATED => Failure::repeated(),
        kind => Failure::of_ticket(kind, goods_no.get()),
    }
}

impl Strategy for RedisGate {
    fn purchase<'a>(&'a self, call: &'a Call) -> Boxed<'a, Decided<'a>> {
        Box::pin(async move {
            let decision = call.in_time(Box::pin(self.sell(call))).await;
            Decided { decision, release: None }
        })
    }

    fn sale_started(&self, goods_no: GoodsNo, sale: i64) -> Boxed<'_, ()> {
        Box::pin(async move {
            if let Some(gates) = &self.gates {
                close(gates, goods_no, sale).await;
            }
        })
    }

    fn upkeep(&self) -> Boxed<'_, ()> {
        // Orders of a consumer that is stopped half-way are delivered again.
        Box::pin(async move {
            let Some(gates) = &self.gates else { return };
            self.until_needed(gates).await;
            tokio::join!(self.write_orders(gates), self.hear_confirmations(gates), self.show_backlog(gates));
        })
    }
}
