//! What the log says of acquires and holds, and what `Debug` shows of them.

mod acquires;
mod debug_texts;
mod losses;
mod refusals;

use std::io;
use std::sync::{Arc, LazyLock, Mutex as StdMutex};
use std::time::Duration;

use testbed::{Proxy, ZooKeeper, ZooKeeperConfig};
use tracing::Dispatch;
use tracing::subscriber::{DefaultGuard, NoSubscriber};
use tracing_subscriber::fmt::MakeWriter;
use tracing_subscriber::fmt::format::FmtSpan;
use zk_recipes::{HoldState, Mutex, NaiveLock, Session, SessionConfig};

use crate::support::{Lab, until};

/// The log of this thread, as text.
#[derive(Clone, Default)]
struct Log(Arc<StdMutex<Vec<u8>>>);

/// While there is one subscriber, tracing asks the thread that comes to a line first whether anybody wants it, and the threads of
/// other tests say no.
static SECOND_SUBSCRIBER: LazyLock<Dispatch> = LazyLock::new(|| Dispatch::new(NoSubscriber::default()));

impl Log {
    fn start() -> (Self, DefaultGuard) {
        LazyLock::force(&SECOND_SUBSCRIBER);
        let log = Self::default();
        let subscriber = tracing_subscriber::fmt()
            .with_max_level(tracing::Level::DEBUG)
            .with_span_events(FmtSpan::NEW)
            .with_ansi(false)
            .with_writer(log.clone())
            .finish();
        (log, tracing::subscriber::set_default(subscriber))
    }

    fn text(&self) -> String {
        String::from_utf8(self.0.lock().unwrap().clone()).unwrap()
    }

    /// Returns the lines with all of these.
    fn lines(&self, parts: &[&str]) -> Vec<String> {
        self.text().lines().filter(|line| parts.iter().all(|part| line.contains(part))).map(str::to_owned).collect()
    }

    /// Returns whether there is a line with all of these.
    fn has(&self, parts: &[&str]) -> bool {
        !self.lines(parts).is_empty()
    }

    fn expect(&self, parts: &[&str]) {
        assert!(self.has(parts), "no line has {parts:?}:\n{}", self.text());
    }

    fn expect_once(&self, parts: &[&str]) {
        assert_eq!(self.lines(parts).len(), 1, "not one line has {parts:?}:\n{}", self.text());
    }

    /// Returns how many spans of acquires were opened.
    fn acquires(&self) -> usize {
        let opened = self.lines(&[" acquire{", "zk_recipes::acquire: new"]);
        opened.iter().filter(|line| !line.contains(":part{")).count()
    }
}

impl io::Write for Log {
    fn write(&mut self, text: &[u8]) -> io::Result<usize> {
        self.0.lock().unwrap().extend(text);
        Ok(text.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl<'a> MakeWriter<'a> for Log {
    type Writer = Self;

    fn make_writer(&'a self) -> Self {
        self.clone()
    }
}

#[tokio::test]
async fn an_acquire_has_a_span_until_it_is_granted_or_given_up() {
    let (log, _guard) = Log::start();
    let session = Lab::open().await.session().await;
    let id = format!("session={:#x}", session.id());
    let lock = Mutex::new(&session, "/logs/a").unwrap();
    let held = lock.acquire().await.unwrap();
    let token = format!("token={}", held.token().czxid());
    log.expect(&["DEBUG acquire{lock=\"/logs/a\"", &id, "node=", "granted", &token]);
    assert!(lock.acquire_within(Duration::ZERO).await.unwrap().is_none());
    log.expect(&["acquire{lock=\"/logs/a\"", "gives up"]);
    held.release().await.unwrap();
    let naive = NaiveLock::new(&session, "/logs/naive").unwrap();
    naive.acquire().await.unwrap().release().await.unwrap();
}

#[tokio::test]
async fn suspect_and_lost_holds_and_new_connections_are_logged() {
    let (log, _guard) = Log::start();
    let server = ZooKeeper::start(ZooKeeperConfig::default()).await.unwrap();
    let proxy = Proxy::start(&server.connect_string()).await.unwrap();
    let session = Session::connect(&proxy.connect_string(), SessionConfig::default()).await.unwrap();
    let held = Mutex::new(&session, "/logs/b").unwrap().acquire().await.unwrap();
    let hold = format!("lock=\"/logs/b\" node=\"{}\" token={}", held.node_path(), held.token());
    proxy.cut();
    until("the session is connected again", async || log.has(&["INFO", "connected again"])).await;
    until("the hold is relied on again", async || held.state() == HoldState::Held).await;
    proxy.blackhole();
    held.lost().await;
    until("the loss is logged", async || log.has(&["WARN", "the hold is lost"])).await;
    log.expect(&["INFO", "suspect", &hold]);
    log.expect_once(&["WARN", "the hold is lost", &hold, "reason=Silence"]);
}
