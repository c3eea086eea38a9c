//! What the contenders of one session share at the lock's path: reads, and watches of the lock's node.
//!
//! # Reads
//!
//! A crowd of contenders asks the same question at the same time: where is my node, after a connection has ended; is a writer still
//! ahead, after one has released. If each of them listed the queue by itself, the bytes would grow with the square of the crowd. The
//! proofs of life of the session would wait behind them for so long that its holds are lost.
//!
//! So one contender reads by itself. Those that ask meanwhile share one read, which begins after all of them have asked. A shared read
//! is a task on the runtime of the session, because any contender may be dropped while others need the answer. It ends when no
//! contender waits for it any more.
//!
//! # Watches
//!
//! While a watch of the lock's node has not fired, the node is neither deleted nor changed, as far as replies show: the server sends a
//! notification before later replies. Nothing waits for these watches. The engine checks them before it tells the queue any other
//! event.

use std::collections::{BTreeMap, HashMap};
use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Weak};

use futures_util::FutureExt;
use parking_lot::Mutex;
use tokio::runtime::Handle;
use tokio::sync::{Semaphore, watch};
use tokio::task::unconstrained;
use zk_recipes_protocol::leases::LEASES;
use zk_recipes_protocol::names::Names;
use zk_recipes_protocol::queue::Queue;
use zk_recipes_protocol::session_queue::{Event, Found};
use zk_recipes_protocol::stat::Stat;
use zookeeper_client::Error as ClientError;

use super::search::{self, Numbered};
use crate::node::{self, Mark};
use crate::session::remote::Remote;
use crate::session::replies::retry_lost_reply;
use crate::session::wire::{self, Fired, Watch};

/// A listing of the lock's node. The contenders that share it read it once, because each of them would parse all names.
#[derive(Debug)]
pub(super) struct Listing {
    pub(super) queue: Queue<String>,
    /// The stat of the lock's node.
    pub(super) parent: Stat,
}

/// The reads of the contenders of one session at one path. All clones share them.
#[derive(Clone, Debug)]
pub(super) struct Reads {
    runtime: Handle,
    /// By the names that say which children are contenders.
    listings: Arc<Mutex<BTreeMap<Names, Arc<SharedReads<Listing>>>>>,
    names: Arc<SharedReads<Vec<String>>>,
    numbered: Arc<SharedReads<Numbered>>,
}

impl Reads {
    /// Returns the reads of a session that lives on this runtime.
    pub(super) fn new(runtime: &Handle) -> Self {
        Self {
            runtime: runtime.clone(),
            listings: Arc::default(),
            names: Arc::new(SharedReads::new(runtime)),
            numbered: Arc::new(SharedReads::new(runtime)),
        }
    }

    pub(super) async fn list(&self, remote: &Remote, parent: &str, names: Names) -> Result<Arc<Listing>, ClientError> {
        let of = remote.clone();
        let at = parent.to_owned();
        let list = async move {
            let (children, stat) = retry_lost_reply(|| of.wire().children_and_stat(&at)).await?;
            Ok(Listing { queue: Queue::from_children(children, names), parent: wire::seen(&stat) })
        };
        self.listings_under(names).read(remote, list).await
    }

    fn listings_under(&self, names: Names) -> Arc<SharedReads<Listing>> {
        let mut listings = self.listings.lock();
        Arc::clone(listings.entry(names).or_insert_with(|| Arc::new(SharedReads::new(&self.runtime))))
    }

    /// Finds the node that a `create` with a lost reply may have made.
    pub(super) async fn find(&self, remote: &Remote, parent: &str, mark: &Mark) -> Result<Found, ClientError> {
        let of = remote.clone();
        let at = parent.to_owned();
        if mark.is_in_data() {
            let numbered = self.numbered.read(remote, async move { search::numbered(&of, &at).await }).await?;
            return Ok(numbered.find(mark));
        }
        let names = self.names.read(remote, async move { search::sorted_names(&of, &at).await }).await?;
        search::find_by_name(remote, parent, &names, mark).await
    }
}

type SharedResult<T> = Result<Arc<T>, ClientError>;

/// Reads of one kind. At most two of them are under way at a time.
#[derive(Debug)]
pub(super) struct SharedReads<T> {
    runtime: Handle,
    /// Taken by the contender that reads by itself.
    alone: Semaphore,
    last: Mutex<Weak<SharedRead<T>>>,
}

/// A read that is shared by the contenders that keep it.
#[derive(Debug)]
struct SharedRead<T> {
    /// Whether its first request may have been sent.
    has_begun: Arc<AtomicBool>,
    answer: watch::Receiver<Option<SharedResult<T>>>,
}

impl<T: Send + Sync + 'static> SharedReads<T> {
    pub(super) fn new(runtime: &Handle) -> Self {
        Self { runtime: runtime.clone(), alone: Semaphore::new(1), last: Mutex::default() }
    }

    /// Returns the answer of a read that begins after this call. `requests` may be dropped unsent, because another contender's are
    /// sent.
    pub(super) async fn read(
        &self,
        remote: &Remote,
        requests: impl Future<Output = Result<T, ClientError>> + Send + 'static,
    ) -> SharedResult<T> {
        if let Ok(_alone) = self.alone.try_acquire() {
            return requests.await.map(Arc::new);
        }
        let shared = self.join(remote, requests);
        let mut answer = shared.answer.clone();
        let answered = answer.wait_for(Option::is_some).await;
        // The task ends without an answer if its runtime ends, and the session with it.
        answered.ok().and_then(|answered| answered.clone()).unwrap_or(Err(ClientError::ClientClosed))
    }

    /// Returns the read that is about to begin.
    fn join(
        &self,
        remote: &Remote,
        requests: impl Future<Output = Result<T, ClientError>> + Send + 'static,
    ) -> Arc<SharedRead<T>> {
        let mut last = self.last.lock();
        let previous = last.upgrade();
        if let Some(shared) = previous.as_ref().filter(|shared| !shared.has_begun.load(Ordering::SeqCst)) {
            return Arc::clone(shared);
        }
        let previous = previous.map(|shared| shared.answer.clone());
        let (sender, answer) = watch::channel(None);
        let shared = Arc::new(SharedRead { has_begun: Arc::default(), answer });
        let has_begun = Arc::clone(&shared.has_begun);
        let remote = remote.clone();
        self.runtime.spawn(async move {
            let answer = async {
                if let Some(mut previous) = previous {
                    // An error says that it ended without an answer.
                    let _ = previous.wait_for(Option::is_some).await;
                }
                // While the connection is away, more contenders come.
                let connection = remote.wire().connection().await;
                // A contender that asks from here on needs another read: this one may not show what happened before it
                // asked.
                has_begun.store(true, Ordering::SeqCst);
                drop(connection?);
                requests.await.map(Arc::new)
            };
            tokio::select! {
                () = sender.closed() => {}
                answer = answer => {
                    sender.send_replace(Some(answer));
                }
            }
        });
        *last = Arc::downgrade(&shared);
        shared
    }
}

/// The watches of one session at a lock's node, one per kind of names. If they are dropped, the client library removes them.
#[derive(Default)]
pub(super) struct ParentWatches {
    kept: HashMap<Names, Pin<Box<dyn Future<Output = Fired> + Send>>>,
    /// Whether the session may watch the children of the lock's node. Then it does not watch the node itself.
    are_forgone: bool,
}

impl ParentWatches {
    /// Returns the watches of the lock's node at this path.
    pub(super) fn at(path: &str) -> Self {
        // A semaphore watches the children of such a node.
        Self { are_forgone: node::name(path) == LEASES, ..Self::default() }
    }

    /// Keeps a watch that was set.
    pub(super) fn keep(&mut self, names: Names, watch: Watch) {
        // Without poll budget, a watch that has fired looks as if it had not.
        self.kept.insert(names, Box::pin(unconstrained(watch.fired())));
    }

    /// Gives up all watches, in favour of watches of the children. They count as fired.
    pub(super) fn forgo(&mut self) {
        self.are_forgone = true;
    }

    /// Tells whether a watch may be set.
    pub(super) fn may_be_set(&self) -> bool {
        !self.are_forgone
    }

    /// Removes the watches whose notifications have arrived. Returns an event for each.
    pub(super) fn fired(&mut self) -> Vec<Event> {
        let mut events = Vec::new();
        self.kept.retain(|names, watch| {
            let has_fired = self.are_forgone || watch.as_mut().now_or_never().is_some();
            if has_fired {
                events.push(Event::ParentChanged(*names));
            }
            !has_fired
        });
        events
    }
}

impl fmt::Debug for ParentWatches {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.kept.keys()).finish()
    }
}
