//! What every acquire has: a deadline, and a span in the log with one event that ends the acquire.

use std::future::Future;
use std::pin::pin;
use std::time::{Duration, Instant};

use futures_timer::Delay;
use futures_util::FutureExt;
use futures_util::future::{Either, ready, select};
use tokio::task::consume_budget;
use tracing::instrument::Instrumented;
use tracing::{Instrument, Span, debug, debug_span, field};

use crate::error::{Error, chain};
use crate::session::id::SessionId;

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
            // The outcome may be there already, so `work` is polled once.
            return work.now_or_never();
        }
        // `select` polls `work` first, so an outcome that comes at the deadline counts.
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

/// The span of an acquire. If it is dropped before the acquire has ended, it logs that.
#[derive(Debug)]
pub(crate) struct AcquireSpan {
    span: Span,
    has_ended: bool,
}

/// What an acquire grants.
pub(crate) trait LogGrant {
    /// Logs the grant in the current span, which is `span`.
    fn log(&self, span: &Span);
}

impl AcquireSpan {
    /// Opens the span of an acquire. Within another acquire it is a child span named `part`. `session`: `None` if the locks have
    /// several sessions.
    pub(crate) fn new(recipe: &'static str, lock: impl tracing::Value, session: Option<SessionId>) -> Self {
        let session = session.map(field::display);
        let span = if is_acquiring() {
            debug_span!("part", lock, recipe, session, node = field::Empty)
        } else {
            debug_span!("acquire", lock, recipe, session, node = field::Empty)
        };
        Self { span, has_ended: false }
    }

    /// Runs a whole acquire, and logs how it ends.
    ///
    /// An acquire that was not granted consumes a unit of the budget of its Tokio task. It may have given up at once, and a task that
    /// repeats it must let the connection go on. No deadline bounds this, so the task really yields.
    // An `async fn` would reserve memory for the acquire twice.
    pub(crate) fn run<T: LogGrant>(
        self,
        acquire: impl Future<Output = Result<Option<T>, Error>>,
    ) -> impl Future<Output = Result<Option<T>, Error>> {
        let acquired = self.run_part(acquire).map(move |acquired| {
            match &acquired {
                Ok(Some(grant)) => self.end(|span| grant.log(span)),
                Ok(None) => self.end(|_| debug!("gives up")),
                Err(error) => self.fail(error),
            }
            acquired
        });
        acquired.then(|acquired| {
            let yields =
                if let Ok(Some(_)) = acquired { Either::Left(ready(())) } else { Either::Right(consume_budget()) };
            yields.map(|()| acquired)
        })
    }

    /// Runs a part of an acquire.
    pub(crate) fn run_part<F: Future>(&self, part: F) -> Instrumented<F> {
        part.instrument(self.span.clone())
    }

    /// Notes the node of the contender.
    pub(crate) fn note_node(&self, node: &str) {
        self.span.record("node", node);
    }

    /// Logs that the acquire has failed.
    pub(crate) fn fail(self, error: &Error) {
        let is_given_up = matches!(error, Error::NoAnswer { .. } | Error::Unconfirmed { .. });
        self.end(|_| {
            if is_given_up {
                debug!(error = chain(error), "gives up");
            } else {
                debug!(error = chain(error), "fails");
            }
        });
    }

    fn end(mut self, log: impl FnOnce(&Span)) {
        self.has_ended = true;
        self.span.in_scope(|| log(&self.span));
    }
}

impl Drop for AcquireSpan {
    fn drop(&mut self) {
        if !self.has_ended {
            self.span.in_scope(|| debug!("dropped"));
        }
    }
}

/// Tells whether the current span is the span of an acquire.
fn is_acquiring() -> bool {
    // A user may have a span of the same name, but not of this module.
    Span::current().metadata().is_some_and(|span| span.name() == "acquire" && span.target() == module_path!())
}
