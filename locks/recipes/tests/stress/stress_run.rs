//! The server, the sessions of sessions behind their proxies, and the randomness of a run.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use parking_lot::Mutex;
use rand::SeedableRng;
use rand::rngs::ChaCha8Rng;
use testbed::{Proxy, ZooKeeper, ZooKeeperConfig};
use zk_recipes::{Session, SessionConfig};
use zookeeper_client::{Client, Error};

use crate::record::{Record, Subject};

/// The session timeouts of the sessions. None is shorter than two ticks, so each is granted.
const TIMEOUTS: [Duration; 5] = [
    Duration::from_millis(2000),
    Duration::from_millis(2000),
    Duration::from_millis(2500),
    Duration::from_millis(3000),
    Duration::from_millis(4000),
];

/// The timeout of the sessions that must outlive every fault.
const LASTING: Duration = Duration::from_secs(120);

/// How long they wait for a server that has just begun to start and may never answer.
const SILENCE: Duration = Duration::from_secs(2);

/// How long an attempt to open a session may take before the next one.
const CONNECT_WITHIN: Duration = Duration::from_secs(3);

/// What all parts of a run share.
#[derive(Debug)]
pub(crate) struct StressRun {
    pub(crate) record: Arc<Record>,
    pub(crate) sessions: Vec<StressSession>,
    /// Where the server is, without a proxy.
    pub(crate) address: String,
    seed: u64,
}

/// A proxy and the session behind it. An ended session is replaced.
#[derive(Debug)]
pub(crate) struct StressSession {
    pub(crate) index: usize,
    pub(crate) proxy: Proxy,
    pub(crate) timeout: Duration,
    session: Mutex<Session>,
    is_silent: AtomicBool,
    holders: AtomicUsize,
}

/// A contender that holds, and that holds on while its session is silent. Dropped, it does so no more.
pub(crate) struct Holder<'a>(&'a StressSession);

impl Drop for Holder<'_> {
    fn drop(&mut self) {
        self.0.holders.fetch_sub(1, Ordering::Relaxed);
    }
}

impl StressRun {
    /// Starts the server and opens the sessions.
    pub(crate) async fn start(seed: u64) -> (Arc<Self>, ZooKeeper) {
        let config = ZooKeeperConfig {
            tick_time: Duration::from_millis(500),
            // Only the run itself deletes the nodes of locks, where that is safe for what it does otherwise.
            container_check_interval: Duration::from_secs(100_000),
            ..ZooKeeperConfig::default()
        };
        let server = ZooKeeper::start(config).await.unwrap();
        let record = Record::new();
        let mut sessions = Vec::new();
        for (index, timeout) in TIMEOUTS.into_iter().enumerate() {
            let proxy = Proxy::start(&server.connect_string()).await.unwrap();
            let session = Mutex::new(connect(&proxy, timeout).await.unwrap());
            let (is_silent, holders) = Default::default();
            sessions.push(StressSession { index, proxy, timeout, session, is_silent, holders });
        }
        let address = server.connect_string();
        (Arc::new(Self { record, sessions, address, seed }), server)
    }

    /// Returns the random choices of one part of the run. They follow from the seed; what comes of them depends on the machine, too.
    pub(crate) fn rng(&self, part: u64) -> ChaCha8Rng {
        let mut rng = ChaCha8Rng::seed_from_u64(self.seed);
        rng.set_stream(part);
        rng
    }

    /// Returns a client whose session outlives every fault.
    pub(crate) async fn raw(&self) -> Client {
        let connector = Client::connector().with_session_timeout(LASTING).with_connection_timeout(SILENCE);
        connector.connect(&self.address).await.unwrap()
    }

    /// Opens another session in the place of one that has ended. Never returns.
    pub(crate) async fn supervise(self: Arc<Self>, session_number: usize) {
        let record = &self.record;
        let supervised = &self.sessions[session_number];
        loop {
            let session = supervised.session();
            let mut states = session.states();
            let id = session.id();
            drop(session);
            while let Some(state) = states.changed().await {
                record.note(Subject::Session(supervised.index), format!("session {id:#x} is {state:?}"));
            }
            record.note(Subject::Session(supervised.index), format!("session {id:#x} has ended"));
            record.count("sessions ended");
            let session = loop {
                match connect(&supervised.proxy, supervised.timeout).await {
                    Ok(session) => break session,
                    Err(error) => record.note(Subject::Session(supervised.index), format!("no session: {error}")),
                }
            };
            record.note(Subject::Session(supervised.index), format!("session {:#x} is open", session.id()));
            *supervised.session.lock() = session;
        }
    }
}

impl StressSession {
    /// Returns the session of the moment, which may have ended.
    pub(crate) fn session(&self) -> Session {
        self.session.lock().clone()
    }

    /// Lets nothing pass as soon as a contender holds that holds on in the silence, or after `time` in any case.
    pub(crate) async fn silence(&self, time: Duration) {
        self.is_silent.store(true, Ordering::Relaxed);
        self.until_holding(time).await;
        self.proxy.blackhole();
    }

    /// Ends the silence.
    pub(crate) fn deliver(&self) {
        self.proxy.deliver();
        self.is_silent.store(false, Ordering::Relaxed);
    }

    /// Returns whether nothing passes, or nothing will soon.
    pub(crate) fn is_silent(&self) -> bool {
        self.is_silent.load(Ordering::Relaxed)
    }

    /// Counts a contender that holds on while the session is silent.
    pub(crate) fn note_holder(&self) -> Holder<'_> {
        self.holders.fetch_add(1, Ordering::Relaxed);
        Holder(self)
    }

    /// Waits for at most `time` until there is such a contender.
    async fn until_holding(&self, time: Duration) {
        let held = async {
            while self.holders.load(Ordering::Relaxed) == 0 {
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
        };
        let _ = tokio::time::timeout(time, held).await;
    }

    /// Waits until there is a session that lives.
    pub(crate) async fn live_session(&self) -> Session {
        loop {
            let session = self.session();
            if !session.is_ended() {
                return session;
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }
}

/// Expects that the session of [`StressRun::raw`] that got an error lives on.
pub(crate) fn expect_lasting(error: &Error) {
    let has_ended = matches!(error, Error::SessionExpired | Error::ClientClosed | Error::AuthFailed);
    assert!(!has_ended, "a session of {LASTING:?} was to outlive every fault: {error}");
}

async fn connect(proxy: &Proxy, timeout: Duration) -> Result<Session, zk_recipes::Error> {
    let config = SessionConfig::default().with_timeout(timeout).with_connect_within(CONNECT_WITHIN);
    Session::connect(&proxy.connect_string(), config).await
}
