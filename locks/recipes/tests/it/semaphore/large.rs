//! Permits by the thousand.

use std::time::{Duration, Instant};

use testbed::{Proxy, ZooKeeper, ZooKeeperConfig};
use zk_recipes::{Error, HoldState, MultiGuard, Semaphore, Session, SessionConfig, SharedCount};
use zookeeper_client::Client;

use super::{COUNT, LEASES, LOCKS, PATH, acquiring, semaphore};
use crate::support::{Lab, soon, until};

fn is_in_the_order_of_tokens(held: &MultiGuard) -> bool {
    held.guards().windows(2).all(|pair| pair[0].token() < pair[1].token())
}

#[tokio::test(flavor = "multi_thread")]
async fn more_permits_than_exist_are_waited_for_without_a_lease() {
    let lab = Lab::open().await;
    let session = lab.session().await;
    let count = SharedCount::new(&session, COUNT, 2).unwrap();
    let semaphore = Semaphore::from_count(&session, PATH, &count).unwrap();
    let before = session.traffic().requests;
    let asked = Instant::now();
    let wait = Duration::from_millis(40);
    assert!(semaphore.acquire_many_within(4_000, wait).await.unwrap().is_none());
    assert!(asked.elapsed() < wait + session.timeout() / 4, "{:?}", asked.elapsed());
    assert!(session.traffic().requests - before < 25, "{}", session.traffic().requests - before);
    assert!(lab.raw.check_stat(LEASES).await.unwrap().is_none(), "there was never a lease");
    lab.until_children(LOCKS, 0).await;
    // The contender with the lease lock keeps it, and the ones behind it wait in their order.
    let waiting = tokio::spawn({
        let semaphore = semaphore.clone();
        async move { semaphore.acquire_many(3).await }
    });
    lab.until_children(LOCKS, 1).await;
    let next = acquiring(&semaphore);
    lab.until_children(LOCKS, 2).await;
    assert!(lab.children(LEASES).await.is_empty());
    count.set(3).await.unwrap();
    let held = soon("the permits", waiting).await.unwrap().unwrap();
    assert!(!next.is_finished());
    held.release().await.unwrap();
    soon("the permit", next).await.unwrap().unwrap().release().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn thousands_of_permits_are_granted_in_token_order() {
    const PERMITS: u32 = 3000;
    let lab = Lab::open().await;
    let session = lab.patient_session().await;
    let other = lab.session().await;
    let all = semaphore(&session, PERMITS);
    let held = soon("the permits", all.acquire_many(PERMITS)).await.unwrap();
    assert_eq!((held.guards().len(), held.state()), (PERMITS as usize, HoldState::Held));
    assert!(is_in_the_order_of_tokens(&held));
    assert!(semaphore(&other, PERMITS).try_acquire().await.unwrap().is_none());
    soon("the release", held.release()).await.unwrap();
    // Dropped, they go many at a time, and keep nobody else's.
    let before = session.traffic().requests;
    drop(soon("the permits", all.acquire_many(PERMITS)).await.unwrap());
    lab.until_unused().await;
    let requests = session.traffic().requests - before;
    assert!(requests <= 2 * u64::from(PERMITS) + 10, "{requests}: one to create and one to delete each");
}

// L56
#[tokio::test(flavor = "multi_thread")]
async fn an_attempt_at_thousands_of_permits_ends_in_time() {
    const PERMITS: u32 = 5000;
    let lab = Lab::open().await;
    let session = lab.session().await;
    let other = lab.session().await;
    let held = semaphore(&other, PERMITS).acquire().await.unwrap();
    let all = semaphore(&session, PERMITS);
    for wait in [50, 200, 1000].map(Duration::from_millis) {
        let asked = Instant::now();
        let answer = all.acquire_many_within(PERMITS, wait).await;
        let took = asked.elapsed();
        // The documented bound is a quarter of the session timeout later; the rest is for a busy machine.
        assert!(took < wait + session.timeout() / 4 + Duration::from_secs(2), "{wait:?}: {took:?}");
        assert!(matches!(answer, Ok(None) | Err(Error::Unconfirmed { .. })), "{wait:?}: {answer:?}");
        lab.until_children(LEASES, 1).await;
        lab.until_children(LOCKS, 0).await;
    }
    assert_eq!(held.state(), HoldState::Held);
    held.release().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn many_permits_whose_replies_are_lost_are_found_again() {
    const PERMITS: u32 = 300;
    let server = ZooKeeper::start(ZooKeeperConfig::default()).await.unwrap();
    let proxy = Proxy::start(&server.connect_string()).await.unwrap();
    let config = SessionConfig::default().with_timeout(Duration::from_secs(20));
    let session = Session::connect(&proxy.connect_string(), config).await.unwrap();
    let raw = Client::connect(&server.connect_string()).await.unwrap();
    let semaphore = semaphore(&session, PERMITS);
    semaphore.acquire().await.unwrap().release().await.unwrap();
    let leases = async || raw.list_children(LEASES).await.unwrap().len();
    let mut cut_in_the_middle = 0;
    for created in [1, 40, 120, 200, 290] {
        let before = session.traffic().requests;
        let acquiring = tokio::spawn({
            let semaphore = semaphore.clone();
            async move { semaphore.acquire_many(PERMITS).await }
        });
        until("some are there", async || leases().await >= created).await;
        cut_in_the_middle += usize::from(!acquiring.is_finished());
        proxy.swallow_replies();
        proxy.cut();
        let held = soon("the permits", acquiring).await.unwrap().unwrap();
        assert_eq!((held.guards().len(), leases().await), (300, 300), "cut when there were {created}");
        assert!(is_in_the_order_of_tokens(&held), "cut when there were {created}");
        // At most those under way were sent again, or looked at.
        let requests = session.traffic().requests - before;
        assert!(requests < 2 * u64::from(PERMITS), "{requests}");
        soon("the connection", session.ping(Duration::from_secs(30))).await.unwrap();
        held.release().await.unwrap();
        until("the leases are gone", async || leases().await == 0).await;
    }
    assert!(cut_in_the_middle > 0, "every acquire was over before its connection was cut");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_first_who_takes_many_permits_creates_their_parent_once() {
    let lab = Lab::open().await;
    let session = lab.session().await;
    let requests = async || {
        let before = session.traffic().requests;
        semaphore(&session, 100).acquire_many(50).await.unwrap().release().await.unwrap();
        session.traffic().requests - before
    };
    let first = requests().await;
    // For the lease lock: creations of the node, its parent and the grandparent in vain, then of all three, and a second look at
    // the queue. The first look was sent with a creation in vain. For the leases: one creation in vain, and the parent.
    assert_eq!(first - requests().await, 7 + 2);
}
