//! One buyer of a scenario: it comes to the rendezvous, buys, and says what it was told.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use tokio::sync::watch;
use tokio::time::Instant;

use crate::bought::Bought;
use crate::buyer::{Begun, Buyer};
use crate::gate::Gate;
use crate::sample::{Confirmation, Outcome};
use crate::tally::SharedTally;

tokio::task_local! {
    /// The buyer whose transaction runs in this task.
    pub(super) static BUYER: Arc<ScenarioBuyer>;
}

/// Waits until all buyers are here, and notes the start of the purchase. The scenario of `loadgen::scenario::check` calls
/// this once, in the transaction that buys, right before its first request of the purchase.
///
/// Elsewhere there is nobody to wait for: in a task that the transaction spawns, and in a load test by goose alone. Then it returns
/// at once, and what the purchase is told goes nowhere. So one scenario serves both programs.
///
/// # Cancel safety
///
/// The buyer has come, and its purchase does not begin. The check ends with an error.
pub async fn rendezvous() -> BegunPurchase {
    let Ok(buyer) = BUYER.try_with(Arc::clone) else { return BegunPurchase(None) };
    if buyer.arrive().await.is_none() {
        // The load is called off, and the watch ends this transaction.
        std::future::pending::<()>().await;
    }
    BegunPurchase(Some(buyer))
}

/// A purchase that has begun. Its time ends when one of its methods says what the buyer was told. If it is dropped before, the
/// outcome is an error: the shop may have sold a unit.
#[derive(Debug)]
#[must_use = "a purchase that is dropped counts as an error"]
pub struct BegunPurchase(Option<Arc<ScenarioBuyer>>);

impl BegunPurchase {
    /// Says that the buyer has a unit, with the number of the order if the buyer was told one.
    pub fn sold(self, order: Option<String>) {
        self.say(Outcome::Sold, Some(Confirmation::Shop(order.map(Arc::from))), None);
    }

    /// Says that the buyer has nothing, because nothing is left.
    pub fn sold_out(self) {
        self.say(Outcome::SoldOut, None, None);
    }

    /// Says that the buyer has nothing, because it has as many units as one buyer may have.
    pub fn over_limit(self) {
        self.say(Outcome::OverLimit, None, None);
    }

    /// Says that the buyer has nothing, because the shop did not serve it. The report shows the first few reasons.
    pub fn refused(self, why: impl Into<String>) {
        self.say(Outcome::Refused, None, Some(format!("refused: {}", why.into())));
    }

    fn say(mut self, outcome: Outcome, confirmation: Option<Confirmation>, problem: Option<String>) {
        if let Some(buyer) = self.0.take() {
            buyer.say(outcome, confirmation, problem);
        }
    }
}

impl Drop for BegunPurchase {
    fn drop(&mut self) {
        if let Some(buyer) = self.0.take() {
            buyer.leave_unsaid();
        }
    }
}

/// How far a buyer has come.
#[derive(Debug, Clone, Copy)]
enum BuyerState {
    /// It has not been at the rendezvous.
    Coming,
    /// It is at the rendezvous.
    Waiting,
    Buying(Begun),
    /// It has dropped its purchase at this instant, and not said what it was told.
    Unsaid(Begun, Instant),
    Done(Begun),
}

impl BuyerState {
    /// Returns the purchase once it has begun.
    fn begun(&self) -> Option<Begun> {
        match *self {
            BuyerState::Coming | BuyerState::Waiting => None,
            BuyerState::Buying(begun) | BuyerState::Unsaid(begun, _) | BuyerState::Done(begun) => Some(begun),
        }
    }
}

/// One buyer of a load.
#[derive(Debug)]
pub(super) struct ScenarioBuyer {
    /// Number of the user, from zero.
    pub(super) user: usize,
    /// When the purchase is meant to start, counted from the release.
    pub(super) intended: Duration,
    pub(super) gate: Arc<Gate>,
    pub(super) tally: SharedTally,
    /// Why the load cannot go on. All buyers share it.
    pub(super) failure: watch::Sender<Option<String>>,
    state: watch::Sender<BuyerState>,
    has_begun_scenario: AtomicBool,
}

impl ScenarioBuyer {
    pub(super) fn new(
        user: usize,
        intended: Duration,
        gate: Arc<Gate>,
        tally: SharedTally,
        failure: watch::Sender<Option<String>>,
    ) -> ScenarioBuyer {
        let (state, _) = watch::channel(BuyerState::Coming);
        ScenarioBuyer { user, intended, gate, tally, failure, state, has_begun_scenario: AtomicBool::new(false) }
    }

    /// Tells whether this is the first call for this buyer.
    pub(super) fn begins_scenario(&self) -> bool {
        !self.has_begun_scenario.swap(true, Ordering::Relaxed)
    }

    /// Tells whether the purchase has begun.
    pub(super) fn has_bought(&self) -> bool {
        self.state.borrow().begun().is_some()
    }

    /// Tells whether the buyer has dropped its purchase, and not said what it was told.
    pub(super) fn is_unsaid(&self) -> bool {
        matches!(*self.state.borrow(), BuyerState::Unsaid(..))
    }

    /// Ends the load with the first error. A load that is called off has its reason already.
    pub(super) fn fail(&self, what: impl FnOnce() -> String) {
        if !self.gate.is_cancelled() {
            self.failure.send_if_modified(|failure| {
                let is_first = failure.is_none();
                failure.get_or_insert_with(what);
                is_first
            });
        }
    }

    /// Comes to the rendezvous, and begins the purchase. Returns `None` if the load is called off.
    async fn arrive(&self) -> Option<()> {
        if !matches!(self.state.send_replace(BuyerState::Waiting), BuyerState::Coming) {
            self.fail(|| came_again(self.user));
            return None;
        }
        self.gate.arrive().await;
        let released = self.gate.opened_at()?;
        if released.elapsed() < self.intended {
            tokio::time::sleep_until(released + self.intended).await;
        }
        let Self { user, intended, .. } = *self;
        let buyer = Buyer { user, number: user, of: user, released, intended, idle_since: intended };
        self.state.send_replace(BuyerState::Buying(buyer.begin(&self.tally)));
        Some(())
    }

    /// Says what the buyer was told, unless that is known.
    fn say(&self, outcome: Outcome, confirmation: Option<Confirmation>, problem: Option<String>) {
        let mut open = None;
        self.state.send_if_modified(|state| {
            open = match *state {
                BuyerState::Buying(begun) => Some((begun, Instant::now())),
                BuyerState::Unsaid(begun, ended) => Some((begun, ended)),
                BuyerState::Coming | BuyerState::Waiting | BuyerState::Done(_) => None,
            };
            if let Some((begun, _)) = open {
                *state = BuyerState::Done(begun);
            }
            open.is_some()
        });
        let Some((begun, ended)) = open else { return };
        // A scenario says neither the status of the answer nor its size.
        let bought = Bought {
            goods: 0,
            outcome,
            confirmation,
            problem,
            status: None,
            first_byte: None,
            ended,
            decided: None,
            is_committed: false,
            instance: None,
            received_bytes: 0,
        };
        begun.end(&self.tally, self.user, bought);
        self.gate.leave();
    }

    /// Ends a purchase of which nobody has said what the buyer was told.
    pub(super) fn end_unsaid(&self, outcome: Outcome, problem: String) {
        self.say(outcome, None, Some(problem));
    }

    fn leave_unsaid(&self) {
        self.state.send_if_modified(|state| match *state {
            BuyerState::Buying(begun) => {
                *state = BuyerState::Unsaid(begun, Instant::now());
                true
            }
            _ => false,
        });
    }

    /// Waits until the purchase has taken this long.
    pub(super) async fn overdue(&self, within: Duration) {
        let mut state = self.state.subscribe();
        let begun = state.wait_for(|state| state.begun().is_some()).await.ok().and_then(|state| state.begun());
        match begun {
            Some(begun) => tokio::time::sleep_until(begun.since() + within).await,
            None => std::future::pending().await,
        }
    }
}

fn came_again(user: usize) -> String {
    format!(
        "buyer {user} came to the rendezvous again, and a scenario buys once; call rendezvous() in one transaction, whose weight is 1"
    )
}
