//! What the engine sends for a contender, and how it tells the queue of the answers.

use std::sync::Arc;
use std::time::Duration;

use futures_timer::Delay;
use futures_util::future::{join, try_join, try_join_all};
use zk_recipes_protocol::names::Names;
use zk_recipes_protocol::release_note::ParentState;
use zk_recipes_protocol::session_queue::{
    Condition, ContenderId, Event, Failure, FirstLook, Listed, Made, NewNode, NotCreated, NotDeleted, Pause, Probed,
    Seen, Viewpoint,
};
use zk_recipes_protocol::stat::ParentCzxid;
use zookeeper_client::{CreateMode, Error as ClientError, Stat};

use super::finding;
use super::mark::Mark;
use crate::error::Error;
use crate::node;
use crate::session::proof::Proof;
use crate::session::remote::Remote;
use crate::session::replies::{is_refusal, retry_lost_reply};
use crate::session::wire::{self, TransactionError, Watch};

/// What came back.
pub(super) enum Answer {
    Event(Event),
    /// The server has refused the request.
    Refused(Event, Error),
    /// The event, and the watch that was set.
    Watching(Event, Watch),
    /// The watch of the lock's node that was set; `None` if it could not be set.
    WatchingParent(Names, Option<(ParentCzxid, Watch)>),
    Proved(Proof),
    /// The session has ended. Nothing is told to the queue, whose nodes the servers delete.
    SessionEnded,
}

/// The requests of one contender, each sent when it is polled first.
pub(super) struct Requests {
    remote: Remote,
    parent: String,
}

/// Tells of the end of a pause.
pub(super) async fn pause(id: ContenderId, pause: Pause, length: Duration) -> Answer {
    Delay::new(length).await;
    Answer::Event(Event::Woke(id, pause))
}

impl Requests {
    pub(super) fn new(remote: &Remote, parent: &str) -> Self {
        Self { remote: remote.clone(), parent: parent.to_owned() }
    }

    /// Creates the node, and looks at the queue in the same flight.
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
        // Sent in this order, unless the connection comes back in between.
        let create = self.remote.wire().create(&path, &data, mode);
        let (created, seen) = join(create, self.look(look)).await;
        let made = match created {
            Ok((path, stat)) => self.made(&path, &stat),
            Err(ClientError::NoNode) => return Answer::Event(Event::Created(id, Err(NotCreated::NoParent))),
            Err(error) => {
                return self
                    .failed("create", &path, error, |failure| Event::Created(id, Err(NotCreated::Failed(failure))));
            }
        };
        let seen = match seen {
            None => Seen::Nothing,
            Some(Look::Note(state)) => Seen::Note(state),
            Some(Look::List(children, stat)) => {
                let viewpoint = Viewpoint { own: Some(made.name.clone()), ..viewpoint };
                Seen::Listed(viewpoint.see(&children, &wire::seen(&stat)))
            }
        };
        Answer::Event(Event::Created(id, Ok((made, seen))))
    }

    /// `None` if nothing was looked at, or the answer did not come. Then the contender looks again.
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

    pub(super) async fn find(self, id: ContenderId, mark: Mark) -> Answer {
        let found = finding::find(&self.remote, &self.parent, &mark).await;
        self.answer("list", &self.parent, found, |found| Event::Found(id, found))
    }

    /// Lists the queue. A contender that is in the queue may be about to be granted, which needs a proof that the session lives.
    pub(super) async fn list(self, id: ContenderId, viewpoint: Viewpoint) -> Answer {
        let list = retry_lost_reply(|| self.remote.wire().children_and_stat(&self.parent));
        let listed = if viewpoint.own.is_some() { self.and_freshen(list).await } else { list.await };
        let listed = match listed {
            Err(ClientError::NoNode) => Ok(None),
            listed => listed.map(|(children, stat)| Some(viewpoint.see(&children, &wire::seen(&stat)))),
        };
        self.answer("list", &self.parent, listed, |listed: Result<Option<Listed>, _>| Event::Listed(id, listed))
    }

    pub(super) async fn read_note(self, id: ContenderId) -> Answer {
        let read = match retry_lost_reply(|| self.remote.wire().data(&self.parent)).await {
            Ok((data, stat)) => Ok(Some(ParentState::new(&data, &wire::seen(&stat)))),
            // It is there as long as the contender's node is.
            Err(ClientError::NoNode) => Ok(None),
            Err(error) => Err(error),
        };
        self.answer("read", &self.parent, read, |read| Event::NoteRead(id, read))
    }

    /// Reads the note of the last holder, and then whether the contender's own node is there.
    ///
    /// Both are asked for over one connection, in this order. If a reply is lost, both are asked for again: a node that was
    /// there before the note was written may have been deleted since.
    pub(super) async fn read_note_beside(self, id: ContenderId, own: Made) -> Answer {
        let (wire, path) = (self.remote.wire(), node::child(&self.parent, &own.name));
        let read = retry_lost_reply(async || {
            let line = wire.line().await?;
            try_join(wire.data_over(&line, &self.parent), wire.stat_over(&line, &path)).await
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

    /// Asks which of these nodes are there, and last whether the contender's own is. Over one connection, in this order; after
    /// a lost reply for all of them again, as the order is what the answers are worth.
    pub(super) async fn probe(self, id: ContenderId, names: Vec<String>, own: Made) -> Answer {
        let wire = self.remote.wire();
        let paths: Vec<String> = names.iter().chain([&own.name]).map(|name| node::child(&self.parent, name)).collect();
        let stats = retry_lost_reply(async || {
            let line = wire.line().await?;
            try_join_all(paths.iter().map(|path| wire.stat_over(&line, path))).await
        });
        let probed = self.and_freshen(stats).await.map(|mut stats| {
            // Where the numbers have begun anew, a name that is nothing but a number may be another's.
            let is_own_present = stats.pop().flatten().is_some_and(|found| found.czxid == own.czxid);
            Probed { present: stats.iter().map(Option::is_some).collect(), is_own_present }
        });
        self.answer("read", &self.parent, probed, |probed| Event::Probed(id, probed))
    }

    pub(super) async fn watch(self, id: ContenderId, name: String) -> Answer {
        let path = node::child(&self.parent, &name);
        match retry_lost_reply(|| self.remote.wire().watch(&path)).await {
            Ok((_, stat, watch)) => Answer::Watching(Event::WatchSet(id, Ok(Some(stat.czxid))), watch),
            Err(ClientError::NoNode) => Answer::Event(Event::WatchSet(id, Ok(None))),
            Err(error) => self.failed("watch", &path, error, |failure| Event::WatchSet(id, Err(failure))),
        }
    }

    pub(super) async fn watch_parent(self, names: Names) -> Answer {
        // It only spares requests, so an error does not matter.
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
        let (wire, path) = (self.remote.wire(), node::child(&self.parent, &name));
        let stat = async {
            retry_lost_reply(|| wire.sync(&path)).await?;
            retry_lost_reply(|| wire.stat(&path)).await
        };
        let czxid = stat.await.map(|stat| stat.map(|stat| stat.czxid));
        self.answer("read", &path, czxid, |czxid| Event::Identified(id, czxid))
    }

    pub(super) async fn delete(self, id: ContenderId, name: String, condition: Condition) -> Answer {
        let (wire, path) = (self.remote.wire(), node::child(&self.parent, &name));
        let deleted = match condition {
            Condition::None => wire.delete(&path).await.map_err(TransactionError::Delete),
            Condition::Noted(note) => wire.delete_with(&path, wire::Condition::Noted(&note)).await,
            Condition::Beside(other) => {
                let other = node::child(&self.parent, &other);
                wire.delete_with(&path, wire::Condition::Beside(&other)).await
            }
        };
        let answered = |deleted| Answer::Event(Event::Deleted(id, deleted));
        match deleted {
            Ok(()) => answered(Ok(())),
            Err(TransactionError::Unmet) => answered(Err(NotDeleted::Unmet)),
            Err(TransactionError::Delete(ClientError::NoNode)) => answered(Err(NotDeleted::NoNode)),
            Err(TransactionError::Delete(error)) => {
                self.failed("delete", &path, error, |failure| Event::Deleted(id, Err(NotDeleted::Failed(failure))))
            }
        }
    }

    /// A read, and in the same flight a request that proves that the session lives, if the last proof is old.
    async fn and_freshen<T>(&self, read: impl Future<Output = T>) -> T {
        join(read, self.remote.freshen()).await.0
    }

    fn made(&self, path: &str, stat: &Stat) -> Made {
        finding::made(&self.remote, path, stat)
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
        if error == ClientError::ConnectionLoss {
            return Answer::Event(event(Failure::ReplyLost));
        }
        let is_certain = is_refusal(&error);
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
