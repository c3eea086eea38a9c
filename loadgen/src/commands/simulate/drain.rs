//! Real drains of a throwaway ZooKeeper: waiters queue for one lock of the library, each holds it once, and the time and
//! traffic are measured.

use std::future::{Future as _, poll_fn};
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use simulation::{Point, Recipe};
use stats::{as_f64, median};
use testbed::{ZooKeeper, ZooKeeperConfig};
use tokio::task::JoinSet;
use zk_recipes::{AnyLock, CohortMutex, HandoffMutex, LockGuard, Mutex, NaiveLock, Session, SessionConfig, Traffic};

use crate::error::Error;

/// Long enough for a machine that is busy with thousands of sessions.
const SESSION_TIMEOUT: Duration = Duration::from_secs(40);
/// How many sessions are opened at a time.
const OPENED_AT_ONCE: usize = 64;
/// If the waiters have not all asked and watched by then, they are too many for the machine.
const QUEUED_WITHIN: Duration = Duration::from_secs(120);
const DRAINED_WITHIN: Duration = Duration::from_secs(600);
const POLL: Duration = Duration::from_millis(1);
/// Counters have settled if they have not moved for this time.
const SETTLED_AFTER: Duration = Duration::from_millis(20);
/// How long no waiter has had an answer before the server is asked whether all watch again. The question costs the server
/// time.
const QUIET_AFTER: Duration = Duration::from_millis(2);

/// A throwaway server, for one drain after the other.
pub(crate) struct DrainServer {
    server: Arc<ZooKeeper>,
    drains: u32,
}

/// The server and the waiters of a drain, as all its tasks see them.
struct Cast {
    server: Arc<ZooKeeper>,
    recipe: Recipe,
    /// Waiters that have asked for the lock.
    asked: AtomicU32,
    /// The number of waiters of each session that have not been granted yet.
    waiting: Vec<AtomicU32>,
    began: Instant,
    /// When a waiter last had an answer or a notification, in nanoseconds since it began.
    stirred_ns: AtomicU64,
}

/// One hold, as its holder saw it.
struct Hold {
    granted: Instant,
    /// When all other waiters watched again.
    all_back: Instant,
    release_called: Instant,
    released: Instant,
}

type BoxError = Box<dyn std::error::Error + Send + Sync>;

impl DrainServer {
    /// Starts the server.
    pub(crate) async fn start() -> Result<DrainServer, Error> {
        let server = Arc::new(ZooKeeper::start(ZooKeeperConfig::default()).await?);
        Ok(DrainServer { server, drains: 0 })
    }

    /// Runs a drain: `waiters` contenders, assigned to `sessions` sessions in turns, queue for one lock, and each holds it
    /// once.
    pub(crate) async fn drain(&mut self, recipe: Recipe, waiters: u32, sessions: u32) -> Result<Point, Error> {
        self.drains += 1;
        let path = format!("{}/{:04}", simulation::PARENT, self.drains);
        let measured = tokio::time::timeout(DRAINED_WITHIN, self.measure(recipe, waiters, sessions, &path)).await;
        let measured = measured.unwrap_or_else(|_| Err(late("it was not over", DRAINED_WITHIN)));
        measured.map_err(|source| Error::Drain { recipe: recipe.name(), waiters, source })
    }

    async fn measure(&self, recipe: Recipe, waiters: u32, sessions: u32, path: &str) -> Result<Point, BoxError> {
        let opened = open(&self.server.connect_string(), sessions).await?;
        self.make_parents(recipe, path).await?;
        let locks: Vec<AnyLock> = opened.iter().map(|session| lock(recipe, session, path)).collect::<Result<_, _>>()?;
        let cast = Arc::new(Cast {
            server: Arc::clone(&self.server),
            recipe,
            asked: AtomicU32::new(0),
            waiting: locks.iter().map(|_| AtomicU32::new(0)).collect(),
            began: Instant::now(),
            stirred_ns: AtomicU64::new(0),
        });

        let traffic_before = traffic(&opened);
        let notifications_before = self.notifications().await?;
        let first = locks[0].acquire().await?;
        let mut tasks = JoinSet::new();
        for contender in 1..waiters as usize {
            let session = contender % locks.len();
            cast.waiting[session].fetch_add(1, Ordering::Relaxed);
            let cast = Arc::clone(&cast);
            let lock = locks[session].clone();
            tasks.spawn(async move { cast.hold_once(&lock, session).await });
        }
        self.until_queued(&cast, waiters, &mut tasks).await?;
        let began = Instant::now();
        let mut holds = vec![give_back(first, began, began).await?];
        while let Some(hold) = tasks.join_next().await {
            holds.push(hold??);
        }
        self.settle(&opened).await?;

        let exchanged = traffic(&opened);
        let notifications = self.notifications().await? - notifications_before;
        for session in opened {
            session.close().await?;
        }
        let (handover_ms, drain_ms) = times(holds);
        Ok(Point {
            waiters,
            sessions,
            notifications,
            requests: exchanged.requests - traffic_before.requests,
            bytes: exchanged.bytes_sent + exchanged.bytes_received
                - traffic_before.bytes_sent
                - traffic_before.bytes_received,
            handover_ms,
            drain_ms,
        })
    }

    /// Acquires the lock once in another session, so that no waiter has to create its parents.
    async fn make_parents(&self, recipe: Recipe, path: &str) -> Result<(), BoxError> {
        let session = connect(&self.server.connect_string()).await?;
        lock(recipe, &session, path)?.acquire().await?.release().await?;
        session.close().await?;
        Ok(())
    }

    /// Waits until every waiter has asked for the lock and has its watch.
    async fn until_queued(
        &self,
        cast: &Cast,
        waiters: u32,
        tasks: &mut JoinSet<Result<Hold, BoxError>>,
    ) -> Result<(), BoxError> {
        let began = Instant::now();
        let watches = cast.watches_expected(waiters - 1);
        while cast.asked.load(Ordering::Acquire) < waiters - 1 || self.server.metric("zk_watch_count").await? < watches
        {
            match tasks.try_join_next() {
                Some(Ok(Err(failure))) => return Err(failure),
                Some(_) => return Err("a waiter was granted the lock while another held it".into()),
                None if began.elapsed() > QUEUED_WITHIN => {
                    return Err(late("the queue was not complete", QUEUED_WITHIN));
                }
                None => tokio::time::sleep(POLL).await,
            }
        }
        Ok(())
    }

    /// Waits until the last notifications have come.
    async fn settle(&self, sessions: &[Session]) -> Result<(), BoxError> {
        let mut before = None;
        loop {
            let now = (self.notifications().await?, traffic(sessions));
            if before == Some(now) {
                return Ok(());
            }
            before = Some(now);
            tokio::time::sleep(SETTLED_AFTER).await;
        }
    }

    async fn notifications(&self) -> Result<u64, BoxError> {
        let fired = self.server.metrics().await?.watches_fired_total();
        fired.ok_or_else(|| "the server does not count watch events".into())
    }
}

impl Cast {
    async fn hold_once(&self, lock: &AnyLock, session: usize) -> Result<Hold, BoxError> {
        let mut acquiring = pin!(lock.acquire());
        let mut has_asked = false;
        let held = poll_fn(|context| {
            let polled = acquiring.as_mut().poll(context);
            // After one poll, the waiter is in the queue of its process, or has sent its first request.
            if !std::mem::replace(&mut has_asked, true) {
                self.asked.fetch_add(1, Ordering::Release);
            }
            self.stir();
            polled
        })
        .await?;
        let granted = Instant::now();
        self.waiting[session].fetch_sub(1, Ordering::AcqRel);
        let all_back = match self.recipe {
            Recipe::Naive => self.until_all_watch_again().await?.max(granted),
            Recipe::Mutex | Recipe::Handoff | Recipe::Cohort => granted,
        };
        give_back(held, granted, all_back).await
    }

    /// Waits until every waiter that was woken in vain watches the new holder. Returns the time at which the last one did.
    async fn until_all_watch_again(&self) -> Result<Instant, BoxError> {
        let waiting = self.waiting.iter().filter(|waiting| waiting.load(Ordering::Acquire) > 0).count() as u64;
        loop {
            let stirred = self.last_stirred();
            if stirred.elapsed() >= QUIET_AFTER && self.server.metric("zk_watch_count").await? >= waiting {
                return Ok(stirred);
            }
            tokio::time::sleep(POLL).await;
        }
    }

    fn stir(&self) {
        let now = u64::try_from(self.began.elapsed().as_nanos()).unwrap_or(u64::MAX);
        self.stirred_ns.fetch_max(now, Ordering::AcqRel);
    }

    fn last_stirred(&self) -> Instant {
        self.began + Duration::from_nanos(self.stirred_ns.load(Ordering::Acquire))
    }

    /// Returns the number of watches on the server when `waiting` contenders wait behind the first holder, which is of the
    /// first session.
    fn watches_expected(&self, waiting: u32) -> u64 {
        let sessions = self.waiting.iter().skip(usize::from(self.recipe == Recipe::Cohort));
        match self.recipe {
            Recipe::Mutex | Recipe::Handoff => u64::from(waiting),
            // A session has one watch or one node in the queue for all of its waiters.
            Recipe::Naive | Recipe::Cohort => {
                sessions.filter(|waiting| waiting.load(Ordering::Acquire) > 0).count() as u64
            }
        }
    }
}

fn late(what: &str, within: Duration) -> BoxError {
    format!("{what} within {}", humantime::format_duration(within)).into()
}

async fn connect(connect_string: &str) -> Result<Session, zk_recipes::Error> {
    Session::connect(connect_string, SessionConfig::default().with_timeout(SESSION_TIMEOUT)).await
}

async fn open(connect_string: &str, count: u32) -> Result<Vec<Session>, BoxError> {
    let mut opened = Vec::new();
    let mut opening = JoinSet::new();
    for _ in 0..count {
        if opening.len() == OPENED_AT_ONCE
            && let Some(session) = opening.join_next().await
        {
            opened.push(session??);
        }
        let connect_string = connect_string.to_owned();
        opening.spawn(async move { connect(&connect_string).await });
    }
    while let Some(session) = opening.join_next().await {
        opened.push(session??);
    }
    Ok(opened)
}

fn lock(recipe: Recipe, session: &Session, path: &str) -> Result<AnyLock, zk_recipes::Error> {
    Ok(match recipe {
        Recipe::Naive => NaiveLock::new(session, path)?.into(),
        Recipe::Mutex => Mutex::new(session, path)?.into(),
        Recipe::Handoff => HandoffMutex::new(session, path)?.into(),
        Recipe::Cohort => CohortMutex::new(session, path)?.into(),
    })
}

async fn give_back(held: LockGuard, granted: Instant, all_back: Instant) -> Result<Hold, BoxError> {
    let release_called = Instant::now();
    held.release().await?;
    Ok(Hold { granted, all_back, release_called, released: Instant::now() })
}

fn traffic(sessions: &[Session]) -> Traffic {
    sessions.iter().map(Session::traffic).sum()
}

/// Returns the median hand-over and the time from the first release to the last confirmed one, in milliseconds. The time in
/// which a holder waited until all woken waiters watched again is left out.
fn times(mut holds: Vec<Hold>) -> (Option<f64>, f64) {
    holds.sort_unstable_by_key(|hold| hold.granted);
    let handovers: Vec<f64> =
        holds.windows(2).map(|pair| as_ms(pair[1].granted.saturating_duration_since(pair[0].release_called))).collect();
    let began = holds.first().map(|hold| hold.release_called);
    let ended = holds.iter().map(|hold| hold.released).max();
    let drain = began.zip(ended).map_or(Duration::ZERO, |(began, ended)| ended.saturating_duration_since(began));
    let asking: Duration = holds.iter().map(|hold| hold.release_called.saturating_duration_since(hold.all_back)).sum();
    (median(&handovers), as_ms(drain.saturating_sub(asking)))
}

/// Returns milliseconds, to the nanosecond, because a hand-over within a process takes a few microseconds. More digits would not
/// survive a file.
fn as_ms(time: Duration) -> f64 {
    as_f64(u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)) / 1e6
}
