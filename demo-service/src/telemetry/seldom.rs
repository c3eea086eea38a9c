//! Limits repeated log messages: one message stands for many requests that fail at once.

use std::time::{Duration, Instant};

use parking_lot::Mutex;

/// The pause after a message. In it, no message is let through.
const PAUSE: Duration = Duration::from_secs(10);

/// Lets one message through, holds back all others for [`PAUSE`], and counts those.
#[derive(Debug)]
pub(super) struct Seldom(Mutex<HeldBack>);

#[derive(Debug)]
struct HeldBack {
    quiet_until: Option<Instant>,
    untold: u64,
}

impl Seldom {
    pub(super) const fn new() -> Self {
        Self(Mutex::new(HeldBack { quiet_until: None, untold: 0 }))
    }

    /// Asks to let a message through. Returns how many messages were held back since the last one, or `None` if this
    /// one is held back, too.
    pub(super) fn ask(&self, now: Instant) -> Option<u64> {
        let mut held_back = self.0.lock();
        if held_back.quiet_until.is_some_and(|until| now < until) {
            held_back.untold += 1;
            return None;
        }
        let untold = held_back.untold;
        *held_back = HeldBack { quiet_until: Some(now + PAUSE), untold: 0 };
        Some(untold)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_of_many_is_told_and_the_next_counts_the_others() {
        let seldom = Seldom::new();
        let now = Instant::now();
        let asked: Vec<_> = (0..4).map(|_| seldom.ask(now)).collect();
        assert_eq!(asked, [Some(0), None, None, None]);
        assert_eq!(seldom.ask(now + PAUSE - Duration::from_millis(1)), None);
        let later = now + PAUSE;
        assert_eq!([seldom.ask(later), seldom.ask(later)], [Some(4), None]);
    }
}
