//! Distributed locks on ZooKeeper, wire-compatible with Apache Curator's, honest about when a hold is lost.
//!
//! # Which recipe should I use?
//!
//! | You want | Use | Requests, uncontended |
//! |---|---|---|
//! | one holder at a time, in order of arrival | [`Mutex`] | 3, later 2 |
//! | the same, at a cost that does not grow with the queue | [`HandoffMutex`] | 3 |
//! | the same, with many contenders in each of a few processes | [`CohortMutex`] | 3, later 2, and none to hand over within a process |
//! | readers together, writers alone, in order of arrival | [`RwLock`] | 3 |
//! | at most N holders at a time | [`Semaphore`] | 6, later 5 |
//! | N to be changed while others wait | [`Semaphore`] with a [`SharedCount`] | 7, later 6 |
//! | to exclude Curator's `InterProcessSemaphoreMutex` | [`SemaphoreMutex`] | 6, later 5 |
//! | several locks, all or none | [`MultiLock`] | those of its locks |
//! | to choose the recipe while the program runs | [`AnyLock`] | those of the recipe |
//! | to see what a herd costs | [`NaiveLock`], in a comparison only | 2 |
//!
//! To take a lock again that one holds already, acquire it for an [`Owner`]. To ask a holder for its lock, [`revoke()`];
//! to see the queue, [`participants()`].
//!
//! ```no_run
//! use std::time::Duration;
//! use zk_recipes::{Mutex, Session, SessionConfig};
//!
//! # async fn sell(token: i64) {}
//! # async fn example() -> Result<(), zk_recipes::Error> {
//! let session = Session::connect("127.0.0.1:2181", SessionConfig::default()).await?;
//! let mutex = Mutex::new(&session, "/locks/goods-1")?;
//! match mutex.acquire_within(Duration::from_secs(2)).await? {
//!     Some(held) => {
//!         held.run(sell(held.token().czxid())).await?; // stopped when the hold is lost
//!         held.release().await?; // confirmed
//!     }
//!     None => println!("others were ahead for two seconds"),
//! }
//! # Ok(())
//! # }
//! ```
//!
//! # Guarantees
//!
//! * **Exclusion** while the holder's session lives: a hold is granted only when everybody ahead has certainly gone, and
//!   then our own node, created by our own session, was certainly there: by one listing, by asking for those that an
//!   earlier one showed, by the note of the last holder and our own node beside it, or by a number that directly follows our last one. A missing node
//!   is an error, never a grant. Within a session such a hold is passed on, and never one that is lost or suspect; then
//!   the node of whoever held before stands in for one that somebody has deleted.
//! * **The truth about a hold.** [`LockGuard::state`] and [`LockGuard::lost`] report a loss *before* the servers could
//!   grant the lock to another. They go by this process's monotonic clock and by proof: when the last request was sent that
//!   a quorum of the servers has committed. A paused process, a blocked thread, a half-open connection, a follower that
//!   stands still or a leader that was deposed therefore cannot make a hold look alive, nor can a reconnect to a server
//!   that grants a shorter session timeout. While something is held, a session has a
//!   request committed every fifth of the timeout that changes nothing. By default a hold survives its last proof by at
//!   least half of the session timeout while answers come at once. A lost hold never turns back, and no [`Owner`] enters by
//!   it.
//! * **Fencing tokens** that only grow in grant order ([`LockGuard::token`]).
//! * **Nothing is left behind.** Any future here may be dropped at any `await`: whatever it created, or may have
//!   created, is deleted by the session's reaper, and its watches are taken back.
//! * **One deadline** over everything that `acquire_within` does, however many requests and locks that is; after a
//!   `None` our node is gone.
//! * **Order.** Every recipe but [`NaiveLock`] grants in the order of arrival in the queue; nobody who may hold sleeps on.
//!   Where 32 of a session wait already, others of it arrive in groups, up to 10 ms after they have asked. With a
//!   [`CohortMutex`] that is the order within each process and that of the processes, which keep the lock for a bounded
//!   time while others wait.
//!
//! # Features
//!
//! * `tls`, on by default: encrypted connections ([`Tls`]). It brings rustls and needs a C compiler.
//!
//! # Non-guarantees
//!
//! * A holder that is paused *between* a check and a write can write after it was overtaken. Let the storage check the
//!   [token](LockGuard::token); `examples/fenced_off.rs` shows it.
//! * A hold whose node somebody deletes by hand is not noticed until it is released, with a [`CohortMutex`] by whoever
//!   comes to one of its bounds; the release of a [`NaiveLock`] may then delete the next holder's node, which has the same
//!   path, and so may that of a [`HandoffMutex`] if the lock's node was deleted with it, so that numbers began anew.
//! * A machine that is suspended as a whole stops the monotonic clock of most systems, and with it the truth about
//!   holds until a server is heard again. So do clocks that run apart by more than a few percent.
//! * A follower tells the leader of its sessions every half tick. The truth about holds reckons with a tick of at most half
//!   the session timeout. Servers grant no shorter timeout unless their `minSessionTimeout` is set below two ticks; then
//!   give [`SessionConfig::tick_time`].
//! * The servers behind one host name of the connect string must grant the same session timeout.
//! * Servers number at most 2³¹ contenders of one lock's node. From the 2 100 000 000th on an acquire fails with
//!   [`Error::NumbersExhausted`], and a lock warns before. As containers, unused nodes are deleted and begin anew.
//! * Clients of one semaphore that disagree on the number of permits, or take their permits one by one as Curator's do,
//!   can wait for each other for ever. Ours take all permits of an acquire in one turn, and may wait for each other only
//!   if somebody deletes the node of a turn by hand.
//! * A session lives on the Tokio runtime that it was connected in, and ends with it.
//!
//! # One example a type
//!
//! The page of each type says what it costs, what fails and what a drop leaves behind.
//!
//! [`Mutex`]: alone, in order of arrival.
//!
//! ```no_run
//! # async fn example(session: zk_recipes::Session) -> Result<(), zk_recipes::Error> {
//! let mutex = zk_recipes::Mutex::new(&session, "/locks/goods-1")?;
//! if let Some(held) = mutex.try_acquire().await? {
//!     held.release().await?;
//! }
//! # Ok(())
//! # }
//! ```
//!
//! [`HandoffMutex`]: alone, in order of arrival, with thousands who wait.
//!
//! ```no_run
//! # async fn example(session: zk_recipes::Session) -> Result<(), zk_recipes::Error> {
//! let mutex = zk_recipes::HandoffMutex::new(&session, "/locks/goods-1")?;
//! if let Some(held) = mutex.acquire_within(std::time::Duration::from_secs(2)).await? {
//!     held.release().await?;
//! }
//! # Ok(())
//! # }
//! ```
//!
//! [`CohortMutex`]: alone, handed over within the process without a request. Both parts of the token are stored.
//!
//! ```no_run
//! # async fn write(fence: i64, fence_handover: i64) {}
//! # async fn example(session: zk_recipes::Session) -> Result<(), zk_recipes::Error> {
//! let held = zk_recipes::CohortMutex::new(&session, "/locks/goods-1")?.acquire().await?;
//! held.run(write(held.token().czxid(), held.token().handover())).await?;
//! held.release().await?;
//! # Ok(())
//! # }
//! ```
//!
//! [`RwLock`]: readers together, writers alone. [`Owner`]: a writer becomes a reader before anybody else comes in.
//!
//! ```no_run
//! # async fn example(session: zk_recipes::Session) -> Result<(), zk_recipes::Error> {
//! let (prices, owner) = (zk_recipes::RwLock::new(&session, "/locks/prices")?, zk_recipes::Owner::new());
//! let writing = prices.write_lock().acquire_as(&owner).await?;
//! let reading = prices.read_lock().acquire_as(&owner).await?;
//! writing.release().await?;
//! reading.release().await?;
//! # Ok(())
//! # }
//! ```
//!
//! [`Semaphore`]: so many at a time, here as many as a [`SharedCount`] says.
//!
//! ```no_run
//! # async fn example(session: zk_recipes::Session) -> Result<(), zk_recipes::Error> {
//! let permits = zk_recipes::SharedCount::new(&session, "/semaphores/imports-max", 4)?;
//! let imports = zk_recipes::Semaphore::with_count(&session, "/semaphores/imports", &permits)?;
//! let two = imports.acquire_many(2).await?; // both or none
//! permits.set(8).await?; // whoever waits hears of it
//! two.release().await?;
//! # Ok(())
//! # }
//! ```
//!
//! [`SemaphoreMutex`]: alone, beside Curator's clients of that name.
//!
//! ```no_run
//! # async fn example(session: zk_recipes::Session) -> Result<(), zk_recipes::Error> {
//! let held = zk_recipes::SemaphoreMutex::new(&session, "/locks/shared-with-java")?.acquire().await?;
//! held.release().await?;
//! # Ok(())
//! # }
//! ```
//!
//! [`MultiLock`] and [`MultiGuard`]: all or none, in an order in which two carts never wait for each other.
//!
//! ```no_run
//! # async fn example(session: zk_recipes::Session) -> Result<(), zk_recipes::Error> {
//! let cart = zk_recipes::MultiLock::from_paths(&session, ["/locks/goods-2", "/locks/goods-1"])?;
//! if let Some(held) = cart.acquire_within(std::time::Duration::from_secs(2)).await? {
//!     held.release().await?;
//! }
//! # Ok(())
//! # }
//! ```
//!
//! [`Waiter`] and [`Revocation`]: a place in the queue that gives way when somebody asks for it.
//!
//! ```no_run
//! # async fn example(mutex: zk_recipes::Mutex) -> Result<(), zk_recipes::Error> {
//! let waiter = mutex.enqueue().await?;
//! let revocation = waiter.revocation();
//! tokio::select! {
//!     held = waiter.granted() => held?.release().await?,
//!     asked = revocation.requested() => asked?,
//! }
//! # Ok(())
//! # }
//! ```
//!
//! [`participants()`] and [`revoke()`]: see who holds, and ask for the lock.
//!
//! ```no_run
//! # async fn example(session: zk_recipes::Session) -> Result<(), zk_recipes::Error> {
//! for participant in zk_recipes::participants(&session, "/locks/goods-1").await? {
//!     println!("{} {} in session {}", participant.is_holder, participant.path, participant.session);
//!     if participant.is_holder {
//!         zk_recipes::revoke(&session, &participant.path).await?;
//!     }
//! }
//! # Ok(())
//! # }
//! ```
//!
//! [`SessionConfig`]: credentials, and nodes that only who has them may touch.
//!
//! ```no_run
//! # async fn example() -> Result<(), zk_recipes::Error> {
//! use zk_recipes::{Acl, Auth, Session, SessionConfig};
//!
//! let config = SessionConfig::default().with_auth(Auth::digest("shop", "a secret")).with_acl(Acl::creator());
//! let session = Session::connect("127.0.0.1:2181", config).await?;
//! # session.close().await
//! # }
//! ```
//!
//! # Coming from Curator
//!
//! Nodes, names and order are Curator's, so that both sides exclude each other on one path. What is named differently:
//!
//! | Curator | Here | What differs |
//! |---|---|---|
//! | `CuratorFramework` | [`Session`] | one session, never replaced behind a holder's back; when it has ended, connect another |
//! | `InterProcessMutex` | [`Mutex`] | re-entrant for an [`Owner`], not for a thread; a hold that was lost is never entered again |
//! | `InterProcessReadWriteLock` | [`RwLock`] | an upgrade is refused at once instead of waiting for itself; a waiting reader is woken by the writer directly ahead only |
//! | `InterProcessSemaphoreV2` | [`Semaphore`] | several permits at once without a deadlock among our clients |
//! | `InterProcessSemaphoreMutex` | [`SemaphoreMutex`] | |
//! | `InterProcessMultiLock` | [`MultiLock`] | one deadline for all; stops at the first failure; canonical order on request; all errors told |
//! | `Lease`, `Locker` | [`LockGuard`] | one guard type for all; [`MultiGuard`] for several |
//! | `acquire(time, unit)` | `acquire_within(wait)` | `None` instead of `false`; the deadline bounds every request, a server that does not answer included |
//! | `acquire(0, unit)` | `try_acquire()` | reads first, writes nothing when somebody is ahead |
//! | `isAcquiredInThisProcess()` | [`LockGuard::state`] | knows of a lost session |
//! | `ConnectionStateListener` | [`LockGuard::lost`], [`LockGuard::run`], [`LockGuard::watch`], [`Session::states`] | tied to the hold |
//! | `makeRevocable`, `RevocationListener` | [`LockGuard::revocation`], [`Waiter::revocation`] | a future; before or after the acquire, for every hold |
//! | `Revoker.attemptRevoke` | [`revoke()`] | |
//! | `getParticipantNodes()` | `participants()` of each recipe, [`participants()`] | contenders only, with session, token and data |
//! | `getLockPath()` | [`LockGuard::node_path`] | |
//! | `ACLProvider`, `authorization` | [`SessionConfig::acl`], [`acl_of`](SessionConfig::acl_of), [`auth`](SessionConfig::auth) | |
//! | `creatingParentContainersIfNeeded` | [`SessionConfig::parents`] | containers unless you ask for persistent ones |
//! | `SharedCount` | [`SharedCount`] | |
//! | `usingNamespace` | a chroot in the connect string | |
//! | `LockInternalsDriver`, `Reaper`, `InterProcessSemaphore` (V1) | none | |
//! | none | [`HandoffMutex`] | queues with `InterProcessMutex` at the same path; keeps a note in the data of the lock's node |
//! | none | [`CohortMutex`] | excludes `InterProcessMutex` at the same path; one node a process |
//! | none | [`FencingToken`] | the `czxid` of the node, and the number of the hand-over |
//!
//! # Names
//!
//! A *contender* is any node in the queue of a lock; the *holder* is the one that was admitted, all others are
//! *waiters*, each watching its *predecessor*. A hold is *released*, *abandoned* (dropped) or *lost*. The contenders of a
//! process that share a node are a *cohort*; one of them at a time has the *turn*, and passes it on: the holder by a
//! *hand-over*. The holds of one session that follow each other without a gap are a *chain*.

#![cfg_attr(docsrs, feature(doc_cfg))]

// In reading order.
mod locks;

mod hold;

mod engine;

mod session;

mod deadline;
mod error;
mod node;
mod options;
mod token;

#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;

pub use error::Error;
pub use hold::guard::LockGuard;
pub use hold::multi_guard::MultiGuard;
pub use hold::owner::Owner;
pub use hold::revoke::{Revocation, revoke};
pub use hold::state::HoldState;
pub use hold::waiter::Waiter;
pub use hold::watch::HoldWatch;
pub use locks::any_lock::AnyLock;
pub use locks::cohort::CohortMutex;
pub use locks::handoff::HandoffMutex;
pub use locks::multi::MultiLock;
pub use locks::mutex::Mutex;
pub use locks::naive::NaiveLock;
pub use locks::participants::{Participant, ParticipantKind, participants};
pub use locks::read_write::{ReadLock, RwLock, WriteLock};
pub use locks::semaphore::Semaphore;
pub use locks::semaphore_mutex::SemaphoreMutex;
pub use locks::shared_count::{SharedCount, VersionedCount};
pub use node::validate_path;
pub use options::LockOptions;
pub use session::Session;
pub use session::acl::{Acl, Auth, Parents, Permissions};
pub use session::connection::config::SessionConfig;
#[cfg(feature = "tls")]
pub use session::connection::tls::Tls;
pub use session::id::{ParseSessionIdError, SessionId};
pub use session::liveness::states::{ConnectionStateStream, ConnectionStates};
pub use session::traffic::Traffic;
pub use token::FencingToken;
pub use zk_recipes_protocol::liveness::{ConnectionState, LostReason};
