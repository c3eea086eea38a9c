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
pub enum NaiveState {
    /// It does not hold yet.
    Contending,
    /// It holds.
    Holding,
    /// It leaves, for this reason. It is over once it asks for nothing.
    Leaving(NaiveOutcome),
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
pub enum NaiveOutcome {
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
enum NaiveClaim {
    Nothing,
    /// Perhaps a node. It is the contender's own if the contender recognises it.
    Perhaps,
    /// The node at the path, which is its own.
    Certain,
}

/// The phase of a contender.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum NaivePhase {
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
    Leaving(NaiveOutcome),
}

/// One contender.
///
/// # The phases
///
/// On each line, an event leads from one phase to the next. `[Ask]` is what the contender asks for.
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
///  every phase      Leaves ......................... Leaving(Left)
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
    claim: NaiveClaim,
    /// The transaction that created its node, once it has taken the node.
    czxid: Option<i64>,
    phase: NaivePhase,
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
        let phase = if is_try { NaivePhase::Looking } else { NaivePhase::Creating };
        let mut contender = Self { is_try, is_doubtful: false, claim: NaiveClaim::Nothing, czxid: None, phase };
        asks.extend(contender.next());
        contender
    }

    /// Handles an event.
    pub fn on(&mut self, event: Event, taken: &mut Taken, asks: &mut Vec<Ask>) {
        self.handle(event, taken);
        asks.extend(self.next());
    }

    /// Returns the state of the contender, for the user that waits for it.
    pub fn state(&self) -> NaiveState {
        match self.phase {
            NaivePhase::Holding => NaiveState::Holding,
            NaivePhase::Leaving(outcome) => NaiveState::Leaving(outcome),
            _ => NaiveState::Contending,
        }
    }

    fn next(&mut self) -> Option<Ask> {
        Some(match (self.phase, self.claim) {
            (NaivePhase::Looking | NaivePhase::Recognising, _) => Ask::Read,
            (NaivePhase::Creating, _) => {
                // From here on the node may exist, even if the reply is lost.
                self.claim = NaiveClaim::Perhaps;
                Ask::Create
            }
            (NaivePhase::CreatingParents, _) => Ask::CreateParents,
            (NaivePhase::Pausing, _) => Ask::Pause,
            (NaivePhase::Watching, _) => Ask::Watch,
            (NaivePhase::Waiting, _) => Ask::Wait,
            (NaivePhase::Proving, _) => Ask::Prove,
            (NaivePhase::Leaving(_), NaiveClaim::Certain) => {
                // From here on the node may be deleted, and a node at its path may belong to another contender.
                self.claim = NaiveClaim::Perhaps;
                Ask::Delete
            }
            (NaivePhase::Leaving(_), NaiveClaim::Perhaps) => Ask::ReadLatest,
            (NaivePhase::Holding, _) | (NaivePhase::Leaving(_), NaiveClaim::Nothing) => return None,
        })
    }

    fn end(&mut self, outcome: NaiveOutcome) {
        if !matches!(self.phase, NaivePhase::Leaving(_)) {
            self.phase = NaivePhase::Leaving(outcome);
        }
    }

    fn handle(&mut self, event: Event, taken: &mut Taken) {
        match (event, self.phase) {
            (Event::Leaves, _) => self.end(NaiveOutcome::Left),
            (Event::Read(found), NaivePhase::Looking) => {
                if found.is_some() {
                    self.end(NaiveOutcome::InTheWay)
                } else {
                    self.phase = NaivePhase::Creating
                }
            }
            (Event::Read(found), NaivePhase::Leaving(_)) => {
                let is_own = found.is_some_and(|found| self.recognise(found, taken));
                self.claim = if is_own { NaiveClaim::Certain } else { NaiveClaim::Nothing };
                self.is_doubtful = false;
            }
            (Event::Created(Ok(found)) | Event::Read(Some(found)), _) if self.recognise(found, taken) => self.prove(),
            (Event::Created(Ok(_)) | Event::Read(Some(_)), _) => self.wait_or_leave(),
            // The `create` without a reply may have been applied by now. A contender must not wait for its own node.
            (Event::Watching(Some(found)), _) if self.is_doubtful && self.recognise(found, taken) => self.prove(),
            (Event::Watching(Some(_)), _) => self.phase = NaivePhase::Waiting,
            (Event::Created(Err(error)), _) => self.on_create_error(error),
            (Event::ParentsCreated(false), _) => self.on_create_error(CreateError::REFUSED),
            (Event::Proved, _) => self.phase = NaivePhase::Holding,
            // The contender may have held by another contender's node, and its own node may have been created later.
            (Event::Deleted, _) => {
                self.claim = if self.is_doubtful { NaiveClaim::Perhaps } else { NaiveClaim::Nothing }
            }
            (Event::Read(None) | Event::ParentsCreated(true) | Event::Paused, _) => self.phase = NaivePhase::Creating,
            (Event::Watching(None) | Event::Fired, _) => self.phase = NaivePhase::Creating,
        }
    }

    fn on_create_error(&mut self, error: CreateError) {
        let is_certain = matches!(
            error,
            CreateError::Exists
                | CreateError::NoParent
                | CreateError::Failed(Failure::Throttled | Failure::Refused { is_certain: true })
        );
        // This error rules out a node of this `create`, but an earlier one without a reply may still make a node.
        if is_certain && !self.is_doubtful {
            self.claim = NaiveClaim::Nothing;
        }
        match error {
            // The node may be from its own `create` without a reply. A waiter finds that out when it sets its watch.
            CreateError::Exists if self.is_try && self.is_doubtful => self.phase = NaivePhase::Recognising,
            CreateError::Exists => self.wait_or_leave(),
            CreateError::NoParent => self.phase = NaivePhase::CreatingParents,
            CreateError::Failed(failure @ (Failure::ReplyLost | Failure::Throttled)) => {
                self.is_doubtful |= failure == Failure::ReplyLost;
                self.phase = NaivePhase::Pausing;
            }
            CreateError::Failed(Failure::Refused { .. }) => self.end(NaiveOutcome::Refused),
        }
    }

    /// Records that the node is the contender's own, and waits for a proof.
    fn prove(&mut self) {
        self.claim = NaiveClaim::Certain;
        self.phase = NaivePhase::Proving;
    }

    /// Tells whether the node is the contender's own, and takes it if so.
    fn recognise(&mut self, found: NodeAtPath, taken: &mut Taken) -> bool {
        if self.czxid == Some(found.czxid) {
            return true;
        }
        // A contender can have a second node only if the reply to a `create` was lost.
        let is_lacking = self.czxid.is_none() || self.is_doubtful;
        let is_own = is_lacking && found.is_ours && found.may_be_own && taken.take(found.czxid);
        if is_own {
            self.czxid = Some(found.czxid);
        }
        is_own
    }

    /// Waits for another contender's node, or leaves if it only tries. All waiters watch this one node: that is the herd.
    fn wait_or_leave(&mut self) {
        if self.is_try { self.end(NaiveOutcome::InTheWay) } else { self.phase = NaivePhase::Watching }
    }

    /// Returns the transaction that created the contender's node, once it is known.
    pub fn czxid(&self) -> Option<i64> {
        self.czxid
    }

    /// Tells whether the contender may have a node.
    pub fn has_claim(&self) -> bool {
        self.claim != NaiveClaim::Nothing
    }
}

impl CreateError {
    const REFUSED: Self = Self::Failed(Failure::Refused { is_certain: true });
}
