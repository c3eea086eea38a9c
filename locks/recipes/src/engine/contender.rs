//! A contender whose node is always deleted in the end.

use zk_recipes_protocol::liveness;
use zk_recipes_protocol::names::Naming;
use zk_recipes_protocol::session_queue::{ContenderId, Made};

use super::core::Granted;
use super::place::Place;
use crate::acquire::Deadline;
use crate::error::Error;
use crate::node;
use crate::session::Session;
use crate::session::liveness::hold_reports::HoldName;
use crate::session::remote::Removal;

/// A contender, from its first request to the end of its hold. If it is dropped, the session's reaper deletes its node, even if the
/// reply to `create` has not arrived yet.
#[derive(Debug)]
pub(crate) struct Contender {
    session: Session,
    /// `None` once the contender has left, or its place was taken out.
    place: Option<Place>,
    lock: String,
    naming: Naming,
    made: Option<Made>,
    path: String,
    /// The name of its hold, once the hold was dropped.
    dropped_hold: Option<HoldName>,
}

impl Contender {
    pub(crate) fn new(session: &Session, place: Place, lock: &str, naming: Naming) -> Self {
        let (session, lock) = (session.clone(), lock.to_owned());
        Self { session, place: Some(place), path: lock.clone(), lock, naming, made: None, dropped_hold: None }
    }

    pub(crate) fn session(&self) -> &Session {
        &self.session
    }

    /// Returns the path of the lock.
    pub(crate) fn lock(&self) -> &str {
        &self.lock
    }

    /// Returns the path for messages: the node's path, or the lock's path while there is no node.
    pub(crate) fn path(&self) -> &str {
        &self.path
    }

    /// Returns the transaction that created the node, if another node may get the same path later. `None` for a unique path.
    pub(crate) fn czxid(&self) -> Option<i64> {
        self.made.as_ref().filter(|_| self.naming == Naming::Numbered).map(|made| made.czxid)
    }

    pub(crate) fn id(&self) -> ContenderId {
        self.place.as_ref().expect("BUG: a contender that has left is asked for").id()
    }

    fn place(&mut self) -> &mut Place {
        self.place.as_mut().expect("BUG: a contender that has left goes on")
    }

    fn note_node(&mut self, made: &Made) {
        self.path = node::child(&self.lock, &made.name);
        self.made = Some(made.clone());
    }

    /// Waits until the contender has a place in the queue. Returns its node.
    pub(crate) async fn placed(&mut self) -> Result<Made, Error> {
        let made = self.place().placed().await?;
        self.note_node(&made);
        Ok(made)
    }

    /// Starts the wait for the grant. The contender must have a place.
    pub(crate) fn wait(&mut self) {
        self.place().wait();
    }

    /// Waits for the grant. `None` if another contender was ahead of a `try`. If the future is dropped, the contender keeps its
    /// place.
    pub(crate) async fn granted(&mut self) -> Result<Option<Granted>, Error> {
        let granted = self.place().granted().await?;
        if let Some(Granted { made, .. }) = &granted {
            self.note_node(made);
        }
        Ok(granted)
    }

    /// Waits for the grant until the deadline. `None` if the deadline came first, or another contender was ahead of a `try`. After a
    /// deadline, the node is gone.
    pub(crate) async fn granted_by(mut self, deadline: Deadline) -> Result<Option<(Self, Granted)>, Error> {
        match deadline.bound(self.granted()).await {
            Some(granted) => Ok(granted?.map(|granted| (self, granted))),
            None => self.withdraw().await.map(|()| None),
        }
    }

    /// Releases the hold or gives up, and waits for the confirmation that the node is gone. `hands_over`: the hold is handed over to
    /// the successor, if the successor belongs to the session. If this fails or is dropped, the reaper continues once the contender
    /// is dropped.
    pub(crate) async fn leave(&mut self, hands_over: bool) -> Result<Removal, Error> {
        let Some(place) = &mut self.place else { return Ok(Removal::NothingThere) };
        let removal = place.leave(hands_over).await?;
        let place = self.place.take();
        if removal == Removal::Kept {
            place.into_iter().for_each(|place| self.session.abandon(Box::new(place), None));
        }
        Ok(removal)
    }

    /// Gives up a contender without a grant. When this returns `Ok`, the node is gone. Waits at most as long as [`withdrawal`].
    pub(crate) async fn withdraw(&mut self) -> Result<(), Error> {
        let (session, path) = (self.session.clone(), self.path.clone());
        withdrawal(&session, &path, async { self.leave(false).await.map(drop) }).await
    }

    /// Drops the proof of its hold, because nothing relies on the hold itself.
    pub(crate) fn forget_proof(&self) {
        self.place.iter().for_each(Place::forget_proof);
    }

    /// Notes that its hold is being dropped. The contender is dropped next.
    pub(crate) fn note_dropped(&mut self, hold: Option<HoldName>) {
        self.dropped_hold = hold;
    }

    /// Takes the place out. The caller must then let it leave. `None` if the contender has left.
    pub(crate) fn into_place(mut self) -> Option<Place> {
        self.place.take()
    }
}

impl Drop for Contender {
    fn drop(&mut self) {
        if let Some(mut place) = self.place.take().filter(|place| !place.is_over()) {
            place.leave_later();
            self.session.abandon(Box::new(place), self.dropped_hold.take());
        }
    }
}

/// Waits for a removal under `path`, for at most a quarter of the session timeout. The client waits that long for a silent
/// connection. So a server that does not answer does not delay a caller whose deadline has passed.
pub(crate) async fn withdrawal(
    session: &Session,
    path: &str,
    removal: impl Future<Output = Result<(), Error>>,
) -> Result<(), Error> {
    let within = liveness::connection_timeout(session.timeout());
    let removed = Deadline::after(within).bound(removal).await;
    removed.unwrap_or_else(|| Err(Error::Unconfirmed { path: path.to_owned(), within }))
}
