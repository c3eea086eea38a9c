//! Distributed locks on ZooKeeper. They exclude Apache Curator's locks on the same path, and report when a hold is lost.
//!
//! # Which recipe should I use?
//!
//! | You want | Use | Requests, uncontended |
//! |---|---|---|
//! | one holder at a time, in order of arrival | [`Mutex`] | 3, later 2 |
//! | the same, at a cost that does not grow with the queue | [`HandoffMutex`] | 3 |
//! | the same, with many contenders in each of a few processes | [`CohortMutex`] | 3, later 2; none for a hand-over within a process |
//! | the same, mostly in one process that takes it again and again | [`CohortMutex::with_linger`] | 3, later none |
//! | readers together, writers alone, in order of arrival | [`RwLock`] | 3 |
//! | at most N holders at a time | [`Semaphore`] | 6, later 5 |
//! | the same, with an N that may change | [`Semaphore`] with a [`SharedCount`] | 8, later 7 |
//! | to exclude Curator's `InterProcessSemaphoreMutex` | [`SemaphoreMutex`] | 6, later 5 |
//! | several locks, all or none | [`MultiLock`] | the sum over its locks |
//! | one leader among several processes, for as long as it lives | [`LeaderLatch`] | 4, later 3 |
//! | to choose the recipe at run time | [`AnyLock`] | as the recipe |
//! | to see what a herd costs, for comparison only | [`NaiveLock`] | 2 |
//!
//! The last column counts the requests of one acquire and its release. "Later" starts at the third acquire in a row of one
//! session, and lasts while no other contender comes in between. The second acquire of such a row sends one more read, which sets
//! a watch on the lock's node.
//!
//! An [`Owner`] can acquire a lock again that it already holds. [`revoke()`] asks a holder to give its lock back.
//! [`participants()`] shows the queue.
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
//! * **Exclusion** while the holder's session lives. A hold is granted only after a proof that no contender ahead excludes it,
//!   and that our own node exists and belongs to our session. In a queue, the proof is one of these:
//!   * a listing;
//!   * the stat of the lock's node, if it shows our own node as the only child;
//!   * the note of the last holder, and a read of our own node beside it;
//!   * the number of our node, if it directly follows the number of our session's last holder;
//!   * a hand-over within the session. A lost hold is never handed over, and a suspect hold is granted only once it is held again.
//!     If somebody has deleted the successor's node, the predecessor's node stays in its place;
//!   * the hold of a writer, for a read by the same [`Owner`], and a listing that shows the nodes of both.
//!
//!   A missing node is an error, never a grant.
//! * **The truth about a hold.** [`LockGuard::state`] and [`LockGuard::lost`] report a loss *before* the servers can grant the
//!   lock to another session. They rely on this process's monotonic clock and on proof. The proof is the last request that a
//!   quorum of the servers has committed, and the time at which it was sent. So a lost hold never looks alive, in any of
//!   these cases:
//!   * a paused process, or a blocked thread;
//!   * a half-open connection;
//!   * a follower that stands still, or a deposed leader;
//!   * a reconnect to a server that grants a shorter session timeout.
//!
//!   While a session holds something, it commits a request that changes nothing every fifth of the session timeout. By default, a
//!   hold survives its last proof by at least half of the session timeout, while answers come at once. A lost hold stays lost,
//!   and no [`Owner`] can enter it again.
//! * **Fencing tokens** ([`LockGuard::token`]). The token of a hold is greater than the token of every hold that ended before the
//!   grant.
//! * **Nothing is left behind.** Every future here may be dropped at any `await`. The session's reaper then deletes each
//!   contender's node that the future created or may have created, and the client removes its watches. Only parents and the node
//!   of a [`SharedCount`] may stay.
//! * **One deadline** for everything that `acquire_within` does, over all its requests and locks. Until then, a request that a
//!   server throttles is repeated, with pauses of up to a second. After the deadline, it only deletes our nodes. This takes at most
//!   a quarter of the session timeout, or half of it for a [`MultiLock`]. When it returns `None`, our nodes are gone. As an
//!   exception, another contender of the cohort may go on with the node of a [`CohortMutex`].
//! * **Order.** Every recipe except [`NaiveLock`] grants in the order of the queue, and no contender sleeps on once it may hold.
//!   Behind four or more waiters of its session a newcomer first waits for company: until half as many join together as wait, or
//!   until 10 ms are over. A [`CohortMutex`] keeps the order within each process, and the order of the processes. While others wait, a
//!   process keeps the lock for a bounded time.
//!
//! # Options
//!
//! `new` and `from_…` take what a lock cannot be without. Methods `with_…` set the rest:
//!
//! | Option | Of |
//! |---|---|
//! | [`with_node_data`](Mutex::with_node_data): what [`participants()`] shows of a contender | [`Mutex`], [`HandoffMutex`], [`RwLock`], [`Semaphore`], [`SemaphoreMutex`] |
//! | [`with_id`](LeaderLatch::with_id): the same for an election | [`LeaderLatch`] |
//! | [`with_kazoo`](Mutex::with_kazoo): to share the path with the Python client | [`Mutex`], [`HandoffMutex`], [`RwLock`] |
//! | [`with_max_handovers`](CohortMutex::with_max_handovers), [`with_max_tenure`](CohortMutex::with_max_tenure), [`with_linger`](CohortMutex::with_linger) | [`CohortMutex`] |
//! | [`with_auth`](SessionConfig::with_auth): the credentials; [`Tls`]: the certificates of encrypted connections | [`SessionConfig`] |
//! | [`with_acl`](SessionConfig::with_acl), [`with_acl_of`](SessionConfig::with_acl_of), [`with_parents`](SessionConfig::with_parents): the rights to the nodes that the session creates, to one of them, and the kind of missing parents | [`SessionConfig`] |
//!
//! # Long-lived services
//!
//! A session expires if the servers do not hear from it for its timeout. A service then opens another session, and makes its locks
//! anew. `examples/leader.rs` shows this, and an election in which an instance stands again after each term.
//!
//! * [`Session::ended`] tells the end. Repeat [`Session::connect`], with pauses, until it succeeds.
//! * After [`Error::SessionEnded`] from an acquire nothing is held: acquire on the next session.
//! * After [`Error::HoldLost`] the work may have run beside the work of another holder. Repeat it only if the storage checks the
//!   [token](LockGuard::token).
//!
//! # Features
//!
//! * `tls`, on by default: encrypted connections ([`Tls`]). It depends on rustls and needs a C compiler.
//!
//! # Non-guarantees
//!
//! * A holder that is paused *between* a check and a write can write after another contender was granted the lock. Let the
//!   storage check the [token](LockGuard::token): `examples/fenced_off.rs` shows how.
//! * If somebody deletes the node of a hold by hand, the loss is usually noticed only at the release. A [`LeaderLatch`] notices it
//!   as soon as a server tells the session, which may be after another participant was told that it leads. With a [`CohortMutex`], the
//!   release of any holder that has reached a bound notices it. The release of a [`NaiveLock`] may then delete the next holder's
//!   node, because it has the same path. The release of a [`HandoffMutex`] may do the same if the lock's node was deleted as
//!   well, because numbers then begin anew.
//! * A [`CohortMutex`] that [lingers](CohortMutex::with_linger) blocks others although nobody uses it. If its idle process is paused
//!   or dies, a contender that queues waits for up to a session timeout. Until one queues, every `try_acquire` of others fails.
//! * If a whole machine is suspended, the monotonic clock of most systems stops. Until a server answers again, a lost hold may
//!   then look alive. The same may happen if clocks run apart by more than a few percent.
//! * A follower tells the leader of its sessions every half tick. The truth about holds assumes a tick of at most half the
//!   session timeout. Servers guarantee that, unless their `minSessionTimeout` is set below two ticks. In that case, give
//!   [`SessionConfig::tick_time`].
//! * All servers behind one address of the connect string must grant the same session timeout. With TLS, this applies to all
//!   servers behind one host name. The reason: before a reconnect, a second session asks for the timeout, and it may reach
//!   another of these servers.
//! * Servers can number at most 2³¹ contenders of one lock's node. From number 2 000 000 000 on, a lock logs a warning. From
//!   number 2 100 000 000 on, an acquire fails with [`Error::NumbersExhausted`]. If the lock's node is a container, the server
//!   deletes it when it is unused, and numbers begin anew.
//! * Clients of one semaphore can wait for each other for ever if they disagree on the number of permits. The same applies to
//!   clients that take several permits one by one, as Curator's do. Ours take all permits of an acquire under one lock. They can
//!   wait for each other only if somebody deletes the node of that lock by hand.
//! * A session lives on the Tokio runtime in which it was connected, and ends with it.
//!
//! # One example for each type
//!
//! The page of each type says what it costs, what fails and what a drop leaves behind.
//!
//! [`Mutex`]: one holder at a time, in order of arrival.
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
//! [`HandoffMutex`]: one holder at a time, in order of arrival, with thousands of waiters.
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
//! [`CohortMutex`]: one holder at a time, handed over within the process without a request. Store both parts of the token.
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
//! [`RwLock`]: readers together, writers alone. With an [`Owner`], a writer becomes a reader before another contender is granted
//! the lock.
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
//! [`Semaphore`]: at most N holders at a time. Here a [`SharedCount`] holds N.
//!
//! ```no_run
//! # async fn example(session: zk_recipes::Session) -> Result<(), zk_recipes::Error> {
//! let permits = zk_recipes::SharedCount::new(&session, "/semaphores/imports-max", 4)?;
//! let imports = zk_recipes::Semaphore::from_count(&session, "/semaphores/imports", &permits)?;
//! let two = imports.acquire_many(2).await?; // both or none
//! permits.set(8).await?; // wakes the first waiter
//! two.release().await?;
//! # Ok(())
//! # }
//! ```
//!
//! [`SemaphoreMutex`]: one holder at a time, shared with Curator's clients of that name.
//!
//! ```no_run
//! # async fn example(session: zk_recipes::Session) -> Result<(), zk_recipes::Error> {
//! let held = zk_recipes::SemaphoreMutex::new(&session, "/locks/shared-with-java")?.acquire().await?;
//! held.release().await?;
//! # Ok(())
//! # }
//! ```
//!
//! [`MultiLock`] and [`MultiGuard`]: all locks or none. The locks are taken in the order of their paths, so two carts never wait
//! for each other.
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
//! [`LeaderLatch`]: one of several processes leads. Its term is a hold.
//!
//! ```no_run
//! # async fn serve(term: i64) {}
//! # async fn example(session: zk_recipes::Session) -> Result<(), zk_recipes::Error> {
//! let latch = zk_recipes::LeaderLatch::new(&session, "/leaders/goods")?.with_id("instance-1")?;
//! let term = latch.lead().await?;
//! term.run(serve(term.token().czxid())).await?;
//! term.release().await?;
//! # Ok(())
//! # }
//! ```
//!
//! [`Waiter`] and [`Revocation`]: a place in the queue that is given up when somebody asks for it.
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
//! [`participants()`] and [`revoke()`]: show the holder, and ask it for the lock.
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
//! [`SessionConfig`]: credentials, and nodes that only sessions with these credentials may access.
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
//! The nodes, their names and their order are Curator's, so both sides exclude each other on one path. These names and behaviours
//! differ:
//!
//! | Curator | Here | What differs |
//! |---|---|---|
//! | `CuratorFramework` | [`Session`] | one session, never silently replaced; when it has ended, connect another |
//! | `InterProcessMutex` | [`Mutex`] | re-entrant for an [`Owner`], not for a thread; a lost hold is never entered again |
//! | `InterProcessReadWriteLock` | [`RwLock`] | an upgrade is refused at once instead of waiting for itself; only the nearest writer ahead wakes a waiting reader |
//! | `InterProcessSemaphoreV2` | [`Semaphore`] | several permits at once, without a deadlock among our clients |
//! | `InterProcessSemaphoreMutex` | [`SemaphoreMutex`] | |
//! | `InterProcessMultiLock` | [`MultiLock`] | one deadline for all; stops at the first failure; canonical order on request; reports all errors |
//! | `Lease`, `Locker` | [`LockGuard`] | one guard type for all; [`MultiGuard`] for several |
//! | `acquire(time, unit)` | `acquire_within(wait)` | `None` instead of `false`; the deadline bounds every request, even if a server does not answer |
//! | `acquire(0, unit)` | `try_acquire()` | reads first; writes nothing if another contender is ahead |
//! | `isAcquiredInThisProcess()` | [`LockGuard::state`] | notices a lost session |
//! | `ConnectionStateListener` | [`LockGuard::lost`], [`LockGuard::run`], [`LockGuard::watch`], [`LockGuard::cancellation_token`], [`Session::states`] | all except `states` are tied to the hold |
//! | `makeRevocable`, `RevocationListener` | [`LockGuard::revocation`], [`Waiter::revocation`] | a future; before or after the acquire, for every hold |
//! | `Revoker.attemptRevoke` | [`revoke()`] | |
//! | `getParticipantNodes()` | `participants()` of each recipe, [`participants()`] | contenders only, with session, token and data |
//! | `getLockPath()` | [`LockGuard::node_path`] | |
//! | `ACLProvider`, `authorization` | [`SessionConfig::acl`], [`acl_of`](SessionConfig::acl_of), [`auth`](SessionConfig::auth) | |
//! | `creatingParentContainersIfNeeded` | [`SessionConfig::parents`] | containers, unless you ask for persistent nodes |
//! | `SharedCount` | [`SharedCount`] | |
//! | `LeaderLatch` | [`LeaderLatch`] | `lead` starts and awaits; a term has a token, and is lost with its session or its node; a lost term needs a new `lead` |
//! | `LeaderLatch.close()` | [`LockGuard::release`], or a drop | confirmed by the server |
//! | `LeaderLatchListener`, `hasLeadership()` | [`LockGuard::lost`], [`LockGuard::watch`], [`LockGuard::state`] | |
//! | `LeaderSelector`, `autoRequeue()` | a loop around [`LeaderLatch::lead`]: `examples/leader.rs` | the work is a future, which is dropped when the term is lost; no failure ends the loop unseen. A `LeaderSelector` takes turns with a [`Mutex`] at its path |
//! | `getParticipants()`, `getLeader()`, `getId()` | [`LeaderLatch::participants`], [`LeaderLatch::leader`], [`Participant::data`] | |
//! | `usingNamespace` | a chroot in the connect string | |
//! | `LockInternalsDriver`, `Reaper`, `InterProcessSemaphore` (V1) | none | |
//! | none | [`HandoffMutex`] | queues with `InterProcessMutex` at the same path; keeps a note in the data of the lock's node |
//! | none | [`CohortMutex`] | excludes `InterProcessMutex` at the same path; one node per session |
//! | none | [`FencingToken`] | the `czxid` of the node, and the number of the hand-over |
//!
//! # Names
//!
//! A *contender* is a node in the queue of a lock. A *holder* is a contender that was granted the lock. All other contenders are
//! *waiters*, and each watches its *predecessor*.
//!
//! A hold ends when it is *released*, *abandoned* (dropped) or *lost*. A *chain* is a sequence of holds of one session that
//! follow each other without a gap.
//!
//! A *cohort* is the contenders of a session that share a node. One of them at a time has the *turn*, and passes it on. A holder
//! passes its turn on by a *hand-over* of its hold.

#![cfg_attr(docsrs, feature(doc_cfg))]

// In reading order.
mod locks;

mod owner;

mod lock_queue;

mod guard;

mod cohort;

mod engine;

mod hold;

mod session;

mod acquire;
mod error;
mod node;
mod node_data;
mod token;

#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;

pub use error::Error;
pub use guard::LockGuard;
pub use guard::multi::MultiGuard;
pub use guard::waiter::Waiter;
pub use hold::revoke::{Revocation, revoke};
pub use hold::state::HoldState;
pub use hold::watch::HoldWatch;
pub use locks::any_lock::AnyLock;
pub use locks::cohort::CohortMutex;
pub use locks::handoff::HandoffMutex;
pub use locks::leader_latch::LeaderLatch;
pub use locks::multi::MultiLock;
pub use locks::mutex::Mutex;
pub use locks::naive::NaiveLock;
pub use locks::participants::{Participant, ParticipantKind, participants};
pub use locks::read_write::{ReadLock, RwLock, WriteLock};
pub use locks::semaphore::Semaphore;
pub use locks::semaphore_mutex::SemaphoreMutex;
pub use locks::shared_count::{SharedCount, VersionedCount};
pub use node::validate_path;
pub use node_data::NODE_DATA_MAX;
pub use owner::Owner;
pub use session::Session;
pub use session::acl::{Acl, Auth, Parents, Permissions};
pub use session::connection::config::SessionConfig;
#[cfg(feature = "tls")]
pub use session::connection::tls::Tls;
pub use session::ensemble_id::EnsembleId;
pub use session::id::{ParseSessionIdError, SessionId};
pub use session::liveness::states::{ConnectionStateStream, ConnectionStates};
pub use session::traffic::Traffic;
pub use token::FencingToken;
pub use zk_recipes_protocol::liveness::{ConnectionState, LostReason};
