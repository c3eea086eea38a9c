//! The transaction of a batch, as the database of the scene has it.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use shuttle::future::yield_now;
use tokio::sync::OwnedSemaphorePermit;

use crate::batch_queue::{BATCH_MAX, BatchTransaction, Buyer, DecisionOf, Worker, earliest};
use crate::clock::NEVER;
use crate::instance::Instance;
use crate::notes::{COUNTED, SALE, Sight};
use crate::purchase::{OnTheWay, Purchase, Reason};
use crate::world::World;

/// A transaction with the right to write a SKU.
pub(crate) struct HeldRow<'a> {
    instance: &'a Instance,
    world: &'a Arc<World>,
    sku: u64,
    /// The latest sale that the worker knows.
    known: i64,
    /// Whether it has a batch to sell.
    has_batch: bool,
    /// The sale that the row has.
    sale: i64,
    /// The right, until the transaction is over.
    row: Option<OwnedSemaphorePermit>,
    shares: Vec<DecisionOf<Purchase>>,
    sold: Vec<usize>,
    /// The buyers among them that no other instance has handed over.
    own: Vec<usize>,
    /// Whether the database has refused to commit.
    is_refused: bool,
}

impl<'a> HeldRow<'a> {
    pub(crate) fn begin(instance: &'a Instance, worker: &Worker<Purchase>, row: OwnedSemaphorePermit) -> Self {
        Self {
            instance,
            world: &instance.world,
            sku: worker.sku(),
            known: worker.sale(),
            has_batch: false,
            sale: 0,
            row: Some(row),
            shares: Vec::new(),
            sold: Vec::new(),
            own: Vec::new(),
            is_refused: false,
        }
    }

    /// Notes that nothing is under way for the buyers of this instance.
    fn note_back(&self) {
        self.own.iter().for_each(|buyer| self.world.note_back(*buyer));
    }

    fn check(&self, batch: &[Buyer<Purchase>]) {
        let notes = &self.world.notes;
        let requests = || batch.iter().map(|buyer| &buyer.request);
        notes.tell(|| format!("a batch: buyers {:?}", requests().map(|purchase| purchase.buyer).collect::<Vec<_>>()));
        notes.see(batch.len() > 1, Sight::Together);
        notes.see(batch.len() == BATCH_MAX, Sight::Full);
        self.world.check_order(requests(), self.known);
        notes.check(requests().all(|purchase| purchase.sale <= self.known), SALE);
        notes.check(requests().all(|purchase| !purchase.is_counted.load(Ordering::Relaxed)), COUNTED);
    }
}

impl BatchTransaction<Purchase> for HeldRow<'_> {
    async fn write(&mut self, batch: &[Buyer<Purchase>]) -> Result<Vec<Option<OnTheWay>>, Reason> {
        let world = self.world;
        self.check(batch);
        self.has_batch = true;
        yield_now().await;
        if world.owner() != self.instance.number {
            // The row has the fence of a later owner. An owner that has heard of it says so instead.
            return Err([Reason::RightLost, Reason::Fenced][world.draw(2) as usize]);
        }
        if earliest(batch) != NEVER && world.goes_wrong(world.plan.odds.row_locked) {
            world.clock.until(earliest(batch)).await;
            return Err(Reason::LockTimeout);
        }
        if world.goes_wrong(world.plan.odds.write_refused) {
            return Err([Reason::DatabaseUnavailable, Reason::RightLost][world.draw(2) as usize]);
        }
        if batch.iter().any(|buyer| world.plan.buyers[buyer.request.buyer].is_stopper) {
            world.notes.see(batch.len() > 1, Sight::Divided);
            return Err(Reason::Stopper);
        }
        let (sale, mut units) = world.stock(self.sku);
        self.sale = sale;
        let mut share = |purchase: &Purchase| {
            if purchase.sale != sale {
                return Err(Reason::Restarted);
            }
            if units == 0 {
                return Err(Reason::SoldOut);
            }
            units -= 1;
            Ok(())
        };
        self.shares = batch.iter().map(|buyer| share(&buyer.request)).collect();
        let sold =
            || batch.iter().zip(&self.shares).filter(|(_, share)| share.is_ok()).map(|(buyer, _)| &buyer.request);
        self.sold = sold().map(|purchase| purchase.buyer).collect();
        self.own = sold().filter(|purchase| !purchase.is_handed).map(|purchase| purchase.buyer).collect();
        // The queue may note a commit that it does not send after all: another buyer of the batch may have given up.
        self.sold.iter().for_each(|buyer| world.note_sent(*buyer));
        yield_now().await;
        Ok(self.shares.iter().map(|share| share.is_ok().then_some(OnTheWay::Commit)).collect())
    }

    async fn commit(&mut self) -> Result<(), Reason> {
        let world = self.world;
        world.notes.tell(|| format!("the commit of buyers {:?} is sent", self.sold));
        let Self { sku, sale, ref sold, .. } = *self;
        let mut sent = SentCommit { world, sku, sale, sold: sold.clone(), row: self.row.take() };
        yield_now().await;
        if world.goes_wrong(world.plan.odds.commit_refused) {
            self.is_refused = true;
            sent.row = None;
            let refusals = [Reason::DatabaseUnavailable, Reason::RightLost, Reason::CommitFailed];
            return Err(refusals[world.draw(3) as usize]);
        }
        let is_unknown = world.goes_wrong(world.plan.odds.commit_unknown);
        if is_unknown && world.draw(2) == 0 {
            // Dropped, it may be committed later.
            return Err(Reason::Unknown);
        }
        sent.row = None;
        world.commit(sku, sale, &sent.sold);
        yield_now().await;
        if is_unknown { Err(Reason::Unknown) } else { Ok(()) }
    }

    async fn roll_back(&mut self) {
        self.world.notes.see(!self.sold.is_empty(), Sight::Stopped);
        self.note_back();
        yield_now().await;
        self.row = None;
    }

    fn decisions(&mut self, _: &[Buyer<Purchase>], committed: Result<(), Reason>) -> Vec<DecisionOf<Purchase>> {
        self.row = None;
        let decide = |share: &DecisionOf<Purchase>| match (share, committed) {
            (Ok(()), committed) => committed,
            (Err(Reason::Restarted), _) | (Err(_), Ok(())) => *share,
            (Err(_), Err(_)) => Err(Reason::Undecidable),
        };
        self.shares.iter().map(decide).collect()
    }
}

/// A commit on its way. Dropped before its end, as when a worker dies, the database may commit it all the same. It keeps the row until
/// then.
struct SentCommit<'a> {
    world: &'a Arc<World>,
    sku: u64,
    sale: i64,
    sold: Vec<usize>,
    row: Option<OwnedSemaphorePermit>,
}

impl Drop for SentCommit<'_> {
    fn drop(&mut self) {
        let Some(row) = self.row.take() else { return };
        if self.world.draw(2) == 0 {
            return;
        }
        let database = Arc::clone(self.world);
        let pause = database.draw(20);
        let Self { sku, sale, ref mut sold, .. } = *self;
        let sold = std::mem::take(sold);
        self.world.spawn(async move {
            for _ in 0..pause {
                yield_now().await;
            }
            database.notes.see(true, Sight::CommittedLater);
            database.commit(sku, sale, &sold);
            drop(row);
        });
    }
}

impl Drop for HeldRow<'_> {
    fn drop(&mut self) {
        self.world.notes.see(self.has_batch && self.row.is_some(), Sight::CrashedSelling);
        // The queue has noted by now that nothing was committed.
        if self.is_refused {
            self.note_back();
        }
    }
}
