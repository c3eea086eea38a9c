//! A place in the queue of a lock, between taking it and the grant.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use zk_recipes_protocol::names::Mode;
use zk_recipes_protocol::session_queue::WishKind;

use crate::deadline::Deadline;
use crate::deadline::granted;
use crate::engine::{Contender, Granted};
use crate::error::Error;
use crate::hold::acquire_span::AcquireSpan;
use crate::hold::guard::LockGuard;
use crate::hold::held::Hold;
use crate::hold::lock_queue::LockQueue;
use crate::hold::revoke::Revocation;
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
#[must_use = "if unused the place is given up immediately"]
pub struct Waiter {
    contender: Contender,
    token: FencingToken,
    span: AcquireSpan,
    /// What [`wait`](Waiter::wait) has waited for.
    outcome: Option<Result<Granted, Error>>,
}

impl Waiter {
    pub(crate) async fn take(queue: &Arc<LockQueue>, mode: Mode) -> Result<Self, Error> {
        let span = queue.acquire_span(mode);
        let mut contender = queue.enter(mode, WishKind::Place);
        match span.run_part(contender.placed()).await {
            Ok(made) => {
                span.note_node(contender.path());
                Ok(Self { contender, token: FencingToken::new(made.czxid), outcome: None, span })
            }
            Err(error) => {
                span.fail(&error);
                Err(error)
            }
        }
    }

    /// The path of the lock.
    #[must_use]
    pub fn path(&self) -> &str {
        self.contender.lock()
    }

    /// The path of the node that stands for this place.
    #[must_use]
    pub fn node_path(&self) -> &str {
        self.contender.path()
    }

    /// The fencing token that the hold will have.
    #[must_use]
    pub fn token(&self) -> FencingToken {
        self.token
    }

    /// Tells when somebody asks for the place. It goes on to tell of the hold, once that is granted.
    #[must_use]
    pub fn revocation(&self) -> Revocation {
        Revocation::of(self.contender.session(), self.contender.path(), self.contender.czxid())
    }

    /// Waits until the lock is granted or can no longer be granted. [`granted`](Self::granted) then returns the outcome at
    /// once. From the grant on the lock is held, until [`granted`](Self::granted) takes it or this is dropped.
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
    /// Dropped, the place is kept; call it again.
    pub async fn wait(&mut self) {
        if self.outcome.is_none() {
            self.contender.wait();
            self.outcome = Some(self.contender.granted().await.map(granted));
        }
    }

    /// Waits for the grant, for as long as it takes or the session lives.
    ///
    /// # Errors
    /// [`Error::SessionEnded`], [`Error::NodeDeleted`] when somebody deleted the node, [`Error::NotAuthorized`] or
    /// [`Error::Refused`].
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

    /// Gives the place up and waits for the confirmation: the node is gone when this returns `Ok`. A drop gives the place up,
    /// too, but nothing tells when.
    ///
    /// # Errors
    /// [`Error::Unconfirmed`] when the server did not confirm within a quarter of the session timeout. [`Error::SessionEnded`],
    /// [`Error::NotAuthorized`] or [`Error::Refused`]. If the session lives, its reaper goes on deleting the node.
    ///
    /// # Cancel safety
    /// Dropped, the session's reaper deletes the node.
    pub async fn withdraw(self) -> Result<(), Error> {
        let Self { mut contender, span, .. } = self;
        span.run(async { contender.withdraw().await.map(|()| None::<LockGuard>) }).await.map(drop)
    }

    async fn granted_until(self, deadline: Deadline) -> Result<Option<LockGuard>, Error> {
        let Self { mut contender, outcome, span, .. } = self;
        let granted = async {
            if let Some(outcome) = outcome {
                return outcome.map(|granted| Some(LockGuard::new(Hold::of(contender, granted))));
            }
            contender.wait();
            let granted = contender.granted_by(deadline).await?;
            Ok(granted.map(|(contender, granted)| LockGuard::new(Hold::of(contender, granted))))
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
