//! One contender: the claim of an acquire in a queue, and the requests that it waits for.

use std::fmt;
use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use futures_util::future::BoxFuture;
use futures_util::stream::FuturesUnordered;
use futures_util::{FutureExt, StreamExt};
use parking_lot::Mutex;
use zk_recipes_protocol::session_queue::{ContenderId, ContenderState, Event, Made, Outcome, Wish};

use super::core::{Engine, Request, Sending};
use super::requests::Answer;
use crate::acquire::Deadline;
use crate::error::Error;
use crate::hold::{Claim, Grant};
use crate::node;
use crate::session::backoff::Backoff;
use crate::session::reaper::Leftover;
use crate::session::remote::{Remote, Removal};
use crate::session::rooms::Room;
use crate::session::wire::Fired;

/// One contender with its requests, from the first request to the end of its hold. It keeps the connection open, but not the reaper:
/// see [`Remote`].
pub(crate) struct Contender {
    engine: Arc<Engine>,
    id: ContenderId,
    /// The room of its node.
    _room: Option<Room>,
    /// Never locked: only the exclusive owner of the contender polls it. The mutex makes a guard, which contains one, `Sync`.
    polled: Mutex<Polled>,
    has_left: bool,
    /// Whether a request found that the session has ended.
    has_ended: bool,
    /// The path of the node, once that was noted.
    path: Option<String>,
}

/// The futures that the contender waits for.
#[derive(Default)]
struct Polled {
    requests: FuturesUnordered<Request>,
    /// The watch on the predecessor. If it is dropped, the client library removes it.
    watch: Option<Pin<Box<dyn Future<Output = Fired> + Send>>>,
}

impl Contender {
    /// Adds a contender to the engine and sends its first requests.
    pub(crate) fn enter(engine: &Arc<Engine>, wish: Wish, node_data: &Arc<[u8]>, room: Option<Room>) -> Self {
        Self {
            engine: Arc::clone(engine),
            id: engine.enter(wish, node_data),
            _room: room,
            polled: Mutex::default(),
            has_left: false,
            has_ended: false,
            path: None,
        }
    }

    /// Waits until the contender has a place in the queue. Returns its node.
    pub(crate) async fn placed(&mut self) -> Result<Made, Error> {
        let placed = self.until(Sending::Now, |state| match state {
            ContenderState::Placed => Some(Ok(())),
            ContenderState::Failed { outcome, .. } | ContenderState::Over(outcome) => Some(Err(outcome)),
            _ => None,
        });
        placed.await?.map_err(|outcome| self.error(outcome))?;
        self.note_path();
        Ok(self.engine.node(self.id).expect("BUG: a contender with a place has no node"))
    }

    /// Starts the wait for the grant. The contender must have a place.
    pub(crate) fn wait(&self) {
        self.engine.tell(self.id, Event::Waits(self.id), Sending::Now);
    }

    /// Waits for the grant. `None` if another contender was ahead of a `try`. The contender then leaves. If the future is dropped, the
    /// contender keeps its place.
    pub(crate) async fn granted(&mut self) -> Result<Option<Grant>, Error> {
        let granted = self.until(Sending::Now, |state| match state {
            ContenderState::Holding { node, .. } => Some(Ok(Some(node))),
            ContenderState::Leaving { .. } | ContenderState::Over(Outcome::InTheWay) => Some(Ok(None)),
            ContenderState::Failed { outcome, .. } | ContenderState::Over(outcome) => Some(Err(outcome)),
            ContenderState::Contending | ContenderState::Placed | ContenderState::Kept => None,
        });
        let node = granted.await?.map_err(|outcome| self.error(outcome))?;
        if let Some(watch) = self.polled.get_mut().watch.take() {
            // The predecessor has handed over its hold, so the watch fires soon. To remove the watch would cost a request.
            self.engine.spawn(async {
                let _fired = watch.await;
            });
        }
        self.note_path();
        let contender = Some(self.id);
        Ok(node.map(|node| Grant { czxid: node.czxid, contender, proof: self.engine.proof(self.id) }))
    }

    /// Drops the engine's proof of its hold, because nothing relies on the hold.
    pub(crate) fn forget_proof(&self) {
        self.engine.forget_proof(self.id);
    }

    fn leave(&mut self, hands_over: bool, sending: Sending) {
        self.has_left = true;
        self.polled.get_mut().watch = None;
        self.engine.leave(self.id, hands_over, sending);
        self.note_path();
    }

    /// Waits until it is known which node a leaving contender has. The node is not deleted yet.
    async fn named(&mut self) -> Result<(), Error> {
        let engine = Arc::clone(&self.engine);
        let id = self.id;
        let named = self.until(Sending::Later, |state| match state {
            ContenderState::Leaving { is_refused: false } | ContenderState::Failed { is_refused: false, .. } => {
                engine.node(id).map(drop)
            }
            _ => Some(()),
        });
        named.await
    }

    /// Notes the path of the node, once there is one.
    fn note_path(&mut self) {
        if self.path.is_none() {
            self.path = self.engine.node(self.id).map(|made| node::child(self.engine.path(), &made.name));
        }
    }

    /// Polls the contender's requests, and the requests that follow from their answers, until `done` returns a value for its state.
    async fn until<T>(
        &mut self,
        sending: Sending,
        mut done: impl FnMut(ContenderState) -> Option<T>,
    ) -> Result<T, Error> {
        poll_fn(|cx| {
            loop {
                // `attend` keeps the waker before the requests are polled, so another contender's step in between wakes
                // this task.
                if let Some(done) = done(self.engine.attend(self.id, cx.waker(), &self.polled.get_mut().requests)) {
                    return Poll::Ready(Ok(done));
                }
                if self.has_ended {
                    return Poll::Ready(Err(self.engine.session_ended()));
                }
                let event = std::task::ready!(self.poll_event(cx));
                event.into_iter().for_each(|event| self.engine.tell(self.id, event, sending));
            }
        })
        .await
    }

    /// Polls for the next answer or the watch. `Ready(None)`: it was handled here, and the queue needs no event.
    fn poll_event(&mut self, cx: &mut Context<'_>) -> Poll<Option<Event>> {
        let Polled { requests, watch } = self.polled.get_mut();
        // Polled before the requests: the queue hears of a notification before the answers that the server sent after
        // it.
        if let Some(fired) = watch
            && let Poll::Ready(fired) = fired.as_mut().poll(cx)
        {
            *watch = None;
            return Poll::Ready(Some(Event::Fired { id: self.id, is_gone: fired == Fired::Deleted }));
        }
        // Without a request the set is ready with `None`. Then only the watch or another contender's step wakes the
        // task.
        let Poll::Ready(Some(answer)) = requests.poll_next_unpin(cx) else { return Poll::Pending };
        Poll::Ready(Some(match answer {
            Answer::Event(event) => event,
            Answer::Refused(event, error) => {
                self.engine.note_refusal(self.id, error);
                event
            }
            Answer::Unconditional(event, error) => {
                self.engine.warn_of_condition(&error);
                event
            }
            Answer::Watching(event, set) => {
                *watch = (!self.has_left).then(|| Box::pin(set.fired()) as _);
                event
            }
            Answer::WatchingParent(names, set) => {
                self.engine.keep_parent_watch(self.id, names, set);
                return Poll::Ready(None);
            }
            Answer::Proved(proof) => {
                // While a proof exists, the session sends proofs of life. `leave` has dropped the proof of this
                // contender.
                if !self.has_left {
                    self.engine.note_proof(self.id, proof);
                }
                Event::Proved(self.id, Ok(()))
            }
            Answer::SessionEnded => {
                self.has_ended = true;
                return Poll::Ready(None);
            }
        }))
    }

    fn error(&mut self, outcome: Outcome) -> Error {
        self.note_path();
        match outcome {
            Outcome::NumbersExhausted(number) => {
                Error::NumbersExhausted { path: self.engine.path().to_owned(), number: number.get() }
            }
            Outcome::NodeDeleted => Error::NodeDeleted { path: self.path().to_owned() },
            outcome => {
                self.engine.take_refusal(self.id).unwrap_or_else(|| unreachable!("BUG: {outcome:?} is no failure"))
            }
        }
    }
}

impl Claim<Contender> {
    /// Waits for the grant until the deadline. `None` if the deadline came first, or another contender was ahead of a `try`. After a
    /// deadline, the node is gone.
    pub(crate) async fn granted_by(&mut self, deadline: Deadline) -> Result<Option<Grant>, Error> {
        match deadline.bound(self.granted()).await {
            Some(granted) => granted,
            None => self.withdraw().await.map(|()| None),
        }
    }
}

impl Leftover for Contender {
    fn path(&self) -> &str {
        self.path.as_deref().unwrap_or(self.engine.path())
    }

    fn lock(&self) -> &str {
        self.engine.path()
    }

    fn find(&mut self) -> BoxFuture<'_, ()> {
        Box::pin(self.named().map(drop))
    }

    /// Tells the queue at once, so that the contender is handed no hold any more.
    fn give_up(&mut self) -> bool {
        let is_to_leave = !self.engine.is_over(self.id);
        if is_to_leave {
            self.leave(false, Sending::Later);
        }
        is_to_leave
    }

    /// If the server refuses the deletion, the queue repeats it after a pause, while this or [`idle`](Self::idle) is polled.
    fn remove<'a>(&'a mut self, _: &'a Remote, hands_over: bool) -> BoxFuture<'a, Result<Removal, Error>> {
        Box::pin(async move {
            self.leave(hands_over, Sending::Now);
            let engine = Arc::clone(&self.engine);
            let id = self.id;
            let removal = self.until(Sending::Now, |state| match state {
                ContenderState::Over(Outcome::Gone | Outcome::InTheWay) => Some(Ok(Removal::Deleted)),
                ContenderState::Over(_) => Some(Ok(Removal::NothingThere)),
                ContenderState::Kept => Some(Ok(Removal::Kept)),
                ContenderState::Leaving { is_refused: true } | ContenderState::Failed { is_refused: true, .. } => {
                    engine.take_refusal(id).map(Err)
                }
                _ => None,
            });
            removal.await?
        })
    }

    fn idle<'a>(&'a mut self, _: &'a mut Backoff) -> BoxFuture<'a, Result<(), Error>> {
        // The queue paces its requests.
        Box::pin(self.until(Sending::Now, |state| match state {
            ContenderState::Kept
            | ContenderState::Leaving { is_refused: true }
            | ContenderState::Failed { is_refused: true, .. } => None,
            _ => Some(()),
        }))
    }
}

impl Drop for Contender {
    fn drop(&mut self) {
        self.engine.forget(self.id);
    }
}

impl fmt::Debug for Contender {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Contender").field("lock", &self.engine.path()).field("id", &self.id).finish_non_exhaustive()
    }
}
