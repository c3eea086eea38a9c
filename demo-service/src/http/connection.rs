//! The state of one connection: what it does, and what it was used for.

use std::future::poll_fn;
use std::net::IpAddr;
use std::sync::Arc;
use std::task::{Poll, Waker};
use std::time::Duration;

use axum::http::Version;
use futures_util::task::AtomicWaker;
use parking_lot::Mutex;
use tokio::sync::Notify;
use tokio::time::Instant;

/// How long a client that has sent nothing since it connected is taken for one that is about to send a request.
const NEW_FOR: Duration = Duration::from_secs(1);

/// What a connection does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Phase {
    /// It has waited for a request since then.
    Idle(Instant),
    /// It waits for the rest of a head. The first byte of the head came then.
    Head(Instant),
    /// The service works on a request.
    Working,
    /// The service waits for the body of a request.
    Body,
    /// The service asks whether its servers answer. Its client gets a refusal if another client needs the room.
    Asking,
    /// A part of the answer was sent, and more of it will come.
    Answering,
}

/// The best use of a connection so far, and when it was. A lower one is worth less to its client.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Use {
    /// The client has sent nothing since it connected.
    Silent(Instant),
    /// The client has sent something since it connected, and no such purchase.
    Other(Instant),
    /// The service has worked on a purchase that was well-formed.
    Purchase(Instant),
}

/// When the service ends a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Ending {
    /// When the client does, or a time limit.
    Open,
    /// As soon as no request is under way.
    AfterOpenRequest,
    /// As soon as it waits for its client, because another client needs the room.
    Now,
}

/// What can be known of a connection at one instant.
#[derive(Debug, Clone, Copy)]
pub(super) struct Snapshot {
    pub(super) phase: Phase,
    /// Whether bytes of an answer wait until the client reads.
    pub(super) is_unread: bool,
    /// Whether the client has ended its side.
    has_ended: bool,
    /// Whether the client speaks HTTP/1.1, as far as it has spoken.
    is_modern: bool,
    last_use: Use,
    ending: Ending,
}

impl Snapshot {
    /// Returns whether the connection waits for its client.
    fn waits(&self) -> bool {
        self.is_unread || matches!(self.phase, Phase::Idle(_) | Phase::Head(_) | Phase::Body)
    }

    /// Returns whether another connection may replace this one.
    fn gives_way(&self) -> bool {
        self.waits() || self.phase == Phase::Asking
    }

    /// Returns whether an interim answer may be sent. Clients of HTTP/1.0 do not know them.
    pub(super) fn takes_interim_answers(&self) -> bool {
        self.is_modern && matches!(self.phase, Phase::Working | Phase::Body | Phase::Asking)
    }

    /// Returns whether the client has not got all of an answer yet.
    pub(super) fn owes_answer(&self) -> bool {
        self.is_unread || matches!(self.phase, Phase::Working | Phase::Body | Phase::Asking | Phase::Answering)
    }

    /// Returns whether the connection has to end without another byte from its client.
    pub(super) fn is_over(&self) -> bool {
        match self.ending {
            Ending::Open => false,
            Ending::AfterOpenRequest => !self.is_unread && matches!(self.phase, Phase::Idle(_)),
            Ending::Now => self.waits(),
        }
    }
}

/// A connection, as the acceptor, the socket and the requests see it.
#[derive(Debug)]
pub(super) struct Connection {
    /// The address of the client.
    pub(super) client: IpAddr,
    state: Mutex<Snapshot>,
    /// The task that serves the connection.
    task: AtomicWaker,
    /// The request that waits for news of the connection.
    request: AtomicWaker,
    /// Told whenever a connection of the listener starts to give way.
    gives_way: Arc<Notify>,
}

impl Connection {
    pub(super) fn new(client: IpAddr, gives_way: Arc<Notify>) -> Self {
        let now = Instant::now();
        let state = Snapshot {
            phase: Phase::Idle(now),
            is_unread: false,
            has_ended: false,
            is_modern: false,
            last_use: Use::Silent(now),
            ending: Ending::Open,
        };
        Self { client, state: Mutex::new(state), task: AtomicWaker::new(), request: AtomicWaker::new(), gives_way }
    }

    /// Notes that a well-formed purchase was worked on.
    pub(super) fn note_purchase(&self) {
        self.state.lock().last_use = Use::Purchase(Instant::now());
    }

    /// Notes that the service waits for a body, until the returned value is dropped.
    pub(super) fn receive(&self) -> BackToWorking<'_> {
        self.wait_in(Phase::Body)
    }

    /// Notes that the service asks its servers, until another client needs the room.
    pub(super) async fn ask(&self) {
        let _asking = self.wait_in(Phase::Asking);
        self.until(|state| state.ending == Ending::Now).await;
    }

    /// Waits until the client has ended its side. Of a body that has arrived whole, everything can be read by then.
    pub(super) async fn ended(&self) {
        self.until(|state| state.has_ended).await;
    }

    fn wait_in(&self, phase: Phase) -> BackToWorking<'_> {
        self.enter(phase);
        BackToWorking(self)
    }

    async fn until(&self, has_come: impl Fn(&Snapshot) -> bool) {
        let look = poll_fn(|cx| {
            // Registered before the look, so that a change in between wakes the request.
            self.request.register(cx.waker());
            if has_come(&self.state.lock()) { Poll::Ready(()) } else { Poll::Pending }
        });
        look.await;
    }

    fn enter(&self, phase: Phase) {
        self.update(|state| state.phase = phase);
    }

    fn update(&self, change: impl FnOnce(&mut Snapshot)) {
        let gives_way = {
            let mut state = self.state.lock();
            change(&mut state);
            state.gives_way()
        };
        if gives_way {
            // `notify_one` is kept, so an acceptor that is about to wait misses nothing.
            self.gives_way.notify_one();
        }
    }
}

/// What the socket says and asks.
impl Connection {
    /// Notes that bytes have come.
    pub(super) fn hear(&self) {
        let mut state = self.state.lock();
        if let Phase::Idle(_) = state.phase {
            state.phase = Phase::Head(Instant::now());
        }
        if let Use::Silent(since) = state.last_use {
            state.last_use = Use::Other(since);
        }
    }

    /// Notes that the client has ended its side.
    pub(super) fn hear_end(&self) {
        self.state.lock().has_ended = true;
        self.request.wake();
    }

    /// Notes whether bytes of an answer wait until the client reads.
    pub(super) fn set_unread(&self, is_unread: bool) {
        self.update(|state| state.is_unread = is_unread);
    }

    /// Returns the state. The task is woken when the service decides to end the connection after this.
    pub(super) fn watch(&self, task: &Waker) -> Snapshot {
        self.task.register(task);
        *self.state.lock()
    }
}

/// What the acceptor asks and wants.
impl Connection {
    /// Returns the use of the connection if another one may replace it. A new client may be about to send its request, so it
    /// counts as if it had sent something. Otherwise the next connection would always replace it.
    pub(super) fn worth(&self, now: Instant) -> Option<Use> {
        let state = self.state.lock();
        let worth = match state.last_use {
            Use::Silent(since) if now < since + NEW_FOR => Use::Other(since),
            last_use => last_use,
        };
        (state.ending == Ending::Open && state.gives_way()).then_some(worth)
    }

    /// Returns whether the connection is about to end.
    pub(super) fn is_over(&self) -> bool {
        let state = self.state.lock();
        state.is_over() || (state.ending == Ending::Now && state.gives_way())
    }

    /// Ends the connection as soon as no request is under way.
    pub(super) fn end(&self) {
        self.end_by(Ending::AfterOpenRequest);
    }

    /// Ends the connection as soon as it gives way.
    pub(super) fn take_back(&self) {
        self.end_by(Ending::Now);
    }

    fn end_by(&self, ending: Ending) {
        {
            let mut state = self.state.lock();
            // An ending never becomes milder: a shutdown must not undo `Now`.
            state.ending = state.ending.max(ending);
        }
        self.task.wake();
        self.request.wake();
    }
}

/// Sets the phase back after a wait.
pub(super) struct BackToWorking<'a>(&'a Connection);

impl Drop for BackToWorking<'_> {
    fn drop(&mut self) {
        self.0.enter(Phase::Working);
    }
}

/// A request that is being answered. Dropped when its answer has been handed to the socket, or when nobody wants it any more.
pub(super) struct OpenRequest(Arc<Connection>);

impl OpenRequest {
    /// Starts the work on a request.
    pub(super) fn start(connection: &Arc<Connection>, version: Version) -> Self {
        let mut state = connection.state.lock();
        state.phase = Phase::Working;
        state.is_modern = version >= Version::HTTP_11;
        drop(state);
        Self(Arc::clone(connection))
    }

    /// Starts the answer. Returns whether it is the last one of the connection.
    pub(super) fn answer(&self) -> bool {
        let mut state = self.0.state.lock();
        state.phase = Phase::Answering;
        state.ending > Ending::Open
    }
}

impl Drop for OpenRequest {
    fn drop(&mut self) {
        self.0.enter(Phase::Idle(Instant::now()));
    }
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use super::*;

    // S66
    #[test]
    fn a_new_client_is_not_replaced_for_a_moment() {
        let connection = || Connection::new(Ipv4Addr::LOCALHOST.into(), Arc::default());
        let speaking = connection();
        let new = connection();
        speaking.hear();
        let now = Instant::now();
        assert!(speaking.worth(now) < new.worth(now));
        assert!(new.worth(now + NEW_FOR) < speaking.worth(now + NEW_FOR));
    }
}
