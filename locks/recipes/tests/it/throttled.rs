//! A server with too much to do: it refuses requests that have waited (`requestThrottled`), and has not carried them out.

use std::time::{Duration, Instant};

use futures_util::future::{join_all, try_join_all};
use testbed::{Proxy, ZooKeeper, ZooKeeperConfig};
use tokio::task::JoinSet;
use zk_recipes::{ConnectionState, Error, Mutex, Semaphore, Session, SessionConfig, SharedCount};
use zookeeper_client::{Client, Error as ClientError};

use crate::support::{RECIPES, soon, until};

const CONTENDERS: usize = 6;
/// The timeout of sessions that live through long waits for a busy server.
const TIMEOUT: Duration = Duration::from_secs(40);

async fn throttling_server() -> ZooKeeper {
    let properties = ZooKeeperConfig::THROTTLING;
    ZooKeeper::start(ZooKeeperConfig { properties, ..ZooKeeperConfig::default() }).await.unwrap()
}

async fn session(servers: &str, timeout: Duration) -> Session {
    Session::connect(servers, SessionConfig::default().with_timeout(timeout)).await.unwrap()
}

async fn sessions(server: &ZooKeeper) -> Vec<Session> {
    let config = SessionConfig::default().with_timeout(TIMEOUT);
    let connects = (0..CONTENDERS).map(async |_| Session::connect(&server.connect_string(), config.clone()).await);
    try_join_all(connects).await.unwrap()
}

async fn throttled(server: &ZooKeeper) -> u64 {
    server.metric("zk_throttled_ops").await.unwrap()
}

/// Repeats a round until the server throttles one of its requests.
async fn until_throttled(server: &ZooKeeper, mut round: impl AsyncFnMut()) {
    let before = throttled(server).await;
    until("a request is throttled", async || {
        round().await;
        throttled(server).await > before
    })
    .await;
}

/// Clients that keep a server busy until they are dropped. It throttles nearly every request meanwhile.
struct BusyClients {
    _requests: JoinSet<()>,
}

impl BusyClients {
    async fn at(server: &ZooKeeper) -> Self {
        let mut requests = JoinSet::new();
        // While one of them reads its answers, the requests of the others wait.
        for _ in 0..10 {
            let client = Client::connect(&server.connect_string()).await.unwrap();
            for _ in 0..90 {
                let client = client.clone();
                requests.spawn(async move {
                    while let Ok(_) | Err(ClientError::Throttled) = client.check_stat("/").await {}
                });
            }
        }
        let before = throttled(server).await;
        until("the crowd is throttled", async || throttled(server).await > before + 1000).await;
        Self { _requests: requests }
    }
}

// L47
#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_throttles_fails_no_acquire() {
    let server = throttling_server().await;
    let sessions = sessions(&server).await;
    for recipe in RECIPES {
        until_throttled(&server, async || {
            let turns = sessions
                .iter()
                .map(async |session| recipe.lock(session, recipe.path()).acquire().await?.release().await);
            let turns = soon("all turns", join_all(turns)).await;
            let failures: Vec<_> = turns.into_iter().filter_map(Result::err).collect();
            assert!(failures.is_empty(), "{} of {CONTENDERS} for {recipe:?}: {failures:?}", failures.len());
        })
        .await;
    }
}

// L47
#[tokio::test(flavor = "multi_thread")]
async fn an_acquire_that_is_throttled_keeps_its_deadline() {
    let server = throttling_server().await;
    let sessions = sessions(&server).await;
    for recipe in RECIPES {
        let barrier = recipe.barrier(&sessions[0], recipe.path()).acquire().await.unwrap();
        until_throttled(&server, async || {
            let waits = sessions[1..].iter().map(async |session| {
                let wait = Duration::from_millis(200);
                let asked = Instant::now();
                let outcome = recipe.lock(session, recipe.path()).acquire_within(wait).await;
                let took = asked.elapsed();
                // The documented bound is a quarter of the session timeout later; the rest is for a busy machine.
                let bound = wait + TIMEOUT / 4 + Duration::from_secs(10);
                assert!(took >= wait && took < bound, "{recipe:?}: {took:?}");
                outcome
            });
            for outcome in soon("all deadlines", join_all(waits)).await {
                assert!(matches!(outcome, Ok(None) | Err(Error::Unconfirmed { .. })), "{recipe:?}: {outcome:?}");
            }
        })
        .await;
        barrier.release().await.unwrap();
    }
}

// L47
#[tokio::test(flavor = "multi_thread")]
async fn permits_and_counts_are_had_from_a_server_that_throttles() {
    let server = throttling_server().await;
    let sessions = sessions(&server).await;
    until_throttled(&server, async || {
        let turns = sessions.iter().map(async |session| {
            let count = SharedCount::new(session, "/count", 4)?;
            let permits = Semaphore::from_count(session, "/permits", &count)?;
            permits.acquire_many(3).await?.release().await?;
            let seen = count.get().await?;
            count.try_set(seen, seen.value).await.map(drop)
        });
        for outcome in soon("all turns", join_all(turns)).await {
            outcome.unwrap();
        }
    })
    .await;
}

// L45
#[tokio::test(flavor = "multi_thread")]
async fn a_session_leaves_a_server_that_goes_on_throttling() {
    let server = throttling_server().await;
    let moves = [false, true].map(async |is_held| {
        let other = Proxy::start(&server.connect_string()).await.unwrap();
        let throttling = Proxy::start(&server.connect_string()).await.unwrap();
        throttling.refuse();
        let servers = [other.connect_string(), throttling.connect_string()].join(",");
        let session = session(&servers, TIMEOUT / 2).await;
        let path = format!("/locks/{is_held}");
        let held = match is_held {
            true => Some(Mutex::new(&session, &path).unwrap().acquire().await.unwrap()),
            false => None,
        };
        (other, throttling, session, held)
    });
    let moves = join_all(moves).await;
    let crowd = BusyClients::at(&server).await;
    for (other, throttling, ..) in &moves {
        throttling.accept();
        other.refuse();
        other.cut();
    }
    let leaves = moves.iter().map(async |(other, throttling, session, _)| {
        // The session that asks says less than this. What more comes is of the session itself, which is repeated.
        soon("the move", throttling.until(|traffic| traffic.bytes_to_server > 300)).await;
        other.accept();
        let before = other.bytes_to_server();
        let since = Instant::now();
        // By luck, a request may be carried out.
        until("the session asks the other server", async || {
            other.bytes_to_server() > before || session.state() == ConnectionState::Connected
        })
        .await;
        // It stays for a quarter of its timeout.
        assert!(since.elapsed() < session.timeout(), "{:?}", since.elapsed());
    });
    join_all(leaves).await;
    drop(crowd);
    for (_, _, session, _) in &moves {
        until("the session is back", async || session.state() == ConnectionState::Connected).await;
    }
}

/// What a session says over a proxy while a crowd keeps its server busy.
struct Said<'a> {
    proxy: &'a Proxy,
    before: u64,
    since: Instant,
}

impl<'a> Said<'a> {
    fn from_now_on(proxy: &'a Proxy) -> Self {
        Self { proxy, before: proxy.bytes_to_server(), since: Instant::now() }
    }

    /// Waits until the session has said as much, and returns the time since the start.
    async fn until_bytes(&self, bytes: u64) -> Duration {
        soon("the requests", self.proxy.until(|traffic| traffic.bytes_to_server >= self.before + bytes)).await;
        self.since.elapsed()
    }
}

// L46
#[tokio::test(flavor = "multi_thread")]
async fn a_throttled_sign_of_life_is_repeated_soon() {
    const SIGN_BYTES: u64 = 18;
    let server = throttling_server().await;
    let proxy = Proxy::start(&server.connect_string()).await.unwrap();
    let session = session(&proxy.connect_string(), TIMEOUT).await;
    let _crowd = BusyClients::at(&server).await;
    Said::from_now_on(&proxy).until_bytes(SIGN_BYTES).await;
    let took = Said::from_now_on(&proxy).until_bytes(8 * SIGN_BYTES).await;
    // Other signs are a twentieth of the timeout apart.
    assert!(took < session.timeout() / 20 * 7, "{took:?}");
}

// L48
#[tokio::test(flavor = "multi_thread")]
async fn a_release_does_not_pause_as_its_acquire_did() {
    const CREATE_BYTES: u64 = 150;
    const DELETION_BYTES: u64 = 84;
    let server = throttling_server().await;
    let proxy = Proxy::start(&server.connect_string()).await.unwrap();
    // It shows rarely that it lives, so nearly all bytes are those of the lock.
    let session = session(&proxy.connect_string(), 6 * TIMEOUT).await;
    let lock = Mutex::new(&session, "/locks/a").unwrap();
    lock.acquire().await.unwrap().release().await.unwrap();
    let crowd = BusyClients::at(&server).await;
    let said = Said::from_now_on(&proxy);
    let mut acquiring = tokio::spawn(async move { lock.acquire().await });
    let held = tokio::select! {
        // By then the pauses of the acquire last a second.
        _ = said.until_bytes(9 * CREATE_BYTES) => None,
        // By luck, a `create` may be carried out.
        acquired = &mut acquiring => Some(acquired),
    };
    drop(crowd);
    let held = match held {
        Some(acquired) => acquired,
        None => soon("the grant", acquiring).await,
    };
    let held = held.unwrap().unwrap();
    let crowd = BusyClients::at(&server).await;
    let said = Said::from_now_on(&proxy);
    let mut releasing = tokio::spawn(held.release());
    tokio::select! {
        // Six pauses lie between seven deletions. If they begin anew, they are 0.63 s at most.
        took = said.until_bytes(7 * DELETION_BYTES) => assert!(took < Duration::from_secs(5), "{took:?}"),
        // By luck, a deletion may be carried out.
        released = &mut releasing => return released.unwrap().unwrap(),
    }
    drop(crowd);
    soon("the release", releasing).await.unwrap().unwrap();
}
