use std::time::Duration;

use super::margins::Margins;

/// The times of a message of the session and of its answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Exchange {
    pub(super) sent: Duration,
    pub(super) received: Duration,
}

/// The answers on one connection that show when the leader has heard of the session.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Exchanges {
    /// When the connection was established.
    since: Duration,
    /// When the last message was sent that the leader has heard of by now.
    pub(super) heard: Duration,
    /// Later messages, the oldest first. The follower may not have told its leader of them yet.
    pub(super) pending: [Option<Exchange>; PENDING_MAX as usize],
}

/// Upper bound of the answers that are remembered until they are old enough. They are at least
/// `heard_within / PENDING_MAX` apart.
pub(super) const PENDING_MAX: u32 = 8;

impl Exchanges {
    /// Returns the answers on a connection whose handshake was sent at `sent` and answered at `since`.
    pub(super) fn new(sent: Duration, since: Duration) -> Self {
        Self { since, heard: sent, pending: [None; PENDING_MAX as usize] }
    }

    /// Notes an answer.
    pub(super) fn note(&mut self, answered: Exchange, margins: Margins) {
        self.ripen(answered.received, margins);
        // An answer of an earlier connection, which was read late, says nothing of this one.
        let is_of_this_one = answered.sent >= self.since;
        // A burst of answers must not take all places. Messages after it would then be noted only `heard_within` later,
        // and `heard` would lag twice as far.
        let apart = margins.heard_within() / PENDING_MAX;
        let is_apart = self.pending.iter().flatten().all(|before| before.received + apart <= answered.received);
        if is_of_this_one
            && is_apart
            && let Some(free) = self.pending.iter_mut().find(|pending| pending.is_none())
        {
            *free = Some(answered);
        }
    }

    /// Notes which messages the leader has heard of by `now`, if the follower pings it.
    pub(super) fn ripen(&mut self, now: Duration, margins: Margins) {
        let is_ripe = |pending: &Option<Exchange>| {
            pending.is_some_and(|Exchange { received, .. }| received + margins.heard_within() < now)
        };
        let ripe = self.pending.iter().filter(|pending| is_ripe(pending)).count();
        self.heard =
            self.pending[..ripe].iter().flatten().map(|answered| answered.sent).fold(self.heard, Duration::max);
        self.pending[..ripe].fill(None);
        self.pending.rotate_left(ripe);
    }
}
