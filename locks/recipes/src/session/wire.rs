//! The requests of a session. They are counted, and every lost reply is reported as `ConnectionLoss`.
//!
//! A request is never sent before its future is polled. So the caller can arm the clean-up first.

use std::sync::Arc;

use zk_recipes_protocol::liveness::Sent;
use zk_recipes_protocol::release_note::Note;
use zk_recipes_protocol::wire_size;
use zookeeper_client::{Acl, Acls, CreateMode, Error as ClientError, EventType, MultiWriteError, OneshotWatcher, Stat};

use crate::node;
use crate::session::acl::{NodePolicy, Parents};
use crate::session::backoff::Backoff;
use crate::session::connection::established::{ANY_VERSION, Connection};
use crate::session::connection::session_phase::SessionPhases;
use crate::session::connection::task_link::TaskLink;
use crate::session::connection::watched::WatchKind;
use crate::session::liveness::liveness_cell::LivenessCell;
use crate::session::replies::is_refusal;
use crate::session::traffic::Counters;

/// Upper bound of the requests of one kind that are under way at a time, if there may be thousands of them. 128 are enough to hide
/// the round trips, and few enough for a server with other clients.
pub(crate) const REQUESTS_MAX: usize = 128;

/// The requests of one session, over one connection after another.
#[derive(Debug)]
pub(crate) struct Wire {
    phases: SessionPhases,
    chroot_len: usize,
    counters: Arc<Counters>,
    liveness: Arc<LivenessCell>,
    policy: NodePolicy,
}

/// The condition of a deletion. Its check and the deletion are one transaction.
#[derive(Clone, Copy, Debug)]
pub(crate) enum WireCondition<'a> {
    /// The note can be written to the parent. The transaction writes it.
    Noted(&'a Note),
    /// The node at this path exists.
    Beside(&'a str),
}

/// The reason why a transaction did not delete a node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum TransactionError {
    /// The condition was not met. The transaction changed nothing.
    Unmet,
    /// The server refused the condition for another reason, for example because of an ACL. The transaction changed nothing.
    Refused(ClientError),
    /// The deletion failed, or the whole request did.
    Delete(ClientError),
}

impl From<ClientError> for TransactionError {
    fn from(error: ClientError) -> Self {
        Self::Delete(error)
    }
}

/// A watch on a server. If it is dropped, the client library removes it. It does not keep the session open.
#[derive(Debug)]
pub(crate) struct Watch {
    task_link: Arc<TaskLink>,
    counters: Arc<Counters>,
    watcher: OneshotWatcher,
    path_len: usize,
    /// Behind the watcher, because fields are dropped in order.
    kind: Arc<WatchKind>,
}

/// Returns the part of a node's stat that the protocol uses.
pub(crate) fn seen(stat: &Stat) -> zk_recipes_protocol::stat::Stat {
    zk_recipes_protocol::stat::Stat {
        czxid: stat.czxid,
        pzxid: stat.pzxid,
        version: stat.version,
        num_children: stat.num_children,
    }
}

/// Returns the bytes of an ACL in a request.
fn acl_size(acl: &[Acl]) -> usize {
    acl.iter().map(|entry| wire_size::acl_entry(entry.scheme().len(), entry.id().len())).sum()
}

/// The event that ended a watch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fired {
    /// The node was deleted.
    Deleted,
    /// Something else: the node has changed, or the connection has ended. The caller looks again.
    Otherwise,
}

impl Watch {
    /// Waits until the watched node changes or is deleted, or the connection ends.
    pub(crate) async fn fired(self) -> Fired {
        let Self { task_link, counters, watcher, path_len, kind: _kind } = self;
        let event = task_link.receive(watcher.changed()).await.map(|event| event.event_type);
        if event.is_some_and(|event| event != EventType::Session) {
            counters.notified(path_len);
        }
        if event == Some(EventType::NodeDeleted) { Fired::Deleted } else { Fired::Otherwise }
    }
}

impl Wire {
    pub(crate) fn new(connection: Connection, liveness: Arc<LivenessCell>, policy: NodePolicy) -> Self {
        // The chroot is sent with every path. Without a chroot, the client library reports `/`, but sends nothing for it.
        let chroot_len = if connection.client.path() == "/" { 0 } else { connection.client.path().len() };
        let phases = SessionPhases::new(Arc::new(connection));
        Self { phases, chroot_len, counters: Arc::default(), liveness, policy }
    }

    pub(crate) fn phases(&self) -> &SessionPhases {
        &self.phases
    }

    /// Waits for the connection: see [`SessionPhases::connection`].
    pub(crate) async fn connection(&self) -> Result<Arc<Connection>, ClientError> {
        self.phases.connection().await
    }

    pub(crate) fn counters(&self) -> &Counters {
        &self.counters
    }

    /// Returns the length of the chroot.
    pub(crate) fn chroot_len(&self) -> usize {
        self.chroot_len
    }

    /// Returns the bytes of a path in a request, with the chroot.
    pub(crate) fn path_len(&self, path: &str) -> usize {
        self.chroot_len + path.len()
    }

    /// Creates a node. Returns its path, with the sequence number if the mode appends one, and its stat.
    pub(crate) async fn create(
        &self,
        path: &str,
        data: &[u8],
        mode: CreateMode,
    ) -> Result<(String, Stat), ClientError> {
        let (connection, sent) = self.connection_now().await?;
        let acl = self.policy.acl(path).entries();
        self.counters.sent(wire_size::create(self.path_len(path), data.len(), acl_size(acl)));
        let options = mode.with_acls(Acls::new(acl));
        let created = connection.reply(connection.client.create(path, data, &options).await);
        let created = created.map(|(stat, sequence)| match mode {
            CreateMode::EphemeralSequential => (format!("{path}{sequence}"), stat),
            _ => (path.to_owned(), stat),
        });
        self.replied(sent, &created, |(path, _)| wire_size::created(self.path_len(path)));
        created
    }

    pub(crate) async fn delete(&self, path: &str) -> Result<(), ClientError> {
        let (connection, sent) = self.connection_now().await?;
        self.counters.sent(wire_size::delete(self.path_len(path)));
        let deleted = connection.reply(connection.client.delete(path, None).await);
        self.replied(sent, &deleted, |()| 0);
        deleted
    }

    /// Deletes a node on a condition.
    pub(crate) async fn delete_with(&self, path: &str, condition: WireCondition<'_>) -> Result<(), TransactionError> {
        let (connection, sent) = self.connection_now().await?;
        let mut transaction = connection.client.new_multi_writer();
        transaction.add_delete(path, None)?;
        let (condition_len, reply_len) = match condition {
            WireCondition::Noted(note) => {
                let parent = node::parent(path).unwrap_or("/");
                let data = note.data();
                transaction.add_set_data(parent, &data, Some(note.version))?;
                (wire_size::set_data(self.path_len(parent), data.len()), wire_size::STAT)
            }
            WireCondition::Beside(path) => {
                transaction.add_check_version(path, ANY_VERSION)?;
                (wire_size::check(self.path_len(path)), 0)
            }
        };
        let deletion_len = wire_size::delete(self.path_len(path));
        self.counters.sent(wire_size::transaction(deletion_len, condition_len));
        let (done, refused) = match transaction.commit().await {
            Ok(_) => (Ok(()), None),
            Err(MultiWriteError::OperationFailed { index, source }) => (Err(source), Some(index)),
            Err(MultiWriteError::RequestFailed { source }) => (Err(source), None),
        };
        let done = connection.reply(done);
        self.replied(sent, &done, |()| wire_size::transaction(0, reply_len));
        let is_condition = refused.is_some_and(|index| index > 0);
        done.map_err(|error| match error {
            ClientError::NoNode | ClientError::BadVersion if is_condition => TransactionError::Unmet,
            error if is_condition && is_refusal(&error) => TransactionError::Refused(error),
            error => TransactionError::Delete(error),
        })
    }

    /// Returns the stat of a node. `None` if the node is missing.
    pub(crate) async fn stat(&self, path: &str) -> Result<Option<Stat>, ClientError> {
        self.stat_over(&*self.connection().await?, path).await
    }

    /// Does the same as [`stat`](Self::stat), over this connection.
    pub(crate) async fn stat_over(&self, connection: &Connection, path: &str) -> Result<Option<Stat>, ClientError> {
        self.counters.sent(wire_size::read(self.path_len(path)));
        let stat = connection.reply(connection.client.check_stat(path).await);
        self.was_answered(&stat, |stat| stat.map_or(0, |_| wire_size::STAT));
        stat
    }

    /// Returns the paths of this session's ephemeral nodes that begin with `path`.
    pub(crate) async fn ephemerals(&self, path: &str) -> Result<Vec<String>, ClientError> {
        let connection = self.connection().await?;
        self.counters.sent(wire_size::string(self.path_len(path)));
        let paths = connection.reply(connection.client.list_ephemerals(path).await);
        self.was_answered(&paths, |paths| wire_size::children(paths) + paths.len() * self.chroot_len);
        paths
    }

    /// Lists the children of a node. Returns the node's stat, too.
    pub(crate) async fn children_and_stat(&self, path: &str) -> Result<(Vec<String>, Stat), ClientError> {
        let connection = self.connection().await?;
        self.counters.sent(wire_size::read(self.path_len(path)));
        let children = connection.reply(connection.client.get_children(path).await);
        self.was_answered(&children, |(names, _)| wire_size::children(names) + wire_size::STAT);
        children
    }

    pub(crate) async fn children(&self, path: &str) -> Result<Vec<String>, ClientError> {
        let connection = self.connection().await?;
        self.counters.sent(wire_size::read(self.path_len(path)));
        let children = connection.reply(connection.client.list_children(path).await);
        self.was_answered(&children, |names| wire_size::children(names));
        children
    }

    /// Returns the data of a node and its stat.
    pub(crate) async fn data(&self, path: &str) -> Result<(Vec<u8>, Stat), ClientError> {
        self.data_over(&*self.connection().await?, path).await
    }

    /// Does the same as [`data`](Self::data), over this connection.
    pub(crate) async fn data_over(&self, connection: &Connection, path: &str) -> Result<(Vec<u8>, Stat), ClientError> {
        self.counters.sent(wire_size::read(self.path_len(path)));
        let data = connection.reply(connection.client.get_data(path).await);
        self.was_answered(&data, |(data, _)| wire_size::data(data.len()));
        data
    }

    /// Reads a node and watches it. Uses `getData`, because `exists` would leave a watch on a missing node. Fails if the session
    /// watches the children of the node: see [`watched`](crate::session::connection::watched).
    pub(crate) async fn watch(&self, path: &str) -> Result<(Vec<u8>, Stat, Watch), ClientError> {
        let connection = self.connection().await?;
        let asking = connection.watched.ask(path, WatchKind::Node)?;
        self.counters.sent(wire_size::read(self.path_len(path)));
        let watched = connection.reply(connection.client.get_and_watch_data(path).await);
        let kind = asking.answered();
        self.was_answered(&watched, |(data, ..)| wire_size::data(data.len()));
        let (data, stat, watcher) = watched?;
        Ok((data, stat, self.watch_of(&connection, watcher, path, kind)))
    }

    /// Lists the children of a node, and watches for a child that is created or deleted. Fails if the session watches the node
    /// itself: see [`watched`](crate::session::connection::watched).
    pub(crate) async fn watch_children(&self, path: &str) -> Result<(Vec<String>, Watch), ClientError> {
        let connection = self.connection().await?;
        let asking = connection.watched.ask(path, WatchKind::Children)?;
        self.counters.sent(wire_size::read(self.path_len(path)));
        let watched = connection.reply(connection.client.list_and_watch_children(path).await);
        let kind = asking.answered();
        self.was_answered(&watched, |(names, _)| wire_size::children(names));
        let (names, watcher) = watched?;
        Ok((names, self.watch_of(&connection, watcher, path, kind)))
    }

    fn watch_of(&self, connection: &Connection, watcher: OneshotWatcher, path: &str, kind: Arc<WatchKind>) -> Watch {
        let task_link = Arc::clone(&connection.task_link);
        let counters = Arc::clone(&self.counters);
        Watch { task_link, counters, watcher, path_len: self.path_len(path), kind }
    }

    /// Sets the data of a node. If a `version` is given, the node must still have it.
    pub(crate) async fn set_data(&self, path: &str, data: &[u8], version: Option<i32>) -> Result<Stat, ClientError> {
        let (connection, sent) = self.connection_now().await?;
        self.counters.sent(wire_size::set_data(self.path_len(path), data.len()));
        let set = connection.reply(connection.client.set_data(path, data, version).await);
        self.replied(sent, &set, |_| wire_size::STAT);
        set
    }

    /// Asks the leader whether a node exists and has this version. A quorum commits the question, so the answer is not one from the
    /// past, however far our server lags. It also proves that the session lives.
    pub(crate) async fn has_version(&self, path: &str, version: i32) -> Result<bool, ClientError> {
        let connection = self.connection().await?;
        self.counters.sent(wire_size::lone(wire_size::check(self.path_len(path))));
        let checked = connection.check(path, version, &self.liveness).await?;
        self.was_answered(&checked, |()| wire_size::lone(0));
        match checked {
            Ok(()) => Ok(true),
            Err(ClientError::BadVersion | ClientError::NoNode) => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// Lets our server catch up with the leader, so that the next read sees earlier writes.
    pub(crate) async fn sync(&self, path: &str) -> Result<(), ClientError> {
        let connection = self.connection().await?;
        self.counters.sent(wire_size::string(self.path_len(path)));
        let synced = connection.reply(connection.client.sync(path).await);
        self.was_answered(&synced, |()| wire_size::string(self.path_len(path)));
        synced
    }

    /// Creates a node and its missing ancestors as [`Parents`] of locks. Existing nodes stay as they are.
    pub(crate) async fn create_parents(&self, path: &str) -> Result<(), ClientError> {
        let mode = match self.policy.parents {
            Parents::Container => CreateMode::Container,
            Parents::Persistent => CreateMode::Persistent,
        };
        let mut missing = vec![path];
        let mut backoff = Backoff::to_repeat();
        while let Some(&deepest) = missing.last() {
            match self.create(deepest, &[], mode).await {
                Ok(_) | Err(ClientError::NodeExists) => {
                    missing.pop();
                }
                Err(ClientError::NoNode) => match node::parent(deepest) {
                    Some(parent) => missing.push(parent),
                    // The chroot itself is missing.
                    None => return Err(ClientError::NoNode),
                },
                // After a lost reply, to create the node again is harmless.
                Err(ClientError::ConnectionLoss | ClientError::Throttled) => backoff.pause().await,
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// Lets a quorum commit a request that changes nothing. The commit proves that the session lives. The request is not counted,
    /// like the client library's pings.
    pub(crate) async fn prove(&self) -> Result<(), ClientError> {
        self.connection().await?.prove(&self.liveness).await
    }

    /// Sends a read, so that the server hears from the session. The request is not counted, like the client library's pings.
    pub(crate) async fn speak(&self) -> Result<(), ClientError> {
        let (connection, sent) = self.connection_now().await?;
        connection.reply(connection.client.check_stat("/").await)?;
        self.liveness.answered(sent);
        Ok(())
    }

    /// Waits for the connection, and notes that a message is about to be sent.
    async fn connection_now(&self) -> Result<(Arc<Connection>, Sent), ClientError> {
        let connection = self.connection().await?;
        Ok((connection, self.liveness.sending()))
    }

    /// Notes the reply to a write. A quorum has committed a write that succeeded.
    fn replied<T>(&self, sent: Sent, reply: &Result<T, ClientError>, record_len: impl FnOnce(&T) -> usize) {
        self.was_answered(reply, record_len);
        if reply.is_ok() {
            self.liveness.proved(sent);
        }
    }

    /// Counts a reply, if one certainly arrived.
    fn was_answered<T>(&self, reply: &Result<T, ClientError>, record_len: impl FnOnce(&T) -> usize) {
        match reply {
            Ok(value) => self.counters.received(record_len(value)),
            // Only the server reports these errors. Any other error may mean that no reply arrived.
            Err(ClientError::NoNode | ClientError::NodeExists | ClientError::NotEmpty | ClientError::BadVersion) => {
                self.counters.received(0)
            }
            Err(_) => {}
        }
    }
}
