//! A cohort, as a state machine: the contenders of one session for one lock. One of them at a time deals with the server.
//!
//! The others wait in memory. The member with the *turn* queues for the lock, holds it, and passes the turn on. It may pass the
//! hold on with the turn, which needs no request. Otherwise the next member queues anew. Consecutive hand-overs are bounded
//! ([`Bounds`]), because other processes wait, too.
//!
//! The shell keeps what comes with the turn: a place in the queue or a hold. It carries out the asks of one event in their order,
//! and reports their results as further events of the same member. With [`Ask::Wake`], the place or hold passes to the woken
//! member, unless the same event asks to release it or to give it up.

use std::collections::BTreeMap;
use std::time::Duration;

/// The identity of one contender of a cohort.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct MemberId(u64);

/// How long a cohort may hand the lock over before it looks for other processes that wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Bounds {
    /// Upper bound of consecutive hand-overs.
    pub max_handovers: u32,
    /// Upper bound of their duration.
    pub max_tenure: Duration,
}

/// The contenders of one session for one lock.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Cohort {
    next_id: u64,
    /// The members that wait for the turn, each with its bounds. First come, first served.
    waiting: BTreeMap<MemberId, Bounds>,
    turn: Option<Turn>,
    is_closed: bool,
}

/// The member that has the turn, and its stage.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Turn {
    of: MemberId,
    bounds: Bounds,
    stage: Stage,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Stage {
    /// It has nothing but the turn.
    Begins,
    /// It has a place in the lock's queue.
    Queues,
    /// Another member's hold was handed over to it. It does not rely on the hold yet.
    Takes(Tenure),
    Holds(Tenure),
    /// It releases, and asks whether other contenders wait for the lock.
    Looks(Tenure),
    /// Its node is being deleted.
    Releases,
}

/// A hold that is handed over from member to member.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Tenure {
    /// Hand-overs since the grant.
    handovers: u64,
    /// Hand-overs since the grant, or since the last look that found no other contender.
    handovers_unasked: u32,
    /// The time of that grant or look.
    unasked_since: Duration,
}

/// The state of a member.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum State {
    /// It waits for the turn.
    Waits,
    /// It has nothing but the turn. It has to queue for the lock.
    Begins,
    /// It has the turn, and waits in the lock's queue.
    Queues,
    /// It has the turn, and another member's hold. It has to wait until the shell knows whether the hold can be relied on.
    Takes,
    /// It holds.
    Holds {
        /// Earlier hand-overs of this hold.
        handovers: u64,
    },
    /// It releases.
    LetsGo,
    /// It will never have the turn: the session has ended.
    Closed,
}

/// How far a hold can be relied on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Reliance {
    /// It is sure.
    Sure,
    /// It may be lost.
    Suspect,
    /// It is lost.
    Lost,
}

/// An event of the member that has the turn. Only [`Event::Leaves`] may come from any member.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Event {
    /// It queues for the lock.
    Queues,
    /// It was granted the lock.
    Granted,
    /// The shell has looked at the hold that was handed over to it. The hold can be relied on to this degree.
    Looked(Reliance),
    /// It releases its hold, which can be relied on to this degree.
    LetsGo(Reliance),
    /// The answer to [`Ask::LookForOthers`], and how far its hold can be relied on by now.
    SawOthers(Others, Reliance),
    /// Its node is deleted, or the shell deletes it later.
    Released,
    /// Its place in the queue has failed, or its attempt to get one.
    Fails,
    /// It gives up, in any state, or was dropped. If it has a hold, the hold can be relied on to this degree. The next member gets
    /// its place, or its hold if the bounds allow that.
    Leaves(Reliance),
}

/// The other contenders for the lock, as a holder sees them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Others {
    /// The number of children of the lock's node. The holder's node is one of them.
    Children(u32),
    /// The holder's node is missing: somebody else deleted it.
    OwnNodeGone,
    /// The server did not answer.
    Unknown,
}

/// What the shell has to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Ask {
    /// Wakes this member: it has the turn now, or will never have it.
    Wake(MemberId),
    /// Asks how many children the lock's node has, and whether the holder's node is one of them. The answer is
    /// [`Event::SawOthers`].
    LookForOthers,
    /// Marks the hold as lost: somebody else deleted its node.
    Lose,
    /// Deletes the node of the hold. The answer is [`Event::Released`].
    Release,
    /// Gives up what came with the turn. No member takes it.
    GiveUp,
}

impl Bounds {
    /// The default bounds.
    pub const DEFAULT: Self = Self { max_handovers: 1_000, max_tenure: Duration::from_millis(100) };

    fn allow(&self, tenure: &Tenure, now: Duration) -> bool {
        tenure.handovers_unasked < self.max_handovers && now.saturating_sub(tenure.unasked_since) < self.max_tenure
    }
}

impl Cohort {
    /// Adds a member. It gets the turn, if no other member has it.
    pub fn enter(&mut self, bounds: Bounds) -> MemberId {
        let id = self.new_id();
        match self.turn {
            _ if self.is_closed => {}
            None => self.turn = Some(Turn { of: id, bounds, stage: Stage::Begins }),
            // The turn is passed directly to a waiting member, so a newcomer cannot overtake it.
            Some(_) => drop(self.waiting.insert(id, bounds)),
        }
        id
    }

    /// Adds a member that does not wait. Returns `None` if another member has the turn, unless the cohort is closed.
    pub fn enter_at_once(&mut self, bounds: Bounds) -> Option<MemberId> {
        if self.turn.is_none() || self.is_closed { Some(self.enter(bounds)) } else { None }
    }

    /// Returns the state of a member that has not left.
    pub fn state(&self, id: MemberId) -> State {
        match &self.turn {
            Some(turn) if turn.of == id => match turn.stage {
                Stage::Begins => State::Begins,
                Stage::Queues => State::Queues,
                Stage::Takes(_) => State::Takes,
                Stage::Holds(tenure) => State::Holds { handovers: tenure.handovers },
                Stage::Looks(_) | Stage::Releases => State::LetsGo,
            },
            _ if self.waiting.contains_key(&id) => State::Waits,
            _ => State::Closed,
        }
    }

    /// Handles an event of a member. `now` is the time since a fixed moment.
    pub fn on(&mut self, id: MemberId, event: Event, now: Duration, out: &mut Vec<Ask>) {
        if self.waiting.remove(&id).is_some() {
            debug_assert!(matches!(event, Event::Leaves(_)), "BUG: {event:?} of a member that waits");
            return;
        }
        let Some(turn) = self.turn.filter(|turn| turn.of == id) else { return };
        match (turn.stage, event) {
            (Stage::Begins, Event::Queues) => self.go_on(Stage::Queues),
            (Stage::Begins | Stage::Queues, Event::Granted) => {
                self.go_on(Stage::Holds(Tenure { handovers: 0, handovers_unasked: 0, unasked_since: now }));
            }
            (_, Event::Fails) => self.give_up(out),
            (Stage::Takes(tenure), Event::Looked(reliance)) => self.look_at(tenure, reliance, out),
            (Stage::Holds(tenure), Event::LetsGo(reliance)) => {
                if reliance == Reliance::Lost || self.waiting.is_empty() || turn.bounds.allow(&tenure, now) {
                    return self.let_go(tenure, reliance, out);
                }
                self.go_on(Stage::Looks(tenure));
                out.push(Ask::LookForOthers);
            }
            (Stage::Looks(tenure), Event::SawOthers(others, reliance)) => {
                self.on_others(tenure, others, reliance, now, out);
            }
            (Stage::Releases, Event::Released) => self.pass(Stage::Begins, out),
            (stage, Event::Leaves(reliance)) => self.leave(turn.bounds, stage, reliance, now, out),
            _ => debug_assert!(false, "BUG: {event:?} of a member that is at {turn:?}"),
        }
    }

    /// Ends all waiting for ever, because the session has ended. Wakes every waiting member.
    pub fn close(&mut self, out: &mut Vec<Ask>) {
        self.is_closed = true;
        out.extend(std::mem::take(&mut self.waiting).into_keys().map(Ask::Wake));
    }

    fn new_id(&mut self) -> MemberId {
        self.next_id += 1;
        MemberId(self.next_id)
    }

    fn go_on(&mut self, stage: Stage) {
        self.turn = self.turn.map(|turn| Turn { stage, ..turn });
    }

    /// Decides whether the member relies on a hold that was handed over. The hold may have been lost since.
    fn look_at(&mut self, tenure: Tenure, reliance: Reliance, out: &mut Vec<Ask>) {
        match reliance {
            Reliance::Sure => self.go_on(Stage::Holds(Tenure {
                handovers: tenure.handovers + 1,
                handovers_unasked: tenure.handovers_unasked.saturating_add(1),
                ..tenure
            })),
            Reliance::Suspect => {}
            Reliance::Lost => {
                out.push(Ask::GiveUp);
                self.go_on(Stage::Begins);
            }
        }
    }

    fn on_others(&mut self, tenure: Tenure, others: Others, reliance: Reliance, now: Duration, out: &mut Vec<Ask>) {
        let is_alone = others == Others::Children(1);
        match others {
            Others::OwnNodeGone => {
                out.push(Ask::Lose);
                self.let_go(tenure, Reliance::Lost, out);
            }
            _ if is_alone => {
                self.let_go(Tenure { handovers_unasked: 0, unasked_since: now, ..tenure }, reliance, out);
            }
            _ if reliance == Reliance::Lost => self.let_go(tenure, reliance, out),
            // Without an answer the holder does not count as alone.
            Others::Children(_) | Others::Unknown => self.release(out),
        }
    }

    /// Hands the hold over, or releases it.
    fn let_go(&mut self, tenure: Tenure, reliance: Reliance, out: &mut Vec<Ask>) {
        if reliance == Reliance::Lost {
            out.push(Ask::Release);
            // The next member need not wait until the node of a lost hold is deleted.
            self.pass(Stage::Begins, out);
        } else if self.waiting.is_empty() {
            self.release(out);
        } else {
            self.pass(Stage::Takes(tenure), out);
        }
    }

    fn release(&mut self, out: &mut Vec<Ask>) {
        self.go_on(Stage::Releases);
        out.push(Ask::Release);
    }

    /// Lets a member leave at any stage. Does not look for others, because a dropped member cannot wait for an answer.
    fn leave(&mut self, bounds: Bounds, stage: Stage, reliance: Reliance, now: Duration, out: &mut Vec<Ask>) {
        let is_of_use = match stage {
            Stage::Begins | Stage::Queues => true,
            // The bounds were checked at the hand-over.
            Stage::Takes(_) => reliance != Reliance::Lost,
            Stage::Holds(tenure) => reliance != Reliance::Lost && bounds.allow(&tenure, now),
            Stage::Looks(_) | Stage::Releases => false,
        };
        match stage {
            Stage::Holds(tenure) if is_of_use => self.pass(Stage::Takes(tenure), out),
            stage if is_of_use => self.pass(stage, out),
            _ => self.give_up(out),
        }
    }

    /// Gives up what came with the turn. The next member begins anew.
    fn give_up(&mut self, out: &mut Vec<Ask>) {
        out.push(Ask::GiveUp);
        self.pass(Stage::Begins, out);
    }

    /// Passes the turn, and what comes with it, to the member that has waited longest.
    fn pass(&mut self, stage: Stage, out: &mut Vec<Ask>) {
        match self.waiting.pop_first() {
            Some((of, bounds)) => {
                self.turn = Some(Turn { of, bounds, stage });
                out.push(Ask::Wake(of));
            }
            None => {
                self.turn = None;
                if stage != Stage::Begins {
                    out.push(Ask::GiveUp);
                }
            }
        }
    }
}
