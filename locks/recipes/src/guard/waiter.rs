//! A place in the queue of a lock, before the grant.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use zk_recipes_protocol::names::Mode;
use zk_recipes_protocol::session_queue::WishKind;

use crate::acquire::{AcquireSpan, Deadline, granted};
use crate::engine::Contender;
use crate::error::Error;
use crate::guard::LockGuard;
use crate::hold::revoke::Revocation;
use crate::hold::{Claim, Grant};
use crate::lock_queue::LockQueue;
use crate::session::reaper::Leftover;
use crate::token::FencingToken;

/// A contender that has a place in the queue. If it is dropped, it gives up the place: the session's reaper deletes the node.
///
/// A waiter at the head of the queue holds the lock, even if nothing asks for the [grant](Self::granted). It then keeps all
/// others waiting, and [`participants`](crate::participants()) shows it as the holder.
///
/// ```no_run
/// # async fn example(mutex: zk_recipes::Mutex) -> Result<(), zk_recipes::Error> {
/// let waiter = mutex.enqueue().await?;
/// let revocation = waiter.revocation();
/// tokio::select! {
///     held = waiter.granted() => held?.release().await,
///     // Somebody asks for the place before we hold.
///     asked = revocation.requested() => asked,
/// }
/// # }
/// ```
#[must_use = "if unused the place is given up immediately"]
pub struct Waiter {
    queue: Arc<LockQueue>,
    claim: Claim<Contender>,
    token: FencingToken,
    span: AcquireSpan,
    /// The outcome for which [`wait`](Waiter::wait) has waited.
    outcome: Option<Result<Grant, Error>>,
}

impl Waiter {
    pub(crate) async fn take(queue: &Arc<LockQueue>, mode: Mode) -> Result<Self, Error> {
        let span = queue.acquire_span(mode);
        let place = async {
            let mut claim = queue.enter(mode, WishKind::Place, Some(queue.room(mode, false).await?));
            claim.placed().await.map(|made| (claim, made))
        };
        match span.run_part(place).await {
            Ok((claim, made)) => {
                span.note_node(claim.path());
                let token = FencingToken::new(made.czxid);
                Ok(Self { queue: Arc::clone(queue), claim, token, outcome: None, span })
            }
            Err(error) => {
                span.fail(&error);
                Err(error)
            }
        }
    }

    /// Returns the path of the lock.
    #[must_use]
    pub fn path(&self) -> &str {
        self.claim.lock()
    }

    /// Returns the path of the node that stands for this place.
    #[must_use]
    pub fn node_path(&self) -> &str {
        self.claim.path()
    }

    /// Returns the fencing token that the hold will have.
    #[must_use]
    pub fn token(&self) -> FencingToken {
        self.token
    }

    /// Returns a handle that reports when somebody asks for the place. After the grant, it reports when somebody asks for the hold.
    #[must_use]
    pub fn revocation(&self) -> Revocation {
        Revocation::of(self.claim.session(), self.claim.path(), self.token.czxid())
    }

    /// Waits until the lock is granted, or can no longer be granted. Then [`granted`](Self::granted) returns the outcome at once.
    /// From the grant on, the lock is held until [`granted`](Self::granted) takes the hold or the waiter is dropped.
    ///
    /// ```no_run
    /// # async fn example(mut waiter: zk_recipes::Waiter) -> Result<(), zk_recipes::Error> {
    /// # use std::time::Duration;
    /// while tokio::time::timeout(Duration::from_secs(1), waiter.wait()).await.is_err() {
    ///     println!("still waiting at {}", waiter.node_path()); // in the same place of the queue
    /// }
    /// waiter.granted().await?.release().await
    /// # }
    /// ```
    ///
    /// # Cancel safety
    /// If the future is dropped, the waiter keeps its place: call `wait` again.
    pub async fn wait(&mut self) {
        if self.outcome.is_none() {
            self.claim.wait();
            self.outcome = Some(self.claim.granted().await.map(granted));
        }
    }

    /// Waits for the grant, without a deadline.
    ///
    /// # Errors
    /// [`Error::SessionEnded`], [`Error::NotAuthorized`] or [`Error::Refused`]. [`Error::NodeDeleted`] if somebody deleted the
    /// node.
    ///
    /// # Cancel safety
    /// If the future is dropped, the place is given up.
    pub async fn granted(self) -> Result<LockGuard, Error> {
        self.granted_until(Deadline::never()).await.map(granted)
    }

    /// Waits for the grant for at most `wait`. At the deadline, gives up the place and deletes the node, which takes at most a
    /// quarter of the session timeout. When it returns `None`, the node is gone.
    ///
    /// # Errors
    /// As [`granted`](Self::granted). [`Error::Unconfirmed`] if the server did not confirm the deletion in time.
    ///
    /// # Cancel safety
    /// If the future is dropped, the place is given up.
    pub async fn granted_within(self, wait: Duration) -> Result<Option<LockGuard>, Error> {
        self.granted_until(Deadline::after(wait)).await
    }

    /// Gives up the place and waits for the confirmation. When it returns `Ok`, the node is gone. A drop gives up the place, too,
    /// but does not tell when the node is gone.
    ///
    /// # Errors
    /// [`Error::Unconfirmed`] if the server did not confirm within a quarter of the session timeout. [`Error::SessionEnded`],
    /// [`Error::NotAuthorized`] or [`Error::Refused`]. While the session lives, its reaper continues to delete the node.
    ///
    /// # Cancel safety
    /// If the future is dropped, the session's reaper deletes the node.
    pub async fn withdraw(self) -> Result<(), Error> {
        let Self { mut claim, span, .. } = self;
        span.run(async { claim.withdraw().await.map(|()| None::<LockGuard>) }).await.map(drop)
    }

    async fn granted_until(self, deadline: Deadline) -> Result<Option<LockGuard>, Error> {
        let Self { queue, mut claim, outcome, span, .. } = self;
        let granted = async {
            let granted = match outcome {
                Some(outcome) => Some(outcome?),
                None => {
                    claim.wait();
                    claim.granted_by(deadline).await?
                }
            };
            Ok(granted.map(|grant| LockGuard::new(queue.hold_of(claim, grant))))
        };
        span.run(granted).await
    }
}

impl fmt::Debug for Waiter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Waiter")
            .field("node", &self.node_path())
            .field("token", &format_args!("{}", self.token))
            .finish_non_exhaustive()
    }
}
