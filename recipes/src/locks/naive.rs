//! The herd, on purpose.

use std::sync::Arc;
use std::time::Duration;

use tracing::{Instrument, Span, debug_span};
use uuid::Uuid;
use zookeeper_client::{CreateMode, Error as ClientError, Stat};

use crate::deadline::Deadline;
use crate::error::Error;
use crate::hold::guard::{Hold, LockGuard};
use crate::hold::node_claim::{NodeClaim, OwnNode};
use crate::hold::shared_node::{SharedNode, Sign};
use crate::hold::token::FencingToken;
use crate::locks::participants::{Participant, participants};
use crate::node;
use crate::session::Session;
use crate::session::backoff::Backoff;
use crate::session::liveness_cell::Proof;
use crate::session::weak_map::WeakMap;
use crate::session::wire::{Watch, is_refusal, retry_lost_reply};

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

/// One who wants the lock.
struct Contender {
    claim: NodeClaim,
    mark: Vec<u8>,
    /// Whether it may have made a node without knowing, because a reply was lost. It stays so: a server that lags may
    /// show that node later.
    is_doubtful: bool,
}

/// The answer to one attempt to create the node.
enum Attempt {
    Ours(FencingToken),
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
        let mut contender = self.contender();
        let attempt = async {
            match retry_lost_reply(|| session.wire().data(path)).await {
                Ok(_) => return Ok(None),
                Err(ClientError::NoNode) => {}
                Err(error) => return Err(session.remote().explain("read", path, error)),
            }
            match self.create(&mut contender).await? {
                Attempt::Ours(token) => Ok(Some((token, self.prove().await?))),
                Attempt::Taken => Ok(None),
            }
        };
        match Deadline::after(within).bound(attempt.instrument(self.span())).await {
            Some(Ok(Some((token, proof)))) => Ok(Some(contender.granted(token, proof))),
            Some(Ok(None)) => contender.claim.withdraw().await.map(|()| None),
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

    /// Who holds the lock. Who waits has no node.
    ///
    /// # Errors
    /// As [`participants`](crate::participants()).
    ///
    /// # Cancel safety
    /// It only reads.
    pub async fn participants(&self) -> Result<Vec<Participant>, Error> {
        participants(self.session(), self.path()).await
    }

    /// The path of the lock's node.
    #[must_use]
    pub fn path(&self) -> &str {
        &self.inner.path
    }

    pub(crate) fn session(&self) -> &Session {
        &self.inner.session
    }

    /// Of an acquire.
    fn span(&self) -> Span {
        let Inner { session, path } = &*self.inner;
        debug_span!("acquire", lock = path, session = format_args!("{:#x}", session.id()))
    }

    async fn acquire_until(&self, deadline: Deadline) -> Result<Option<LockGuard>, Error> {
        let mut contender = self.contender();
        let grant = async {
            loop {
                if let Attempt::Ours(token) = self.create(&mut contender).await? {
                    return Ok((token, self.prove().await?));
                }
                // Everyone who waits watches this one node: that is the herd.
                if let Some(watch) = self.watch().await? {
                    watch.fired().await;
                }
            }
        };
        match deadline.bound(grant.instrument(self.span())).await {
            Some(Ok((token, proof))) => Ok(Some(contender.granted(token, proof))),
            Some(Err(error)) => Err(error),
            None => contender.claim.withdraw().await.map(|()| None),
        }
    }

    /// Waits for a proof that the session lives, without which there is no grant.
    async fn prove(&self) -> Result<Proof, Error> {
        let Inner { session, path } = &*self.inner;
        session.remote().prove().await.map_err(|error| session.remote().explain("write", path, error))
    }

    fn contender(&self) -> Contender {
        let Inner { session, path } = &*self.inner;
        let mark = Uuid::new_v4().to_string().into_bytes();
        let sign = Sign::new(
            session.extension::<WeakMap<String, SharedNode>>().at(path.clone(), SharedNode::default),
            mark.clone(),
        );
        let remains = OwnNode::Shared { path: path.clone(), sign, certain: false };
        Contender { claim: NodeClaim::new(session, remains), mark, is_doubtful: false }
    }

    /// One attempt to create the node. After a lost reply the node is ours if it is recognised.
    async fn create(&self, contender: &mut Contender) -> Result<Attempt, Error> {
        let Inner { session, path } = &*self.inner;
        let wire = session.wire();
        let Contender { claim, mark, is_doubtful } = contender;
        let mut backoff = Backoff::after_lost_reply();
        claim.arm();
        loop {
            let (path, error) = match wire.create(path, mark, CreateMode::Ephemeral).await {
                Ok((_, stat)) => return Ok(Attempt::of(claim, mark, &stat)),
                Err(ClientError::NodeExists) if *is_doubtful => match retry_lost_reply(|| wire.data(path)).await {
                    Ok((data, stat)) => return Ok(Attempt::of(claim, &data, &stat)),
                    Err(ClientError::NoNode) => continue,
                    Err(error) => return Err(session.remote().explain("read", path, error)),
                },
                Err(ClientError::NodeExists) => {
                    // A definite refusal: there is nothing of ours to look for.
                    claim.disarm();
                    return Ok(Attempt::Taken);
                }
                Err(ClientError::NoNode) => match node::parent(path) {
                    Some(parent) => match wire.create_parents(parent).await {
                        Ok(()) => continue,
                        Err(error) => (parent, error),
                    },
                    None => (path.as_str(), ClientError::NoNode),
                },
                Err(ClientError::ConnectionLoss) => {
                    *is_doubtful = true;
                    backoff.pause().await;
                    continue;
                }
                Err(error) if !is_refusal(&error) => return Err(session.remote().explain("create", path, error)),
                Err(error) => (path.as_str(), error),
            };
            if !*is_doubtful {
                claim.disarm();
            }
            return Err(session.remote().explain("create", path, error));
        }
    }

    /// Watches the holder's node; `None` when it has just gone.
    async fn watch(&self) -> Result<Option<Watch>, Error> {
        let Inner { session, path } = &*self.inner;
        match retry_lost_reply(|| session.wire().watch(path)).await {
            Ok((.., watch)) => Ok(Some(watch)),
            Err(ClientError::NoNode) => Ok(None),
            Err(error) => Err(session.remote().explain("watch", path, error)),
        }
    }
}

impl Attempt {
    fn of(claim: &mut NodeClaim, data: &[u8], stat: &Stat) -> Self {
        if claim.recognise(data, stat) { Self::Ours(FencingToken::new(stat.czxid)) } else { Self::Taken }
    }
}

impl Contender {
    fn granted(self, token: FencingToken, proof: Proof) -> LockGuard {
        LockGuard::new(Hold::of_node(self.claim, token, proof))
    }
}
