//! What Curator's own tests ask of every lock, as far as the other suites do not: servers that go and come back,
//! sessions that expire, an ensemble.
//!
//! Two of Curator's tests have no counterpart here. `testPersistentLock` replaces the nodes by persistent ones, which
//! outlive their session; ours never do, and there is no driver to replace. `testWithSchema` is about Curator's own
//! check of paths on the client's side.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::time::Duration;

use testbed::{Ensemble, EnsembleConfig, Proxy, ZooKeeper, ZooKeeperConfig};
use zk_recipes::{ConnectionState, Error, HoldState, Mutex, Semaphore, Session, SessionConfig};

use crate::support::{Lab, RECIPES, soon, until};

#[tokio::test(flavor = "multi_thread")]
async fn a_guard_holds_within_its_scope_and_not_after_it() {
    for recipe in RECIPES {
        let lab = Lab::open().await;
        let one = lab.session().await;
        let other = lab.session().await;
        let next = recipe.barrier(&other, recipe.path());
        {
            let held = recipe.lock(&one, recipe.path()).acquire_within(Duration::from_secs(20)).await.unwrap().unwrap();
            assert_eq!(held.state(), HoldState::Held);
            assert!(next.try_acquire().await.unwrap().is_none());
        }
        soon("the next holder", next.acquire()).await.unwrap().release().await.unwrap();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_waiting_contender_survives_a_restart_of_the_server() {
    let mut server = ZooKeeper::start(ZooKeeperConfig::default()).await.unwrap();
    let config = || SessionConfig::default().with_timeout(Duration::from_secs(20));
    for recipe in RECIPES {
        let one = Session::connect(&server.connect_string(), config()).await.unwrap();
        let other = Session::connect(&server.connect_string(), config()).await.unwrap();
        let held = recipe.barrier(&one, recipe.path()).acquire().await.unwrap();
        let waiting = tokio::spawn({
            let lock = recipe.lock(&other, recipe.path());
            async move { lock.acquire().await?.release().await }
        });
        let watches = async || server.metric("zk_watch_count").await.unwrap();
        let expected = recipe.watches_of_holder() + 1;
        until("the waiter watches", async || watches().await == expected).await;
        server.stop().await.unwrap();
        until("the holder is not sure any more", async || held.state() == HoldState::Suspect).await;
        server.start_again().await.unwrap();
        until("the session is back", async || one.state() == ConnectionState::Connected).await;
        assert_eq!(held.state(), HoldState::Held, "{recipe:?}");
        held.release().await.unwrap();
        soon("the waiter", waiting).await.unwrap().unwrap();
    }
}

// L36
#[tokio::test(flavor = "multi_thread")]
async fn a_holder_knows_of_its_expiry_before_the_next_grant() {
    let quick = ZooKeeperConfig { tick_time: Duration::from_millis(500), ..ZooKeeperConfig::default() };
    let server = ZooKeeper::start(quick).await.unwrap();
    for recipe in RECIPES {
        let proxy = Proxy::start(&server.connect_string()).await.unwrap();
        let config = SessionConfig::default().with_timeout(Duration::from_secs(1));
        let one = Session::connect(&proxy.connect_string(), config).await.unwrap();
        let other = Session::connect(&server.connect_string(), SessionConfig::default()).await.unwrap();
        let held = recipe.lock(&one, recipe.path()).acquire().await.unwrap();
        proxy.blackhole();
        let next = soon("the next holder", recipe.barrier(&other, recipe.path()).acquire()).await.unwrap();
        assert!(matches!(held.state(), HoldState::Lost(_)), "{recipe:?}: {:?}", held.state());
        proxy.deliver();
        until("the session is known to have ended", async || one.is_ended()).await;
        assert!(matches!(recipe.lock(&one, recipe.path()).acquire().await, Err(Error::SessionEnded { .. })));
        assert!(matches!(held.release().await, Err(Error::HoldLost { .. })));
        assert_eq!(next.state(), HoldState::Held);
        next.release().await.unwrap();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_chroot_holds_all_nodes_of_a_lock() {
    let lab = Lab::open().await;
    let (server, chroot) = lab.connect_string().split_once('/').unwrap();
    let whole = zookeeper_client::Client::connect(server).await.unwrap();
    let session = lab.session().await;
    for recipe in RECIPES {
        let held = recipe.lock(&session, recipe.path()).acquire().await.unwrap();
        let seen = whole.check_stat(&format!("/{chroot}{}", held.node_path())).await.unwrap();
        assert_eq!(seen.expect("below the chroot").ephemeral_owner, session.id().get());
        held.release().await.unwrap();
    }
}

/// How many hold at the moment, how many ever did, and how often a holder did something.
#[derive(Default)]
struct HolderCounts {
    holders: AtomicI64,
    grants: AtomicU64,
    operations: AtomicU64,
}

/// Acquires again and again, and works while the hold is certain. Opens another session when one has ended.
async fn contend(servers: String, lock: impl Fn(&Session) -> zk_recipes::AnyLock, ledger: Arc<HolderCounts>) {
    let config =
        || SessionConfig::default().with_timeout(Duration::from_secs(4)).with_connect_within(Duration::from_secs(60));
    loop {
        let Ok(session) = Session::connect(&servers, config()).await else { continue };
        while !session.is_ended() {
            let Ok(held) = lock(&session).acquire().await else { continue };
            ledger.grants.fetch_add(1, Ordering::SeqCst);
            let others = ledger.holders.fetch_add(1, Ordering::SeqCst);
            assert_eq!(others, 0, "two hold");
            for _ in 0..20 {
                if held.state() != HoldState::Held {
                    break;
                }
                if session.ping(Duration::from_secs(1)).await.is_ok() {
                    ledger.operations.fetch_add(1, Ordering::SeqCst);
                }
            }
            ledger.holders.fetch_sub(1, Ordering::SeqCst);
            // What was lost cannot be given back.
            let _ = held.release().await;
        }
    }
}

// L1
#[tokio::test(flavor = "multi_thread")]
async fn nobody_works_without_the_ensemble_and_all_do_after_it() {
    let config = EnsembleConfig { tick_time: Duration::from_millis(500), ..EnsembleConfig::default() };
    let mut ensemble = Ensemble::start(config).await.unwrap();
    let ledgers = [Arc::new(HolderCounts::default()), Arc::new(HolderCounts::default())];
    let mut contenders = tokio::task::JoinSet::new();
    for _ in 0..10 {
        let mutex = |session: &Session| Mutex::new(session, "/locks/mutex").unwrap().into();
        contenders.spawn(contend(ensemble.connect_string(), mutex, Arc::clone(&ledgers[0])));
        let semaphore = |session: &Session| Semaphore::new(session, "/locks/semaphore", 1).unwrap().into();
        contenders.spawn(contend(ensemble.connect_string(), semaphore, Arc::clone(&ledgers[1])));
    }
    let operations = || ledgers.each_ref().map(|ledger| ledger.operations.load(Ordering::SeqCst));
    let grew = |before: [u64; 2]| operations().iter().zip(before).all(|(now, before)| *now > before + 20);
    until("both locks are worked under", async || grew([0, 0])).await;
    for server in 0..3 {
        ensemble.stop_server(server).await.unwrap();
    }
    let holders = || ledgers.iter().map(|ledger| ledger.holders.load(Ordering::SeqCst)).sum::<i64>();
    until("nobody holds", async || holders() == 0).await;
    let stopped_at = operations();
    for server in 0..2 {
        ensemble.start_server(server).await.unwrap();
        assert!(server > 0 || operations() == stopped_at, "somebody works without a quorum");
    }
    until("work goes on", async || grew(stopped_at)).await;
    contenders.shutdown().await;
    assert!(ledgers.iter().all(|ledger| ledger.grants.load(Ordering::SeqCst) > 1));
}
