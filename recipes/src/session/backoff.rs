//! Pauses between the attempts at something that fails, so that none of it can keep a processor or a server busy.

use std::time::Duration;

use futures_timer::Delay;

/// Pauses that double up to a limit.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Backoff {
    next: Duration,
    max: Duration,
}

impl Backoff {
    /// The first pause, and the longest.
    pub(crate) const fn new(min: Duration, max: Duration) -> Self {
        Self { next: min, max }
    }

    /// For a request whose reply was lost. Usually the client library is about to connect again, and the repetition waits
    /// for that by itself. But a server may close the connection because of this very request, and would do so again.
    pub(crate) const fn after_lost_reply() -> Self {
        Self::new(Duration::from_millis(10), Duration::from_secs(1))
    }

    /// For a deletion that the server has refused. The reason may pass at once, as an overload does, or only when somebody
    /// changes an ACL. The session may live for months.
    pub(crate) const fn after_refusal() -> Self {
        Self::new(Duration::from_millis(200), Duration::from_secs(60))
    }

    /// For attempts to connect, which begin with all servers.
    pub(crate) const fn to_connect() -> Self {
        Self::new(Duration::from_millis(50), Duration::from_secs(2))
    }

    /// Waits for the next pause.
    pub(crate) async fn pause(&mut self) {
        // Not of a runtime: a request that pauses may be polled by another one in the end, and its first may be gone.
        Delay::new(self.advance()).await;
    }

    /// The length of the next pause.
    pub(crate) fn advance(&mut self) -> Duration {
        let pause = self.next;
        self.next = pause.saturating_mul(2).min(self.max);
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
        let mut backoff = Backoff::after_lost_reply();
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
