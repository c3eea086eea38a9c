//! Very many waiters in one queue: all of them must be served, each once.

use std::time::{Duration, Instant};

use bench::Recipe;

use crate::harness::{Harness, Trouble, Way, unexpected};
use crate::implementation::{Host, Implementation};
use crate::protocol::{Answer, Drained, Request};

/// The recipe of the queue. Every waiter of it has a watch of its own.
pub(crate) const RECIPE: Recipe = Recipe::Handoff;
/// The process of the recipe.
pub(crate) const HOST: Host = Host::Rust;
/// A service should not let more waiters share one connection.
const WAITERS_PER_SESSION_MAX: u32 = 1500;
const START_WITHIN: Duration = Duration::from_secs(60);
const QUEUED_WITHIN: Duration = Duration::from_secs(120);
const DRAINED_WITHIN: Duration = Duration::from_secs(120);
const POLL: Duration = Duration::from_millis(100);

/// The result for a queue of waiters.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Waiters {
    pub(crate) waiters: u32,
    pub(crate) sessions: u32,
    /// Time until all of them had queued, and how they were served. An error says why they were not served.
    pub(crate) outcome: Result<(Duration, Drained), String>,
}

impl Waiters {
    /// Returns whether every waiter was served once, and each grant had a token of its own.
    pub(crate) fn is_served(&self) -> bool {
        self.missed() == Some(0)
    }

    /// Returns the number of waiters without a grant or without a token of their own. `None` if the queue was not drained.
    pub(crate) fn missed(&self) -> Option<u32> {
        let (_, drained) = self.outcome.as_ref().ok()?;
        Some(self.waiters.saturating_sub(drained.served.min(drained.tokens)))
    }
}

/// Lets `waiters` contenders queue behind a holder, which then releases. This comes last, because it may be too much
/// for the server.
pub(crate) async fn serve(harness: &mut Harness, waiters: u32) -> Waiters {
    let sessions = waiters.div_ceil(WAITERS_PER_SESSION_MAX);
    let outcome = queue_and_drain(harness, waiters, sessions).await;
    let outcome = outcome.map_err(|(Trouble::OutOfBounds(what) | Trouble::Failed(what))| what);
    Waiters { waiters, sessions, outcome }
}

async fn queue_and_drain(harness: &mut Harness, waiters: u32, sessions: u32) -> Result<(Duration, Drained), Trouble> {
    let implementation = Implementation::Ours(RECIPE);
    let contest = harness.contest(implementation, waiters, sessions, Way::Direct);
    let began = Instant::now();
    harness.ask(HOST, &Request::Queue(contest), START_WITHIN).await?;
    // A waiter that watches its predecessor has queued. A server that is too busy to count its watches does not have
    // all of them yet.
    while harness.progress(HOST).await?.begun < waiters || harness.watches().await.unwrap_or(0) < u64::from(waiters) {
        if began.elapsed() >= QUEUED_WITHIN {
            let within = humantime::format_duration(QUEUED_WITHIN);
            return Err(Trouble::OutOfBounds(format!("the queue was not complete within {within}")));
        }
        tokio::time::sleep(POLL).await;
    }
    let queued = began.elapsed();
    let within_ms = u64::try_from(DRAINED_WITHIN.as_millis()).unwrap_or(u64::MAX);
    match harness.ask(HOST, &Request::Drain { within_ms }, DRAINED_WITHIN + START_WITHIN).await? {
        Answer::Drained(drained) => Ok((queued, drained)),
        answer => Err(unexpected(&answer)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waiters_are_served_when_each_has_a_token_of_its_own() {
        let waiters = |served, tokens| {
            let drained = Drained { served, tokens, ..Drained::default() };
            Waiters { waiters: 50, sessions: 1, outcome: Ok((Duration::ZERO, drained)) }
        };
        assert!(waiters(50, 50).is_served());
        assert!(!waiters(49, 49).is_served());
        assert!(!waiters(50, 49).is_served());
        assert!(!Waiters { outcome: Err("session lost".to_owned()), ..waiters(50, 50) }.is_served());
    }
}
