//! An instance: its queues, its workers, and how a purchase waits in it.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, PoisonError, Weak};

use shuttle::future::yield_now;
use tokio::sync::Semaphore;

use crate::batch_queue::{DecisionOf, HandedOver, Pending, Queues, Slots, WaitEnd, Worker, sell};
use crate::clock::now;
use crate::link::hand_over;
use crate::notes::{ALONE, EMPTY, LATE, OVER, SLOTS, Sight, TAKEN};
use crate::plan::Plan;
use crate::purchase::{OnTheWay, Purchase, Reason};
use crate::transaction::HeldRow;
use crate::world::World;

/// An instance.
pub(crate) struct Instance {
    pub(crate) number: usize,
    pub(crate) world: Arc<World>,
    pub(crate) slots: Slots,
    pub(crate) handed: Slots,
    /// The purchases that it works on, and those of others.
    pub(crate) in_progress: AtomicU32,
    pub(crate) handed_in_progress: AtomicU32,
    queues: Arc<Queues<Purchase>>,
    /// The workers that serve, and the workers that there were, by SKU.
    workers: Mutex<BTreeMap<u64, Workers>>,
    pub(crate) others: Mutex<Vec<Weak<Instance>>>,
    /// Limits the batches on their way.
    permits: Semaphore,
}

#[derive(Default)]
struct Workers {
    serving: u32,
    ever: u32,
}

/// A worker that serves. Dropped, it does not.
struct Serving<'a>(&'a Instance, u64);

impl Instance {
    pub(crate) fn new(number: usize, world: Arc<World>) -> Self {
        let permits = world.plan.permits;
        Self {
            number,
            slots: Slots::new(world.plan.slots),
            handed: Slots::new(world.plan.handed_slots),
            world,
            in_progress: AtomicU32::new(0),
            handed_in_progress: AtomicU32::new(0),
            queues: Arc::default(),
            workers: Mutex::default(),
            others: Mutex::default(),
            permits: Semaphore::new(permits),
        }
    }

    /// Puts purchases of another instance in the queue of their SKU. Returns `None` while its worker waits for another instance.
    pub(crate) fn take_over(self: &Arc<Self>, sku: u64, requests: Vec<Purchase>) -> Option<Vec<Pending<Purchase>>> {
        let (pending, worker) = self.queues.take_over(sku, requests)?;
        self.start(worker);
        Some(pending)
    }

    /// Lets a worker serve, if there is a new one.
    fn start(self: &Arc<Self>, worker: Option<Worker<Purchase>>) {
        let Some(worker) = worker else { return };
        let sku = worker.sku();
        let ever = self.with_workers(sku, |workers| {
            workers.ever += 1;
            workers.ever
        });
        self.world.notes.see(ever > 1, Sight::Again);
        self.world.notes.tell(|| format!("instance {} starts a worker of SKU {sku}", self.number));
        let instance = Arc::clone(self);
        self.world.spawn(async move { instance.work_until_crash(worker).await });
    }

    async fn work_until_crash(&self, worker: Worker<Purchase>) {
        if !self.world.goes_wrong(self.world.plan.odds.crash) {
            return self.work(worker).await;
        }
        let steps = self.world.draw(40);
        let sku = worker.sku();
        let crash = async {
            for _ in 0..steps {
                yield_now().await;
            }
            // Before the worker is dropped.
            self.world.note_crash(self.number, sku);
        };
        tokio::select! {
            biased;
            () = crash => {
                self.world.notes.tell(|| format!("a worker of instance {} dies", self.number));
            }
            () = self.work(worker) => {}
        }
    }

    /// Serves the buyers of a SKU, batch by batch, until nobody waits.
    async fn work(&self, mut worker: Worker<Purchase>) {
        while worker.next() {
            if let Err(refused) = self.serve(&mut worker).await {
                self.world.notes.tell(|| format!("a worker of instance {}: {refused:?}", self.number));
                worker.refuse(&refused);
                yield_now().await;
            }
        }
    }

    /// Waits for the right to write, takes the next batch and serves it.
    async fn serve(&self, worker: &mut Worker<Purchase>) -> Result<(), Reason> {
        let world = &self.world;
        let sku = worker.sku();
        let _serving = Serving::begin(self, sku);
        if world.goes_wrong(world.plan.odds.right_lost) {
            return Err([Reason::RightLost, Reason::LocksUnavailable][world.draw(2) as usize]);
        }
        let owner = world.owner_seen_by(self.number);
        if owner != self.number {
            let away = worker.go_away();
            let permit = tokio::select! {
                biased;
                permit = self.permits.acquire() => permit.map_err(|_| Reason::RightLost)?,
                () = world.clock.until(worker.until()) => return Err(Reason::LockTimeout),
            };
            if world.owner_seen_by(self.number) != owner {
                return Ok(());
            }
            let known = worker.sale();
            let Some(mut batch) = HandedOver::take(worker, away, &OnTheWay::Elsewhere) else { return Ok(()) };
            world.check_order(batch.requests(), known);
            let unknown = hand_over(self, sku, owner, &mut batch).await;
            drop(permit);
            if batch.end(worker, unknown, &Reason::LockTimeout) {
                world.clock.pause().await;
            }
            return Ok(());
        }
        let row = Arc::clone(&world.rows[&sku]);
        let row = tokio::select! {
            biased;
            row = row.acquire_owned() => row.map_err(|_| Reason::RightLost)?,
            () = world.clock.until(worker.until()) => return Err(Reason::LockTimeout),
        };
        yield_now().await;
        let mut transaction = HeldRow::begin(self, worker, row);
        sell(worker, &mut transaction, &Reason::LockTimeout).await;
        Ok(())
    }

    /// Waits for the decision of a purchase that has come to this instance.
    pub(crate) async fn decide(
        self: &Arc<Self>,
        purchase: Purchase,
        hung_up: impl Future<Output = ()>,
        database_until: u64,
    ) -> DecisionOf<Purchase> {
        let world = &*self.world;
        let Purchase { buyer, sku, until, .. } = purchase;
        let commit = purchase.commit.clone();
        let (mut pending, worker) = self.queues.join(sku, vec![purchase]);
        self.start(worker);
        let mut wants_to_leave = false;
        let leaving = async {
            let reason = tokio::select! {
                biased;
                () = hung_up => Reason::ClientGone,
                () = world.clock.until(until) => Reason::LockTimeout,
            };
            wants_to_leave = true;
            world.note_leaving(buyer);
            reason
        };
        let deadline = async {
            world.clock.until(database_until).await;
            world.note_giving_up(buyer);
        };
        let end = pending.remove(0).wait(leaving, deadline).await;
        world.notes.see(wants_to_leave && matches!(end, WaitEnd::Decided(_)), Sight::TakenFirst);
        match end {
            WaitEnd::Decided(decision) => {
                if decision == Err(Reason::LockTimeout) {
                    world.notes.see(true, Sight::RefusedLate);
                    world.notes.check(now() >= until, LATE);
                }
                if decision != Err(Reason::Unknown) {
                    commit.forget();
                }
                decision
            }
            WaitEnd::Left(reason) => {
                world.notes.see(true, Sight::Left);
                world.notes.check(commit.sent().is_none(), OVER);
                Err(reason)
            }
            WaitEnd::GaveUp(sent) => {
                world.notes.check(world.was_taken(buyer), TAKEN);
                world.notes.see(sent.is_none(), Sight::GaveUpBefore);
                world.notes.see(sent.is_some(), Sight::GaveUpAfter);
                Err(if sent.is_some() { Reason::Unknown } else { Reason::DatabaseUnavailable })
            }
            WaitEnd::Undecided(sent) => Err(if sent.is_some() { Reason::Unknown } else { Reason::Panicked }),
        }
    }

    /// Checks that nothing is left.
    pub(crate) fn close(&self) {
        let is_empty = self.queues.count() == 0 && self.slots.taken() == 0 && self.handed.taken() == 0;
        self.world.notes.check(is_empty, EMPTY);
    }

    fn with_workers<T>(&self, sku: u64, look: impl FnOnce(&mut Workers) -> T) -> T {
        look(self.workers.lock().unwrap_or_else(PoisonError::into_inner).entry(sku).or_default())
    }
}

impl<'a> Serving<'a> {
    fn begin(instance: &'a Instance, sku: u64) -> Self {
        let serving = instance.with_workers(sku, |workers| {
            workers.serving += 1;
            workers.serving
        });
        instance.world.notes.check(serving == 1, ALONE);
        Self(instance, sku)
    }
}

impl Drop for Serving<'_> {
    fn drop(&mut self) {
        self.0.with_workers(self.1, |workers| workers.serving -= 1);
    }
}

/// Counts a purchase in progress until it is dropped.
pub(crate) struct InProgress(Arc<Instance>, bool);

impl InProgress {
    /// Begins to work on a purchase, which another instance has handed over or not.
    pub(crate) fn begin(instance: &Arc<Instance>, is_handed: bool) -> Self {
        let Plan { slots, handed_slots, .. } = instance.world.plan;
        let count = Self::count(instance, is_handed).fetch_add(1, Ordering::Relaxed) + 1;
        instance.world.notes.check(count <= if is_handed { handed_slots } else { slots }, SLOTS);
        Self(Arc::clone(instance), is_handed)
    }

    fn count(instance: &Instance, is_handed: bool) -> &AtomicU32 {
        if is_handed { &instance.handed_in_progress } else { &instance.in_progress }
    }
}

impl Drop for InProgress {
    fn drop(&mut self) {
        Self::count(&self.0, self.1).fetch_sub(1, Ordering::Relaxed);
    }
}
