//! The contenders of one session for one lock. One of them at a time deals with the server. The state machine of
//! [`zk_recipes_protocol::cohort`] decides what they do.

use std::collections::BTreeMap;
use std::future::poll_fn;
use std::sync::Arc;
use std::task::{Poll, Waker};
use std::time::Instant;

use futures_util::future::join;
use parking_lot::Mutex;
use zk_recipes_protocol::cohort::{self, Ask, Bounds, Event, MemberId, Others, Reliance, State};

use crate::engine::Contender;
use crate::error::Error;
use crate::hold::held::Hold;
use crate::hold::state::HoldState;
use crate::hold::watch::{HoldEnd, HoldWatch};
use crate::node;
use crate::session::replies::retry_lost_reply;
use crate::token::FencingToken;

/// The contenders of one session for one lock.
#[derive(Debug)]
pub(crate) struct Cohort {
    began: Instant,
    core: Mutex<Core>,
}

#[derive(Debug, Default)]
struct Core {
    members: cohort::Cohort,
    /// The wakers of the members that wait for the turn.
    wakers: BTreeMap<MemberId, Waker>,
    /// What comes with the turn, until the member that has the turn now takes it.
    passed: Had,
    /// The asks of the last event.
    asks: Vec<Ask>,
}

/// A member of a cohort. It waits for its turn, has it, and passes it on. If it is dropped at any moment, the next member gets
/// its turn.
#[derive(Debug)]
pub(crate) struct Turn {
    cohort: Arc<Cohort>,
    id: MemberId,
    /// Its state after its last event. While it is `Waits`, the turn may have come since.
    state: State,
    had: Had,
    end: HoldEnd,
}

/// What comes with a turn.
#[derive(Debug, Default)]
enum Had {
    #[default]
    Nothing,
    /// A place in the lock's queue. A member that gives up waiting for the grant leaves it to the next member.
    Place(Box<Contender>),
    Hold(Box<Hold>),
}

/// The session has ended, so there will be no more turns.
pub(crate) struct Ended;

impl Default for Cohort {
    fn default() -> Self {
        Self { began: Instant::now(), core: Mutex::default() }
    }
}

impl Cohort {
    /// Ends all waiting, because the session has ended. Wakes the members that wait, even if the holder ahead of them never
    /// releases.
    pub(crate) fn close(&self) {
        let mut core = self.core.lock();
        let mut asks = Vec::new();
        core.members.close(&mut asks);
        let woken = std::mem::take(&mut core.wakers);
        drop(core);
        woken.into_values().for_each(Waker::wake);
    }

    /// Adds a member that waits for the turn.
    pub(crate) fn enter(self: &Arc<Self>, bounds: Bounds) -> Turn {
        let mut core = self.core.lock();
        let id = core.members.enter(bounds);
        Turn::new(self, id, core.members.state(id))
    }

    /// Adds a member, if no other member has the turn. Returns `None` if one has.
    pub(crate) fn enter_at_once(self: &Arc<Self>, bounds: Bounds) -> Result<Option<Turn>, Ended> {
        let mut core = self.core.lock();
        let Some(id) = core.members.enter_at_once(bounds) else { return Ok(None) };
        match core.members.state(id) {
            State::Closed => Err(Ended),
            state => Ok(Some(Turn::new(self, id, state))),
        }
    }
}

impl Core {
    /// Moves what came with the turn to the member, if the member has the turn now.
    fn bring(&mut self, id: MemberId, had: &mut Had) {
        if matches!(had, Had::Nothing) && !matches!(self.members.state(id), State::Waits | State::Closed) {
            *had = std::mem::take(&mut self.passed);
        }
    }
}

impl Turn {
    fn new(cohort: &Arc<Cohort>, id: MemberId, state: State) -> Self {
        Self { cohort: Arc::clone(cohort), id, state, had: Had::Nothing, end: HoldEnd::default() }
    }

    /// Waits for the turn. Returns the state, which says what the member has to do with the turn.
    pub(crate) async fn state(&mut self) -> State {
        poll_fn(|context| {
            if self.state == State::Waits {
                let mut core = self.cohort.core.lock();
                self.state = core.members.state(self.id);
                if self.state == State::Waits {
                    core.wakers.insert(self.id, context.waker().clone());
                    return Poll::Pending;
                }
                core.bring(self.id, &mut self.had);
            }
            Poll::Ready(self.state)
        })
        .await
    }

    /// Notes the member's place in the queue.
    pub(crate) fn queue(&mut self, contender: Contender) {
        self.had = Had::Place(Box::new(contender));
        self.tell(Event::Queues);
    }

    /// Waits for the grant of the member's place in the queue.
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

    /// Waits until the hold that was handed over is held or lost. Gives it up if it is lost.
    pub(crate) async fn take(&mut self) {
        self.hold().settled().await;
        if self.tell(Event::Looked(self.reliance())).contains(&Ask::GiveUp) {
            self.had = Had::Nothing;
        }
        if let State::Holds { .. } = self.state {
            self.hold().note_handover(self.token());
        }
    }

    pub(crate) fn hold(&self) -> &Hold {
        match &self.had {
            Had::Hold(hold) => hold,
            Had::Nothing | Had::Place(_) => unreachable!("BUG: a guard of no hold"),
        }
    }

    /// Returns the fencing token of the holder.
    pub(crate) fn token(&self) -> FencingToken {
        let State::Holds { handovers } = self.state else { unreachable!("BUG: a token of no holder") };
        self.hold().token().after_handovers(handovers)
    }

    /// Returns a watch of the hold that ends with the turn of this holder.
    pub(crate) fn watch(&self) -> HoldWatch {
        self.hold().watch_until(&self.end)
    }

    /// Passes the turn on, without the place or hold that has failed. Returns the error.
    pub(crate) fn fail(mut self, error: Error) -> Error {
        self.tell(Event::Fails);
        error
    }

    /// Hands the hold over to the next member, or releases it. Passes the turn on in both cases.
    ///
    /// # Errors
    /// As [`LockGuard::release`](crate::LockGuard::release).
    ///
    /// # Cancel safety
    /// If the future is dropped, the next member gets the turn. If a node is left, the reaper deletes it.
    pub(crate) async fn release(mut self) -> Result<(), Error> {
        let token = self.token();
        // Before the next member has the turn.
        self.end.tell();
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
        let released = hold.release_by(token).await;
        self.tell(Event::Released);
        released
    }

    /// Passes the turn on unused, with the place in the queue or the hold that came with it. If no member takes it, its node is
    /// deleted.
    ///
    /// # Errors
    /// As [`Contender::withdraw`].
    pub(crate) async fn give_up(mut self) -> Result<(), Error> {
        let asks = self.tell_of_the_end();
        match std::mem::take(&mut self.had) {
            Had::Place(mut contender) if asks.contains(&Ask::GiveUp) => contender.withdraw().await,
            Had::Hold(hold) if asks.contains(&Ask::GiveUp) => hold.withdraw().await,
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
        self.end.tell();
        self.tell(Event::Leaves(self.reliance()))
    }

    /// Tells the cohort of an event, and returns the remaining asks. If the turn passes on, the place or hold goes with it,
    /// unless this member has to release it or give it up.
    fn tell(&mut self, event: Event) -> Vec<Ask> {
        let mut core = self.cohort.core.lock();
        core.bring(self.id, &mut self.had);
        if self.state == State::Waits {
            core.wakers.remove(&self.id);
        }
        let Core { members, wakers, passed, asks } = &mut *core;
        members.on(self.id, event, self.cohort.began.elapsed(), asks);
        self.state = members.state(self.id);
        let next = asks.iter().find_map(|ask| if let Ask::Wake(next) = ask { Some(*next) } else { None });
        if next.is_some() && !asks.iter().any(|ask| matches!(ask, Ask::Release | Ask::GiveUp)) {
            *passed = std::mem::take(&mut self.had);
        }
        let woken = next.and_then(|next| wakers.remove(&next));
        let to_do = asks.drain(..).filter(|ask| !matches!(ask, Ask::Wake(_))).collect();
        drop(core);
        woken.into_iter().for_each(Waker::wake);
        to_do
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        // A member that has passed the turn on has nothing to tell.
        if self.state != State::Closed {
            self.tell_of_the_end();
        }
    }
}

/// Looks for other contenders. Both requests are one round trip.
///
/// The number of children alone is not enough. If somebody deletes the holder's node, another contender may be granted the lock
/// and be the only child. Without the second request, the cohort would then go on holding while its members wait.
async fn others(hold: &Hold) -> Others {
    let (wire, path) = (hold.session().wire(), hold.path());
    let Some(parent) = node::parent(path) else { return Others::Unknown };
    let siblings = retry_lost_reply(|| wire.stat(parent));
    let own = retry_lost_reply(|| wire.stat(path));
    match join(siblings, own).await {
        (Ok(_), Ok(own)) if own.is_none_or(|own| own.czxid != hold.token().czxid()) => Others::OwnNodeGone,
        (Ok(Some(parent)), Ok(_)) => u32::try_from(parent.num_children).map_or(Others::Unknown, Others::Children),
        _ => Others::Unknown,
    }
}
