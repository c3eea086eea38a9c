//! The owner of each SKU: an election for each range of SKUs of a database.
//!
//! The leader of a range owns its SKUs for a *term*, whose fencing token is greater than those of all earlier terms. Every
//! instance that was asked for a SKU of a range takes part in its election. The node of each participant says how the other
//! instances reach it.
//!
//! An instance asks the election for the leader once a term, and watches the leader's node after that. All SKUs of the range share
//! the answer.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use hashlink::LruCache;
use parking_lot::Mutex;
use tokio::sync::{OwnedRwLockReadGuard, OwnedSemaphorePermit, RwLock, Semaphore, watch};
use tokio::time::{Instant, sleep, timeout_at};
use tokio_util::sync::CancellationToken;
use tracing::{debug, info, warn};
use zk_recipes::{ConnectionState, HoldWatch, LeaderLatch, LockGuard, Session};

use super::NAME;
use crate::failure::{self, Failure};
use crate::instances::{Address, CONNECTIONS_MAX, Reach};
use crate::sale::{Fence, GoodsNo, Level};
use crate::sessions::ROOT;
use crate::strategy::context::Context;
use crate::strategy::lock::{fence, loss, unavailable};

/// The number of ranges. SKUs whose numbers have the same remainder are one range.
pub(super) const RANGES: u16 = 16;

/// Upper bound of the batches of one range that are on their way to its owner, so that there is a connection for each batch of all
/// ranges. An owner that does not answer keeps only the batches of its ranges waiting.
const HANDED_MAX: usize = CONNECTIONS_MAX / RANGES as usize;

/// The pause before the election is asked again for a leader that was not there. Also how often buyers without an owner look
/// whether a session is connected.
const PAUSE: Duration = Duration::from_millis(50);

/// How long nothing is handed over to an instance that decided nothing of a batch, although the election still names it.
const AVOID: Duration = Duration::from_millis(250);

/// The pause before an instance takes part again after its term or its session has ended.
const REST: Duration = Duration::from_secs(1);

/// Upper bound of the stocks that a term keeps in memory. The least recently used one is dropped first.
const LEVELS_MAX: usize = 1024;

/// The elections of one instance.
pub(super) struct Elections {
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
    /// The leader that the election has named last.
    leader: watch::Sender<Leader>,
    /// The instance that took no batch, and until when nothing is handed over to it.
    avoided: Mutex<Option<(Address, Instant)>>,
    /// Limits the batches that are handed over.
    permits: Arc<Semaphore>,
}

/// The answer of an election.
#[derive(Clone)]
enum Leader {
    /// Nobody has asked yet.
    Unknown,
    /// Nobody leads that this instance could hand over to. It may lead itself.
    Nobody,
    /// Another instance leads.
    At(Address),
    /// ZooKeeper did not answer, and no leader was known before.
    Unavailable(Failure),
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

/// Returns the path of the election of a range of that database.
pub(super) fn path(database: &str, range: u16) -> String {
    format!("{ROOT}/{NAME}/{database}/{range}")
}

impl Elections {
    pub(super) fn new(context: Context) -> Arc<Self> {
        let range = |range| Range {
            path: path(&context.shared.hand_over.database, range),
            is_candidate: AtomicBool::new(false),
            term: watch::Sender::new(None),
            leader: watch::Sender::new(Leader::Unknown),
            avoided: Mutex::default(),
            permits: Arc::new(Semaphore::new(HANDED_MAX)),
        };
        Arc::new(Self { ranges: (0..RANGES).map(range).collect(), context })
    }

    pub(super) fn context(&self) -> &Context {
        &self.context
    }

    fn range(&self, goods_no: GoodsNo) -> &Range {
        let range = usize::try_from(goods_no.get() % i64::from(RANGES));
        &self.ranges[range.expect("BUG: a SKU has no range")]
    }

    /// Returns who owns a SKU. Waits for an owner until `until`. From now on, this instance takes part in the election.
    pub(super) async fn owner(self: &Arc<Self>, goods_no: GoodsNo, until: Instant) -> Result<Owner, Failure> {
        let range = self.range(goods_no);
        if !range.is_candidate.swap(true, Ordering::Relaxed) {
            // A shutdown waits for purchases only. It ends these tasks, too, and closes the sessions after that.
            tokio::spawn(Arc::clone(self).take_part(goods_no));
            tokio::spawn(Arc::clone(self).follow(goods_no));
        }
        timeout_at(until, self.owner_of(range)).await.unwrap_or_else(|_| Err(self.context.lock_timeout()))
    }

    /// Waits until `until` for the right to hand a batch of a SKU over. The owner of the SKU may change meanwhile.
    pub(super) async fn permit(&self, goods_no: GoodsNo, until: Instant) -> Result<OwnedSemaphorePermit, Failure> {
        let permit = Arc::clone(&self.range(goods_no).permits).acquire_owned();
        let permit = timeout_at(until, permit).await.map_err(|_| self.context.lock_timeout())?;
        Ok(permit.expect("BUG: the permits of a range are closed"))
    }

    async fn owner_of(&self, range: &Range) -> Result<Owner, Failure> {
        let mut terms = range.term.subscribe();
        let mut leaders = range.leader.subscribe();
        loop {
            // `borrow_and_update` marks the value as seen, so every later change ends the wait below.
            if let Some(term) = terms.borrow_and_update().clone() {
                return Ok(Owner::Here(term));
            }
            let leader = leaders.borrow_and_update().clone();
            match leader {
                Leader::At(leader) if !range.is_avoided(&leader) => return Ok(Owner::At(leader)),
                Leader::Unavailable(failure) => return Err(failure),
                Leader::At(_) | Leader::Unknown | Leader::Nobody => {}
            }
            // Without a session nobody here learns of an owner.
            self.session()?;
            tokio::select! {
                _ = terms.changed() => {}
                _ = leaders.changed() => {}
                // The end of an avoidance or of a session wakes nobody, so both are looked at again after a pause.
                () = sleep(PAUSE) => {}
            }
        }
    }

    /// Keeps the leader of a range up to date until the service shuts down.
    async fn follow(self: Arc<Self>, goods_no: GoodsNo) {
        let range = self.range(goods_no);
        let following = async {
            loop {
                if let Err(failure) = self.follow_leaders(range).await {
                    debug!(%failure, range.path, "the leader of a range is not known, asking again");
                    range.note_unavailable(failure);
                }
                sleep(PAUSE).await;
            }
        };
        tokio::select! {
            () = following => {}
            () = self.context.shared.closing.cancelled() => {}
        }
    }

    /// Notes one leader after the other, until nobody leads or the session is not connected.
    async fn follow_leaders(&self, range: &Range) -> Result<(), Failure> {
        let session = self.session()?;
        let latch = LeaderLatch::new(&session, &range.path).map_err(unavailable)?;
        while let Some(leader) = latch.leader().await.map_err(unavailable)? {
            range.leader.send_replace(self.leader(&leader.data));
            tokio::select! {
                gone = latch.until_gone(&leader) => gone.map_err(unavailable)?,
                // Another session may be connected.
                () = until_away(&session) => return Ok(()),
            }
        }
        range.leader.send_replace(Leader::Nobody);
        Ok(())
    }

    /// Reads the id of a leader. This instance has its own address, and an earlier process of it has the address, too.
    fn leader(&self, id: &[u8]) -> Leader {
        let Ok(address) = serde_json::from_slice::<Address>(id) else { return Leader::Nobody };
        match self.context.shared.hand_over.address.reach(&address) {
            Reach::Direct => Leader::At(address),
            Reach::Ended => Leader::Nobody,
            Reach::Nowhere => {
                warn!(
                    owner = address.at,
                    "the address of an owner does not lead to it from here, so the buyers of its range wait; give each instance \
                     an address that the others reach, by --peers-listen (PEERS_LISTEN) and --peers-address (PEERS_ADDRESS)"
                );
                Leader::Nobody
            }
        }
    }

    fn session(&self) -> Result<Session, Failure> {
        self.context.shared.sessions.pick().ok_or_else(|| Failure::of(&failure::LOCK_SERVICE_UNAVAILABLE))
    }

    /// Notes that an instance took no batch of a SKU. The election may name it for a moment longer.
    pub(super) fn avoid(&self, goods_no: GoodsNo, leader: &Address) {
        *self.range(goods_no).avoided.lock() = Some((leader.clone(), Instant::now() + AVOID));
    }

    /// Returns whether `leader` leads, as far as this instance knows.
    pub(super) fn is_at(&self, goods_no: GoodsNo, leader: &Address) -> bool {
        let range = self.range(goods_no);
        range.term.borrow().is_none() && matches!(&*range.leader.borrow(), Leader::At(now) if now == leader)
    }

    /// Waits until another instance than `leader` leads.
    pub(super) async fn moved(&self, goods_no: GoodsNo, leader: &Address) {
        let range = self.range(goods_no);
        let mut terms = range.term.subscribe();
        let mut leaders = range.leader.subscribe();
        let is_other = |now: &Leader| matches!(now, Leader::At(now) if now != leader);
        tokio::select! {
            // `wait_for` looks at the present value first, so a change before the call counts, too.
            _ = terms.wait_for(Option::is_some) => {}
            _ = leaders.wait_for(is_other) => {}
        }
    }

    /// Takes part in the election of a range until the service shuts down.
    async fn take_part(self: Arc<Self>, goods_no: GoodsNo) {
        let range = self.range(goods_no);
        let closing = &self.context.shared.closing;
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
        let id = serde_json::to_string(&*self.context.shared.hand_over.address).expect("BUG: an address is not JSON");
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
        range.term.send_replace(Some(Arc::clone(&term)));
        let lost = tokio::select! {
            biased;
            reason = guard.lost() => Some(reason),
            () = term.resigned.cancelled() => None,
            () = self.context.shared.closing.cancelled() => None,
        };
        // Withdrawn before the wait for the batches: new buyers must look for the next owner.
        range.term.send_replace(None);
        if let Some(reason) = lost {
            self.context.metrics.count_loss(reason);
            warn!(range.path, %token, %reason, "this instance has lost a range of SKUs");
            return;
        }
        // A batch in progress is finished under the term.
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
    fn is_avoided(&self, leader: &Address) -> bool {
        self.avoided.lock().as_ref().is_some_and(|(avoided, until)| avoided == leader && Instant::now() < *until)
    }

    /// Notes that ZooKeeper did not answer. A leader that is known goes on being asked.
    fn note_unavailable(&self, failure: Failure) {
        self.leader.send_if_modified(|leader| {
            let is_known = matches!(leader, Leader::At(_));
            if !is_known {
                *leader = Leader::Unavailable(failure);
            }
            !is_known
        });
    }
}

/// Waits until a session is not connected.
async fn until_away(session: &Session) {
    let mut states = session.states();
    while session.state() == ConnectionState::Connected && states.changed().await.is_some() {}
}

impl Term {
    /// Returns the stock of a SKU that this term remembers. It is forgotten until [`note_level`](Self::note_level) notes it again, so a
    /// batch that fails leaves nothing behind.
    pub(super) fn take_level(&self, goods_no: GoodsNo) -> Option<Level> {
        self.levels.lock().remove(&goods_no)
    }

    /// Remembers what a batch has left.
    pub(super) fn note_level(&self, goods_no: GoodsNo, level: Level) {
        self.levels.lock().insert(goods_no, level);
    }

    /// Joins a batch to the term: unless the term is lost, it does not end before the batch.
    pub(super) async fn join_batch(&self) -> OwnedRwLockReadGuard<()> {
        Arc::clone(&self.batches).read_owned().await
    }

    /// Gives the term up, after the batches in progress.
    pub(super) fn resign(&self) {
        self.resigned.cancel();
    }

    /// Waits until the term is lost, and returns the failure of a purchase that this stops. The wait may outlive the term.
    pub(super) fn loss(&self) -> impl Future<Output = Failure> + Send + use<> {
        loss(self.watch.clone())
    }
}
