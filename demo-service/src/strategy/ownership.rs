//! The owner of each SKU: an election for each range of SKUs.
//!
//! The leader of a range owns its SKUs for a *term*, whose fencing token is greater than those of all earlier terms. Every
//! instance that was asked for a SKU of a range takes part in its election. The node of each participant says how the other
//! instances reach it.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use hashlink::LruCache;
use parking_lot::Mutex;
use tokio::sync::{OwnedRwLockReadGuard, RwLock, watch};
use tokio::time::{Instant, sleep, timeout_at};
use tokio_util::sync::CancellationToken;
use tracing::{debug, info, warn};
use zk_recipes::{HoldWatch, LeaderLatch, LockGuard, Session};

use super::Context;
use super::zk_hold::{ROOT, fence, loss, unavailable};
use crate::failure::{self, Failure};
use crate::peers::Address;
use crate::sale::{Fence, GoodsNo, Level};

/// The number of ranges. SKUs whose numbers have the same remainder are one range.
const RANGES: i64 = 16;

/// The pause before the election is asked again for a leader that was not there.
const PAUSE: Duration = Duration::from_millis(50);

/// The pause before an instance takes part again after its term or its session has ended.
const REST: Duration = Duration::from_secs(1);

/// How long an owner may be silent before the election is asked whether it still leads.
const DOUBT: Duration = Duration::from_secs(1);

/// Upper bound of the stocks that a term keeps in memory. The least recently used one is dropped first.
const LEVELS_MAX: usize = 1024;

/// The elections of one instance.
pub(super) struct Ownership {
    context: Context,
    ranges: Vec<Range>,
}

/// The election of one range, as this instance knows it.
struct Range {
    path: String,
    /// Whether this instance takes part.
    is_candidate: AtomicBool,
    /// Our term, while we lead.
    term: watch::Sender<Option<Arc<Term>>>,
    /// The other instance that leads, as far as we know.
    leader: Mutex<Option<Address>>,
    /// The instance that said it does not lead, and until when we believe that it is about to leave the election.
    leaving: Mutex<Option<(Address, Instant)>>,
}

/// The time for which this instance owns a range.
pub(super) struct Term {
    pub(super) fence: Fence,
    watch: HoldWatch,
    /// The stocks after the batches of this term. A stock is absent while a batch of the SKU is on its way.
    levels: Mutex<LruCache<GoodsNo, Level>>,
    /// Cancelled when the instance gives the term up.
    resigned: CancellationToken,
    /// Locked for reading by each batch, and for writing to end the term between the batches.
    batches: Arc<RwLock<()>>,
}

/// Where a SKU is sold.
pub(super) enum Owner {
    /// By this instance.
    Here(Arc<Term>),
    /// By another one.
    At(Address),
}

impl Ownership {
    pub(super) fn new(context: Context) -> Arc<Self> {
        let range = |range| Range {
            path: format!("{ROOT}/{}/{range}", context.family),
            is_candidate: AtomicBool::new(false),
            term: watch::Sender::new(None),
            leader: Mutex::default(),
            leaving: Mutex::default(),
        };
        Arc::new(Self { ranges: (0..RANGES).map(range).collect(), context })
    }

    pub(super) fn context(&self) -> &Context {
        &self.context
    }

    fn range(&self, goods_no: GoodsNo) -> &Range {
        let range = usize::try_from(goods_no.get() % RANGES);
        &self.ranges[range.expect("BUG: a SKU has no range")]
    }

    /// Returns who owns a SKU. Waits for an owner until `until`. From now on, this instance takes part in the election.
    ///
    /// # Errors
    /// [`LOCK_TIMEOUT`](failure::LOCK_TIMEOUT) if nobody owns the SKU until then, and
    /// [`LOCK_SERVICE_UNAVAILABLE`](failure::LOCK_SERVICE_UNAVAILABLE) if ZooKeeper does not answer.
    ///
    /// # Cancel safety
    /// Nothing is lost.
    pub(super) async fn owner(self: &Arc<Self>, goods_no: GoodsNo, until: Instant) -> Result<Owner, Failure> {
        let range = self.range(goods_no);
        if !range.is_candidate.swap(true, Ordering::Relaxed) {
            // A shutdown waits for purchases only. It ends this task, too, and closes the sessions after that.
            tokio::spawn(Arc::clone(self).take_part(goods_no));
        }
        let owner = async {
            let mut terms = range.term.subscribe();
            loop {
                if let Some(term) = terms.borrow_and_update().clone() {
                    return Ok(Owner::Here(term));
                }
                let known = range.leader.lock().clone();
                let leader = if known.is_some() { known } else { self.ask(range).await? };
                if let Some(leader) = leader.filter(|leader| !range.is_leaving(leader)) {
                    *range.leader.lock() = Some(leader.clone());
                    return Ok(Owner::At(leader));
                }
                timeout_at(Instant::now() + PAUSE, terms.changed()).await.ok();
            }
        };
        timeout_at(until, owner).await.unwrap_or_else(|_| Err(self.context.lock_timeout()))
    }

    /// Asks the election who leads. Returns `None` if it is nobody, or a process of this instance's address and secret.
    async fn ask(&self, range: &Range) -> Result<Option<Address>, Failure> {
        let leader = LeaderLatch::new(&self.session()?, &range.path).map_err(unavailable)?.leader().await;
        let Some(leader) = leader.map_err(unavailable)? else { return Ok(None) };
        let address = serde_json::from_slice::<Address>(&leader.data).ok();
        Ok(address.filter(|address| *address != *self.context.address))
    }

    fn session(&self) -> Result<Session, Failure> {
        self.context.sessions.pick().ok_or_else(|| Failure::of(&failure::LOCK_SERVICE_UNAVAILABLE))
    }

    /// Forgets that another instance leads, because it did not answer.
    pub(super) fn forget(&self, goods_no: GoodsNo, leader: &Address) {
        self.range(goods_no).leader.lock().take_if(|known| known == leader);
    }

    /// Notes that an instance has said that it does not lead. The election may name it for a moment longer.
    pub(super) fn note_leaving(&self, goods_no: GoodsNo, leader: &Address) {
        self.forget(goods_no, leader);
        *self.range(goods_no).leaving.lock() = Some((leader.clone(), Instant::now() + REST));
    }

    /// Waits until another instance than `leader` leads.
    ///
    /// # Cancel safety
    /// Nothing is lost.
    pub(super) async fn moved(&self, goods_no: GoodsNo, leader: &Address) {
        let range = self.range(goods_no);
        let mut terms = range.term.subscribe();
        while terms.borrow_and_update().is_none() {
            if timeout_at(Instant::now() + DOUBT, terms.changed()).await.is_ok() {
                continue;
            }
            if let Ok(Some(now)) = self.ask(range).await
                && now != *leader
            {
                *range.leader.lock() = Some(now);
                return;
            }
        }
    }

    /// Notes what a batch of the term with that fence has left.
    pub(super) fn note_level(&self, goods_no: GoodsNo, fence: Fence, level: Level) {
        if let Some(term) = &*self.range(goods_no).term.borrow()
            && term.fence == fence
        {
            term.levels.lock().insert(goods_no, level);
        }
    }

    /// Takes part in the election of a range until the service shuts down.
    async fn take_part(self: Arc<Self>, goods_no: GoodsNo) {
        let (range, closing) = (self.range(goods_no), &self.context.closing);
        loop {
            let elected = tokio::select! {
                elected = self.wait_for_election(range) => elected,
                () = closing.cancelled() => return,
            };
            match elected {
                Ok(guard) => self.lead(range, guard).await,
                Err(failure) => {
                    debug!(%failure, range.path, "this instance takes no part in an election, trying again")
                }
            }
            tokio::select! {
                () = sleep(REST) => {}
                () = closing.cancelled() => return,
            }
        }
    }

    async fn wait_for_election(&self, range: &Range) -> Result<LockGuard, Failure> {
        let id = serde_json::to_string(&*self.context.address).expect("BUG: an address is not JSON");
        let latch = LeaderLatch::new(&self.session()?, &range.path).and_then(|latch| latch.with_id(id));
        latch.map_err(unavailable)?.lead().await.map_err(unavailable)
    }

    /// Owns a range until the term is lost or given up, or the service shuts down.
    async fn lead(&self, range: &Range, guard: LockGuard) {
        let term = Arc::new(Term {
            fence: fence(guard.token()),
            watch: guard.watch(),
            levels: Mutex::new(LruCache::new(LEVELS_MAX)),
            resigned: CancellationToken::new(),
            batches: Arc::default(),
        });
        let token = guard.token();
        info!(range.path, %token, "this instance owns a range of SKUs");
        range.leader.lock().take();
        range.term.send_replace(Some(Arc::clone(&term)));
        let lost = tokio::select! {
            biased;
            reason = guard.lost() => Some(reason),
            () = term.resigned.cancelled() => None,
            () = self.context.closing.cancelled() => None,
        };
        range.term.send_replace(None);
        if let Some(reason) = lost {
            self.context.metrics.count_loss(reason);
            warn!(range.path, %token, %reason, "this instance has lost a range of SKUs");
            return;
        }
        // A batch that has begun is finished under the term.
        tokio::select! {
            _ = term.batches.write() => {}
            _ = guard.lost() => {}
        }
        match guard.release().await {
            Ok(()) => info!(range.path, %token, "this instance has given up a range of SKUs"),
            Err(error) => {
                self.context.metrics.count_lost(&error);
                warn!(range.path, %token, error = program::chain(&error), "a range of SKUs was not given up cleanly");
            }
        }
    }
}

impl Range {
    fn is_leaving(&self, leader: &Address) -> bool {
        self.leaving.lock().as_ref().is_some_and(|(leaving, until)| leaving == leader && Instant::now() < *until)
    }
}

impl Term {
    /// Returns the stock of a SKU that this term remembers. It is forgotten until [`Ownership::note_level`] notes it again, so a
    /// batch that fails leaves nothing behind.
    pub(super) fn take_level(&self, goods_no: GoodsNo) -> Option<Level> {
        self.levels.lock().remove(&goods_no)
    }

    /// Keeps the end of the term away from a batch, unless the term is lost.
    pub(super) async fn begin_batch(&self) -> OwnedRwLockReadGuard<()> {
        Arc::clone(&self.batches).read_owned().await
    }

    /// Gives the term up, after the batches that have begun.
    pub(super) fn resign(&self) {
        self.resigned.cancel();
    }

    /// Waits until the term is lost, and returns the failure of a purchase that this stops. The wait may outlive the term.
    pub(super) fn loss(&self) -> impl Future<Output = Failure> + Send + use<> {
        loss(self.watch.clone())
    }
}
