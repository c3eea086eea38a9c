//! An attempt to take permits of a semaphore, as a state machine.
//!
//! Attempts queue for the *lease lock*, in a queue of their own. The attempt that has the lease lock creates its leases, one for each permit, and
//! waits until all of them hold. Then it gives the lease lock back, and the next attempt gets it. So two attempts for several permits
//! never wait for each other, and one release wakes one attempt. Curator takes a lock per permit, so its clients can each hold some
//! permits and wait for the rest.
//!
//! One ask is one request, or a group of requests that are sent together. Its answer comes before the next ask. [`Event::Leaves`] may
//! come at any time, even instead of an answer, and again. Only [`Event::Created`] may follow it all the same: it tells which leases
//! there are. From then on the asks delete everything that exists or may exist: first
//! the leases, then the lease lock. With the lease lock alone, the next attempt could only wait for these leases.

use std::collections::HashSet;

use crate::leases::{LeaseListing, LeasesVerdict};
use crate::names::{Names, Sequence, Supply};
use crate::session_queue::Made;

/// What the shell has to do.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Ask {
    /// Waits until the semaphore has at least this number of permits, held or free. The answer is [`Event::Reached`].
    Reach(usize),
    /// Lists the leases. The answer is [`Event::Listed`].
    List,
    /// Lists the leases, and watches them and the number of permits. The answer is [`Event::Listed`].
    Watch,
    /// Waits until the leases or the number of permits change after [`Ask::Watch`]. The answer is [`Event::Changed`].
    Wait,
    /// Queues for the lease lock. The answer is [`Event::LeaseLock`].
    TakeLeaseLock,
    /// Takes the lease lock if no other attempt has it or waits for it. The answer is [`Event::LeaseLock`].
    TryLeaseLock,
    /// Creates this number of leases, sent together. The answer is [`Event::Created`].
    Create(usize),
    /// Creates the parent of the leases. The answer is [`Event::ParentCreated`].
    CreateParent,
    /// Pauses, because a reply was lost or the server throttled a `create`. The answer is [`Event::Paused`].
    Pause,
    /// Finds the attempt's leases whose names are not known. The answer is [`Event::Found`].
    Find,
    /// Asks a quorum whether the number of permits is still the one of the last listing, and waits for a proof that the session
    /// lives. The answer is [`Event::Proved`], or [`Event::Changed`] if the number is another one.
    Prove,
    /// Gives the lease lock back. The answer is [`Event::LeaseLockLeft`].
    LeaveLeaseLock,
    /// Deletes the leases of these names. The answer is [`Event::Deleted`].
    Delete(Vec<String>),
}

/// The state of an attempt, for its user.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum AttemptState {
    /// It does not hold yet.
    Contending,
    /// All its leases hold.
    Holding,
    /// It leaves, for this reason. It is over once it asks for nothing.
    Leaving(AttemptOutcome),
}

/// What the shell tells an attempt.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Event {
    /// The semaphore has as many permits as the attempt wants, held or free.
    Reached,
    /// The children of the leases' node, and the number of permits.
    Listed(Vec<String>, usize),
    /// The leases or the number of permits have changed.
    Changed,
    /// Whether the attempt has the lease lock. `false`: another attempt was ahead of a `try`, or the deadline came first.
    LeaseLock(bool),
    /// The answers to `create`s that were sent together.
    Created(Flight),
    /// The parent of the leases exists.
    ParentCreated,
    /// The pause is over.
    Paused,
    /// The leases whose names were not known.
    Found(Vec<Made>),
    /// The session lives, and the number of permits was still the one of the last listing.
    Proved,
    /// The lease lock was given back, or the shell gives it back later.
    LeaseLockLeft,
    /// The leases of these names are deleted.
    Deleted(Vec<String>),
    /// The attempt gives up or releases. LeaseListing that were moved out by [`Permits::take_leases`] stay.
    Leaves,
}

/// The results of several `create`s that were sent together.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Flight {
    /// The leases that were created.
    pub made: Vec<Made>,
    /// Whether to repeat a request after a pause: its reply was lost, or the server throttled it.
    pub is_to_repeat: bool,
    /// Whether the parent was missing.
    pub is_parent_missing: bool,
    /// Whether there may be leases whose names are not known.
    pub has_unnamed: bool,
}

/// How an attempt ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum AttemptOutcome {
    /// It was given up.
    Left,
    /// It did not get the lease lock, or it only tried and too few permits were free.
    InTheWay,
    /// One of its leases belongs to another session.
    NotOwned,
    /// The number of a lease is too close to the last number.
    NumbersExhausted(Sequence),
}

/// The phase of an attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum AttemptPhase {
    /// It checks for free permits before it writes.
    Trying,
    TakingLeaseLock,
    Reaching,
    Creating,
    CreatingParent,
    Pausing,
    Finding,
    Listing,
    Watching,
    Waiting,
    Proving,
    LeavingLeaseLock,
    Holding,
    Leaving(AttemptOutcome),
}

/// One attempt to take permits.
///
/// # The phases
///
/// On each line, an event leads from one phase to the next. `[Ask]` is what the attempt asks for.
///
/// ```text
///  try                        wait
///   |                          |
///   v           room           v
///  Trying [List] --> TakingLeaseLock [TakeLeaseLock, TryLeaseLock]
///                          |          |
///                          |          | several, and it waits
///                          |          v
///                    taken |       Reaching [Reach]
///                          v          |
///                       Creating <----' Reached
///                       [Create]
///                          | all are created
///                          v    full                full
///                       Listing -----> Watching --------> Waiting
///                       [List]         [Watch]            [Wait]
///                        |  ^             |                  |
///                        |  |<------------|-- Changed -------'
///              all hold  |  |             | all hold
///                        v  | Changed     |
///                       Proving [Prove] <-'
///                          | Proved
///                          v
///                       LeavingLeaseLock [LeaveLeaseLock] --- LeaseLockLeft ---> Holding
///
///  Trying           too few are free ................ Leaving(InTheWay)
///  TakingLeaseLock  another is ahead ................ Leaving(InTheWay)
///  Creating         some are left to create ......... Creating
///                   no parent ....................... CreatingParent [CreateParent]
///                   reply lost, or throttled ........ Pausing [Pause]
///                   one is not ours ................. Leaving(NotOwned)
///                   the numbers run out ............. Leaving(NumbersExhausted)
///  CreatingParent   ParentCreated ................... Creating
///  Pausing          over, some may be unnamed ....... Finding [Find]
///                   over, all are named ............. Creating, or Listing if none lacks
///  Finding          Found ........................... Creating, or Listing if none lacks
///  Listing          a try that does not hold ........ Leaving(InTheWay)
///                   one of ours is missing .......... Creating
///  Watching         one of ours is missing .......... Creating
///  every phase      Leaves .......................... Leaving(Left)
///
///  Leaving          leases of unknown names ......... [Find]
///                   then leases ..................... [Delete]
///                   then the lease lock ............. [LeaveLeaseLock]
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Permits {
    wanted: usize,
    is_try: bool,
    /// Upper bound of the requests that are sent together.
    together: usize,
    has_parent: bool,
    has_lease_lock: bool,
    leases: Vec<Made>,
    /// Whether there may be leases whose names are not known.
    has_unnamed: bool,
    phase: AttemptPhase,
}

impl Permits {
    /// Starts an attempt to take `wanted` permits. `is_try`: it leaves instead of waiting. `together`: upper bound of the requests
    /// that are sent together. `has_parent`: the parent of the leases existed before.
    pub fn enter(wanted: usize, is_try: bool, together: usize, has_parent: bool, asks: &mut Vec<Ask>) -> Self {
        let phase = if is_try { AttemptPhase::Trying } else { AttemptPhase::TakingLeaseLock };
        let leases = Vec::new();
        let mut attempt =
            Self { wanted, is_try, together, has_parent, has_lease_lock: false, leases, has_unnamed: false, phase };
        asks.extend(attempt.next());
        attempt
    }

    /// Handles an event.
    pub fn on(&mut self, event: Event, asks: &mut Vec<Ask>) {
        self.handle(event);
        asks.extend(self.next());
    }

    /// Returns the state of the attempt, for the user that waits for it.
    pub fn state(&self) -> AttemptState {
        match self.phase {
            AttemptPhase::Holding => AttemptState::Holding,
            AttemptPhase::Leaving(outcome) => AttemptState::Leaving(outcome),
            _ => AttemptState::Contending,
        }
    }

    fn next(&mut self) -> Option<Ask> {
        Some(match self.phase {
            AttemptPhase::Trying | AttemptPhase::Listing => Ask::List,
            AttemptPhase::TakingLeaseLock if self.is_try => Ask::TryLeaseLock,
            AttemptPhase::TakingLeaseLock => Ask::TakeLeaseLock,
            AttemptPhase::Reaching => Ask::Reach(self.wanted),
            AttemptPhase::Creating => {
                // From here on leases may exist, even if replies are lost.
                self.has_unnamed = true;
                // If the parent is missing, every request fails, so one is enough.
                let lacking = self.wanted - self.leases.len();
                Ask::Create(if self.has_parent { lacking.min(self.together) } else { 1 })
            }
            AttemptPhase::CreatingParent => Ask::CreateParent,
            AttemptPhase::Pausing => Ask::Pause,
            AttemptPhase::Finding => Ask::Find,
            AttemptPhase::Watching => Ask::Watch,
            AttemptPhase::Waiting => Ask::Wait,
            AttemptPhase::Proving => Ask::Prove,
            AttemptPhase::LeavingLeaseLock => Ask::LeaveLeaseLock,
            AttemptPhase::Leaving(_) if self.has_unnamed => Ask::Find,
            AttemptPhase::Leaving(_) if !self.leases.is_empty() => {
                Ask::Delete(self.leases.iter().rev().take(self.together).map(|lease| lease.name.clone()).collect())
            }
            AttemptPhase::Leaving(_) if self.has_lease_lock => Ask::LeaveLeaseLock,
            AttemptPhase::Holding | AttemptPhase::Leaving(_) => return None,
        })
    }

    fn end(&mut self, outcome: AttemptOutcome) {
        if !matches!(self.phase, AttemptPhase::Leaving(_)) {
            self.phase = AttemptPhase::Leaving(outcome);
        }
    }

    fn handle(&mut self, event: Event) {
        match event {
            Event::Reached => self.create(),
            Event::Listed(children, permits) => self.on_listed(&children, permits),
            Event::Changed => self.create(),
            Event::LeaseLock(true) => {
                self.has_lease_lock = true;
                // With fewer permits than wanted, the leases would only block others. For one permit the question is not worth a
                // request.
                if self.wanted > 1 && !self.is_try { self.phase = AttemptPhase::Reaching } else { self.create() }
            }
            Event::LeaseLock(false) => self.end(AttemptOutcome::InTheWay),
            Event::Created(flight) => self.on_created(flight),
            Event::ParentCreated => self.create(),
            Event::Paused if self.has_unnamed => self.phase = AttemptPhase::Finding,
            Event::Paused => self.create(),
            Event::Found(found) => {
                self.has_unnamed = false;
                self.leases.extend(found);
                self.create();
            }
            Event::Proved => self.phase = AttemptPhase::LeavingLeaseLock,
            Event::LeaseLockLeft => {
                self.has_lease_lock = false;
                if self.phase == AttemptPhase::LeavingLeaseLock {
                    self.phase = AttemptPhase::Holding;
                }
            }
            Event::Deleted(names) => self.leases.retain(|lease| !names.contains(&lease.name)),
            Event::Leaves => self.end(AttemptOutcome::Left),
        }
    }

    /// Creates the missing leases. If none is missing, checks whether all of them hold.
    fn create(&mut self) {
        if !matches!(self.phase, AttemptPhase::Leaving(_)) {
            self.phase = if self.leases.len() < self.wanted { AttemptPhase::Creating } else { AttemptPhase::Listing };
        }
    }

    fn on_created(&mut self, flight: Flight) {
        let Flight { made, is_to_repeat, is_parent_missing, has_unnamed } = flight;
        self.has_unnamed = has_unnamed;
        self.leases.extend(made);
        if matches!(self.phase, AttemptPhase::Leaving(_)) {
            return;
        }
        if self.leases.iter().any(|lease| !lease.is_ours) {
            // The server has just created the nodes for this session, so only a faulty proxy or server gives this answer.
            return self.end(AttemptOutcome::NotOwned);
        }
        let exhausted = self.numbers().find(|number| number.supply() == Supply::Exhausted);
        if let Some(number) = exhausted {
            return self.end(AttemptOutcome::NumbersExhausted(number));
        }
        self.has_parent = !is_parent_missing;
        self.create();
        if is_parent_missing {
            self.phase = AttemptPhase::CreatingParent;
        }
        if is_to_repeat {
            self.phase = AttemptPhase::Pausing;
        }
    }

    fn on_listed(&mut self, children: &[String], permits: usize) {
        let leases = LeaseListing::from_children(children);
        if self.phase == AttemptPhase::Trying {
            let has_room = leases.have_room_for(self.wanted, permits);
            return if has_room {
                self.phase = AttemptPhase::TakingLeaseLock
            } else {
                self.end(AttemptOutcome::InTheWay)
            };
        }
        let own: HashSet<&str> = self.leases.iter().map(|lease| lease.name.as_str()).collect();
        match leases.verdict(&own, permits) {
            LeasesVerdict::Granted => self.phase = AttemptPhase::Proving,
            LeasesVerdict::Missing | LeasesVerdict::Full if self.is_try => self.end(AttemptOutcome::InTheWay),
            LeasesVerdict::Missing => {
                // Somebody deleted leases of this attempt. It still has the lease lock, and creates them again.
                let present: HashSet<&String> = children.iter().collect();
                self.leases.retain(|lease| present.contains(&lease.name));
                self.create();
            }
            LeasesVerdict::Full => {
                // The first listing sets no watch: there may be no contention, and an attempt that was woken is usually granted.
                self.phase =
                    if self.phase == AttemptPhase::Watching { AttemptPhase::Waiting } else { AttemptPhase::Watching };
            }
        }
    }

    /// Tells whether the attempt has leases, or may have some.
    pub fn has_claim(&self) -> bool {
        self.has_unnamed || !self.leases.is_empty()
    }

    /// Returns the leases whose names are known.
    pub fn leases(&self) -> &[Made] {
        &self.leases
    }

    /// Moves the leases out of an attempt that holds. The caller deletes them later.
    pub fn take_leases(&mut self) -> Vec<Made> {
        std::mem::take(&mut self.leases)
    }

    /// Returns the numbers of the leases whose names are known.
    pub fn numbers(&self) -> impl Iterator<Item = Sequence> {
        self.leases.iter().filter_map(|lease| Names::LEASES.parse(&lease.name)).map(|(_, number)| number)
    }
}
