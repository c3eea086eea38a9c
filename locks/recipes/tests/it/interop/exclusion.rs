//! What must hold of any two locks that exclude each other.

use zk_recipes::AnyLock;

use super::rival::{Rival, TRY};
use crate::support::{Lab, soon};

/// One of our locks and the recipe of a rival that excludes it, on one path.
pub(crate) struct Pair<'a> {
    pub(crate) ours: AnyLock,
    pub(crate) theirs: &'a str,
    pub(crate) path: &'a str,
    /// The node whose children are one for the holder and one for a contender that waits.
    pub(crate) queue: &'a str,
}

impl<'a> Pair<'a> {
    pub(crate) fn new(ours: impl Into<AnyLock>, theirs: &'a str, path: &'a str) -> Self {
        Self { ours: ours.into(), theirs, path, queue: path }
    }

    /// Each side is kept out by the other and granted when the other lets go.
    pub(crate) async fn assert_exclusion(&self, lab: &Lab, rival: &mut Rival) {
        let Self { ours, theirs, path, queue } = self;
        rival.acquire(theirs, path).await;
        let changes = child_changes(lab, queue).await;
        assert!(ours.try_acquire().await.unwrap().is_none(), "{theirs} is held");
        assert_eq!(child_changes(lab, queue).await, changes, "a try behind {theirs} writes nothing");
        assert!(ours.acquire_within(TRY).await.unwrap().is_none(), "{theirs} is held");
        let waiting = tokio::spawn({
            let ours = ours.clone();
            async move { ours.acquire().await }
        });
        lab.until_children(queue, 2).await;
        assert!(!waiting.is_finished(), "{theirs} is held");
        rival.release(theirs, path).await;
        let held = soon("the grant after the rival's release", waiting).await.unwrap().unwrap();

        assert!(!rival.try_acquire(theirs, path).await, "ours is held against {theirs}");
        lab.until_children(queue, 1).await;
        rival.queue(theirs, path).await;
        lab.until_children(queue, 2).await;
        rival.assert_silent().await;
        held.release().await.unwrap();
        rival.says("acquired").await;
        rival.release(theirs, path).await;
        assert!(lab.children(queue).await.is_empty(), "nothing is left by ours and {theirs}");
    }
}

/// Returns how often children of a node were created or deleted.
async fn child_changes(lab: &Lab, path: &str) -> i32 {
    lab.raw.check_stat(path).await.unwrap().unwrap().cversion
}
