//! What a queue does, one step after the other. `interleaved/` lets the steps of many tasks meet.

use std::sync::Arc;

use tokio::sync::oneshot::error::TryRecvError;

use crate::{BATCH_MAX, Buyer, Candidate, Commit, DecisionOf, HandedOver, Pending, Queues, Refusal, Slots, Worker};

/// A purchase that may have any deadline. The time is always 10.
struct TestCandidate {
    until: u64,
    is_handed: bool,
    commit: Commit<()>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct Declined;

impl Refusal for Declined {
    fn client_gone() -> Self {
        Self
    }

    fn is_lock_timeout(&self) -> bool {
        true
    }

    fn leaves_unknown(&self) -> bool {
        false
    }

    fn lies_here(&self) -> bool {
        false
    }

    fn concerns_all(&self) -> bool {
        false
    }
}

impl Candidate for TestCandidate {
    type Sku = u64;
    type Order = ();
    type Refusal = Declined;
    type Sent = ();
    type Instant = u64;

    fn now() -> u64 {
        10
    }

    fn sale(&self) -> i64 {
        1
    }

    fn until(&self) -> u64 {
        self.until
    }

    fn is_handed(&self) -> bool {
        self.is_handed
    }

    fn commit(&self) -> &Commit<()> {
        &self.commit
    }

    fn joined(&mut self) {}

    fn taken(&mut self) {}

    fn waits_again(&mut self) {}
}

const SKU: u64 = 1;

fn wish(until: u64) -> TestCandidate {
    TestCandidate { until, is_handed: false, commit: Commit::default() }
}

fn join(
    queues: &Arc<Queues<TestCandidate>>,
    count: usize,
) -> (Vec<Pending<TestCandidate>>, Option<Worker<TestCandidate>>) {
    queues.join(SKU, (0..count).map(|_| wish(u64::MAX)).collect())
}

/// Takes the next batch, if there is one.
fn take(worker: &mut Worker<TestCandidate>) -> Vec<Buyer<TestCandidate>> {
    if worker.next() { worker.take() } else { Vec::new() }
}

fn numbers(batch: &[Buyer<TestCandidate>]) -> Vec<u64> {
    batch.iter().map(|buyer| buyer.number).collect()
}

fn told(pending: &mut Pending<TestCandidate>) -> Option<DecisionOf<TestCandidate>> {
    pending.decided.try_recv().ok()
}

#[test]
fn a_number_of_an_earlier_queue_is_nobody_elses_number() {
    let queues = Arc::<Queues<TestCandidate>>::default();
    let (earlier, worker) = join(&queues, 1);
    let mut worker = worker.unwrap();
    assert_eq!(take(&mut worker).len(), 1);
    assert!(!worker.next(), "the worker ends");
    let (_later, another) = join(&queues, 1);
    drop((worker, earlier));
    assert_eq!(take(&mut another.unwrap()).len(), 1);
}

#[test]
fn a_buyer_may_give_up_until_the_batch_is_taken() {
    let queues = Arc::<Queues<TestCandidate>>::default();
    let (pending, worker) = join(&queues, 3);
    assert!(pending[1].leave());
    let _batch = take(&mut worker.unwrap());
    assert!(!pending[0].leave() && !pending[2].leave());
}

#[test]
fn a_batch_has_a_bound_and_the_rest_wait_for_the_next_one() {
    let queues = Arc::<Queues<TestCandidate>>::default();
    let (_pending, worker) = join(&queues, BATCH_MAX + 1);
    let mut worker = worker.unwrap();
    assert_eq!([(); 3].map(|()| take(&mut worker).len()), [BATCH_MAX, 1, 0]);
}

#[test]
fn parts_of_a_divided_batch_come_before_the_queue() {
    let queues = Arc::<Queues<TestCandidate>>::default();
    let (_pending, worker) = join(&queues, 3);
    let mut worker = worker.unwrap();
    let batch = take(&mut worker);
    let (_later, another) = join(&queues, 1);
    assert!(another.is_none(), "one worker serves the SKU");
    worker.divide(batch);
    let first = take(&mut worker);
    assert_eq!(numbers(&first), [1, 2]);
    worker.divide(first);
    assert_eq!([(); 5].map(|()| numbers(&take(&mut worker))), [vec![1], vec![2], vec![3], vec![4], vec![]]);
}

#[test]
fn the_next_buyer_after_a_panic_gets_another_worker() {
    let queues = Arc::<Queues<TestCandidate>>::default();
    let (mut waiting, worker) = join(&queues, 1);
    drop(worker);
    assert_eq!(told(&mut waiting[0]), None);
    assert!(join(&queues, 1).1.is_some());
}

#[test]
fn a_wait_that_is_dropped_leaves_the_queue() {
    let queues = Arc::<Queues<TestCandidate>>::default();
    let (mut pending, worker) = join(&queues, 3);
    drop(pending.remove(1));
    assert_eq!(numbers(&take(&mut worker.unwrap())), [1, 3]);
}

#[test]
fn late_buyers_are_refused_and_the_others_keep_their_places() {
    let queues = Arc::<Queues<TestCandidate>>::default();
    let (mut pending, worker) = queues.join(SKU, vec![wish(11), wish(10), wish(12)]);
    let mut worker = worker.unwrap();
    let batch = take(&mut worker);
    let (_later, _) = join(&queues, 1);
    worker.put_back(batch, &Declined);
    assert_eq!(told(&mut pending[1]), Some(Err(Declined)));
    let (mut late, _) = queues.join(SKU, vec![wish(9)]);
    worker.refuse(&Declined);
    assert_eq!(told(&mut late[0]), Some(Err(Declined)));
    assert_eq!(numbers(&take(&mut worker)), [1, 3, 4]);
}

// S55
#[test]
fn a_purchase_makes_one_hop_and_may_come_back() {
    let queues = Arc::<Queues<TestCandidate>>::default();
    let handed = TestCandidate { is_handed: true, ..wish(u64::MAX) };
    let (mut pending, worker) = queues.join(SKU, vec![handed, wish(u64::MAX), wish(u64::MAX)]);
    let mut worker = worker.unwrap();
    assert!(worker.next());
    let away = worker.go_away();
    let mut batch = HandedOver::take(&mut worker, away, &()).unwrap();
    assert!(pending[0].decided.try_recv().is_err() && !pending[0].commit.is_sent(), "it goes back");
    assert_eq!(batch.requests().count(), 2);
    batch.tell(1, Some(Ok(())));
    assert_eq!(told(&mut pending[2]), Some(Ok(())));
    assert!(pending[1].commit.is_sent());
    batch.tell(0, None);
    assert!(!pending[1].commit.is_sent(), "what was sent back is not under way");
    assert!(batch.end(&mut worker, None, &Declined));
    assert_eq!(numbers(&take(&mut worker)), [2]);
}

/// Lets a purchase come that another instance has handed over. Returns `None` if it goes back.
fn take_over(queues: &Arc<Queues<TestCandidate>>) -> Option<Pending<TestCandidate>> {
    let handed = TestCandidate { is_handed: true, ..wish(u64::MAX) };
    queues.take_over(SKU, vec![handed]).map(|(mut pending, _)| pending.remove(0))
}

fn is_sent_back(pending: &mut Pending<TestCandidate>) -> bool {
    pending.decided.try_recv() == Err(TryRecvError::Closed)
}

// S123
#[test]
fn a_worker_that_goes_away_keeps_no_purchases_of_others() {
    let queues = Arc::<Queues<TestCandidate>>::default();
    let (_own, worker) = join(&queues, 3);
    let mut worker = worker.unwrap();
    let mut in_part = take_over(&queues).unwrap();
    let batch = take(&mut worker);
    worker.divide(batch);
    let mut in_queue = take_over(&queues).unwrap();
    let away = worker.go_away();
    assert!(is_sent_back(&mut in_part) && is_sent_back(&mut in_queue));
    assert!(take_over(&queues).is_none(), "the worker is away");
    let (_own, _) = join(&queues, 1);
    drop(away);
    let mut later = take_over(&queues).unwrap();
    assert!(!is_sent_back(&mut later));
    assert_eq!([(); 3].map(|()| numbers(&take(&mut worker))), [vec![1, 2], vec![3], vec![6, 7]]);
}

// S124
#[test]
fn buyers_that_come_back_are_served_before_later_parts() {
    let queues = Arc::<Queues<TestCandidate>>::default();
    let (_pending, worker) = join(&queues, 4);
    let mut worker = worker.unwrap();
    let batch = take(&mut worker);
    worker.divide(batch);
    let first = take(&mut worker);
    assert!(worker.put_back(first, &Declined));
    assert_eq!([(); 2].map(|()| numbers(&take(&mut worker))), [[1, 2], [3, 4]]);
}

#[test]
fn a_slot_is_free_when_its_last_clone_is_dropped() {
    let slots = Slots::new(1);
    let slot = slots.try_take().unwrap();
    let clone = slot.clone();
    drop(slot);
    assert!(slots.try_take().is_none());
    drop(clone);
    assert_eq!(slots.taken(), 0);
    assert!(slots.try_take().is_some());
}

#[test]
fn each_reply_of_a_batch_frees_a_slot() {
    let slots = Slots::new(3);
    let mut of_batch = slots.try_take_up_to(5).unwrap();
    assert_eq!((of_batch.count(), slots.taken()), (3, 3));
    assert!(slots.try_take_up_to(1).is_none());
    of_batch.free_one();
    assert_eq!(slots.taken(), 2);
    drop(of_batch);
    assert_eq!(slots.taken(), 0);
}
