//! What a contender may have left on the server, and its deletion.

use std::sync::Arc;

use futures_util::future::join_all;
use zookeeper_client::Error as ClientError;

use crate::backoff::Backoff;
use crate::mark::{self, Found, Handoff, Mark, is_ours};
use crate::node;
use crate::relay::Run;
use crate::shared_node::Sign;
use crate::wire::{Condition, TransactionError, Wire, retry_lost_reply};

/// How many requests of one kind are under way at a time where there may be thousands to send: enough to hide the round
/// trips, few enough for a server that others use, too.
pub(crate) const REQUESTS_MAX: usize = 128;

/// What an acquire may have left on the server, and how to recognise it.
#[derive(Clone, Debug)]
pub(crate) enum Remains {
    /// A node whose name nobody else can have.
    Node { path: String, handoff: Option<Handoff>, heir: Option<Heir> },
    /// A sequential node whose reply has not come.
    Unnamed { parent: String, mark: Mark },
    /// A node at a path that every contender uses. It is ours for certain only between the grant and the first request
    /// to delete it; otherwise only if it is recognised.
    Shared { path: String, sign: Sign, certain: bool },
    /// What an attempt to take permits has made.
    Leases(Leases),
}

/// The leases of one attempt to take permits, and the turn in which they were made. The turn goes last: who has the next
/// one could do nothing but wait for them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Leases {
    pub(crate) parent: String,
    /// What all of their names begin with. Only we wrote it.
    pub(crate) prefix: String,
    /// The paths of those whose names are known.
    pub(crate) named: Vec<String>,
    /// Whether there may be others, because replies have not come.
    pub(crate) unnamed: bool,
    /// The path of the turn.
    pub(crate) turn: Option<String>,
}

/// Whether there was anything to delete.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Removal {
    Deleted,
    NothingThere,
    /// There is, but it stands for another's hold, and goes with that.
    Kept,
}

/// To whom a hold was passed on, whose node has to be there before ours goes.
#[derive(Clone, Debug)]
pub(crate) struct Heir {
    pub(crate) path: String,
    pub(crate) czxid: i64,
    pub(crate) run: Arc<Run>,
}

impl Heir {
    /// Ends the run if the heir's node is missing, too: both were deleted by somebody else.
    async fn check(&self, wire: &Wire) {
        let stat = retry_lost_reply(|| wire.stat(&self.path)).await;
        if stat.is_ok_and(|stat| stat.is_none_or(|stat| stat.czxid != self.czxid)) {
            self.run.lose(self.czxid);
        }
    }
}

impl Remains {
    /// The path to name in messages.
    pub(crate) fn path(&self) -> &str {
        match self {
            Self::Node { path, .. } | Self::Shared { path, .. } => path,
            Self::Unnamed { parent, .. } | Self::Leases(Leases { parent, .. }) => parent,
        }
    }

    /// Asks once for the deletion of what is there, and never for that of a node that is not ours. What was confirmed is
    /// remembered, so that whoever goes on need not begin again.
    async fn remove(&mut self, wire: &Wire, session_id: i64) -> Result<Removal, ClientError> {
        let path = match self {
            Self::Node { path, handoff, heir } => {
                if let Some(handoff) = handoff
                    && !handoff.may_be_there(wire, path).await?
                {
                    return Ok(Removal::NothingThere);
                }
                if let Some(Heir { path: beside, run, .. }) = heir {
                    match wire.delete_with(path, Condition::Beside(beside)).await {
                        Err(TransactionError::Unmet) => {}
                        Err(TransactionError::Delete(error)) => return removal(Err(error)),
                        Ok(()) => return Ok(Removal::Deleted),
                    }
                    let mut handoff = handoff.clone();
                    handoff.iter_mut().for_each(Handoff::forget_note);
                    if run.keep(Self::Node { path: path.clone(), handoff, heir: None }) {
                        return Ok(Removal::Kept);
                    }
                    // The heir has given up, or has released, and nobody needs our node.
                    *heir = None;
                }
                if let Some(note) = handoff.as_ref().and_then(Handoff::note) {
                    match wire.delete_with(path, Condition::Noted(note)).await {
                        Err(TransactionError::Unmet) => handoff.iter_mut().for_each(Handoff::forget_note),
                        Err(TransactionError::Delete(error)) => return removal(Err(error)),
                        Ok(()) => return Ok(Removal::Deleted),
                    }
                }
                path.clone()
            }
            Self::Unnamed { parent, mark } => match mark.find(wire, session_id, parent).await? {
                Some(Found { path, handoff, .. }) => {
                    // Its name is remembered: found by its data, it is taken, and would not be found again.
                    *self = Self::Node { path: path.clone(), handoff, heir: None };
                    path
                }
                None => return Ok(Removal::NothingThere),
            },
            Self::Shared { path, certain: certain @ true, .. } => {
                // Before the request is sent: from then on it may have been applied, and the node be somebody else's.
                *certain = false;
                path.clone()
            }
            Self::Shared { path, sign, .. } => {
                retry_lost_reply(|| wire.sync(path)).await?;
                match retry_lost_reply(|| wire.data(path)).await {
                    Ok((data, stat)) if is_ours(&stat, session_id) && sign.recognise(&data, &stat) => path.clone(),
                    Ok(_) | Err(ClientError::NoNode) => return Ok(Removal::NothingThere),
                    Err(error) => return Err(error),
                }
            }
            Self::Leases(leases) => return leases.remove(wire, session_id).await,
        };
        delete(wire, &path).await
    }
}

impl Leases {
    /// As [`Remains::remove`].
    async fn remove(&mut self, wire: &Wire, session_id: i64) -> Result<Removal, ClientError> {
        if self.unnamed {
            let named = self.named.iter().map(|path| node::name(path)).collect();
            let found = mark::find_unnamed(wire, session_id, &self.parent, &self.prefix, &named).await?;
            self.named.extend(found.into_iter().map(|(path, _)| path));
            self.unnamed = false;
        }
        let mut removal = Removal::NothingThere;
        while !self.named.is_empty() {
            let rest = self.named.len().saturating_sub(REQUESTS_MAX);
            let answers = join_all(self.named[rest..].iter().map(|path| delete(wire, path))).await;
            let mut failure = None;
            for (path, answer) in self.named.split_off(rest).into_iter().zip(answers) {
                match answer {
                    Ok(Removal::Deleted) => removal = Removal::Deleted,
                    Ok(Removal::NothingThere | Removal::Kept) => {}
                    Err(error) => {
                        self.named.push(path);
                        failure = Some(error);
                    }
                }
            }
            failure.map_or(Ok(()), Err)?;
        }
        if let Some(turn) = &self.turn {
            if delete(wire, turn).await? == Removal::Deleted {
                removal = Removal::Deleted;
            }
            self.turn = None;
        }
        Ok(removal)
    }
}

async fn delete(wire: &Wire, path: &str) -> Result<Removal, ClientError> {
    removal(wire.delete(path).await)
}

pub(crate) fn removal(deleted: Result<(), ClientError>) -> Result<Removal, ClientError> {
    match deleted {
        Ok(()) => Ok(Removal::Deleted),
        Err(ClientError::NoNode) => Ok(Removal::NothingThere),
        Err(error) => Err(error),
    }
}

/// Deletes the remains, however often replies are lost.
pub(crate) async fn remove(wire: &Wire, session_id: i64, remains: &mut Remains) -> Result<Removal, ClientError> {
    let mut doubtful = false;
    let mut backoff = Backoff::after_lost_reply();
    loop {
        match remains.remove(wire, session_id).await {
            Err(ClientError::ConnectionLoss) => {
                doubtful = true;
                backoff.pause().await;
            }
            Ok(Removal::NothingThere) => {
                if let Remains::Node { heir: Some(heir), .. } = remains {
                    heir.check(wire).await;
                }
                // The request whose reply was lost may have done it.
                return Ok(if doubtful { Removal::Deleted } else { Removal::NothingThere });
            }
            answered => return answered,
        }
    }
}
