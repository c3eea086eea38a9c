//! The liveness of one session, shared by whoever learns of it and whoever relies on it.

use std::time::{Duration, Instant};

use tokio::sync::watch;

use crate::liveness::{Event, Liveness, LostReason};

/// The liveness with its clock. Time is always read while the state is held, so that no reader or writer acts on a
/// time that another has overtaken.
#[derive(Debug)]
pub(crate) struct Pulse {
    /// The origin of the times in `live`.
    origin: Instant,
    live: watch::Sender<Liveness>,
}

impl Pulse {
    /// The pulse of a session whose handshake was begun at `connecting` and has been answered.
    pub(crate) fn new(session_timeout: Duration, connecting: Instant) -> Self {
        let (live, _) = watch::channel(Liveness::new(session_timeout, Duration::ZERO));
        Self { origin: connecting, live }
    }

    /// The time to be noted for a request that is about to be sent.
    pub(crate) fn now(&self) -> Duration {
        self.origin.elapsed()
    }

    /// The state now.
    pub(crate) fn read(&self) -> Liveness {
        let live = self.live.borrow();
        live.at(self.now())
    }

    pub(crate) fn answered(&self, sent: Duration) {
        self.update(|live, now| live.on_answer(now, sent));
    }

    pub(crate) fn event(&self, event: Event) {
        self.update(|live, now| live.on_event(now, event));
    }

    pub(crate) fn end(&self, reason: LostReason) {
        self.update(|live, _| live.end(reason));
    }

    /// Notes what time alone has changed, and says whether to ask for a sign of life.
    pub(crate) fn tick(&self) -> bool {
        self.update(|live, now| *live = live.at(now));
        self.live.borrow().wants_probe()
    }

    /// Wakes with every change of the state or loss of holds.
    pub(crate) fn subscribe(&self) -> watch::Receiver<Liveness> {
        self.live.subscribe()
    }

    fn update(&self, change: impl FnOnce(&mut Liveness, Duration)) {
        self.live.send_if_modified(|live| {
            let now = self.now();
            // Whoever has read the state may have seen one that time alone has made of it, and that nobody has noted yet.
            let (noted, seen) = (*live, live.at(now));
            change(live, now);
            [noted, seen].iter().any(|before| (before.state(), before.losses()) != (live.state(), live.losses()))
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::liveness::ConnectionState;

    #[test]
    fn an_answer_that_ends_a_silence_nobody_has_noted_wakes_whoever_saw_it() {
        let timeout = Duration::from_millis(200);
        let pulse = Pulse::new(timeout, Instant::now());
        while pulse.read().state() == ConnectionState::Connected {
            std::thread::yield_now();
        }
        assert_ne!(pulse.read().state(), ConnectionState::Connected);
        let changes = pulse.subscribe();
        pulse.answered(pulse.now());
        assert_eq!(pulse.read().state(), ConnectionState::Connected);
        assert!(changes.has_changed().unwrap(), "it would wait for what has happened");
    }
}
