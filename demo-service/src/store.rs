//! All SQL of the service. The statements on its tables are checked against the schema at compile time.
//!
//! Strategies combine the statements into purchases. Every wait for the database has a time limit on our side. A
//! connection with an unanswered statement is closed.

mod batch;
mod connection_permits;
mod connections;
pub mod ensemble;
mod gate;
mod key_ages;
mod keys;
mod layouts;
mod one_statement;
mod orders;
mod reservations;
mod sales;
pub mod schema;
mod service_role;
mod settings;
mod tickets;
mod transaction;
mod unusable;
mod waiters;

use std::panic::resume_unwind;
use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use sqlx::error::DatabaseError;
use sqlx::postgres::{PgConnectOptions, PgConnection};
use tokio::time::timeout;
use tracing::warn;

pub use self::batch::{BatchOrder, BatchWrite};
use self::connections::{CONNECT_WITHIN, ConnectionManager, ConnectionPool, LastReply, PooledConnection};
use self::ensemble::Ensemble;
pub use self::gate::{PromiseLook, PromisedWrite, refusal_kind};
pub use self::key_ages::KeyLook;
pub use self::keys::Remembered;
pub use self::layouts::{BUCKETS_MAX, Taken};
pub use self::one_statement::{SaleOutcome, SellArguments};
pub use self::orders::{NotWritten, OrderToWrite};
pub use self::reservations::{Cancelled, Confirmed, ReserveArguments, Reserved, SoldUnits};
pub use self::service_role::SERVICE_ROLE;
use self::settings::ConnectionSettings;
pub use self::tickets::{NewTicket, TicketLook, TicketOutcome, TicketTaken, WaitingGoods, WaitingTicket};
pub use self::transaction::{Isolation, LockWait, Transaction, TransactionId, WrittenOrder};
use self::waiters::Waiters;
use crate::failure::Failure;
use crate::sale::{BuyerId, Goods, GoodsNo, Guard, Order, OrderLine, Quantity, Token};
use crate::shared_reads::SharedReads;

/// The server gives up a statement this much later than we do.
const BEYOND: Duration = Duration::from_secs(1);

/// How often the server checks, while a statement runs, that its client is still connected. The server ends a
/// statement whose connection was closed. Otherwise that statement could wait for a row lock.
const CLIENT_CHECK: Duration = Duration::from_millis(500);

/// The idle time after which the server ends a session, because its client may have vanished silently. The server may
/// end a session of a client that is alive, too. That fails no purchase: an idle connection is pinged before it is
/// used, and replaced if the server ended it.
const IDLE_SESSION: Duration = Duration::from_secs(600);

/// The stock and the orders, in Postgres.
#[derive(Clone)]
pub struct Store {
    connections: ConnectionPool,
    /// One connection for probes. They must be answered while all other connections wait for locks or commits.
    probes: ConnectionPool,
    /// One connection for the question whether a commit is over. Probes must not delay this question, because a lock
    /// is held until the answer.
    settling: ConnectionPool,
    waiters: Arc<Waiters>,
    last_reply: LastReply,
    checks: Arc<SharedReads<(), Result<Health, Failure>>>,
    looks: Arc<SharedReads<LookKey, Result<Option<Goods>, Failure>>>,
    within: Duration,
}

/// A SKU, and the number up to which its units are counted.
type LookKey = (GoodsNo, Option<i64>);

/// What the database answers to a probe.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Health {
    /// It accepts writes.
    Writable,
    /// It is a standby, or was made read-only: nothing can be sold.
    ReadOnly,
}

impl Store {
    /// Makes a store with at most `connections_max` connections, which are opened on demand. Two more connections
    /// serve probes and the question whether a commit is over. `within` limits each wait for a connection and each
    /// statement. Each connection joins the instances of `ensemble`. Nothing is connected yet.
    pub fn open(options: PgConnectOptions, ensemble: Ensemble, connections_max: u32, within: Duration) -> Self {
        // Our time limits are shorter than the server's, so that the same failure always has the same kind.
        let within_ms = within.as_millis();
        let beyond_ms = (within + BEYOND).as_millis();
        let settings = ConnectionSettings::new()
            .with("statement_timeout", beyond_ms)
            .with("lock_timeout", beyond_ms)
            // Ends the transaction of an instance that froze in the middle of a purchase.
            .with("idle_in_transaction_session_timeout", within_ms)
            .with("client_connection_check_interval", CLIENT_CHECK.as_millis());
        let last_reply = Arc::new(Mutex::new(Instant::now()));
        let ensemble = Arc::new(ensemble);
        let pool = |settings: ConnectionSettings, max, connect_within| {
            let manager = ConnectionManager::new(options.clone(), settings, Arc::clone(&ensemble), &last_reply);
            ConnectionPool::new(manager, max, within, connect_within)
        };
        // The server never ends the session of this connection, because it may refuse a new one. The connect may take
        // as long as `within`: a slow connect is better than none.
        let settling = pool(settings.clone().with("idle_session_timeout", 0), 1, within);
        let settings = settings.with("idle_session_timeout", IDLE_SESSION.as_millis());
        let connect_within = CONNECT_WITHIN.min(within);
        Self {
            connections: pool(settings.clone(), connections_max, connect_within),
            probes: pool(settings, 1, connect_within),
            settling,
            waiters: Arc::new(Waiters::new(connections_max)),
            last_reply,
            checks: Arc::default(),
            looks: Arc::default(),
            within,
        }
    }

    /// Opens the connection for the question whether a commit is over. It is opened early, because the server may
    /// refuse new connections later. Warns if the server has room for fewer connections than the store may open.
    ///
    /// # Errors
    /// As [`Failure::of_database`]. The store then connects when it needs the connection.
    ///
    /// # Cancel safety
    /// Nothing is lost.
    pub async fn connect_aside(&self) -> Result<(), Failure> {
        let mut connection = self.settling.get().await?;
        let left = settings::connections_left(connection.ask()).await;
        let left = connection.heard(left)?;
        // The connection for the question about commits is open already.
        let needed = self.connections.max() + self.probes.max();
        if left < i64::from(needed) {
            warn!(
                left,
                needed,
                "postgres has room for fewer connections than this instance may open, so buyers may wait for connections; \
                 raise max_connections of the server, or lower --db-connections (DB_CONNECTIONS)"
            );
        }
        Ok(())
    }

    /// Returns the time since the last reply of the database, on any connection. An SQL error is a reply.
    pub fn silent_for(&self) -> Duration {
        self.last_reply.lock().elapsed()
    }

    /// Returns the number of connections in use, and of idle connections.
    pub fn pool_counts(&self) -> (u32, u32) {
        self.connections.counts()
    }

    /// Asks whether the database answers, and whether it accepts writes. Concurrent callers share one statement. It
    /// is sent after the call, so the answer is not older than the call.
    ///
    /// # Errors
    /// No connection was free in time, or the database did not answer.
    ///
    /// # Cancel safety
    /// Nothing is lost.
    pub async fn check(&self) -> Result<Health, Failure> {
        let check = async |probes: ConnectionPool| {
            let mut connection = probes.get().await?;
            // A standby reports `transaction_read_only`, too.
            let read_only =
                sqlx::query_scalar!(r#"select current_setting('transaction_read_only')::bool as "read_only!""#);
            let read_only = read_only.fetch_one(connection.ask()).await;
            Ok(if connection.heard(read_only)? { Health::ReadOnly } else { Health::Writable })
        };
        self.checks.read((), || check(self.probes.clone())).await
    }

    /// Reads one SKU. Returns `None` if there is no such SKU.
    ///
    /// # Errors
    /// As [`Failure::of_database`].
    ///
    /// # Cancel safety
    /// Nothing is lost.
    pub async fn goods(&self, goods_no: GoodsNo) -> Result<Option<Goods>, Failure> {
        self.goods_at_most(goods_no, None).await
    }

    async fn goods_at_most(&self, goods_no: GoodsNo, at_most: Option<i64>) -> Result<Option<Goods>, Failure> {
        self.finish(move |mut connection: PooledConnection| async move {
            let goods = goods(connection.ask(), goods_no, at_most).await;
            connection.heard(goods)
        })
        .await
    }

    /// Reads one SKU as [`goods`](Self::goods) does, but concurrent callers for the same SKU share one statement. It
    /// sees everything that was committed before the call.
    ///
    /// # Errors
    /// As [`Failure::of_database`], for every buyer that shares the statement.
    ///
    /// # Cancel safety
    /// Nothing is lost.
    pub async fn look(&self, goods_no: GoodsNo) -> Result<Option<Goods>, Failure> {
        self.look_at_most(goods_no, None).await
    }

    /// Looks as [`look`](Self::look) does, to find out whether `quantity` units are left. Where each unit has a row of its own,
    /// no more than that are counted, so `on_hand` may be too low if it is `quantity`.
    ///
    /// # Errors
    /// As [`Failure::of_database`], for every buyer that shares the statement.
    ///
    /// # Cancel safety
    /// Nothing is lost.
    pub async fn look_for(&self, goods_no: GoodsNo, quantity: Quantity) -> Result<Option<Goods>, Failure> {
        self.look_at_most(goods_no, Some(quantity.get())).await
    }

    async fn look_at_most(&self, goods_no: GoodsNo, at_most: Option<i64>) -> Result<Option<Goods>, Failure> {
        let read = || {
            let store = self.clone();
            async move { store.goods_at_most(goods_no, at_most).await }
        };
        self.looks.read((goods_no, at_most), read).await
    }

    /// Reads an order. Returns `None` if no order has that number.
    ///
    /// # Errors
    /// As [`Failure::of_database`].
    ///
    /// # Cancel safety
    /// Nothing is lost.
    pub async fn order(&self, order_id: i64) -> Result<Option<Order>, Failure> {
        self.finish(move |mut connection: PooledConnection| async move {
            let order = order(connection.ask(), order_id).await;
            connection.heard(order)
        })
        .await
    }

    /// Adds up the units that a buyer has ordered in a sale.
    ///
    /// # Errors
    /// As [`Failure::of_database`].
    ///
    /// # Cancel safety
    /// Nothing is lost.
    pub async fn units_ordered(&self, goods_no: GoodsNo, sale: i64, buyer: &BuyerId) -> Result<i64, Failure> {
        let buyer = buyer.clone();
        self.finish(move |mut connection: PooledConnection| async move {
            let units = sqlx::query_scalar!(
                r#"select coalesce(sum(quantity), 0)::bigint as "units!" from orders join order_lines using (order_id)
                   where buyer = $3 and goods_no = $1 and sale = $2"#,
                goods_no.get(),
                sale,
                buyer.as_str(),
            );
            let units = units.fetch_one(connection.ask()).await;
            connection.heard(units)
        })
        .await
    }

    /// Returns whether a transaction is over, committed or not. Asks on the connection kept for this question first.
    /// If that fails, asks on a connection of the pool.
    ///
    /// # Errors
    /// As [`Failure::of_database`].
    ///
    /// # Cancel safety
    /// Nothing is lost.
    pub async fn is_over(&self, transaction: &TransactionId) -> Result<bool, Failure> {
        match self.in_time(is_over(&self.settling, transaction)).await {
            Ok(is_over) => Ok(is_over),
            Err(_) => self.in_time(is_over(&self.connections, transaction)).await,
        }
    }

    /// Takes a connection, and runs a short read on it in a task of its own. The read runs to its end even if the
    /// caller is dropped. Otherwise each dropped caller would close its connection, and a crowd that hangs up would
    /// close all of them, again and again.
    async fn finish<T: Send + 'static, F>(&self, read: impl FnOnce(PooledConnection) -> F) -> Result<T, Failure>
    where
        F: Future<Output = Result<T, Failure>> + Send + 'static,
    {
        let connection = self.connections.get().await?;
        match tokio::spawn(timeout(self.within, read(connection))).await {
            Ok(Ok(result)) => result,
            Ok(Err(_)) => Err(Failure::database_unavailable()),
            Err(panic) => resume_unwind(panic.into_panic()),
        }
    }

    /// Limits the time of work that no deadline of a purchase limits.
    async fn in_time<T>(&self, work: impl Future<Output = Result<T, Failure>>) -> Result<T, Failure> {
        timeout(self.within, work).await.unwrap_or_else(|_| Err(Failure::database_unavailable()))
    }

    /// Closes idle connections at once, and the others when they are given back. From now on a wait for a connection
    /// fails.
    pub fn close(&self) {
        self.connections.close();
        self.probes.close();
        self.settling.close();
        self.waiters.close();
    }
}

async fn is_over(connections: &ConnectionPool, transaction: &TransactionId) -> Result<bool, Failure> {
    let mut connection = connections.get().await?;
    let over = sqlx::query_scalar!(
        r#"select pg_xact_status($1::text::xid8) is distinct from 'in progress' as "over!""#,
        transaction.as_str()
    );
    let over = over.fetch_one(connection.ask()).await;
    connection.heard(over.or_else(|error| if is_forgotten(&error) { Ok(true) } else { Err(error) }))
}

/// Returns whether the number of the transaction lies in the future: the server has crashed and forgotten the
/// transaction.
fn is_forgotten(error: &sqlx::Error) -> bool {
    error.as_database_error().is_some_and(|refusal| refusal.code().as_deref() == Some("22023"))
}

/// Returns whether an idempotency key has an order already. Any other unique violation is a defect of the database, such as a
/// sequence of order numbers that is behind the orders.
fn is_repeated_key(error: &sqlx::Error) -> bool {
    error.as_database_error().and_then(DatabaseError::constraint) == Some("idempotency_keys_pkey")
}

/// Returns whether the limit per buyer refuses a write. A writer looks at the limit first, so another purchase of the same buyer has
/// come in between.
fn is_over_limit(error: &sqlx::Error) -> bool {
    error.as_database_error().and_then(DatabaseError::constraint) == Some("buyer_units_within_limit")
}

async fn goods(
    connection: &mut PgConnection,
    goods_no: GoodsNo,
    at_most: Option<i64>,
) -> Result<Option<Goods>, sqlx::Error> {
    let row = sqlx::query!(
        r#"select sale, stock_initial, units_left(goods, $2) as "on_hand!", guard, strategy, per_buyer
           from goods where goods_no = $1"#,
        goods_no.get(),
        at_most,
    );
    let row = row.fetch_optional(connection).await?;
    Ok(row.map(|row| {
        let guard = row.guard.zip(row.strategy).map(|(family, strategy)| Guard { family, strategy });
        let per_buyer = row.per_buyer.and_then(Quantity::new);
        Goods { goods_no, sale: row.sale, stock_initial: row.stock_initial, on_hand: row.on_hand, guard, per_buyer }
    }))
}

async fn order(connection: &mut PgConnection, order_id: i64) -> Result<Option<Order>, sqlx::Error> {
    let order = sqlx::query!("select strategy, instance from orders where order_id = $1", order_id);
    let Some(order) = order.fetch_optional(&mut *connection).await? else { return Ok(None) };
    // Orders are never changed, so both statements read the same order.
    let lines = sqlx::query!(
        "select goods_no, sale, quantity, remaining, token, token_handover
         from order_lines where order_id = $1 order by goods_no",
        order_id
    );
    let lines = lines.fetch_all(connection).await?.into_iter().map(|line| OrderLine {
        goods_no: line.goods_no,
        sale: line.sale,
        quantity: line.quantity,
        remaining: line.remaining,
        token: line.token.zip(line.token_handover).map(|(number, handover)| Token { number, handover }),
    });
    Ok(Some(Order { order_id, strategy: order.strategy, instance: order.instance, lines: lines.collect() }))
}
