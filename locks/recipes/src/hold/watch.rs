//! Hold watches: views of holds, for tasks that do not have the guard. They send no request.

use std::fmt;
use std::sync::{Arc, OnceLock};

use futures_util::future::select_all;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;
use zk_recipes_protocol::liveness::LostReason;

use crate::hold::state::HoldState;
use crate::session::liveness::proof::{Proof, ProofView};
use crate::session::remote::Remote;

/// A view of a hold, for tasks that do not have its guard. Made by [`LockGuard::watch`](crate::LockGuard::watch) and
/// [`MultiGuard::watch`](crate::MultiGuard::watch).
///
/// Unlike a guard, it keeps neither the lock nor the session: a watch that is kept for ever costs no request. The watch ends when
/// its hold does:
///
/// * `release` ends it before the first request is sent, because another contender may hold from then on. So if only the release
///   finds the node deleted, the release alone reports it.
/// * A drop of the guard ends it.
/// * For an [`Owner`](crate::Owner), the release or drop of the last guard of the hold ends it.
/// * For a [`CohortMutex`](crate::CohortMutex), a local hand-over ends it. The watch does not go on to the next holder.
///
/// The watch of a `MultiGuard` ends with the first of its holds.
///
/// ```no_run
/// # async fn example(held: zk_recipes::LockGuard) -> Result<(), zk_recipes::Error> {
/// let watch = held.watch();
/// tokio::spawn(async move {
///     match watch.lost().await {
///         Some(reason) => eprintln!("stop the work: {reason}"),
///         None => {} // released
///     }
/// });
/// held.release().await
/// # }
/// ```
#[derive(Clone)]
pub struct HoldWatch {
    holds: Arc<[WatchedHold]>,
}

/// A hold as its watch sees it.
#[derive(Debug)]
struct WatchedHold {
    /// After the end, a later hold of the chain may have the view.
    view: ProofView,
    end: watch::Receiver<Option<HoldEnding>>,
}

/// What a watch remembers of a hold that has ended.
#[derive(Clone, Copy, Debug)]
struct HoldEnding {
    /// Why the hold was lost before its end, if it was.
    lost: Option<LostReason>,
}

impl HoldWatch {
    /// Returns one watch of all the holds of several watches.
    pub(crate) fn of_all(watches: impl IntoIterator<Item = Self>) -> Self {
        let holds =
            watches.into_iter().flat_map(|watch| watch.holds.iter().map(WatchedHold::again).collect::<Vec<_>>());
        Self { holds: holds.collect() }
    }

    /// Returns the state of the hold now. `None` once the hold was released or dropped without a loss. If a loss came before the
    /// end, it stays [`HoldState::Lost`].
    ///
    /// For several holds, returns the worst of their states. A loss of any hold is worse than the end of another.
    #[must_use]
    pub fn state(&self) -> Option<HoldState> {
        let mut worst = HoldState::Held;
        let mut has_ended = self.holds.is_empty();
        for hold in &*self.holds {
            match hold.state() {
                lost @ Some(HoldState::Lost(_)) => return lost,
                Some(HoldState::Suspect) => worst = HoldState::Suspect,
                Some(HoldState::Held) => {}
                None => has_ended = true,
            }
        }
        (!has_ended).then_some(worst)
    }

    /// Waits until the hold is lost and returns the reason. Returns `None` if the hold was released or dropped before.
    ///
    /// For several holds, waits for the first loss or the first end. Without any hold, returns `None` at once.
    ///
    /// # Cancel safety
    /// Nothing is lost: call it again.
    pub async fn lost(&self) -> Option<LostReason> {
        if !self.holds.is_empty() {
            select_all(self.holds.iter().map(|hold| Box::pin(hold.over()))).await;
        }
        match self.state() {
            Some(HoldState::Lost(reason)) => Some(reason),
            _ => None,
        }
    }

    /// Returns a cancellation token that is cancelled when the hold is lost or ends. For several holds, when the first of them does.
    ///
    /// It is a child of `parent`, which a task on the session's runtime cancels. If that runtime ends, the hold is lost, and the task
    /// is dropped. That cancels `parent`, too.
    pub(crate) fn cancellation_token(self, parent: &OnceLock<CancellationToken>, remote: &Remote) -> CancellationToken {
        let is_over = !matches!(self.state(), Some(HoldState::Held | HoldState::Suspect));
        let parent = parent.get_or_init(|| {
            let parent = CancellationToken::new();
            let cancels = parent.clone().drop_guard();
            remote.spawn(async move {
                self.lost().await;
                drop(cancels);
            });
            parent
        });
        if is_over {
            parent.cancel();
        }
        parent.child_token()
    }

    /// Notes that somebody else deleted the node of the hold. Does nothing if the hold has ended.
    pub(crate) fn note_gone(&self, node: &str) {
        for WatchedHold { view, end } in &*self.holds {
            // The hold cannot end while `end` is borrowed.
            let end = end.borrow();
            if end.is_none() {
                view.lose(node);
            }
        }
    }
}

impl fmt::Debug for HoldWatch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HoldWatch").field("state", &self.state()).finish_non_exhaustive()
    }
}

impl WatchedHold {
    fn again(&self) -> Self {
        Self { view: self.view.clone(), end: self.end.clone() }
    }

    fn state(&self) -> Option<HoldState> {
        // The state is read before the end. If the hold has not ended after that, it was a hold at this moment.
        let seen = HoldState::of(self.view.state());
        match *self.end.borrow() {
            Some(HoldEnding { lost }) => lost.map(HoldState::Lost),
            None => Some(seen),
        }
    }

    /// Waits until the hold has ended or is lost.
    async fn over(&self) {
        let mut end = self.end.clone();
        tokio::select! {
            // A sender tells the end before it is dropped.
            _ = async { end.wait_for(Option::is_some).await.is_ok() } => {}
            _ = self.view.until_lost() => {}
        }
    }
}

/// The sender of the end of a hold. It tells the watches and the cancellation tokens, at the latest when it is dropped.
///
/// A hold has one. Each member of a cohort has one for its turn as well, because a turn ends before the hold that it passes on.
#[derive(Debug, Default)]
pub(crate) struct HoldEnd {
    /// Empty until the first watch is made.
    teller: OnceLock<Teller>,
    /// The parent of the hold's cancellation tokens. Empty until the first of them is made.
    cancellation: OnceLock<CancellationToken>,
}

#[derive(Debug)]
struct Teller {
    view: ProofView,
    end: watch::Sender<Option<HoldEnding>>,
}

impl HoldEnd {
    /// Returns a watch of the hold with this proof.
    pub(crate) fn watch(&self, proof: &Proof) -> HoldWatch {
        let teller = self.teller.get_or_init(|| Teller { view: proof.view().clone(), end: watch::channel(None).0 });
        HoldWatch { holds: Arc::new([WatchedHold { view: teller.view.clone(), end: teller.end.subscribe() }]) }
    }

    /// Returns a cancellation token of the hold with this proof.
    pub(crate) fn cancellation_token(&self, proof: &Proof, remote: &Remote) -> CancellationToken {
        self.watch(proof).cancellation_token(&self.cancellation, remote)
    }

    /// Tells that the hold ends now. Only the first call counts.
    pub(crate) fn tell(&self) {
        let Some(Teller { view, end }) = self.teller.get() else { return };
        end.send_if_modified(|ending| {
            let is_first = ending.is_none();
            ending.get_or_insert_with(|| HoldEnding { lost: view.state().err().flatten() });
            is_first
        });
        if let Some(cancellation) = self.cancellation.get() {
            cancellation.cancel();
        }
    }
}

impl Drop for HoldEnd {
    fn drop(&mut self) {
        self.tell();
    }
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, Instant};

    use zk_recipes_protocol::liveness::Margins;

    use super::*;
    use crate::session::liveness::liveness_cell::LivenessCell;

    #[test]
    fn a_watch_is_no_hold_and_remembers_how_the_hold_ended() {
        let margins = Margins::new(Duration::from_secs(10), None);
        let liveness = Arc::new(LivenessCell::new(margins, Instant::now()));
        let proof = Proof::of(&liveness).unwrap();
        let end = HoldEnd::default();
        let watches = [end.watch(&proof), end.watch(&proof)];
        assert!(watches.iter().all(|watch| watch.state() == Some(HoldState::Held)));
        drop(end);
        drop(proof);
        assert!(!liveness.is_held(), "the session would go on asking for proofs");
        liveness.end(LostReason::Closed);
        assert!(watches.iter().all(|watch| watch.state().is_none()), "the hold ended before the session");
        assert_eq!(format!("{:?}", watches[0]), "HoldWatch { state: None, .. }");
    }

    #[test]
    fn a_loss_before_the_end_stays_and_one_after_it_does_not_count() {
        let margins = Margins::new(Duration::from_secs(10), None);
        let liveness = Arc::new(LivenessCell::new(margins, Instant::now()));
        let proof = Proof::of(&liveness).unwrap();
        let end = HoldEnd::default();
        let watch = end.watch(&proof);
        proof.lose("/lock/node");
        end.tell();
        liveness.end(LostReason::Closed);
        end.tell();
        assert_eq!(watch.state(), Some(HoldState::Lost(LostReason::NodeDeleted)));
    }
}
