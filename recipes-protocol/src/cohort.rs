//! The contenders of one session for one lock, of whom one at a time deals with the server: a state machine.
//!
//! The others wait in memory. Whoever has the *turn* queues for the lock, holds it, and passes the turn on: with the hold, without a
//! request, or without it, for the next to queue anew. How often the hold may go on is bounded ([`Bounds`]), as other processes wait.
//!
//! The shell keeps what comes with the turn, a place in the queue or a hold. It carries out the asks of one event in their order, and
//! answers them by further events of the same member. With [`Ask::Wake`] what the member has goes to the one that is woken, unless
//! the same event asks to release it or to give it up.

use std::collections::BTreeMap;
use std::time::Duration;

/// One contender of a cohort.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct MemberId(u64);

/// For how long the processes that wait for the lock can be passed over.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Bounds {
    /// How many hand-overs may follow one another.
    pub max_handovers: u32,
    /// For how long they may go on.
    pub max_tenure: Duration,
}

/// The contenders of one session for one lock.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Cohort {
    next_id: u64,
    /// Who waits for the turn, each with its bounds: first come, first served.
    waiting: BTreeMap<MemberId, Bounds>,
    turn: Option<Turn>,
    is_closed: bool,
}

/// Who has the turn, and how far it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Turn {
    of: MemberId,
    bounds: Bounds,
    stage: Stage,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Stage {
    /// It has nothing.
    Begins,
    /// It has a place in the lock's queue.
    Queues,
    /// The hold of another was handed over to it, on which it does not rely yet.
    Takes(Tenure),
    Holds(Tenure),
    /// It has let go, and asks whether somebody else waits for the lock.
    Looks(Tenure),
    /// Its node is being deleted.
    Releases,
}

/// A hold that one member has after the other.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Tenure {
    /// How often it was handed over.
    handovers: u64,
    /// How often since nobody else was known to wait.
    handovers_unasked: u32,
    /// When that was.
    unasked_since: Duration,
}

/// How far a member is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum State {
    /// It waits for the turn.
    Waits,
    /// It has the turn and nothing with it. It is to queue for the lock.
    Begins,
    /// It has the turn, and waits in the lock's queue.
    Queues,
    /// It has the turn, and the hold of another. It is to wait until it is known whether the hold can be relied on.
    Takes,
    /// It holds.
    Holds {
        /// How often the hold was handed over before.
        handovers: u64,
    },
    /// It lets go.
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

/// What has happened to the member that has the turn, or, of [`Event::Leaves`], to any.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Event {
    /// It queues for the lock.
    Queues,
    /// It was granted the lock.
    Granted,
    /// So far the hold that was handed over to it can be relied on.
    Looked(Reliance),
    /// It lets go of its hold, which so far can be relied on.
    LetsGo(Reliance),
    /// The answer to [`Ask::LookForOthers`], and how far its hold can be relied on by now.
    SawOthers(Others, Reliance),
    /// Its node is gone, or somebody else sees to that.
    Released,
    /// What it has is of no use: its place in the queue, or its attempt to get one, has failed.
    Fails,
    /// It gives up, wherever it stands, or was dropped. What it has, and so far can be relied on if it is a hold, goes to the
    /// next.
    Leaves(Reliance),
}

/// Who else is there, beside a holder.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Others {
    /// How many children the lock's node has. The node of the holder is one of them.
    Children(u32),
    /// The node of the holder is gone: somebody else has deleted it.
    OwnNodeGone,
    /// The server has not answered.
    Unknown,
}

/// What the shell has to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Ask {
    /// This member has the turn now, or will never have it.
    Wake(MemberId),
    /// Ask how many children the lock's node has and whether the holder's node is one of them. The answer is
    /// [`Event::SawOthers`].
    LookForOthers,
    /// The hold is lost: somebody else has deleted its node.
    Lose,
    /// Delete the node of the hold. The answer is [`Event::Released`].
    Release,
    /// Nobody takes what came with the turn. It is to be given up.
    GiveUp,
}

impl Bounds {
    /// Those of a cohort that was told nothing else.
    pub const DEFAULT: Self = Self { max_handovers: 1_000, max_tenure: Duration::from_millis(100) };

    fn allow(&self, tenure: &Tenure, now: Duration) -> bool {
        tenure.handovers_unasked < self.max_handovers && now.saturating_sub(tenure.unasked_since) < self.max_tenure
    }
}

impl Cohort {
    /// Adds a member. It has the turn, if nobody else has.
    pub fn enter(&mut self, bounds: Bounds) -> MemberId {
        let id = self.new_id();
        match self.turn {
            _ if self.is_closed => {}
            None => self.turn = Some(Turn { of: id, bounds, stage: Stage::Begins }),
            // Whoever passes the turn on passes it to those who wait, so that nobody can take it from under their noses.
            Some(_) => drop(self.waiting.insert(id, bounds)),
        }
        id
    }

    /// Adds a member that is not to wait. `None` if somebody has the turn.
    pub fn enter_at_once(&mut self, bounds: Bounds) -> Option<MemberId> {
        if self.turn.is_none() || self.is_closed { Some(self.enter(bounds)) } else { None }
    }

    /// How far a member is that has not left.
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

    /// Takes in what has happened to a member. `now` is the time since any moment that stays the same.
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

    /// Ends all waiting, for ever: the session has ended. Whoever waits is to be told.
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

    /// Looks at a hold before relying on it. It may be lost since it was handed over.
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
            // Who cannot tell is not alone.
            Others::Children(_) | Others::Unknown => self.release(out),
        }
    }

    /// Hands the hold over, or releases it.
    fn let_go(&mut self, tenure: Tenure, reliance: Reliance, out: &mut Vec<Ask>) {
        if reliance == Reliance::Lost {
            out.push(Ask::Release);
            // Nobody need wait for what is left of it.
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

    /// Leaves at any stage. Nobody can be asked.
    fn leave(&mut self, bounds: Bounds, stage: Stage, reliance: Reliance, now: Duration, out: &mut Vec<Ask>) {
        let is_of_use = match stage {
            Stage::Begins | Stage::Queues => true,
            // It was handed over already.
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

    /// Gives up what came with the turn. The next begins anew.
    fn give_up(&mut self, out: &mut Vec<Ask>) {
        out.push(Ask::GiveUp);
        self.pass(Stage::Begins, out);
    }

    /// Gives the turn to who has waited longest, with what comes with it.
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
