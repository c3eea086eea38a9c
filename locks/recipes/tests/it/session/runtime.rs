//! Locks that are used from another Tokio runtime than the one that their session was connected in, or from none.

use std::pin::pin;
use std::sync::{Arc, mpsc};
use std::task::{Context, Poll, Wake, Waker};
use std::thread::{self, Thread};
use std::time::{Duration, Instant};

use futures_util::future::join;

use testbed::{ZooKeeper, ZooKeeperConfig};
use tokio::runtime::{Builder, Runtime};
use zk_recipes::{Error, HoldState, LostReason, Mutex, Session, SessionConfig};

use crate::support::{RECIPES, soon, until};

const PATH: &str = "/locks/a";

fn runtime(workers: usize) -> Runtime {
    Builder::new_multi_thread().worker_threads(workers).enable_all().build().unwrap()
}

async fn server() -> ZooKeeper {
    let tick_time = Duration::from_millis(500);
    ZooKeeper::start(ZooKeeperConfig { tick_time, ..ZooKeeperConfig::default() }).await.unwrap()
}

/// Returns a session that lives in `home`.
fn session_in(home: &Runtime, server: &ZooKeeper, timeout: Duration) -> Session {
    let config = SessionConfig::default().with_timeout(timeout);
    home.block_on(Session::connect(&server.connect_string(), config)).unwrap()
}

// L52
#[test]
fn other_runtimes_are_told_when_the_session_s_runtime_ends() {
    let home = runtime(1);
    let elsewhere = runtime(2);
    let server = elsewhere.block_on(server());
    // So long that nobody learns of it by the silence.
    let timeout = Duration::from_secs(120);
    let session = session_in(&home, &server, timeout);
    let other = session_in(&elsewhere, &server, timeout);
    elsewhere.block_on(async {
        let taken = Mutex::new(&other, PATH).unwrap().acquire().await.unwrap();
        let held = Mutex::new(&session, "/locks/b").unwrap().acquire().await.unwrap();
        let waiting = tokio::spawn({
            let mutex = Mutex::new(&session, PATH).unwrap();
            async move { mutex.acquire().await.map(drop) }
        });
        until("it watches", async || server.metric("zk_watch_count").await.unwrap() == 1).await;
        let running = tokio::spawn(async move { (held.run(std::future::pending::<()>()).await, held) });
        home.shutdown_background();
        let waited = soon("the waiter", waiting).await.expect("the waiter must not panic");
        assert!(matches!(waited, Err(Error::SessionEnded { reason: LostReason::RuntimeEnded, .. })), "{waited:?}");
        let (ran, held) = soon("the holder", running).await.unwrap();
        assert!(matches!(ran, Err(Error::HoldLost { reason: LostReason::RuntimeEnded, .. })), "{ran:?}");
        assert_eq!(held.state(), HoldState::Lost(LostReason::RuntimeEnded));
        assert!(session.is_ended());
        let fresh = soon("the answer", Mutex::new(&session, "/locks/c").unwrap().acquire()).await;
        assert!(matches!(fresh, Err(Error::SessionEnded { reason: LostReason::RuntimeEnded, .. })), "{fresh:?}");
        assert!(matches!(soon("the release", held.release()).await, Err(Error::HoldLost { .. })));
        taken.release().await.unwrap();
    });
}

#[test]
fn a_section_stops_in_time_although_its_runtime_is_blocked() {
    let home = runtime(1);
    let elsewhere = runtime(2);
    let server = elsewhere.block_on(server());
    let session = session_in(&home, &server, Duration::from_secs(2));
    let held = elsewhere.block_on(Mutex::new(&session, PATH).unwrap().acquire()).unwrap();
    let (unblock, blocked) = mpsc::channel::<()>();
    let (begun, has_begun) = mpsc::channel();
    home.spawn(async move {
        begun.send(Instant::now()).unwrap();
        let _ = blocked.recv();
    });
    let begun = has_begun.recv().unwrap();
    let ran = elsewhere.block_on(async { soon("the loss", held.run(std::future::pending::<()>())).await });
    assert!(matches!(ran, Err(Error::HoldLost { reason: LostReason::Silence, .. })), "{ran:?}");
    assert!(begun.elapsed() <= session.timeout(), "lost only after {:?}", begun.elapsed());
    drop(unblock);
    drop(elsewhere.block_on(async { soon("the release", held.release()).await }));
}

/// Wakes a thread that polls a future without any runtime.
struct Unpark(Thread);

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}

/// Polls a future to its end, as an executor does that knows nothing of Tokio.
fn block_on<F: Future>(future: F) -> F::Output {
    let mut future = pin!(future);
    let waker = Waker::from(Arc::new(Unpark(thread::current())));
    loop {
        match future.as_mut().poll(&mut Context::from_waker(&waker)) {
            Poll::Ready(output) => return output,
            Poll::Pending => thread::park(),
        }
    }
}

// L21
#[test]
fn every_lock_is_used_by_an_executor_other_than_tokio() {
    let home = runtime(2);
    let server = home.block_on(server());
    let timeout = Duration::from_secs(20);
    let session = session_in(&home, &server, timeout);
    let other = session_in(&home, &server, timeout);
    block_on(async {
        for recipe in RECIPES {
            let lock = recipe.lock(&session, recipe.path());
            let barrier = recipe.barrier(&session, recipe.path());
            let held = barrier.acquire().await.unwrap();
            assert!(lock.try_acquire().await.unwrap().is_none());
            assert!(lock.acquire_within(Duration::from_millis(50)).await.unwrap().is_none());
            let elsewhere = recipe.lock(&other, recipe.path());
            let release = async {
                // The contender takes its steps meanwhile, until it watches.
                for _ in 0..8 {
                    session.ping(Duration::from_secs(20)).await.unwrap();
                }
                held.run(async {}).await.unwrap();
                held.release().await.unwrap();
            };
            let (next, ()) = join(lock.acquire_within(Duration::from_secs(120)), release).await;
            drop(next.unwrap().expect("nobody else holds"));
            elsewhere.acquire().await.unwrap().release().await.unwrap();
        }
        session.ping(Duration::from_secs(20)).await.unwrap();
        let held = Mutex::new(&session, PATH).unwrap().acquire().await.unwrap();
        let (reason, closed) = join(held.lost(), session.close()).await;
        assert_eq!(reason, LostReason::Closed);
        closed.unwrap();
    });
}
