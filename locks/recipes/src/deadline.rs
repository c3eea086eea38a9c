//! The deadline of one acquire.

use std::future::Future;
use std::pin::pin;
use std::time::{Duration, Instant};

use futures_timer::Delay;
use futures_util::FutureExt;
use futures_util::future::{Either, select};

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
    ///
    /// Its timer belongs to no runtime, because any executor may poll it.
    pub(crate) async fn bound<F: Future>(self, work: F) -> Option<F::Output> {
        let Some(instant) = self.0 else { return Some(work.await) };
        let left = instant.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return work.now_or_never();
        }
        match select(pin!(work), Delay::new(left)).await {
            Either::Left((output, _)) => Some(output),
            Either::Right(_) => None,
        }
    }
}

/// Returns the grant of an acquire without a deadline.
pub(crate) fn granted<T>(granted: Option<T>) -> T {
    granted.unwrap_or_else(|| unreachable!("BUG: a deadline that never comes has come"))
}
