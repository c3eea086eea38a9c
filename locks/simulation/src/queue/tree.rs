//! The lock's node with its children, as one server knows it.

use std::collections::BTreeMap;

use zk_recipes_protocol::names::{Mode, Names};
use zk_recipes_protocol::queue::Queue;
use zk_recipes_protocol::release_note::ParentState;
use zk_recipes_protocol::session_queue::{ContenderId, Made, QueueListing, Viewpoint};
use zk_recipes_protocol::stat::Stat;

use super::request::ModelRequest;
use super::server::SessionNo;

/// A child of the lock's node.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct Child {
    pub(super) czxid: i64,
    /// The session that owns it, if it is one of ours.
    pub(super) owner: Option<SessionNo>,
    /// The contender that wrote its data, unless the data was overwritten.
    pub(super) mark: Option<ContenderId>,
}

/// The lock's node.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Parent {
    pub(super) czxid: i64,
    pub(super) pzxid: i64,
    pub(super) version: i32,
    pub(super) data: Vec<u8>,
    pub(super) next_number: i32,
}

/// A committed transaction.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) enum Committed {
    Create(String, Child),
    /// A child is deleted by this transaction.
    Delete(String, i64),
    /// Somebody overwrites the data of a child.
    Overwrite(String),
    /// A holder that releases writes its note.
    Note(Vec<u8>),
    /// The lock's node is created, perhaps again.
    NewParent(Parent),
    /// The lock's node is deleted. It had no children.
    NoParent,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Tree {
    /// `None`: somebody deleted it.
    pub(super) parent: Option<Parent>,
    pub(super) children: BTreeMap<String, Child>,
}

impl Parent {
    pub(super) fn new(czxid: i64, data: Vec<u8>, next_number: i32) -> Self {
        Self { czxid, pzxid: czxid, version: 0, data, next_number }
    }
}

impl Tree {
    pub(super) fn apply(&mut self, change: &Committed) {
        match (change, &mut self.parent) {
            (Committed::Create(name, child), Some(parent)) => {
                parent.pzxid = child.czxid;
                self.children.insert(name.clone(), child.clone());
            }
            (Committed::Delete(name, zxid), Some(parent)) => {
                parent.pzxid = *zxid;
                self.children.remove(name);
            }
            (Committed::Overwrite(name), _) => {
                if let Some(child) = self.children.get_mut(name) {
                    child.mark = None;
                }
            }
            (Committed::Note(data), Some(parent)) => {
                parent.data.clone_from(data);
                parent.version += 1;
            }
            (Committed::NewParent(parent), _) => self.parent = Some(parent.clone()),
            (Committed::NoParent, _) => self.parent = None,
            (change, None) => unreachable!("BUG: {change:?} without the lock's node"),
        }
    }

    pub(super) fn has(&self, own: &Made) -> bool {
        self.children.get(&own.name).is_some_and(|child| child.czxid == own.czxid)
    }

    /// Returns the name of the child that this transaction created.
    pub(super) fn name_of(&self, czxid: i64) -> Option<&String> {
        self.children.iter().find(|(_, child)| child.czxid == czxid).map(|(name, _)| name)
    }

    /// Returns the nodes that keep the contender of the node `own` from holding.
    pub(super) fn barring(&self, own: &str, names: Names) -> impl Iterator<Item = &Child> {
        let (own_mode, own) = names.parse(own).expect("BUG: the node of a contender is none");
        let bars = move |name: &str| {
            let (mode, other) = names.parse(name)?;
            Some(other.queue_cmp(own).is_lt() && (mode == Mode::Exclusive || own_mode == Mode::Exclusive))
        };
        self.children.iter().filter(move |(name, _)| bars(name).unwrap_or_default()).map(|(_, child)| child)
    }

    /// Returns the queue, or `None` without the lock's node.
    pub(super) fn list(&self, request: &ModelRequest) -> Option<QueueListing> {
        let viewpoint = request.viewpoint.as_ref().expect("BUG: a listing without a contender");
        let queue = Queue::from_children(self.children.keys(), viewpoint.names);
        let own = request.own.as_ref().map(|own| own.name.clone());
        Some(Viewpoint { own, ..viewpoint.clone() }.see(&queue, &self.stat()?))
    }

    pub(super) fn state(&self) -> Option<ParentState> {
        Some(ParentState::new(&self.parent.as_ref()?.data, &self.stat()?))
    }

    fn stat(&self) -> Option<Stat> {
        let &Parent { czxid, pzxid, version, .. } = self.parent.as_ref()?;
        let num_children = self.children.len().try_into().expect("BUG: too many nodes");
        Some(Stat { czxid, pzxid, version, num_children })
    }
}
