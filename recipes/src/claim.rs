//! A node that is ours to delete, or may be: armed before `create` is sent, disarmed when its deletion is confirmed.

use std::future::Future;
use std::pin::pin;
use std::task::Poll;

use futures_util::poll;
use zk_recipes_protocol::liveness;
use zk_recipes_protocol::release_note::Note;
use zookeeper_client::{CreateMode, Error as ClientError, Stat};

use crate::backoff::Backoff;
use crate::error::Error;
use crate::known::Parting;
use crate::mark::{Found, Handoff, Mark, is_ours};
use crate::node;
use crate::pulse::Proof;
use crate::relay::{Baton, Membership};
use crate::remains::{self, Heir, Remains, Removal};
use crate::session::Session;

/// A node that was created.
#[derive(Clone, Debug)]
pub(crate) struct Created {
    /// With the number that the server appended.
    pub(crate) path: String,
    pub(crate) stat: Stat,
}

/// Whether the answer to a `create` says for certain that it has made no node.
pub(crate) fn is_refusal(error: &ClientError) -> bool {
    matches!(
        error,
        ClientError::NoNode
            | ClientError::NodeExists
            | ClientError::NoAuth
            | ClientError::InvalidAcl
            | ClientError::BadArguments(_)
            | ClientError::NoChildrenForEphemerals
            | ClientError::QuotaExceeded
            | ClientError::NotReadOnly
            | ClientError::Throttled
            | ClientError::MarshallingError
            | ClientError::Unimplemented
    )
}

/// [`Remains`] with the promise that they go: dropped, it hands them to the session's reaper.
#[derive(Debug)]
pub(crate) struct Claim {
    session: Session,
    remains: Remains,
    /// Whether there may be something to delete.
    armed: bool,
    /// By what others of the session know of the place in the queue.
    membership: Option<Membership>,
    /// What was passed on to us by the one ahead.
    baton: Option<Baton>,
    /// What to tell when the holder lets go.
    parting: Option<Parting>,
}

impl Claim {
    /// A claim on what is about to be created, not armed yet.
    pub(crate) fn new(session: &Session, remains: Remains) -> Self {
        Self { session: session.clone(), remains, armed: false, membership: None, baton: None, parting: None }
    }

    /// A claim on what is there, or may be.
    pub(crate) fn armed(session: &Session, remains: Remains) -> Self {
        let mut claim = Self::new(session, remains);
        claim.arm();
        claim
    }

    pub(crate) fn session(&self) -> &Session {
        &self.session
    }

    pub(crate) fn path(&self) -> &str {
        self.remains.path()
    }

    /// To be called before `create` is sent: from now on there may be a node, whatever becomes of the reply.
    pub(crate) fn arm(&mut self) {
        self.armed = true;
    }

    /// Notes that the server has refused to create the node.
    pub(crate) fn disarm(&mut self) {
        self.armed = false;
    }

    /// The path of the node, for whoever sees to its deletion from now on.
    pub(crate) fn hand_over(mut self) -> Option<String> {
        std::mem::take(&mut self.armed).then(|| self.path().to_owned())
    }

    /// Creates the sequential node at `path`, or the one of that very name, and its parent where it is missing, whatever
    /// replies are lost on the way.
    pub(crate) async fn create(&mut self, path: &str, data: &[u8], mode: CreateMode) -> Result<Created, Error> {
        let session = self.session.clone();
        let (wire, parent) = (session.wire(), node::parent(path).unwrap_or("/"));
        let Remains::Unnamed { mark, .. } = self.remains.clone() else {
            unreachable!("BUG: a claim on a node that has a name creates another")
        };
        self.arm();
        let mut backoff = Backoff::after_lost_reply();
        let mut is_reply_lost = false;
        let Found { path, stat, handoff } = loop {
            match wire.create(path, data, mode).await {
                Ok((path, stat)) => {
                    if let Some(created) = mark.take(path, stat) {
                        break created;
                    }
                    // Another claim has adopted it, and the node that it lost may be left for us.
                }
                Err(ClientError::NoNode) => {
                    let Err(error) = wire.create_parents(parent).await else { continue };
                    if !is_reply_lost {
                        self.disarm();
                    }
                    return Err(session.explain("create", parent, error));
                }
                Err(ClientError::ConnectionLoss) => {
                    is_reply_lost = true;
                    backoff.pause().await;
                }
                Err(error) => {
                    if is_refusal(&error) && !is_reply_lost {
                        self.disarm();
                    }
                    return Err(session.explain("create", path, error));
                }
            }
            let found = mark.find(wire, session.id(), parent).await;
            if let Some(ours) = found.map_err(|error| session.explain("list", parent, error))? {
                break ours;
            }
        };
        self.name(path.clone(), handoff);
        if !is_ours(&stat, session.id()) {
            // The server answers for the node that it has just made, so this would be a proxy's or a server's fault; a
            // grant from such a node could be taken from us at any time.
            return Err(Error::NodeDeleted { path });
        }
        Ok(Created { path, stat })
    }

    /// Notes the name that the server gave to the node.
    pub(crate) fn name(&mut self, path: String, handoff: Option<Handoff>) {
        self.remains = Remains::Node { path, handoff, heir: None };
    }

    /// Notes why an acquire has failed, and returns that.
    pub(crate) fn failed(&mut self, error: Error) -> Error {
        if matches!(error, Error::NodeDeleted { .. }) {
            self.note_gone();
        }
        error
    }

    /// Notes that the node was found to have gone: its name may be another's by now.
    pub(crate) fn note_gone(&mut self) {
        if let Remains::Node { handoff: Some(handoff), .. } = &mut self.remains {
            handoff.note_gone();
        }
    }

    /// Notes that the lock was granted by the node.
    pub(crate) fn note_granted(&mut self) {
        if let Remains::Node { handoff: Some(handoff), .. } = &mut self.remains {
            handoff.note_granted();
        }
    }

    /// Notes what to leave for whoever comes next when the lock is given back.
    pub(crate) fn will_note(&mut self, note: Note) {
        if let Remains::Node { handoff: Some(handoff), .. } = &mut self.remains {
            handoff.will_leave(note);
        }
    }

    /// Notes what to tell when the holder lets go.
    pub(crate) fn will_tell(&mut self, parting: Parting) {
        self.parting = Some(parting);
    }

    /// By what the node is found if the reply to its creation is lost.
    pub(crate) fn mark(&self) -> Option<&Mark> {
        match &self.remains {
            Remains::Unnamed { mark, .. } => Some(mark),
            _ => None,
        }
    }

    /// Whether the node at the shared path is ours. It is for certain from now on.
    pub(crate) fn recognise(&mut self, data: &[u8], stat: &Stat) -> bool {
        let Remains::Shared { sign, certain, .. } = &mut self.remains else { return false };
        *certain = is_ours(stat, self.session.id()) && sign.recognise(data, stat);
        *certain
    }

    /// The transaction that created the node, where the path alone does not tell it from others.
    pub(crate) fn czxid(&self) -> Option<i64> {
        match &self.remains {
            Remains::Shared { sign, .. } => sign.czxid(),
            Remains::Node { handoff, .. } => handoff.as_ref().map(Handoff::czxid),
            _ => None,
        }
    }

    /// Lets others of the session know of the place in the queue.
    pub(crate) fn join(&mut self, membership: Membership) {
        self.membership = Some(membership);
    }

    /// Takes what the one ahead has passed on.
    pub(crate) fn inherit(&mut self, baton: Baton) {
        self.baton = Some(baton);
    }

    /// Deletes the node of a hold that is released, as [`remove`](Self::remove), and passes the hold on to the one of our
    /// session that is directly behind, if there is one. `proof` is that of the hold.
    pub(crate) async fn release(&mut self, proof: &Proof) -> Result<Removal, Error> {
        let Remains::Node { handoff, heir, .. } = &mut self.remains else { return self.remove().await };
        let Some(follower) = self.membership.as_ref().and_then(Membership::follower) else {
            return self.remove().await;
        };
        let mut baton = self.baton.take().unwrap_or_else(|| Baton::new(&self.session, proof.clone()));
        // The last of the run leaves the note.
        if let Some(handoff) = handoff {
            baton.note = handoff.note().cloned();
        }
        baton.run().pass_to(follower.czxid);
        *heir = Some(Heir { path: follower.path.clone(), czxid: follower.czxid, run: baton.run() });
        let mut removal = pin!(self.remove());
        // Sent before the other one can send anything, so that what it deletes goes later.
        match poll!(&mut removal) {
            // The session has ended.
            Poll::Ready(Err(error)) => Err(error),
            answer => {
                follower.pass(baton);
                match answer {
                    Poll::Ready(answer) => answer,
                    Poll::Pending => removal.await,
                }
            }
        }
    }

    /// Deletes the node and waits for the confirmation. When this is dropped or fails, the reaper goes on.
    pub(crate) async fn remove(&mut self) -> Result<Removal, Error> {
        // A contender whose node is being deleted does not hold any more.
        self.baton = None;
        if !self.armed {
            return Ok(Removal::NothingThere);
        }
        self.let_go();
        let removal = remains::remove(self.session.wire(), self.session.id(), &mut self.remains).await;
        self.armed &= removal.is_err();
        removal.map_err(|error| self.session.explain("delete", self.path(), error))
    }

    /// Tells others of the session that whoever held does so no more.
    fn let_go(&mut self) {
        self.parting.take().into_iter().for_each(Parting::released);
    }

    /// Gives up a place in the queue: the node is gone when this returns `Ok`. Waits only as long as [`withdrawal`].
    pub(crate) async fn withdraw(mut self) -> Result<(), Error> {
        let (session, path) = (self.session.clone(), self.path().to_owned());
        withdrawal(&session, &path, async { self.remove().await.map(drop) }).await
    }
}

/// Waits for the removal of what is given up under `path`. For at most as long as the client waits for a silent connection,
/// a quarter of the session timeout, so that a caller whose deadline has passed is not kept by a server that does not
/// answer.
pub(crate) async fn withdrawal(
    session: &Session,
    path: &str,
    removal: impl Future<Output = Result<(), Error>>,
) -> Result<(), Error> {
    let within = liveness::connection_timeout(session.timeout());
    match tokio::time::timeout(within, removal).await {
        Ok(removed) => removed,
        Err(_) => Err(Error::Unconfirmed { path: path.to_owned(), within }),
    }
}

impl Drop for Claim {
    fn drop(&mut self) {
        self.baton = None;
        if self.armed {
            self.let_go();
            self.session.abandon(self.remains.clone());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_an_answer_that_rules_out_a_node_is_a_refusal() {
        for refusal in [
            ClientError::NoNode,
            ClientError::NodeExists,
            ClientError::NoAuth,
            ClientError::InvalidAcl,
            ClientError::BadArguments(&"path"),
            ClientError::NoChildrenForEphemerals,
            ClientError::QuotaExceeded,
            ClientError::NotReadOnly,
            ClientError::Throttled,
        ] {
            assert!(is_refusal(&refusal), "{refusal:?}");
        }
        for uncertain in [
            ClientError::ConnectionLoss,
            ClientError::Timeout,
            ClientError::SessionExpired,
            ClientError::SessionMoved,
            ClientError::ClientClosed,
            ClientError::UnexpectedErrorCode(-7),
            ClientError::UnexpectedError("a reply that makes no sense".to_owned()),
        ] {
            assert!(!is_refusal(&uncertain), "{uncertain:?}");
        }
    }
}
