//! An attempt to take permits of a semaphore, as a state machine.
//!
//! Whoever wants permits queues for its turn, in a queue of its own. Whoever has the turn adds its leases, one for each permit, and
//! waits until all of them hold. Then it gives the turn to the next. So those who want several permits never wait for each other, and
//! one release wakes one contender.
//!
//! [`Permits`] is told what happens ([`Event`]) and says what to do next ([`Permits::ask`]). It never waits and does no I/O. What it asks
//! for is one request, or a group that is sent together: the answer comes before the next. [`Permits::leave`] may come at any time, also
//! instead of an answer. Then its asks delete what is there or may be, leases before the turn: who has the next one could do nothing but
//! wait for them.

use std::collections::HashSet;

use crate::leases::{Leases, Verdict};
use crate::names::{Names, Sequence, Supply};
use crate::session_queue::Made;

/// What to do next.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Ask {
    /// Waits until there are as many permits, held or not. The answer is [`Event::Reached`].
    Reach(usize),
    /// Lists the leases. The answer is [`Event::Listed`].
    List,
    /// Lists the leases and watches them. The answer is [`Event::Listed`].
    Watch,
    /// Waits until the leases or the number of permits have changed since [`Ask::Watch`]. The answer is [`Event::Changed`].
    Wait,
    /// Queues for the turn. The answer is [`Event::Turn`].
    TakeTurn,
    /// Takes the turn if nobody has it or waits for it. The answer is [`Event::Turn`].
    TryTurn,
    /// Creates so many leases, sent together. The answer is [`Event::Created`].
    Create(usize),
    /// Creates the parent of the leases. The answer is [`Event::ParentCreated`].
    CreateParent,
    /// Pauses, as the reply to a request was lost. The answer is [`Event::Paused`].
    Pause,
    /// Finds the leases whose names are not known. The answer is [`Event::Found`].
    Find,
    /// Waits for a proof that the session lives. The answer is [`Event::Proved`].
    Prove,
    /// Gives the turn to the next. The answer is [`Event::TurnLeft`].
    LeaveTurn,
    /// Deletes the leases of these names. The answer is [`Event::Deleted`].
    Delete(Vec<String>),
    /// Nothing: all leases hold.
    Hold,
    /// Nothing, ever.
    End(Outcome),
}

/// What has happened.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Event {
    /// There are as many permits as are wanted, held or not.
    Reached,
    /// The children of the leases' node, and how many permits there are.
    Listed(Vec<String>, usize),
    /// The leases or the number of permits have changed.
    Changed,
    /// Whether the attempt has its turn. `false`: somebody was in the way.
    Turn(bool),
    /// The answers to requests that were sent together.
    Created(Flight),
    /// The parent of the leases is there.
    ParentCreated,
    /// The pause is over.
    Paused,
    /// The leases whose names were not known.
    Found(Vec<Made>),
    /// The session lives.
    Proved,
    /// The turn was given back, or somebody else sees to that.
    TurnLeft,
    /// The leases of these names are gone.
    Deleted(Vec<String>),
}

/// What became of several `create`s that were sent together.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Flight {
    /// The leases that were created.
    pub made: Vec<Made>,
    /// Whether a reply was lost.
    pub is_reply_lost: bool,
    /// Whether the parent was missing.
    pub is_parent_missing: bool,
    /// Whether there may be leases whose names are not known.
    pub has_unnamed: bool,
}

/// How an attempt has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Outcome {
    /// It was given up.
    Left,
    /// Somebody was in the way.
    InTheWay,
    /// A lease was not the session's own.
    NodeDeleted,
    /// The number of a lease is too near the end of the numbers.
    NumbersExhausted(Sequence),
}

/// Where an attempt stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Step {
    /// It looks whether there is room, before it writes.
    Trying,
    TakingTurn,
    Reaching,
    Creating,
    CreatingParent,
    Pausing,
    Finding,
    Listing,
    Watching,
    Waiting,
    Proving,
    LeavingTurn,
    Holding,
    Leaving(Outcome),
}

/// One attempt to take permits.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Permits {
    wanted: usize,
    is_try: bool,
    /// How many requests may be sent together.
    together: usize,
    has_parent: bool,
    has_turn: bool,
    leases: Vec<Made>,
    /// Whether there may be leases whose names are not known.
    has_unnamed: bool,
    step: Step,
}

impl Permits {
    /// An attempt to take this many permits. `is_try`: it leaves if somebody is in the way. `together`: how many requests may be sent
    /// together. `has_parent`: the parent of the leases was there before.
    pub fn new(wanted: usize, is_try: bool, together: usize, has_parent: bool) -> Self {
        let step = if is_try { Step::Trying } else { Step::TakingTurn };
        Self { wanted, is_try, together, has_parent, has_turn: false, leases: Vec::new(), has_unnamed: false, step }
    }

    /// What to do next.
    pub fn ask(&mut self) -> Ask {
        match self.step {
            Step::Trying | Step::Listing => Ask::List,
            Step::TakingTurn if self.is_try => Ask::TryTurn,
            Step::TakingTurn => Ask::TakeTurn,
            Step::Reaching => Ask::Reach(self.wanted),
            Step::Creating => {
                // From now on there may be leases, whatever becomes of the replies.
                self.has_unnamed = true;
                // Where the parent is missing every request would be in vain: one asks.
                let lacking = self.wanted - self.leases.len();
                Ask::Create(if self.has_parent { lacking.min(self.together) } else { 1 })
            }
            Step::CreatingParent => Ask::CreateParent,
            Step::Pausing => Ask::Pause,
            Step::Finding => Ask::Find,
            Step::Watching => Ask::Watch,
            Step::Waiting => Ask::Wait,
            Step::Proving => Ask::Prove,
            Step::LeavingTurn => Ask::LeaveTurn,
            Step::Holding => Ask::Hold,
            Step::Leaving(_) if self.has_unnamed => Ask::Find,
            Step::Leaving(_) if !self.leases.is_empty() => {
                Ask::Delete(self.leases.iter().rev().take(self.together).map(|lease| lease.name.clone()).collect())
            }
            Step::Leaving(_) if self.has_turn => Ask::LeaveTurn,
            Step::Leaving(outcome) => Ask::End(outcome),
        }
    }

    /// Gives up what is wanted. Leases that hold stay with whoever has them.
    pub fn leave(&mut self) {
        self.end(Outcome::Left);
    }

    fn end(&mut self, outcome: Outcome) {
        if !matches!(self.step, Step::Leaving(_)) {
            self.step = Step::Leaving(outcome);
        }
    }

    /// Takes in the answer to the last ask.
    pub fn on(&mut self, event: Event) {
        match event {
            Event::Reached => self.create(),
            Event::Listed(children, permits) => self.on_listed(&children, permits),
            Event::Changed => self.create(),
            Event::Turn(true) => {
                self.has_turn = true;
                // Before there are as many, leases would only be in the way. One lease is not worth the question.
                if self.wanted > 1 && !self.is_try { self.step = Step::Reaching } else { self.create() }
            }
            Event::Turn(false) => self.end(Outcome::InTheWay),
            Event::Created(flight) => self.on_created(flight),
            Event::ParentCreated => self.create(),
            Event::Paused => self.step = Step::Finding,
            Event::Found(found) => {
                self.has_unnamed = false;
                self.leases.extend(found);
                self.create();
            }
            Event::Proved => self.step = Step::LeavingTurn,
            Event::TurnLeft => {
                self.has_turn = false;
                if self.step == Step::LeavingTurn {
                    self.step = Step::Holding;
                }
            }
            Event::Deleted(names) => self.leases.retain(|lease| !names.contains(&lease.name)),
        }
    }

    /// Creates the leases that are lacking. If none are, looks whether all hold.
    fn create(&mut self) {
        if !matches!(self.step, Step::Leaving(_)) {
            self.step = if self.leases.len() < self.wanted { Step::Creating } else { Step::Listing };
        }
    }

    fn on_created(&mut self, flight: Flight) {
        let Flight { made, is_reply_lost, is_parent_missing, has_unnamed } = flight;
        self.has_unnamed = has_unnamed;
        self.leases.extend(made);
        if self.leases.iter().any(|lease| !lease.is_ours) {
            // The server answers for nodes that it has just made, so this would be a proxy's or a server's fault.
            return self.end(Outcome::NodeDeleted);
        }
        let exhausted = self.numbers().find(|number| number.supply() == Supply::Exhausted);
        if let Some(number) = exhausted {
            return self.end(Outcome::NumbersExhausted(number));
        }
        self.has_parent = !is_parent_missing;
        self.create();
        if is_parent_missing {
            self.step = Step::CreatingParent;
        }
        if is_reply_lost {
            self.step = Step::Pausing;
        }
    }

    fn on_listed(&mut self, children: &[String], permits: usize) {
        let leases = Leases::from_children(children);
        if self.step == Step::Trying {
            let has_room = leases.have_room_for(self.wanted, permits);
            return if has_room { self.step = Step::TakingTurn } else { self.end(Outcome::InTheWay) };
        }
        let own: HashSet<&str> = self.leases.iter().map(|lease| lease.name.as_str()).collect();
        match leases.verdict(&own, permits) {
            Verdict::Granted => self.step = Step::Proving,
            Verdict::Missing | Verdict::Full if self.is_try => self.end(Outcome::InTheWay),
            Verdict::Missing => {
                // Somebody deleted them. The turn is still ours.
                let present: HashSet<&String> = children.iter().collect();
                self.leases.retain(|lease| present.contains(&lease.name));
                self.create();
            }
            Verdict::Full => {
                // Without a watch at first: there may be no contention, and who was woken is usually granted.
                self.step = if self.step == Step::Watching { Step::Waiting } else { Step::Watching };
            }
        }
    }

    /// An attempt of which nothing is left.
    pub fn ended() -> Self {
        Self { step: Step::Leaving(Outcome::Left), ..Self::new(0, false, 0, false) }
    }

    /// Whether nothing is left to do.
    pub fn is_ended(&self) -> bool {
        let has_nothing = !self.has_unnamed && self.leases.is_empty() && !self.has_turn;
        has_nothing && self.outcome().is_some()
    }

    /// How the attempt ends, once it does.
    pub fn outcome(&self) -> Option<Outcome> {
        match self.step {
            Step::Leaving(outcome) => Some(outcome),
            _ => None,
        }
    }

    /// The leases, as far as they are known.
    pub fn leases(&self) -> &[Made] {
        &self.leases
    }

    /// Takes the leases of an attempt that holds. Each of them is deleted by whoever has it then.
    pub fn take_leases(&mut self) -> Vec<Made> {
        std::mem::take(&mut self.leases)
    }

    /// The numbers of the leases, as far as they are known.
    pub fn numbers(&self) -> impl Iterator<Item = Sequence> {
        self.leases.iter().filter_map(|lease| Names::LEASES.parse(&lease.name)).map(|(_, number)| number)
    }
}
