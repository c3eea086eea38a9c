//! A contender with the promise that nothing of it stays behind.

use zk_recipes_protocol::liveness;
use zk_recipes_protocol::names::Naming;
use zk_recipes_protocol::session_queue::{ContenderId, Made};

use super::core::Granted;
use super::place::Place;
use crate::deadline::Deadline;
use crate::error::Error;
use crate::node;
use crate::session::Session;
use crate::session::hold_reports::HoldName;
use crate::session::remote::Removal;

/// A contender, from its first request to the end of its hold. Dropped, it leaves: the session's reaper deletes what is there,
/// also a node whose creation has not been answered yet.
#[derive(Debug)]
pub(crate) struct Contender {
    session: Session,
    /// `None` once it has left and nothing is there any more.
    place: Option<Place>,
    lock: String,
    naming: Naming,
    made: Option<Made>,
    path: String,
    /// The hold, once that was dropped.
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

    /// The path of the lock.
    pub(crate) fn lock(&self) -> &str {
        &self.lock
    }

    /// The path to name in messages: that of the node, or of the lock before there is one.
    pub(crate) fn path(&self) -> &str {
        &self.path
    }

    /// The transaction that created the node, where the path alone does not tell it from others.
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

    /// Lets a contender that has a place wait for the grant.
    pub(crate) fn wait(&mut self) {
        self.place().wait();
    }

    /// Waits for the grant. `None`: somebody was in the way of a contender that does not wait. Dropped, the contender keeps its
    /// place.
    pub(crate) async fn granted(&mut self) -> Result<Option<Granted>, Error> {
        let granted = self.place().granted().await?;
        if let Some(Granted { made, .. }) = &granted {
            self.note_node(made);
        }
        Ok(granted)
    }

    /// Waits for the grant. `None` if the deadline came first; the node is gone then.
    pub(crate) async fn granted_by(mut self, deadline: Deadline) -> Result<Option<(Self, Granted)>, Error> {
        match deadline.bound(self.granted()).await {
            Some(granted) => Ok(granted?.map(|granted| (self, granted))),
            None => self.withdraw().await.map(|()| None),
        }
    }

    /// Lets go, and waits for the confirmation that the node is gone. `hands_over`: the hold goes to the contender of the session
    /// that is directly behind. If this is dropped or fails, the reaper goes on.
    pub(crate) async fn leave(&mut self, hands_over: bool) -> Result<Removal, Error> {
        let Some(place) = &mut self.place else { return Ok(Removal::NothingThere) };
        let removal = place.leave(hands_over).await?;
        let place = self.place.take();
        if removal == Removal::Kept {
            place.into_iter().for_each(|place| self.session.abandon(Box::new(place), None));
        }
        Ok(removal)
    }

    /// Gives up what was not granted: the node is gone when this returns `Ok`. Waits only as long as [`withdrawal`].
    pub(crate) async fn withdraw(&mut self) -> Result<(), Error> {
        let (session, path) = (self.session.clone(), self.path.clone());
        withdrawal(&session, &path, async { self.leave(false).await.map(drop) }).await
    }

    /// Notes that the node of a hold was found to be gone.
    pub(crate) fn note_missing_node(&self) {
        self.place.iter().for_each(Place::note_missing_node);
    }

    /// Notes that nobody relies on the hold itself.
    pub(crate) fn forget_proof(&self) {
        self.place.iter().for_each(Place::forget_proof);
    }

    /// Notes that its hold is being dropped, and it with that.
    pub(crate) fn note_dropped(&mut self, hold: Option<HoldName>) {
        self.dropped_hold = hold;
    }

    /// What is there of the contender, for whoever sees to its end.
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

/// Waits for the removal of what is given up under `path`. For at most as long as the client waits for a silent connection,
/// a quarter of the session timeout, so that a caller whose deadline has passed is not kept by a server that does not
/// answer.
pub(crate) async fn withdrawal(
    session: &Session,
    path: &str,
    removal: impl Future<Output = Result<(), Error>>,
) -> Result<(), Error> {
    let within = liveness::connection_timeout(session.timeout());
    match tokio::time::timeout(within, removal).await {
        Ok(removed) => removed,
        Err(_) => Err(Error::Unconfirmed { path: path.to_owned(), within }),
    }
}
