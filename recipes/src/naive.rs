//! The herd, on purpose.

use std::sync::Arc;
use std::time::Duration;

use uuid::Uuid;
use zookeeper_client::{CreateMode, Error as ClientError, Stat};

use crate::acquire::Deadline;
use crate::claim::{self, Claim, Remains, Sign};
use crate::error::Error;
use crate::guard::{Hold, LockGuard};
use crate::node;
use crate::session::Session;
use crate::token::FencingToken;
use crate::wire::{Watch, retry_lost_reply};

/// One fixed ephemeral node: who creates it holds, everyone else watches it. **For comparison, not for use**: a release
/// wakes all waiters, all try again, and all but one wait again, N(N−1)/2 notifications for N contenders. There is no
/// order either; a waiter may starve.
///
/// It excludes as well as [`Mutex`](crate::Mutex) does, and its holds are guarded in the same way.
///
/// ```no_run
/// use zk_recipes::{NaiveLock, Session, SessionConfig};
///
/// # async fn example() -> Result<(), zk_recipes::Error> {
/// let session = Session::connect("127.0.0.1:2181", SessionConfig::default()).await?;
/// let held = NaiveLock::new(&session, "/naive/goods-1")?.acquire().await?;
/// held.release().await
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct NaiveLock {
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    session: Session,
    path: String,
}

/// The answer to one attempt to create the node.
enum Attempt {
    Ours(Stat),
    Taken,
}

impl NaiveLock {
    /// The lock whose node is `path`. Missing parents are created at the first acquire.
    ///
    /// # Errors
    /// [`Error::InvalidPath`]; nothing is sent.
    pub fn new(session: &Session, path: &str) -> Result<Self, Error> {
        node::validate_path(path)?;
        Ok(Self { inner: Arc::new(Inner { session: session.clone(), path: path.to_owned() }) })
    }

    /// Waits for the lock, for as long as it takes or the session lives.
    ///
    /// # Errors
    /// [`Error::SessionEnded`] or [`Error::Refused`].
    ///
    /// # Cancel safety
    /// Dropped, it stops waiting; the session's reaper deletes the node if it was created meanwhile.
    pub async fn acquire(&self) -> Result<LockGuard, Error> {
        match self.acquire_until(Deadline::never()).await? {
            Some(held) => Ok(held),
            None => unreachable!("BUG: a deadline that never comes has come"),
        }
    }

    /// Takes the lock if nobody holds it. When somebody does, it has only read.
    ///
    /// # Errors
    /// As [`acquire`](Self::acquire), and [`Error::NoAnswer`] when the server did not answer within half the session
    /// timeout. [`Error::Unconfirmed`] when somebody was quicker and the server did not confirm that our node is gone.
    ///
    /// # Cancel safety
    /// Dropped, it leaves nothing behind: the session's reaper sees to that.
    pub async fn try_acquire(&self) -> Result<Option<LockGuard>, Error> {
        let Inner { session, path } = &*self.inner;
        let within = session.timeout() / 2;
        let (mut claim, mark) = self.claim();
        let attempt = async {
            match retry_lost_reply(|| session.wire().data(path)).await {
                Ok(_) => return Ok(None),
                Err(ClientError::NoNode) => {}
                Err(error) => return Err(session.explain("read", path, error)),
            }
            let losses = session.liveness().losses();
            match self.create(&mut claim, &mark).await? {
                Attempt::Ours(stat) => Ok(Some((stat, losses))),
                Attempt::Taken => Ok(None),
            }
        };
        match Deadline::after(within).bound(attempt).await {
            Some(Ok(Some((stat, losses)))) => Ok(Some(granted(claim, &stat, losses))),
            Some(Ok(None)) => claim.withdraw().await.map(|()| None),
            Some(Err(error)) => Err(error),
            None => Err(Error::NoAnswer { within }),
        }
    }

    /// Waits for the lock, for at most `wait` in all. `None` when it was not had by then.
    ///
    /// # Errors
    /// As [`acquire`](Self::acquire), and [`Error::Unconfirmed`] when the server did not confirm in time that no node
    /// of ours is left; the answer then comes a quarter of the session timeout after `wait` at the latest.
    ///
    /// # Cancel safety
    /// As [`acquire`](Self::acquire).
    pub async fn acquire_within(&self, wait: Duration) -> Result<Option<LockGuard>, Error> {
        self.acquire_until(Deadline::after(wait)).await
    }

    /// The path of the lock's node.
    #[must_use]
    pub fn path(&self) -> &str {
        &self.inner.path
    }

    pub(crate) fn session(&self) -> &Session {
        &self.inner.session
    }

    async fn acquire_until(&self, deadline: Deadline) -> Result<Option<LockGuard>, Error> {
        let (mut claim, mark) = self.claim();
        let grant = async {
            loop {
                let losses = self.inner.session.liveness().losses();
                if let Attempt::Ours(stat) = self.create(&mut claim, &mark).await? {
                    return Ok((stat, losses));
                }
                // Everyone who waits watches this one node: that is the herd.
                if let Some(watch) = self.watch().await? {
                    watch.fired().await;
                }
            }
        };
        match deadline.bound(grant).await {
            Some(Ok((stat, losses))) => Ok(Some(granted(claim, &stat, losses))),
            Some(Err(error)) => Err(error),
            None => claim.withdraw().await.map(|()| None),
        }
    }

    fn claim(&self) -> (Claim, Vec<u8>) {
        let mark = Uuid::new_v4().to_string().into_bytes();
        let remains = Remains::Shared { path: self.inner.path.clone(), sign: Sign::Data(mark.clone()), certain: false };
        (Claim::new(&self.inner.session, remains), mark)
    }

    /// One attempt to create the node. After a lost reply the node is ours if it carries our mark and our session.
    async fn create(&self, claim: &mut Claim, mark: &[u8]) -> Result<Attempt, Error> {
        let Inner { session, path } = &*self.inner;
        let wire = session.wire();
        let mut doubtful = false;
        claim.arm();
        loop {
            match wire.create(path, mark, CreateMode::Ephemeral).await {
                Ok((_, stat)) => return Ok(Attempt::Ours(stat)),
                Err(ClientError::NodeExists) if doubtful => match retry_lost_reply(|| wire.data(path)).await {
                    Ok((data, stat)) if data == mark && claim::is_ours(&stat, session.id()) => {
                        return Ok(Attempt::Ours(stat));
                    }
                    Ok(_) => return Ok(Attempt::Taken),
                    Err(ClientError::NoNode) => {}
                    Err(error) => return Err(session.explain("read", path, error)),
                },
                Err(ClientError::NodeExists) => {
                    // A definite refusal: there is nothing of ours to look for.
                    claim.disarm();
                    return Ok(Attempt::Taken);
                }
                Err(ClientError::NoNode) => {
                    let Some(parent) = node::parent(path) else {
                        return Err(session.explain("create", path, ClientError::NoNode));
                    };
                    wire.create_parents(parent).await.map_err(|error| session.explain("create", parent, error))?;
                }
                Err(ClientError::ConnectionLoss) => doubtful = true,
                Err(error) => return Err(session.explain("create", path, error)),
            }
        }
    }

    /// Watches the holder's node; `None` when it has just gone.
    async fn watch(&self) -> Result<Option<Watch>, Error> {
        let Inner { session, path } = &*self.inner;
        match retry_lost_reply(|| session.wire().watch(path)).await {
            Ok((.., watch)) => Ok(Some(watch)),
            Err(ClientError::NoNode) => Ok(None),
            Err(error) => Err(session.explain("watch", path, error)),
        }
    }
}

fn granted(mut claim: Claim, stat: &Stat, losses: u64) -> LockGuard {
    claim.make_certain(stat.czxid);
    LockGuard::new(Hold::new(claim, FencingToken::new(stat.czxid), losses))
}
