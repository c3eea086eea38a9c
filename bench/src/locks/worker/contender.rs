//! One contender of any implementation, and the sessions that contenders share.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use bench::{BenchLock, Error, Recipe};
use tokio::sync::{Mutex, MutexGuard};
use zk_recipes::{AnyLock, LockGuard, Session, SessionConfig};
use zookeeper_client::{Acls, Client, CreateMode, LockClient, LockOptions, LockPrefix};

use crate::implementation::Implementation;
use crate::protocol::Contest;

/// The same for every implementation. A machine that is busy with the contenders must not end a session.
const SESSION_TIMEOUT: Duration = Duration::from_secs(30);

/// The sessions, by the library of the implementation.
pub(super) enum Sessions {
    Recipes(Recipe, Vec<Session>),
    Client(Vec<Client>),
    Raw(Vec<Client>),
    /// With the mutex that lets one contender write at a time.
    RawWrite(Vec<Client>, Arc<Mutex<()>>),
}

/// A contender of one implementation.
pub(super) enum Contender {
    Recipe(AnyLock),
    Client { client: Client, path: String },
    Raw { client: Client, path: String },
    RawWrite { client: Client, path: String, turn: Arc<Mutex<()>> },
}

/// The lock, held.
pub(super) enum Held<'a> {
    Recipe(LockGuard),
    Client(LockClient<'a>),
    Raw(&'a Client, &'a str),
    RawWrite(&'a Client, &'a str, MutexGuard<'a, ()>),
}

impl Sessions {
    /// Opens the sessions, and makes the parents that an implementation does not make by itself.
    pub(super) async fn open(contest: &Contest) -> Result<Self, Error> {
        let Contest { implementation, path, sessions, connect_string, .. } = contest;
        let unknown = || Error::Failed(format!("unknown implementation: {implementation}"));
        let implementation = Implementation::by_name(implementation).ok_or_else(unknown)?;
        match implementation {
            Implementation::Ours(recipe) => {
                let mut opened = Vec::new();
                for _ in 0..*sessions {
                    let config = SessionConfig::default().with_timeout(SESSION_TIMEOUT);
                    opened.push(Session::connect(connect_string, config).await?);
                }
                Ok(Self::Recipes(recipe, opened))
            }
            Implementation::ZookeeperClient => Ok(Self::Client(clients(*sessions, connect_string).await?)),
            Implementation::Raw | Implementation::RawWrite => {
                let clients = clients(*sessions, connect_string).await?;
                if let Some(client) = clients.first() {
                    client.mkdir(path, &CreateMode::Persistent.with_acls(Acls::anyone_all())).await?;
                }
                Ok(match implementation {
                    Implementation::RawWrite => Self::RawWrite(clients, Arc::default()),
                    _ => Self::Raw(clients),
                })
            }
            Implementation::Curator | Implementation::Kazoo => {
                Err(Error::Failed(format!("{} is not written in Rust", implementation.name())))
            }
        }
    }

    /// Makes contender `i` of the lock at `path`, with a lock object of its own.
    pub(super) fn contender(&self, i: usize, path: &str) -> Result<Contender, Error> {
        match self {
            Self::Recipes(recipe, sessions) => match recipe.lock_at(&sessions[i % sessions.len()], path)? {
                BenchLock::One(lock) => Ok(Contender::Recipe(lock)),
                BenchLock::Several(_) => Err(Error::Failed(format!("{} is not one lock", recipe.name()))),
            },
            Self::Client(clients) => {
                Ok(Contender::Client { client: clients[i % clients.len()].clone(), path: path.to_owned() })
            }
            Self::Raw(clients) => {
                Ok(Contender::Raw { client: clients[i % clients.len()].clone(), path: format!("{path}/{i}") })
            }
            Self::RawWrite(clients, turn) => {
                let client = clients[i % clients.len()].clone();
                Ok(Contender::RawWrite { client, path: path.to_owned(), turn: Arc::clone(turn) })
            }
        }
    }

    /// Returns the sessions of our recipes, and none of other implementations.
    pub(super) fn of_recipes(&self) -> &[Session] {
        match self {
            Self::Recipes(_, sessions) => sessions,
            Self::Client(_) | Self::Raw(_) | Self::RawWrite(..) => &[],
        }
    }

    /// Ends the sessions. The client library has no call for that: its sessions end with the last clone of the client.
    pub(super) async fn close(self) -> Result<(), Error> {
        for session in self.of_recipes() {
            session.close().await?;
        }
        Ok(())
    }
}

async fn clients(sessions: u32, connect_string: &str) -> Result<Vec<Client>, Error> {
    let mut clients = Vec::new();
    for _ in 0..sessions {
        clients.push(Client::connector().with_session_timeout(SESSION_TIMEOUT).connect(connect_string).await?);
    }
    Ok(clients)
}

impl Contender {
    /// Fails if another contender holds the lock at the same time. All contenders share the flag.
    pub(super) fn check_alone(&self, is_held: &AtomicBool) -> Result<(), Error> {
        if matches!(self, Self::Raw { .. }) {
            // It does not exclude other contenders.
            return Ok(());
        }
        if is_held.swap(true, Ordering::AcqRel) {
            return Err(Error::Failed("two contenders held the lock at once".to_owned()));
        }
        is_held.store(false, Ordering::Release);
        Ok(())
    }

    pub(super) async fn acquire(&self) -> Result<Held<'_>, Error> {
        match self {
            Self::Recipe(lock) => Ok(Held::Recipe(lock.acquire().await?)),
            Self::Client { client, path } => {
                let parents = CreateMode::Container.with_acls(Acls::anyone_all());
                let options = LockOptions::new(Acls::anyone_all()).with_ancestor_options(parents)?;
                Ok(Held::Client(client.lock(LockPrefix::new_curator(path, "lock-")?, &[], options).await?))
            }
            Self::Raw { client, path } => {
                client.create(path, &[], &CreateMode::Ephemeral.with_acls(Acls::anyone_all())).await?;
                Ok(Held::Raw(client, path))
            }
            Self::RawWrite { client, path, turn } => Ok(Held::RawWrite(client, path, turn.lock().await)),
        }
    }
}

impl Held<'_> {
    /// Returns the fencing token of a recipe's grant.
    pub(super) fn token(&self) -> Option<String> {
        match self {
            Self::Recipe(held) => Some(held.token().to_string()),
            Self::Client(_) | Self::Raw(..) | Self::RawWrite(..) => None,
        }
    }

    /// Releases the lock, and returns when the server has confirmed it.
    pub(super) async fn release(self) -> Result<(), Error> {
        match self {
            Self::Recipe(held) => held.release().await?,
            Self::Client(held) => {
                held.client().delete(held.lock_path(), None).await?;
                // A drop would delete the node once more, and without a confirmation. The node is gone already.
                std::mem::forget(held);
            }
            Self::Raw(client, path) => client.delete(path, None).await?,
            Self::RawWrite(client, path, _turn) => drop(client.set_data(path, &[], None).await?),
        }
        Ok(())
    }
}
