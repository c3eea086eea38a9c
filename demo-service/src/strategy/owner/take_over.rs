//! Purchases that another instance has handed over to this one.

use std::future;
use std::sync::Arc;
use std::time::Duration;

use batch_queue::{Commit, Pending, WaitEnd};
use futures_util::StreamExt;
use futures_util::stream::{self, BoxStream, FuturesUnordered};
use tokio::time::{Instant, sleep_until};

use super::election::Elections;
use crate::failure::{self, Failure};
use crate::instances::{Batch, BatchReply, Told, Wanted};
use crate::sale::{Cart, GoodsNo, Purchase, Quantity};
use crate::strategy::Decision;
use crate::strategy::batch::{BatchRequest, Batches};
use crate::strategy::context::Context;
use crate::telemetry::clock::Moment;

/// Takes in a batch, as [`Strategy::take_over`](crate::strategy::Strategy::take_over) says.
pub(super) fn take_over(
    batches: &Arc<Batches<Arc<Elections>>>,
    batch: Batch,
) -> Option<BoxStream<'static, BatchReply>> {
    let context = batches.context();
    let goods_no = GoodsNo::try_from(batch.goods_no).ok()?;
    let mut indexes = Vec::new();
    let mut requests = Vec::new();
    let mut refused = Vec::new();
    for (index, wanted) in batch.purchases.into_iter().enumerate() {
        match request(context, goods_no, wanted) {
            Some(request) => {
                indexes.push(index);
                requests.push(request);
            }
            None => refused.push(BatchReply { index, told: Told::of(Err(unreadable())) }),
        }
    }
    let pending = batches.take_over(goods_no, requests)?;
    let late = Arc::new(context.lock_timeout());
    let replies = indexes.into_iter().zip(pending).map(|(index, pending)| {
        let late = Arc::clone(&late);
        async move { BatchReply { index, told: decided(pending, &late).await.map_or(Told::Elsewhere, Told::of) } }
    });
    Some(stream::iter(refused).chain(replies.collect::<FuturesUnordered<_>>()).boxed())
}

/// Waits for the decision. Returns `None` if nothing was decided, and nothing was written. If the batch was not taken by the
/// buyer's deadline, the buyer gives up, and the decision is `late`.
async fn decided(pending: Pending<BatchRequest>, late: &Failure) -> Option<Decision> {
    // Once the worker has taken the buyer, its purchase may be written. Only the decision tells.
    let until = pending.until;
    match pending.wait(sleep_until(until), future::pending()).await {
        WaitEnd::Decided(decision) => Some(decision),
        WaitEnd::Left(()) => Some(Err(late.clone())),
        // The worker has panicked or sent the buyer away. A commit that was sent then has an unknown outcome.
        WaitEnd::Undecided(sent) | WaitEnd::GaveUp(sent) => Some(Err(sent?.unknown())),
    }
}

/// Reads a purchase that was handed over. Returns `None` if another version of the service has sent it.
fn request(context: &Context, goods_no: GoodsNo, wanted: Wanted) -> Option<BatchRequest> {
    let Wanted { sale, has_decided, quantity, key, buyer, within_ms } = wanted;
    let key = key.map(|key| key.parse()).transpose().ok()?;
    let buyer = buyer.map(|buyer| buyer.parse()).transpose().ok()?;
    let purchase = Purchase { cart: Cart::of_one(goods_no, Quantity::new(quantity)?), key, buyer };
    // The sender tells the time that is left, and no instant: the clocks of two processes have no common zero.
    let until = Instant::now() + Duration::from_millis(within_ms).min(context.shared.settings.db_timeout);
    let waiting = context.metrics.wait_on();
    let asked = Moment::now();
    let commit = Commit::default();
    Some(BatchRequest { purchase, sale, has_decided, is_handed: true, until, commit, waiting, asked })
}

/// Returns the failure of a purchase that another version of the service has sent.
fn unreadable() -> Failure {
    let detail =
        "the instance that owns this SKU is of another version and cannot read the purchase; nothing was written";
    Failure::new(&failure::INTERNAL, detail)
}

#[cfg(test)]
mod tests {
    use batch_queue::BATCH_MAX;

    use super::*;
    use crate::instances::BYTES_MAX;
    use crate::sale::{BuyerId, IdempotencyKey, Order, OrderLine, Token};

    const MAX: i64 = i64::MAX;

    #[test]
    fn the_largest_batch_and_its_replies_fit_into_one_message() {
        // JSON escapes each character of the key and of the name.
        let key = Some("\\".repeat(IdempotencyKey::BYTES_MAX));
        let buyer = Some("\\".repeat(BuyerId::BYTES_MAX));
        let wanted = || {
            let key = key.clone();
            Wanted { sale: MAX, has_decided: false, quantity: MAX, key, buyer: buyer.clone(), within_ms: u64::MAX }
        };
        let batch = Batch { goods_no: MAX, nonce: u64::MAX, purchases: (0..BATCH_MAX).map(|_| wanted()).collect() };
        assert!(serde_json::to_vec(&batch).unwrap().len() <= BYTES_MAX);

        let token = Some(Token { number: MAX, handover: MAX });
        let lines = vec![OrderLine { goods_no: MAX, sale: MAX, quantity: MAX, remaining: Some(MAX), token }];
        let order = Order { order_id: MAX, strategy: "zk-owner".to_owned(), instance: "\"".repeat(100), lines };
        for decision in [Ok(order), Err(Failure::outcome_unknown(Some(MAX))), Err(Failure::outcome_unknown_elsewhere())]
        {
            let reply = serde_json::to_vec(&BatchReply { index: BATCH_MAX, told: Told::of(decision) }).unwrap();
            assert!(BATCH_MAX * (reply.len() + 1) <= BYTES_MAX, "{}", String::from_utf8(reply).unwrap());
        }
    }
}
