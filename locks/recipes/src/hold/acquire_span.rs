//! The log of an acquire: one span, with one event that ends the acquire.

use std::future::Future;

use futures_util::FutureExt;
use tracing::instrument::Instrumented;
use tracing::{Instrument, Span, debug, debug_span, field};

use crate::error::{Error, chain};
use crate::hold::guard::LockGuard;
use crate::session::Session;

/// The span of an acquire. If it is dropped before the acquire has ended, it logs that.
#[derive(Debug)]
pub(crate) struct AcquireSpan {
    span: Span,
    has_ended: bool,
}

/// What an acquire grants.
pub(crate) trait Grant {
    /// Logs the grant in the current span, which is `span`.
    fn log(&self, span: &Span);
}

impl AcquireSpan {
    /// Opens the span of an acquire. Within another acquire it is a child span named `part`. `session`: `None` if the locks have
    /// several sessions.
    pub(crate) fn new(recipe: &'static str, lock: impl tracing::Value, session: Option<&Session>) -> Self {
        let session = session.map(|session| field::display(session.id()));
        let span = if is_acquiring() {
            debug_span!("part", lock, recipe, session, node = field::Empty)
        } else {
            debug_span!("acquire", lock, recipe, session, node = field::Empty)
        };
        Self { span, has_ended: false }
    }

    /// Runs a whole acquire, and logs how it ends.
    // An `async fn` would reserve memory for the acquire twice.
    pub(crate) fn run<T: Grant>(
        self,
        acquire: impl Future<Output = Result<Option<T>, Error>>,
    ) -> impl Future<Output = Result<Option<T>, Error>> {
        self.run_part(acquire).map(move |acquired| {
            match &acquired {
                Ok(Some(grant)) => self.end(|span| grant.log(span)),
                Ok(None) => self.end(|_| debug!("gives up")),
                Err(error) => self.fail(error),
            }
            acquired
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

impl Grant for LockGuard {
    fn log(&self, span: &Span) {
        span.record("node", self.node_path());
        debug!(node = self.node_path(), token = %self.token(), "granted");
    }
}

/// The permits of one acquire.
impl Grant for Vec<LockGuard> {
    fn log(&self, span: &Span) {
        self.iter().for_each(|guard| guard.log(span));
    }
}

/// Tells whether the current span is the span of an acquire.
fn is_acquiring() -> bool {
    Span::current().metadata().is_some_and(|span| span.name() == "acquire" && span.target() == module_path!())
}
