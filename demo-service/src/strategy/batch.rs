//! A shop that sells in batches. When it is this instance's turn, the shop sells to all waiting buyers.
//!
//! What a turn is differs: the lock of a row (`pg-merge`), a lock in ZooKeeper with a fence in the row (`zk-merge`), or a
//! term with that fence (`zk-owner`). Only the last kind has an owner elsewhere, to whom a batch is handed over.

pub(in crate::strategy) mod pg_merge;
pub(in crate::strategy) mod queue;
pub(in crate::strategy) mod zk_merge;

mod handed;
mod sell;

use std::future::{pending, ready};
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::OwnedSemaphorePermit;
use tokio::time::{Instant, sleep};

pub(super) use self::handed::{Handed, HandedAnswer};
use self::queue::{Batches, Buyer, earliest, latest};
use super::attempt::do_business_first;
use super::call::Call;
use super::context::Context;
use super::{Boxed, Decided, Decision};
use crate::failure::{self, Failure};
use crate::peers::{Address, Wanted};
use crate::sale::{Fence, GoodsNo, Level};
use crate::store::Transaction;

/// The pause after a batch that its owner did not decide, or not whole. Without it, the owner would be asked in a busy loop.
const UNDECIDED_PAUSE: Duration = Duration::from_millis(50);

/// What keeps the batches of a SKU apart.
pub(super) trait Turn: Send + Sync + 'static {
    /// What the strategy works with.
    fn context(&self) -> &Context;

    /// Waits for the turn of this instance, at most until `until`. `sale` is the sale of the waiting buyers.
    fn begin(
        &self,
        goods_no: GoodsNo,
        sale: i64,
        until: Instant,
    ) -> impl Future<Output = Result<Next<'_>, Failure>> + Send;

    /// Notes what a batch of the turn with that fence has left.
    fn sold(&self, _goods_no: GoodsNo, _fence: Option<Fence>, _level: Level) {}

    /// Waits until the term of `owner` is over and its last answers have had their time.
    fn outlived(&self, _goods_no: GoodsNo, _owner: &Address) -> impl Future<Output = ()> + Send {
        pending()
    }

    /// Hands purchases over to their owner. Calls `tell` with the place of each purchase and its decision as soon as the owner
    /// has answered. `None` means that nothing was decided. Returns the failure of the purchases that were not told, or `None`
    /// if nothing was decided for them.
    ///
    /// # Cancel safety
    /// Dropped, the outcome of the purchases that were not told is unknown.
    fn hand_over(
        &self,
        _owner: &Address,
        _goods_no: GoodsNo,
        _purchases: Vec<Wanted>,
        _tell: impl FnMut(usize, Option<Decision>) + Send,
    ) -> impl Future<Output = Option<Failure>> + Send {
        ready(None)
    }
}

/// What an instance does with its next batch.
pub(super) enum Next<'a> {
    /// It sells.
    Sell(Box<Begun<'a>>),
    /// It hands the batch over to this instance, while it has this place.
    HandOver(Address, OwnedSemaphorePermit),
}

/// A turn that has begun. Either nobody else can write the stock of the SKU, or the row refuses the write of an instance
/// that was overtaken.
pub(super) struct Begun<'a> {
    pub(super) transaction: Transaction,
    pub(super) level: Level,
    /// The fence of the turn, if it has one.
    pub(super) fence: Option<Fence>,
    /// Comes true when the turn is lost, with the failure of the purchases that this stops.
    pub(super) lost: Boxed<'a, Failure>,
    /// Ends the turn, when the buyers are answered.
    pub(super) end: Option<Boxed<'a, ()>>,
}

/// A strategy that sells in batches.
pub(super) struct Shop<T> {
    turn: T,
    batches: Arc<Batches>,
}

impl<T: Turn> Shop<T> {
    pub(super) fn new(turn: T) -> Arc<Self> {
        Arc::new(Self { turn, batches: Arc::default() })
    }

    pub(super) fn context(&self) -> &Context {
        self.turn.context()
    }

    /// Decides a purchase in the next batch. The business is done first.
    pub(super) fn purchase<'a>(self: &'a Arc<Self>, call: &'a Call) -> Boxed<'a, Decided<'a>> {
        let context = self.context();
        Box::pin(async move {
            let business = match call.in_time(do_business_first(context, call)).await {
                Ok(business) => business,
                Err(failure) => return Err(failure).into(),
            };
            self.batches
                .decide(context, call, context.lock_until(call) + business, |goods_no| self.start(goods_no))
                .await
                .into()
        })
    }

    /// Takes in purchases of one SKU that another instance has handed over. Returns their answers.
    pub(super) fn take_in(self: &Arc<Self>, goods_no: GoodsNo, purchases: Vec<Handed>) -> Vec<HandedAnswer> {
        self.batches.take_in(goods_no, purchases, |goods_no| self.start(goods_no))
    }

    /// Starts the worker of a SKU.
    fn start(self: &Arc<Self>, goods_no: GoodsNo) {
        self.context().shared.tasks.spawn(Arc::clone(self).serve(goods_no));
    }

    /// Serves the buyers of a SKU, batch by batch, until nobody waits.
    async fn serve(self: Arc<Self>, goods_no: GoodsNo) {
        let mut worker = self.batches.worker(goods_no);
        while let Some((sale, until)) = worker.next() {
            match self.begin(goods_no, sale, until).await {
                Ok(next) => {
                    let refused = self.serve_batch(goods_no, next, worker.claim(sale)).await;
                    self.sell_in_halves(goods_no, refused).await;
                }
                Err(failure) if failure.is(&failure::LOCK_TIMEOUT) => {
                    worker.refuse_late(&failure);
                    // Others may have come meanwhile.
                    tokio::task::yield_now().await;
                }
                Err(failure) => refuse_all(worker.claim(sale), &failure),
            }
        }
    }

    /// Waits for the turn of this instance, until the service shuts down: then all waiting buyers are refused.
    async fn begin(&self, goods_no: GoodsNo, sale: i64, until: Instant) -> Result<Next<'_>, Failure> {
        tokio::select! {
            biased;
            next = self.turn.begin(goods_no, sale, until) => next,
            () = self.context().shared.closing.cancelled() => Err(Failure::client_gone()),
        }
    }

    /// Sells to a batch or hands it over. Returns the buyers as [`sell`](Self::sell) does.
    async fn serve_batch(self: &Arc<Self>, goods_no: GoodsNo, next: Next<'_>, batch: Vec<Buyer>) -> Vec<Buyer> {
        match next {
            Next::Sell(begun) => self.sell(*begun, batch).await,
            Next::HandOver(owner, place) => {
                self.hand_over(goods_no, &owner, batch, place).await;
                Vec::new()
            }
        }
    }

    /// Hands a batch over to the owner of its SKU, and answers each buyer as soon as the owner has decided. Undecided buyers wait
    /// again.
    async fn hand_over(
        self: &Arc<Self>,
        goods_no: GoodsNo,
        owner: &Address,
        mut batch: Vec<Buyer>,
        place: OwnedSemaphorePermit,
    ) {
        // A purchase makes one hop. The sender of the others asks for their owner again.
        batch.retain(|buyer| !buyer.is_handed && buyer.note_handed());
        if batch.is_empty() {
            return;
        }
        let purchases = batch.iter().map(Buyer::wanted).collect();
        let mut unanswered: Vec<_> = batch.into_iter().map(Some).collect();
        let mut undecided = Vec::new();
        let tell = |place: usize, decision| match (unanswered[place].take(), decision) {
            (Some(buyer), Some(decision)) => buyer.answer(decision),
            (buyer, _) => undecided.extend(buyer),
        };
        let failure = tokio::select! {
            // The answers that have come are read first, so they count.
            biased;
            failure = self.turn.hand_over(owner, goods_no, purchases, tell) => failure,
            // A frozen owner may never answer, and sells nothing after its term.
            () = self.turn.outlived(goods_no, owner) => Some(Failure::outcome_unknown_elsewhere()),
        };
        drop(place);
        for buyer in unanswered.into_iter().flatten() {
            match &failure {
                Some(failure) => buyer.answer(Err(failure.clone())),
                None => undecided.push(buyer),
            }
        }
        let is_decided = undecided.is_empty();
        self.put_back(goods_no, undecided);
        if !is_decided {
            sleep(UNDECIDED_PAUSE).await;
        }
    }

    /// Puts undecided buyers of a SKU back into its queue, and refuses those whose deadline has passed.
    fn put_back(self: &Arc<Self>, goods_no: GoodsNo, undecided: Vec<Buyer>) {
        let context = self.context();
        let late = context.lock_timeout();
        self.batches.put_back(goods_no, undecided, &late, &context.metrics, |goods_no| self.start(goods_no));
    }

    /// Decides a batch, answers everyone in it, and ends the turn. Returns the buyers if one purchase stopped the batch: its
    /// key is in use elsewhere, for example, or its buyer gave up before the commit.
    async fn sell(self: &Arc<Self>, begun: Begun<'_>, mut batch: Vec<Buyer>) -> Vec<Buyer> {
        batch.retain(Buyer::is_waiting);
        let Begun { transaction, level, fence, lost, end } = begun;
        let refused = match self.attempt(transaction, &level, fence, lost, &batch).await {
            Ok(decisions) => {
                self.note_sold(level, fence, &batch, &decisions);
                batch.into_iter().zip(decisions).for_each(|(buyer, decision)| buyer.answer(decision));
                Vec::new()
            }
            // The row was locked until the first of them gave up. The others wait for it again.
            Err(failure) if failure.is(&failure::LOCK_TIMEOUT) && earliest(&batch) <= Instant::now() => {
                self.put_back(batch[0].line().goods_no, batch);
                Vec::new()
            }
            Err(failure) if batch.len() == 1 || concerns_all(&failure) => {
                refuse_all(batch, &failure);
                Vec::new()
            }
            Err(_) => batch,
        };
        if let Some(end) = end {
            end.await;
        }
        refused
    }

    /// Notes what a batch has left, unless a purchase of it has failed.
    fn note_sold(&self, level: Level, fence: Option<Fence>, batch: &[Buyer], decisions: &[Decision]) {
        let is_refusal = |failure: &Failure| failure.is(&failure::SOLD_OUT) || failure.is(&failure::REPEATED);
        let Some(first) = batch.first() else { return };
        if decisions.iter().all(|decision| decision.as_ref().err().is_none_or(is_refusal)) {
            let left = decisions.iter().flatten().last().and_then(|order| order.lines[0].remaining);
            let on_hand = left.unwrap_or(level.on_hand);
            self.turn.sold(first.line().goods_no, fence, level.after(on_hand));
        }
    }

    /// Serves buyers whose batch was refused: each half in a turn of its own. A half that is refused, too, is halved
    /// again. So the purchase that is to blame ends up alone, and a few turns serve all others.
    async fn sell_in_halves(self: &Arc<Self>, goods_no: GoodsNo, refused: Vec<Buyer>) {
        let mut parts = Vec::from(halves(refused));
        while let Some(part) = parts.pop() {
            let Some((sale, until)) = latest(&part) else { continue };
            match self.begin(goods_no, sale, until).await {
                Ok(next) => parts.extend(halves(self.serve_batch(goods_no, next, part).await)),
                Err(failure) => refuse_all(part, &failure),
            }
        }
    }
}

/// Reads the stock under the fence. Waits for the row until `until`.
pub(super) async fn level_under_fence(
    context: &Context,
    goods_no: GoodsNo,
    sale: i64,
    fence: Fence,
    until: Instant,
) -> Result<Level, Failure> {
    if let Some(level) = context.shared.store.raise_fence(goods_no, sale, context.family, fence, Some(until)).await? {
        return Ok(level);
    }
    let goods = context.shared.store.look(goods_no).await?.ok_or_else(|| Failure::unknown_goods(goods_no))?;
    let guard = goods.guard.map(|guard| guard.family);
    if goods.sale == sale && guard.as_deref() == Some(context.family) {
        return Err(Failure::fenced());
    }
    // The row has another sale, possibly an earlier one, if the database was restored. Its stock was not read under the fence. So
    // the level has no guard: nothing is decided by it, and each purchase is admitted anew.
    Ok(Level { sale: goods.sale, on_hand: 0, version: 0, guard: None })
}

/// Halves a batch. The earlier buyers come last.
fn halves(mut batch: Vec<Buyer>) -> [Vec<Buyer>; 2] {
    let later = batch.split_off(batch.len().div_ceil(2));
    [later, batch]
}

/// Refuses a batch. If the reason lies with this instance, purchases that were handed over go back undecided: another
/// instance may own their SKU next.
fn refuse_all(batch: Vec<Buyer>, failure: &Failure) {
    let here = [
        &failure::DATABASE_UNAVAILABLE,
        &failure::HOLD_LOST,
        &failure::LOCK_SERVICE_UNAVAILABLE,
        &failure::CLIENT_GONE,
    ];
    let lies_here = here.into_iter().any(|kind| failure.is(kind));
    for buyer in batch.into_iter().filter(|buyer| !(buyer.is_handed && lies_here)) {
        buyer.answer(Err(failure.clone()));
    }
}

/// Whether a refusal concerns a whole batch, and not one of its purchases.
fn concerns_all(refused: &Failure) -> bool {
    [&failure::DATABASE_UNAVAILABLE, &failure::FENCED, &failure::HOLD_LOST].into_iter().any(|kind| refused.is(kind))
}
