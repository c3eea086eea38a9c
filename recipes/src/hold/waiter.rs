//! A place in the queue of a lock, between taking it and the grant.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use zk_recipes_protocol::names::Mode;
use zk_recipes_protocol::session_queue::WishKind;

use crate::deadline::Deadline;
use crate::deadline::granted;
use crate::engine::Contender;
use crate::error::Error;
use crate::hold::acquire_span::AcquireSpan;
use crate::hold::guard::{Hold, LockGuard};
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
}

impl Waiter {
    pub(crate) async fn take(queue: &Arc<LockQueue>, mode: Mode) -> Result<Self, Error> {
        let span = queue.acquire_span(mode);
        let mut contender = queue.enter(mode, WishKind::Place);
        match span.run_part(contender.placed()).await {
            Ok(made) => {
                span.note_node(contender.path());
                Ok(Self { contender, token: FencingToken::new(made.czxid), span })
            }
            Err(error) => {
                span.fail(&error);
                Err(error)
            }
        }
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
        let Self { mut contender, span, .. } = self;
        contender.wait();
        let granted = async {
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
