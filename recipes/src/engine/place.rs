//! A contender as whoever waits for it drives it.

use std::fmt;
use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use futures_util::StreamExt;
use futures_util::future::BoxFuture;
use futures_util::stream::FuturesUnordered;
use parking_lot::Mutex;
use zk_recipes_protocol::session_queue::{ContenderId, Event, Made, Outcome, State, Wish};

use super::core::{Engine, Granted, Request, Sending};
use super::requests::Answer;
use crate::error::Error;
use crate::node;
use crate::session::backoff::Backoff;
use crate::session::reaper::Leftover;
use crate::session::remote::{Remote, Removal};
use crate::session::wire::Fired;

/// One contender, with the requests that were sent for it. It does not keep the session open.
pub(crate) struct Place {
    engine: Arc<Engine>,
    id: ContenderId,
    /// Never locked: whoever has the place alone polls it. The lock lets a guard, which has a place, be shared by threads.
    polled: Mutex<Polled>,
    has_left: bool,
    /// Whether a request has found that the session has ended.
    has_ended: bool,
    /// That of the node, once it was asked for.
    path: Option<String>,
}

/// What the contender waits for.
#[derive(Default)]
struct Polled {
    requests: FuturesUnordered<Request>,
    /// The watch of whoever is directly ahead. Dropped, it is taken back.
    watch: Option<Pin<Box<dyn Future<Output = Fired> + Send>>>,
}

impl Place {
    /// Lets a contender begin.
    pub(crate) fn enter(engine: &Arc<Engine>, wish: Wish, node_data: &Arc<[u8]>) -> Self {
        let (engine, id) = (Arc::clone(engine), engine.enter(wish, node_data));
        Self { engine, id, polled: Mutex::default(), has_left: false, has_ended: false, path: None }
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

    /// Lets a contender that has a place wait for the grant.
    pub(super) fn wait(&self) {
        self.tell(Event::Waits(self.id));
    }

    /// Waits for the grant. `None`: somebody was in the way of a contender that does not wait, and leaves.
    pub(super) async fn granted(&mut self) -> Result<Option<Granted>, Error> {
        let granted = self.until(|state| match state {
            State::Holding(grant) => Some(Ok(Some(grant))),
            State::Leaving { .. } | State::Over(Outcome::InTheWay) => Some(Ok(None)),
            State::Failed { outcome, .. } | State::Over(outcome) => Some(Err(outcome)),
            State::Contending | State::Placed | State::Kept => None,
        });
        let grant = granted.await?.map_err(|outcome| self.error(outcome))?;
        if let Some(watch) = self.polled.get_mut().watch.take() {
            // Whoever was ahead has passed its hold on, and the watch fires soon. To take it back would cost a request.
            tokio::spawn(watch);
        }
        Ok(grant.map(|grant| self.engine.granted(self.id, grant)))
    }

    /// Gives up what the contender wants, or lets go of what it has: its node is gone when this returns `Ok`, unless it was
    /// kept. `hands_over`: the hold goes to the contender of the session that is directly behind. If the server refuses the
    /// deletion, it is asked again after a pause, for as long as this or [`while_idle`](Self::while_idle) is polled.
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

    /// As [`leave`](Self::leave), where nothing can be sent or waited for. Whoever polls the place next goes on.
    pub(super) fn leave_later(&mut self) {
        self.start_to_leave(false, Sending::Later);
    }

    fn start_to_leave(&mut self, hands_over: bool, sending: Sending) {
        self.has_left = true;
        self.polled.get_mut().watch = None;
        self.engine.tell(self.id, Event::Leaves { id: self.id, hands_over }, sending);
        self.engine.forget_proof(self.id);
        self.note_path();
    }

    /// Notes that the node of a holder was found to be gone.
    pub(super) fn note_missing_node(&self) {
        self.tell(Event::NodeMissed(self.id));
    }

    /// Waits for as long as a contender that leaves pauses after a refusal, or its node stands for another's hold.
    pub(crate) async fn while_idle(&mut self) -> Result<(), Error> {
        self.until(|state| match state {
            State::Kept | State::Leaving { is_refused: true } | State::Failed { is_refused: true, .. } => None,
            _ => Some(()),
        })
        .await
    }

    /// Notes that the contender does not rely on its hold.
    pub(super) fn forget_proof(&self) {
        self.engine.forget_proof(self.id);
    }

    /// Whether nothing of the contender is left to do.
    pub(super) fn is_over(&self) -> bool {
        self.engine.is_over(self.id)
    }

    /// The path to name in messages: that of the node, as far as it is known, or else of the lock.
    pub(crate) fn path(&self) -> &str {
        self.path.as_deref().unwrap_or(self.engine.path())
    }

    /// Notes the path of the node, once there is one.
    fn note_path(&mut self) {
        if self.path.is_none() {
            self.path = self.engine.node(self.id).map(|made| node::child(self.engine.path(), &made.name));
        }
    }

    fn tell(&self, event: Event) {
        self.engine.tell(self.id, event, Sending::Now);
    }

    /// Polls the requests of the contender, and whatever comes of their answers, until its state is one to tell of.
    async fn until<T>(&mut self, mut done: impl FnMut(State) -> Option<T>) -> Result<T, Error> {
        poll_fn(|cx| {
            loop {
                if let Some(done) = done(self.engine.attend(self.id, cx.waker(), &self.polled.get_mut().requests)) {
                    return Poll::Ready(Ok(done));
                }
                if self.has_ended {
                    return Poll::Ready(Err(self.engine.session_ended()));
                }
                let event = std::task::ready!(self.poll_event(cx));
                event.into_iter().for_each(|event| self.tell(event));
            }
        })
        .await
    }

    /// What has happened to the contender, if the queue is to be told of it.
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
