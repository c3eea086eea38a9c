//! What all instances of a scene share: the database, the draws, the clock.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use rand::RngExt;
use rand::rngs::ChaCha8Rng;
use shuttle::future::JoinHandle;
use tokio::sync::Semaphore;

use crate::batch_queue::DecisionOf;
use crate::clock::{Clock, now};
use crate::notes::{DIED, Notes, ORDER, OVERSOLD, OWN, Sight, TOLD_NOTHING, TOLD_SOLD, TWICE, UNKNOWN};
use crate::plan::{Plan, PlannedBuyer, SKUS};
use crate::purchase::{Purchase, Reason};

/// What is shared.
pub(crate) struct World {
    pub(crate) plan: Plan,
    pub(crate) clock: Clock,
    pub(crate) notes: Arc<Notes>,
    /// The right to write each SKU.
    pub(crate) rows: BTreeMap<u64, Arc<Semaphore>>,
    draws: Mutex<ChaCha8Rng>,
    books: Mutex<Books>,
    tasks: Mutex<Vec<JoinHandle<()>>>,
    places: AtomicU64,
}

/// What the database has, and what buyers were told.
#[derive(Default)]
struct Books {
    /// The sale and the units of each SKU.
    stock: BTreeMap<u64, (i64, i64)>,
    /// The buyers that have orders, by SKU and sale.
    orders: BTreeSet<(u64, i64, usize)>,
    told: BTreeMap<usize, DecisionOf<Purchase>>,
    /// The buyers for which something is under way.
    sent: BTreeSet<usize>,
    /// The buyers that a worker has taken.
    taken: BTreeSet<usize>,
    /// The buyers that have wanted to leave.
    leaving: BTreeSet<usize>,
    /// The instances and SKUs whose worker has died.
    crashed: BTreeSet<(usize, u64)>,
    /// The purchases that wait or are taken, by instance, SKU and place: whether each waits, and its sale.
    places: BTreeMap<(usize, u64, u64), (bool, i64)>,
    /// The buyers whose deadlines for the database have passed.
    giving_up: BTreeSet<usize>,
    /// The buyers that heard of no outcome before anything was sent. It is about to be.
    about_to_be: BTreeSet<usize>,
}

impl World {
    pub(crate) fn new(plan: Plan, draws: ChaCha8Rng, notes: Arc<Notes>) -> Self {
        let stock = (1..=SKUS).map(|sku| (sku, (1, plan.stock))).collect();
        Self {
            clock: Clock::new(),
            notes,
            rows: (1..=SKUS).map(|sku| (sku, Arc::new(Semaphore::new(1)))).collect(),
            draws: Mutex::new(draws),
            books: Mutex::new(Books { stock, ..Books::default() }),
            tasks: Mutex::default(),
            places: AtomicU64::new(1),
            plan,
        }
    }

    /// Draws whether something goes wrong here.
    pub(crate) fn goes_wrong(&self, odds: u32) -> bool {
        odds > 0 && now() < self.plan.calm && self.draws().random_ratio(odds, 32)
    }

    /// Draws a number below `end`.
    pub(crate) fn draw(&self, end: u32) -> u32 {
        self.draws().random_range(0..end)
    }

    /// Returns the instance that owns all SKUs.
    pub(crate) fn owner(&self) -> usize {
        self.plan.owner_at(now(), 0)
    }

    /// Returns the instance that this one takes for the owner.
    pub(crate) fn owner_seen_by(&self, instance: usize) -> usize {
        self.plan.owner_at(now(), self.plan.lags[instance])
    }

    /// Returns the sale of a SKU and its units.
    pub(crate) fn stock(&self, sku: u64) -> (i64, i64) {
        self.books().stock[&sku]
    }

    /// Starts the next sale of a SKU.
    pub(crate) fn restart(&self, sku: u64) {
        let stock = self.plan.stock;
        self.notes.tell(|| format!("the next sale of SKU {sku} starts"));
        self.books().stock.entry(sku).and_modify(|row| *row = (row.0 + 1, stock));
    }

    /// Notes that something is sent for a purchase.
    pub(crate) fn note_sent(&self, buyer: usize) {
        let mut books = self.books();
        books.about_to_be.remove(&buyer);
        books.sent.insert(buyer);
    }

    /// Notes that nothing is under way for a purchase. If its buyer is giving up, it may have looked a moment ago.
    pub(crate) fn note_back(&self, buyer: usize) {
        let mut books = self.books();
        if !books.giving_up.contains(&buyer) {
            books.sent.remove(&buyer);
        }
    }

    /// Notes that a worker has taken a buyer.
    pub(crate) fn note_taken(&self, buyer: usize) {
        self.books().taken.insert(buyer);
    }

    /// Returns whether a worker has taken a buyer.
    pub(crate) fn was_taken(&self, buyer: usize) -> bool {
        self.books().taken.contains(&buyer)
    }

    /// Notes that a buyer waits in the queue again. If it has wanted to leave before, it may have found that it was taken.
    pub(crate) fn note_waiting_again(&self, buyer: usize) {
        let mut books = self.books();
        if !books.leaving.contains(&buyer) {
            books.taken.remove(&buyer);
        }
    }

    /// Notes that a buyer wants to leave.
    pub(crate) fn note_leaving(&self, buyer: usize) {
        self.books().leaving.insert(buyer);
    }

    /// Notes that the worker of a SKU dies.
    pub(crate) fn note_crash(&self, instance: usize, sku: u64) {
        let mut books = self.books();
        let mut places = books.places.range((instance, sku, 0)..=(instance, sku, u64::MAX));
        self.notes.see(places.any(|(_, (is_waiting, _))| *is_waiting), Sight::CrashedWaiting);
        books.crashed.insert((instance, sku));
    }

    /// Notes that a purchase waits, or that it is taken.
    pub(crate) fn note_place(&self, purchase: &Purchase, is_waiting: bool) {
        let Purchase { instance, sku, place, sale, .. } = *purchase;
        self.books().places.insert((instance, sku, place), (is_waiting, sale));
    }

    /// Notes that a purchase neither waits nor is taken.
    pub(crate) fn forget_place(&self, purchase: &Purchase) {
        let Purchase { instance, sku, place, .. } = *purchase;
        self.books().places.remove(&(instance, sku, place));
    }

    /// Checks that no purchase was left behind that has come before the last one of a batch, if the batch may serve its sale.
    pub(crate) fn check_order<'a>(&self, batch: impl Iterator<Item = &'a Purchase>, known: i64) {
        let batch: Vec<_> = batch.collect();
        let Some(last) = batch.last() else { return };
        let books = self.books();
        let before = books.places.range((last.instance, last.sku, 0)..(last.instance, last.sku, last.place));
        let mut left_behind = before.filter(|((_, _, place), (_, sale))| {
            *sale <= known && !batch.iter().any(|purchase| purchase.place == *place)
        });
        let is_in_order = batch.is_sorted_by_key(|purchase| purchase.place);
        self.notes.check(is_in_order && left_behind.next().is_none(), ORDER);
    }

    /// Notes that the deadline of a buyer for the database has passed.
    pub(crate) fn note_giving_up(&self, buyer: usize) {
        self.books().giving_up.insert(buyer);
    }

    /// Commits the orders of a batch, unless another sale has started.
    pub(crate) fn commit(&self, sku: u64, sale: i64, buyers: &[usize]) {
        let mut books = self.books();
        let Books { stock, orders, told, .. } = &mut *books;
        let Some((current, units)) = stock.get_mut(&sku).filter(|(current, _)| *current == sale) else { return };
        for buyer in buyers {
            *units -= 1;
            let has_one = orders.iter().any(|(_, _, owner)| owner == buyer);
            self.notes.check(!has_one, TWICE);
            orders.insert((sku, *current, *buyer));
            let is_refused = matches!(told.get(buyer), Some(Err(refused)) if *refused != Reason::Unknown);
            self.notes.check(!is_refused, TOLD_NOTHING);
        }
        self.notes.check(*units >= 0, OVERSOLD);
        self.notes.tell(|| format!("committed: buyers {buyers:?}"));
    }

    /// Notes what a buyer is told, or would be told had it not hung up.
    pub(crate) fn tell(&self, buyer: usize, decision: DecisionOf<Purchase>) {
        let mut books = self.books();
        let has_order = books.orders.iter().any(|(_, _, owner)| *owner == buyer);
        self.notes.tell(|| format!("buyer {buyer} is told {decision:?}"));
        match decision {
            Ok(()) => self.notes.check(has_order, TOLD_SOLD),
            Err(Reason::Unknown) if books.sent.contains(&buyer) => {}
            Err(Reason::Unknown) => {
                books.about_to_be.insert(buyer);
            }
            Err(refused) => {
                self.notes.check(refused != Reason::Stopper || self.plan.buyers[buyer].is_stopper, OWN);
                let PlannedBuyer { instance, sku, hangs_up, .. } = self.plan.buyers[buyer];
                let has_died = books.crashed.contains(&(instance, sku));
                self.notes.check(refused != Reason::Panicked || has_died, DIED);
                self.notes.check(refused != Reason::ClientGone || now() >= hangs_up, OWN);
                self.notes.check(!has_order, TOLD_NOTHING);
                self.notes.see(refused == Reason::SoldOut && self.plan.stock > 0, Sight::SoldOut);
                self.notes.see(refused == Reason::Restarted, Sight::Restarted);
                self.notes.see(refused == Reason::Shed, Sight::Shed);
            }
        }
        books.told.insert(buyer, decision);
    }

    /// Looks once more at what buyers were told, when all is over.
    pub(crate) fn close(&self) {
        let books = self.books();
        self.notes.check(books.about_to_be.is_empty(), UNKNOWN);
        for (buyer, decision) in &books.told {
            let has_order = books.orders.iter().any(|(_, _, owner)| owner == buyer);
            let is_unknown = *decision == Err(Reason::Unknown);
            self.notes.see(is_unknown && has_order, Sight::UnknownSold);
            self.notes.see(is_unknown && !has_order, Sight::UnknownNothing);
        }
    }

    /// Returns the next place in the order of arrival.
    pub(crate) fn next_place(&self) -> u64 {
        self.places.fetch_add(1, Ordering::Relaxed)
    }

    /// Starts a task that the scene waits for.
    pub(crate) fn spawn(&self, task: impl Future<Output = ()> + Send + 'static) {
        let task = shuttle::future::spawn(task);
        self.tasks.lock().unwrap_or_else(PoisonError::into_inner).push(task);
    }

    /// Waits until no task is left.
    pub(crate) async fn rest(&self) {
        loop {
            let Some(task) = self.tasks.lock().unwrap_or_else(PoisonError::into_inner).pop() else { return };
            task.await.ok();
        }
    }

    fn draws(&self) -> MutexGuard<'_, ChaCha8Rng> {
        self.draws.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn books(&self) -> MutexGuard<'_, Books> {
        self.books.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
