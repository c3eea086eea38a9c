//! What a server says of a node.

/// The fields of a node's stat by which the locks decide.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Stat {
    /// The transaction that created the node. It tells the node from earlier and later ones at its path.
    pub czxid: i64,
    /// The last transaction that created or deleted a child.
    pub pzxid: i64,
    /// How often the data were written.
    pub version: i32,
    /// The number of children.
    pub num_children: i32,
}

/// The transaction that created a lock's node. Numbers, notes and what contenders know are of one such node: numbers begin
/// anew when it is deleted and created again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ParentCzxid(pub i64);
