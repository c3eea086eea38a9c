//! The buyers who wait for a batch, by SKU, and the worker that takes them.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use parking_lot::Mutex;
use tokio::sync::oneshot;
use tokio::time::Instant;

use super::buyer::{BatchRequest, Buyer, Pending, refuse_all};
use crate::failure::Failure;
use crate::sale::GoodsNo;
use crate::telemetry::clock::Moment;
use crate::telemetry::{LockMetrics, Waiting};

/// Upper bound of the purchases of a batch. A key has at most 255 bytes and a line has few, so a batch has less than a
/// megabyte.
pub(in crate::strategy) const BATCH_MAX: usize = 1000;

/// The waiting buyers of one SKU by arrival, each with its wait. The wait ends when the buyer is taken or leaves.
type Queue = BTreeMap<u64, (Waiting, Buyer)>;

/// The waiting buyers of a strategy.
#[derive(Default)]
pub(super) struct Queues {
    /// The queue of each SKU. A SKU is in the map as long as its worker runs.
    waiting: HashMap<GoodsNo, Queue>,
    /// All who have ever come. A number is never used again, because its [`Pending`] may outlive its queue.
    arrived: u64,
}

/// The worker of a SKU. Only the worker takes its buyers.
pub(in crate::strategy) struct Worker<'a> {
    queues: &'a Mutex<Queues>,
    metrics: &'a LockMetrics,
    pub(in crate::strategy) goods_no: GoodsNo,
    /// The latest sale among the buyers of the next part, or among all that wait if there is no part.
    pub(in crate::strategy) sale: i64,
    /// The latest deadline among the same buyers.
    pub(in crate::strategy) until: Instant,
    /// Parts of batches that one purchase has stopped, the earliest buyers last. They are served before the queue.
    parts: Vec<Vec<Buyer>>,
    has_ended: bool,
}

/// Puts purchases of one SKU in its queue. Returns the wait of each, and whether no worker serves the SKU yet.
pub(super) fn join(
    queues: &Arc<Mutex<Queues>>,
    goods_no: GoodsNo,
    requests: Vec<BatchRequest>,
    wait: impl Fn() -> Waiting,
) -> (Vec<Pending>, bool) {
    let prepared: Vec<_> = requests.into_iter().map(|request| (request, oneshot::channel(), wait())).collect();
    let mut locked = queues.lock();
    let Queues { waiting, arrived } = &mut *locked;
    let is_first = !waiting.contains_key(&goods_no);
    let queue = waiting.entry(goods_no).or_default();
    let join = |(request, (answer, decided), waiting): (BatchRequest, _, _)| {
        *arrived += 1;
        let number = *arrived;
        let until = request.until;
        let commit = request.commit.clone();
        // Under the lock, so that the times grow with the numbers.
        let asked = Moment::now();
        queue.insert(number, (waiting, Buyer { number, asked, request, answer }));
        Pending { queues: Arc::clone(queues), goods_no, number, until, commit, decided }
    };
    (prepared.into_iter().map(join).collect(), is_first)
}

impl Queues {
    /// Takes a buyer out of its queue. Returns `false` if it is not there.
    pub(super) fn leave(&mut self, goods_no: GoodsNo, number: u64) -> bool {
        self.waiting.get_mut(&goods_no).is_some_and(|queue| queue.remove(&number).is_some())
    }
}

impl<'a> Worker<'a> {
    pub(super) fn new(queues: &'a Mutex<Queues>, goods_no: GoodsNo, metrics: &'a LockMetrics) -> Self {
        Self { queues, metrics, goods_no, sale: 0, until: Instant::now(), parts: Vec::new(), has_ended: false }
    }

    /// Goes on to the next batch. Returns `false` if nobody waits. Then the worker has ended, and the next buyer starts
    /// another one.
    pub(super) fn next(&mut self) -> bool {
        let next = match self.parts.last() {
            Some(part) => latest(part),
            None => {
                let mut queues = self.queues.lock();
                let queue = queues.waiting.get(&self.goods_no);
                let next = queue.and_then(|queue| latest(queue.values().map(|(_, buyer)| buyer)));
                if next.is_none() {
                    queues.waiting.remove(&self.goods_no);
                    self.has_ended = true;
                }
                next
            }
        };
        if let Some((sale, until)) = next {
            self.sale = sale;
            self.until = until;
        }
        next.is_some()
    }

    /// Takes the next batch: a part, or the buyers that have waited longest, in the order of their arrival. They may not leave
    /// any more. Buyers of a later sale stay. They have come since [`next`](Self::next).
    pub(in crate::strategy) fn take(&mut self) -> Vec<Buyer> {
        if let Some(part) = self.parts.pop() {
            return part;
        }
        let mut queues = self.queues.lock();
        let Some(queue) = queues.waiting.get_mut(&self.goods_no) else { return Vec::new() };
        let first = queue.extract_if(.., |_, (_, buyer)| buyer.request.sale <= self.sale);
        first.map(|(_, (_, buyer))| buyer).take(BATCH_MAX).collect()
    }

    /// Divides a batch that one purchase has stopped. Each half is a batch of its own, and is halved again if it is stopped,
    /// too. So the purchase that is to blame ends up alone, and a few batches serve all others.
    pub(super) fn divide(&mut self, mut batch: Vec<Buyer>) {
        let later = batch.split_off(batch.len().div_ceil(2));
        self.parts.extend([later, batch].into_iter().filter(|half| !half.is_empty()));
    }

    /// Puts buyers back into the queue, each in its old position. Nothing was decided for them. Refuses the buyers whose
    /// deadline has passed as `late`: a buyer whose batch was taken waits for its decision, and no longer for that deadline.
    pub(in crate::strategy) fn put_back(&mut self, batch: Vec<Buyer>, late: &Failure) {
        let now = Instant::now();
        let (gone, back): (Vec<_>, Vec<_>) = batch.into_iter().partition(|buyer| buyer.request.until <= now);
        gone.into_iter().for_each(|buyer| buyer.answer(Err(late.clone())));
        let mut queues = self.queues.lock();
        let queue = queues.waiting.entry(self.goods_no).or_default();
        for buyer in back {
            buyer.note_rollback();
            queue.insert(buyer.number, (self.metrics.wait_on(), buyer));
        }
    }

    /// Refuses the next part whole: `until` is the deadline of its last buyer. Without a part, refuses the buyers of the queue
    /// whose deadline has passed. Most of them give up by themselves, but not those that were put back.
    pub(super) fn refuse_late(&mut self, failure: &Failure) {
        if let Some(part) = self.parts.pop() {
            return refuse_all(part, failure);
        }
        let now = Instant::now();
        let mut queues = self.queues.lock();
        let Some(queue) = queues.waiting.get_mut(&self.goods_no) else { return };
        let late = queue.extract_if(.., |_, (_, buyer)| buyer.request.until <= now);
        late.for_each(|(_, (_, buyer))| buyer.answer(Err(failure.clone())));
    }
}

impl Drop for Worker<'_> {
    /// Drops the waiting buyers if the worker panicked. Otherwise nobody would ever serve the SKU again.
    fn drop(&mut self) {
        if !self.has_ended {
            let left = self.queues.lock().waiting.remove(&self.goods_no);
            drop(left);
        }
    }
}

/// Returns the latest sale of these buyers, and when the last of them gives up.
fn latest<'a>(buyers: impl IntoIterator<Item = &'a Buyer>) -> Option<(i64, Instant)> {
    let each = buyers.into_iter().map(|buyer| (buyer.request.sale, buyer.request.until));
    each.reduce(|(sale, until), (other, later)| (sale.max(other), until.max(later)))
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::failure::LOCK_TIMEOUT;
    use crate::sale::{Purchase, Quantity};
    use crate::strategy::call::Commit;
    use crate::telemetry::{Levels, Metrics};

    const STRATEGY: &str = "zk-owner";

    /// The queues of a strategy, and its metrics.
    struct CountedQueues(Arc<Mutex<Queues>>, Metrics);

    fn goods() -> GoodsNo {
        "1".parse().unwrap()
    }

    fn queues() -> CountedQueues {
        CountedQueues(Arc::default(), Metrics::new([STRATEGY].into_iter()))
    }

    impl CountedQueues {
        /// Lets `count` buyers come. Returns their waits, and whether a worker must be started.
        fn join(&self, count: usize) -> (Vec<Pending>, bool) {
            let request = |_| BatchRequest {
                purchase: Purchase::of_one(goods(), Quantity::ONE, None),
                sale: 1,
                has_decided: false,
                is_handed: true,
                until: Instant::now() + Duration::from_secs(3600),
                commit: Commit::default(),
            };
            join(&self.0, goods(), (0..count).map(request).collect(), || self.1.locks(STRATEGY).wait_on())
        }

        fn worker(&self) -> Worker<'_> {
            Worker::new(&self.0, goods(), self.1.locks(STRATEGY))
        }
    }

    /// Takes the next batch, if there is one.
    fn take(worker: &mut Worker<'_>) -> Vec<Buyer> {
        if worker.next() { worker.take() } else { Vec::new() }
    }

    fn numbers(batch: &[Buyer]) -> Vec<u64> {
        batch.iter().map(|buyer| buyer.number).collect()
    }

    #[test]
    fn a_number_of_an_earlier_queue_is_nobody_elses_number() {
        let queues = queues();
        let (earlier, is_first) = queues.join(1);
        assert!(is_first);
        let mut worker = queues.worker();
        assert_eq!(take(&mut worker).len(), 1);
        assert!(!worker.next(), "the worker ends");
        let (_later, is_first) = queues.join(1);
        assert!(is_first, "another worker starts");
        drop((worker, earlier));
        assert_eq!(take(&mut queues.worker()).len(), 1);
    }

    #[test]
    fn a_buyer_may_give_up_until_the_batch_is_taken() {
        let queues = queues();
        let (pending, _) = queues.join(3);
        assert!(pending[1].leave());
        let _batch = take(&mut queues.worker());
        assert!(!pending[0].leave() && !pending[2].leave());
    }

    #[test]
    fn a_batch_has_a_bound_and_the_rest_wait_for_the_next_one() {
        let queues = queues();
        let _pending = queues.join(BATCH_MAX + 1);
        let mut worker = queues.worker();
        assert_eq!([(); 3].map(|()| take(&mut worker).len()), [BATCH_MAX, 1, 0]);
    }

    #[test]
    fn parts_of_a_divided_batch_come_before_the_queue() {
        let queues = queues();
        let _pending = queues.join(3);
        let mut worker = queues.worker();
        let batch = take(&mut worker);
        let _later = queues.join(1);
        worker.divide(batch);
        let first = take(&mut worker);
        assert_eq!(numbers(&first), [1, 2]);
        worker.divide(first);
        assert_eq!([(); 5].map(|()| numbers(&take(&mut worker))), [vec![1], vec![2], vec![3], vec![4], vec![]]);
    }

    #[test]
    fn the_next_buyer_after_a_panic_starts_another_worker() {
        let queues = queues();
        let _waiting = queues.join(1);
        drop(queues.worker());
        assert!(queues.join(1).1);
    }

    #[test]
    fn a_wait_that_is_dropped_leaves_the_queue() {
        let queues = queues();
        let (mut pending, _) = queues.join(3);
        drop(pending.remove(1));
        assert_eq!(numbers(&take(&mut queues.worker())), [1, 3]);
    }

    // S100
    #[test]
    fn buyers_that_change_instances_are_counted_while_they_wait() {
        let queues = queues();
        let assert_waiting = |count: usize| {
            let rendered = queues.1.render(&Levels::default());
            for line in [
                format!(r#"seckill_queue_depth{{strategy="{STRATEGY}"}} {count}"#),
                format!(r#"seckill_lock_wait_seconds_count{{strategy="{STRATEGY}"}} 0"#),
            ] {
                assert!(rendered.lines().any(|rendered| rendered == line), "{line} in {rendered}");
            }
        };
        let (mut pending, _) = queues.join(3);
        assert_waiting(3);
        drop(pending.pop());
        assert_waiting(2);
        let mut worker = queues.worker();
        let mut batch = take(&mut worker);
        assert_waiting(0);
        batch[1].request.until = Instant::now();
        worker.put_back(batch, &Failure::of(&LOCK_TIMEOUT));
        assert_waiting(1);
        drop(worker);
        assert_waiting(0);
    }
}
