//! Asks servers, side by side, which session timeout they grant.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use tokio::task::JoinSet;
use zookeeper_client::Error as ClientError;

use crate::session::connection::connect::Connector;
use crate::session::connection::task_link::TaskLink;

/// The inquiry at servers, which are asked one after another, without waiting for each other.
pub(crate) struct Inquiry {
    connector: Connector,
    timeout: Duration,
    left: VecDeque<Candidate>,
    asking: JoinSet<Asked>,
}

/// A server that is to be asked.
pub(crate) struct Candidate {
    pub(crate) index: usize,
    pub(crate) address: String,
    /// Its position among those that have failed before. They are asked only while no other server is being asked.
    pub(crate) failed_as: Option<usize>,
}

/// The answer of one server.
pub(crate) struct Asked {
    pub(crate) index: usize,
    pub(crate) address: String,
    pub(crate) granted: Result<GrantedTimeout, ClientError>,
}

/// The session timeout that a server grants.
pub(crate) struct GrantedTimeout {
    pub(crate) timeout: Duration,
    /// The connection of the session that asked. That session is being closed.
    pub(crate) by: Arc<TaskLink>,
}

impl Inquiry {
    /// Asks these servers for a session timeout, in this order.
    pub(crate) fn new(connector: &Connector, candidates: Vec<Candidate>, timeout: Duration) -> Self {
        Self { connector: connector.clone(), timeout, left: candidates.into(), asking: JoinSet::new() }
    }

    /// Waits for the next answer. Asks another server after each failure, and after 1/24 of the session timeout without an answer.
    /// So a server that does not answer costs little time, and where answers come fast, only one server is asked. `None` once all
    /// have answered.
    pub(crate) async fn next(&mut self) -> Option<Asked> {
        loop {
            let is_due = |next: &Candidate| next.failed_as.is_none() || self.asking.is_empty();
            if self.left.front().is_some_and(is_due)
                && let Some(Candidate { index, address, .. }) = self.left.pop_front()
            {
                self.asking.spawn(ask(self.connector.clone(), index, address, self.timeout));
            }
            tokio::select! {
                asked = self.asking.join_next() => match asked {
                    Some(Ok(asked)) => return Some(asked),
                    // The runtime is ending.
                    Some(Err(_)) => {}
                    None => return None,
                },
                () = tokio::time::sleep(self.timeout / 24), if !self.left.is_empty() => {}
            }
        }
    }
}

impl Drop for Inquiry {
    /// Lets the servers that are still asked answer, so that the sessions that ask are closed.
    fn drop(&mut self) {
        self.asking.detach_all();
    }
}

/// Asks one server, by opening a second session there. That session closes without a wait for it, because the wait would take a
/// round trip.
async fn ask(connector: Connector, index: usize, address: String, timeout: Duration) -> Asked {
    let granted = match connector.ask(&address, timeout).await {
        Ok(connection) => {
            Ok(GrantedTimeout { timeout: connection.client.session_timeout(), by: Arc::clone(&connection.task_link) })
        }
        // The end of that session says nothing about the one that is to be connected.
        Err(ClientError::SessionExpired) => Err(ClientError::ConnectionLoss),
        Err(error) => Err(error),
    };
    Asked { index, address, granted }
}
