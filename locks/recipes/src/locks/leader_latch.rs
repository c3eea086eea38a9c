//! The election of a leader.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use zk_recipes_protocol::names::{Mode, Names};

use crate::acquire::{Deadline, granted};
use crate::error::Error;
use crate::guard::LockGuard;
use crate::guard::waiter::Waiter;
use crate::lock_queue::LockQueue;
use crate::locks::participants::{self, Participant};
use crate::session::Session;

/// An election: one of its participants leads, until its term ends. Then the participant that came next leads.
///
/// Participants queue as contenders of a [`Mutex`](crate::Mutex) do. Node names, order and the ids in the nodes are the same as in
/// Apache Curator's `LeaderLatch`, so participants of both take part in one election.
///
/// A term is a hold, so [`lead`](Self::lead) returns a [`LockGuard`]:
///
/// * [`token`](LockGuard::token) numbers the terms. It is greater than the token of every earlier term, also of a term of Curator.
/// * [`run`](LockGuard::run) does the leader's work, and stops it when the term is lost.
/// * [`release`](LockGuard::release) or a drop resigns.
/// * [`state`](LockGuard::state), [`lost`](LockGuard::lost) and [`watch`](LockGuard::watch) tell whether the term is lost. A term
///   is lost with its session, before the servers can let another session lead.
///
/// One point differs from the hold of a `Mutex`, because a term may last for months. The node of the leader is watched for as long
/// as the term lasts. If somebody deletes the node, with the latch's own node or without it, the term is lost as soon as a server
/// tells the session.
///
/// A lost term does not come back. To take part again, call [`lead`](Self::lead) again. If the session has ended, connect another
/// one first. `examples/leader.rs` does both in a loop.
///
/// Cheap to clone. Every call of `lead` is a participant of its own, also if several calls use one latch.
///
/// ```no_run
/// use zk_recipes::{LeaderLatch, Session, SessionConfig};
///
/// # async fn serve(term: i64) {}
/// # async fn example() -> Result<(), zk_recipes::Error> {
/// let session = Session::connect("127.0.0.1:2181", SessionConfig::default()).await?;
/// let latch = LeaderLatch::new(&session, "/leaders/goods")?.with_id("instance-1")?;
/// let term = latch.lead().await?;
/// term.run(serve(term.token().czxid())).await?; // stopped when the term is lost
/// term.release().await?; // resigns
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct LeaderLatch {
    queue: Arc<LockQueue>,
}

impl LeaderLatch {
    /// Returns the election at `path`. The children of this node are the participants, so use it for nothing else. Missing parents
    /// are created by the first participant, as [`SessionConfig::parents`](crate::SessionConfig::parents) says.
    ///
    /// # Errors
    /// [`Error::InvalidPath`]. Nothing is sent.
    pub fn new(session: &Session, path: &str) -> Result<Self, Error> {
        Ok(Self { queue: Arc::new(LockQueue::new(session, path, Names::LATCH)?) })
    }

    /// Sets the id of the participants, which is empty by default. It is the data of their nodes, so
    /// [`participants`](Self::participants) and Curator's `getParticipants` show it. Ids need not differ. Earlier clones keep their id.
    ///
    /// # Errors
    /// [`Error::NodeDataTooLong`] or [`Error::NodeDataReserved`], as [`Mutex::with_node_data`](crate::Mutex::with_node_data).
    /// Nothing is sent.
    pub fn with_id(self, id: impl Into<String>) -> Result<Self, Error> {
        Ok(Self { queue: self.queue.with_node_data(id.into().into_bytes())? })
    }

    /// Takes part, and waits until this participant leads. There is no deadline.
    ///
    /// # Errors
    /// [`Error::SessionEnded`], [`Error::NumbersExhausted`], [`Error::NotAuthorized`] or [`Error::Refused`].
    /// [`Error::NodeDeleted`] if somebody deleted our node before it led.
    ///
    /// # Cancel safety
    /// If the future is dropped, the participant leaves the election. The session's reaper deletes the node, even if the reply to
    /// `create` has not arrived yet.
    #[doc(alias = "await")]
    pub async fn lead(&self) -> Result<LockGuard, Error> {
        self.queue.acquire(Mode::Exclusive, Deadline::never()).await.map(granted)
    }

    /// Leads if nobody else takes part. Otherwise returns `None` after one read. If another participant comes in between, deletes
    /// our node again and returns `None`.
    ///
    /// # Errors
    /// As [`lead`](Self::lead). [`Error::NoAnswer`] if the server did not answer within half the session timeout.
    /// [`Error::NoRoom`] if the session has no room for the node now.
    /// [`Error::Unconfirmed`] if another participant came in between and the server did not confirm that our node is gone.
    ///
    /// # Cancel safety
    /// If the future is dropped, nothing is left behind: the session's reaper deletes our node.
    pub async fn try_lead(&self) -> Result<Option<LockGuard>, Error> {
        self.queue.try_acquire(Mode::Exclusive).await
    }

    /// Takes part, and waits for at most `wait` until this participant leads. At the deadline, deletes our node, which takes at
    /// most a quarter of the session timeout. When it returns `None`, our node is gone.
    ///
    /// # Errors
    /// As [`lead`](Self::lead). [`Error::Unconfirmed`] if the server did not confirm in time that our node is gone.
    ///
    /// # Cancel safety
    /// As [`lead`](Self::lead).
    pub async fn lead_within(&self, wait: Duration) -> Result<Option<LockGuard>, Error> {
        self.queue.acquire(Mode::Exclusive, Deadline::after(wait)).await
    }

    /// Takes part, and does not wait until this participant leads: [`Waiter::granted`] does. Meanwhile, the caller can look at the
    /// other participants. If the waiter is dropped, the participant leaves the election.
    ///
    /// # Errors
    /// As [`lead`](Self::lead).
    ///
    /// # Cancel safety
    /// As [`lead`](Self::lead).
    #[doc(alias = "start")]
    pub async fn enqueue(&self) -> Result<Waiter, Error> {
        Waiter::take(&self.queue, Mode::Exclusive).await
    }

    /// Returns the leader at this moment. Its [`data`](Participant::data) is its id. `None` if nobody takes part.
    ///
    /// It may be a participant of this session or any other. Only [`LockGuard::state`] tells whether our own term goes on.
    ///
    /// # Errors
    /// As [`participants`](crate::participants()).
    ///
    /// # Cancel safety
    /// It only reads.
    #[doc(alias = "getLeader")]
    pub async fn leader(&self) -> Result<Option<Participant>, Error> {
        participants::first_of_queue(self.queue.session(), self.queue.parent(), self.queue.names()).await
    }

    /// Returns the leader and the other participants, in the order in which they lead. Their [`data`](Participant::data) is their
    /// id.
    ///
    /// # Errors
    /// As [`participants`](crate::participants()).
    ///
    /// # Cancel safety
    /// It only reads.
    #[doc(alias = "getParticipants")]
    pub async fn participants(&self) -> Result<Vec<Participant>, Error> {
        participants::of_queue(self.queue.session(), self.queue.parent(), self.queue.names()).await
    }

    /// Waits until a participant is out of the election: it has resigned or given up, its session has ended, or somebody has
    /// deleted its node. So a caller that follows the leader asks [`leader`](Self::leader) once a term.
    ///
    /// It sends one request and leaves one watch on the node, which fires once. A new connection costs another request. There is
    /// no deadline: while no server answers, it goes on.
    ///
    /// # Errors
    /// [`Error::SessionEnded`], [`Error::NotAuthorized`] or [`Error::Refused`].
    ///
    /// # Cancel safety
    /// Nothing is lost: if the future is dropped, the watch is removed.
    pub async fn until_gone(&self, participant: &Participant) -> Result<(), Error> {
        participants::until_gone(self.queue.session(), participant).await
    }

    /// Returns the path of the election. The children of this node are the participants.
    #[must_use]
    pub fn path(&self) -> &str {
        self.queue.parent()
    }

    /// Returns the room that an acquire takes.
    pub(crate) fn room(&self) -> usize {
        self.queue.node_room(Mode::Exclusive)
    }

    /// Returns the session of the latch.
    #[must_use]
    pub fn session(&self) -> &Session {
        self.queue.session()
    }
}

impl fmt::Debug for LeaderLatch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.queue.describe("LeaderLatch", f)
    }
}
