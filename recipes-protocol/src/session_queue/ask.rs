//! What a queue asks of its shell, and what the shell tells it.

use std::time::Duration;

use super::ContenderId;
use crate::names::{Mode, Names, Sequence};
use crate::predecessors::Predecessors;
use crate::queue::Queue;
use crate::release_note::{Note, ParentState};
use crate::stat::{ParentCzxid, Stat};

/// A request to a server, or something else that the shell does for a contender.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Ask {
    /// Creates the contender's node, and looks at the queue by a request right behind that. The answer to both is
    /// [`Event::Created`].
    Create(ContenderId, NewNode, FirstLook),
    /// Creates the lock's node and its missing ancestors. The answer is [`Event::ParentsCreated`].
    CreateParents(ContenderId),
    /// Finds the nodes that a `create` may have made whose reply was lost, after a `sync`. The answer is [`Event::Found`].
    Find(ContenderId),
    /// Lists the queue. The answer is [`Event::Listed`].
    List(ContenderId),
    /// Reads the data of the lock's node. The answer is [`Event::NoteRead`].
    ReadNote(ContenderId),
    /// Reads the data of the lock's node and then whether the contender's node is there, in this order over one connection.
    /// The answer is [`Event::NoteRead`].
    ReadNoteBeside(ContenderId),
    /// Asks which of these nodes are there and then whether the contender's own is, in this order over one connection. The
    /// answer is [`Event::Probed`].
    Probe(ContenderId, Vec<String>),
    /// Reads a node and watches it. The answer is [`Event::WatchSet`], and later [`Event::Fired`].
    Watch(ContenderId, String),
    /// Reads the lock's node and watches it for all contenders of these names. The answer is [`Event::ParentWatchSet`], and
    /// later [`Event::ParentChanged`].
    WatchParent(ContenderId, Names),
    /// Waits for a proof that the session lives. The answer is [`Event::Proved`].
    Prove(ContenderId),
    /// Asks which transaction created the node of this name, after a `sync`. The answer is [`Event::Identified`].
    Identify(ContenderId, String),
    /// Deletes the contender's node. The answer is [`Event::Deleted`].
    Delete(ContenderId, Condition),
    /// Tells of the end of a pause with [`Event::Woke`].
    Pause(ContenderId, Pause),
    /// The contender's hold is lost: somebody else has deleted its node and the one that stood for it.
    Lose(ContenderId),
    /// The state of a contender has changed for whoever waits for it.
    Tell(ContenderId),
    /// Something for the log.
    Warn(Warning),
}

impl Ask {
    /// The contender that it is for, if it is for one.
    pub fn contender(&self) -> Option<ContenderId> {
        match self {
            Self::Create(id, ..)
            | Self::CreateParents(id)
            | Self::Find(id)
            | Self::List(id)
            | Self::ReadNote(id)
            | Self::ReadNoteBeside(id)
            | Self::Probe(id, _)
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

/// The node that a contender is to have.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum NewNode {
    /// With the server's next number.
    Numbered,
    /// With a number that its owner has already.
    Beside(Sequence),
}

/// The look that is sent right behind a `create`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum FirstLook {
    /// None.
    None,
    /// As [`Ask::List`].
    List,
    /// As [`Ask::ReadNote`].
    Note,
}

/// What a first look has shown.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Seen {
    /// Nothing that counts: there was no look, or it failed.
    Nothing,
    /// The queue.
    Listed(Listed),
    /// The data of the lock's node.
    Note(ParentState),
}

/// On what a node is deleted, in one transaction.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Condition {
    /// On none, by a simple request.
    None,
    /// That the note can be left, and is.
    Noted(Note),
    /// That the node of this name is there.
    Beside(String),
}

/// For what a contender pauses.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Pause {
    /// A reply was lost. The request is repeated after [`crate::session_queue`]'s pauses for that.
    ReplyLost,
    /// A deletion was refused.
    Refused,
    /// Others may join the queue together with it.
    Join,
}

impl Pause {
    /// For how long a contender waits at most for others to join the queue with.
    pub const JOIN: Duration = Duration::from_millis(10);
}

/// What the log is to say, once a lock.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Warning {
    /// A child of the lock's node is no contender. Apache Curator's clients would queue behind it.
    ForeignChild(String),
    /// The data of the lock's node are not ours, so each hand-over needs a listing.
    ForeignData,
    /// The numbers run out.
    LowSupply(Sequence),
}

/// A node as its creation was answered, or as it was found.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Made {
    /// Its name, without the parent.
    pub name: String,
    /// The transaction that created it.
    pub czxid: i64,
    /// Whether this very session owns it.
    pub is_ours: bool,
}

/// Why a request was not carried out, or may not have been.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Failure {
    /// The reply was lost. The request may have been carried out.
    ReplyLost,
    /// The server has refused it. `is_certain`: nothing was created by it.
    Refused {
        /// Whether nothing was created by it.
        is_certain: bool,
    },
}

/// Why a node was not created.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum NotCreated {
    /// Its parent is missing.
    NoParent,
    /// Something else.
    Failed(Failure),
}

/// Why a node was not deleted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum NotDeleted {
    /// It is not there.
    NoNode,
    /// The condition was not met, so nothing was done.
    Unmet,
    /// Something else.
    Failed(Failure),
}

/// The queue by one listing, as one contender sees it.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Listed {
    /// The transaction that created the lock's node.
    pub parent: ParentCzxid,
    /// The last transaction that created or deleted a child.
    pub changed: i64,
    /// Those who bar the way of the contender; `None` if its own node is not there.
    pub ahead: Option<Predecessors>,
    /// Whether the node of the hold is there in whose place it shares the lock.
    pub has_beside: bool,
    /// Whether one more contender of its mode, behind all others, would hold at once.
    pub admits: bool,
    /// A child that is no contender.
    pub foreign: Option<String>,
}

/// From where a contender sees a listing.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Viewpoint {
    /// Which children are contenders.
    pub names: Names,
    /// How it wants the lock.
    pub mode: Mode,
    /// The name of its node, if it has one.
    pub own: Option<String>,
    /// The name of the node in whose place it shares the lock.
    pub beside: Option<String>,
}

impl Viewpoint {
    /// Reads a listing of the lock's node, in whatever order the server gave it.
    pub fn see<S: AsRef<str>>(&self, children: &[S], parent: &Stat) -> Listed {
        let queue = Queue::from_children(children, self.names);
        Listed {
            parent: ParentCzxid(parent.czxid),
            changed: parent.pzxid,
            ahead: self.own.as_deref().and_then(|own| queue.ahead_of(own)),
            has_beside: self.beside.as_deref().is_some_and(|beside| queue.has(beside)),
            admits: queue.admits(self.mode),
            foreign: queue.foreign().map(str::to_owned),
        }
    }
}

/// What nodes a search has found.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Found {
    /// The node with the contender's mark.
    pub marked: Option<Made>,
    /// Nodes of the session that are nothing but a number and whose data were overwritten.
    pub overwritten: Vec<Made>,
}

/// What has happened.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Event {
    /// The answer to [`Ask::Create`].
    Created(ContenderId, Result<(Made, Seen), NotCreated>),
    /// The answer to [`Ask::CreateParents`].
    ParentsCreated(ContenderId, Result<(), Failure>),
    /// The answer to [`Ask::Find`].
    Found(ContenderId, Result<Found, Failure>),
    /// The answer to [`Ask::List`]. `None`: the lock's node is missing.
    Listed(ContenderId, Result<Option<Listed>, Failure>),
    /// The answer to [`Ask::ReadNote`]. `None`: a node that was asked for is missing.
    NoteRead(ContenderId, Result<Option<ParentState>, Failure>),
    /// The answer to [`Ask::Probe`]: which are there, and whether the contender's own node is, by its transaction.
    Probed(ContenderId, Result<(Vec<bool>, bool), Failure>),
    /// The answer to [`Ask::Watch`]: the transaction that created the node; `None` if it is missing.
    WatchSet(ContenderId, Result<Option<i64>, Failure>),
    /// A watch has fired. `is_gone`: the node was deleted.
    Fired(ContenderId, bool),
    /// The answer to [`Ask::WatchParent`]; `None` if there is no watch.
    ParentWatchSet(Names, Option<ParentCzxid>),
    /// The watch of the lock's node has fired, or went with its connection.
    ParentChanged(Names),
    /// The answer to [`Ask::Prove`].
    Proved(ContenderId, Result<(), Failure>),
    /// The answer to [`Ask::Identify`]; `None` if the node is missing.
    Identified(ContenderId, Result<Option<i64>, Failure>),
    /// The answer to [`Ask::Delete`].
    Deleted(ContenderId, Result<(), NotDeleted>),
    /// This pause is over.
    Woke(ContenderId, Pause),
    /// The shell has found that the node of the contender, a holder, is gone.
    NodeMissed(ContenderId),
    /// The contender that has taken a place now waits for the grant.
    Waits(ContenderId),
    /// The contender gives up what it wants, or lets go of what it has. `true`: its hold can be relied on, and may go to the
    /// contender of the session that is directly behind.
    Leaves(ContenderId, bool),
}
