//! A contender for one ephemeral node at a fixed path, as a state machine: whoever creates the node holds, and everybody else watches it.
//!
//! All contenders use the same path, so the node there may be anybody's. After a lost reply a contender recognises its own by the mark
//! that it wrote. But anybody may overwrite data: whoever asks for the lock does, and the session alone does not tell its contenders
//! apart. So they take a node by the transaction that created it, each node once ([`Taken`]). Where the mark was overwritten, any
//! contender of the session that may have made the node takes it. The one that did make it finds it taken, if its reply comes after all,
//! and goes on waiting.
//!
//! [`Naive`] is told what happens ([`Event`]) and says what to do next ([`Naive::ask`]). It never waits and does no I/O. The answer to
//! one ask comes before the next ask. [`Naive::leave`] may come at any time, also instead of an answer. Then its asks delete the node, if
//! it is there and its own.

use crate::session_queue::Failure;

/// What to do next. A read whose reply is lost is repeated by whoever carries it out.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Ask {
    /// Reads the node. The answer is [`Event::Read`].
    Read,
    /// As [`Ask::Read`], from a server that has first caught up with all others.
    ReadLatest,
    /// Creates the node, with the contender's mark as data. The answer is [`Event::Created`].
    Create,
    /// Creates the parents of the node. The answer is [`Event::ParentsCreated`].
    CreateParents,
    /// Pauses, as the reply to a request was lost. The answer is [`Event::Paused`].
    Pause,
    /// Reads the node and sets a watch on it. The answer is [`Event::Watching`].
    Watch,
    /// Waits until the watch fires. The answer is [`Event::Fired`].
    Wait,
    /// Waits for a proof that the session lives. The answer is [`Event::Proved`].
    Prove,
    /// Nothing: the contender holds.
    Hold,
    /// Deletes the node. The answer is [`Event::Deleted`]; if the reply was lost, there is none.
    Delete,
    /// Nothing, ever.
    End(Outcome),
}

/// What has happened.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Event {
    /// What node there is.
    Read(Option<Found>),
    /// What became of the request to create the node.
    Created(Result<Found, NotCreated>),
    /// Whether the parents are there. `false`: the server has refused to create them.
    ParentsCreated(bool),
    /// The pause is over.
    Paused,
    /// What node there is. If there is one, the watch is set.
    Watching(Option<Found>),
    /// The node has changed or gone.
    Fired,
    /// The session lives.
    Proved,
    /// The node is gone, or was before.
    Deleted,
}

/// A node at the path.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Found {
    /// The transaction that created it.
    pub czxid: i64,
    /// Whether the session of the contender owns it.
    pub is_ours: bool,
    /// Whether its data are the contender's mark, or were overwritten: whether the contender may have made it.
    pub may_be_own: bool,
}

/// Why a node was not created.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum NotCreated {
    /// There is one.
    Exists,
    /// Its parent is missing.
    NoParent,
    /// Something else.
    Failed(Failure),
}

/// How a contender has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Outcome {
    /// It has given up, or has let go.
    Left,
    /// Somebody was in the way.
    InTheWay,
    /// A request of it was refused.
    Refused,
}

/// The newest node at the path that a contender of the session has taken, by the transaction that created it. Older ones are gone or
/// taken.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Taken(i64);

/// What may be there of a contender.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Claim {
    Nothing,
    /// A node that is its own if it is recognised.
    Perhaps,
    /// The node is its own.
    Certain,
}

/// Where a contender stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Step {
    /// A `try` looks before it writes.
    Looking,
    Creating,
    CreatingParents,
    Pausing,
    /// There is a node, which may be the `try`'s own.
    Recognising,
    Watching,
    Waiting,
    Proving,
    Holding,
    Leaving(Outcome),
}

/// One contender.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Naive {
    is_try: bool,
    /// Whether the reply to a `create` was lost. It stays so: that request may arrive later.
    is_doubtful: bool,
    claim: Claim,
    /// The transaction that created its node, once it has taken that.
    czxid: Option<i64>,
    step: Step,
}

impl Taken {
    /// Takes the node, unless another contender has.
    fn take(&mut self, czxid: i64) -> bool {
        let is_free = self.0 < czxid;
        self.0 = self.0.max(czxid);
        is_free
    }
}

impl Naive {
    /// Whoever wants the lock. `is_try`: it leaves if somebody is in the way.
    pub fn new(is_try: bool) -> Self {
        let step = if is_try { Step::Looking } else { Step::Creating };
        Self { is_try, is_doubtful: false, claim: Claim::Nothing, czxid: None, step }
    }

    /// What to do next.
    pub fn ask(&mut self) -> Ask {
        match (self.step, self.claim) {
            (Step::Looking | Step::Recognising, _) => Ask::Read,
            (Step::Creating, _) => {
                // From now on there may be a node, whatever becomes of the reply.
                self.claim = Claim::Perhaps;
                Ask::Create
            }
            (Step::CreatingParents, _) => Ask::CreateParents,
            (Step::Pausing, _) => Ask::Pause,
            (Step::Watching, _) => Ask::Watch,
            (Step::Waiting, _) => Ask::Wait,
            (Step::Proving, _) => Ask::Prove,
            (Step::Holding, _) => Ask::Hold,
            (Step::Leaving(_), Claim::Certain) => {
                // From now on the node may be gone, and the one at its path another's.
                self.claim = Claim::Perhaps;
                Ask::Delete
            }
            (Step::Leaving(_), Claim::Perhaps) => Ask::ReadLatest,
            (Step::Leaving(outcome), Claim::Nothing) => Ask::End(outcome),
        }
    }

    /// Gives up, or lets go.
    pub fn leave(&mut self) {
        self.end(Outcome::Left);
    }

    fn end(&mut self, outcome: Outcome) {
        if !matches!(self.step, Step::Leaving(_)) {
            self.step = Step::Leaving(outcome);
        }
    }

    /// Takes in the answer to the last ask.
    pub fn on(&mut self, event: Event, taken: &mut Taken) {
        match (event, self.step) {
            (Event::Read(found), Step::Looking) => {
                if found.is_some() {
                    self.end(Outcome::InTheWay)
                } else {
                    self.step = Step::Creating
                }
            }
            (Event::Read(found), Step::Leaving(_)) => {
                let is_own = found.is_some_and(|found| self.recognise(found, taken));
                self.claim = if is_own { Claim::Certain } else { Claim::Nothing };
                self.is_doubtful = false;
            }
            (Event::Created(Ok(found)) | Event::Read(Some(found)), _) if self.recognise(found, taken) => self.prove(),
            (Event::Created(Ok(_)) | Event::Read(Some(_)), _) => self.wait_or_leave(),
            // A request whose reply was lost may have arrived by now, and nobody is to wait for its own node.
            (Event::Watching(Some(found)), _) if self.is_doubtful && self.recognise(found, taken) => self.prove(),
            (Event::Watching(Some(_)), _) => self.step = Step::Waiting,
            (Event::Created(Err(not_created)), _) => self.on_not_created(not_created),
            (Event::ParentsCreated(false), _) => self.on_not_created(NotCreated::REFUSED),
            (Event::Proved, _) => self.step = Step::Holding,
            // It may have held by the node of another contender, and its own may have come later.
            (Event::Deleted, _) => self.claim = if self.is_doubtful { Claim::Perhaps } else { Claim::Nothing },
            (Event::Read(None) | Event::ParentsCreated(true) | Event::Paused, _) => self.step = Step::Creating,
            (Event::Watching(None) | Event::Fired, _) => self.step = Step::Creating,
        }
    }

    fn on_not_created(&mut self, not_created: NotCreated) {
        let is_certain = matches!(
            not_created,
            NotCreated::Exists | NotCreated::NoParent | NotCreated::Failed(Failure::Refused { is_certain: true })
        );
        if is_certain && !self.is_doubtful {
            self.claim = Claim::Nothing;
        }
        match not_created {
            NotCreated::Exists if self.is_try && self.is_doubtful => self.step = Step::Recognising,
            NotCreated::Exists => self.wait_or_leave(),
            NotCreated::NoParent => self.step = Step::CreatingParents,
            NotCreated::Failed(Failure::ReplyLost) => (self.is_doubtful, self.step) = (true, Step::Pausing),
            NotCreated::Failed(Failure::Refused { .. }) => self.end(Outcome::Refused),
        }
    }

    /// The node is the contender's.
    fn prove(&mut self) {
        (self.claim, self.step) = (Claim::Certain, Step::Proving);
    }

    /// Whether the node is the contender's. The contender takes it then.
    fn recognise(&mut self, found: Found, taken: &mut Taken) -> bool {
        if self.czxid == Some(found.czxid) {
            return true;
        }
        let is_lacking = self.czxid.is_none() || self.is_doubtful;
        let is_own = is_lacking && found.is_ours && found.may_be_own && taken.take(found.czxid);
        if is_own {
            self.czxid = Some(found.czxid);
        }
        is_own
    }

    /// Somebody else has the node. Everybody who waits watches this one node: that is the herd.
    fn wait_or_leave(&mut self) {
        if self.is_try { self.end(Outcome::InTheWay) } else { self.step = Step::Watching }
    }

    /// The transaction that created the contender's node, once that is known.
    pub fn czxid(&self) -> Option<i64> {
        self.czxid
    }

    /// Whether there may be a node of the contender.
    pub fn has_claim(&self) -> bool {
        self.claim != Claim::Nothing
    }

    /// How the contender ends, once it does.
    pub fn outcome(&self) -> Option<Outcome> {
        match self.step {
            Step::Leaving(outcome) => Some(outcome),
            _ => None,
        }
    }
}

impl NotCreated {
    const REFUSED: Self = Self::Failed(Failure::Refused { is_certain: true });
}
