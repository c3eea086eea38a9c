//! The forms of acquire that every lock made of a queue has.

/// Writes the methods of a lock whose field `queue` is an `Arc<LockQueue>` and that wants it in one [`Mode`](crate::node::Mode).
macro_rules! queue_lock_forms {
    ($lock:ident, $mode:expr) => {
        impl $lock {
            /// Waits for the lock, for as long as it takes or the session lives.
            ///
            /// # Errors
            /// [`Error::SessionEnded`], [`Error::NodeDeleted`] when somebody deleted our place in the queue, or
            /// [`Error::Refused`].
            ///
            /// # Cancel safety
            /// Dropped, it loses its place in the queue; the session's reaper deletes the node, also one whose creation
            /// had not been answered yet.
            pub async fn acquire(&self) -> Result<LockGuard, Error> {
                self.queue.acquire($mode, Deadline::never()).await.map(|hold| LockGuard::new(granted(hold)))
            }

            /// Takes the lock if nobody is in the way. When somebody is, it has only read.
            ///
            /// # Errors
            /// As [`acquire`](Self::acquire), and [`Error::NoAnswer`] when the server did not answer within half the
            /// session timeout. [`Error::Unconfirmed`] when somebody was quicker and the server did not confirm that our
            /// node is gone.
            ///
            /// # Cancel safety
            /// Dropped, it leaves nothing behind: the session's reaper sees to that.
            pub async fn try_acquire(&self) -> Result<Option<LockGuard>, Error> {
                self.queue.try_acquire($mode).await.map(|hold| hold.map(LockGuard::new))
            }

            /// Waits for the lock, for at most `wait` in all. `None` when it was not had by then, and then our node is
            /// gone.
            ///
            /// # Errors
            /// As [`acquire`](Self::acquire), and [`Error::Unconfirmed`] when the server did not confirm in time that our
            /// node is gone; the answer then comes a quarter of the session timeout after `wait` at the latest.
            ///
            /// # Cancel safety
            /// As [`acquire`](Self::acquire).
            pub async fn acquire_within(&self, wait: Duration) -> Result<Option<LockGuard>, Error> {
                self.queue.acquire($mode, Deadline::after(wait)).await.map(|hold| hold.map(LockGuard::new))
            }

            /// As [`acquire`](Self::acquire), for an [`Owner`] that may hold the lock already: then it has it again at
            /// once, without a request, with the same token. While its hold is suspect it waits until that is settled.
            ///
            /// # Errors
            /// As [`acquire`](Self::acquire), and [`Error::HoldLost`] when the owner still has a guard of a hold that
            /// was lost: drop that first. [`Error::Upgrade`] when the owner wants to write what it reads.
            ///
            /// # Cancel safety
            /// As [`acquire`](Self::acquire).
            pub async fn acquire_as(&self, owner: &Owner) -> Result<LockGuard, Error> {
                owner.acquire(&self.queue, $mode, Deadline::never()).await.map(granted)
            }

            /// As [`try_acquire`](Self::try_acquire), for an [`Owner`] that may hold the lock already.
            ///
            /// # Errors
            /// As [`try_acquire`](Self::try_acquire) and [`acquire_as`](Self::acquire_as).
            ///
            /// # Cancel safety
            /// As [`try_acquire`](Self::try_acquire).
            pub async fn try_acquire_as(&self, owner: &Owner) -> Result<Option<LockGuard>, Error> {
                owner.try_acquire(&self.queue, $mode).await
            }

            /// As [`acquire_within`](Self::acquire_within), for an [`Owner`] that may hold the lock already.
            ///
            /// # Errors
            /// As [`acquire_within`](Self::acquire_within) and [`acquire_as`](Self::acquire_as).
            ///
            /// # Cancel safety
            /// As [`acquire`](Self::acquire).
            pub async fn acquire_within_as(&self, owner: &Owner, wait: Duration) -> Result<Option<LockGuard>, Error> {
                owner.acquire(&self.queue, $mode, Deadline::after(wait)).await
            }

            /// Takes a place in the queue without waiting for the grant, for whoever wants to do something meanwhile:
            /// look at the queue, or hear that somebody asks for the place.
            ///
            /// # Errors
            /// As [`acquire`](Self::acquire).
            ///
            /// # Cancel safety
            /// As [`acquire`](Self::acquire).
            pub async fn enqueue(&self) -> Result<Waiter, Error> {
                Waiter::take(&self.queue, $mode).await
            }

            /// The path of the lock: its children are the queue.
            #[must_use]
            pub fn path(&self) -> &str {
                self.queue.parent()
            }

            pub(crate) fn session(&self) -> &Session {
                self.queue.session()
            }
        }
    };
}

pub(crate) use queue_lock_forms;

/// What an acquire without a deadline was granted.
pub(crate) fn granted<T>(granted: Option<T>) -> T {
    granted.unwrap_or_else(|| unreachable!("BUG: a deadline that never comes has come"))
}
