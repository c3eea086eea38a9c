//! The leases and the turn that an attempt has left on the server.

use futures_util::future::{BoxFuture, join_all};
use zk_recipes_protocol::permits::{Ask, Event, Permits};
use zookeeper_client::Error as ClientError;

use crate::engine::{Place, find_unnamed};
use crate::error::Error;
use crate::node;
use crate::session::backoff::Backoff;
use crate::session::reaper::{Leftover, until_answered};
use crate::session::remote::{Remote, Removal, made};
use crate::session::rooms::Room;

/// The leases of an attempt that was given up, and the turn in which they were made.
#[derive(Debug)]
pub(super) struct Leases {
    pub(super) lock: String,
    pub(super) parent: String,
    /// The beginning of the names of all the leases. No other contender has it.
    pub(super) prefix: String,
    pub(super) permits: Permits,
    pub(super) turn: Option<Place>,
    /// The room of the leases.
    pub(super) _room: Option<Room>,
}

impl Leases {
    /// Deletes the leases, until all are gone or a request fails. Remembers each confirmed deletion.
    async fn remove_leases(&mut self, remote: &Remote) -> Result<Removal, ClientError> {
        let mut removal = Removal::NothingThere;
        loop {
            let event = match self.permits.ask() {
                Ask::Find => {
                    let known = self.permits.leases().iter().map(|lease| lease.name.as_str()).collect();
                    let found = find_unnamed(remote, &self.parent, &self.prefix, &known).await?;
                    Event::Found(found.iter().map(|(path, stat)| made(remote, path, stat)).collect())
                }
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
                    self.permits.on(Event::Deleted(deleted));
                    match failure {
                        Some(error) => return Err(error),
                        None => continue,
                    }
                }
                _ => return Ok(removal),
            };
            self.permits.on(event);
        }
    }
}

impl Leftover for Leases {
    fn path(&self) -> &str {
        &self.parent
    }

    fn lock(&self) -> &str {
        &self.lock
    }

    fn remove<'a>(&'a mut self, remote: &'a Remote) -> BoxFuture<'a, Result<Removal, Error>> {
        Box::pin(async {
            let removed = until_answered(self, remote, |leases, remote| Box::pin(leases.remove_leases(remote))).await;
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
