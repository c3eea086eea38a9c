//! The right to deal with the server for all contenders of one process, and what it has there. Dropped anywhere, it goes
//! to the next.

use std::sync::Arc;
use std::time::Instant;

use futures_util::future::join;
use parking_lot::Mutex;
use tokio::sync::oneshot;
use zk_recipes_protocol::cohort::{Bounds, Entry, Standing, Step, Turns};

use crate::engine::{Contender, Granted};
use crate::error::Error;
use crate::hold::guard::{Hold, HoldState};
use crate::hold::token::FencingToken;
use crate::node;
use crate::session::wire::retry_lost_reply;

/// The contenders of one session for one lock.
#[derive(Debug, Default)]
pub(crate) struct Cohort {
    turns: Mutex<Turns<oneshot::Sender<Turn>>>,
}

/// The turn of one contender of a cohort, of which there is one at a time. Dropped, it passes to the next.
#[derive(Debug)]
pub(crate) struct Turn {
    cohort: Arc<Cohort>,
    stage: Stage,
    /// Whether it is still to be passed on.
    is_had: bool,
}

/// What comes with a turn.
#[derive(Debug, Default)]
pub(crate) enum Stage {
    #[default]
    Nothing,
    /// Whoever gives up waiting for the grant leaves the contender to the next.
    Queued(Box<Contender>),
    Held(Box<Tenure>),
}

/// A hold of the lock's node, by one holder after the other.
#[derive(Debug)]
pub(crate) struct Tenure {
    hold: Hold,
    /// How often it was handed over.
    handovers: u64,
    /// How often since the grant, or since nobody else was found to wait.
    handovers_unasked: u32,
    /// When that was.
    unasked_since: Instant,
    /// Those of the present holder.
    bounds: Bounds,
}

/// What became of a hold whose holder let go.
enum LetGo {
    HandedOver,
    Ask(Turn),
    Release(Turn),
}

/// One who waits for a turn.
struct Waiting<'a> {
    cohort: &'a Cohort,
    receiver: oneshot::Receiver<Turn>,
    is_over: bool,
}

impl Cohort {
    /// Tells everybody who waits, behind a holder that may never let go, that there will be no more turns: the session has
    /// ended.
    pub(crate) fn close(&self) {
        // Dropped when nothing is locked any more.
        let told = self.turns.lock().close();
        drop(told);
    }

    /// Waits for a turn.
    pub(crate) async fn turn(self: &Arc<Self>) -> Result<Turn, Ended> {
        let receiver = {
            let mut turns = self.turns.lock();
            match turns.take() {
                Entry::Turn => return Ok(Turn::new(self)),
                Entry::Closed => return Err(Ended),
                Entry::Wait => {
                    let (sender, receiver) = oneshot::channel();
                    turns.wait(sender);
                    receiver
                }
            }
        };
        let mut waiting = Waiting { cohort: self, receiver, is_over: false };
        let turn = (&mut waiting.receiver).await;
        waiting.is_over = true;
        turn.map_err(|_| Ended)
    }

    /// The turn, if nobody has it; `None` when somebody has.
    pub(crate) fn try_turn(self: &Arc<Self>) -> Result<Option<Turn>, Ended> {
        let entry = self.turns.lock().take();
        match entry {
            Entry::Turn => Ok(Some(Turn::new(self))),
            Entry::Wait => Ok(None),
            Entry::Closed => Err(Ended),
        }
    }
}

/// That there will be no more turns, as the session has ended.
pub(crate) struct Ended;

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        if self.is_over {
            return;
        }
        self.receiver.close();
        match self.receiver.try_recv() {
            // It came at this very moment, and goes to the next.
            Ok(turn) => drop(turn),
            Err(_) => self.cohort.turns.lock().note_gone(oneshot::Sender::is_closed),
        }
    }
}

impl Turn {
    fn new(cohort: &Arc<Cohort>) -> Self {
        Self { cohort: Arc::clone(cohort), stage: Stage::Nothing, is_had: true }
    }

    pub(crate) fn stage(&mut self) -> &mut Stage {
        &mut self.stage
    }

    /// Lets go of what came with it: what may be on the server is left to the reaper.
    pub(crate) fn clear(&mut self) {
        self.stage = Stage::Nothing;
    }

    /// Passes the turn on without what has failed, and returns why it has.
    pub(crate) fn fail(mut self, error: Error) -> Error {
        self.clear();
        error
    }

    /// Notes what is about to be created.
    pub(crate) fn queue(&mut self, contender: Contender) {
        self.stage = Stage::Queued(Box::new(contender));
    }

    /// Notes that the contender in the queue was granted the lock.
    pub(crate) fn granted(&mut self, granted: Granted, bounds: Bounds) {
        match std::mem::take(&mut self.stage) {
            Stage::Queued(contender) => self.hold(Hold::of(*contender, granted), bounds),
            Stage::Nothing | Stage::Held(_) => unreachable!("BUG: a grant to who does not queue"),
        }
    }

    /// Notes a hold that was granted.
    pub(crate) fn hold(&mut self, hold: Hold, bounds: Bounds) {
        let tenure = Tenure { hold, handovers: 0, handovers_unasked: 0, unasked_since: Instant::now(), bounds };
        self.stage = Stage::Held(Box::new(tenure));
    }

    pub(crate) fn tenure(&self) -> &Tenure {
        match &self.stage {
            Stage::Held(tenure) => tenure,
            Stage::Nothing | Stage::Queued(_) => unreachable!("BUG: a guard of no hold"),
        }
    }

    fn take_hold(&mut self) -> Hold {
        match std::mem::take(&mut self.stage) {
            Stage::Held(tenure) => tenure.hold,
            Stage::Nothing | Stage::Queued(_) => unreachable!("BUG: a guard of no hold"),
        }
    }

    /// Hands the lock over to the next, or releases it. The turn passes on in any case.
    ///
    /// # Errors
    /// As [`LockGuard::release`](crate::LockGuard::release).
    ///
    /// # Cancel safety
    /// Dropped, the next goes on with the turn, and what is there of the node is left to the reaper.
    pub(crate) async fn release(self) -> Result<(), Error> {
        let mut turn = match self.let_go(None) {
            LetGo::HandedOver => return Ok(()),
            LetGo::Release(turn) => turn,
            LetGo::Ask(mut turn) => {
                let is_alone = match &mut turn.stage {
                    Stage::Held(tenure) => tenure.find_alone().await,
                    Stage::Nothing | Stage::Queued(_) => unreachable!("BUG: a guard of no hold"),
                };
                match turn.let_go(Some(is_alone)) {
                    LetGo::HandedOver => return Ok(()),
                    LetGo::Ask(turn) | LetGo::Release(turn) => turn,
                }
            }
        };
        let hold = turn.take_hold();
        if matches!(hold.state(), HoldState::Lost(_)) {
            // Nobody need wait for what is left of it.
            drop(turn);
            return hold.release().await;
        }
        let released = hold.release().await;
        drop(turn);
        released
    }

    /// Passes the turn on unused, with the place in the queue or the hold that it may have. What nobody takes is deleted.
    ///
    /// # Errors
    /// As [`Contender::withdraw`].
    pub(crate) async fn give_up(self) -> Result<(), Error> {
        match self.pass_on() {
            Stage::Queued(contender) => contender.withdraw().await,
            Stage::Held(tenure) => tenure.hold.into_contender().withdraw().await,
            Stage::Nothing => Ok(()),
        }
    }

    /// Hands the hold over, if somebody waits for it and may have it.
    fn let_go(mut self, is_alone: Option<bool>) -> LetGo {
        let standing = self.tenure().standing(is_alone);
        loop {
            let step = self.cohort.turns.lock().let_go(standing);
            match step {
                Step::HandOver(next) => match next.send(self) {
                    Ok(()) => return LetGo::HandedOver,
                    Err(back) => self = back,
                },
                Step::Ask => return LetGo::Ask(self),
                Step::Release => return LetGo::Release(self),
            }
        }
    }

    /// Passes the turn to the next who is still there, and returns what nobody took.
    fn pass_on(mut self) -> Stage {
        loop {
            let next = self.cohort.turns.lock().pass();
            let Some(next) = next else {
                self.is_had = false;
                return std::mem::take(&mut self.stage);
            };
            match next.send(self) {
                Ok(()) => return Stage::Nothing,
                Err(back) => self = back,
            }
        }
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        if !std::mem::replace(&mut self.is_had, false) {
            return;
        }
        let stage = std::mem::take(&mut self.stage);
        let mut turn = Self { cohort: Arc::clone(&self.cohort), stage, is_had: true };
        match &turn.stage {
            // Nobody can be asked here.
            Stage::Held(_) => match turn.let_go(Some(false)) {
                LetGo::HandedOver => return,
                LetGo::Ask(mut back) | LetGo::Release(mut back) => {
                    back.clear();
                    turn = back;
                }
            },
            Stage::Queued(_) | Stage::Nothing => {}
        }
        drop(turn.pass_on());
    }
}

impl Tenure {
    pub(crate) fn hold(&self) -> &Hold {
        &self.hold
    }

    /// The fencing token of the present holder.
    pub(crate) fn token(&self) -> FencingToken {
        self.hold.token().after_handovers(self.handovers)
    }

    /// Notes that somebody holds to whom it was handed over.
    pub(crate) fn handed_over(&mut self, bounds: Bounds) {
        self.handovers += 1;
        self.handovers_unasked = self.handovers_unasked.saturating_add(1);
        self.bounds = bounds;
    }

    fn standing(&self, is_alone: Option<bool>) -> Standing {
        Standing {
            is_lost: matches!(self.hold.state(), HoldState::Lost(_)),
            is_within_bounds: self.bounds.allow(self.handovers_unasked, self.unasked_since.elapsed()),
            is_alone,
        }
    }

    /// Asks whether our node is there and the only one, and notes what it finds. Who cannot tell is not alone.
    async fn find_alone(&mut self) -> bool {
        let (session, path) = (self.hold.session(), self.hold.path());
        let Some(parent) = node::parent(path) else { return false };
        // Both in one round trip. The parent alone would leave a holder whose node was deleted by hand, and replaced by
        // the one of whoever was let in by that, holding for as long as somebody waits here.
        let siblings = retry_lost_reply(|| session.wire().stat(parent));
        let own = retry_lost_reply(|| session.wire().stat(path));
        let (Ok(siblings), Ok(own)) = join(siblings, own).await else { return false };
        if own.is_none_or(|own| own.czxid != self.hold.token().get()) {
            self.hold.note_gone();
            return false;
        }
        let is_alone = siblings.is_some_and(|parent| parent.num_children == 1);
        if is_alone {
            self.handovers_unasked = 0;
            self.unasked_since = Instant::now();
        }
        is_alone
    }
}
