//! Pauses between repeated attempts, so that an attempt that keeps failing does not keep a processor or a server busy.

use std::time::Duration;

use futures_timer::Delay;
use uuid::Uuid;

/// Pauses whose longest length doubles up to an upper bound. Each lasts a random time between half of that length and all of it, so
/// attempts that failed together are not repeated together.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Backoff {
    next: Duration,
    max: Duration,
}

impl Backoff {
    /// Returns a backoff whose first pause is `min` at most and whose longest is `max` at most.
    pub(crate) const fn new(min: Duration, max: Duration) -> Self {
        Self { next: min, max }
    }

    /// Returns the pauses before a request is repeated, because its reply was lost or the server throttled it: at most 10 ms at first,
    /// and at most 1 s later. After a lost reply, the session is usually about to connect again, and the repeated request waits for
    /// that anyway. But a server may close the connection because of this very request, and then does so each time.
    pub(crate) const fn to_repeat() -> Self {
        Self::new(Duration::from_millis(10), Duration::from_secs(1))
    }

    /// Returns the pauses after a refused deletion: at most 200 ms at first, and at most 60 s later. An overload of the server may pass
    /// quickly. A refusal by an ACL lasts until somebody changes the ACL, and meanwhile the session may live for months.
    pub(crate) const fn after_refusal() -> Self {
        Self::new(Duration::from_millis(200), Duration::from_secs(60))
    }

    /// Returns the pauses between attempts to connect: at most 50 ms at first. Later, at most 2 s, or a sixth of the session timeout if
    /// that is shorter. Each attempt tries all servers. Servers that were away give a session one timeout to come back.
    pub(crate) fn to_connect(session_timeout: Duration) -> Self {
        Self::new(Duration::from_millis(50), Duration::from_secs(2).min(session_timeout / 6))
    }

    /// Waits for the length of the next pause.
    pub(crate) async fn pause(&mut self) {
        // This timer belongs to no runtime: a pausing request may be polled in another runtime later, after its first one has ended.
        Delay::new(self.advance()).await;
    }

    /// Returns the length of the next pause, and doubles the longest length of the one after it.
    pub(crate) fn advance(&mut self) -> Duration {
        let longest = self.next.min(self.max);
        self.next = longest.saturating_mul(2);
        // The first four bytes of a random UUID are random.
        let (random, ..) = Uuid::new_v4().as_fields();
        (longest / 2).mul_f64(1.0 + f64::from(random) / f64::from(u32::MAX))
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn pauses_double_up_to_the_limit() {
        let mut backoff = Backoff::new(Duration::from_millis(200), Duration::from_secs(1));
        for longest in [200, 400, 800, 1000, 1000, 1000].map(Duration::from_millis) {
            let pause = backoff.advance();
            assert!(pause >= longest / 2 && pause <= longest, "{pause:?} instead of up to {longest:?}");
        }
    }

    // L48
    #[test]
    fn a_crowd_does_not_pause_in_step() {
        let pauses: HashSet<Duration> = (0..100).map(|_| Backoff::to_repeat().advance()).collect();
        assert!(pauses.len() > 50, "{pauses:?}");
    }

    #[test]
    fn a_reply_that_is_always_lost_costs_two_requests_a_second() {
        let mut backoff = Backoff::to_repeat();
        let first_minute = std::iter::repeat_with(|| backoff.advance())
            .scan(Duration::ZERO, |elapsed, pause| {
                *elapsed += pause;
                Some(*elapsed)
            })
            .take_while(|elapsed| *elapsed < Duration::from_secs(60))
            .count();
        assert!(first_minute <= 130, "{first_minute}");
    }
}
