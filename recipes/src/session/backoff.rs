//! Pauses between repeated attempts, so that an attempt that keeps failing does not keep a processor or a server busy.

use std::time::Duration;

use futures_timer::Delay;

/// Pauses that double up to an upper bound.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Backoff {
    next: Duration,
    max: Duration,
}

impl Backoff {
    /// Returns a backoff whose first pause is `min` and whose longest is `max`.
    pub(crate) const fn new(min: Duration, max: Duration) -> Self {
        Self { next: min, max }
    }

    /// Returns the pauses before a request is repeated, because its reply was lost or the server throttled it: 10 ms to 1 s. After a
    /// lost reply, the session is usually about to connect again, and the repeated request waits for that anyway. But a server may
    /// close the connection because of this very request, and then does so each time.
    pub(crate) const fn to_repeat() -> Self {
        Self::new(Duration::from_millis(10), Duration::from_secs(1))
    }

    /// Returns the pauses after a refused deletion: 200 ms to 60 s. An overload of the server may pass quickly. A refusal by an ACL
    /// lasts until somebody changes the ACL, and meanwhile the session may live for months.
    pub(crate) const fn after_refusal() -> Self {
        Self::new(Duration::from_millis(200), Duration::from_secs(60))
    }

    /// Returns the pauses between attempts to connect: 50 ms to 2 s, or to a sixth of the session timeout if that is shorter. Each
    /// attempt tries all servers. Servers that were away give a session one timeout to come back.
    pub(crate) fn to_connect(session_timeout: Duration) -> Self {
        Self::new(Duration::from_millis(50), Duration::from_secs(2).min(session_timeout / 6))
    }

    /// Waits for the length of the next pause.
    pub(crate) async fn pause(&mut self) {
        // This timer belongs to no runtime: a pausing request may be polled in another runtime later, after its first one has ended.
        Delay::new(self.advance()).await;
    }

    /// Returns the length of the next pause, and doubles the one after it.
    pub(crate) fn advance(&mut self) -> Duration {
        let pause = self.next.min(self.max);
        self.next = pause.saturating_mul(2);
        pause
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_double_up_to_the_limit() {
        let mut backoff = Backoff::new(Duration::from_millis(200), Duration::from_secs(1));
        let pauses: Vec<u128> = (0..6).map(|_| backoff.advance().as_millis()).collect();
        assert_eq!(pauses, [200, 400, 800, 1000, 1000, 1000]);
    }

    #[test]
    fn a_request_whose_reply_is_always_lost_is_repeated_no_more_than_once_a_second_in_the_end() {
        let mut backoff = Backoff::to_repeat();
        let first_minute = std::iter::repeat_with(|| backoff.advance())
            .scan(Duration::ZERO, |elapsed, pause| {
                *elapsed += pause;
                Some(*elapsed)
            })
            .take_while(|elapsed| *elapsed < Duration::from_secs(60))
            .count();
        assert!(first_minute <= 66, "{first_minute}");
    }
}
