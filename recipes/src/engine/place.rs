//! A contender as whoever waits for it drives it.

use std::fmt;
use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;
use parking_lot::Mutex;
use zk_recipes_protocol::session_queue::{ContenderId, Event, Made, Outcome, State};

use super::requests::Answer;
use super::{Engine, Granted, Request, Sending};
use crate::error::Error;
use crate::node;
use crate::wire::Fired;

/// One contender, with the requests that were sent for it. It does not keep the session open.
pub(crate) struct Place {
    engine: Arc<Engine>,
    id: ContenderId,
    /// Never locked: whoever has the place alone polls it. The lock lets a guard, which has a place, be shared by threads.
    polled: Mutex<Polled>,
    has_left: bool,
}

/// What the contender waits for.
#[derive(Default)]
struct Polled {
    requests: FuturesUnordered<Request>,
    /// The watch of whoever is directly ahead. Dropped, it is taken back.
    watch: Option<Pin<Box<dyn Future<Output = Fired> + Send>>>,
}

/// What became of the node of a contender that has left.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Removal {
    Deleted,
    NothingThere,
    /// It stands for another's hold, and goes with that.
    Kept,
}

impl Place {
    pub(super) fn new(engine: Arc<Engine>, id: ContenderId) -> Self {
        Self { engine, id, polled: Mutex::default(), has_left: false }
    }

    pub(super) fn id(&self) -> ContenderId {
        self.id
    }

    /// Waits until the contender has a place in the queue.
    pub(super) async fn placed(&mut self) -> Result<Made, Error> {
        let placed = self.until(|state| match state {
            State::Placed => Some(Ok(())),
            State::Failed(outcome) | State::Over(outcome) => Some(Err(outcome)),
            _ => None,
        });
        placed.await?.map_err(|outcome| self.error(outcome))?;
        Ok(self.engine.core.lock().node(self.id))
    }

    /// Lets a contender that has a place wait for the grant.
    pub(super) fn wait(&self) {
        self.tell(Event::Waits(self.id));
    }

    /// Waits for the grant. `None`: somebody was in the way of a contender that does not wait.
    pub(super) async fn granted(&mut self) -> Result<Option<Granted>, Error> {
        let granted = self.until(|state| match state {
            State::Holding(grant) => Some(Ok(Some(grant))),
            State::Over(Outcome::InTheWay) => Some(Ok(None)),
            State::Failed(outcome) | State::Over(outcome) => Some(Err(outcome)),
            State::Leaving { is_refused: true } => Some(Err(Outcome::Refused)),
            State::Contending | State::Placed | State::Leaving { .. } | State::Kept => None,
        });
        let grant = granted.await?.map_err(|outcome| self.error(outcome))?;
        if let Some(watch) = self.polled.get_mut().watch.take() {
            // Whoever was ahead has passed its hold on, and the watch fires soon. To take it back would cost a request.
            tokio::spawn(watch);
        }
        Ok(grant.map(|grant| self.engine.granted(self.id, grant)))
    }

    /// Gives up what the contender wants, or lets go of what it has: its node is gone when this returns `Ok`, unless it was
    /// kept. `passes_on`: the hold goes to the contender of the session that is directly behind. After an error the deletion is
    /// tried again while this is called again.
    pub(crate) async fn leave(&mut self, passes_on: bool) -> Result<Removal, Error> {
        self.start_to_leave(passes_on, Sending::Now);
        let (engine, id) = (Arc::clone(&self.engine), self.id);
        let removal = self.until(|state| match state {
            State::Over(Outcome::Gone | Outcome::InTheWay) => Some(Ok(Removal::Deleted)),
            State::Over(_) => Some(Ok(Removal::NothingThere)),
            State::Kept => Some(Ok(Removal::Kept)),
            State::Leaving { is_refused: true } | State::Failed(_) => engine.take_refusal(id).map(Err),
            _ => None,
        });
        removal.await?
    }

    /// As [`leave`](Self::leave), where nothing can be sent or waited for. Whoever polls the place next goes on.
    pub(super) fn leave_later(&mut self) {
        self.start_to_leave(false, Sending::Later);
    }

    fn start_to_leave(&mut self, passes_on: bool, sending: Sending) {
        self.has_left = true;
        self.polled.get_mut().watch = None;
        self.engine.tell(self.id, Event::Leaves(self.id, passes_on), sending);
        self.engine.forget_proof(self.id);
    }

    /// Notes that the node of a holder was found to be gone.
    pub(super) fn note_missing_node(&self) {
        self.tell(Event::NodeMissed(self.id));
    }

    /// Waits for as long as the node of a contender that has left stands for another's hold.
    pub(crate) async fn while_kept(&mut self) -> Result<(), Error> {
        self.until(|state| (state != State::Kept).then_some(())).await
    }

    /// The path of the lock.
    pub(crate) fn lock_path(&self) -> &str {
        &self.engine.path
    }

    /// The path to name in messages: that of the node, or of the lock if there is none.
    fn path(&self) -> String {
        let core = self.engine.core.lock();
        match core.queue.node(self.id) {
            Some(made) => node::child(&self.engine.path, &made.name),
            None => self.engine.path.clone(),
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
                match self.poll_event(cx) {
                    Poll::Ready(Ok(event)) => self.tell(event),
                    Poll::Ready(Err(error)) => return Poll::Ready(Err(error)),
                    Poll::Pending => return Poll::Pending,
                }
            }
        })
        .await
    }

    /// What has happened to the contender.
    fn poll_event(&mut self, cx: &mut Context<'_>) -> Poll<Result<Event, Error>> {
        let Polled { requests, watch } = self.polled.get_mut();
        loop {
            if let Some(fired) = watch
                && let Poll::Ready(fired) = fired.as_mut().poll(cx)
            {
                *watch = None;
                return Poll::Ready(Ok(Event::Fired(self.id, fired == Fired::Deleted)));
            }
            let Poll::Ready(Some(answer)) = requests.poll_next_unpin(cx) else { return Poll::Pending };
            return Poll::Ready(match answer {
                Answer::Event(event) => Ok(event),
                Answer::Refused(event, error) => {
                    self.engine.note_refusal(self.id, error);
                    Ok(event)
                }
                Answer::Watching(event, set) => {
                    *watch = (!self.has_left).then(|| Box::pin(set.fired()) as _);
                    Ok(event)
                }
                Answer::WatchingParent(names, parent, set) => {
                    self.engine.keep_parent_watch(names, parent, set);
                    continue;
                }
                Answer::Proved(proof) => {
                    self.engine.note_proof(self.id, proof);
                    Ok(Event::Proved(self.id, Ok(())))
                }
                Answer::SessionEnded(error) => Err(error),
            });
        }
    }

    fn error(&self, outcome: Outcome) -> Error {
        match outcome {
            Outcome::NumbersExhausted(number) => {
                Error::NumbersExhausted { path: self.engine.path.clone(), number: number.get() }
            }
            Outcome::NodeDeleted => Error::NodeDeleted { path: self.path() },
            outcome => {
                self.engine.take_refusal(self.id).unwrap_or_else(|| unreachable!("BUG: {outcome:?} is no failure"))
            }
        }
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.engine.forget(self.id);
    }
}

impl fmt::Debug for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Place").field("lock", &self.engine.path).field("id", &self.id).finish_non_exhaustive()
    }
}
