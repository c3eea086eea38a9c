//! The decisions that a test may swap for a mistake.

use zk_recipes_protocol::names::{Sequence, Supply};

/// The decisions of the library, or others.
#[derive(Clone, Copy)]
pub(super) struct Rules {
    /// Whether a search takes only nodes that are named by a number alone.
    pub(super) takes_numbered_only: bool,
    /// Whether a claim takes no node that another claim has taken.
    pub(super) respects_taken: bool,
    /// Whether a waiter asks for its own node after it has read a note. Otherwise it counts the children.
    pub(super) checks_own: bool,
    /// Which numbers a contender refuses.
    pub(super) supply: fn(Sequence) -> Supply,
    /// Whether a note counts only in the lock's node that it names.
    pub(super) binds_notes: bool,
    /// Whether the first look is forgotten when the first node was not the contender's.
    pub(super) forgets_first_look: bool,
    /// Whether a search reads all nodes before it takes one whose data were overwritten.
    pub(super) reads_all_first: bool,
    /// Whether a contender whose node was adopted by another claim searches before it creates another.
    pub(super) searches_before_second: bool,
    /// Whether an adopted node stays taken after its deletion.
    pub(super) keeps_adopted: bool,
    /// Whether a search asks once more for the node that it takes.
    pub(super) asks_after_taking: bool,
    /// Whether a search that finds nothing is repeated if another one has taken a node meanwhile.
    pub(super) searches_again: bool,
    /// Whether a contender that gives up asks for its own node before it deletes by name.
    pub(super) asks_before_withdrawal: bool,
}

impl Default for Rules {
    fn default() -> Self {
        Self {
            takes_numbered_only: true,
            respects_taken: true,
            checks_own: true,
            supply: Sequence::supply,
            binds_notes: true,
            forgets_first_look: true,
            reads_all_first: true,
            searches_before_second: true,
            keeps_adopted: true,
            asks_after_taking: true,
            searches_again: true,
            asks_before_withdrawal: true,
        }
    }
}
