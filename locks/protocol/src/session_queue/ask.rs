//! What a queue asks of its shell, and what the shell tells it.

use std::time::Duration;

use crate::names::{Mode, Names, Sequence};
use crate::queue::{Predecessor, Queue};
use crate::release_note::{Note, ParentState};
use crate::stat::{ParentCzxid, Stat};

/// The identity of one contender in a [`SessionQueue`](super::SessionQueue).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ContenderId(pub(super) u64);

/// A request to a server, or something else that the shell does for a contender.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Ask {
    /// Creates the contender's node, and sends a look at the queue right behind the `create`. The answer to both is
    /// [`Event::Created`].
    Create(ContenderId, NewNode, FirstLook),
    /// Creates the lock's node and its missing ancestors. The answer is [`Event::ParentsCreated`].
    CreateParents(ContenderId),
    /// Finds the nodes that a `create` without a reply may have made. Sends a `sync` first. The answer is [`Event::Found`].
    Find(ContenderId),
    /// Lists the queue. The answer is [`Event::Listed`].
    List(ContenderId),
    /// Reads the data of the lock's node. The answer is [`Event::NoteRead`].
    ReadNote(ContenderId),
    /// Reads the data of the lock's node, then checks whether the contender's node exists. Both reads use one connection, in
    /// this order. The answer is [`Event::NoteRead`].
    ReadNoteBeside(ContenderId),
    /// Checks whether the contender's own node exists. The answer is [`Event::OwnChecked`].
    CheckOwn(ContenderId),
    /// Reads a node and watches it. The answer is [`Event::WatchSet`], and later [`Event::Fired`].
    Watch(ContenderId, String),
    /// Reads the lock's node and watches it, for all contenders under these names. The answer is [`Event::ParentWatchSet`],
    /// and later [`Event::ParentChanged`].
    WatchParent(ContenderId, Names),
    /// Waits for a proof that the session lives. The answer is [`Event::Proved`].
    Prove(ContenderId),
    /// Asks which transaction created the node of this name. Sends a `sync` first. The answer is [`Event::Identified`].
    Identify(ContenderId, String),
    /// Deletes the contender's node. The answer is [`Event::Deleted`].
    Delete(ContenderId, DeleteCondition),
    /// Pauses. At the end of the pause, the shell reports [`Event::Woke`].
    Pause(ContenderId, Pause),
    /// Marks the contender's hold as lost. Somebody else deleted both its node and the node that stood for it.
    Lose(ContenderId),
    /// Tells the user of a contender that its state has changed.
    Tell(ContenderId),
    /// Writes a warning to the log.
    Warn(Warning),
}

impl Ask {
    /// Returns the contender that the ask is for. `None` for a warning.
    pub fn contender(&self) -> Option<ContenderId> {
        match self {
            Self::Create(id, ..)
            | Self::CreateParents(id)
            | Self::Find(id)
            | Self::List(id)
            | Self::ReadNote(id)
            | Self::ReadNoteBeside(id)
            | Self::CheckOwn(id)
            | Self::Watch(id, _)
            | Self::WatchParent(id, _)
            | Self::Prove(id)
            | Self::Identify(id, _)
            | Self::Delete(id, _)
            | Self::Pause(id, _)
            | Self::Lose(id)
            | Self::Tell(id) => Some(*id),
            Self::Warn(_) => None,
        }
    }
}

/// The kind of node that a contender creates.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum NewNode {
    /// A node with the server's next number.
    Numbered,
    /// A node with the number of a hold of the same owner.
    Beside(Sequence),
}

/// The look at the queue that is sent right behind a `create`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum FirstLook {
    /// No look.
    None,
    /// As [`Ask::List`].
    List,
    /// As [`Ask::ReadNote`].
    Note,
}

/// The result of a first look.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Seen {
    /// Nothing: there was no look, or it failed.
    Nothing,
    /// The queue.
    Listed(QueueListing),
    /// The data of the lock's node.
    Note(ParentState),
}

/// The condition of a deletion. Its check and the deletion are one transaction.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum DeleteCondition {
    /// None: a plain delete without a transaction.
    None,
    /// The note can be written. The transaction writes it.
    Noted(Note),
    /// The node of this name exists.
    Beside(String),
}

/// The reason for a pause.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Pause {
    /// A reply was lost. The shell chooses the length.
    ReplyLost,
    /// The server throttled a request. The shell chooses the length.
    Throttled,
    /// The server refused a request of the clean-up. The shell chooses the length.
    Refused,
    /// Other contenders may join its batch. The pause takes [`Pause::JOIN`].
    Join,
}

impl Pause {
    /// The longest time that a contender waits for its batch to be complete.
    pub const JOIN: Duration = Duration::from_millis(10);
}

/// A warning for the log, written once per lock.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Warning {
    /// A child of the lock's node is no contender. Apache Curator's clients would queue behind it.
    ForeignChild(String),
    /// The data of the lock's node is not a note of ours, so each hand-over needs a listing.
    ForeignData,
    /// The numbers of the lock's node are running out.
    LowSupply(Sequence),
}

/// A contender's node, as the reply to `create` or a search shows it.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Made {
    /// Its name, without the parent.
    pub name: String,
    /// The transaction that created it.
    pub czxid: i64,
    /// Whether this session owns it.
    pub is_ours: bool,
}

/// The reason why a request failed, or may have failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Failure {
    /// The reply was lost. The request may have been carried out.
    ReplyLost,
    /// The server had too much to do, and certainly did not carry out the request.
    Throttled,
    /// The server refused the request.
    Refused {
        /// Whether the request certainly created nothing.
        is_certain: bool,
    },
}

/// The reason why a node was not created.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum NotCreated {
    /// Its parent is missing.
    NoParent,
    /// The server gave the last number once more, and a node with this name exists.
    NoNumber,
    /// Something else.
    Failed(Failure),
}

/// The reason why a node was not deleted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum NotDeleted {
    /// The node does not exist.
    NoNode,
    /// The condition was not met, or the server refused it. The transaction changed nothing.
    Unmet,
    /// Something else.
    Failed(Failure),
}

/// The queue in one listing, as one contender sees it.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct QueueListing {
    /// The transaction that created the lock's node.
    pub parent: ParentCzxid,
    /// The last transaction that created or deleted a child.
    pub changed: i64,
    /// Whether its own node is in the listing.
    pub is_own_present: bool,
    /// The nearest contender that keeps this one from holding.
    pub predecessor: Option<Predecessor>,
    /// Whether the hold whose place it shares still has its node.
    pub has_beside: bool,
    /// Whether one more contender of its mode, at the end of the queue, would hold at once.
    pub admits: bool,
    /// A child that is no contender, if there is one.
    pub foreign: Option<String>,
}

/// The position from which a contender reads a listing.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Viewpoint {
    /// Which children are contenders.
    pub names: Names,
    /// How the contender wants the lock.
    pub mode: Mode,
    /// The name of its node, if it has one.
    pub own: Option<String>,
    /// The name of the node whose place it shares, if it shares one.
    pub beside: Option<String>,
}

impl Viewpoint {
    /// Looks at the queue in a listing, which was read under the same names. `parent`: the stat of the lock's node.
    pub fn see<S: AsRef<str>>(&self, queue: &Queue<S>, parent: &Stat) -> QueueListing {
        QueueListing {
            parent: ParentCzxid(parent.czxid),
            changed: parent.pzxid,
            is_own_present: self.own.as_deref().is_some_and(|own| queue.has(own)),
            predecessor: self.own.as_deref().and_then(|own| queue.predecessor_of(own)),
            has_beside: self.beside.as_deref().is_some_and(|beside| queue.has(beside)),
            admits: queue.admits(self.mode),
            foreign: queue.foreign().map(|name| name.as_ref().to_owned()),
        }
    }
}

/// The nodes that a search found.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Found {
    /// The node with the contender's mark.
    pub marked: Option<Made>,
    /// Nodes of the session without any mark: the name is only a marker and a number, and the data was overwritten.
    pub overwritten: Vec<Made>,
}

/// An event that the shell reports to the queue.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Event {
    /// The answer to [`Ask::Create`].
    Created(ContenderId, Result<(Made, Seen), NotCreated>),
    /// The answer to [`Ask::CreateParents`].
    ParentsCreated(ContenderId, Result<(), Failure>),
    /// The answer to [`Ask::Find`].
    Found(ContenderId, Result<Found, Failure>),
    /// The answer to [`Ask::List`]. `None`: the lock's node is missing.
    Listed(ContenderId, Result<Option<QueueListing>, Failure>),
    /// The answer to [`Ask::ReadNote`] or [`Ask::ReadNoteBeside`]. `None`: a node that was asked for is missing.
    NoteRead(ContenderId, Result<Option<ParentState>, Failure>),
    /// The answer to [`Ask::CheckOwn`]: whether the node exists. Another node of its name does not count.
    OwnChecked(ContenderId, Result<bool, Failure>),
    /// The answer to [`Ask::Watch`]: the transaction that created the node. `None` if the node is missing.
    WatchSet(ContenderId, Result<Option<i64>, Failure>),
    /// The watch of a contender has fired.
    Fired {
        /// The contender.
        id: ContenderId,
        /// Whether the watched node was deleted.
        is_gone: bool,
    },
    /// The answer to [`Ask::WatchParent`]: the transaction that created the lock's node. `None` if no watch was set.
    ParentWatchSet(Names, Option<ParentCzxid>),
    /// The watch of the lock's node has fired, or its connection has ended.
    ParentChanged(Names),
    /// The answer to [`Ask::Prove`].
    Proved(ContenderId, Result<(), Failure>),
    /// The answer to [`Ask::Identify`]. `None` if the node is missing.
    Identified(ContenderId, Result<Option<i64>, Failure>),
    /// The answer to [`Ask::Delete`].
    Deleted(ContenderId, Result<(), NotDeleted>),
    /// This pause is over.
    Woke(ContenderId, Pause),
    /// The contender has a place, and now waits for the grant.
    Waits(ContenderId),
    /// A contender gives up or releases.
    Leaves {
        /// The contender.
        id: ContenderId,
        /// Whether its hold can be relied on. If so, and if its successor belongs to the session, the hold goes to the successor.
        hands_over: bool,
        /// Whether the shell found that its node no longer exists. Its name may belong to another node by now.
        is_node_gone: bool,
    },
}
