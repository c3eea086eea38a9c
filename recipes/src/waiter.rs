//! A place in the queue of a lock, between taking it and the grant.

use std::sync::Arc;
use std::time::Duration;

use zk_recipes_protocol::names::Mode;

use crate::acquire::{LockQueue, Place};
use crate::claim::Claim;
use crate::deadline::Deadline;
use crate::error::Error;
use crate::forms::granted;
use crate::guard::LockGuard;
use crate::revoke::Revocation;
use crate::token::FencingToken;

/// A contender that has its place in the queue. Dropped, it gives the place up: the session's reaper deletes the node.
///
/// Whose turn it is holds the lock, whether anybody looks or not: a waiter at the head of the queue that nobody asks for
/// the [grant](Self::granted) keeps all others waiting, and [`participants`](crate::participants()) shows it as the
/// holder.
///
/// ```no_run
/// # async fn example(mutex: zk_recipes::Mutex) -> Result<(), zk_recipes::Error> {
/// let waiter = mutex.enqueue().await?;
/// let revocation = waiter.revocation();
/// tokio::select! {
///     held = waiter.granted() => held?.release().await,
///     // Somebody wants us out of the way, and we have not even begun.
///     asked = revocation.requested() => asked,
/// }
/// # }
/// ```
#[derive(Debug)]
#[must_use = "if unused the place is given up immediately"]
pub struct Waiter {
    queue: Arc<LockQueue>,
    claim: Claim,
    place: Place,
}

impl Waiter {
    pub(crate) async fn take(queue: &Arc<LockQueue>, mode: Mode) -> Result<Self, Error> {
        let (claim, place) = queue.take_place(mode).await?;
        Ok(Self { queue: Arc::clone(queue), claim, place })
    }

    /// The path of the node that stands for this place.
    #[must_use]
    pub fn path(&self) -> &str {
        self.claim.path()
    }

    /// The fencing token that the hold will have.
    #[must_use]
    pub fn token(&self) -> FencingToken {
        self.place.token
    }

    /// Tells when somebody asks for the place. It goes on to tell of the hold, once that is granted.
    #[must_use]
    pub fn revocation(&self) -> Revocation {
        Revocation::of(&self.claim)
    }

    /// Waits for the grant, for as long as it takes or the session lives.
    ///
    /// # Errors
    /// [`Error::SessionEnded`], [`Error::NodeDeleted`] when somebody deleted the node, or [`Error::Refused`].
    ///
    /// # Cancel safety
    /// Dropped, the place is given up.
    pub async fn granted(self) -> Result<LockGuard, Error> {
        self.granted_until(Deadline::never()).await.map(granted)
    }

    /// Waits for the grant, for at most `wait`. `None` when it was not had by then, and then the place is given up and
    /// the node is gone.
    ///
    /// # Errors
    /// As [`granted`](Self::granted), and [`Error::Unconfirmed`] when the server did not confirm in time that the node
    /// is gone; the answer then comes a quarter of the session timeout after `wait` at the latest.
    ///
    /// # Cancel safety
    /// Dropped, the place is given up.
    pub async fn granted_within(self, wait: Duration) -> Result<Option<LockGuard>, Error> {
        self.granted_until(Deadline::after(wait)).await
    }

    async fn granted_until(self, deadline: Deadline) -> Result<Option<LockGuard>, Error> {
        let Self { queue, claim, place } = self;
        queue.granted(claim, place, deadline).await.map(|hold| hold.map(LockGuard::new))
    }
}
