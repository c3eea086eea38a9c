//! A count that a server tells late, and a count whose node somebody deletes.

use std::time::Duration;

use testbed::{Ensemble, EnsembleConfig, LinkFault};
use zk_recipes::{Error, HoldState, Semaphore, Session, SessionConfig, SharedCount};

use super::{COUNT, LEASES, PATH, acquiring};
use crate::support::{Lab, soon, until};

/// Long enough to see that nothing comes.
const SHORT: Duration = Duration::from_secs(1);

/// Sessions that outlive the time in which a follower notices that its leader is silent.
async fn session(server: &str) -> Session {
    Session::connect(server, SessionConfig::default().with_timeout(Duration::from_secs(40))).await.unwrap()
}

// L60
#[tokio::test(flavor = "multi_thread")]
async fn a_lowered_count_is_obeyed_although_its_server_lags() {
    // A follower goes on answering from the past for five ticks.
    let config = EnsembleConfig { tick_time: Duration::from_secs(2), links: true, ..EnsembleConfig::default() };
    let ensemble = Ensemble::start(config).await.unwrap();
    let servers = ensemble.connect_strings();
    let leader = ensemble.leader().await.unwrap();
    let follower = (leader + 1) % servers.len();
    let ours = session(&servers[leader]).await;
    let behind = session(&servers[follower]).await;
    let current = SharedCount::new(&ours, COUNT, 2).unwrap();
    let lagging = SharedCount::new(&behind, COUNT, 2).unwrap();
    let semaphore = Semaphore::from_count(&ours, PATH, &lagging).unwrap();
    let first = semaphore.acquire().await.unwrap();

    ensemble.break_link(follower, leader, LinkFault::Blackhole).unwrap();
    current.set(1).await.unwrap();
    assert_eq!(lagging.get().await.unwrap().value, 2, "its server lags");
    let second = semaphore.acquire_within(SHORT).await.unwrap();
    assert!(second.is_none(), "a second permit is {:?}, of one", second.map(|guard| guard.state()));
    let waiting = acquiring(&semaphore);

    ensemble.heal_link(follower, leader).unwrap();
    until("the count has caught up", async || lagging.get().await.unwrap().value == 1).await;
    assert!(!waiting.is_finished(), "a second permit is held, of one");
    assert_eq!(first.state(), HoldState::Held);
    first.release().await.unwrap();
    soon("the permit", waiting).await.unwrap().unwrap().release().await.unwrap();
}

// L61
#[tokio::test(flavor = "multi_thread")]
async fn a_deleted_count_grants_nothing_until_it_is_set() {
    let lab = Lab::open().await;
    let session = lab.session().await;
    let count = SharedCount::new(&session, COUNT, 2).unwrap();
    let semaphore = Semaphore::from_count(&session, PATH, &count).unwrap();
    count.set(1).await.unwrap();
    let held = semaphore.acquire().await.unwrap();
    let waiting = acquiring(&semaphore);
    lab.until_children(LEASES, 2).await;

    lab.raw.delete(COUNT, None).await.unwrap();
    let told = [
        soon("the news", waiting).await.unwrap().map(drop),
        semaphore.acquire().await.map(drop),
        semaphore.try_acquire().await.map(drop),
        count.get().await.map(drop),
    ];
    for told in told {
        let Err(Error::CountDeleted { path, .. }) = &told else { panic!("{told:?}") };
        assert_eq!(path, COUNT);
    }
    assert_eq!(lab.raw.check_stat(COUNT).await.unwrap(), None, "nobody made it anew");
    assert_eq!(held.state(), HoldState::Held);

    count.set(2).await.unwrap();
    soon("the other permit", semaphore.acquire()).await.unwrap().release().await.unwrap();
    held.release().await.unwrap();
}
