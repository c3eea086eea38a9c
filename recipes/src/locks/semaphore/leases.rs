//! What one attempt to take permits has on the server.

use futures_util::future::{BoxFuture, join_all};
use zookeeper_client::Error as ClientError;

use crate::engine::{Place, find_unnamed};
use crate::error::Error;
use crate::node;
use crate::session::backoff::Backoff;
use crate::session::reaper::{Attempts, Leftover, Removal};
use crate::session::remote::Remote;
use crate::session::wire::REQUESTS_MAX;

/// The leases of one attempt to take permits, and the turn in which they were made. The turn goes last: who has the next
/// one could do nothing but wait for them.
#[derive(Debug)]
pub(super) struct Leases {
    pub(super) parent: String,
    /// What all of their names begin with. Only we wrote it.
    pub(super) prefix: String,
    /// The paths of those whose names are known.
    pub(super) named: Vec<String>,
    /// Whether there may be others, because replies have not come.
    pub(super) unnamed: bool,
    pub(super) turn: Option<Place>,
}

impl Leases {
    /// Asks once for the deletion of each. What was confirmed is remembered.
    async fn remove_once(&mut self, remote: &Remote) -> Result<Removal, ClientError> {
        if self.unnamed {
            let named = self.named.iter().map(|path| node::name(path)).collect();
            let found = find_unnamed(remote, &self.parent, &self.prefix, &named).await?;
            self.named.extend(found.into_iter().map(|(path, _)| path));
            self.unnamed = false;
        }
        let mut removal = Removal::NothingThere;
        while !self.named.is_empty() {
            let rest = self.named.len().saturating_sub(REQUESTS_MAX);
            let answers = join_all(self.named[rest..].iter().map(|path| remote.delete(path))).await;
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

impl Leftover for Leases {
    fn path(&self) -> &str {
        &self.parent
    }

    fn remove<'a>(&'a mut self, remote: &'a Remote) -> BoxFuture<'a, Result<Removal, Error>> {
        Box::pin(async {
            let mut attempts = Attempts::new();
            let removed = loop {
                if let Some(removed) = attempts.end(self.remove_once(remote).await).await {
                    break removed;
                }
            };
            let removed = removed.map_err(|error| remote.explain("delete", &self.parent, error))?;
            match &mut self.turn {
                Some(turn) => turn.leave(false).await,
                None => Ok(removed),
            }
        })
    }

    fn idle<'a>(&'a mut self, backoff: &'a mut Backoff) -> BoxFuture<'a, Result<(), Error>> {
        Box::pin(async {
            backoff.pause().await;
            match &mut self.turn {
                Some(turn) => turn.while_idle().await,
                None => Ok(()),
            }
        })
    }
}
