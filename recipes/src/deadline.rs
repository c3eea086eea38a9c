//! The bound of everything that one acquire does.

use std::future::Future;
use std::time::Duration;

use tokio::time::Instant;

/// One point in time that bounds everything an acquire does.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Deadline(Option<Instant>);

impl Deadline {
    pub(crate) fn never() -> Self {
        Self(None)
    }

    pub(crate) fn after(wait: Duration) -> Self {
        // A wait beyond what the clock can express is for ever.
        Self(Instant::now().checked_add(wait))
    }

    /// The output of `work`, or `None` when the deadline came first.
    pub(crate) async fn bound<F: Future>(self, work: F) -> Option<F::Output> {
        match self.0 {
            Some(instant) => tokio::time::timeout_at(instant, work).await.ok(),
            None => Some(work.await),
        }
    }
}

/// What an acquire without a deadline was granted.
pub(crate) fn granted<T>(granted: Option<T>) -> T {
    granted.unwrap_or_else(|| unreachable!("BUG: a deadline that never comes has come"))
}
