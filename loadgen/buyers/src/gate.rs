//! The rendezvous: no user buys before all users are ready. Users of a ramp do not wait: the first one opens the gate.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use tokio::sync::{Notify, watch};
use tokio::time::Instant;

use crate::Error;

/// The rendezvous of the buyers.
#[derive(Debug)]
pub(crate) struct Gate {
    users: usize,
    arrived: AtomicUsize,
    everyone: Notify,
    left: AtomicUsize,
    nobody: Notify,
    state: watch::Sender<GateState>,
}

#[derive(Debug, Clone, Copy, PartialEq)]
enum GateState {
    Closed,
    /// All users may start, since this instant.
    Open(Instant),
    /// No user may start, and started users have to give up.
    Cancelled,
}

impl Gate {
    pub(crate) fn new(users: usize) -> Arc<Gate> {
        let (state, _) = watch::channel(GateState::Closed);
        Arc::new(Gate {
            users,
            arrived: AtomicUsize::new(0),
            everyone: Notify::new(),
            left: AtomicUsize::new(0),
            nobody: Notify::new(),
            state,
        })
    }

    /// Lets a buyer arrive. Waits until the gate opens or the burst is called off.
    pub(crate) async fn arrive(&self) {
        let mut state = self.state.subscribe();
        if self.arrived.fetch_add(1, Ordering::SeqCst) + 1 == self.users {
            // `notify_one` is kept for `open`, which may begin to wait later.
            self.everyone.notify_one();
        }
        // The only error is that the sender is gone, and this gate owns it.
        let _ = state.wait_for(|state| *state != GateState::Closed).await;
    }

    /// Returns the instant at which the gate opened, if it did.
    pub(crate) fn opened_at(&self) -> Option<Instant> {
        match *self.state.borrow() {
            GateState::Open(instant) => Some(instant),
            GateState::Closed | GateState::Cancelled => None,
        }
    }

    /// Opens the gate once everyone is there, unless it is open already. Returns since when it is.
    pub(crate) async fn open(&self, within: Duration) -> Result<Instant, Error> {
        if tokio::time::timeout(within, self.everyone.notified()).await.is_err() {
            let arrived = self.arrived.load(Ordering::SeqCst);
            return Err(Error::Rendezvous { arrived, users: self.users, within_s: within.as_secs() });
        }
        self.open_as_of(Instant::now());
        self.opened_at().ok_or_else(|| Error::Generator("the load was called off".to_owned()))
    }

    /// Opens the gate for users who do not wait for each other. Only the first call counts.
    pub(crate) fn open_as_of(&self, instant: Instant) {
        let opens = |state: &mut GateState| {
            let is_closed = *state == GateState::Closed;
            if is_closed {
                *state = GateState::Open(instant);
            }
            is_closed
        };
        if self.state.send_if_modified(opens) {
            self.everyone.notify_one();
        }
    }

    /// Notes that a buyer is done.
    pub(crate) fn leave(&self) {
        if self.left.fetch_add(1, Ordering::SeqCst) + 1 == self.users {
            self.nobody.notify_one();
        }
    }

    /// Waits until every buyer is done, or the burst is called off. Returns how many are done.
    pub(crate) async fn left(&self) -> usize {
        tokio::select! {
            biased;
            () = self.nobody.notified() => {}
            () = self.cancelled() => {}
        }
        self.left.load(Ordering::SeqCst)
    }

    pub(crate) fn cancel(&self) {
        self.state.send_replace(GateState::Cancelled);
    }

    /// Tells whether the burst is called off.
    pub(crate) fn is_cancelled(&self) -> bool {
        *self.state.borrow() == GateState::Cancelled
    }

    pub(crate) async fn cancelled(&self) {
        let mut state = self.state.subscribe();
        let _ = state.wait_for(|state| *state == GateState::Cancelled).await;
    }
}

/// Cancels the gate when it is dropped, so that no buyer of an abandoned burst buys later.
pub(crate) struct CancelOnDrop(pub(crate) Arc<Gate>);

impl Drop for CancelOnDrop {
    fn drop(&mut self) {
        self.0.cancel();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn nobody_passes_the_gate_before_everyone_is_there() {
        let gate = Gate::new(2);
        let first = tokio::spawn({
            let gate = Arc::clone(&gate);
            async move {
                gate.arrive().await;
                gate.opened_at()
            }
        });
        while gate.arrived.load(Ordering::SeqCst) == 0 {
            tokio::task::yield_now().await;
        }
        let opening = gate.open(Duration::from_secs(60));
        tokio::pin!(opening);
        assert!(futures_poll_once(opening.as_mut()).await.is_none(), "only one of two is there");
        let ((), opened) = tokio::join!(gate.arrive(), opening);
        opened.unwrap();
        assert!(first.await.unwrap().is_some());
    }

    #[tokio::test]
    async fn the_first_user_of_a_ramp_opens_the_gate() {
        let gate = Gate::new(2);
        let first = Instant::now();
        gate.open_as_of(first);
        gate.open_as_of(first + Duration::from_secs(1));
        assert_eq!(gate.open(Duration::from_secs(60)).await.unwrap(), first);
        gate.cancel();
        gate.open_as_of(first);
        assert_eq!(gate.opened_at(), None, "a load that was called off stays so");
    }

    #[tokio::test(start_paused = true)]
    async fn a_gate_says_who_did_not_come() {
        let gate = Gate::new(2);
        let (_, opened) = tokio::join!(
            tokio::time::timeout(Duration::from_secs(9), gate.arrive()),
            gate.open(Duration::from_secs(5))
        );
        assert!(matches!(opened, Err(Error::Rendezvous { arrived: 1, users: 2, within_s: 5 })));
    }

    #[tokio::test]
    async fn a_cancelled_gate_lets_nobody_buy() {
        let gate = Gate::new(2);
        drop(CancelOnDrop(Arc::clone(&gate)));
        gate.arrive().await;
        assert_eq!(gate.opened_at(), None);
        gate.cancelled().await;
    }

    /// Polls a future once, and tells whether it was ready.
    async fn futures_poll_once<F: Future + Unpin>(future: F) -> Option<F::Output> {
        tokio::select! {
            biased;
            output = future => Some(output),
            () = std::future::ready(()) => None,
        }
    }
}
