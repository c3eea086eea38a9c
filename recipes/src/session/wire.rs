//! The requests of a session, counted, with the client library's surprises evened out.
//!
//! Each is sent when its future is first polled, and so never before whoever cleans up after it has been armed.

use std::future::Future;
use std::sync::Arc;

use tokio::sync::watch;
use zk_recipes_protocol::liveness::Sent;
use zk_recipes_protocol::release_note::Note;
use zk_recipes_protocol::wire_size;
use zookeeper_client::{Acl, Acls, CreateMode, Error as ClientError, EventType, MultiWriteError, OneshotWatcher, Stat};

use crate::node;
use crate::session::acl::{NodePolicy, Parents};
use crate::session::backoff::Backoff;
use crate::session::connect::Line;
use crate::session::liveness_cell::LivenessCell;
use crate::session::task_link::TaskLink;
use crate::session::traffic::Counters;

/// How many requests of one kind are under way at a time where there may be thousands to send: enough to hide the round
/// trips, few enough for a server that others use, too.
pub(crate) const REQUESTS_MAX: usize = 128;

/// Stands for every version in the protocol.
const ANY_VERSION: i32 = -1;

/// The requests of one session, over one connection after the other.
#[derive(Debug)]
pub(crate) struct Wire {
    stage: watch::Sender<Stage>,
    chroot_len: usize,
    counters: Arc<Counters>,
    liveness: Arc<LivenessCell>,
    policy: NodePolicy,
}

/// What becomes of a request.
#[derive(Debug)]
enum Stage {
    /// It is sent.
    Connected(Arc<Line>),
    /// It waits for the next connection.
    Disconnected,
    /// It fails: the session is being closed, or nobody serves it any more.
    Closing,
    /// It fails: the session has ended.
    Ended,
}

/// On what a node is deleted, in one transaction.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Condition<'a> {
    /// That the note can be left, and is.
    Noted(&'a Note),
    /// That the node at this path is there.
    Beside(&'a str),
}

/// Why a node was not deleted by a transaction.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum TransactionError {
    /// The condition was not met, so nothing was done.
    Unmet,
    /// As of a deletion by itself.
    Delete(ClientError),
}

impl From<ClientError> for TransactionError {
    fn from(error: ClientError) -> Self {
        Self::Delete(error)
    }
}

/// A watch that was set; dropping it takes it back. It does not keep the session open.
#[derive(Debug)]
pub(crate) struct Watch {
    task_link: Arc<TaskLink>,
    counters: Arc<Counters>,
    watcher: OneshotWatcher,
    path_len: usize,
}

/// What a server says of a node, as far as the protocol decides by it.
pub(crate) fn seen(stat: &Stat) -> zk_recipes_protocol::stat::Stat {
    zk_recipes_protocol::stat::Stat {
        czxid: stat.czxid,
        pzxid: stat.pzxid,
        version: stat.version,
        num_children: stat.num_children,
    }
}

/// The bytes of an ACL in a request.
fn acl_size(acl: &[Acl]) -> usize {
    acl.iter().map(|entry| wire_size::acl_entry(entry.scheme().len(), entry.id().len())).sum()
}

/// What has ended a watch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fired {
    /// The node has gone.
    Deleted,
    /// Something else: the node has changed, or the session has ended. The caller looks again.
    Otherwise,
}

impl Watch {
    /// Waits until the watched node changes or goes, or the session ends.
    pub(crate) async fn fired(self) -> Fired {
        let Self { task_link, counters, watcher, path_len } = self;
        let event = task_link.receive(watcher.changed()).await.map(|event| event.event_type);
        if event.is_some_and(|event| event != EventType::Session) {
            counters.notified(path_len);
        }
        if event == Some(EventType::NodeDeleted) { Fired::Deleted } else { Fired::Otherwise }
    }
}

impl Wire {
    pub(crate) fn new(line: Line, liveness: Arc<LivenessCell>, policy: NodePolicy) -> Self {
        // The chroot is sent with every path; the client library's root is an empty one.
        let chroot_len = if line.client.path() == "/" { 0 } else { line.client.path().len() };
        let (stage, _) = watch::channel(Stage::Connected(Arc::new(line)));
        Self { stage, chroot_len, counters: Arc::default(), liveness, policy }
    }

    pub(crate) fn counters(&self) -> &Counters {
        &self.counters
    }

    /// Lets requests wait for the next connection.
    pub(crate) fn disconnect(&self) {
        self.step(|stage| matches!(stage, Stage::Connected(_)).then_some(Stage::Disconnected));
    }

    /// Sends requests over this connection from now on. If the session is being closed, this closes it.
    pub(crate) fn connect(&self, line: Line) {
        let mut line = Some(Arc::new(line));
        self.step(|stage| matches!(stage, Stage::Disconnected).then(|| line.take().map(Stage::Connected)).flatten());
    }

    /// Begins to close the session. It closes once requests under way have been answered or dropped.
    pub(crate) fn close(&self) {
        self.stop();
    }

    /// Fails requests from now on.
    pub(crate) fn stop(&self) {
        self.step(|stage| (!matches!(stage, Stage::Ended)).then_some(Stage::Closing));
    }

    /// Notes that the session has ended.
    pub(crate) fn end(&self) {
        self.step(|_| Some(Stage::Ended));
    }

    /// Waits until the session has ended.
    pub(crate) async fn ended(&self) {
        let ended = self.stage.subscribe().wait_for(|stage| matches!(stage, Stage::Ended)).await.map(drop);
        ended.expect("BUG: a wire that is in use was dropped");
    }

    /// Goes to the next stage, if there is one, and drops the last where nothing is locked.
    fn step(&self, next: impl FnOnce(&Stage) -> Option<Stage>) {
        let mut last = None;
        self.stage.send_if_modified(|stage| {
            last = next(stage).map(|next| std::mem::replace(stage, next));
            last.is_some()
        });
        drop(last);
    }

    /// The connection, once there is one. Requests that must be sent in order are sent over one line: another request may
    /// overtake one that waits for a connection.
    pub(crate) async fn line(&self) -> Result<Arc<Line>, ClientError> {
        if let Some(line) = self.stage.borrow().line() {
            return line;
        }
        let mut stages = self.stage.subscribe();
        let stage = stages.wait_for(|stage| stage.line().is_some()).await;
        let line = stage.ok().and_then(|stage| stage.line());
        line.unwrap_or(Err(ClientError::ClientClosed))
    }

    /// How many bytes of a request a path has, with the chroot.
    pub(crate) fn path_len(&self, path: &str) -> usize {
        self.chroot_len + path.len()
    }

    /// Creates a node and returns its path, with the sequence number if the mode appends one, and its stat.
    pub(crate) async fn create(
        &self,
        path: &str,
        data: &[u8],
        mode: CreateMode,
    ) -> Result<(String, Stat), ClientError> {
        let (line, sent) = self.line_now().await?;
        let acl = self.policy.acl(path).entries();
        self.counters.sent(wire_size::create(self.path_len(path), data.len(), acl_size(acl)));
        let options = mode.with_acls(Acls::new(acl));
        let created = line.answer(line.client.create(path, data, &options).await);
        let created = created.map(|(stat, sequence)| match mode {
            CreateMode::EphemeralSequential => (format!("{path}{sequence}"), stat),
            _ => (path.to_owned(), stat),
        });
        self.replied(sent, &created, |(path, _)| wire_size::created(self.path_len(path)));
        created
    }

    pub(crate) async fn delete(&self, path: &str) -> Result<(), ClientError> {
        let (line, sent) = self.line_now().await?;
        self.counters.sent(wire_size::delete(self.path_len(path)));
        let deleted = line.answer(line.client.delete(path, None).await);
        self.replied(sent, &deleted, |()| 0);
        deleted
    }

    /// Deletes a node on a condition.
    pub(crate) async fn delete_with(&self, path: &str, condition: Condition<'_>) -> Result<(), TransactionError> {
        let (line, sent) = self.line_now().await?;
        let mut transaction = line.client.new_multi_writer();
        transaction.add_delete(path, None)?;
        let (condition_len, reply_len) = match condition {
            Condition::Noted(note) => {
                let (parent, data) = (node::parent(path).unwrap_or("/"), note.data());
                transaction.add_set_data(parent, &data, Some(note.version))?;
                (wire_size::set_data(self.path_len(parent), data.len()), wire_size::STAT)
            }
            Condition::Beside(path) => {
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
        let done = line.answer(done);
        self.replied(sent, &done, |()| wire_size::transaction(0, reply_len));
        let is_deletion = refused.is_none_or(|index| index == 0);
        done.map_err(|error| if is_deletion { TransactionError::Delete(error) } else { TransactionError::Unmet })
    }

    /// The stat of a node, `None` of one that is missing.
    pub(crate) async fn stat(&self, path: &str) -> Result<Option<Stat>, ClientError> {
        self.stat_over(&*self.line().await?, path).await
    }

    /// As [`stat`](Self::stat), over this connection.
    pub(crate) async fn stat_over(&self, line: &Line, path: &str) -> Result<Option<Stat>, ClientError> {
        self.counters.sent(wire_size::read(self.path_len(path)));
        let stat = line.answer(line.client.check_stat(path).await);
        self.was_answered(&stat, |stat| stat.map_or(0, |_| wire_size::STAT));
        stat
    }

    /// The paths of the ephemeral nodes of this session that begin with `path`.
    pub(crate) async fn ephemerals(&self, path: &str) -> Result<Vec<String>, ClientError> {
        let line = self.line().await?;
        self.counters.sent(wire_size::string(self.path_len(path)));
        let paths = line.answer(line.client.list_ephemerals(path).await);
        self.was_answered(&paths, |paths| wire_size::children(paths) + paths.len() * self.chroot_len);
        paths
    }

    /// Lists the children of a node, with its stat.
    pub(crate) async fn children_and_stat(&self, path: &str) -> Result<(Vec<String>, Stat), ClientError> {
        let line = self.line().await?;
        self.counters.sent(wire_size::read(self.path_len(path)));
        let children = line.answer(line.client.get_children(path).await);
        self.was_answered(&children, |(names, _)| wire_size::children(names) + wire_size::STAT);
        children
    }

    pub(crate) async fn children(&self, path: &str) -> Result<Vec<String>, ClientError> {
        let line = self.line().await?;
        self.counters.sent(wire_size::read(self.path_len(path)));
        let children = line.answer(line.client.list_children(path).await);
        self.was_answered(&children, |names| wire_size::children(names));
        children
    }

    /// The data of a node, with its stat.
    pub(crate) async fn data(&self, path: &str) -> Result<(Vec<u8>, Stat), ClientError> {
        self.data_over(&*self.line().await?, path).await
    }

    /// As [`data`](Self::data), over this connection.
    pub(crate) async fn data_over(&self, line: &Line, path: &str) -> Result<(Vec<u8>, Stat), ClientError> {
        self.counters.sent(wire_size::read(self.path_len(path)));
        let data = line.answer(line.client.get_data(path).await);
        self.was_answered(&data, |(data, _)| wire_size::data(data.len()));
        data
    }

    /// Reads a node and watches it. By `getData`, as a watch that `exists` sets on a missing node would stay behind.
    pub(crate) async fn watch(&self, path: &str) -> Result<(Vec<u8>, Stat, Watch), ClientError> {
        let line = self.line().await?;
        self.counters.sent(wire_size::read(self.path_len(path)));
        let watched = line.answer(line.client.get_and_watch_data(path).await);
        self.was_answered(&watched, |(data, ..)| wire_size::data(data.len()));
        let (data, stat, watcher) = watched?;
        Ok((data, stat, self.watch_of(&line, watcher, path)))
    }

    /// Lists the children of a node and watches for one to come or go.
    pub(crate) async fn watch_children(&self, path: &str) -> Result<(Vec<String>, Watch), ClientError> {
        let line = self.line().await?;
        self.counters.sent(wire_size::read(self.path_len(path)));
        let watched = line.answer(line.client.list_and_watch_children(path).await);
        self.was_answered(&watched, |(names, _)| wire_size::children(names));
        let (names, watcher) = watched?;
        Ok((names, self.watch_of(&line, watcher, path)))
    }

    fn watch_of(&self, line: &Line, watcher: OneshotWatcher, path: &str) -> Watch {
        let (task_link, counters) = (Arc::clone(&line.task_link), Arc::clone(&self.counters));
        Watch { task_link, counters, watcher, path_len: self.path_len(path) }
    }

    /// Sets the data of a node, if it still has that `version`.
    pub(crate) async fn set_data(&self, path: &str, data: &[u8], version: Option<i32>) -> Result<Stat, ClientError> {
        let (line, sent) = self.line_now().await?;
        self.counters.sent(wire_size::set_data(self.path_len(path), data.len()));
        let set = line.answer(line.client.set_data(path, data, version).await);
        self.replied(sent, &set, |_| wire_size::STAT);
        set
    }

    /// Lets the server that we talk to catch up with the leader, so that the next read sees our earlier writes.
    pub(crate) async fn sync(&self, path: &str) -> Result<(), ClientError> {
        let line = self.line().await?;
        self.counters.sent(wire_size::string(self.path_len(path)));
        let synced = line.answer(line.client.sync(path).await);
        self.was_answered(&synced, |()| wire_size::string(self.path_len(path)));
        synced
    }

    /// Creates a node and its missing ancestors as [`Parents`] of locks. Those that exist are left as they are.
    pub(crate) async fn create_parents(&self, path: &str) -> Result<(), ClientError> {
        let mode = match self.policy.parents {
            Parents::Container => CreateMode::Container,
            Parents::Persistent => CreateMode::Persistent,
        };
        let mut missing = vec![path];
        let mut backoff = Backoff::after_lost_reply();
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
                // The reply was lost; asking again is harmless.
                Err(ClientError::ConnectionLoss) => backoff.pause().await,
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// Has a quorum commit a request that changes nothing, which proves that the session lives. Like the pings of the client
    /// library it is not counted.
    pub(crate) async fn prove(&self) -> Result<(), ClientError> {
        let line = self.line().await?;
        prove(&line, &self.liveness).await
    }

    /// Sends a read, so that the server hears of the session. Like the pings of the client library it is not counted.
    pub(crate) async fn speak(&self) -> Result<(), ClientError> {
        let (line, sent) = self.line_now().await?;
        line.answer(line.client.check_stat("/").await)?;
        self.liveness.answered(sent);
        Ok(())
    }

    /// The connection, over which a message is sent at once.
    async fn line_now(&self) -> Result<(Arc<Line>, Sent), ClientError> {
        let line = self.line().await?;
        Ok((line, self.liveness.sending()))
    }

    /// Notes the reply to a write. One that succeeded was committed by a quorum.
    fn replied<T>(&self, sent: Sent, reply: &Result<T, ClientError>, record_len: impl FnOnce(&T) -> usize) {
        self.was_answered(reply, record_len);
        if reply.is_ok() {
            self.liveness.proved(sent);
        }
    }

    /// Counts a reply, if it came.
    fn was_answered<T>(&self, reply: &Result<T, ClientError>, record_len: impl FnOnce(&T) -> usize) {
        match reply {
            Ok(value) => self.counters.received(record_len(value)),
            // These errors are the server's word; any other may mean that no reply came.
            Err(ClientError::NoNode | ClientError::NodeExists | ClientError::NotEmpty | ClientError::BadVersion) => {
                self.counters.received(0)
            }
            Err(_) => {}
        }
    }
}

impl Stage {
    /// The connection for a request, or why it fails; `None` while it waits.
    fn line(&self) -> Option<Result<Arc<Line>, ClientError>> {
        match self {
            Self::Connected(line) => Some(Ok(Arc::clone(line))),
            Self::Disconnected => None,
            Self::Closing | Self::Ended => Some(Err(ClientError::ClientClosed)),
        }
    }
}

impl Line {
    /// Lets the server catch up with what was committed before.
    pub(crate) async fn catch_up(&self) -> Result<(), ClientError> {
        self.answer(self.client.sync("/").await)
    }

    /// Evens out how the client library reports that no reply came.
    fn answer<T>(&self, reply: Result<T, ClientError>) -> Result<T, ClientError> {
        reply.map_err(|error| even_out(error, self.task_link.has_parted()))
    }
}

/// Has a quorum commit a request that changes nothing. As a transaction of one check it is committed whether that succeeds
/// or not, but one that was refused because the session has ended proves nothing.
pub(crate) async fn prove(line: &Line, liveness: &LivenessCell) -> Result<(), ClientError> {
    let sent = liveness.sending();
    let mut transaction = line.client.new_multi_writer();
    transaction.add_check_version("/", ANY_VERSION)?;
    match refusal(transaction.commit().await) {
        Some(source) => line.answer(Err(source)),
        None => {
            liveness.proved(sent);
            Ok(())
        }
    }
}

/// Why a transaction of one check is no proof; `None` if it is one.
fn refusal<T>(committed: Result<T, MultiWriteError>) -> Option<ClientError> {
    match committed {
        Ok(_) => None,
        Err(MultiWriteError::RequestFailed { source }) => Some(source),
        Err(MultiWriteError::OperationFailed { source, .. }) => {
            matches!(source, ClientError::SessionExpired | ClientError::SessionMoved).then_some(source)
        }
    }
}

/// The client library reports a connection that broke before the reply came as the error of the socket, as a message
/// about the silence, or as a loss, depending on which noticed it first. Whether the request was applied is unknown in
/// every case. That its `Custom` errors mean nothing else is an assumption, taken from its source: version 0.11 makes
/// them only where reading or writing the socket fails, where a server is silent, and while it connects.
///
/// If the task that serves the connection has `parted`, nobody takes requests or answers them, which the library finds
/// unexpected.
///
/// `SessionMoved` says that another server has the session by now, because it has answered an earlier handshake late. The
/// request was not applied, the server closes the connection, and the session lives.
fn even_out(error: ClientError, has_parted: bool) -> ClientError {
    use ClientError::{ConnectionLoss, Custom, SessionMoved, Timeout, UnexpectedError};
    match error {
        UnexpectedError(_) if has_parted => ConnectionLoss,
        Custom(_) | Timeout | SessionMoved => ConnectionLoss,
        error => error,
    }
}

/// Whether the answer to a `create` says for certain that it has made no node.
pub(crate) fn is_refusal(error: &ClientError) -> bool {
    matches!(
        error,
        ClientError::NoNode
            | ClientError::NodeExists
            | ClientError::NoAuth
            | ClientError::InvalidAcl
            | ClientError::BadArguments(_)
            | ClientError::NoChildrenForEphemerals
            | ClientError::QuotaExceeded
            | ClientError::NotReadOnly
            | ClientError::Throttled
            | ClientError::MarshallingError
            | ClientError::Unimplemented
    )
}

/// Repeats a request whose reply was lost until it is answered or the session ends. A request waits for a connection by
/// itself; the pauses are for a connection that breaks again each time.
pub(crate) async fn retry_lost_reply<T, F>(mut request: impl FnMut() -> F) -> Result<T, ClientError>
where
    F: Future<Output = Result<T, ClientError>>,
{
    let mut backoff = Backoff::after_lost_reply();
    loop {
        match request().await {
            Err(ClientError::ConnectionLoss) => backoff.pause().await,
            answered => return answered,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_check_that_failed_is_a_proof_unless_it_failed_because_the_session_has_ended() {
        let failed = |source| Err::<(), _>(MultiWriteError::OperationFailed { index: 0, source });
        assert_eq!(refusal(Ok(())), None);
        assert_eq!(refusal(failed(ClientError::NoAuth)), None);
        assert_eq!(refusal(failed(ClientError::SessionExpired)), Some(ClientError::SessionExpired));
        assert_eq!(refusal(failed(ClientError::SessionMoved)), Some(ClientError::SessionMoved));
    }

    #[test]
    fn unexpected_errors_are_lost_replies_only_if_nobody_serves_the_connection() {
        let unexpected = || ClientError::UnexpectedError("expect error state, got SyncConnected".to_owned());
        assert_eq!(even_out(unexpected(), false), unexpected());
        assert_eq!(even_out(unexpected(), true), ClientError::ConnectionLoss);
        for has_parted in [false, true] {
            for lost in [ClientError::Timeout, ClientError::SessionMoved] {
                assert_eq!(even_out(lost, has_parted), ClientError::ConnectionLoss);
            }
            assert_eq!(even_out(ClientError::NoNode, has_parted), ClientError::NoNode);
        }
    }

    #[test]
    fn only_an_answer_that_rules_out_a_node_is_a_refusal() {
        for refusal in [
            ClientError::NoNode,
            ClientError::NodeExists,
            ClientError::NoAuth,
            ClientError::InvalidAcl,
            ClientError::BadArguments(&"path"),
            ClientError::NoChildrenForEphemerals,
            ClientError::QuotaExceeded,
            ClientError::NotReadOnly,
            ClientError::Throttled,
        ] {
            assert!(is_refusal(&refusal), "{refusal:?}");
        }
        for uncertain in [
            ClientError::ConnectionLoss,
            ClientError::Timeout,
            ClientError::SessionExpired,
            ClientError::SessionMoved,
            ClientError::ClientClosed,
            ClientError::UnexpectedErrorCode(-7),
            ClientError::UnexpectedError("a reply that makes no sense".to_owned()),
        ] {
            assert!(!is_refusal(&uncertain), "{uncertain:?}");
        }
    }
}
