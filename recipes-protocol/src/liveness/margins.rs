use std::time::Duration;

/// How long a hold can be relied on, by the session timeout and the tick of the servers. The parent module derives it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Margins {
    session_timeout: Duration,
    /// `None` for a tick of at most half the session timeout.
    tick: Option<Duration>,
}

impl Margins {
    /// The margins of a session timeout as the server granted it.
    pub fn new(session_timeout: Duration, tick: Option<Duration>) -> Self {
        Self { session_timeout, tick }
    }

    /// The session timeout.
    pub fn session_timeout(self) -> Duration {
        self.session_timeout
    }

    /// The age of the last proof at which a session with holds asks for the next one.
    pub fn prove_after(self) -> Duration {
        self.session_timeout / 5
    }

    /// How long after its last message the session sends a read.
    pub fn speak_after(self) -> Duration {
        self.session_timeout / 12
    }

    /// How often the session looks at the clock.
    pub fn look_after(self) -> Duration {
        self.session_timeout / 20
    }

    /// The interval at which a follower tells its leader of the sessions that it has heard, when it is late.
    pub fn heard_within(self) -> Duration {
        self.tick.map_or(self.session_timeout / 4, |tick| tick / 2) + self.session_timeout / 24
    }

    /// The age of the last proof from which a hold is suspect, and a grant waits for a new proof.
    pub fn suspect_after(self) -> Duration {
        self.session_timeout / 3
    }

    /// How long a hold is relied on after the leader has heard of the session.
    pub fn trusted_for(self) -> Duration {
        self.session_timeout - self.session_timeout / 12
    }

    /// How long a hold survives its last proof while answers come at once.
    pub fn lost_after(self) -> Duration {
        self.trusted_for().saturating_sub(self.heard_within() + self.speak_after())
    }

    /// Whether proofs come often enough for a hold to survive one that is late.
    pub fn are_sufficient(self) -> bool {
        self.lost_after() >= self.session_timeout * 3 / 8
    }

    pub(super) fn shortened_to(self, session_timeout: Duration) -> Self {
        Self { session_timeout: self.session_timeout.min(session_timeout), ..self }
    }
}
