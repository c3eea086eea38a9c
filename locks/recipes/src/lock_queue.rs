//! The queue of one lock, for the recipes.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use zk_recipes_protocol::liveness::LostReason;
use zk_recipes_protocol::names::{Mode, Names, Naming};
use zk_recipes_protocol::session_queue::{Wish, WishKind};

use crate::acquire::{AcquireSpan, Deadline};
use crate::engine::{Contender, Engine};
use crate::error::Error;
use crate::guard::LockGuard;
use crate::hold::{Claim, Grant, Hold, node_watch};
use crate::node;
use crate::node_data;
use crate::session::Session;
use crate::session::rooms::Room;

/// The queue of one lock: the sequential nodes below its path.
#[derive(Clone)]
pub(crate) struct LockQueue {
    session: Session,
    engine: Arc<Engine>,
    names: Names,
    naming: Naming,
    node_data: Arc<[u8]>,
}

impl LockQueue {
    /// Returns a queue of nodes with Curator's names.
    pub(crate) fn new(session: &Session, parent: &str, names: Names) -> Result<Self, Error> {
        Self::of(Naming::Protected, session, parent, names)
    }

    /// Returns a queue in which a holder leaves a note for its successor when it releases.
    pub(crate) fn with_handoff(session: &Session, parent: &str, names: Names) -> Result<Self, Error> {
        Self::of(Naming::Numbered, session, parent, names)
    }

    fn of(naming: Naming, session: &Session, parent: &str, names: Names) -> Result<Self, Error> {
        node::validate_path(parent)?;
        let engine = Engine::at(session, parent);
        Ok(Self { session: session.clone(), engine, names, naming, node_data: Arc::default() })
    }

    /// Returns the queue with other data for its nodes.
    pub(crate) fn with_node_data(self: Arc<Self>, node_data: Vec<u8>) -> Result<Arc<Self>, Error> {
        node_data::validate(&node_data)?;
        Ok(Arc::new(Self { node_data: node_data.into(), ..Arc::unwrap_or_clone(self) }))
    }

    /// Returns the queue with other names of its contenders.
    pub(crate) fn with_names(self: Arc<Self>, names: Names) -> Arc<Self> {
        Arc::new(Self { names, ..Arc::unwrap_or_clone(self) })
    }

    pub(crate) fn session(&self) -> &Session {
        &self.session
    }

    pub(crate) fn parent(&self) -> &str {
        self.engine.path()
    }

    pub(crate) fn names(&self) -> Names {
        self.names
    }

    pub(crate) fn naming(&self) -> Naming {
        self.naming
    }

    /// Writes the `Debug` text of a lock.
    pub(crate) fn describe(&self, lock: &str, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct(lock)
            .field("path", &self.parent())
            .field("node_data", &format_args!("{} bytes", self.node_data.len()))
            .finish_non_exhaustive()
    }

    /// Returns how long a `try` waits for answers: half the session timeout. By default, a hold survives its last proof for
    /// longer than that.
    pub(crate) fn answer_within(&self) -> Duration {
        self.session.timeout() / 2
    }

    fn is_election(&self) -> bool {
        self.names == Names::LATCH
    }

    /// Returns the room that the node of a contender takes.
    pub(crate) fn node_room(&self, mode: Mode) -> usize {
        let name_len = node::name_len(self.names.marker(mode), self.naming == Naming::Protected);
        self.session.room_of(self.parent().len() + 1 + name_len)
    }

    /// Returns the room of a contender's node: see [`Session::room`].
    pub(crate) async fn room(&self, mode: Mode, is_try: bool) -> Result<Room, Error> {
        self.session.room(self.parent(), self.node_room(mode), is_try).await
    }

    /// As [`room`](Self::room), without a wait. `None` if there is no room now.
    pub(crate) async fn try_room(&self, mode: Mode) -> Result<Option<Room>, Error> {
        match self.room(mode, true).await {
            Err(Error::NoRoom { .. }) => Ok(None),
            room => room.map(Some),
        }
    }

    /// Adds a contender and sends its first requests. `room`: the room of its node.
    pub(crate) fn enter(&self, mode: Mode, kind: WishKind, room: Option<Room>) -> Claim<Contender> {
        let wish = Wish { mode, naming: self.naming, names: self.names, kind };
        Claim::new(&self.session, Contender::enter(&self.engine, wish, &self.node_data, room))
    }

    /// Opens the span of an acquire.
    pub(crate) fn acquire_span(&self, mode: Mode) -> AcquireSpan {
        let is_read_write = matches!(self.names, Names::READ_WRITE | Names::READ_WRITE_AND_KAZOO);
        let recipe = match (mode, self.naming) {
            (Mode::Shared, _) => "read",
            (Mode::Exclusive, _) if is_read_write => "write",
            (Mode::Exclusive, _) if self.is_election() => "leader",
            (Mode::Exclusive, Naming::Numbered) => "handoff",
            (Mode::Exclusive, Naming::Protected) => "mutex",
        };
        AcquireSpan::new(recipe, self.parent(), Some(self.session.id()))
    }

    /// Queues up and waits for the grant. `None` if the deadline came first. The node is gone then.
    pub(crate) async fn acquire(&self, mode: Mode, deadline: Deadline) -> Result<Option<LockGuard>, Error> {
        self.acquire_span(mode).run(async { Ok(self.acquire_hold(mode, deadline).await?.map(LockGuard::new)) }).await
    }

    /// Takes the lock if no contender is ahead. Reads first: if one is ahead, this costs one read and no write.
    pub(crate) async fn try_acquire(&self, mode: Mode) -> Result<Option<LockGuard>, Error> {
        self.acquire_span(mode).run(async { Ok(self.try_acquire_hold(mode).await?.map(LockGuard::new)) }).await
    }

    /// As [`acquire`](Self::acquire), within the span of the caller.
    pub(crate) async fn acquire_hold(&self, mode: Mode, deadline: Deadline) -> Result<Option<Hold>, Error> {
        let Some(room) = deadline.bound(self.room(mode, false)).await else { return Ok(None) };
        let mut claim = self.enter(mode, WishKind::Wait, Some(room?));
        Ok(claim.granted_by(deadline).await?.map(|grant| self.hold_of(claim, grant)))
    }

    /// As [`try_acquire`](Self::try_acquire), within the span of the caller.
    pub(crate) async fn try_acquire_hold(&self, mode: Mode) -> Result<Option<Hold>, Error> {
        let room = self.room(mode, true).await?;
        let mut claim = self.enter(mode, WishKind::Try, Some(room));
        Ok(self.answer_to_try(&mut claim).await?.map(|grant| self.hold_of(claim, grant)))
    }

    /// Returns the hold of a claim that was granted the lock.
    pub(crate) fn hold_of(&self, claim: Claim<Contender>, grant: Grant) -> Hold {
        let hold = Hold::new(claim, grant);
        if self.is_election() {
            node_watch::start(&self.session, hold.path(), hold.watch_until(hold.end()));
        }
        hold
    }

    /// Waits for the lease lock of a semaphore: nothing relies on the hold itself. `None` if the deadline came first. The node is gone
    /// then.
    pub(crate) async fn take_lease_lock(
        &self,
        room: Option<Room>,
        deadline: Deadline,
    ) -> Result<Option<Claim<Contender>>, Error> {
        let mut claim = self.enter(Mode::Exclusive, WishKind::Wait, room);
        Ok(claim.granted_by(deadline).await?.map(|_grant| without_proof(claim)))
    }

    /// As [`take_lease_lock`](Self::take_lease_lock), but only if no contender is ahead.
    pub(crate) async fn try_lease_lock(&self, room: Option<Room>) -> Result<Option<Claim<Contender>>, Error> {
        let mut claim = self.enter(Mode::Exclusive, WishKind::Try, room);
        Ok(self.answer_to_try(&mut claim).await?.map(|_grant| without_proof(claim)))
    }

    async fn answer_to_try(&self, claim: &mut Claim<Contender>) -> Result<Option<Grant>, Error> {
        let within = self.answer_within();
        match Deadline::after(within).bound(claim.granted()).await {
            // A contender that came in between may have left a node of ours. It is gone before the caller is told.
            Some(Ok(None)) => claim.withdraw().await.map(|()| None),
            Some(granted) => granted,
            None => Err(Error::NoAnswer { within }),
        }
    }

    /// Shares the lock with a hold of the same owner, in the place of that hold, ahead of all waiters. The new node gets the
    /// number of the hold's node, as Curator's nodes do since 5.5.0. So a waiter that waits for one of the two waits for the
    /// other, too. `None` if the deadline came first. The node is gone then.
    pub(crate) async fn share_with(
        &self,
        holder: &Hold,
        mode: Mode,
        deadline: Deadline,
    ) -> Result<Option<Hold>, Error> {
        // A holder never waits for room: the waiters behind it may have all of it. Each lock has at most one such node.
        let mut claim = self.enter(mode, WishKind::Beside(holder.contender()), None);
        match claim.granted_by(deadline).await {
            Ok(granted) => Ok(granted.map(|grant| holder.share(claim, grant))),
            // Somebody deleted the hold's node, so another contender may hold by now.
            Err(Error::NodeDeleted { .. }) => Err(holder.lost_error(holder.token(), LostReason::NodeDeleted)),
            Err(error) => Err(error),
        }
    }
}

fn without_proof(claim: Claim<Contender>) -> Claim<Contender> {
    claim.forget_proof();
    claim
}

impl fmt::Debug for LockQueue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.describe("LockQueue", f)
    }
}
