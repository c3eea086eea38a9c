//! A member of a cohort, from its arrival to the end of its turn.
//!
//! The turn is a state of the machine, not a task. What comes with it, a place in the queue or a hold, is with the member that has
//! it, or between two members. A member that is dropped tells the machine, and the next member gets both. A member that
//! gives up leaves its place to the next one. Otherwise members with short deadlines would each queue anew, and their process
//! might never be granted the lock.

use std::future::poll_fn;
use std::sync::Arc;
use std::task::{Poll, Waker};

use futures_util::future::join;
use tokio::sync::Notify;
use zk_recipes_protocol::cohort::{Ask, Bounds, Event, MemberId, MemberState, Others, Reliance};

use crate::cohort::{Cohort, CohortCore, Turn, linger};
use crate::engine::Contender;
use crate::error::Error;
use crate::hold::state::HoldState;
use crate::hold::watch::HoldEnd;
use crate::hold::{Claim, Hold};
use crate::node;
use crate::session::replies::retry_lost_reply;
use crate::token::FencingToken;

/// A member of a cohort. It waits for its turn, has it, and passes it on. If it is dropped at any moment, the next member gets
/// its turn.
#[derive(Debug)]
pub(crate) struct Member {
    cohort: Arc<Cohort>,
    id: MemberId,
    /// Its state after its last event. While it is `Waits`, the turn may have come since.
    state: MemberState,
    turn: Turn,
    end: HoldEnd,
}

/// The session has ended, so there will be no more turns.
pub(crate) struct CohortClosed;

impl Member {
    /// Adds a member that waits for the turn.
    pub(crate) fn enter(cohort: &Arc<Cohort>, bounds: Bounds) -> Self {
        let mut core = cohort.core.lock();
        let id = core.members.enter(bounds);
        Self::new(cohort, &mut core, id)
    }

    /// Adds a member, if no other member has the turn. Returns `None` if one has.
    pub(crate) fn enter_at_once(cohort: &Arc<Cohort>, bounds: Bounds) -> Result<Option<Self>, CohortClosed> {
        let mut core = cohort.core.lock();
        let Some(id) = core.members.enter_at_once(bounds) else { return Ok(None) };
        match core.members.state(id) {
            MemberState::Closed => Err(CohortClosed),
            _ => Ok(Some(Self::new(cohort, &mut core, id))),
        }
    }

    fn new(cohort: &Arc<Cohort>, core: &mut CohortCore, id: MemberId) -> Self {
        let state = core.members.state(id);
        let mut turn = Turn::Begins;
        core.bring(id, &mut turn);
        Self { cohort: Arc::clone(cohort), id, state, turn, end: HoldEnd::default() }
    }

    /// Waits for the turn. Returns the state, which says what the member has to do with the turn.
    pub(crate) async fn state(&mut self) -> MemberState {
        poll_fn(|context| {
            if self.state == MemberState::Waits {
                let mut core = self.cohort.core.lock();
                self.state = core.members.state(self.id);
                if self.state == MemberState::Waits {
                    // Under the lock of the look at the state, so no turn comes in between unnoticed.
                    core.wakers.insert(self.id, context.waker().clone());
                    return Poll::Pending;
                }
                core.bring(self.id, &mut self.turn);
            }
            Poll::Ready(self.state)
        })
        .await
    }

    /// Notes the member's place in the queue.
    pub(crate) fn queue(&mut self, claim: Claim<Contender>) {
        self.turn = Turn::Queues(claim);
        self.tell(Event::Queues);
    }

    /// Waits for the grant of the member's place in the queue.
    pub(crate) async fn wait_for_grant(&mut self) -> Result<(), Error> {
        let Turn::Queues(claim) = &mut self.turn else { unreachable!("BUG: who does not queue waits for the grant") };
        // The claim stays in the turn during the wait: if the future is dropped, the next member gets the place.
        let granted = claim.granted().await?;
        let grant = granted.unwrap_or_else(|| unreachable!("BUG: a contender that waits has not"));
        if let Turn::Queues(claim) = std::mem::take(&mut self.turn) {
            self.note_hold(Hold::new(claim, grant));
        }
        Ok(())
    }

    /// Notes a hold that was granted.
    pub(crate) fn note_hold(&mut self, hold: Hold) {
        self.turn = Turn::Holds(Box::new(hold));
        self.tell(Event::Granted);
    }

    /// Waits until the hold that was handed over is held or lost. Gives it up if it is lost.
    pub(crate) async fn take(&mut self) {
        self.hold().settled().await;
        if self.tell(Event::Looked(self.reliance())).contains(&Ask::GiveUp) {
            self.turn = Turn::Begins;
        }
        if let MemberState::Holds { .. } = self.state {
            self.hold().note_handover(self.token());
        }
        // A task that takes a lingering hold again and again never waits. It must let the connection and the watch go on.
        tokio::task::consume_budget().await;
    }

    pub(crate) fn hold(&self) -> &Hold {
        match &self.turn {
            Turn::Holds(hold) => hold,
            Turn::Begins | Turn::Queues(_) => unreachable!("BUG: a guard of no hold"),
        }
    }

    /// Returns the fencing token of the holder.
    pub(crate) fn token(&self) -> FencingToken {
        let MemberState::Holds { handovers } = self.state else { unreachable!("BUG: a token of no holder") };
        self.hold().token().after_handovers(handovers)
    }

    /// Returns the end of this holder's turn.
    pub(crate) fn end(&self) -> &HoldEnd {
        &self.end
    }

    /// Passes the turn on unused, before anything came of it. The member is over then.
    pub(crate) fn pass_on(&mut self) {
        self.tell_of_the_end();
    }

    /// Passes the turn on, without the place or hold that has failed. Returns the error.
    pub(crate) fn fail(mut self, error: Error) -> Error {
        self.tell(Event::Fails);
        error
    }

    /// Hands the hold over to the next member, lets it linger, or releases it. Passes the turn on in all cases.
    pub(crate) async fn release(self) -> Result<(), Error> {
        self.release_as(Event::LetsGo).await
    }

    /// As [`release`](Self::release), for a hold that was not used. It does not linger. Otherwise each of two processes that want
    /// the same locks could keep one of them.
    pub(crate) async fn give_back(self) -> Result<(), Error> {
        self.release_as(Event::GivesBack).await
    }

    async fn release_as(mut self, event: impl FnOnce(Reliance) -> Event) -> Result<(), Error> {
        // Only a holder has a token, and the next event ends this holder's turn.
        let token = self.token();
        // Before the next member has the turn.
        self.end.tell();
        let mut asks = self.tell(event(self.reliance()));
        let others = match asks.first() {
            Some(Ask::LookForOthers) => Some(others(self.hold()).await),
            Some(Ask::WatchQueue) => Some(self.watch_queue().await),
            _ => None,
        };
        if let Some(others) = others {
            asks = self.tell(Event::SawOthers(others, self.reliance()));
        }
        if asks.contains(&Ask::Lose) {
            // Before the release, which must know that the name may belong to another node.
            self.hold().note_gone();
        }
        let hold = match std::mem::take(&mut self.turn) {
            Turn::Holds(hold) if asks.contains(&Ask::Release) => hold,
            _ => return Ok(()),
        };
        let released = hold.release(token).await;
        self.tell(Event::Released);
        released
    }

    /// Passes the turn on unused, with the place in the queue or the hold that came with it. If no member takes it, its node is
    /// deleted.
    pub(crate) async fn give_up(mut self) -> Result<(), Error> {
        let asks = self.tell_of_the_end();
        match std::mem::take(&mut self.turn) {
            Turn::Queues(mut claim) if asks.contains(&Ask::GiveUp) => claim.withdraw().await,
            Turn::Holds(hold) if asks.contains(&Ask::GiveUp) => hold.withdraw().await,
            _ => Ok(()),
        }
    }

    /// Looks for other contenders and for a request for the lock, and watches for them in a task of the session.
    async fn watch_queue(&self) -> Others {
        let Ok(permit) = Arc::clone(&self.cohort.linger_permits).try_acquire_owned() else { return Others::Unknown };
        let (others, watches) = linger::watch_queue(self.hold()).await;
        if let Some(watches) = watches {
            let cohort = Arc::downgrade(&self.cohort);
            let kept = Arc::<Notify>::default();
            let mut core = self.cohort.core.lock();
            // The task of an earlier hold may still wait, and must not take the notifications for this one.
            core.kept = Arc::clone(&kept);
            core.next_check = None;
            drop(core);
            self.hold().session().remote().spawn(linger::attend(cohort, self.id, watches, kept, permit));
        }
        others
    }

    fn reliance(&self) -> Reliance {
        match &self.turn {
            Turn::Holds(hold) => match hold.state() {
                HoldState::Held => Reliance::Sure,
                HoldState::Suspect => Reliance::Suspect,
                HoldState::Lost(_) => Reliance::Lost,
            },
            Turn::Begins | Turn::Queues(_) => Reliance::Sure,
        }
    }

    fn tell_of_the_end(&mut self) -> Vec<Ask> {
        self.end.tell();
        self.tell(Event::Leaves(self.reliance()))
    }

    /// Tells the cohort of an event, and returns the remaining asks. If the turn passes on, the next member gets the place or
    /// hold, unless this member has to release it or give it up. A hold that lingers stays with the cohort.
    fn tell(&mut self, event: Event) -> Vec<Ask> {
        let mut core = self.cohort.core.lock();
        // The turn may have come without a poll since. What came with it must be passed on, too.
        core.bring(self.id, &mut self.turn);
        if self.state == MemberState::Waits {
            core.wakers.remove(&self.id);
        }
        let CohortCore { members, wakers, passed, kept, next_check, asks } = &mut *core;
        members.on(self.id, event, self.cohort.now(), asks);
        self.state = members.state(self.id);
        let next = asks.iter().find_map(|ask| if let Ask::Wake(next) = ask { Some(*next) } else { None });
        let lingers = asks.contains(&Ask::Keep);
        if lingers {
            self.hold().note_lingering();
            if next_check.is_none() || members.lingers_until() < *next_check {
                kept.notify_one();
            }
        }
        if lingers || (next.is_some() && !asks.iter().any(|ask| matches!(ask, Ask::Release | Ask::GiveUp))) {
            *passed = std::mem::take(&mut self.turn);
        }
        let woken = next.and_then(|next| wakers.remove(&next));
        let to_do = asks.drain(..).filter(|ask| !matches!(ask, Ask::Wake(_))).collect();
        drop(core);
        woken.into_iter().for_each(Waker::wake);
        to_do
    }
}

impl Drop for Member {
    fn drop(&mut self) {
        // A member that has passed the turn on has nothing to tell.
        if self.state != MemberState::Closed {
            self.tell_of_the_end();
        }
    }
}

/// Looks for other contenders. Both requests are one round trip.
///
/// The number of children alone is not enough. If somebody deletes the holder's node, another contender may be granted the lock
/// and be the only child. Without the second request, the cohort would then go on holding while its members wait.
async fn others(hold: &Hold) -> Others {
    let wire = hold.session().wire();
    let path = hold.path();
    let Some(parent) = node::parent(path) else { return Others::Unknown };
    let siblings = retry_lost_reply(|| wire.stat(parent));
    let own = retry_lost_reply(|| wire.stat(path));
    match join(siblings, own).await {
        (Ok(_), Ok(own)) if own.is_none_or(|own| own.czxid != hold.czxid()) => Others::OwnNodeGone,
        (Ok(Some(parent)), Ok(_)) => u32::try_from(parent.num_children).map_or(Others::Unknown, Others::Children),
        _ => Others::Unknown,
    }
}
