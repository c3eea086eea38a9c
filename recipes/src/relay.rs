//! The hand-over to whoever is directly behind and of the same session, before the server knows of it.
//!
//! A session that holds may choose which of its contenders has the lock, if only one at a time has it and nobody else can
//! be granted meanwhile. Nobody else can as long as a node of the session stands in the queue before theirs. So the
//! contender that releases passes the hold on at once to the one whose number comes next, and deletes its own node in a
//! transaction that fails if that one's node is missing. If it fails, somebody deleted the node of the one that holds
//! now; then the node that was to go is kept in its stead, until nobody of the [`Run`] holds any more. If both nodes were
//! deleted, the hold is lost.

use std::sync::{Arc, OnceLock};

use parking_lot::Mutex;
use tokio::sync::oneshot;
use zk_recipes_protocol::names::Sequence;
use zk_recipes_protocol::release_note::Note;

use crate::known::Known;
use crate::pulse::{Proof, Validity};
use crate::remains::Remains;
use crate::session::Session;

/// A contender as others of its session know it.
#[derive(Debug)]
pub(crate) struct Member {
    pub(crate) sequence: Sequence,
    pub(crate) name: String,
    /// The transaction that created its node.
    pub(crate) czxid: i64,
    /// Which node of the path its number is of, once it knows.
    pub(crate) incarnation: Arc<OnceLock<i64>>,
    follower: Mutex<Option<Follower>>,
}

/// The one directly behind a contender, who waits for it.
#[derive(Debug)]
pub(crate) struct Follower {
    /// The path of its node, and the transaction that created it.
    pub(crate) path: String,
    pub(crate) czxid: i64,
    baton: oneshot::Sender<Baton>,
}

impl Member {
    pub(crate) fn new(sequence: Sequence, name: String, czxid: i64, incarnation: Arc<OnceLock<i64>>) -> Self {
        Self { sequence, name, czxid, incarnation, follower: Mutex::default() }
    }

    /// Lets whoever has its node at `path` be the next to hold. It is the caller's to make sure that this node and the
    /// member's are of one parent, with nobody in between. Without an answer the member ended otherwise.
    pub(crate) fn follow(&self, path: String, czxid: i64) -> oneshot::Receiver<Baton> {
        let (baton, passed) = oneshot::channel();
        *self.follower.lock() = Some(Follower { path, czxid, baton });
        passed
    }

    /// Who waits for this one now.
    pub(crate) fn follower(&self) -> Option<Follower> {
        self.follower.lock().take().filter(|follower| !follower.baton.is_closed())
    }
}

impl Follower {
    /// Passes the hold on. If the follower has given up meanwhile, the hold ends.
    pub(crate) fn pass(self, baton: Baton) {
        drop(self.baton.send(baton));
    }
}

/// A contender's entry among those that others of its session know. Dropped, it is taken out.
#[derive(Debug)]
pub(crate) struct Membership {
    known: Arc<Known>,
    member: Arc<Member>,
}

impl Membership {
    pub(crate) fn new(known: &Arc<Known>, member: Member) -> Self {
        let member = Arc::new(member);
        known.enter(&member);
        Self { known: Arc::clone(known), member }
    }

    pub(crate) fn follower(&self) -> Option<Follower> {
        self.member.follower()
    }
}

impl Drop for Membership {
    fn drop(&mut self) {
        self.known.leave(&self.member);
    }
}

/// What whoever holds passes on. Dropped, the hold ends.
#[derive(Debug)]
pub(crate) struct Baton {
    session: Session,
    run: Arc<Run>,
    /// That of the first of the run.
    pub(crate) proof: Proof,
    /// The note that the last of the run leaves, but for the number.
    pub(crate) note: Option<Note>,
}

/// Holds of one session that followed each other without a gap. It does not keep the session open: who waits for the
/// deletion of a node that the server refuses to delete has it.
#[derive(Debug)]
pub(crate) struct Run {
    /// The nodes that stand for the hold, beside that of whoever holds; `None` when nobody does any more.
    kept: Mutex<Option<Vec<Remains>>>,
    /// The transaction that created the node of the present holder; `None` before the first hand-over.
    holder: Mutex<Option<i64>>,
    validity: Validity,
}

impl Baton {
    /// The baton of the first holder of a run, who was granted the lock by the server.
    pub(crate) fn new(session: &Session, proof: Proof) -> Self {
        let kept = Mutex::new(Some(Vec::new()));
        let run = Run { kept, holder: Mutex::default(), validity: proof.validity().clone() };
        Self { session: session.clone(), run: Arc::new(run), proof, note: None }
    }

    pub(crate) fn run(&self) -> Arc<Run> {
        Arc::clone(&self.run)
    }
}

impl Drop for Baton {
    fn drop(&mut self) {
        let kept = self.run.kept.lock().take();
        kept.into_iter().flatten().for_each(|remains| self.session.abandon(remains));
    }
}

impl Run {
    /// Notes who is about to hold, by the transaction that created its node.
    pub(crate) fn pass_to(&self, czxid: i64) {
        *self.holder.lock() = Some(czxid);
    }

    /// Notes that the nodes of a holder and of its heir are both gone. If the heir still holds, the hold is lost: otherwise
    /// the heir has deleted its node itself.
    pub(crate) fn lose(&self, heir: i64) {
        let is_held = self.kept.lock().is_some();
        if is_held && *self.holder.lock() == Some(heir) {
            self.validity.invalidate();
        }
    }

    /// Keeps a node for as long as somebody of the run holds. `false` when nobody does any more.
    pub(crate) fn keep(&self, remains: Remains) -> bool {
        match &mut *self.kept.lock() {
            Some(kept) => {
                kept.push(remains);
                true
            }
            None => false,
        }
    }
}
