//! The contenders of one session for one lock, of whom one at a time deals with the server. What they do is decided by the state
//! machine of [`zk_recipes_protocol::cohort`].

use std::collections::HashMap;
use std::future::poll_fn;
use std::sync::Arc;
use std::task::{Poll, Waker};
use std::time::Instant;

use futures_util::future::join;
use parking_lot::Mutex;
use zk_recipes_protocol::cohort::{self, Ask, Bounds, Event, MemberId, Others, Reliance, State};

use crate::engine::Contender;
use crate::error::Error;
use crate::hold::guard::{Hold, HoldState};
use crate::hold::token::FencingToken;
use crate::node;
use crate::session::wire::retry_lost_reply;

/// The contenders of one session for one lock.
#[derive(Debug)]
pub(crate) struct Cohort {
    began: Instant,
    core: Mutex<Core>,
}

#[derive(Debug, Default)]
struct Core {
    members: cohort::Cohort,
    /// Those who wait to be told that they have the turn.
    wakers: HashMap<MemberId, Waker>,
    /// What comes with the turn, until whoever has it now takes it.
    passed: Had,
}

/// A member of a cohort, which waits for its turn, has it, and passes it on. Dropped anywhere, its turn goes to the next.
#[derive(Debug)]
pub(crate) struct Turn {
    cohort: Arc<Cohort>,
    id: MemberId,
    had: Had,
    /// How often the hold was handed over before.
    handovers: u64,
}

/// What comes with a turn.
#[derive(Debug, Default)]
enum Had {
    #[default]
    Nothing,
    /// A place in the lock's queue. Whoever gives up waiting for the grant leaves it to the next.
    Place(Box<Contender>),
    Hold(Box<Hold>),
}

/// That there will be no more turns, as the session has ended.
pub(crate) struct Ended;

impl Default for Cohort {
    fn default() -> Self {
        Self { began: Instant::now(), core: Mutex::default() }
    }
}

impl Cohort {
    /// Tells everybody who waits, behind a holder that may never let go, that there will be no more turns: the session has
    /// ended.
    pub(crate) fn close(&self) {
        let mut core = self.core.lock();
        let mut asks = Vec::new();
        core.members.close(&mut asks);
        let woken = core.take_wakers(&mut asks);
        drop(core);
        woken.into_iter().for_each(Waker::wake);
    }

    /// Begins to wait for a turn.
    pub(crate) fn enter(self: &Arc<Self>, bounds: Bounds) -> Turn {
        let id = self.core.lock().members.enter(bounds);
        Turn::new(self, id)
    }

    /// The turn, if nobody has it; `None` when somebody has.
    pub(crate) fn enter_at_once(self: &Arc<Self>, bounds: Bounds) -> Result<Option<Turn>, Ended> {
        let mut core = self.core.lock();
        match core.members.enter_at_once(bounds) {
            Some(id) if core.members.state(id) == State::Closed => Err(Ended),
            id => Ok(id.map(|id| Turn::new(self, id))),
        }
    }
}

impl Core {
    /// Brings what came with the turn to whoever has the turn now.
    fn bring(&mut self, id: MemberId, had: &mut Had) {
        if matches!(had, Had::Nothing) && !matches!(self.members.state(id), State::Waits | State::Closed) {
            *had = std::mem::take(&mut self.passed);
        }
    }

    /// Takes out of the asks whom to wake, when nothing is locked any more.
    fn take_wakers(&mut self, asks: &mut Vec<Ask>) -> Vec<Waker> {
        let mut woken = Vec::new();
        asks.retain(|ask| match ask {
            Ask::Wake(id) => {
                woken.extend(self.wakers.remove(id));
                false
            }
            _ => true,
        });
        woken
    }
}

impl Turn {
    fn new(cohort: &Arc<Cohort>, id: MemberId) -> Self {
        Self { cohort: Arc::clone(cohort), id, had: Had::Nothing, handovers: 0 }
    }

    /// Waits for the turn, and tells what to do with it.
    pub(crate) async fn state(&mut self) -> State {
        poll_fn(|context| {
            let mut core = self.cohort.core.lock();
            let state = core.members.state(self.id);
            match state {
                State::Waits => {
                    core.wakers.insert(self.id, context.waker().clone());
                    return Poll::Pending;
                }
                State::Holds { handovers } => self.handovers = handovers,
                _ => {}
            }
            core.bring(self.id, &mut self.had);
            Poll::Ready(state)
        })
        .await
    }

    /// Notes the place in the queue that it has.
    pub(crate) fn queue(&mut self, contender: Contender) {
        self.had = Had::Place(Box::new(contender));
        self.tell(Event::Queues);
    }

    /// Waits for the grant of its place in the queue.
    pub(crate) async fn wait_for_grant(&mut self) -> Result<(), Error> {
        let Had::Place(contender) = &mut self.had else { unreachable!("BUG: who does not queue waits for the grant") };
        let granted = contender.granted().await?;
        let granted = granted.unwrap_or_else(|| unreachable!("BUG: a contender that waits has not"));
        if let Had::Place(contender) = std::mem::take(&mut self.had) {
            self.hold_by(Hold::of(*contender, granted));
        }
        Ok(())
    }

    /// Notes a hold that was granted.
    pub(crate) fn hold_by(&mut self, hold: Hold) {
        self.had = Had::Hold(Box::new(hold));
        self.tell(Event::Granted);
    }

    /// Waits until it is known whether the hold that was handed over can be relied on.
    pub(crate) async fn take(&mut self) {
        self.hold().settled().await;
        if self.tell(Event::Looked(self.reliance())).contains(&Ask::GiveUp) {
            self.had = Had::Nothing;
        }
    }

    pub(crate) fn hold(&self) -> &Hold {
        match &self.had {
            Had::Hold(hold) => hold,
            Had::Nothing | Had::Place(_) => unreachable!("BUG: a guard of no hold"),
        }
    }

    /// The fencing token of the holder.
    pub(crate) fn token(&self) -> FencingToken {
        self.hold().token().after_handovers(self.handovers)
    }

    /// Passes the turn on without what has failed, and returns why it has.
    pub(crate) fn fail(mut self, error: Error) -> Error {
        self.tell(Event::Fails);
        error
    }

    /// Hands the lock over to the next, or releases it. The turn passes on in any case.
    ///
    /// # Errors
    /// As [`LockGuard::release`](crate::LockGuard::release).
    ///
    /// # Cancel safety
    /// Dropped, the next goes on with the turn, and what is there of the node is left to the reaper.
    pub(crate) async fn release(mut self) -> Result<(), Error> {
        let mut asks = self.tell(Event::LetsGo(self.reliance()));
        if asks.contains(&Ask::LookForOthers) {
            let others = others(self.hold()).await;
            asks = self.tell(Event::SawOthers(others, self.reliance()));
        }
        if asks.contains(&Ask::Lose) {
            self.hold().note_gone();
        }
        let hold = match std::mem::take(&mut self.had) {
            Had::Hold(hold) if asks.contains(&Ask::Release) => hold,
            _ => return Ok(()),
        };
        let released = hold.release().await;
        self.tell(Event::Released);
        released
    }

    /// Passes the turn on unused, with the place in the queue or the hold that it may have. What nobody takes is deleted.
    ///
    /// # Errors
    /// As [`Contender::withdraw`].
    pub(crate) async fn give_up(mut self) -> Result<(), Error> {
        let asks = self.tell_of_the_end();
        match std::mem::take(&mut self.had) {
            Had::Place(contender) if asks.contains(&Ask::GiveUp) => contender.withdraw().await,
            Had::Hold(hold) if asks.contains(&Ask::GiveUp) => hold.into_contender().withdraw().await,
            _ => Ok(()),
        }
    }

    fn reliance(&self) -> Reliance {
        match &self.had {
            Had::Hold(hold) => match hold.state() {
                HoldState::Held => Reliance::Sure,
                HoldState::Suspect => Reliance::Suspect,
                HoldState::Lost(_) => Reliance::Lost,
            },
            Had::Nothing | Had::Place(_) => Reliance::Sure,
        }
    }

    fn tell_of_the_end(&mut self) -> Vec<Ask> {
        self.tell(Event::Leaves(self.reliance()))
    }

    /// Tells of an event. What comes with the turn goes on with it, unless this member is to release it or to give it up.
    fn tell(&mut self, event: Event) -> Vec<Ask> {
        let mut asks = Vec::new();
        let mut core = self.cohort.core.lock();
        core.bring(self.id, &mut self.had);
        core.members.on(self.id, event, self.cohort.began.elapsed(), &mut asks);
        core.wakers.remove(&self.id);
        let is_kept = asks.iter().any(|ask| matches!(ask, Ask::Release | Ask::GiveUp));
        if !is_kept && asks.iter().any(|ask| matches!(ask, Ask::Wake(_))) {
            core.passed = std::mem::take(&mut self.had);
        }
        let woken = core.take_wakers(&mut asks);
        drop(core);
        woken.into_iter().for_each(Waker::wake);
        asks
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        self.tell_of_the_end();
    }
}

/// Who else is there. Both requests are one round trip.
///
/// The parent alone would leave a holder whose node was deleted by hand, and replaced by the one of whoever was let in by that,
/// holding for as long as somebody waits here.
async fn others(hold: &Hold) -> Others {
    let (wire, path) = (hold.session().wire(), hold.path());
    let Some(parent) = node::parent(path) else { return Others::Unknown };
    let siblings = retry_lost_reply(|| wire.stat(parent));
    let own = retry_lost_reply(|| wire.stat(path));
    match join(siblings, own).await {
        (Ok(_), Ok(own)) if own.is_none_or(|own| own.czxid != hold.token().get()) => Others::OwnNodeGone,
        (Ok(Some(parent)), Ok(_)) => u32::try_from(parent.num_children).map_or(Others::Unknown, Others::Children),
        _ => Others::Unknown,
    }
}
