//! The way of a batch to the owner of its SKU, and of the answers back.

use std::time::Duration;

use batch_queue::{Away, HandedOver, Worker};
use tokio::sync::OwnedSemaphorePermit;
use tokio::time::{Instant, sleep, timeout};
use tracing::debug;

use super::election::Elections;
use crate::failure::Failure;
use crate::instances::{Address, Batch, NoReply, Told, Wanted};
use crate::sale::GoodsNo;
use crate::strategy::batch::BatchRequest;
use crate::strategy::call::Sent;

/// The time for the last answers of an owner whose term is over. An owner that stops finishes its batch first.
const LAST_ANSWERS_WITHIN: Duration = Duration::from_secs(2);

/// The pause after a batch that its owner did not decide, or not whole. Without it, the owner would be asked in a busy loop.
const UNDECIDED_PAUSE: Duration = Duration::from_millis(50);

impl Elections {
    /// Takes the next batch and hands it over to the owner of its SKU. Answers each buyer as soon as the owner has decided.
    /// Undecided buyers wait again.
    pub(super) async fn hand_over(
        &self,
        worker: &mut Worker<BatchRequest>,
        away: Away<BatchRequest>,
        owner: &Address,
        permit: OwnedSemaphorePermit,
    ) {
        let goods_no = worker.sku();
        let Some(mut batch) = HandedOver::take(worker, away, &Sent::Elsewhere) else { return };
        let purchases = batch.requests().map(wanted).collect();
        let tell = |index, told: Told| batch.tell(index, told.decision());
        let unknown = tokio::select! {
            // The answers that have come are read first, so they count.
            biased;
            unknown = self.send(owner, goods_no, purchases, tell) => unknown,
            // A frozen owner may never answer, and sells nothing after its term.
            () = self.outlived(goods_no, owner) => Some(Failure::outcome_unknown_elsewhere()),
        };
        // A permit is for a batch on its way. The pause below must not keep it from the other batches of the range.
        drop(permit);
        if batch.end(worker, unknown, &self.context().lock_timeout()) {
            sleep(UNDECIDED_PAUSE).await;
        }
    }

    /// Sends purchases to their owner. Calls `tell` with the index of each purchase and what the owner has told of it. Returns
    /// the failure of the purchases that were not told, or `None` if nothing was decided for them.
    async fn send(
        &self,
        owner: &Address,
        goods_no: GoodsNo,
        purchases: Vec<Wanted>,
        mut tell: impl FnMut(usize, Told) + Send,
    ) -> Option<Failure> {
        let shared = &self.context().shared;
        let batch = Batch { goods_no: goods_no.get(), nonce: rand::random(), purchases };
        let mut has_decided = false;
        let tell = |index, told: Told| {
            has_decided |= told.is_decided();
            tell(index, told);
        };
        // By then, every buyer has given up.
        let told = timeout(shared.settings.db_timeout, shared.hand_over.instances.hand_over(owner, &batch, tell)).await;
        match told {
            Ok(Ok(())) if has_decided => None,
            Ok(Ok(())) => {
                self.avoid(goods_no, owner);
                None
            }
            Ok(Err(NoReply::NotReached(cause))) => {
                debug!(owner = owner.at, cause = program::chain(&*cause), "the owner of a SKU was not reached");
                self.avoid(goods_no, owner);
                None
            }
            Ok(Err(NoReply::Busy)) => None,
            Ok(Err(unknown @ NoReply::Unknown(_))) => Some(Failure::outcome_unknown_elsewhere().caused_by(unknown)),
            Err(_) => Some(Failure::outcome_unknown_elsewhere()),
        }
    }

    /// Waits until the term of `owner` is over and its last answers have had their time.
    async fn outlived(&self, goods_no: GoodsNo, owner: &Address) {
        self.moved(goods_no, owner).await;
        sleep(LAST_ANSWERS_WITHIN).await;
    }
}

/// Returns what another instance must know to decide a purchase.
fn wanted(request: &BatchRequest) -> Wanted {
    let BatchRequest { purchase, sale, has_decided, until, .. } = request;
    let within = until.saturating_duration_since(Instant::now());
    Wanted {
        sale: *sale,
        has_decided: *has_decided,
        quantity: request.line().quantity.get(),
        key: purchase.key.as_ref().map(ToString::to_string),
        buyer: purchase.buyer.as_ref().map(|buyer| buyer.as_str().to_owned()),
        within_ms: u64::try_from(within.as_millis()).unwrap_or(u64::MAX),
    }
}
