//! The stat of a node, as a server reports it.

/// The fields of a node's stat that the locks use for their decisions.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Stat {
    /// The transaction that created the node. It distinguishes the node from earlier and later ones at its path.
    pub czxid: i64,
    /// The last transaction that created or deleted a child.
    pub pzxid: i64,
    /// The number of changes of the data.
    pub version: i32,
    /// The number of children.
    pub num_children: i32,
}

/// The transaction that created a lock's node. If that node is deleted and created again, numbers begin anew. So numbers,
/// notes and what contenders know are valid for one such node only.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ParentCzxid(pub i64);
