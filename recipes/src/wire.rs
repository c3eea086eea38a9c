//! The requests of a session, counted, with the client library's surprises evened out.
//!
//! Each is sent when its future is first polled, and so never before whoever cleans up after it has been armed.

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::RwLock;
use zookeeper_client::{
    Acls, Client, CreateMode, Error as ClientError, EventType, MultiWriteError, OneshotWatcher, Stat, StateWatcher,
};

use crate::acl::{NodePolicy, Parents};
use crate::backoff::Backoff;
use crate::liveness::{ConnectionState, LostReason};
use crate::pulse::Pulse;
use crate::released::Note;
use crate::tether::Tether;
use crate::traffic::{self, Counters};

/// Stands for every version in the protocol.
const ANY_VERSION: i32 = -1;

/// One session's client, until it is taken away to close the session.
#[derive(Debug)]
pub(crate) struct Wire {
    client: RwLock<Option<Arc<Client>>>,
    chroot_len: usize,
    counters: Arc<Counters>,
    pulse: Arc<Pulse>,
    tether: Arc<Tether>,
    states: StateWatcher,
    policy: NodePolicy,
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
    tether: Arc<Tether>,
    counters: Arc<Counters>,
    watcher: OneshotWatcher,
    path_len: usize,
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
        let Self { tether, counters, watcher, path_len } = self;
        let event = tether.receive(watcher.changed()).await.map(|event| event.event_type);
        if event.is_some_and(|event| event != EventType::Session) {
            counters.notified(path_len);
        }
        if event == Some(EventType::NodeDeleted) { Fired::Deleted } else { Fired::Otherwise }
    }
}

impl Wire {
    pub(crate) fn new(client: Client, tether: Arc<Tether>, pulse: Arc<Pulse>, policy: NodePolicy) -> Self {
        // The chroot is sent with every path; the client library's root is an empty one.
        let chroot_len = if client.path() == "/" { 0 } else { client.path().len() };
        let (states, client) = (client.state_watcher(), RwLock::new(Some(Arc::new(client))));
        Self { client, chroot_len, counters: Arc::default(), pulse, tether, states, policy }
    }

    pub(crate) fn counters(&self) -> &Counters {
        &self.counters
    }

    /// Takes the client away, unless it has been taken. The session closes once requests under way have been answered
    /// or dropped, which the states returned tell.
    pub(crate) fn close(&self) -> Option<StateWatcher> {
        let client = self.client.write().take();
        client.map(|client| client.state_watcher())
    }

    fn client(&self) -> Result<Arc<Client>, ClientError> {
        self.client.read().clone().ok_or(ClientError::ClientClosed)
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
        let (client, sent) = (self.client()?, self.pulse.now());
        let acl = self.policy.acl(path).entries();
        self.counters.sent(traffic::create_request_len(self.path_len(path), data.len(), acl));
        let options = mode.with_acls(Acls::new(acl));
        let created = self.answer(client.create(path, data, &options).await);
        let created = created.map(|(stat, sequence)| match mode {
            CreateMode::EphemeralSequential => (format!("{path}{sequence}"), stat),
            _ => (path.to_owned(), stat),
        });
        self.replied(sent, &created, |(path, _)| traffic::create_reply_len(self.path_len(path)));
        created
    }

    pub(crate) async fn delete(&self, path: &str) -> Result<(), ClientError> {
        let (client, sent) = (self.client()?, self.pulse.now());
        self.counters.sent(traffic::delete_request_len(self.path_len(path)));
        let deleted = self.answer(client.delete(path, None).await);
        self.replied(sent, &deleted, |()| 0);
        deleted
    }

    /// Deletes a node on a condition.
    pub(crate) async fn delete_with(&self, path: &str, condition: Condition<'_>) -> Result<(), TransactionError> {
        let (client, sent) = (self.client()?, self.pulse.now());
        let mut transaction = client.new_multi_writer();
        transaction.add_delete(path, None)?;
        let (condition_len, reply_len) = match condition {
            Condition::Noted(note) => {
                let data = note.data();
                transaction.add_set_data(&note.noted, &data, Some(note.version))?;
                (traffic::set_data_request_len(self.path_len(&note.noted), data.len()), traffic::STAT)
            }
            Condition::Beside(path) => {
                transaction.add_check_version(path, ANY_VERSION)?;
                (traffic::check_len(self.path_len(path)), 0)
            }
        };
        let deletion_len = traffic::delete_request_len(self.path_len(path));
        self.counters.sent(traffic::transaction_len(deletion_len, condition_len));
        let (done, refused) = match transaction.commit().await {
            Ok(_) => (Ok(()), None),
            Err(MultiWriteError::OperationFailed { index, source }) => (Err(source), Some(index)),
            Err(MultiWriteError::RequestFailed { source }) => (Err(source), None),
        };
        let done = self.answer(done);
        self.replied(sent, &done, |()| traffic::transaction_len(0, reply_len));
        let is_deletion = refused.is_none_or(|index| index == 0);
        done.map_err(|error| if is_deletion { TransactionError::Delete(error) } else { TransactionError::Unmet })
    }

    /// The stat of a node, `None` of one that is missing.
    pub(crate) async fn stat(&self, path: &str) -> Result<Option<Stat>, ClientError> {
        let client = self.client()?;
        self.counters.sent(traffic::read_request_len(self.path_len(path)));
        let stat = self.answer(client.check_stat(path).await);
        self.was_read(&stat, |stat| stat.map_or(0, |_| traffic::STAT)).await?;
        stat
    }

    /// The paths of the ephemeral nodes of this session that begin with `path`.
    pub(crate) async fn ephemerals(&self, path: &str) -> Result<Vec<String>, ClientError> {
        let client = self.client()?;
        self.counters.sent(traffic::string_len(self.path_len(path)));
        let paths = self.answer(client.list_ephemerals(path).await);
        self.was_read(&paths, |paths| traffic::children_reply_len(paths) + paths.len() * self.chroot_len).await?;
        paths
    }

    /// Lists the children of a node, with its stat.
    pub(crate) async fn children_and_stat(&self, path: &str) -> Result<(Vec<String>, Stat), ClientError> {
        let client = self.client()?;
        self.counters.sent(traffic::read_request_len(self.path_len(path)));
        let children = self.answer(client.get_children(path).await);
        self.was_read(&children, |(names, _)| traffic::children_reply_len(names) + traffic::STAT).await?;
        children
    }

    pub(crate) async fn children(&self, path: &str) -> Result<Vec<String>, ClientError> {
        let client = self.client()?;
        self.counters.sent(traffic::read_request_len(self.path_len(path)));
        let children = self.answer(client.list_children(path).await);
        self.was_read(&children, |names| traffic::children_reply_len(names)).await?;
        children
    }

    pub(crate) async fn data(&self, path: &str) -> Result<(Vec<u8>, Stat), ClientError> {
        let client = self.client()?;
        self.counters.sent(traffic::read_request_len(self.path_len(path)));
        let data = self.answer(client.get_data(path).await);
        self.was_read(&data, |(data, _)| traffic::data_reply_len(data.len())).await?;
        data
    }

    /// Reads a node and watches it. By `getData`, as a watch that `exists` sets on a missing node would stay behind.
    pub(crate) async fn watch(&self, path: &str) -> Result<(Vec<u8>, Stat, Watch), ClientError> {
        let client = self.client()?;
        self.counters.sent(traffic::read_request_len(self.path_len(path)));
        let watched = self.answer(client.get_and_watch_data(path).await);
        self.was_read(&watched, |(data, ..)| traffic::data_reply_len(data.len())).await?;
        let (data, stat, watcher) = watched?;
        Ok((data, stat, self.watch_of(watcher, path)))
    }

    /// Lists the children of a node and watches for one to come or go.
    pub(crate) async fn watch_children(&self, path: &str) -> Result<(Vec<String>, Watch), ClientError> {
        let client = self.client()?;
        self.counters.sent(traffic::read_request_len(self.path_len(path)));
        let watched = self.answer(client.list_and_watch_children(path).await);
        self.was_read(&watched, |(names, _)| traffic::children_reply_len(names)).await?;
        let (names, watcher) = watched?;
        Ok((names, self.watch_of(watcher, path)))
    }

    fn watch_of(&self, watcher: OneshotWatcher, path: &str) -> Watch {
        let (tether, counters) = (Arc::clone(&self.tether), Arc::clone(&self.counters));
        Watch { tether, counters, watcher, path_len: self.path_len(path) }
    }

    /// Sets the data of a node, if it still has that `version`.
    pub(crate) async fn set_data(&self, path: &str, data: &[u8], version: Option<i32>) -> Result<Stat, ClientError> {
        let (client, sent) = (self.client()?, self.pulse.now());
        self.counters.sent(traffic::set_data_request_len(self.path_len(path), data.len()));
        let set = self.answer(client.set_data(path, data, version).await);
        self.replied(sent, &set, |_| traffic::STAT);
        set
    }

    /// Lets the server that we talk to catch up with the leader, so that the next read sees our earlier writes.
    pub(crate) async fn sync(&self, path: &str) -> Result<(), ClientError> {
        let (client, sent) = (self.client()?, self.pulse.now());
        self.counters.sent(traffic::string_len(self.path_len(path)));
        let synced = self.answer(client.sync(path).await);
        self.replied(sent, &synced, |()| traffic::string_len(self.path_len(path)));
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
                Err(ClientError::NoNode) => match crate::node::parent(deepest) {
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

    /// Asks for a sign of life from the leader, as a follower that was cut off from it would answer for itself. Takes
    /// the place of the pings that the client library sends when it is idle, and like them is not counted.
    pub(crate) async fn probe(&self) -> Result<(), ClientError> {
        let (client, sent) = (self.client()?, self.pulse.now());
        self.answer(client.sync("/").await)?;
        self.pulse.answered(sent);
        Ok(())
    }

    /// Notes the reply to a request that the leader has seen.
    fn replied<T>(&self, sent: Duration, reply: &Result<T, ClientError>, record_len: impl FnOnce(&T) -> usize) {
        if self.was_answered(reply, record_len) {
            self.pulse.answered(sent);
        }
    }

    /// Notes the reply to a read, which proves nothing of the session: a follower that is cut off from the leader goes on
    /// answering reads for a while, and the leader expires the session meanwhile. What is read while the session is taken
    /// for lost, and may grant a lock, is therefore held back for a sign of life.
    ///
    /// # Errors
    /// As the request when no such sign came. To be read anew then.
    async fn was_read<T>(
        &self,
        reply: &Result<T, ClientError>,
        record_len: impl FnOnce(&T) -> usize,
    ) -> Result<(), ClientError> {
        if self.was_answered(reply, record_len) && self.pulse.read().state() == ConnectionState::Lost {
            self.probe().await?;
        }
        Ok(())
    }

    /// Counts a reply, if it came.
    fn was_answered<T>(&self, reply: &Result<T, ClientError>, record_len: impl FnOnce(&T) -> usize) -> bool {
        match reply {
            Ok(value) => self.counters.received(record_len(value)),
            // These errors are the server's word; any other may mean that no reply came.
            Err(ClientError::NoNode | ClientError::NodeExists | ClientError::NotEmpty | ClientError::BadVersion) => {
                self.counters.received(0)
            }
            Err(_) => return false,
        }
        true
    }

    /// Evens out how the client library reports that no reply came.
    fn answer<T>(&self, reply: Result<T, ClientError>) -> Result<T, ClientError> {
        reply.map_err(|error| {
            // A session that ended otherwise has said so in its state.
            let is_abandoned = self.tether.has_parted() && !self.states.peek_state().is_terminated();
            if is_abandoned {
                self.pulse.end(LostReason::Closed);
            }
            even_out(error, is_abandoned)
        })
    }
}

/// The client library reports a connection that broke before the reply came as the error of the socket, as a message
/// about the silence, or as a loss, depending on which noticed it first. Whether the request was applied is unknown in
/// every case. That its `Custom` errors mean nothing else is an assumption, taken from its source: version 0.11 makes
/// them only where reading or writing the socket fails, where a server is silent, and while it connects.
///
/// When the runtime of a session has ended, the session `is_abandoned`: nobody takes requests or answers them, which the
/// library finds unexpected, or takes for a connection that may come back.
fn even_out(error: ClientError, is_abandoned: bool) -> ClientError {
    use ClientError::{ClientClosed, ConnectionLoss, Custom, Timeout, UnexpectedError};
    match error {
        Custom(_) | Timeout | ConnectionLoss | UnexpectedError(_) if is_abandoned => ClientClosed,
        Custom(_) | Timeout => ConnectionLoss,
        error => error,
    }
}

/// Repeats a request whose reply was lost until it is answered or the session ends. A request that is sent while the
/// connection is away waits for it inside the client library; the pauses are for a connection that breaks again each time.
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
    fn only_of_an_abandoned_session_lost_replies_and_unexpected_errors_are_its_end() {
        let unexpected = || ClientError::UnexpectedError("expect error state, got SyncConnected".to_owned());
        assert_eq!(even_out(unexpected(), false), unexpected());
        assert_eq!(even_out(unexpected(), true), ClientError::ClientClosed);
        for lost in [ClientError::Timeout, ClientError::ConnectionLoss] {
            assert_eq!(even_out(lost.clone(), false), ClientError::ConnectionLoss);
            assert_eq!(even_out(lost, true), ClientError::ClientClosed, "a retry would never end");
        }
        assert_eq!(even_out(ClientError::NoNode, true), ClientError::NoNode);
    }
}
