//! The requests of the engine, and the conversion of their answers into events for the queue.

use std::sync::Arc;
use std::time::Duration;

use futures_timer::Delay;
use futures_util::future::{join, try_join};
use zk_recipes_protocol::names::Names;
use zk_recipes_protocol::queue::Queue;
use zk_recipes_protocol::release_note::ParentState;
use zk_recipes_protocol::session_queue::{
    ContenderId, DeleteCondition, Event, Failure, FirstLook, Made, NewNode, NotCreated, NotDeleted, Pause,
    QueueListing, Seen, Viewpoint,
};
use zk_recipes_protocol::stat::ParentCzxid;
use zookeeper_client::{CreateMode, Error as ClientError, Stat};

use super::shared::Reads;
use crate::error::Error;
use crate::node::{self, Mark};
use crate::session::liveness::proof::Proof;
use crate::session::remote::{self, Remote};
use crate::session::replies::{is_refusal, retry_lost_reply, retry_throttled};
use crate::session::wire::{self, TransactionError, Watch};

/// The answer to a request.
pub(super) enum Answer {
    Event(Event),
    /// The server refused the request.
    Refused(Event, Error),
    /// The server refused the condition of a deletion, for another reason than that it was not met.
    Unconditional(Event, Error),
    /// The event, and the watch that was set.
    Watching(Event, Watch),
    /// The watch of the lock's node that was set. `None` if it could not be set.
    WatchingParent(Names, Option<(ParentCzxid, Watch)>),
    Proved(Proof),
    /// The session has ended. The queue gets no event, because the servers delete its nodes.
    SessionEnded,
}

/// The requests of one contender. None is sent before its future is polled.
pub(super) struct Requests {
    remote: Remote,
    parent: String,
}

/// Waits for the length of a pause.
pub(super) async fn pause(id: ContenderId, pause: Pause, length: Duration) -> Answer {
    Delay::new(length).await;
    Answer::Event(Event::Woke(id, pause))
}

impl Requests {
    pub(super) fn new(remote: &Remote, parent: &str) -> Self {
        Self { remote: remote.clone(), parent: parent.to_owned() }
    }

    /// Creates the node, and looks at the queue in the same round trip.
    pub(super) async fn create(
        self,
        id: ContenderId,
        mark: Mark,
        node_data: Arc<[u8]>,
        new_node: NewNode,
        look: FirstLook,
        viewpoint: Viewpoint,
    ) -> Answer {
        let (name, mode) = match new_node {
            NewNode::Numbered => (mark.name().to_owned(), CreateMode::EphemeralSequential),
            NewNode::Beside(number) => (format!("{}{number}", mark.name()), CreateMode::Ephemeral),
        };
        let path = node::child(&self.parent, &name);
        let data = mark.data(&node_data);
        // Both are sent in this order, unless the connection comes back in between.
        let create = self.remote.wire().create(&path, &data, mode);
        let (created, seen) = join(create, self.look(look)).await;
        let made = match created {
            Ok((path, stat)) => self.made(&path, &stat),
            Err(ClientError::NoNode) => return Answer::Event(Event::Created(id, Err(NotCreated::NoParent))),
            // Only the last number is given twice. The name of a protected node is unique all the same.
            Err(ClientError::NodeExists) if mode == CreateMode::EphemeralSequential => {
                return Answer::Event(Event::Created(id, Err(NotCreated::NoNumber)));
            }
            Err(error) => {
                return self
                    .failed("create", &path, error, |failure| Event::Created(id, Err(NotCreated::Failed(failure))));
            }
        };
        let seen = match seen {
            None => Seen::Nothing,
            Some(Look::Note(state)) => Seen::Note(state),
            Some(Look::List(children, stat)) => {
                // The viewpoint was taken before the node had a name.
                let viewpoint = Viewpoint { own: Some(made.name.clone()), ..viewpoint };
                let queue = Queue::from_children(children, viewpoint.names);
                Seen::Listed(viewpoint.see(&queue, &wire::seen(&stat)))
            }
        };
        Answer::Event(Event::Created(id, Ok((made, seen))))
    }

    /// Sends the look. `None` if there is none, or if it failed. After a failure, the contender looks again.
    async fn look(&self, look: FirstLook) -> Option<Look> {
        let wire = self.remote.wire();
        match look {
            FirstLook::None => None,
            FirstLook::List => {
                let (children, stat) = wire.children_and_stat(&self.parent).await.ok()?;
                Some(Look::List(children, stat))
            }
            FirstLook::Note => {
                let (data, stat) = wire.data(&self.parent).await.ok()?;
                Some(Look::Note(ParentState::new(&data, &wire::seen(&stat))))
            }
        }
    }

    pub(super) async fn create_parents(self, id: ContenderId) -> Answer {
        let created = self.remote.wire().create_parents(&self.parent).await;
        self.answer("create", &self.parent, created, |created| Event::ParentsCreated(id, created))
    }

    pub(super) async fn find(self, id: ContenderId, reads: Reads, mark: Mark) -> Answer {
        let found = reads.find(&self.remote, &self.parent, &mark).await;
        self.answer("list", &self.parent, found, |found| Event::Found(id, found))
    }

    /// Lists the queue. If the contender has a node, also asks for a proof that the session lives: a grant may follow, and needs
    /// the proof.
    pub(super) async fn list(self, id: ContenderId, reads: Reads, viewpoint: Viewpoint) -> Answer {
        let list = reads.list(&self.remote, &self.parent, viewpoint.names);
        let listed = if viewpoint.own.is_some() { self.and_freshen(list).await } else { list.await };
        let listed = match listed {
            Err(ClientError::NoNode) => Ok(None),
            listed => listed.map(|listed| Some(viewpoint.see(&listed.queue, &listed.parent))),
        };
        self.answer("list", &self.parent, listed, |listed: Result<Option<QueueListing>, _>| Event::Listed(id, listed))
    }

    pub(super) async fn read_note(self, id: ContenderId) -> Answer {
        let read = match retry_lost_reply(|| self.remote.wire().data(&self.parent)).await {
            Ok((data, stat)) => Ok(Some(ParentState::new(&data, &wire::seen(&stat)))),
            // The lock's node exists as long as the contender's node does, so both are gone.
            Err(ClientError::NoNode) => Ok(None),
            Err(error) => Err(error),
        };
        self.answer("read", &self.parent, read, |read| Event::NoteRead(id, read))
    }

    /// Reads the note of the last holder, then checks whether the contender's own node exists.
    ///
    /// Both reads use one connection, in this order. If a reply is lost, both are repeated: a node that existed before the note was
    /// written may have been deleted since. A busy server may throttle the second of two requests each time, so after that they are
    /// sent one by one.
    pub(super) async fn read_note_beside(self, id: ContenderId, own: Made) -> Answer {
        let wire = self.remote.wire();
        let path = node::child(&self.parent, &own.name);
        let read = retry_lost_reply(async || {
            let connection = wire.connection().await?;
            let note = || wire.data_over(&connection, &self.parent);
            let own = || wire.stat_over(&connection, &path);
            match try_join(note(), own()).await {
                Err(ClientError::Throttled) => Ok((retry_throttled(note).await?, retry_throttled(own).await?)),
                read => read,
            }
        });
        let read = match self.and_freshen(read).await {
            Ok(((data, stat), Some(found))) if found.czxid == own.czxid => {
                Ok(Some(ParentState::new(&data, &wire::seen(&stat))))
            }
            Ok(_) | Err(ClientError::NoNode) => Ok(None),
            Err(error) => Err(error),
        };
        self.answer("read", &self.parent, read, |read| Event::NoteRead(id, read))
    }

    /// Checks whether the contender's own node exists.
    pub(super) async fn check_own(self, id: ContenderId, own: Made) -> Answer {
        let path = node::child(&self.parent, &own.name);
        let stat = retry_lost_reply(|| self.remote.wire().stat(&path));
        // If the lock's node was created again, its numbers start again. A name of only a number may then be another node's.
        let is_present = self.and_freshen(stat).await.map(|found| found.is_some_and(|found| found.czxid == own.czxid));
        self.answer("read", &self.parent, is_present, |is_present| Event::OwnChecked(id, is_present))
    }

    pub(super) async fn watch(self, id: ContenderId, name: String) -> Answer {
        let path = node::child(&self.parent, &name);
        match retry_lost_reply(|| self.remote.wire().watch(&path)).await {
            Ok((_, stat, watch)) => Answer::Watching(Event::WatchSet(id, Ok(Some(stat.czxid))), watch),
            Err(ClientError::NoNode) => Answer::Event(Event::WatchSet(id, Ok(None))),
            Err(error) => self.failed("watch", &path, error, |failure| Event::WatchSet(id, Err(failure))),
        }
    }

    pub(super) async fn watch_parent(self, names: Names, may_be_set: bool) -> Answer {
        if !may_be_set {
            return Answer::WatchingParent(names, None);
        }
        // This watch only saves requests, so an error does not matter.
        let watched = self.remote.wire().watch(&self.parent).await.ok();
        Answer::WatchingParent(names, watched.map(|(_, stat, watch)| (ParentCzxid(stat.czxid), watch)))
    }

    pub(super) async fn prove(self, id: ContenderId) -> Answer {
        match self.remote.prove().await {
            Ok(proof) => Answer::Proved(proof),
            Err(error) => self.failed("write", &self.parent, error, |failure| Event::Proved(id, Err(failure))),
        }
    }

    pub(super) async fn identify(self, id: ContenderId, name: String) -> Answer {
        let wire = self.remote.wire();
        let path = node::child(&self.parent, &name);
        let stat = async {
            retry_lost_reply(|| wire.sync(&path)).await?;
            retry_lost_reply(|| wire.stat(&path)).await
        };
        let czxid = stat.await.map(|stat| stat.map(|stat| stat.czxid));
        self.answer("read", &path, czxid, |czxid| Event::Identified(id, czxid))
    }

    pub(super) async fn delete(self, id: ContenderId, name: String, condition: DeleteCondition) -> Answer {
        let wire = self.remote.wire();
        let path = node::child(&self.parent, &name);
        let (refused, at) = match &condition {
            DeleteCondition::Beside(other) => ("check", node::child(&self.parent, other)),
            DeleteCondition::None | DeleteCondition::Noted(_) => ("set", self.parent.clone()),
        };
        let deleted = match condition {
            DeleteCondition::None => wire.delete(&path).await.map_err(TransactionError::Delete),
            DeleteCondition::Noted(note) => wire.delete_with(&path, wire::WireCondition::Noted(&note)).await,
            DeleteCondition::Beside(other) => {
                let other = node::child(&self.parent, &other);
                wire.delete_with(&path, wire::WireCondition::Beside(&other)).await
            }
        };
        let answered = |deleted| Answer::Event(Event::Deleted(id, deleted));
        match deleted {
            Ok(()) => answered(Ok(())),
            Err(TransactionError::Unmet) => answered(Err(NotDeleted::Unmet)),
            Err(TransactionError::Refused(error)) => {
                let unmet = Event::Deleted(id, Err(NotDeleted::Unmet));
                Answer::Unconditional(unmet, Error::refused(refused, &at, error))
            }
            Err(TransactionError::Delete(ClientError::NoNode)) => answered(Err(NotDeleted::NoNode)),
            Err(TransactionError::Delete(error)) => {
                self.failed("delete", &path, error, |failure| Event::Deleted(id, Err(NotDeleted::Failed(failure))))
            }
        }
    }

    /// Runs a read. If the last proof is too old, also sends a request for a new one in the same round trip.
    async fn and_freshen<T>(&self, read: impl Future<Output = T>) -> T {
        join(read, self.remote.freshen()).await.0
    }

    fn made(&self, path: &str, stat: &Stat) -> Made {
        remote::made(&self.remote, path, stat)
    }

    fn answer<T>(
        &self,
        operation: &'static str,
        path: &str,
        answered: Result<T, ClientError>,
        event: impl FnOnce(Result<T, Failure>) -> Event,
    ) -> Answer {
        match answered {
            Ok(value) => Answer::Event(event(Ok(value))),
            Err(error) => self.failed(operation, path, error, |failure| event(Err(failure))),
        }
    }

    fn failed(
        &self,
        operation: &'static str,
        path: &str,
        error: ClientError,
        event: impl FnOnce(Failure) -> Event,
    ) -> Answer {
        let is_certain = match error {
            ClientError::ConnectionLoss => return Answer::Event(event(Failure::ReplyLost)),
            ClientError::Throttled => return Answer::Event(event(Failure::Throttled)),
            _ => is_refusal(&error),
        };
        match self.remote.explain(operation, path, error) {
            Error::SessionEnded { .. } => Answer::SessionEnded,
            error => Answer::Refused(event(Failure::Refused { is_certain }), error),
        }
    }
}

/// The answer to a first look.
enum Look {
    List(Vec<String>, Stat),
    Note(ParentState),
}
