//! The handle that drives one contender.

use std::fmt;
use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use futures_util::future::BoxFuture;
use futures_util::stream::FuturesUnordered;
use futures_util::{FutureExt, StreamExt};
use parking_lot::Mutex;
use zk_recipes_protocol::session_queue::{ContenderId, Event, Made, Outcome, State, Wish};

use super::core::{Engine, Granted, Request, Sending};
use super::requests::Answer;
use crate::error::Error;
use crate::node;
use crate::session::backoff::Backoff;
use crate::session::reaper::Leftover;
use crate::session::remote::{Remote, Removal};
use crate::session::rooms::Room;
use crate::session::wire::Fired;

/// One contender with its requests. It keeps the connection open, but not the reaper: see [`Remote`].
pub(crate) struct Place {
    engine: Arc<Engine>,
    id: ContenderId,
    /// The room of its node.
    _room: Option<Room>,
    /// Never locked: only the exclusive owner of the place polls it. The mutex makes a guard, which contains a place, `Sync`.
    polled: Mutex<Polled>,
    has_left: bool,
    /// Whether a request found that the session has ended.
    has_ended: bool,
    /// The path of the node, once [`note_path`](Self::note_path) found one.
    path: Option<String>,
}

/// The futures that the contender waits for.
#[derive(Default)]
struct Polled {
    requests: FuturesUnordered<Request>,
    /// The watch on the predecessor. If it is dropped, the client library removes it.
    watch: Option<Pin<Box<dyn Future<Output = Fired> + Send>>>,
}

impl Place {
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

    pub(super) fn id(&self) -> ContenderId {
        self.id
    }

    /// Waits until the contender has a place in the queue.
    pub(super) async fn placed(&mut self) -> Result<Made, Error> {
        let placed = self.until(|state| match state {
            State::Placed => Some(Ok(())),
            State::Failed { outcome, .. } | State::Over(outcome) => Some(Err(outcome)),
            _ => None,
        });
        placed.await?.map_err(|outcome| self.error(outcome))?;
        Ok(self.engine.node(self.id).expect("BUG: a contender with a place has no node"))
    }

    /// Starts the wait for the grant. The contender must have a place.
    pub(super) fn wait(&self) {
        self.engine.tell(self.id, Event::Waits(self.id), Sending::Now);
    }

    /// Waits for the grant. `None` if another contender was ahead of a `try`. The contender then leaves.
    pub(super) async fn granted(&mut self) -> Result<Option<Granted>, Error> {
        let granted = self.until(|state| match state {
            State::Holding { node, .. } => Some(Ok(Some(node))),
            State::Leaving { .. } | State::Over(Outcome::InTheWay) => Some(Ok(None)),
            State::Failed { outcome, .. } | State::Over(outcome) => Some(Err(outcome)),
            State::Contending | State::Placed | State::Kept => None,
        });
        let node = granted.await?.map_err(|outcome| self.error(outcome))?;
        if let Some(watch) = self.polled.get_mut().watch.take() {
            // The predecessor has handed over its hold, so the watch fires soon. To remove the watch would cost a request.
            self.engine.spawn(async {
                let _fired = watch.await;
            });
        }
        Ok(node.map(|node| self.engine.granted(self.id, node)))
    }

    /// Gives up or releases. When this returns `Ok`, the node is gone, unless it was kept. `hands_over`: the hold is handed over to
    /// the successor, if the successor belongs to the session.
    ///
    /// If the server refuses the deletion, the queue repeats it after a pause, while this or [`while_idle`](Self::while_idle) is
    /// polled.
    pub(crate) async fn leave(&mut self, hands_over: bool) -> Result<Removal, Error> {
        self.start_to_leave(hands_over, Sending::Now);
        let (engine, id) = (Arc::clone(&self.engine), self.id);
        let removal = self.until(|state| match state {
            State::Over(Outcome::Gone | Outcome::InTheWay) => Some(Ok(Removal::Deleted)),
            State::Over(_) => Some(Ok(Removal::NothingThere)),
            State::Kept => Some(Ok(Removal::Kept)),
            State::Leaving { is_refused: true } | State::Failed { is_refused: true, .. } => {
                engine.take_refusal(id).map(Err)
            }
            _ => None,
        });
        removal.await?
    }

    /// Starts to leave without sending or waiting, for a `Drop`. The next poll of the place continues.
    pub(super) fn leave_later(&mut self) {
        self.start_to_leave(false, Sending::Later);
    }

    fn start_to_leave(&mut self, hands_over: bool, sending: Sending) {
        self.has_left = true;
        self.polled.get_mut().watch = None;
        self.engine.leave(self.id, hands_over, sending);
        self.note_path();
    }

    /// Waits while a leaving contender pauses after a refusal, or its node is kept for a later hold.
    pub(crate) async fn while_idle(&mut self) -> Result<(), Error> {
        self.until(|state| match state {
            State::Kept | State::Leaving { is_refused: true } | State::Failed { is_refused: true, .. } => None,
            _ => Some(()),
        })
        .await
    }

    /// Waits until it is known which node a leaving contender has. The node is not deleted yet.
    async fn named(&mut self) -> Result<(), Error> {
        let (engine, id) = (Arc::clone(&self.engine), self.id);
        let named = self.until_sending(Sending::Later, |state| match state {
            State::Leaving { is_refused: false } | State::Failed { is_refused: false, .. } => engine.node(id).map(drop),
            _ => Some(()),
        });
        named.await
    }

    /// Drops the proof of its hold, because nothing relies on the hold.
    pub(super) fn forget_proof(&self) {
        self.engine.forget_proof(self.id);
    }

    /// Tells whether nothing is left to do for the contender.
    pub(super) fn is_over(&self) -> bool {
        self.engine.is_over(self.id)
    }

    /// Returns the path for messages: the node's path if it was noted, otherwise the lock's path.
    pub(crate) fn path(&self) -> &str {
        self.path.as_deref().unwrap_or(self.engine.path())
    }

    /// Notes the path of the node, once there is one.
    fn note_path(&mut self) {
        if self.path.is_none() {
            self.path = self.engine.node(self.id).map(|made| node::child(self.engine.path(), &made.name));
        }
    }

    /// Polls the contender's requests, and the requests that follow from their answers, until `done` returns a value for its state.
    async fn until<T>(&mut self, done: impl FnMut(State) -> Option<T>) -> Result<T, Error> {
        self.until_sending(Sending::Now, done).await
    }

    async fn until_sending<T>(
        &mut self,
        sending: Sending,
        mut done: impl FnMut(State) -> Option<T>,
    ) -> Result<T, Error> {
        poll_fn(|cx| {
            loop {
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
        if let Some(fired) = watch
            && let Poll::Ready(fired) = fired.as_mut().poll(cx)
        {
            *watch = None;
            return Poll::Ready(Some(Event::Fired { id: self.id, is_gone: fired == Fired::Deleted }));
        }
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

impl Leftover for Place {
    fn path(&self) -> &str {
        self.path()
    }

    fn lock(&self) -> &str {
        self.engine.path()
    }

    fn find(&mut self) -> BoxFuture<'_, ()> {
        Box::pin(self.named().map(drop))
    }

    fn remove<'a>(&'a mut self, _: &'a Remote) -> BoxFuture<'a, Result<Removal, Error>> {
        Box::pin(self.leave(false))
    }

    fn idle<'a>(&'a mut self, _: &'a mut Backoff) -> BoxFuture<'a, Result<(), Error>> {
        // The queue paces its requests.
        Box::pin(self.while_idle())
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.engine.forget(self.id);
    }
}

impl fmt::Debug for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Place").field("lock", &self.engine.path()).field("id", &self.id).finish_non_exhaustive()
    }
}
