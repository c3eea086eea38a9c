//! The decisions that a test may swap for a mistake.

use zk_recipes_protocol::names::{Names, Sequence};
use zk_recipes_protocol::number_proof::Expected;
use zk_recipes_protocol::queue::{Queue, Verdict};
use zk_recipes_protocol::release_note::ParentState;
use zk_recipes_protocol::stat::{ParentCzxid, Stat};

/// The decisions that the contenders make. By default those of the library; a test that plants a mistake swaps one.
#[derive(Clone, Copy)]
pub(super) struct Rules {
    /// Who holds, and for whom to wait.
    pub(super) verdict: for<'a> fn(&'a [String], Names, &str) -> Verdict<'a>,
    /// Whether the only child of the lock's node is the contender that the transaction created.
    pub(super) has_only_child: fn(&ParentState, i64) -> bool,
    /// Whether the note says that nobody is ahead of a contender of the second number, which the transaction created. The
    /// predecessor, of the first number, is gone.
    pub(super) passes: fn(&ParentState, Sequence, Sequence, i64) -> bool,
    /// Whether to ask for the own node after everything else.
    pub(super) checks_own: bool,
    /// Whether only who has held leaves a note.
    pub(super) notes_from_the_grant_on: bool,
    /// Whether this session, the last argument, created the node that was found by its prefix.
    pub(super) is_ours: fn(&Stat, i64) -> bool,
    /// Whether to look for the node at all before `create` is repeated.
    pub(super) finds_before_repeating: bool,
    /// Whether a hold is taken for lost before the server can expire its session.
    pub(super) loses_before_expiry: bool,
    /// Whether a contender that passes the lock on keeps its node if the node of the next holder is missing.
    pub(super) keeps_node: bool,
    /// In which node of the path the contender is by the watch of that, when the answer to its `create` is there; it is in
    /// that of the second argument.
    pub(super) watched: fn(Expected, ParentCzxid) -> Option<ParentCzxid>,
    /// Whether only what was known before `create` was sent is relied on.
    pub(super) expects_before_creation: bool,
    /// Whether a holder counts as one until it lets go.
    pub(super) waits_for_release: bool,
}

impl Default for Rules {
    fn default() -> Self {
        Self {
            verdict: |children, names, own| Queue::from_children(children, names).verdict(own),
            has_only_child: ParentState::has_only_child,
            passes: ParentState::passes,
            checks_own: true,
            notes_from_the_grant_on: true,
            is_ours: |stat, session| stat.is_of_session(session),
            finds_before_repeating: true,
            loses_before_expiry: true,
            keeps_node: true,
            watched: |_, incarnation| Some(incarnation),
            expects_before_creation: true,
            waits_for_release: true,
        }
    }
}
