//! What an attempt to take permits has on the server: its leases, and the lease lock under which it makes them.

use futures_util::future::{BoxFuture, join_all};
use zk_recipes_protocol::permits::{Ask, Event, Permits};
use zookeeper_client::Error as ClientError;

use crate::engine::{Contender, find_unnamed};
use crate::error::Error;
use crate::node;
use crate::session::backoff::Backoff;
use crate::session::reaper::{Leftover, until_answered};
use crate::session::remote::{Remote, Removal, made};
use crate::session::rooms::Room;

/// The leases of an attempt, and the lease lock under which they are made.
#[derive(Debug)]
pub(super) struct AttemptNodes {
    /// The path of the semaphore.
    pub(super) lock: String,
    pub(super) parent: String,
    /// The beginning of the names of all the leases. No other contender has it.
    pub(super) prefix: String,
    pub(super) permits: Permits,
    /// Deleted after the leases: with it alone, the next attempt could only wait for these leases.
    pub(super) lease_lock: Option<Contender>,
    /// The room of all the nodes. Taken before the lease lock, so that no attempt waits for room while others wait for the lock.
    pub(super) room: Room,
}

/// A lease that holds: a node with a name that no other contender can have.
#[derive(Debug)]
pub(super) struct Lease {
    pub(super) lock: String,
    pub(super) path: String,
    pub(super) _room: Option<Room>,
}

impl AttemptNodes {
    /// Finds the leases whose names are not known.
    pub(super) async fn find_unnamed(&self, remote: &Remote) -> Result<Event, ClientError> {
        let known = self.permits.leases().iter().map(|lease| lease.name.as_str()).collect();
        let found = find_unnamed(remote, &self.parent, &self.prefix, &known).await?;
        Ok(Event::Found(found.iter().map(|(path, stat)| made(remote, path, stat)).collect()))
    }

    /// Deletes the leases, until all are gone or a request fails. Remembers each confirmed deletion.
    async fn remove_leases(&mut self, remote: &Remote) -> Result<Removal, ClientError> {
        let mut removal = Removal::NothingThere;
        let mut asks = Vec::new();
        self.permits.on(Event::Leaves, &mut asks);
        while let Some(ask) = asks.pop() {
            let event = match ask {
                Ask::Find => self.find_unnamed(remote).await?,
                Ask::Delete(names) => {
                    let paths: Vec<String> = names.iter().map(|name| node::child(&self.parent, name)).collect();
                    let answers = join_all(paths.iter().map(|path| remote.delete(path))).await;
                    let mut deleted = Vec::new();
                    let mut failure = None;
                    for (name, answer) in names.into_iter().zip(answers) {
                        match answer {
                            Ok(removed) => {
                                if removed == Removal::Deleted {
                                    removal = removed;
                                }
                                deleted.push(name);
                            }
                            Err(error) => failure = Some(error),
                        }
                    }
                    if let Some(error) = failure {
                        self.permits.on(Event::Deleted(deleted), &mut asks);
                        return Err(error);
                    }
                    Event::Deleted(deleted)
                }
                // The lease lock is deleted next.
                _ => break,
            };
            self.permits.on(event, &mut asks);
        }
        Ok(removal)
    }
}

impl Leftover for AttemptNodes {
    fn path(&self) -> &str {
        &self.parent
    }

    fn lock(&self) -> &str {
        &self.lock
    }

    fn give_up(&mut self) -> bool {
        self.lease_lock.is_some() || self.permits.has_claim()
    }

    fn remove<'a>(&'a mut self, remote: &'a Remote, _: bool) -> BoxFuture<'a, Result<Removal, Error>> {
        Box::pin(async {
            let removed = until_answered(self, remote, |nodes, remote| Box::pin(nodes.remove_leases(remote))).await;
            let removed = removed.map_err(|error| remote.explain("delete", &self.parent, error))?;
            match &mut self.lease_lock {
                Some(lease_lock) => lease_lock.remove(remote, false).await,
                None => Ok(removed),
            }
        })
    }

    fn idle<'a>(&'a mut self, backoff: &'a mut Backoff) -> BoxFuture<'a, Result<(), Error>> {
        Box::pin(async {
            backoff.pause().await;
            match &mut self.lease_lock {
                Some(lease_lock) => lease_lock.idle(backoff).await,
                None => Ok(()),
            }
        })
    }
}

impl Leftover for Lease {
    fn path(&self) -> &str {
        &self.path
    }

    fn lock(&self) -> &str {
        &self.lock
    }

    fn remove<'a>(&'a mut self, remote: &'a Remote, _: bool) -> BoxFuture<'a, Result<Removal, Error>> {
        Box::pin(async {
            let removed = until_answered(self, remote, |lease, remote| Box::pin(remote.delete(&lease.path))).await;
            removed.map_err(|error| remote.explain("delete", &self.path, error))
        })
    }
}
