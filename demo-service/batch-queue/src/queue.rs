//! The buyers who wait for a batch, by SKU.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use parking_lot::Mutex;
use tokio::sync::oneshot;

use crate::{Buyer, Candidate, DecisionOf, Pending, Worker};

/// Upper bound of the purchases of a batch.
pub const BATCH_MAX: usize = 1000;

/// Of a worker that has ended.
const NO_QUEUE: &str = "BUG: a worker without a queue";

/// The waiting buyers of a strategy.
pub struct Queues<C: Candidate>(Mutex<AllQueues<C>>);

/// The wait of each purchase that has joined a queue, and the worker that the caller runs, if there is a new one.
type Joined<C> = (Vec<Pending<C>>, Option<Worker<C>>);

/// A request, and the two ends of the way of its answer.
type Prepared<C> = (C, (oneshot::Sender<DecisionOf<C>>, oneshot::Receiver<DecisionOf<C>>));

struct AllQueues<C: Candidate> {
    /// The queue of each SKU. A SKU is in the map as long as its worker runs.
    by_sku: HashMap<C::Sku, Queue<C>>,
    /// All who have ever come. A number is never used again, because its [`Pending`] may outlive its queue.
    arrived: u64,
}

struct Queue<C: Candidate> {
    /// The waiting buyers by arrival.
    buyers: BTreeMap<u64, Buyer<C>>,
    /// Whether the worker is away: it waits for another instance, to which it hands a batch over, and decides nothing meanwhile.
    is_away: bool,
}

impl<C: Candidate> Queues<C> {
    /// Puts purchases of one SKU in its queue. Returns the wait of each, and a worker if no other serves the SKU yet: then the caller
    /// runs it.
    pub fn join(self: &Arc<Self>, sku: C::Sku, requests: Vec<C>) -> Joined<C> {
        let prepared = prepared(requests);
        self.0.lock().join(self, sku, prepared)
    }

    /// Puts purchases that another instance has handed over in the queue of their SKU, as [`join`](Self::join) does. Returns `None`
    /// while the worker is [away](Worker::go_away). Otherwise two instances that take each other for the owner would wait for each
    /// other. This holds even if this instance owns the SKU by now: it may lose it again before the worker is back.
    pub fn take_over(self: &Arc<Self>, sku: C::Sku, requests: Vec<C>) -> Option<Joined<C>> {
        let prepared = prepared(requests);
        let mut waiting = self.0.lock();
        let is_away = waiting.by_sku.get(&sku).is_some_and(|queue| queue.is_away);
        (!is_away).then(|| waiting.join(self, sku, prepared))
    }

    /// Takes a buyer out of its queue. Returns `false` if it is not there.
    pub(crate) fn leave(&self, sku: C::Sku, number: u64) -> bool {
        self.0.lock().by_sku.get_mut(&sku).is_some_and(|queue| queue.buyers.remove(&number).is_some())
    }

    /// Returns the latest sale and the latest deadline of the buyers that wait for a SKU. If nobody waits, its worker has ended: the
    /// next buyer gets another one.
    pub(crate) fn latest_or_end(&self, sku: C::Sku) -> Option<(i64, C::Instant)> {
        let mut waiting = self.0.lock();
        let latest = waiting.by_sku.get(&sku).and_then(|queue| latest(queue.buyers.values()));
        if latest.is_none() {
            waiting.by_sku.remove(&sku);
        }
        latest
    }

    /// Takes the buyers of a SKU that have waited longest, and that a batch up to `sale` may serve. They may not leave any more.
    pub(crate) fn take(&self, sku: C::Sku, sale: i64) -> Vec<Buyer<C>> {
        let mut waiting = self.0.lock();
        let Some(queue) = waiting.by_sku.get_mut(&sku) else { return Vec::new() };
        taken(queue.buyers.extract_if(.., |_, buyer| buyer.request.sale() <= sale).take(BATCH_MAX))
    }

    /// Puts buyers back into the queue, each in its old position.
    pub(crate) fn put_back(&self, sku: C::Sku, batch: Vec<Buyer<C>>) {
        let mut waiting = self.0.lock();
        let queue = waiting.by_sku.get_mut(&sku).expect(NO_QUEUE);
        for mut buyer in batch {
            buyer.request.waits_again();
            queue.buyers.insert(buyer.number, buyer);
        }
    }

    /// Notes that the worker of a SKU goes away. Returns the buyers that were handed over to this instance: they go back undecided.
    pub(crate) fn go_away(&self, sku: C::Sku) -> Vec<Buyer<C>> {
        let mut waiting = self.0.lock();
        let queue = waiting.by_sku.get_mut(&sku).expect(NO_QUEUE);
        queue.is_away = true;
        taken(queue.buyers.extract_if(.., |_, buyer| buyer.request.is_handed()))
    }

    /// Notes that the worker of a SKU is back.
    pub(crate) fn come_back(&self, sku: C::Sku) {
        if let Some(queue) = self.0.lock().by_sku.get_mut(&sku) {
            queue.is_away = false;
        }
    }

    /// Takes the buyers of a SKU whose deadline has passed.
    pub(crate) fn take_late(&self, sku: C::Sku) -> Vec<Buyer<C>> {
        let now = C::now();
        let mut waiting = self.0.lock();
        let Some(queue) = waiting.by_sku.get_mut(&sku) else { return Vec::new() };
        taken(queue.buyers.extract_if(.., |_, buyer| buyer.request.until() <= now))
    }

    /// Drops the waiting buyers of a SKU. The next buyer gets another worker.
    pub(crate) fn end(&self, sku: C::Sku) {
        let left = self.0.lock().by_sku.remove(&sku);
        drop(left);
    }

    /// Returns how many buyers wait.
    pub fn count(&self) -> usize {
        self.0.lock().by_sku.values().map(|queue| queue.buyers.len()).sum()
    }
}

impl<C: Candidate> AllQueues<C> {
    fn join(&mut self, queues: &Arc<Queues<C>>, sku: C::Sku, prepared: Vec<Prepared<C>>) -> Joined<C> {
        let is_first = !self.by_sku.contains_key(&sku);
        let Queue { buyers, .. } = self.by_sku.entry(sku).or_default();
        let join = |(mut request, (answer, decided)): Prepared<C>| {
            self.arrived += 1;
            let number = self.arrived;
            let until = request.until();
            let commit = request.commit().clone();
            request.joined();
            buyers.insert(number, Buyer { number, request, answer });
            Pending { queues: Arc::clone(queues), sku, number, until, commit, decided }
        };
        let pending = prepared.into_iter().map(join).collect();
        (pending, is_first.then(|| Worker::new(Arc::clone(queues), sku)))
    }
}

impl<C: Candidate> Default for Queues<C> {
    fn default() -> Self {
        Self(Mutex::new(AllQueues { by_sku: HashMap::new(), arrived: 0 }))
    }
}

impl<C: Candidate> Default for Queue<C> {
    fn default() -> Self {
        Self { buyers: BTreeMap::new(), is_away: false }
    }
}

/// Makes the way of each answer, outside the lock.
fn prepared<C: Candidate>(requests: Vec<C>) -> Vec<Prepared<C>> {
    requests.into_iter().map(|request| (request, oneshot::channel())).collect()
}

/// Tells buyers that they are taken.
fn taken<C: Candidate>(buyers: impl Iterator<Item = (u64, Buyer<C>)>) -> Vec<Buyer<C>> {
    let tell = |(_, mut buyer): (u64, Buyer<C>)| {
        buyer.request.taken();
        buyer
    };
    buyers.map(tell).collect()
}

/// Returns the latest sale of these buyers, and when the last of them gives up.
pub(crate) fn latest<'a, C: Candidate>(buyers: impl IntoIterator<Item = &'a Buyer<C>>) -> Option<(i64, C::Instant)> {
    let each = buyers.into_iter().map(|buyer| (buyer.request.sale(), buyer.request.until()));
    each.reduce(|(sale, until), (other, later)| (sale.max(other), until.max(later)))
}
