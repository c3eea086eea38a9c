//! One purchase of a buyer.

use std::sync::Mutex;
use std::time::Duration;

use tokio::time::Instant;

use crate::bought::Bought;
use crate::load::{Load, Purchase};
use crate::sample::{Outcome, Sample};
use crate::script::{Customer, Transport};
use crate::tally::{Tally, shared};

/// A user's next purchase, and its intended start.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Buyer {
    /// Number of the user, from zero.
    pub(crate) user: usize,
    /// Number of the purchase, which chooses the instance and the SKU at the service of the lab.
    pub(crate) number: usize,
    /// When the users were released.
    pub(crate) released: Instant,
    /// When the purchase is meant to start, counted from the release.
    pub(crate) intended: Duration,
    /// Since when a user that could start it was idle.
    pub(crate) idle_since: Duration,
}

/// How a purchase ended.
#[derive(Debug, Clone, Copy)]
pub(crate) struct End {
    /// When it ended, counted from the release.
    pub(crate) ended: Duration,
    /// Whether it failed before there was an answer.
    pub(crate) failed: bool,
}

/// Buys once, and adds the purchase to the tally. Returns how it ended, or `None` when the load was called off. A shop that a
/// file describes needs its customer.
pub(crate) async fn buy(
    load: &Load,
    tally: &Mutex<Tally>,
    buyer: Buyer,
    customer: Option<&mut Customer>,
    transport: &mut impl Transport,
) -> Option<End> {
    let Buyer { user, number, released, intended, idle_since } = buyer;
    let started = released.elapsed();
    shared(tally).start(user, started);
    let (of, bought) = match &load.purchase {
        Purchase::Lab(lab) => (number, lab.buy(number, transport).await?),
        Purchase::Shop(shop) => {
            let customer = customer?;
            (customer.number(), shop.buy(customer, transport).await?)
        }
    };
    let Bought { goods, outcome, confirmation, problem, status, first_byte, ended, received_bytes } = bought;
    let since_release = |instant: Instant| instant.saturating_duration_since(released);
    let ended = since_release(ended);
    let failed = status.is_none() && outcome == Outcome::Error;
    shared(tally).end(Sample {
        user,
        buyer: of,
        goods,
        outcome,
        confirmation,
        intended,
        idle_since,
        started,
        first_byte: first_byte.map(since_release),
        ended,
        status,
        received_bytes,
        problem,
    });
    Some(End { ended, failed })
}
