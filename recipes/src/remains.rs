//! What may be left on the server, and its deletion.

use futures_util::future::join_all;
use zookeeper_client::Error as ClientError;

use crate::backoff::Backoff;
use crate::engine::{Place, Removal, find_unnamed, is_ours};
use crate::error::Error;
use crate::node;
use crate::remote::Remote;
use crate::shared_node::Sign;
use crate::wire::{REQUESTS_MAX, retry_lost_reply};

/// What may be left on the server, and how to recognise it.
#[derive(Debug, Default)]
pub(crate) enum Remains {
    #[default]
    Nothing,
    /// A node whose name nobody else can have.
    Node { path: String },
    /// A node at a path that every contender uses. It is ours for certain only between the grant and the first request
    /// to delete it; otherwise only if it is recognised.
    Shared { path: String, sign: Sign, certain: bool },
    /// What an attempt to take permits has made.
    Leases(Leases),
    /// What a contender of a queue has left.
    Place(Place),
}

/// The leases of one attempt to take permits, and the turn in which they were made. The turn goes last: who has the next
/// one could do nothing but wait for them.
#[derive(Debug)]
pub(crate) struct Leases {
    pub(crate) parent: String,
    /// What all of their names begin with. Only we wrote it.
    pub(crate) prefix: String,
    /// The paths of those whose names are known.
    pub(crate) named: Vec<String>,
    /// Whether there may be others, because replies have not come.
    pub(crate) unnamed: bool,
    pub(crate) turn: Option<Place>,
}

impl From<Place> for Remains {
    fn from(place: Place) -> Self {
        Self::Place(place)
    }
}

impl Remains {
    /// The path to name in messages.
    pub(crate) fn path(&self) -> &str {
        match self {
            Self::Nothing => "/",
            Self::Node { path } | Self::Shared { path, .. } => path,
            Self::Leases(Leases { parent, .. }) => parent,
            Self::Place(place) => place.path(),
        }
    }

    /// Pauses after a refusal, and for as long as what is there stands for another's hold.
    pub(crate) async fn idle(&mut self, backoff: &mut Backoff) -> Result<(), Error> {
        match self {
            // It pauses by itself.
            Self::Place(place) => place.while_idle().await,
            Self::Leases(Leases { turn: Some(turn), .. }) => {
                backoff.pause().await;
                turn.while_idle().await
            }
            _ => {
                backoff.pause().await;
                Ok(())
            }
        }
    }

    /// Asks once for the deletion of what is there, and never for that of a node that is not ours. What was confirmed is
    /// remembered, so that whoever goes on need not begin again.
    async fn remove(&mut self, remote: &Remote) -> Result<Removal, ClientError> {
        let wire = remote.wire();
        match self {
            Self::Nothing | Self::Place(_) => Ok(Removal::NothingThere),
            Self::Node { path } => delete(remote, path).await,
            Self::Shared { path, certain: certain @ true, .. } => {
                // Before the request is sent: from then on it may have been applied, and the node be somebody else's.
                *certain = false;
                delete(remote, path).await
            }
            Self::Shared { path, sign, .. } => {
                retry_lost_reply(|| wire.sync(path)).await?;
                match retry_lost_reply(|| wire.data(path)).await {
                    Ok((data, stat)) if is_ours(&stat, remote.session_id()) && sign.recognise(&data, &stat) => {
                        delete(remote, path).await
                    }
                    Ok(_) | Err(ClientError::NoNode) => Ok(Removal::NothingThere),
                    Err(error) => Err(error),
                }
            }
            Self::Leases(leases) => leases.remove(remote).await,
        }
    }
}

impl Leases {
    /// As [`Remains::remove`], but for the turn.
    async fn remove(&mut self, remote: &Remote) -> Result<Removal, ClientError> {
        if self.unnamed {
            let named = self.named.iter().map(|path| node::name(path)).collect();
            let found = find_unnamed(remote, &self.parent, &self.prefix, &named).await?;
            self.named.extend(found.into_iter().map(|(path, _)| path));
            self.unnamed = false;
        }
        let mut removal = Removal::NothingThere;
        while !self.named.is_empty() {
            let rest = self.named.len().saturating_sub(REQUESTS_MAX);
            let answers = join_all(self.named[rest..].iter().map(|path| delete(remote, path))).await;
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
        Ok(removal)
    }
}

async fn delete(remote: &Remote, path: &str) -> Result<Removal, ClientError> {
    match remote.wire().delete(path).await {
        Ok(()) => Ok(Removal::Deleted),
        Err(ClientError::NoNode) => Ok(Removal::NothingThere),
        Err(error) => Err(error),
    }
}

/// Deletes the remains, however often replies are lost.
pub(crate) async fn remove(remote: &Remote, remains: &mut Remains) -> Result<Removal, Error> {
    let mut is_reply_lost = false;
    let mut backoff = Backoff::after_lost_reply();
    let removal = loop {
        match remains.remove(remote).await {
            Err(ClientError::ConnectionLoss) => {
                is_reply_lost = true;
                backoff.pause().await;
            }
            // The request whose reply was lost may have done it.
            Ok(Removal::NothingThere) if is_reply_lost => break Removal::Deleted,
            Ok(removal) => break removal,
            Err(error) => return Err(remote.explain("delete", remains.path(), error)),
        }
    };
    match remains {
        Remains::Place(place) | Remains::Leases(Leases { turn: Some(place), .. }) => place.leave(false).await,
        _ => Ok(removal),
    }
}
