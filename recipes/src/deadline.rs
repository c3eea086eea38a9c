//! The deadline of one acquire.

use std::future::Future;
use std::time::Duration;

use tokio::time::Instant;

/// The time at which an acquire gives up. Only the clean-up comes after it. `None`: no deadline.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Deadline(Option<Instant>);

impl Deadline {
    pub(crate) fn never() -> Self {
        Self(None)
    }

    pub(crate) fn after(wait: Duration) -> Self {
        // If the clock cannot express the deadline, there is none.
        Self(Instant::now().checked_add(wait))
    }

    /// Runs `work` and returns its output. `None` if the deadline came first.
    pub(crate) async fn bound<F: Future>(self, work: F) -> Option<F::Output> {
        match self.0 {
            Some(instant) => tokio::time::timeout_at(instant, work).await.ok(),
            None => Some(work.await),
        }
    }
}

/// Returns the grant of an acquire without a deadline.
pub(crate) fn granted<T>(granted: Option<T>) -> T {
    granted.unwrap_or_else(|| unreachable!("BUG: a deadline that never comes has come"))
}
