use std::time::Duration;

/// How long a hold can be relied on, given the session timeout and the tick of the servers. The parent module derives
/// the margins.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Margins {
    session_timeout: Duration,
    /// `None`: the tick is at most half the session timeout.
    tick: Option<Duration>,
}

impl Margins {
    /// Returns the margins for a session timeout that the server granted.
    pub fn new(session_timeout: Duration, tick: Option<Duration>) -> Self {
        Self { session_timeout, tick }
    }

    /// Returns the session timeout.
    pub fn session_timeout(self) -> Duration {
        self.session_timeout
    }

    /// Returns the age of the last proof at which a session with holds asks for the next one.
    pub fn prove_after(self) -> Duration {
        self.session_timeout / 5
    }

    /// Returns how long after its last message the session sends a read.
    pub fn speak_after(self) -> Duration {
        self.session_timeout / 12
    }

    /// Returns the interval at which the session looks at the clock.
    pub fn look_after(self) -> Duration {
        self.session_timeout / 20
    }

    /// Returns the longest time between two pings of a follower, which tell the leader of its sessions. Includes the
    /// delay of a late ping.
    pub fn heard_within(self) -> Duration {
        self.tick.map_or(self.session_timeout / 4, |tick| tick / 2) + self.session_timeout / 24
    }

    /// Returns the age of the last proof from which a hold is suspect, and a grant waits for a new proof.
    pub fn suspect_after(self) -> Duration {
        self.session_timeout / 3
    }

    /// Returns how long a hold is relied on after the leader has heard of the session.
    pub fn trusted_for(self) -> Duration {
        self.session_timeout - self.session_timeout / 12
    }

    /// Returns how long a hold survives its last proof while answers come at once.
    pub fn lost_after(self) -> Duration {
        self.trusted_for().saturating_sub(self.heard_within() + self.speak_after())
    }

    /// Tells whether proofs come often enough for a hold to survive one that is late.
    pub fn are_sufficient(self) -> bool {
        self.lost_after() >= self.session_timeout * 3 / 8
    }

    pub(super) fn shortened_to(self, session_timeout: Duration) -> Self {
        Self { session_timeout: self.session_timeout.min(session_timeout), ..self }
    }
}
