//! One attempt to take the naive lock. It carries out the asks of its state machine.

use std::sync::Arc;
use std::time::Duration;

use futures_util::future::BoxFuture;
use parking_lot::Mutex;
use uuid::Uuid;
use zk_recipes_protocol::naive::{Ask, CreateError, Event, Naive, NaiveState, NodeAtPath, Taken};
use zk_recipes_protocol::session_queue::Failure;
use zookeeper_client::{CreateMode, Error as ClientError, Stat};

use crate::acquire::Deadline;
use crate::error::Error;
use crate::guard::LockGuard;
use crate::hold::{Claim, Grant, Hold};
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

/// An attempt to take the lock.
pub(super) struct NaiveAttempt {
    node: Claim<NaiveNode>,
    watch: Option<Watch>,
    proof: Option<Proof>,
    backoff: Backoff,
}

/// The node of a contender, if it has one, and how to recognise it.
#[derive(Debug)]
struct NaiveNode {
    path: String,
    /// The data that only this contender writes.
    mark: Vec<u8>,
    contender: Naive,
    /// The record of the nodes that the contenders of the session have taken. They share it.
    taken: Arc<Mutex<Taken>>,
    _room: Room,
}

/// Takes the lock. `try_within`: how long a `try` waits for answers. `None` if another contender was in the way, or the deadline came
/// first. Our node is gone then.
pub(super) async fn take(
    session: &Session,
    path: &str,
    try_within: Option<Duration>,
    deadline: Deadline,
) -> Result<Option<LockGuard>, Error> {
    let no_answer = || try_within.map_or(Ok(None), |within| Err(Error::NoAnswer { within }));
    let room = session.room(path, session.room_of(path.len()), try_within.is_some());
    let Some(room) = deadline.bound(room).await else { return no_answer() };
    let mut asks = Vec::new();
    let node = NaiveNode {
        path: path.to_owned(),
        mark: Uuid::new_v4().to_string().into_bytes(),
        contender: Naive::enter(try_within.is_some(), &mut asks),
        taken: session.extension::<WeakMap<String, Mutex<Taken>>>().at(path.to_owned(), Mutex::default),
        _room: room?,
    };
    let backoff = Backoff::to_repeat();
    let mut attempt = NaiveAttempt { node: Claim::new(session, node), watch: None, proof: None, backoff };
    match deadline.bound(attempt.contend(asks)).await {
        Some(Ok(true)) => return Ok(Some(attempt.guard())),
        Some(Err(error)) => return Err(error),
        None if try_within.is_some() => return no_answer(),
        Some(Ok(false)) | None => {}
    }
    attempt.node.withdraw().await.map(|()| None)
}

impl NaiveAttempt {
    /// Runs until the contender holds, and returns `true`. Returns `false` if another contender was in the way.
    async fn contend(&mut self, mut asks: Vec<Ask>) -> Result<bool, Error> {
        while self.node.contender.state() == NaiveState::Contending {
            let ask = asks.pop().expect("BUG: a contender asks for nothing");
            let event = self.carry_out(ask).await?;
            self.node.tell(event, &mut asks);
        }
        Ok(self.node.contender.state() == NaiveState::Holding)
    }

    async fn carry_out(&mut self, ask: Ask) -> Result<Event, Error> {
        let session = self.node.session().clone();
        let wire = session.wire();
        let remote = session.remote();
        let NaiveNode { path, mark, .. } = &*self.node;
        Ok(match ask {
            Ask::Create => match wire.create(path, mark, CreateMode::Ephemeral).await {
                Ok((_, stat)) => {
                    // The reply has no data to compare, and names the node that this `create` made.
                    Event::Created(Ok(NodeAtPath { may_be_own: true, ..self.node.found(remote, &[], &stat) }))
                }
                Err(ClientError::NodeExists) => Event::Created(Err(CreateError::Exists)),
                Err(ClientError::NoNode) => Event::Created(Err(CreateError::NoParent)),
                Err(ClientError::ConnectionLoss) => Event::Created(Err(CreateError::Failed(Failure::ReplyLost))),
                Err(ClientError::Throttled) => Event::Created(Err(CreateError::Failed(Failure::Throttled))),
                Err(error) => {
                    let failure = Failure::Refused { is_certain: is_refusal(&error) };
                    let error = remote.explain("create", path, error);
                    // The state machine must know whether a node may exist. The clean-up of the claim asks it again, so
                    // these asks are dropped.
                    self.node.tell(Event::Created(Err(CreateError::Failed(failure))), &mut Vec::new());
                    return Err(error);
                }
            },
            Ask::CreateParents => {
                let parent = node::parent(path).unwrap_or(path).to_owned();
                if let Err(error) = wire.create_parents(&parent).await {
                    self.node.tell(Event::ParentsCreated(false), &mut Vec::new());
                    return Err(remote.explain("create", &parent, error));
                }
                Event::ParentsCreated(true)
            }
            Ask::Pause => {
                self.backoff.pause().await;
                Event::Paused
            }
            Ask::Read => {
                let read = self.node.read(remote).await;
                Event::Read(read.map_err(|error| remote.explain("read", self.node.path(), error))?)
            }
            Ask::Watch => match retry_lost_reply(|| wire.watch(path)).await {
                Ok((data, stat, watch)) => {
                    self.watch = Some(watch);
                    Event::Watching(Some(self.node.found(remote, &data, &stat)))
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
                self.proof = Some(proof.map_err(|error| remote.explain("write", self.node.path(), error))?);
                Event::Proved
            }
            Ask::ReadLatest | Ask::Delete => unreachable!("BUG: {ask:?} is no request of an acquire"),
        })
    }

    fn guard(self) -> LockGuard {
        let Some((czxid, proof)) = self.node.contender.czxid().zip(self.proof) else {
            unreachable!("BUG: a grant without a node or a proof")
        };
        LockGuard::new(Hold::new(self.node, Grant { czxid, contender: None, proof }))
    }
}

impl NaiveNode {
    fn tell(&mut self, event: Event, asks: &mut Vec<Ask>) {
        self.contender.on(event, &mut self.taken.lock(), asks);
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
        let mut asks = Vec::new();
        self.tell(Event::Leaves, &mut asks);
        while let Some(ask) = asks.pop() {
            let event = if ask == Ask::Delete {
                removal = remote.delete(&self.path).await?;
                Event::Deleted
            } else {
                // A server that lags may not show the node of a `create` without a reply yet.
                retry_lost_reply(|| remote.wire().sync(&self.path)).await?;
                Event::Read(self.read(remote).await?)
            };
            self.tell(event, &mut asks);
        }
        Ok(removal)
    }
}

impl Leftover for NaiveNode {
    fn path(&self) -> &str {
        &self.path
    }

    fn lock(&self) -> &str {
        &self.path
    }

    /// Asks for nothing yet: a deletion that was asked for and not sent counts as one without an answer.
    fn give_up(&mut self) -> bool {
        self.contender.has_claim()
    }

    fn remove<'a>(&'a mut self, remote: &'a Remote, _: bool) -> BoxFuture<'a, Result<Removal, Error>> {
        Box::pin(async {
            let removed = until_answered(self, remote, |node, remote| Box::pin(node.delete(remote))).await;
            removed.map_err(|error| remote.explain("delete", &self.path, error))
        })
    }
}
