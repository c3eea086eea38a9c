//! The states of a session's connection, one after another.

use std::fmt;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use futures_util::stream::{self, FusedStream, Stream, StreamExt};
use tokio::sync::watch;
use zk_recipes_protocol::liveness::{ConnectionState, Liveness};

use crate::session::liveness::liveness_cell::LivenessCell;

/// The states of a session's connection, one after another. Made by [`Session::states`](crate::Session::states).
#[derive(Clone)]
pub struct ConnectionStates {
    seen: ConnectionState,
    changes: watch::Receiver<Liveness>,
    liveness: Arc<LivenessCell>,
}

impl fmt::Debug for ConnectionStates {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ConnectionStates").field("current", &self.seen).finish_non_exhaustive()
    }
}

impl ConnectionStates {
    /// Returns the states from now on.
    pub(crate) fn of(liveness: &Arc<LivenessCell>) -> Self {
        Self { seen: liveness.state(), changes: liveness.subscribe(), liveness: Arc::clone(liveness) }
    }

    /// Returns the state that was seen last.
    #[must_use]
    pub fn current(&self) -> ConnectionState {
        self.seen
    }

    /// Waits for a state that differs from the last one seen, and returns it. `None` once the session has ended and its last state
    /// was seen. States that came and went between two calls may be skipped.
    ///
    /// # Cancel safety
    /// Nothing is lost: the next call sees what this one would have seen.
    pub async fn changed(&mut self) -> Option<ConnectionState> {
        loop {
            // Before the state is read, so a change in between ends the wait below.
            self.changes.mark_unchanged();
            let state = self.liveness.state();
            if state != self.seen {
                self.seen = state;
                return Some(state);
            }
            if self.liveness.read().ended().is_some() {
                return None;
            }
            self.changes.changed().await.ok()?;
        }
    }

    /// Converts the states into a stream that ends with the session. Its first item is the first state that differs from
    /// [`current`](Self::current).
    #[must_use]
    pub fn into_stream(self) -> ConnectionStateStream {
        ConnectionStateStream::of(self)
    }
}

/// A stream of the states of a session's connection. It ends with the session. Made by [`ConnectionStates::into_stream`].
///
/// Once the stream has ended, every further poll returns `None`.
pub struct ConnectionStateStream {
    states: Pin<Box<dyn FusedStream<Item = ConnectionState> + Send + Sync>>,
}

impl ConnectionStateStream {
    pub(crate) fn of(states: ConnectionStates) -> Self {
        let states = stream::unfold(states, async |mut states| states.changed().await.map(|state| (state, states)));
        Self { states: Box::pin(states.fuse()) }
    }
}

impl Stream for ConnectionStateStream {
    type Item = ConnectionState;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<ConnectionState>> {
        self.states.as_mut().poll_next(context)
    }
}

impl FusedStream for ConnectionStateStream {
    fn is_terminated(&self) -> bool {
        self.states.is_terminated()
    }
}

impl fmt::Debug for ConnectionStateStream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ConnectionStateStream").finish_non_exhaustive()
    }
}
