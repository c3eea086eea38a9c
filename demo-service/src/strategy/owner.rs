//! `zk-owner`: one instance owns a SKU. It remembers the stock, so a batch is one statement and a commit. All other instances
//! hand their buyers over to the owner, in batches.
//!
//! Each batch is written under the token of the owner's term. A later owner raises the fence before it reads the stock. After
//! that, the row refuses the batches of the earlier owner.
//!
//! An owner sells its batches one after the other. The update of the next batch would wait for the row until the commit of the
//! last one.

mod election;
mod reachable;

use std::sync::Arc;
use std::time::Duration;

use futures_util::StreamExt;
use futures_util::stream::{self, BoxStream, FuturesUnordered};
use tokio::time::{Instant, sleep, timeout};
use tracing::debug;

use self::election::{Owner, Ownership, Term};
pub(crate) use self::reachable::until_reachable;
use super::batch::{Begun, Handed, Next, Shop, Turn, level_under_fence};
use super::call::Call;
use super::context::Context;
use super::{Boxed, Decided, Decision, Strategy};
use crate::failure::{self, Failure};
use crate::peers::{Address, Batch, Line, NoAnswer, Told, Wanted};
use crate::sale::{Cart, Fence, GoodsNo, Level, Purchase, Quantity};
use crate::store::{Isolation, Transaction};

/// The name of the strategy, of its family, and of the folder of its elections. Its instances hand purchases over to each other.
pub(crate) const NAME: &str = "zk-owner";

/// The time for the last answers of an owner whose term is over. An owner that stops finishes its batch first.
const LAST_ANSWERS_WITHIN: Duration = Duration::from_secs(2);

/// The strategy.
pub(super) struct ZkOwner {
    shop: Arc<Shop<Arc<Ownership>>>,
}

impl ZkOwner {
    pub(super) fn new(context: Context) -> Self {
        Self { shop: Shop::new(Ownership::new(context)) }
    }
}

impl Turn for Arc<Ownership> {
    fn context(&self) -> &Context {
        Ownership::context(self)
    }

    async fn begin(&self, goods_no: GoodsNo, sale: i64, until: Instant) -> Result<Next<'_>, Failure> {
        let term = match self.owner(goods_no, until).await? {
            Owner::Here(term) => term,
            Owner::At(owner) => return Ok(Next::HandOver(owner, self.place(goods_no, until).await?)),
        };
        let in_progress = term.begin_batch().await;
        let context = Ownership::context(self);
        let begun = tokio::select! {
            biased;
            lost = term.loss() => Err(lost),
            begun = begin(context, &term, goods_no, sale, until) => begun,
        };
        match begun {
            Ok((transaction, level)) => {
                let lost = Box::pin(term.loss());
                let end: Boxed<'_, ()> = Box::pin(async { drop(in_progress) });
                Ok(Next::Sell(Box::new(Begun { transaction, level, fence: Some(term.fence), lost, end: Some(end) })))
            }
            Err(failure) => {
                // Another instance may reach the database. A fence is no such reason: a term that is over was lost before a
                // later one could raise it. If this term is not over, the fence is of another ensemble, or of an earlier age of
                // this one, and concerns its SKU only.
                if failure.is(&failure::DATABASE_UNAVAILABLE) {
                    term.resign();
                }
                Err(failure)
            }
        }
    }

    fn sold(&self, goods_no: GoodsNo, fence: Option<Fence>, level: Level) {
        self.note_level(goods_no, fence.expect("BUG: a term without a token"), level);
    }

    async fn outlived(&self, goods_no: GoodsNo, owner: &Address) {
        self.moved(goods_no, owner).await;
        sleep(LAST_ANSWERS_WITHIN).await;
    }

    async fn hand_over(
        &self,
        owner: &Address,
        goods_no: GoodsNo,
        purchases: Vec<Wanted>,
        mut tell: impl FnMut(usize, Option<Decision>) + Send,
    ) -> Option<Failure> {
        let context = Ownership::context(self);
        let batch = Batch { goods_no: goods_no.get(), nonce: rand::random(), purchases };
        let mut has_decided = false;
        let tell = |place, told: Told| {
            has_decided |= told.is_decided();
            tell(place, told.decision());
        };
        // By then, every buyer has given up.
        let told =
            timeout(context.shared.settings.db_timeout, context.shared.hand_over.peers.hand_over(owner, &batch, tell))
                .await;
        match &told {
            Ok(Ok(())) if !has_decided => self.avoid(goods_no, owner),
            Ok(Err(NoAnswer::NotReached(_))) => self.avoid(goods_no, owner),
            Ok(Ok(()) | Err(NoAnswer::Busy | NoAnswer::Unknown(_))) | Err(_) => {}
        }
        match told {
            Ok(Ok(()) | Err(NoAnswer::Busy)) => None,
            Ok(Err(NoAnswer::NotReached(cause))) => {
                debug!(owner = owner.at, cause = program::chain(&*cause), "the owner of a SKU was not reached");
                None
            }
            Ok(Err(unknown)) => Some(Failure::outcome_unknown_elsewhere().caused_by(unknown)),
            Err(_) => Some(Failure::outcome_unknown_elsewhere()),
        }
    }
}

/// Begins a batch of a term. Waits for the row until `until`.
async fn begin(
    context: &Context,
    term: &Term,
    goods_no: GoodsNo,
    sale: i64,
    until: Instant,
) -> Result<(Transaction, Level), Failure> {
    let begun = async {
        let level = match term.take_level(goods_no).filter(|level| level.sale >= sale) {
            Some(level) => level,
            None => level_under_fence(context, goods_no, sale, term.fence, until).await?,
        };
        Ok((context.shared.store.begin(Isolation::ReadCommitted, None).await?, level))
    };
    timeout(context.shared.settings.db_timeout, begun).await.unwrap_or_else(|_| Err(Failure::database_unavailable()))
}

impl Strategy for ZkOwner {
    fn purchase<'a>(&'a self, call: &'a Call) -> Boxed<'a, Decided<'a>> {
        self.shop.purchase(call)
    }

    fn take_over(&self, batch: Batch) -> Option<BoxStream<'static, Line>> {
        let context = self.shop.context();
        let goods_no = GoodsNo::try_from(batch.goods_no).ok()?;
        let (mut places, mut purchases, mut refused) = (Vec::new(), Vec::new(), Vec::new());
        for (place, wanted) in batch.purchases.into_iter().enumerate() {
            match handed(context, goods_no, wanted) {
                Some(purchase) => {
                    places.push(place);
                    purchases.push(purchase);
                }
                None => refused.push(Line { place, told: Told::of(Err(unreadable())) }),
            }
        }
        let answers = self.shop.take_in(goods_no, purchases);
        let late = Arc::new(context.lock_timeout());
        let told = places.into_iter().zip(answers).map(|(place, answer)| {
            let late = Arc::clone(&late);
            async move { Line { place, told: answer.decided(&late).await.map_or(Told::Elsewhere, Told::of) } }
        });
        Some(stream::iter(refused).chain(told.collect::<FuturesUnordered<_>>()).boxed())
    }
}

/// Reads a purchase that was handed over. `None` if another version of the service has sent it.
fn handed(context: &Context, goods_no: GoodsNo, wanted: Wanted) -> Option<Handed> {
    let Wanted { sale, has_decided, quantity, key, within_ms } = wanted;
    let key = key.map(|key| key.parse()).transpose().ok()?;
    let purchase = Purchase { cart: Cart::of_one(goods_no, Quantity::new(quantity)?), key };
    let within = Duration::from_millis(within_ms).min(context.shared.settings.db_timeout);
    let (until, waiting) = (Instant::now() + within, context.metrics.wait_on());
    Some(Handed { purchase, sale, has_decided, until, waiting })
}

/// The failure of a purchase that another version of the service has sent.
fn unreadable() -> Failure {
    let detail =
        "the instance that owns this SKU is of another version and cannot read the purchase; nothing was written";
    Failure::new(&failure::INTERNAL, detail)
}

#[cfg(test)]
mod tests {
    use super::super::batch::queue::BATCH_MAX;
    use super::*;
    use crate::peers::BYTES_MAX;
    use crate::sale::{IdempotencyKey, Order, OrderLine, Token};

    const MAX: i64 = i64::MAX;

    #[test]
    fn the_largest_batch_and_its_answers_are_small_enough_for_one_message() {
        // JSON escapes each character of the key and of the name.
        let key = Some("\\".repeat(IdempotencyKey::BYTES_MAX));
        let wanted = || Wanted { sale: MAX, has_decided: false, quantity: MAX, key: key.clone(), within_ms: u64::MAX };
        let batch = Batch { goods_no: MAX, nonce: u64::MAX, purchases: (0..BATCH_MAX).map(|_| wanted()).collect() };
        assert!(serde_json::to_vec(&batch).unwrap().len() <= BYTES_MAX);

        let token = Some(Token { number: MAX, handover: MAX });
        let lines = vec![OrderLine { goods_no: MAX, sale: MAX, quantity: MAX, remaining: Some(MAX), token }];
        let order = Order { order_id: MAX, strategy: "zk-owner".to_owned(), instance: "\"".repeat(100), lines };
        for decision in [Ok(order), Err(Failure::outcome_unknown(Some(MAX))), Err(Failure::outcome_unknown_elsewhere())]
        {
            let line = serde_json::to_vec(&Line { place: BATCH_MAX, told: Told::of(decision) }).unwrap();
            assert!(BATCH_MAX * (line.len() + 1) <= BYTES_MAX, "{}", String::from_utf8(line).unwrap());
        }
    }
}
