//! A contender for one ephemeral node at a fixed path, as a state machine. The contender that creates the node holds, and all
//! others watch the node.
//!
//! All contenders use the same path, so the node there may belong to any of them. After a lost reply, a contender recognises its
//! own node by the mark that it wrote as data. But anybody may overwrite the data, as a revocation does. Then only the session is
//! left as evidence, and several contenders may share it. So a contender takes a node by its creating transaction, and each node is
//! taken once ([`Taken`]). If the mark was overwritten, any contender of the session that may have created the node takes it. If
//! the reply to the creator arrives after all, the creator finds the node taken and waits.
//!
//! The answer to one ask comes before the next ask. [`Event::Leaves`] may come at any time, even instead of an answer, and again. From
//! then on the asks delete the node, if it exists and is the contender's own.

use crate::session_queue::Failure;

/// What the shell has to do. If the reply to a read is lost, the shell repeats the read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Ask {
    /// Reads the node. The answer is [`Event::Read`].
    Read,
    /// As [`Ask::Read`], after a `sync`.
    ReadLatest,
    /// Creates the node, with the contender's mark as data. The answer is [`Event::Created`].
    Create,
    /// Creates the parents of the node. The answer is [`Event::ParentsCreated`].
    CreateParents,
    /// Pauses, because a reply was lost or the server throttled the `create`. The answer is [`Event::Paused`].
    Pause,
    /// Reads the node and sets a watch on it. The answer is [`Event::Watching`].
    Watch,
    /// Waits until the watch fires. The answer is [`Event::Fired`].
    Wait,
    /// Waits for a proof that the session lives. The answer is [`Event::Proved`].
    Prove,
    /// Deletes the node. The answer is [`Event::Deleted`]. If the reply is lost, there is no answer.
    Delete,
}

/// The state of a contender, for its user.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum State {
    /// It does not hold yet.
    Contending,
    /// It holds.
    Holding,
    /// It leaves, for this reason. It is over once it asks for nothing.
    Leaving(Outcome),
}

/// What the shell tells a contender.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Event {
    /// The node at the path, if there is one.
    Read(Option<NodeAtPath>),
    /// The result of the `create`.
    Created(Result<NodeAtPath, CreateError>),
    /// Whether the parents exist. `false`: the server refused to create them.
    ParentsCreated(bool),
    /// The pause is over.
    Paused,
    /// The node at the path. If there is one, the watch is set.
    Watching(Option<NodeAtPath>),
    /// The node was changed or deleted.
    Fired,
    /// The session lives.
    Proved,
    /// The node was deleted, or was missing already.
    Deleted,
    /// The contender gives up or releases.
    Leaves,
}

/// The node at the path, as one contender sees it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct NodeAtPath {
    /// The transaction that created it.
    pub czxid: i64,
    /// Whether the session of the contender owns it.
    pub is_ours: bool,
    /// Whether the contender may have created it: its data is the contender's mark, or was overwritten.
    pub may_be_own: bool,
}

/// The reason why the node was not created.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum CreateError {
    /// A node exists at the path.
    Exists,
    /// Its parent is missing.
    NoParent,
    /// Another failure.
    Failed(Failure),
}

/// How a contender ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Outcome {
    /// It gave up or released.
    Left,
    /// It only tried, and another contender had the node.
    InTheWay,
    /// The server refused one of its requests.
    Refused,
}

/// The newest node at the path that a contender of the session has taken, by its creating transaction. Older nodes are deleted or
/// taken.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Taken(i64);

/// What a contender may have on the server.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Claim {
    Nothing,
    /// Perhaps a node. It is the contender's own if the contender recognises it.
    Perhaps,
    /// The node at the path, which is its own.
    Certain,
}

/// The step of a contender.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Step {
    /// A `try` looks before it writes.
    Looking,
    Creating,
    CreatingParents,
    Pausing,
    /// A node exists, which may be the `try`'s own.
    Recognising,
    Watching,
    Waiting,
    Proving,
    Holding,
    Leaving(Outcome),
}

/// One contender.
///
/// # The steps
///
/// On each line, an event leads from one step to the next. `[Ask]` is what the contender asks for.
///
/// ```text
///    try                  wait
///     |                    |
///     v      no node       v      a node exists
///  Looking [Read] ----> Creating [Create] ---------> Watching [Watch]
///                          |     ^                    |      | a node
///                          |     |     no node        |      v
///                          |     +<-------------------+   Waiting [Wait]
///                          |     |                    |      | Fired
///                          |     '--------------------|------'
///                  created |                          | its own
///                          v                          |
///                       Proving [Prove] <-------------'
///                          | Proved
///                          v
///                       Holding
///
///  Looking          a node ......................... Leaving(InTheWay)
///  Creating         no parent ...................... CreatingParents [CreateParents]
///                   reply lost, or throttled ....... Pausing [Pause]
///                   refused ........................ Leaving(Refused)
///                   a try, and a node exists ....... Leaving(InTheWay)
///                   the same after a lost reply .... Recognising [Read]
///                   created, but taken by another .. as if a node exists
///  CreatingParents  created ........................ Creating
///                   refused ........................ Leaving(Refused)
///  Pausing          Paused ......................... Creating
///  Recognising      its own ........................ Proving
///                   another's ...................... Leaving(InTheWay)
///                   no node ........................ Creating
///  every step       Leaves ......................... Leaving(Left)
///
///  Leaving          certainly a node: [Delete] ..... nothing, or perhaps a node after a lost reply
///                   perhaps a node: [ReadLatest] ... certainly a node, or nothing
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Naive {
    is_try: bool,
    /// Whether the reply to a `create` was lost. That request may still arrive, so this stays set until the contender leaves and
    /// reads the node.
    is_doubtful: bool,
    claim: Claim,
    /// The transaction that created its node, once it has taken the node.
    czxid: Option<i64>,
    step: Step,
}

impl Taken {
    /// Takes the node. Returns `false` if it was taken before.
    fn take(&mut self, czxid: i64) -> bool {
        let is_free = self.0 < czxid;
        self.0 = self.0.max(czxid);
        is_free
    }
}

impl Naive {
    /// Starts a contender. `is_try`: it leaves if another contender has the node.
    pub fn enter(is_try: bool, asks: &mut Vec<Ask>) -> Self {
        let step = if is_try { Step::Looking } else { Step::Creating };
        let mut contender = Self { is_try, is_doubtful: false, claim: Claim::Nothing, czxid: None, step };
        asks.extend(contender.next());
        contender
    }

    /// Handles an event.
    pub fn on(&mut self, event: Event, taken: &mut Taken, asks: &mut Vec<Ask>) {
        self.handle(event, taken);
        asks.extend(self.next());
    }

    /// Returns the state of the contender, for the user that waits for it.
    pub fn state(&self) -> State {
        match self.step {
            Step::Holding => State::Holding,
            Step::Leaving(outcome) => State::Leaving(outcome),
            _ => State::Contending,
        }
    }

    fn next(&mut self) -> Option<Ask> {
        Some(match (self.step, self.claim) {
            (Step::Looking | Step::Recognising, _) => Ask::Read,
            (Step::Creating, _) => {
                // From here on the node may exist, even if the reply is lost.
                self.claim = Claim::Perhaps;
                Ask::Create
            }
            (Step::CreatingParents, _) => Ask::CreateParents,
            (Step::Pausing, _) => Ask::Pause,
            (Step::Watching, _) => Ask::Watch,
            (Step::Waiting, _) => Ask::Wait,
            (Step::Proving, _) => Ask::Prove,
            (Step::Leaving(_), Claim::Certain) => {
                // From here on the node may be deleted, and a node at its path may belong to another contender.
                self.claim = Claim::Perhaps;
                Ask::Delete
            }
            (Step::Leaving(_), Claim::Perhaps) => Ask::ReadLatest,
            (Step::Holding, _) | (Step::Leaving(_), Claim::Nothing) => return None,
        })
    }

    fn end(&mut self, outcome: Outcome) {
        if !matches!(self.step, Step::Leaving(_)) {
            self.step = Step::Leaving(outcome);
        }
    }

    fn handle(&mut self, event: Event, taken: &mut Taken) {
        match (event, self.step) {
            (Event::Leaves, _) => self.end(Outcome::Left),
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
            // The `create` without a reply may have been applied by now. A contender must not wait for its own node.
            (Event::Watching(Some(found)), _) if self.is_doubtful && self.recognise(found, taken) => self.prove(),
            (Event::Watching(Some(_)), _) => self.step = Step::Waiting,
            (Event::Created(Err(error)), _) => self.on_create_error(error),
            (Event::ParentsCreated(false), _) => self.on_create_error(CreateError::REFUSED),
            (Event::Proved, _) => self.step = Step::Holding,
            // The contender may have held by another contender's node, and its own node may have been created later.
            (Event::Deleted, _) => self.claim = if self.is_doubtful { Claim::Perhaps } else { Claim::Nothing },
            (Event::Read(None) | Event::ParentsCreated(true) | Event::Paused, _) => self.step = Step::Creating,
            (Event::Watching(None) | Event::Fired, _) => self.step = Step::Creating,
        }
    }

    fn on_create_error(&mut self, error: CreateError) {
        let is_certain = matches!(
            error,
            CreateError::Exists
                | CreateError::NoParent
                | CreateError::Failed(Failure::Throttled | Failure::Refused { is_certain: true })
        );
        if is_certain && !self.is_doubtful {
            self.claim = Claim::Nothing;
        }
        match error {
            CreateError::Exists if self.is_try && self.is_doubtful => self.step = Step::Recognising,
            CreateError::Exists => self.wait_or_leave(),
            CreateError::NoParent => self.step = Step::CreatingParents,
            CreateError::Failed(failure @ (Failure::ReplyLost | Failure::Throttled)) => {
                self.is_doubtful |= failure == Failure::ReplyLost;
                self.step = Step::Pausing;
            }
            CreateError::Failed(Failure::Refused { .. }) => self.end(Outcome::Refused),
        }
    }

    /// Records that the node is the contender's own, and waits for a proof.
    fn prove(&mut self) {
        self.claim = Claim::Certain;
        self.step = Step::Proving;
    }

    /// Tells whether the node is the contender's own, and takes it if so.
    fn recognise(&mut self, found: NodeAtPath, taken: &mut Taken) -> bool {
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

    /// Waits for another contender's node, or leaves if it only tries. All waiters watch this one node: that is the herd.
    fn wait_or_leave(&mut self) {
        if self.is_try { self.end(Outcome::InTheWay) } else { self.step = Step::Watching }
    }

    /// Returns the transaction that created the contender's node, once it is known.
    pub fn czxid(&self) -> Option<i64> {
        self.czxid
    }

    /// Tells whether the contender may have a node.
    pub fn has_claim(&self) -> bool {
        self.claim != Claim::Nothing
    }
}

impl CreateError {
    const REFUSED: Self = Self::Failed(Failure::Refused { is_certain: true });
}
