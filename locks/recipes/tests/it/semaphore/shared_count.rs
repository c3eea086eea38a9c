//! The number that clients share.

use std::time::Duration;

use testbed::{Proxy, ZooKeeper, ZooKeeperConfig};
use tokio::task::JoinSet;
use zk_recipes::{Error, HoldState, Semaphore, Session, SessionConfig, SharedCount};
use zookeeper_client::{Acls, Client, CreateMode};

use super::{COUNT, LEASES, PATH, acquiring};
use crate::support::{Lab, soon};

#[tokio::test(flavor = "multi_thread")]
async fn a_missing_count_is_created_with_the_first_client_s_seed() {
    let lab = Lab::open().await;
    let one = lab.session().await;
    let other = lab.session().await;
    let count = SharedCount::new(&one, COUNT, -2).unwrap();
    let seen = count.get().await.unwrap();
    assert_eq!((seen.value, seen.version), (-2, 0));
    assert_eq!(SharedCount::new(&other, COUNT, 7).unwrap().get().await.unwrap(), seen);
    let (data, stat) = lab.raw.get_data(COUNT).await.unwrap();
    assert_eq!(data, [0xff, 0xff, 0xff, 0xfe], "four bytes, the highest first");
    assert_eq!(stat.ephemeral_owner, 0, "it stays when its clients are gone");
    let fresh = SharedCount::new(&one, "/counts/fresh", 1).unwrap();
    let written = fresh.set(9).await.unwrap();
    assert_eq!((written.value, written.version), (9, 0));
    let again = fresh.set(9).await.unwrap();
    assert_eq!((again.value, again.version), (9, 1));
    assert_eq!(fresh.get().await.unwrap(), again);
    assert_eq!((fresh.get().await.unwrap().value, fresh.path()), (9, "/counts/fresh"));
    assert!(matches!(SharedCount::new(&one, "counts", 1), Err(Error::InvalidPath { .. })));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_count_that_somebody_set_since_it_was_read_is_left_alone() {
    let lab = Lab::open().await;
    let count = SharedCount::new(&lab.session().await, COUNT, 1).unwrap();
    let stale = count.get().await.unwrap();
    count.set(5).await.unwrap();
    assert_eq!(count.try_set(stale, 9).await.unwrap(), None);
    let seen = count.get().await.unwrap();
    assert_eq!((seen.value, seen.version), (5, 1));
    let written = count.try_set(seen, 6).await.unwrap().expect("nobody has set it since");
    assert_eq!((written.value, written.version), (6, 2));
    assert_eq!(count.get().await.unwrap(), written);
    lab.raw.delete(COUNT, None).await.unwrap();
    assert_eq!(count.try_set(seen, 7).await.unwrap(), None, "what was read is gone");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_chain_of_changes_by_one_client_needs_no_read_in_between() {
    let lab = Lab::open().await;
    let session = lab.session().await;
    let count = SharedCount::new(&session, COUNT, 1).unwrap();
    let mut seen = count.set(10).await.unwrap();
    let before = session.traffic().requests;
    for value in 11..20 {
        seen = count.try_set(seen, value).await.unwrap().expect("nobody else sets it");
    }
    assert_eq!(session.traffic().requests - before, 9, "one request a change");
    assert_eq!(count.get().await.unwrap(), seen);
}

#[tokio::test(flavor = "multi_thread")]
async fn no_increment_of_many_at_a_time_is_lost() {
    let lab = Lab::open().await;
    let mut clients = JoinSet::new();
    for _ in 0..5 {
        let count = SharedCount::new(&lab.session().await, COUNT, 0).unwrap();
        clients.spawn(async move {
            for _ in 0..20 {
                let mut seen = count.get().await.unwrap();
                while count.try_set(seen, seen.value + 1).await.unwrap().is_none() {
                    seen = count.get().await.unwrap();
                }
            }
        });
    }
    soon("every client", clients.join_all()).await;
    let count = SharedCount::new(&lab.session().await, COUNT, 0).unwrap();
    let seen = count.get().await.unwrap();
    assert_eq!((seen.value, seen.version), (100, 100));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_follower_hears_of_every_change_that_lasts() {
    let lab = Lab::open().await;
    let one = lab.session().await;
    let other = lab.session().await;
    let ours = SharedCount::new(&one, COUNT, 1).unwrap();
    let theirs = SharedCount::new(&other, COUNT, 1).unwrap();
    let mut seen = ours.get().await.unwrap();
    for value in [2, 2, 3] {
        let following = tokio::spawn({
            let ours = ours.clone();
            let seen = seen;
            async move { ours.changed(seen).await }
        });
        theirs.set(value).await.unwrap();
        let changed = soon("the change", following).await.unwrap().unwrap();
        assert_eq!((changed.value, changed.version), (value, seen.version + 1), "also of one to the same value");
        seen = changed;
    }
    theirs.set(8).await.unwrap();
    theirs.set(9).await.unwrap();
    assert_eq!(soon("the change", ours.changed(seen)).await.unwrap().value, 9, "at once");
    let seen = ours.get().await.unwrap();
    lab.raw.delete(COUNT, None).await.unwrap();
    assert!(matches!(soon("the news", ours.changed(seen)).await, Err(Error::CountDeleted { .. })));
    assert_eq!(theirs.set(6).await.unwrap().version, 0, "it is made again");
    assert_eq!(soon("the change", ours.changed(seen)).await.unwrap().value, 6);
}

#[tokio::test(flavor = "multi_thread")]
async fn data_that_is_no_count_is_an_error_until_it_is_overwritten() {
    let lab = Lab::open().await;
    let session = lab.session().await;
    let options = CreateMode::Persistent.with_acls(Acls::anyone_all());
    lab.raw.create("/count", b"three", &options).await.unwrap();
    let count = SharedCount::new(&session, "/count", 3).unwrap();
    let message = count.get().await.unwrap_err().to_string();
    assert!(message.starts_with("the data of /count is no count: it has 5 bytes instead of 4"), "{message}");
    let semaphore = Semaphore::from_count(&session, PATH, &count).unwrap();
    assert!(matches!(semaphore.acquire().await, Err(Error::NotACount { length: 5, .. })));
    assert!(matches!(semaphore.try_acquire().await, Err(Error::NotACount { length: 5, .. })));
    count.set(1).await.unwrap();
    soon("the permit", semaphore.acquire()).await.unwrap().release().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_waiter_whose_count_loses_its_session_is_told_whose_it_was() {
    let lab = Lab::open().await;
    let ours = lab.session().await;
    let theirs = lab.session().await;
    let semaphore = Semaphore::from_count(&ours, PATH, &SharedCount::new(&theirs, COUNT, 1).unwrap()).unwrap();
    let held = semaphore.acquire().await.unwrap();
    let waiting = acquiring(&semaphore);
    lab.until_children(LEASES, 2).await;
    theirs.close().await.unwrap();
    let told = [
        soon("the news", waiting).await.unwrap().map(drop),
        semaphore.acquire().await.map(drop),
        semaphore.acquire_many(2).await.map(drop),
        semaphore.try_acquire().await.map(drop),
        semaphore.participants().await.map(drop),
    ];
    for told in told {
        let Err(Error::CountSessionEnded { path, .. }) = &told else { panic!("{told:?}") };
        assert_eq!(path, COUNT);
    }
    assert!(!ours.is_ended());
    assert_eq!(held.state(), HoldState::Held);
    // Nothing of those that failed stays, and a count on a session that lives tells all.
    lab.until_children(LEASES, 1).await;
    let count = SharedCount::new(&ours, COUNT, 1).unwrap();
    let next = acquiring(&Semaphore::from_count(&ours, PATH, &count).unwrap());
    held.release().await.unwrap();
    soon("the permit", next).await.unwrap().unwrap().release().await.unwrap();

    // The one session for both is told of as such.
    let semaphore = Semaphore::from_count(&ours, PATH, &count).unwrap();
    ours.close().await.unwrap();
    assert!(matches!(semaphore.participants().await, Err(Error::SessionEnded { .. })));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_try_to_set_whose_reply_is_lost_claims_nothing_unknown() {
    let server = ZooKeeper::start(ZooKeeperConfig::default()).await.unwrap();
    let proxy = Proxy::start(&server.connect_string()).await.unwrap();
    let config = SessionConfig::default().with_timeout(Duration::from_secs(20));
    let session = Session::connect(&proxy.connect_string(), config).await.unwrap();
    let raw = Client::connect(&server.connect_string()).await.unwrap();
    let count = SharedCount::new(&session, COUNT, 1).unwrap();
    let losing = |previous, value: i32| {
        proxy.swallow_replies();
        let count = count.clone();
        tokio::spawn(async move { count.try_set(previous, value).await })
    };
    let swallowed = async |before| {
        soon("the lost reply", proxy.until(|traffic| traffic.bytes_from_server > before)).await;
        proxy.cut();
    };

    let before = count.get().await.unwrap();
    let received = proxy.bytes_from_server();
    let setting = losing(before, 2);
    swallowed(received).await;
    let answer = soon("the answer", setting).await.unwrap();
    assert!(matches!(answer, Err(Error::Indeterminate { .. })), "{answer:?}");

    // Somebody else's count in the very next version: ours was refused.
    let before = count.get().await.unwrap();
    let received = proxy.bytes_from_server();
    assert_eq!((before.value, before.version), (2, 1), "it was applied");
    raw.set_data(COUNT, &7_i32.to_be_bytes(), None).await.unwrap();
    let setting = losing(before, 3);
    swallowed(received).await;
    assert_eq!(soon("the answer", setting).await.unwrap().unwrap(), None);
    assert_eq!(count.get().await.unwrap().value, 7);
}
