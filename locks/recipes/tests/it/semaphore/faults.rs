//! Servers that do not answer, connections that break, nodes that somebody deletes.

use std::time::{Duration, Instant};

use testbed::{Proxy, ZooKeeper, ZooKeeperConfig};
use tokio::task::JoinSet;
use zk_recipes::{ConnectionState, Error, HoldState, Session, SessionConfig};
use zookeeper_client::Client;

use super::{LEASES, LOCKS, acquiring, semaphore};
use crate::support::{Lab, soon, until};

/// Returns a session that outlives what happens here.
fn lasting() -> SessionConfig {
    SessionConfig::default().with_timeout(Duration::from_secs(20))
}

async fn children(raw: &Client, path: &str) -> usize {
    raw.list_children(path).await.unwrap_or_default().len()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_lease_that_is_deleted_by_hand_while_it_waits_is_made_anew() {
    let lab = Lab::open().await;
    let session = lab.session().await;
    let held = semaphore(&session, 1).acquire().await.unwrap();
    let waiting = acquiring(&semaphore(&session, 1));
    let others = async || {
        let mut leases = lab.children(LEASES).await;
        leases.retain(|name| !held.node_path().ends_with(name.as_str()));
        leases
    };
    for _ in 0..3 {
        lab.until_children(LEASES, 2).await;
        let deleted = others().await.remove(0);
        lab.raw.delete(&format!("{LEASES}/{deleted}"), None).await.unwrap();
        until("there is another", async || others().await.first().is_some_and(|name| *name != deleted)).await;
    }
    held.release().await.unwrap();
    let next = soon("the permit", waiting).await.unwrap().unwrap();
    assert_eq!(lab.children(LEASES).await.len(), 1);
    next.release().await.unwrap();
    lab.until_unused().await;
    semaphore(&session, 1).acquire().await.unwrap().release().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn waiters_whose_lease_locks_are_deleted_hold_one_by_one() {
    let lab = Lab::open().await;
    let session = lab.session().await;
    let held = semaphore(&session, 1).acquire().await.unwrap();
    let mut waiting = Vec::new();
    for waiters in 1..=3 {
        waiting.push(acquiring(&semaphore(&session, 1)));
        lab.until_children(LEASES, 1 + waiters).await;
        let lease_lock = lab.children(LOCKS).await.remove(0);
        lab.raw.delete(&format!("{LOCKS}/{lease_lock}"), None).await.unwrap();
    }
    let mut held = held;
    for next in waiting {
        assert!(!next.is_finished(), "there is one permit");
        held.release().await.unwrap();
        held = soon("the permit", next).await.unwrap().unwrap();
    }
    held.release().await.unwrap();
    lab.until_unused().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_place_in_the_queue_that_is_deleted_by_hand_is_reported() {
    let lab = Lab::open().await;
    let session = lab.session().await;
    let held = semaphore(&session, 1).acquire().await.unwrap();
    let first = acquiring(&semaphore(&session, 1));
    lab.until_children(LEASES, 2).await;
    let lease_lock = lab.children(LOCKS).await.remove(0);
    let second = acquiring(&semaphore(&session, 1));
    lab.until_children(LOCKS, 2).await;
    let mut queued = lab.children(LOCKS).await;
    queued.retain(|name| *name != lease_lock);
    lab.raw.delete(&format!("{LOCKS}/{}", queued[0]), None).await.unwrap();
    held.release().await.unwrap();
    soon("the permit", first).await.unwrap().unwrap().release().await.unwrap();
    let told = soon("the news", second).await.unwrap();
    assert!(matches!(told, Err(Error::NodeDeleted { .. })), "{told:?}");
    lab.until_unused().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_frozen_server_keeps_no_acquire_beyond_its_time() {
    let server = ZooKeeper::start(ZooKeeperConfig::default()).await.unwrap();
    let session = Session::connect(&server.connect_string(), SessionConfig::default()).await.unwrap();
    let raw = Client::connect(&server.connect_string()).await.unwrap();
    let semaphore = semaphore(&session, 3);
    let held = semaphore.acquire().await.unwrap();
    // By then the second acquire must have got as far as it can, also on a busy machine.
    let wait = Duration::from_secs(3);
    // Frozen before the lease lock is asked for, and while there is a lease lock and leases, but no free permit.
    for wanted in [2, 3] {
        if wanted == 2 {
            server.pause().unwrap();
        }
        let asked = Instant::now();
        let acquiring = tokio::spawn({
            let semaphore = semaphore.clone();
            async move { semaphore.acquire_many_within(wanted, wait).await }
        });
        if wanted == 3 {
            until("it waits", async || children(&raw, LEASES).await == 1 + 3).await;
            server.pause().unwrap();
        }
        let answer = soon("the answer", acquiring).await.unwrap();
        let took = asked.elapsed();
        server.resume().unwrap();
        // The documented bound is a quarter of the session timeout later; the rest is for a busy machine.
        assert!(took >= wait && took < wait + session.timeout() / 4 + Duration::from_secs(2), "{wanted}: {took:?}");
        assert!(matches!(answer, Err(Error::Unconfirmed { .. })), "{wanted}: {answer:?}");
        until("the leases are gone", async || children(&raw, LEASES).await == 1).await;
        until("the lease lock is gone", async || children(&raw, LOCKS).await == 0).await;
    }
    server.pause().unwrap();
    let asked = Instant::now();
    let answer = semaphore.try_acquire().await;
    let took = asked.elapsed();
    server.resume().unwrap();
    assert!(matches!(answer, Err(Error::NoAnswer { .. })), "{answer:?}");
    assert!(took < session.timeout() / 2 + Duration::from_secs(2), "{took:?}");
    until("the session is back", async || session.state() == ConnectionState::Connected).await;
    soon("the release", held.release()).await.unwrap();
    soon("all permits", semaphore.acquire_many(3)).await.unwrap().release().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_restarts_amid_acquires_keeps_no_lease() {
    let mut server = ZooKeeper::start(ZooKeeperConfig::default()).await.unwrap();
    let session = Session::connect(&server.connect_string(), lasting()).await.unwrap();
    let (granted, mut grants) = tokio::sync::mpsc::unbounded_channel();
    let mut contenders = JoinSet::new();
    for _ in 0..10 {
        let session = session.clone();
        let granted = granted.clone();
        contenders.spawn(async move {
            loop {
                let held = semaphore(&session, 1).acquire().await.unwrap();
                granted.send(()).unwrap();
                held.release().await.unwrap();
            }
        });
    }
    for _ in 0..2 {
        for _ in 0..10 {
            soon("a grant", grants.recv()).await.unwrap();
        }
        server.stop().await.unwrap();
        until("it is noticed", async || session.state() != ConnectionState::Connected).await;
        while grants.try_recv().is_ok() {}
        server.start_again().await.unwrap();
    }
    for _ in 0..10 {
        soon("a grant", grants.recv()).await.unwrap();
    }
    assert!(contenders.try_join_next().is_none(), "nobody gave up");
    contenders.shutdown().await;
    let raw = Client::connect(&server.connect_string()).await.unwrap();
    until("the leases are gone", async || children(&raw, LEASES).await == 0).await;
    until("the lease locks are gone", async || children(&raw, LOCKS).await == 0).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn connections_that_break_during_an_acquire_leave_nothing() {
    let server = ZooKeeper::start(ZooKeeperConfig::default()).await.unwrap();
    let proxy = Proxy::start(&server.connect_string()).await.unwrap();
    let session = Session::connect(&proxy.connect_string(), lasting()).await.unwrap();
    let raw = Client::connect(&server.connect_string()).await.unwrap();
    let semaphore = semaphore(&session, 2);
    semaphore.acquire().await.unwrap().release().await.unwrap();
    let mut cut_in_the_middle = 0;
    // The replies are lost once another request has reached the server: first the lease lock, then the leases, then the rest.
    for requests in 0..8 {
        let acquiring = tokio::spawn({
            let semaphore = semaphore.clone();
            async move { semaphore.acquire_many(2).await }
        });
        for _ in 0..requests {
            let seen = proxy.bytes_to_server();
            tokio::select! {
                _ = proxy.until(|traffic| traffic.bytes_to_server > seen) => {}
                () = until("it is done", async || acquiring.is_finished()) => break,
            }
        }
        cut_in_the_middle += usize::from(requests > 0 && !acquiring.is_finished());
        proxy.swallow_replies();
        proxy.cut();
        let held = soon("the permits", acquiring).await.unwrap().unwrap();
        assert_eq!(children(&raw, LEASES).await, 2, "cut after {requests} requests");
        soon("the connection", session.ping(Duration::from_secs(30))).await.unwrap();
        assert_eq!(held.state(), HoldState::Held);
        held.release().await.unwrap();
        until("the leases are gone", async || children(&raw, LEASES).await == 0).await;
        until("the lease lock is gone", async || children(&raw, LOCKS).await == 0).await;
    }
    assert!(cut_in_the_middle > 0, "every acquire was over before its connection was cut");
}
