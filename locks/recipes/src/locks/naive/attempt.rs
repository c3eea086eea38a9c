//! One attempt to take the naive lock. It carries out the asks of its state machine.

use std::sync::Arc;
use std::time::Duration;

use futures_util::future::BoxFuture;
use parking_lot::Mutex;
use uuid::Uuid;
use zk_recipes_protocol::naive::{Ask, CreateError, Event, Naive, NodeAtPath, Taken};
use zk_recipes_protocol::session_queue::Failure;
use zookeeper_client::{CreateMode, Error as ClientError, Stat};

use crate::acquire::Deadline;
use crate::error::Error;
use crate::guard::LockGuard;
use crate::hold::held::Hold;
use crate::hold::node_claim::NodeClaim;
use crate::node;
use crate::session::Session;
use crate::session::backoff::Backoff;
use crate::session::liveness::proof::Proof;
use crate::session::reaper::{Leftover, until_answered};
use crate::session::remote::{Remote, Removal, is_ours};
use crate::session::replies::{is_refusal, retry_lost_reply};
use crate::session::rooms::Room;
use crate::session::weak_map::WeakMap;
use crate::session::wire::Watch;
use crate::token::FencingToken;

/// An attempt, with everything that it has on the server so far. If it is dropped, the reaper deletes its node.
pub(super) struct Attempt {
    session: Session,
    /// `None` once the hold or the reaper is responsible for the node.
    node: Option<OwnNode>,
    /// How long a `try` waits for answers. `None`: the attempt waits for the grant.
    try_within: Option<Duration>,
    watch: Option<Watch>,
    proof: Option<Proof>,
    backoff: Backoff,
}

/// The node of a contender, if it has one, and how to recognise it.
#[derive(Debug)]
struct OwnNode {
    path: String,
    /// The data that only this contender writes.
    mark: Vec<u8>,
    contender: Naive,
    /// The record of the nodes that the contenders of the session have taken. They share it.
    taken: Arc<Mutex<Taken>>,
    /// The room of the node.
    room: Option<Room>,
}

impl Attempt {
    pub(super) fn new(session: &Session, path: &str, try_within: Option<Duration>) -> Self {
        let node = OwnNode {
            path: path.to_owned(),
            mark: Uuid::new_v4().to_string().into_bytes(),
            contender: Naive::new(try_within.is_some()),
            taken: session.extension::<WeakMap<String, Mutex<Taken>>>().at(path.to_owned(), Mutex::default),
            room: None,
        };
        Self {
            session: session.clone(),
            node: Some(node),
            try_within,
            watch: None,
            proof: None,
            backoff: Backoff::to_repeat(),
        }
    }

    /// Takes the lock. `None` if another contender was in the way, or the deadline came first. Our node is gone then.
    pub(super) async fn take(mut self, deadline: Deadline) -> Result<Option<LockGuard>, Error> {
        match deadline.bound(self.contend()).await {
            Some(Ok(true)) => Ok(Some(self.guard())),
            Some(Ok(false)) => self.withdraw().await.map(|()| None),
            Some(Err(error)) => Err(error),
            None => match self.try_within {
                Some(within) => Err(Error::NoAnswer { within }),
                None => self.withdraw().await.map(|()| None),
            },
        }
    }

    /// Runs until the contender holds, and returns `true`. Returns `false` if another contender was in the way.
    async fn contend(&mut self) -> Result<bool, Error> {
        let (session, path) = (self.session.clone(), self.node().path.clone());
        let bytes = session.room_of(path.len());
        self.node().room = Some(session.room(&path, bytes, self.try_within.is_some()).await?);
        loop {
            let node = self.node();
            if node.contender.outcome().is_some() {
                return Ok(false);
            }
            match node.contender.ask() {
                Ask::Hold => return Ok(true),
                ask => {
                    let event = self.carry_out(ask).await?;
                    self.node().tell(event);
                }
            }
        }
    }

    async fn carry_out(&mut self, ask: Ask) -> Result<Event, Error> {
        let session = self.session.clone();
        let (wire, remote) = (session.wire(), session.remote());
        let OwnNode { path, mark, .. } = self.node();
        let path = path.as_str();
        Ok(match ask {
            Ask::Create => match wire.create(path, mark, CreateMode::Ephemeral).await {
                Ok((_, stat)) => {
                    Event::Created(Ok(NodeAtPath { may_be_own: true, ..self.node().found(remote, &[], &stat) }))
                }
                Err(ClientError::NodeExists) => Event::Created(Err(CreateError::Exists)),
                Err(ClientError::NoNode) => Event::Created(Err(CreateError::NoParent)),
                Err(ClientError::ConnectionLoss) => Event::Created(Err(CreateError::Failed(Failure::ReplyLost))),
                Err(ClientError::Throttled) => Event::Created(Err(CreateError::Failed(Failure::Throttled))),
                Err(error) => {
                    let failure = Failure::Refused { is_certain: is_refusal(&error) };
                    let error = remote.explain("create", path, error);
                    self.node().tell(Event::Created(Err(CreateError::Failed(failure))));
                    return Err(error);
                }
            },
            Ask::CreateParents => {
                let parent = node::parent(path).unwrap_or(path).to_owned();
                if let Err(error) = wire.create_parents(&parent).await {
                    self.node().tell(Event::ParentsCreated(false));
                    return Err(remote.explain("create", &parent, error));
                }
                Event::ParentsCreated(true)
            }
            Ask::Pause => {
                self.backoff.pause().await;
                Event::Paused
            }
            Ask::Read => {
                let read = self.node().read(remote).await;
                Event::Read(read.map_err(|error| remote.explain("read", self.node().path(), error))?)
            }
            Ask::Watch => match retry_lost_reply(|| wire.watch(path)).await {
                Ok((data, stat, watch)) => {
                    self.watch = Some(watch);
                    Event::Watching(Some(self.node().found(remote, &data, &stat)))
                }
                Err(ClientError::NoNode) => Event::Watching(None),
                Err(error) => return Err(remote.explain("watch", path, error)),
            },
            Ask::Wait => {
                if let Some(watch) = self.watch.take() {
                    watch.fired().await;
                }
                Event::Fired
            }
            Ask::Prove => {
                let proof = remote.prove().await;
                self.proof = Some(proof.map_err(|error| remote.explain("write", self.node().path(), error))?);
                Event::Proved
            }
            Ask::ReadLatest | Ask::Delete | Ask::Hold | Ask::End(_) => {
                unreachable!("BUG: {ask:?} is no request of an acquire")
            }
        })
    }

    fn node(&mut self) -> &mut OwnNode {
        self.node.as_mut().unwrap_or_else(|| unreachable!("BUG: an acquire goes on whose node is another's"))
    }

    fn guard(mut self) -> LockGuard {
        let (node, proof) = (self.node.take(), self.proof.take());
        let granted = node.zip(proof).and_then(|(node, proof)| Some((node.contender.czxid()?, node, proof)));
        let (czxid, node, proof) = granted.unwrap_or_else(|| unreachable!("BUG: a grant without a node or a proof"));
        let claim = NodeClaim::new(&self.session, node);
        LockGuard::new(Hold::of_node(claim, FencingToken::new(czxid), proof))
    }

    /// Gives up. When this returns `Ok`, our node is gone.
    async fn withdraw(mut self) -> Result<(), Error> {
        match self.give_up() {
            Some(node) => NodeClaim::new(&self.session, node).withdraw().await,
            None => Ok(()),
        }
    }

    /// Returns the node, if there may be one. The caller must delete it.
    fn give_up(&mut self) -> Option<OwnNode> {
        let mut node = self.node.take()?;
        node.contender.leave();
        node.contender.has_claim().then_some(node)
    }
}

impl Drop for Attempt {
    fn drop(&mut self) {
        if let Some(node) = self.give_up() {
            self.session.abandon(Box::new(node), None);
        }
    }
}

impl OwnNode {
    fn tell(&mut self, event: Event) {
        self.contender.on(event, &mut self.taken.lock());
    }

    async fn read(&self, remote: &Remote) -> Result<Option<NodeAtPath>, ClientError> {
        match retry_lost_reply(|| remote.wire().data(&self.path)).await {
            Ok((data, stat)) => Ok(Some(self.found(remote, &data, &stat))),
            Err(ClientError::NoNode) => Ok(None),
            Err(error) => Err(error),
        }
    }

    fn found(&self, remote: &Remote, data: &[u8], stat: &Stat) -> NodeAtPath {
        let may_be_own = stat.version != 0 || data == self.mark;
        NodeAtPath { czxid: stat.czxid, is_ours: is_ours(stat, remote.session_id()), may_be_own }
    }

    /// Deletes the node, until it is gone or a request fails.
    async fn delete(&mut self, remote: &Remote) -> Result<Removal, ClientError> {
        let mut removal = Removal::NothingThere;
        loop {
            match self.contender.ask() {
                Ask::Delete => {
                    removal = remote.delete(&self.path).await?;
                    self.tell(Event::Deleted);
                }
                Ask::ReadLatest => {
                    retry_lost_reply(|| remote.wire().sync(&self.path)).await?;
                    let found = self.read(remote).await?;
                    self.tell(Event::Read(found));
                }
                _ => return Ok(removal),
            }
        }
    }
}

impl Leftover for OwnNode {
    fn path(&self) -> &str {
        &self.path
    }

    fn lock(&self) -> &str {
        &self.path
    }

    fn remove<'a>(&'a mut self, remote: &'a Remote) -> BoxFuture<'a, Result<Removal, Error>> {
        Box::pin(async {
            self.contender.leave();
            let removed = until_answered(self, remote, |node, remote| Box::pin(node.delete(remote))).await;
            removed.map_err(|error| remote.explain("delete", &self.path, error))
        })
    }
}
