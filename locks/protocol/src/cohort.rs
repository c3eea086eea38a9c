//! A cohort, as a state machine: the contenders of one session for one lock. One of them at a time deals with the server.
//!
//! The others wait in memory. The member with the *turn* queues for the lock, holds it, and passes the turn on. It may pass the
//! hold on with the turn, which needs no request. Otherwise the next member queues anew. Consecutive hand-overs are bounded
//! ([`Bounds`]), because other processes wait, too.
//!
//! A hold that no member wants may linger: the next member takes it without a request. It lingers only behind a watch of the
//! queue that has not fired. Any change of the queue may be another contender, so it ends the lingering. So does a revocation
//! request.
//!
//! The shell keeps what comes with the turn: a place in the queue or a hold. It carries out the asks of one event in their order,
//! and reports their results as further events of the same member. With [`Ask::Wake`], the place or hold passes to the woken
//! member, unless the same event asks to release it or to give it up.

mod ask;

use std::collections::BTreeMap;
use std::time::Duration;

pub use self::ask::{Ask, Event, MemberId, MemberState, Others, Reliance};

/// How long a cohort may hand the lock over before it looks for other processes that wait, and how long a hold may linger.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Bounds {
    /// Upper bound of consecutive hand-overs.
    pub max_handovers: u32,
    /// Upper bound of their duration. It does not count while a watch of the queue shows that no other contender has come.
    pub max_tenure: Duration,
    /// Upper bound of the time for which a hold lingers that no member wants. Zero: it is released at once.
    pub linger: Duration,
}

/// The contenders of one session for one lock.
///
/// # The phases of the turn
///
/// On each line, an event leads from one phase to the next. `[Ask]` is what the shell has to do. *Free* means that no member has the
/// turn. *Passes* means that the member that has waited longest gets the turn at the phase that follows, and is woken. If no member
/// waits, the turn is free. A place or a hold that would be passed then is given up.
///
/// ```text
///  a member enters            a member enters
///  the turn is free           a hold lingers
///        |                          |
///        v     Looked(Lost)         v
///     Begins <------------------- Takes <-----------------------------------.
///      |  |                         |                                       |
///      |  | Queues                  | Looked(Sure)                          |
///      |  v                         |                                       |
///      | Queues                     |                                       |
///      |  |                         |                                       |
///      |  | Granted                 |                                       |
///      |  v                         |                                       |
///      '->+--> Holds <--------------'                                       |
/// Granted       |                                                           |
///               | LetsGo, GivesBack                                         |
///               |                                                           |
///               +-- a look is due: [LookForOthers, WatchQueue] --> Looks    |
///               |                                                   |   |   |
///               |<----------- alone, or lost -----------------------'   |   |
///               v                                                       |   |
///           lets go                                                     |   |
///               |-- lost: [Release] ------------------> passes, Begins  |   |
///               |-- else a member waits: [Wake] ------------------------|---'
///               |-- else it may linger: [Keep] -------> Lingering       |
///               |                                                       |
///               '-- otherwise --> Releases [Release] <--- others, or ---'
///                                    |                    no answer
///                                    | Released
///                                    v
///                                passes, Begins
///
///  Begins, Queues   Leaves ............................... passes, same phase
///  Takes            Looked(Suspect) ...................... Takes
///                   Looked(Lost): [GiveUp] ............... Begins
///                   Leaves, not lost ..................... passes, Takes
///  Holds            Leaves, not lost, within the bounds .. passes, Takes
///  Looks            the own node is gone: [Lose] ......... lets go, lost
///  any other        Leaves: [GiveUp] ..................... passes, Begins
///  every phase      Fails: [GiveUp] ...................... passes, Begins
///  Lingering        changed, over, or closed: [GiveUp] ... free
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Cohort {
    next_id: u64,
    /// The members that wait for the turn, each with its bounds. First come, first served.
    waiting: BTreeMap<MemberId, Bounds>,
    turn: Option<Turn>,
    /// The hold that no member wants. No member has the turn then.
    lingering: Option<Lingering>,
    /// The member that has set the watch of the queue during this hold. `None` once the watch has fired.
    watched_by: Option<MemberId>,
    is_closed: bool,
}

/// A hold that lingers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Lingering {
    tenure: Tenure,
    until: Duration,
}

/// The member that has the turn, and its phase.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Turn {
    of: MemberId,
    bounds: Bounds,
    phase: TurnPhase,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum TurnPhase {
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

impl Bounds {
    /// The default bounds. No hold lingers.
    pub const DEFAULT: Self =
        Self { max_handovers: 1_000, max_tenure: Duration::from_millis(100), linger: Duration::ZERO };
}

impl Cohort {
    /// Adds a member. It gets the turn, if no other member has it, and the hold that lingers.
    pub fn enter(&mut self, bounds: Bounds) -> MemberId {
        let id = self.new_id();
        // The member is in no table, so its state is `Closed`.
        if self.is_closed {
            return id;
        }
        if self.turn.is_some() {
            // The turn is passed directly to a waiting member, so a newcomer cannot overtake it.
            self.waiting.insert(id, bounds);
        } else {
            // The hold may have been lost while it lingered, so the member looks before it relies on it.
            let phase = self.lingering.take().map_or(TurnPhase::Begins, |lingering| TurnPhase::Takes(lingering.tenure));
            self.turn = Some(Turn { of: id, bounds, phase });
        }
        id
    }

    /// Adds a member that does not wait. Returns `None` if another member has the turn, unless the cohort is closed.
    pub fn enter_at_once(&mut self, bounds: Bounds) -> Option<MemberId> {
        if self.turn.is_none() || self.is_closed { Some(self.enter(bounds)) } else { None }
    }

    /// Returns the state of a member that has not left.
    pub fn state(&self, id: MemberId) -> MemberState {
        match &self.turn {
            Some(turn) if turn.of == id => match turn.phase {
                TurnPhase::Begins => MemberState::Begins,
                TurnPhase::Queues => MemberState::Queues,
                TurnPhase::Takes(_) => MemberState::Takes,
                TurnPhase::Holds(tenure) => MemberState::Holds { handovers: tenure.handovers },
                TurnPhase::Looks(_) | TurnPhase::Releases => MemberState::LetsGo,
            },
            _ if self.waiting.contains_key(&id) => MemberState::Waits,
            _ => MemberState::Closed,
        }
    }

    /// Handles an event of a member. `now` is the time since a fixed moment.
    pub fn on(&mut self, id: MemberId, event: Event, now: Duration, asks: &mut Vec<Ask>) {
        if self.waiting.remove(&id).is_some() {
            debug_assert!(matches!(event, Event::Leaves(_)), "BUG: {event:?} of a member that waits");
            return;
        }
        let Some(turn) = self.turn.filter(|turn| turn.of == id) else { return };
        match (turn.phase, event) {
            (TurnPhase::Begins, Event::Queues) => self.go_on(TurnPhase::Queues),
            (TurnPhase::Begins | TurnPhase::Queues, Event::Granted) => {
                // The watch of an earlier hold says nothing of this one, and may never have been set.
                self.watched_by = None;
                self.go_on(TurnPhase::Holds(Tenure { handovers: 0, handovers_unasked: 0, unasked_since: now }));
            }
            (_, Event::Fails) => self.give_up(asks),
            (TurnPhase::Takes(tenure), Event::Looked(reliance)) => self.look_at(tenure, reliance, asks),
            (TurnPhase::Holds(tenure), Event::LetsGo(reliance)) => {
                self.look_or_let_go(&turn, tenure, reliance, now, asks)
            }
            (TurnPhase::Holds(tenure), Event::GivesBack(reliance)) => {
                // Kept in the turn, because `on_others` reads the bounds there after a look.
                let turn = Turn { bounds: Bounds { linger: Duration::ZERO, ..turn.bounds }, ..turn };
                self.turn = Some(turn);
                self.look_or_let_go(&turn, tenure, reliance, now, asks);
            }
            (TurnPhase::Looks(_), Event::SawOthers(others, reliance)) => {
                self.on_others(&turn, others, reliance, now, asks)
            }
            (TurnPhase::Releases, Event::Released) => self.pass(TurnPhase::Begins, asks),
            (phase, Event::Leaves(reliance)) => self.leave(turn.bounds, phase, reliance, now, asks),
            _ => debug_assert!(false, "BUG: {event:?} of a member that is at {turn:?}"),
        }
    }

    /// Ends all waiting and lingering for ever, because the session has ended. Wakes every waiting member.
    pub fn close(&mut self, asks: &mut Vec<Ask>) {
        self.is_closed = true;
        asks.extend(std::mem::take(&mut self.waiting).into_keys().map(Ask::Wake));
        self.give_up_lingering(asks);
    }

    /// Notes that the watch has fired that this member set: the queue or the holder's node has changed, or the connection has
    /// ended.
    pub fn queue_changed(&mut self, watched_by: MemberId, asks: &mut Vec<Ask>) {
        // The deletion of an earlier hold's node may fire its watch late. That says nothing of this hold.
        if self.watched_by == Some(watched_by) {
            self.watched_by = None;
            self.give_up_lingering(asks);
        }
    }

    /// Returns the time until which the hold lingers. `None` if no hold does.
    pub fn lingers_until(&self) -> Option<Duration> {
        self.lingering.map(|lingering| lingering.until)
    }

    /// Gives up the hold that lingers, if its time is over.
    pub fn end_linger(&mut self, now: Duration, asks: &mut Vec<Ask>) {
        if self.lingers_until().is_some_and(|until| until <= now) {
            self.give_up_lingering(asks);
        }
    }

    fn give_up_lingering(&mut self, asks: &mut Vec<Ask>) {
        asks.extend(self.lingering.take().map(|_| Ask::GiveUp));
    }

    fn new_id(&mut self) -> MemberId {
        self.next_id += 1;
        MemberId(self.next_id)
    }

    fn go_on(&mut self, phase: TurnPhase) {
        self.turn = self.turn.map(|turn| Turn { phase, ..turn });
    }

    /// Decides whether the member relies on a hold that was handed over. The hold may have been lost since.
    fn look_at(&mut self, tenure: Tenure, reliance: Reliance, asks: &mut Vec<Ask>) {
        match reliance {
            Reliance::Sure => self.go_on(TurnPhase::Holds(Tenure {
                handovers: tenure.handovers + 1,
                handovers_unasked: tenure.handovers_unasked.saturating_add(1),
                ..tenure
            })),
            Reliance::Suspect => {}
            Reliance::Lost => {
                asks.push(Ask::GiveUp);
                self.go_on(TurnPhase::Begins);
            }
        }
    }

    /// Tells whether the hold may be handed over without a look.
    fn allows(&self, bounds: Bounds, tenure: &Tenure, now: Duration) -> bool {
        // A notification may be late, so the watch does not replace the bound of the number.
        let is_in_time = self.watched_by.is_some() || now.saturating_sub(tenure.unasked_since) < bounds.max_tenure;
        tenure.handovers_unasked < bounds.max_handovers && is_in_time
    }

    /// Tells whether the hold of a member with these bounds lingers when that member releases it.
    fn may_linger(&self, bounds: Bounds) -> bool {
        self.waiting.is_empty() && !bounds.linger.is_zero() && !self.is_closed
    }

    /// Lets the hold go, after a look at the queue if one is due.
    fn look_or_let_go(&mut self, turn: &Turn, tenure: Tenure, reliance: Reliance, now: Duration, asks: &mut Vec<Ask>) {
        let lingers = self.may_linger(turn.bounds);
        // A hold that is lost, or that no member may take, is released whatever a look would show.
        let has_a_choice = reliance != Reliance::Lost && (lingers || !self.waiting.is_empty());
        let needs_watch = lingers && self.watched_by.is_none();
        if !has_a_choice || (!needs_watch && self.allows(turn.bounds, &tenure, now)) {
            return self.let_go(turn.bounds, tenure, reliance, now, asks);
        }
        if needs_watch {
            // From now on, because the watch may fire before the answer is handled.
            self.watched_by = Some(turn.of);
        }
        self.go_on(TurnPhase::Looks(tenure));
        asks.push(if needs_watch { Ask::WatchQueue } else { Ask::LookForOthers });
    }

    /// Handles the answer to a look. If the holder is alone, hand-overs count anew.
    fn on_others(&mut self, turn: &Turn, others: Others, reliance: Reliance, now: Duration, asks: &mut Vec<Ask>) {
        let TurnPhase::Looks(tenure) = turn.phase else { return };
        let is_alone = others == Others::Children(1);
        match others {
            Others::OwnNodeGone => {
                asks.push(Ask::Lose);
                self.let_go(turn.bounds, tenure, Reliance::Lost, now, asks);
            }
            _ if is_alone => {
                let tenure = Tenure { handovers_unasked: 0, unasked_since: now, ..tenure };
                self.let_go(turn.bounds, tenure, reliance, now, asks);
            }
            _ if reliance == Reliance::Lost => self.let_go(turn.bounds, tenure, reliance, now, asks),
            // Without an answer the holder does not count as alone.
            Others::Children(_) | Others::Revoked | Others::Unknown => self.release(asks),
        }
    }

    /// Hands the hold over, lets it linger, or releases it.
    fn let_go(&mut self, bounds: Bounds, tenure: Tenure, reliance: Reliance, now: Duration, asks: &mut Vec<Ask>) {
        if reliance == Reliance::Lost {
            asks.push(Ask::Release);
            // The next member need not wait until the node of a lost hold is deleted.
            self.pass(TurnPhase::Begins, asks);
        } else if !self.waiting.is_empty() {
            self.pass(TurnPhase::Takes(tenure), asks);
        } else if self.may_linger(bounds) && self.watched_by.is_some() {
            self.turn = None;
            self.lingering = Some(Lingering { tenure, until: now.saturating_add(bounds.linger) });
            asks.push(Ask::Keep);
        } else {
            self.release(asks);
        }
    }

    fn release(&mut self, asks: &mut Vec<Ask>) {
        self.go_on(TurnPhase::Releases);
        asks.push(Ask::Release);
    }

    /// Lets a member leave at any phase. Does not look for others, because a dropped member cannot wait for an answer.
    fn leave(&mut self, bounds: Bounds, phase: TurnPhase, reliance: Reliance, now: Duration, asks: &mut Vec<Ask>) {
        let is_of_use = match phase {
            TurnPhase::Begins | TurnPhase::Queues => true,
            // The bounds were checked at the hand-over.
            TurnPhase::Takes(_) => reliance != Reliance::Lost,
            TurnPhase::Holds(tenure) => reliance != Reliance::Lost && self.allows(bounds, &tenure, now),
            // The look that was due has no answer, or the deletion of the node is under way.
            TurnPhase::Looks(_) | TurnPhase::Releases => false,
        };
        match phase {
            TurnPhase::Holds(tenure) if is_of_use => self.pass(TurnPhase::Takes(tenure), asks),
            phase if is_of_use => self.pass(phase, asks),
            _ => self.give_up(asks),
        }
    }

    /// Gives up what came with the turn. The next member begins anew.
    fn give_up(&mut self, asks: &mut Vec<Ask>) {
        asks.push(Ask::GiveUp);
        self.pass(TurnPhase::Begins, asks);
    }

    /// Passes the turn, and what comes with it, to the member that has waited longest.
    fn pass(&mut self, phase: TurnPhase, asks: &mut Vec<Ask>) {
        match self.waiting.pop_first() {
            Some((of, bounds)) => {
                self.turn = Some(Turn { of, bounds, phase });
                asks.push(Ask::Wake(of));
            }
            None => {
                self.turn = None;
                if phase != TurnPhase::Begins {
                    asks.push(Ask::GiveUp);
                }
            }
        }
    }
}
