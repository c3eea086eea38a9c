//! Telling of what many requests meet at once, but not of each.

use std::time::{Duration, Instant};

use parking_lot::Mutex;

/// How long nothing is told after something was.
const PAUSE: Duration = Duration::from_secs(10);

/// Lets one message through every so often, and counts the others.
#[derive(Debug)]
pub(super) struct Seldom(Mutex<State>);

#[derive(Debug)]
struct State {
    quiet_until: Option<Instant>,
    untold: u64,
}

impl Seldom {
    pub(super) const fn new() -> Self {
        Self(Mutex::new(State { quiet_until: None, untold: 0 }))
    }

    /// Whether to tell now, and of how many nothing was told since the last time.
    pub(super) fn ask(&self, now: Instant) -> Option<u64> {
        let mut state = self.0.lock();
        if state.quiet_until.is_some_and(|until| now < until) {
            state.untold += 1;
            return None;
        }
        let untold = state.untold;
        *state = State { quiet_until: Some(now + PAUSE), untold: 0 };
        Some(untold)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_of_many_is_told_and_the_next_says_of_how_many_nothing_was() {
        let (seldom, now) = (Seldom::new(), Instant::now());
        let asked: Vec<_> = (0..4).map(|_| seldom.ask(now)).collect();
        assert_eq!(asked, [Some(0), None, None, None]);
        assert_eq!(seldom.ask(now + PAUSE - Duration::from_millis(1)), None);
        let later = now + PAUSE;
        assert_eq!([seldom.ask(later), seldom.ask(later)], [Some(4), None]);
    }
}
