//! What semaphores promise beyond the contract of every lock: several permits, and a number of them that changes. Curator's
//! tests of `InterProcessSemaphoreV2` all have a counterpart here, but for those of whole ensembles.

mod faults;
mod large;
mod many;
mod shared_count;
mod stale_count;

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use tokio::sync::Barrier;
use tokio::task::{JoinHandle, JoinSet};
use zk_recipes::{
    Error, HoldState, LockGuard, ParticipantKind, Semaphore, SemaphoreMutex, Session, SharedCount, participants,
};

use crate::support::{Lab, soon};

const PATH: &str = "/semaphores/database";
const LOCKS: &str = "/semaphores/database/locks";
const LEASES: &str = "/semaphores/database/leases";
const COUNT: &str = "/counts/database";

/// Long enough to be never over.
const LONG: Duration = Duration::from_secs(60);
/// Long enough to see that nothing comes.
const SHORT: Duration = Duration::from_millis(200);

fn semaphore(session: &Session, permits: u32) -> Semaphore {
    Semaphore::new(session, PATH, permits).unwrap()
}

/// Acquires one permit in a task of its own.
fn acquiring(semaphore: &Semaphore) -> JoinHandle<Result<LockGuard, Error>> {
    let semaphore = semaphore.clone();
    tokio::spawn(async move { semaphore.acquire().await })
}

/// How many hold at the moment, and how many did at most.
#[derive(Debug, Default)]
struct Usage {
    now: AtomicUsize,
    peak: AtomicUsize,
}

impl Usage {
    fn enter(&self, permits: usize) {
        let now = self.now.fetch_add(permits, Ordering::SeqCst) + permits;
        self.peak.fetch_max(now, Ordering::SeqCst);
    }

    fn exit(&self, permits: usize) {
        self.now.fetch_sub(permits, Ordering::SeqCst);
    }

    fn peak(&self) -> usize {
        self.peak.load(Ordering::SeqCst)
    }
}

impl Lab {
    /// Waits until nothing of any semaphore contender is left.
    async fn until_unused(&self) {
        self.until_children(LEASES, 0).await;
        self.until_children(LOCKS, 0).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_second_acquire_of_the_only_permit_waits_for_its_deadline() {
    let lab = Lab::open().await;
    let semaphore = semaphore(&lab.session().await, 1);
    let held = semaphore.acquire_within(LONG).await.unwrap().unwrap();
    assert!(semaphore.acquire_within(SHORT).await.unwrap().is_none());
    assert_eq!(lab.children(LEASES).await.len(), 1);
    assert_eq!(lab.children(LOCKS).await, Vec::<String>::new());
    held.release().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_fourth_permit_of_three_is_granted_once_one_is_given_back() {
    let lab = Lab::open().await;
    let session = lab.session().await;
    let mut held = Vec::new();
    for _ in 0..3 {
        held.push(semaphore(&session, 3).acquire_within(LONG).await.unwrap().unwrap());
    }
    assert!(held.windows(2).all(|pair| pair[0].token() < pair[1].token()));
    assert!(semaphore(&session, 3).acquire_within(SHORT).await.unwrap().is_none());
    held.remove(1).release().await.unwrap();
    held.push(semaphore(&session, 3).acquire_within(LONG).await.unwrap().unwrap());
    assert!(held.iter().all(|guard| guard.state() == HoldState::Held));
}

#[tokio::test(flavor = "multi_thread")]
async fn ten_tasks_share_one_object_with_one_permit() {
    let lab = Lab::open().await;
    let semaphore = semaphore(&lab.session().await, 1);
    let usage = Arc::new(Usage::default());
    let mut tasks = JoinSet::new();
    for _ in 0..10 {
        let semaphore = semaphore.clone();
        let usage = Arc::clone(&usage);
        tasks.spawn(async move {
            let held = semaphore.acquire().await.unwrap();
            usage.enter(1);
            tokio::task::yield_now().await;
            usage.exit(1);
            held.release().await.unwrap();
        });
    }
    soon("every task", tasks.join_all()).await;
    assert_eq!(usage.peak(), 1);
    lab.until_unused().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn ten_clients_use_exactly_five_permits_at_a_time() {
    const PERMITS: usize = 5;
    let lab = Lab::open().await;
    let usage = Arc::new(Usage::default());
    // Nobody gives back before as many hold as may.
    let all_hold = Arc::new(Barrier::new(PERMITS));
    let mut clients = JoinSet::new();
    for _ in 0..2 * PERMITS {
        let semaphore = semaphore(&lab.session().await, 5);
        let usage = Arc::clone(&usage);
        let all_hold = Arc::clone(&all_hold);
        clients.spawn(async move {
            let held = semaphore.acquire().await.unwrap();
            usage.enter(1);
            all_hold.wait().await;
            usage.exit(1);
            held.release().await.unwrap();
        });
    }
    soon("every client", clients.join_all()).await;
    assert_eq!(usage.peak(), PERMITS);
    lab.until_unused().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_hundred_contenders_are_let_in_as_permits_come_back() {
    const PERMITS: usize = 11;
    let lab = Lab::open().await;
    let semaphore = semaphore(&lab.session().await, 11);
    let usage = Arc::new(Usage::default());
    let (granted, mut grants) = tokio::sync::mpsc::unbounded_channel();
    for _ in 0..100 {
        let semaphore = semaphore.clone();
        let usage = Arc::clone(&usage);
        let granted = granted.clone();
        tokio::spawn(async move {
            let held = semaphore.acquire().await.unwrap();
            usage.enter(1);
            granted.send(held).unwrap();
        });
    }
    let mut left = 100;
    for chunk in (1..=5).cycle() {
        let mut held = Vec::new();
        while held.len() < chunk.min(left) {
            held.push(soon("the next grant", grants.recv()).await.unwrap());
        }
        left -= held.len();
        for guard in held {
            usage.exit(1);
            guard.release().await.unwrap();
        }
        if left == 0 {
            break;
        }
    }
    assert!((1..=PERMITS).contains(&usage.peak()), "{usage:?}");
    lab.until_unused().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_closed_session_gives_its_permit_to_the_next() {
    let lab = Lab::open().await;
    let one = lab.session().await;
    let other = lab.session().await;
    semaphore(&other, 1).acquire().await.unwrap().release().await.unwrap();
    let held = semaphore(&one, 1).acquire_within(LONG).await.unwrap().unwrap();
    let waiting = acquiring(&semaphore(&other, 1));
    lab.until_children(LEASES, 2).await;
    one.close().await.unwrap();
    assert!(matches!(held.state(), HoldState::Lost(_)));
    soon("the permit", waiting).await.unwrap().unwrap().release().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn permits_are_granted_in_order_even_behind_a_large_request() {
    let lab = Lab::open().await;
    let semaphore = semaphore(&lab.session().await, 3);
    let mut held = semaphore.acquire_many(2).await.unwrap().into_guards();
    let (granted, mut grants) = tokio::sync::mpsc::unbounded_channel();
    // The first wants more than is free. Those behind it would find room.
    for (place, wanted) in [3, 1, 1, 2].into_iter().enumerate() {
        let semaphore = semaphore.clone();
        let granted = granted.clone();
        tokio::spawn(async move {
            let held = semaphore.acquire_many(wanted).await.unwrap();
            granted.send((place, held)).unwrap();
        });
        lab.until_children(LOCKS, place + 1).await;
    }
    lab.until_children(LEASES, 2 + 3).await;
    held.pop().unwrap().release().await.unwrap();
    assert!(grants.try_recv().is_err(), "two of three are not enough");
    held.pop().unwrap().release().await.unwrap();
    let mut next = async || soon("the next grant", grants.recv()).await.unwrap();
    let (first, all) = next().await;
    assert_eq!(first, 0);
    all.release().await.unwrap();
    // These two hold together, so either may be told first.
    let together = [next().await, next().await];
    assert_eq!(together.iter().map(|(place, _)| *place).sum::<usize>(), 1 + 2, "the last one wants two");
    for (_, held) in together {
        held.release().await.unwrap();
    }
    let (last, both) = next().await;
    assert_eq!(last, 3);
    both.release().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_try_that_fails_has_written_nothing() {
    let lab = Lab::open().await;
    let one = lab.session().await;
    let other = lab.session().await;
    let ours = semaphore(&one, 2);
    let theirs = semaphore(&other, 2);
    let first = ours.acquire().await.unwrap();
    let changes = async || {
        let leases = lab.raw.check_stat(LEASES).await.unwrap().unwrap().cversion;
        let lease_locks = lab.raw.check_stat(LOCKS).await.unwrap().unwrap().cversion;
        (leases, lease_locks)
    };
    let before = (changes().await, other.traffic().requests);
    assert!(theirs.try_acquire_many(2).await.unwrap().is_none(), "one is there");
    assert_eq!((changes().await, other.traffic().requests), (before.0, before.1 + 1));

    let second = theirs.try_acquire().await.unwrap().expect("one is there");
    let before = (changes().await, other.traffic().requests);
    assert!(theirs.try_acquire().await.unwrap().is_none(), "none is there");
    assert_eq!((changes().await, other.traffic().requests), (before.0, before.1 + 1));

    // A contender that wants both waits for the second. Nobody gets the first one past it.
    second.release().await.unwrap();
    let waiting = tokio::spawn({
        let ours = ours.clone();
        async move { ours.acquire_many(2).await }
    });
    lab.until_children(LEASES, 3).await;
    let before = changes().await;
    assert!(theirs.try_acquire().await.unwrap().is_none(), "somebody waits");
    assert_eq!(changes().await, before);
    first.release().await.unwrap();
    soon("both", waiting).await.unwrap().unwrap().release().await.unwrap();
    assert!(theirs.try_acquire().await.unwrap().is_some());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_dropped_waiter_leaves_the_permit_to_the_next() {
    let lab = Lab::open().await;
    let session = lab.session().await;
    let held = semaphore(&session, 1).acquire().await.unwrap();
    let waiting = acquiring(&semaphore(&session, 1));
    lab.until_children(LEASES, 2).await;
    waiting.abort();
    lab.until_children(LEASES, 1).await;
    lab.until_children(LOCKS, 0).await;
    held.release().await.unwrap();
    soon("the permit", semaphore(&session, 1).acquire()).await.unwrap().release().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn the_participants_are_the_leases_with_their_data() {
    let lab = Lab::open().await;
    let session = lab.session().await;
    let other = lab.session().await;
    let count = SharedCount::new(&session, COUNT, 3).unwrap();
    let ours = Semaphore::from_count(&session, PATH, &count).unwrap();
    assert_eq!(ours.participants().await.unwrap(), [], "nobody has ever asked");
    let mut data = vec![1, 2, 3, 4];
    let named = ours.clone().with_node_data(data.clone()).unwrap();
    data.clear();
    let held = [ours.acquire().await.unwrap(), named.acquire().await.unwrap(), ours.acquire().await.unwrap()];
    let seen = ours.participants().await.unwrap();
    assert_eq!(seen.len(), 3);
    for (participant, guard) in seen.iter().zip(&held) {
        assert_eq!((participant.path.as_str(), participant.token), (guard.node_path(), guard.token()));
        assert!(participant.is_holder && participant.kind == ParticipantKind::Lease);
        assert_eq!(participant.session, session.id());
    }
    assert_eq!(seen.iter().map(|participant| &participant.data[..]).collect::<Vec<_>>(), [&[][..], &[1, 2, 3, 4], &[]]);
    assert_eq!(participants(&session, PATH).await.unwrap(), seen);

    // A lowered count evicts nobody, and waiters get no hold.
    count.set(1).await.unwrap();
    let holders = async || {
        let seen = ours.participants().await.unwrap();
        seen.into_iter().map(|participant| participant.is_holder).collect::<Vec<_>>()
    };
    assert_eq!(holders().await, [true; 3]);
    let waiting = acquiring(&Semaphore::from_count(&other, PATH, &count).unwrap());
    lab.until_children(LEASES, 4).await;
    assert_eq!(holders().await, [true, true, true, false]);
    drop(held);
    soon("the permit", waiting).await.unwrap().unwrap().release().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn any_task_may_release_a_semaphore_mutex_but_not_enter_twice() {
    let lab = Lab::open().await;
    let mutex = SemaphoreMutex::new(&lab.session().await, PATH).unwrap();
    let held = mutex.acquire().await.unwrap();
    assert!(mutex.try_acquire().await.unwrap().is_none());
    assert!(mutex.acquire_within(SHORT).await.unwrap().is_none());
    assert_eq!(mutex.participants().await.unwrap().len(), 1);
    assert_eq!(mutex.path(), PATH);
    soon("the release", tokio::spawn(held.release())).await.unwrap().unwrap();
    mutex.try_acquire().await.unwrap().expect("it was released").release().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn an_uncontended_cycle_costs_two_requests_more_with_a_count() {
    let lab = Lab::open().await;
    let session = lab.session().await;
    let count = SharedCount::new(&session, COUNT, 4).unwrap();
    let counted = Semaphore::from_count(&session, PATH, &count).unwrap();
    for _ in 0..2 {
        counted.acquire().await.unwrap().release().await.unwrap();
    }
    let requests = || session.traffic().requests;
    // The third lease lock in a row is taken with a watch, and the next ones without a look.
    let before = requests();
    let held = semaphore(&session, 4).acquire().await.unwrap();
    assert_eq!(requests() - before, 6);
    held.release().await.unwrap();
    assert_eq!(requests() - before, 7);

    let before = requests();
    semaphore(&session, 4).acquire_many(4).await.unwrap().release().await.unwrap();
    assert_eq!(requests() - before, 5 + 2 * 3);

    let before = requests();
    counted.acquire().await.unwrap().release().await.unwrap();
    assert_eq!(requests() - before, 5 + 2, "the count is read, and checked once more");

    let before = requests();
    semaphore(&session, 4).try_acquire().await.unwrap().unwrap().release().await.unwrap();
    assert_eq!(requests() - before, 7);
    assert_eq!(session.traffic().notifications, 0);
}
