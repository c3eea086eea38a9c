//! What a hold lives on: it is lost before the servers can let another contender in, whatever they do.

use std::sync::{Arc, Mutex as StdMutex};
use std::time::{Duration, Instant};

use futures_util::future::join_all;
use testbed::{Ensemble, EnsembleConfig, LinkFault, Proxy, ZooKeeper, ZooKeeperConfig};
use zk_recipes::{Error, HoldState, LockGuard, LostReason, Mutex, Session, SessionConfig};

use crate::support::{soon, until};

/// The shortest that servers with this tick grant.
const TIMEOUT: Duration = Duration::from_secs(1);

fn quick() -> EnsembleConfig {
    EnsembleConfig { tick_time: TIMEOUT / 2, ..EnsembleConfig::default() }
}

fn session_config(timeout: Duration) -> SessionConfig {
    SessionConfig::default().with_timeout(timeout)
}

/// A critical section that notes its last step.
struct Section {
    last_step: Arc<StdMutex<Instant>>,
    running: tokio::task::JoinHandle<(LockGuard, Result<(), Error>)>,
}

impl Section {
    fn enter(held: LockGuard) -> Self {
        let last_step = Arc::new(StdMutex::new(Instant::now()));
        let step = Arc::clone(&last_step);
        let running = tokio::spawn(async move {
            let endless = async {
                loop {
                    *step.lock().unwrap() = Instant::now();
                    tokio::time::sleep(Duration::from_millis(1)).await;
                }
            };
            let ran = held.run(endless).await;
            (held, ran)
        });
        Self { last_step, running }
    }

    /// Expects that the section was stopped by a silence before `granted`.
    async fn expect_stopped_before(self, granted: Instant) {
        let last_step = *self.last_step.lock().unwrap();
        assert!(last_step < granted, "{:?} beside another holder, or more", last_step - granted);
        let (held, ran) = soon("the end of the section", self.running).await.unwrap();
        assert!(matches!(ran, Err(Error::HoldLost { reason: LostReason::Silence, .. })), "{ran:?}");
        assert!(matches!(held.state(), HoldState::Lost(_)), "{:?}", held.state());
    }
}

/// A holder of one of the locks, and a contender that waits for it at another server.
struct Round {
    session: Session,
    section: Section,
    next: tokio::task::JoinHandle<(LockGuard, Instant)>,
}

impl Round {
    async fn begin(session: Session, other: &Session, path: &str) -> Self {
        let held = Mutex::new(&session, path).unwrap().acquire().await.unwrap();
        Self::with_hold(session, held, other, path)
    }

    fn with_hold(session: Session, held: LockGuard, other: &Session, path: &str) -> Self {
        let section = Section::enter(held);
        let lock = Mutex::new(other, path).unwrap();
        let next = tokio::spawn(async move {
            let held = lock.acquire().await.unwrap();
            (held, Instant::now())
        });
        Self { session, section, next }
    }

    /// Has a quorum commit something for the first holder's session.
    async fn write(&self) {
        let path = format!("/other/{:x}", self.session.id());
        match Mutex::new(&self.session, &path).unwrap().acquire().await {
            // The quorum has committed its node, also if the hold is lost by now.
            Ok(held) => drop(held.release().await),
            // A busy machine may stand still for longer than this session lives. No hold may overlap then, either.
            Err(error) => assert!(self.session.is_ended(), "{error}"),
        }
    }

    /// Expects that the first holder has stopped when the other one holds.
    async fn expect_no_overlap(self) -> Session {
        let (next, granted) = soon("the next holder", self.next).await.unwrap();
        self.section.expect_stopped_before(granted).await;
        next.release().await.unwrap();
        self.session
    }
}

// L36
#[tokio::test(flavor = "multi_thread")]
async fn holds_are_lost_in_time_behind_a_follower_that_stands_still() {
    let ensemble = Ensemble::start(quick()).await.unwrap();
    let leader = ensemble.leader().await.unwrap();
    let servers = ensemble.connect_strings();
    let follower = (leader + 1) % servers.len();
    let other = Session::connect(&servers[leader], session_config(TIMEOUT * 20)).await.unwrap();
    for _ in 0..6 {
        let proxy = Proxy::start(&servers[follower]).await.unwrap();
        let mut rounds = Vec::new();
        // The leader expires sessions once a tick. For some of these timeouts that is right after they are over.
        for i in 0..10 {
            let config = session_config(TIMEOUT + TIMEOUT / 20 * i);
            let session = Session::connect(&proxy.connect_string(), config).await.unwrap();
            rounds.push(Round::begin(session, &other, &format!("/locks/{i}")).await);
        }
        // Each has a new proof, and the follower's next ping to the leader may be due at any time after that.
        futures_util::future::join_all(rounds.iter().map(Round::write)).await;
        ensemble.pause(follower).unwrap();
        let sessions = futures_util::future::join_all(rounds.into_iter().map(Round::expect_no_overlap)).await;
        ensemble.resume(follower).unwrap();
        for session in sessions {
            until("the session is known to have ended", async || session.is_ended()).await;
        }
    }
}

// L36
#[tokio::test(flavor = "multi_thread")]
async fn holds_are_lost_in_time_under_a_deposed_leader() {
    let ensemble = Ensemble::start(EnsembleConfig { links: true, ..quick() }).await.unwrap();
    let servers = ensemble.connect_strings();
    let leader = ensemble.leader().await.unwrap();
    // It has servers to go to, and outlives the election.
    let elsewhere = [(leader + 1) % 3, (leader + 2) % 3].map(|server| servers[server].as_str()).join(",");
    let other = Session::connect(&elsewhere, session_config(TIMEOUT * 20)).await.unwrap();
    let session = Session::connect(&servers[leader], session_config(TIMEOUT)).await.unwrap();
    let round = Round::begin(session, &other, "/locks/deposed").await;
    round.write().await;
    ensemble.isolate(leader, LinkFault::HalfOpen).unwrap();
    round.expect_no_overlap().await;
}

// L36
#[tokio::test(flavor = "multi_thread")]
async fn a_hold_counts_on_the_shorter_timeout_of_a_restarted_server() {
    let long = TIMEOUT * 20;
    let mut server =
        ZooKeeper::start(ZooKeeperConfig { tick_time: TIMEOUT / 2, ..ZooKeeperConfig::default() }).await.unwrap();
    let proxy = Proxy::start(&server.connect_string()).await.unwrap();
    let session = Session::connect(&proxy.connect_string(), session_config(long)).await.unwrap();
    assert_eq!(session.timeout(), long);
    let held = Mutex::new(&session, "/locks/a").unwrap().acquire().await.unwrap();
    server.stop().await.unwrap();
    server.set_session_timeouts(TIMEOUT..=TIMEOUT * 2).unwrap();
    server.start_again().await.unwrap();
    until("the session is back", async || held.state() == HoldState::Held).await;
    assert_eq!(session.timeout(), TIMEOUT * 2);
    let other = Session::connect(&server.connect_string(), session_config(long)).await.unwrap();
    let round = Round::with_hold(session, held, &other, "/locks/a");
    until("another one waits", async || {
        Mutex::new(&other, "/locks/a").unwrap().participants().await.unwrap().len() == 2
    })
    .await;
    proxy.blackhole();
    round.expect_no_overlap().await;
}

/// The handshake of the new connection reaches the server, and its answer does not come back.
// L36
#[tokio::test(flavor = "multi_thread")]
async fn a_shorter_timeout_counts_before_its_handshake_is_answered() {
    let long = TIMEOUT * 20;
    let rounds = (1..=3).map(async |bytes| {
        let config = ZooKeeperConfig {
            tick_time: TIMEOUT / 2,
            session_timeouts: Some(TIMEOUT..=long),
            ..ZooKeeperConfig::default()
        };
        let mut server = ZooKeeper::start(config).await.unwrap();
        let proxy = Proxy::start(&server.connect_string()).await.unwrap();
        let session = Session::connect(&proxy.connect_string(), session_config(long)).await.unwrap();
        let held = Mutex::new(&session, "/locks/a").unwrap().acquire().await.unwrap();
        server.stop().await.unwrap();
        server.set_session_timeouts(TIMEOUT..=TIMEOUT * 2).unwrap();
        proxy.refuse();
        server.start_again().await.unwrap();
        let other = Session::connect(&server.connect_string(), session_config(TIMEOUT * 2)).await.unwrap();
        let round = Round::with_hold(session, held, &other, "/locks/a");
        let before = proxy.bytes_to_server();
        proxy.accept();
        // What the session says until it is connected again is less than 50 bytes a step.
        proxy.until(|traffic| traffic.bytes_to_server >= before + bytes * 50 - 49).await;
        proxy.blackhole();
        round.expect_no_overlap().await;
    });
    join_all(rounds).await;
}

// L44
#[tokio::test(flavor = "multi_thread")]
async fn a_hold_survives_although_two_of_three_servers_stop_answering() {
    let timeout = TIMEOUT * 8;
    let server = ZooKeeper::start(ZooKeeperConfig::default()).await.unwrap();
    let mut proxies = Vec::new();
    for _ in 0..3 {
        proxies.push(Proxy::start(&server.connect_string()).await.unwrap());
    }
    let servers: Vec<String> = proxies.iter().map(Proxy::connect_string).collect();
    let session = Session::connect(&servers.join(","), session_config(timeout)).await.unwrap();
    let held = Mutex::new(&session, "/locks/a").unwrap().acquire().await.unwrap();
    let used = proxies.iter().position(|proxy| proxy.connections() > 0).unwrap();
    for dead in [used, (used + 1) % 3] {
        proxies[dead].blackhole();
    }
    until("the session has left the first server", async || held.state() == HoldState::Suspect).await;
    until("the session is back", async || held.state() != HoldState::Suspect).await;
    assert_eq!(held.state(), HoldState::Held);
    held.release().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_session_with_a_hold_sends_few_requests_from_the_start() {
    let timeout = TIMEOUT * 4;
    let server = ZooKeeper::start(ZooKeeperConfig::default()).await.unwrap();
    let session = Session::connect(&server.connect_string(), session_config(timeout)).await.unwrap();
    let held = Mutex::new(&session, "/locks/a").unwrap().acquire().await.unwrap();
    let begun = Instant::now();
    let before = server.metric("zk_packets_received").await.unwrap();
    until("a session timeout has passed", async || begun.elapsed() > timeout).await;
    let requests = server.metric("zk_packets_received").await.unwrap() - before;
    let timeouts = begun.elapsed().as_millis().div_ceil(timeout.as_millis());
    // A proof each fifth of the timeout, a read each twelfth, and pings of the client library if one of them is late.
    assert!(u128::from(requests) <= 25 * timeouts, "{requests} requests in {timeouts} timeouts");
    assert_eq!(held.state(), HoldState::Held);
    held.release().await.unwrap();
}

/// A session without holds asks for no proofs.
#[tokio::test(flavor = "multi_thread")]
async fn a_session_without_holds_avoids_a_deposed_leader() {
    let ensemble = Ensemble::start(EnsembleConfig { links: true, ..EnsembleConfig::default() }).await.unwrap();
    let servers = ensemble.connect_strings();
    let old = ensemble.leader().await.unwrap();
    let follower = (old + 1) % 3;
    let near = Proxy::start(&servers[follower]).await.unwrap();
    let far = Proxy::start(&servers[old]).await.unwrap();
    far.refuse();
    let cluster = [near.connect_string(), far.connect_string()].join(",");
    let session = Session::connect(&cluster, session_config(TIMEOUT * 20)).await.unwrap();
    let elsewhere = [(old + 1) % 3, (old + 2) % 3].map(|server| servers[server].as_str()).join(",");
    let other = Session::connect(&elsewhere, session_config(TIMEOUT * 20)).await.unwrap();
    ensemble.isolate(old, LinkFault::HalfOpen).unwrap();
    // The deposed leader knows nothing of these.
    let held = soon("the other session", Mutex::new(&other, "/locks/a").unwrap().acquire()).await.unwrap();
    let mut waiting = Box::pin(soon("the contender", async {
        let queued = Mutex::new(&session, "/locks/a").unwrap().enqueue().await.unwrap();
        queued.granted().await
    }));
    until("the contender queues", async || {
        assert!(futures_util::poll!(&mut waiting).is_pending());
        Mutex::new(&other, "/locks/a").unwrap().participants().await.unwrap().len() == 2
    })
    .await;
    near.refuse();
    far.accept();
    near.cut();
    until("the session has tried the deposed leader", async || far.traffic().bytes_to_server > 0).await;
    assert!(futures_util::poll!(&mut waiting).is_pending());
    near.accept();
    held.release().await.unwrap();
    waiting.await.unwrap().release().await.unwrap();
}
