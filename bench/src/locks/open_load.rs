//! An open load on one implementation: acquires arrive at a rate, whether or not earlier ones were granted.

use std::time::Duration;

use bench::Error;

use crate::harness::{Harness, Outcome, START_WITHIN, Trouble, Way, unexpected};
use crate::implementation::Implementation;
use crate::protocol::{Answer, OpenLoad, Request};
use crate::window::Window;

/// Sessions that the acquires share.
pub(crate) const SESSIONS: u32 = 3;
/// Upper bound of the outstanding acquires.
pub(crate) const OUTSTANDING_MAX: u32 = 2000;
/// The time for the outstanding acquires after the last arrival.
pub(crate) const SERVED_WITHIN: Duration = Duration::from_secs(10);

/// The arrivals of one measurement.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Offer {
    pub(crate) rate_per_s: u32,
    /// Arrivals that are timed. A quarter of their number comes before them and fills the queue.
    pub(crate) timed: u32,
    pub(crate) seed: u64,
}

impl Offer {
    fn untimed(self) -> u32 {
        self.timed / 4
    }

    /// Returns the expected time until the last arrival.
    fn lasts(self) -> Duration {
        Duration::from_secs(1) * self.timed.saturating_add(self.untimed()) / self.rate_per_s.max(1)
    }
}

/// Puts the load on one implementation at a fresh path.
pub(crate) async fn measure(
    harness: &mut Harness,
    implementation: Implementation,
    offer: Offer,
) -> Result<Outcome, Error> {
    let served = serve(harness, implementation, offer).await;
    harness.outcome(implementation.host(), served.map(Outcome::Measured)).await
}

async fn serve(harness: &mut Harness, implementation: Implementation, offer: Offer) -> Result<Window, Trouble> {
    let load = OpenLoad {
        contest: harness.contest(implementation, OUTSTANDING_MAX, SESSIONS, Way::Direct),
        rate_per_s: offer.rate_per_s,
        untimed: offer.untimed(),
        timed: offer.timed,
        seed: offer.seed,
        within_ms: u64::try_from(SERVED_WITHIN.as_millis()).unwrap_or(u64::MAX),
    };
    let within = START_WITHIN + 2 * offer.lasts() + SERVED_WITHIN;
    match harness.ask(implementation.host(), &Request::Arrive(load), within).await? {
        Answer::Arrived(arrived) => Ok(Window::of_arrivals(&arrived)),
        answer => Err(unexpected(&answer)),
    }
}
