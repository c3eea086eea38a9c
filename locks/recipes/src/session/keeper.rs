//! Keeps a session alive: shows the servers that it lives, and connects again after the connection was lost.
//!
//! The client library could reconnect alone. But it does not report the session timeout that the next server granted. So each
//! connection is a separate [`Connection`], and the keeper makes the next one. The session's requests wait for it.

use std::pin::Pin;
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use futures_util::future::{join, join_all};
use tracing::{debug, info, warn};
use zk_recipes_protocol::liveness::{Event, LostReason, Sign};
use zookeeper_client::{Error as ClientError, SessionInfo, SessionState};

use crate::session::backoff::Backoff;
use crate::session::connection::connect::Connector;
use crate::session::connection::established::Connection;
use crate::session::connection::inquiry::{Asked, Candidate, GrantedTimeout, Inquiry};
use crate::session::connection::task_link::TaskLink;
use crate::session::ending::Ending;
use crate::session::liveness::liveness_cell::LivenessCell;
use crate::session::wire::Wire;

/// The keeper of one session.
pub(crate) struct Keeper {
    connector: Connector,
    session: SessionInfo,
    wire: Weak<Wire>,
    ends: EndsWithTheRuntime,
}

/// A server of the connect string.
struct TriedServer {
    name: String,
    /// The addresses that were found last. Only the name until the first are found.
    addresses: Vec<String>,
}

impl TriedServer {
    fn named(name: String) -> Self {
        Self { addresses: vec![name.clone()], name }
    }
}

/// Ends the session when it is dropped. So waiters in other runtimes learn that the session is no longer served.
struct EndsWithTheRuntime {
    liveness: Arc<LivenessCell>,
    ending: Arc<Ending>,
    wire: Weak<Wire>,
}

impl Drop for EndsWithTheRuntime {
    fn drop(&mut self) {
        // If the session has ended before, it keeps its first reason.
        self.liveness.end(LostReason::RuntimeEnded);
        self.ending.tell();
        if let Some(wire) = self.wire.upgrade() {
            wire.phases().close();
        }
    }
}

impl Keeper {
    pub(crate) fn new(
        connector: Connector,
        session: SessionInfo,
        wire: &Arc<Wire>,
        liveness: &Arc<LivenessCell>,
        ending: &Arc<Ending>,
    ) -> Self {
        // Weak, because the session closes when the last user of the wire drops it.
        let wire = Arc::downgrade(wire);
        let liveness = Arc::clone(liveness);
        let ending = Arc::clone(ending);
        let ends = EndsWithTheRuntime { liveness, ending, wire: wire.clone() };
        Self { connector, session, wire, ends }
    }

    /// Returns the id of the session.
    fn id(&self) -> i64 {
        self.session.id().0
    }

    fn liveness(&self) -> &Arc<LivenessCell> {
        &self.ends.liveness
    }

    /// Serves the session from its first connection until it has ended.
    pub(crate) async fn run(self, mut task_link: Arc<TaskLink>, mut states: zookeeper_client::StateWatcher) {
        let mut servers: Vec<TriedServer> = self.connector.servers().into_iter().map(TriedServer::named).collect();
        // Spreads the sessions over the servers after a loss of the connection.
        let first = self.session.id().0.unsigned_abs() % servers.len() as u64;
        servers.rotate_left(usize::try_from(first).unwrap_or_default());
        loop {
            // The addresses are resolved in advance: a name may resolve slowly, and without a connection holds do not last long.
            join(self.serve(&task_link), self.resolve(&mut servers)).await;
            let state = states.state();
            info!(session = format_args!("{:#x}", self.id()), %state, "the connection has ended");
            let is_used = self.wire.strong_count() > 0;
            let connection = match ended_by(state, is_used, self.connector.unauthenticated()) {
                Some(reason) => Err(reason),
                None => {
                    self.liveness().event(Event::Disconnected);
                    if let Some(wire) = self.wire.upgrade() {
                        wire.phases().disconnect();
                    }
                    tokio::select! {
                        connection = self.connect_anew(&mut servers) => connection,
                        () = self.watch_the_clock() => unreachable!("BUG: the clock has stopped"),
                    }
                }
            };
            match connection {
                Ok(connection) => {
                    info!(session = format_args!("{:#x}", self.id()), server = servers[0].name, "connected again");
                    task_link = Arc::clone(&connection.task_link);
                    states = connection.states();
                    // If the session is unused or is being closed, the connection is dropped, which closes the session.
                    match self.wire.upgrade() {
                        Some(wire) => wire.phases().connect(connection),
                        None => drop(connection),
                    }
                }
                Err(reason) => {
                    info!(session = format_args!("{:#x}", self.id()), ?reason, "the session has ended");
                    // Before the requests fail, because their errors tell this reason.
                    self.liveness().event(Event::Ended(reason));
                    if let Some(wire) = self.wire.upgrade() {
                        wire.phases().end();
                    }
                    return;
                }
            }
        }
    }

    /// Sends signs of life until the connection has ended. At most one sign is under way. Signs are sent at least
    /// [`look_after`](Self::look_after) apart, but a sign that the server throttles is repeated earlier. Then the sign is sent that is
    /// due by that time: a proof does not wait until a read is answered.
    async fn serve(&self, task_link: &TaskLink) {
        let mut sign: Option<PendingSign> = None;
        let mut not_before = Instant::now() + self.look_after();
        let mut to_repeat = Backoff::to_repeat();
        loop {
            let look_after = self.look_after();
            let pause = match self.liveness().due() {
                Some((_, due_in)) if sign.is_none() => due_in.max(not_before.saturating_duration_since(Instant::now())),
                _ => look_after,
            };
            tokio::select! {
                () = task_link.parted() => return,
                is_throttled = answered(&mut sign) => {
                    sign = None;
                    match is_throttled {
                        true => not_before = not_before.min(Instant::now() + to_repeat.advance()),
                        false => to_repeat = Backoff::to_repeat(),
                    }
                }
                () = tokio::time::sleep(pause.min(look_after)) => {}
            }
            self.liveness().look();
            if sign.is_none()
                && Instant::now() >= not_before
                && let Some((due, Duration::ZERO)) = self.liveness().due()
            {
                not_before = Instant::now() + look_after;
                sign = self.wire.upgrade().map(|wire| Box::pin(send(wire, due)) as PendingSign);
            }
        }
    }

    /// Notes what time alone changes, while there is no connection.
    async fn watch_the_clock(&self) {
        loop {
            tokio::time::sleep(self.look_after()).await;
            self.liveness().look();
        }
    }

    fn look_after(&self) -> Duration {
        self.liveness().read().margins().look_after()
    }

    /// Tries the servers until one accepts the session or reports its end. Only a server knows whether the session lives: without a
    /// quorum no session expires, and servers that start give every session a whole timeout.
    ///
    /// A session that was closed, or that nothing uses any more, is tried for two more session timeouts, and until the round that is
    /// under way then has ended. [`Session::close`](crate::Session::close) waits for one of them. Its end is left to the servers then.
    async fn connect_anew(&self, servers: &mut [TriedServer]) -> Result<Connection, LostReason> {
        let session_timeout = self.liveness().read().margins().session_timeout();
        let mut backoff = Backoff::to_connect(session_timeout);
        let mut unused_since = None;
        let mut failed = Vec::new();
        loop {
            if let Some(connection) = self.try_all(servers, &mut failed).await? {
                return Ok(connection);
            }
            if self.wire.strong_count() == 0 || self.liveness().read().ended().is_some() {
                let unused_since = unused_since.get_or_insert_with(Instant::now);
                if unused_since.elapsed() >= 2 * session_timeout {
                    return Err(LostReason::Closed);
                }
            }
            backoff.pause().await;
            self.resolve(servers).await;
        }
    }

    /// Connects the session to the first server that answers, and moves that server to the head of the list. The second server of the
    /// list is asked first. `None` if no server answered, or the first that did then failed.
    ///
    /// `failed`: the addresses that have answered and then failed, the last at the end. They are asked after all others, so a server
    /// that always fails does not keep slower ones from answering.
    async fn try_all(
        &self,
        servers: &mut [TriedServer],
        failed: &mut Vec<String>,
    ) -> Result<Option<Connection>, LostReason> {
        let timeout = self.liveness().read().margins().session_timeout();
        let failed_as = |address: &String| failed.iter().position(|failed| failed == address);
        // Once the session has reconnected, the first server is the one whose connection has ended. That server may
        // have stopped answering, so it comes last.
        let indexes = (1..servers.len()).chain([0]);
        let addresses = indexes.flat_map(|index| servers[index].addresses.iter().map(move |address| (index, address)));
        let mut candidates: Vec<Candidate> = addresses
            .map(|(index, address)| Candidate { index, address: address.clone(), failed_as: failed_as(address) })
            .collect();
        // The sort is stable, and `None` comes first.
        candidates.sort_by_key(|candidate| candidate.failed_as);
        let mut inquiry = Inquiry::new(&self.connector, candidates, timeout);
        while let Some(Asked { index, address, granted }) = inquiry.next().await {
            let granted = match granted {
                Ok(granted) => granted,
                Err(ClientError::AuthFailed) => return Err(self.connector.unauthenticated()),
                Err(error) => {
                    debug!(address, %error, "a server does not say what it grants");
                    continue;
                }
            };
            let attached = self.attach(&address, timeout, granted).await;
            return match attached {
                Ok(connection) => {
                    servers.rotate_left(index);
                    Ok(Some(connection))
                }
                Err(ClientError::SessionExpired) => Err(LostReason::Expired),
                Err(ClientError::AuthFailed) => Err(self.connector.unauthenticated()),
                Err(error) => {
                    debug!(address, %error, "could not connect the session anew");
                    failed.retain(|failed| *failed != address);
                    failed.push(address);
                    // The other answers may be old by now, so the next round asks again.
                    Ok(None)
                }
            };
        }
        Ok(None)
    }

    /// Resolves the names of all servers. A server that is not resolved within 1/12 of the session timeout keeps its addresses.
    async fn resolve(&self, servers: &mut [TriedServer]) {
        let within = self.liveness().read().margins().session_timeout() / 12;
        join_all(servers.iter_mut().map(async |server| {
            if let Some(addresses) = self.connector.addresses(&server.name, within).await {
                server.addresses = addresses;
            }
        }))
        .await;
    }

    /// Connects the session to one server. Returns the connection only after the server has answered a request on it.
    async fn attach(
        &self,
        server: &str,
        timeout: Duration,
        granted: GrantedTimeout,
    ) -> Result<Connection, ClientError> {
        match self.attach_once(server, timeout, granted.timeout).await {
            // Servers may limit the connections of one host, and the session that asked still had one.
            Err(ClientError::NoHosts) if !granted.by.has_parted() => {
                granted.by.parted().await;
                self.attach_once(server, timeout, granted.timeout).await
            }
            attached => attached,
        }
    }

    async fn attach_once(&self, server: &str, timeout: Duration, granted: Duration) -> Result<Connection, ClientError> {
        // Before the handshake is sent: from then on, the server may have shortened the timeout, whether it answers or
        // not.
        self.liveness().event(Event::Attaching(granted));
        let connection = self.connector.attach(server, timeout, self.session.clone()).await?;
        if connection.client.session_id() != self.session.id() {
            // A server that does not know the session should say so. Some open another one instead.
            self.liveness().end(LostReason::Expired);
            connection.close().await;
            return Err(ClientError::SessionExpired);
        }
        let attached = connection.client.session_timeout();
        self.liveness().event(Event::Attached(attached));
        if attached < timeout {
            warn!(server, timeout_ms = attached.as_millis(), "the server has shortened the session timeout");
        }
        // The server may lag behind the previous one.
        match connection.catch_up(self.liveness().is_held(), self.liveness()).await {
            Ok(()) => {
                self.liveness().event(Event::Connected);
                Ok(connection)
            }
            Err(error) => {
                // A connection that is dropped while it is connected closes the session.
                connection.task_link.cut().await;
                Err(error)
            }
        }
    }
}

/// Returns why the session has ended, given the last state of its connection. `None` if the session may live. `is_used`: a user
/// still keeps the session open. `unauthenticated`: the reason if a server did not authenticate it.
fn ended_by(state: SessionState, is_used: bool, unauthenticated: LostReason) -> Option<LostReason> {
    match state {
        SessionState::Expired => Some(LostReason::Expired),
        SessionState::AuthFailed => Some(unauthenticated),
        // `Session::close` notes its reason earlier, and the first reason counts. Apart from `close`, only the end of the runtime
        // closes a connection in use.
        SessionState::Closed if is_used => Some(LostReason::RuntimeEnded),
        SessionState::Closed => Some(LostReason::Closed),
        _ => None,
    }
}

type PendingSign = Pin<Box<dyn Future<Output = Result<(), ClientError>> + Send>>;

async fn send(wire: Arc<Wire>, sign: Sign) -> Result<(), ClientError> {
    match sign {
        Sign::Proof => wire.prove().await,
        Sign::Read => wire.speak().await,
    }
}

/// Waits for the answer to a sign. Returns whether the server throttled the sign.
async fn answered(sign: &mut Option<PendingSign>) -> bool {
    let Some(sign) = sign else { return std::future::pending().await };
    let answer = sign.await;
    if let Err(error) = &answer {
        debug!(%error, "no sign of life");
    }
    answer == Err(ClientError::Throttled)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_state_of_a_connection_tells_why_the_session_ended() {
        for (state, is_used, reason) in [
            (SessionState::Expired, true, Some(LostReason::Expired)),
            (SessionState::AuthFailed, true, Some(LostReason::CredentialsRefused)),
            (SessionState::Closed, true, Some(LostReason::RuntimeEnded)),
            (SessionState::Closed, false, Some(LostReason::Closed)),
            (SessionState::Disconnected, true, None),
        ] {
            assert_eq!(ended_by(state, is_used, LostReason::CredentialsRefused), reason, "{state:?} {is_used}");
        }
    }
}
