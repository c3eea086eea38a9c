//! Connections to Postgres.
//!
//! A network may fail silently: packets vanish, and nobody gets an error. So a connection is used again only if every
//! statement on it was answered. If a statement is given up, because the client hung up or a time limit was over, its
//! connection is closed at once, and the server rolls back. A connection that was silent for a while is pinged before
//! it is used. If one ping is not answered, all connections that have not answered since are closed without a ping.
//! The same network has most likely failed them, too.
//!
//! If the server has no connection left, the pool does not grow, and its callers share the connections that it has
//! ([`connection_permits`](super::connection_permits)).
//!
//! The pools of a store share the time of the last reply, because one reply on any connection shows that the
//! database is alive.

use std::sync::Arc;
use std::time::{Duration, Instant};

use deadpool::Runtime;
use deadpool::managed::{Manager, Metrics, Object, Pool, PoolError, QueueMode, RecycleError, RecycleResult};
use parking_lot::Mutex;
use sqlx::Connection as _;
use sqlx::postgres::{PgConnectOptions, PgConnection};
use tokio::sync::OwnedSemaphorePermit;
use tokio::time::{timeout, timeout_at};

use super::connection_permits::ConnectionPermits;
use super::ensemble::{self, Ensemble};
use super::settings::ConnectionSettings;
use crate::failure::{Failure, has_stale_plan, is_full};

/// A connection that was silent for this long is pinged before it is used. A ping before every use would add a round
/// trip to every purchase. Without pings, a restart of the server would fail one purchase for each connection.
const PING_AFTER: Duration = Duration::from_secs(1);

/// The time limit for the reply to a ping.
const PING_WITHIN: Duration = Duration::from_secs(1);

/// The time limit for a connect of a purchase. A handshake that takes longer is most likely lost.
pub(super) const CONNECT_WITHIN: Duration = Duration::from_secs(3);

/// When the database last replied, on any connection. An SQL error is a reply.
pub(super) type LastReply = Arc<Mutex<Instant>>;

/// A pool of connections.
#[derive(Clone)]
pub(super) struct ConnectionPool {
    pool: Pool<ConnectionManager>,
    permits: Arc<ConnectionPermits>,
    /// The time limit of the wait for a connection.
    within: Duration,
    doubts: Arc<Mutex<Doubts>>,
}

/// One connection of a pool. Its drop gives it back to the pool, or closes it if a statement on it was not answered.
pub(super) struct PooledConnection {
    link: Option<Object<ConnectionManager>>,
    is_settled: bool,
    /// Whether the last statement has no reply yet.
    is_asked: bool,
    /// Whether no other statement may use the connection, whatever is answered from now on.
    is_spent: bool,
    doubts: Arc<Mutex<Doubts>>,
    // Dropped after the link is back in the pool.
    _permit: OwnedSemaphorePermit,
}

/// Opens the connections of a pool, and checks them before they are used again.
pub(super) struct ConnectionManager {
    options: PgConnectOptions,
    settings: ConnectionSettings,
    ensemble: Arc<Ensemble>,
    doubts: Arc<Mutex<Doubts>>,
    last_reply: LastReply,
}

/// An open connection.
pub(super) struct Link {
    connection: PgConnection,
    /// When the last reply came.
    heard: Instant,
    last_reply: LastReply,
}

impl Link {
    /// Notes the time if the server answered.
    fn note<T>(&mut self, reply: &Result<T, sqlx::Error>) {
        if is_from_server(reply) {
            self.heard = Instant::now();
            *self.last_reply.lock() = self.heard;
        }
    }
}

/// The latest signs that the network has failed.
#[derive(Debug, Default)]
struct Doubts {
    /// When a statement was last given up. Connections that have not answered since are pinged.
    given_up: Option<Instant>,
    /// When a ping was last not answered. Connections that have not answered since are closed.
    silent: Option<Instant>,
}

/// What to do with an idle connection before it is used.
#[derive(Debug, PartialEq, Eq)]
enum Check {
    Use,
    Ping,
    Close,
}

impl Doubts {
    fn check(&self, heard: Instant, now: Instant) -> Check {
        let is_after = |doubt: Option<Instant>| doubt.is_some_and(|doubt| heard <= doubt);
        if is_after(self.silent) {
            Check::Close
        } else if is_after(self.given_up) || now.duration_since(heard) >= PING_AFTER {
            Check::Ping
        } else {
            Check::Use
        }
    }
}

impl ConnectionManager {
    /// Opens connections that have these settings and join the instances of `ensemble`.
    pub(super) fn new(
        options: PgConnectOptions,
        settings: ConnectionSettings,
        ensemble: Arc<Ensemble>,
        last_reply: &LastReply,
    ) -> Self {
        Self { options, settings, ensemble, doubts: Arc::default(), last_reply: Arc::clone(last_reply) }
    }
}

impl Manager for ConnectionManager {
    type Type = Link;
    type Error = sqlx::Error;

    async fn create(&self) -> Result<Link, sqlx::Error> {
        // Each purchase asks for a connection, and few make one. Without the box, the future of every purchase has room for a
        // connection that is being made, several times over.
        let connected = Box::pin(async {
            let mut connection = PgConnection::connect_with(&self.options).await?;
            self.settings.apply(&mut connection).await?;
            self.ensemble.join(&mut connection).await.map(|()| connection)
        });
        let connected = connected.await;
        if is_from_server(&connected) {
            *self.last_reply.lock() = Instant::now();
        }
        Ok(Link { connection: connected?, heard: Instant::now(), last_reply: Arc::clone(&self.last_reply) })
    }

    async fn recycle(&self, link: &mut Link, _: &Metrics) -> RecycleResult<sqlx::Error> {
        // Not in the `match` itself: it would keep the lock until the ping is answered.
        let check = self.doubts.lock().check(link.heard, Instant::now());
        match check {
            Check::Use => Ok(()),
            Check::Close => Err(RecycleError::message("another connection was silent")),
            Check::Ping => match timeout(PING_WITHIN, link.connection.ping()).await {
                Ok(reply) => {
                    link.note(&reply);
                    Ok(reply?)
                }
                Err(_) => {
                    self.doubts.lock().silent = Some(Instant::now());
                    Err(RecycleError::message("no reply to a ping"))
                }
            },
        }
    }
}

impl ConnectionPool {
    /// Makes a pool of at most `max` connections to the server. A caller waits at most `within` for a free connection, and at
    /// most `connect_within` for a new one. Nothing is connected yet.
    pub(super) fn new(manager: ConnectionManager, max: u32, within: Duration, connect_within: Duration) -> Self {
        let doubts = Arc::clone(&manager.doubts);
        let pool = Pool::builder(manager)
            .runtime(Runtime::Tokio1)
            .max_size(max as usize)
            // The connection that was used last is the least likely to need a ping.
            .queue_mode(QueueMode::Lifo)
            .create_timeout(Some(connect_within))
            .build()
            .expect("BUG: a pool with timeouts has a runtime");
        Self { pool, permits: Arc::new(ConnectionPermits::new(max as usize)), within, doubts }
    }

    /// Waits for a free connection, or opens a new one. If the server has none left, waits for one that is open.
    pub(super) async fn get(&self) -> Result<PooledConnection, Failure> {
        let until = tokio::time::Instant::now() + self.within;
        let mut refusal = sqlx::Error::PoolTimedOut;
        loop {
            let Ok(permit) = timeout_at(until, self.permits.take()).await else {
                return Err(Failure::of_database(refusal));
            };
            let permit = permit.map_err(|_| Failure::of_database(sqlx::Error::PoolClosed))?;
            // A permit is a place in the pool, so this waits for no other caller, only for a ping or a connect.
            match self.pool.get().await {
                Ok(link) => return Ok(self.connection(link, permit)),
                Err(PoolError::Backend(error)) if is_full(&error) => {
                    refusal = error;
                    self.permits.refused(permit).await;
                }
                Err(PoolError::Backend(error)) => return Err(ensemble::refusal(error)),
                Err(PoolError::Closed) => return Err(Failure::of_database(sqlx::Error::PoolClosed)),
                Err(other) => return Err(Failure::database_unavailable().caused_by(other)),
            }
        }
    }

    fn connection(&self, link: Object<ConnectionManager>, permit: OwnedSemaphorePermit) -> PooledConnection {
        // A connection that was never recycled has just been opened, so the server has room.
        if Object::metrics(&link).recycled.is_none() {
            self.permits.accepted();
        }
        let doubts = Arc::clone(&self.doubts);
        PooledConnection {
            link: Some(link),
            is_settled: true,
            is_asked: false,
            is_spent: false,
            doubts,
            _permit: permit,
        }
    }

    /// Returns the number of connections in use, and of idle connections.
    pub(super) fn counts(&self) -> (u32, u32) {
        let status = self.pool.status();
        let count = |connections: usize| u32::try_from(connections).unwrap_or(u32::MAX);
        (count(status.size.saturating_sub(status.available)), count(status.available))
    }

    /// Returns the greatest number of connections.
    pub(super) fn max(&self) -> u32 {
        u32::try_from(self.pool.status().max_size).unwrap_or(u32::MAX)
    }

    pub(super) fn close(&self) {
        self.permits.close();
        self.pool.close();
    }
}

impl PooledConnection {
    /// Returns the connection for the next statement. Until the reply is [`heard`](Self::heard), a drop closes the
    /// connection.
    pub(super) fn ask(&mut self) -> &mut PgConnection {
        self.is_settled = false;
        self.is_asked = true;
        &mut self.link_mut().connection
    }

    /// Notes the reply to the last statement, and turns its error into a failure.
    pub(super) fn heard<T>(&mut self, reply: Result<T, sqlx::Error>) -> Result<T, Failure> {
        self.settle(&reply);
        reply.map_err(Failure::of_database)
    }

    /// Notes the reply to the last statement. The connection can be used again, unless the reply shows that it is
    /// unusable.
    pub(super) fn settle<T>(&mut self, reply: &Result<T, sqlx::Error>) {
        self.note(reply);
        self.is_settled |= !self.is_spent && is_usable_after(reply);
    }

    /// Notes the reply to a statement within a transaction. A drop still closes the connection.
    pub(super) fn note<T>(&mut self, reply: &Result<T, sqlx::Error>) {
        self.is_asked = false;
        // The connection would repeat this reply to the statement for ever, also after a rollback.
        self.is_spent |= reply.as_ref().is_err_and(has_stale_plan);
        self.link_mut().note(reply);
    }

    /// Returns whether the last statement was given up before its reply came. Then the connection answers no other
    /// statement.
    pub(super) fn is_asked(&self) -> bool {
        self.is_asked
    }

    fn link_mut(&mut self) -> &mut Link {
        self.link.as_mut().expect("BUG: only the drop takes the link")
    }
}

impl Drop for PooledConnection {
    fn drop(&mut self) {
        if !self.is_settled {
            self.doubts.lock().given_up = Some(Instant::now());
            // `Object::take` removes the connection from the pool. Then its drop closes the socket.
            drop(self.link.take().map(Object::take));
        }
    }
}

/// Returns whether the server answered. An SQL error is a reply.
fn is_from_server<T>(reply: &Result<T, sqlx::Error>) -> bool {
    matches!(reply, Ok(_) | Err(sqlx::Error::Database(_)))
}

/// Returns whether the connection can be used again after this reply.
pub(super) fn is_usable_after<T>(reply: &Result<T, sqlx::Error>) -> bool {
    match reply {
        Ok(_) => true,
        Err(sqlx::Error::Database(refusal)) => !refusal.code().is_some_and(|code| ends_connection(&code)),
        Err(_) => false,
    }
}

/// Returns whether this SQLSTATE makes the connection unusable for others. Either the server ends the connection
/// (classes 08 and 57P, 25P03, 25P04), or a transaction that has failed is still open (25P02).
fn ends_connection(sqlstate: &str) -> bool {
    ["08", "57P", "25P"].iter().any(|class| sqlstate.starts_with(class))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_connection_that_the_server_ends_is_not_used_again() {
        for (sqlstate, ends) in [
            ("57P01", true),
            ("08006", true),
            ("25P02", true),
            ("25P03", true),
            ("57014", false),
            ("23505", false),
            ("40001", false),
        ] {
            assert_eq!(ends_connection(sqlstate), ends, "{sqlstate}");
        }
    }

    // S86
    #[test]
    fn a_connection_is_used_pinged_or_closed_by_its_last_reply() {
        let now = Instant::now();
        let at = |ms: u64| now + Duration::from_millis(ms);
        let none = Doubts::default();
        assert_eq!(none.check(at(0), at(999)), Check::Use);
        assert_eq!(none.check(at(0), at(1000)), Check::Ping);
        let given_up = Doubts { given_up: Some(at(500)), silent: None };
        assert_eq!(given_up.check(at(499), at(501)), Check::Ping);
        assert_eq!(given_up.check(at(501), at(502)), Check::Use);
        let silent = Doubts { given_up: Some(at(400)), silent: Some(at(500)) };
        assert_eq!(silent.check(at(450), at(501)), Check::Close);
        assert_eq!(silent.check(at(501), at(502)), Check::Use);
    }
}
