//! What one place in the queue does from its creation to its grant. The library's functions decide; what is written here a
//! second time is the order in which its acquire loop asks them, and what it sends because of their answers.

use zk_recipes_protocol::names::Sequence;
use zk_recipes_protocol::number_proof::{Expected, FirstRequests, Grant};
use zk_recipes_protocol::predecessors::Predecessors;
use zk_recipes_protocol::release_note::ParentState;

use super::Recipe;
use super::costs::{name, sequence};
use super::drain::Drain;
use super::server::{Answer, Ask, INCARNATION, Listing};

/// So many of those directly ahead are shown to the decision on a listing. It remembers fewer by name, and of the others
/// only that they are there, so that it decides as from the whole listing.
const WINDOW: u32 = 16;

/// A place in the queue, and what its contender knows.
#[derive(Debug)]
pub(super) struct Place {
    pub(super) session: usize,
    /// Who holds by it, or will.
    pub(super) waiter: usize,
    number: Option<u32>,
    czxid: i64,
    phase: Phase,
    ahead: Predecessors,
    /// The number of whoever has gone last, of those watched.
    predecessor: u32,
    /// The place directly ahead, if it is of the same session.
    before: Option<usize>,
    /// Whether it knows which node of the path the lock's is.
    knows_incarnation: bool,
    /// Who is directly behind, of the same session, and waits for this one.
    pub(super) follower: Option<usize>,
    /// Whether the lock was passed on to it within its session.
    pub(super) is_passed: bool,
    /// What to tell the session when its holder lets go.
    pub(super) grant: Option<Grant>,
    pub(super) is_gone: bool,
}

/// What a place waits for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Phase {
    /// The answer to its creation, behind which nothing was sent: the session is busy.
    Busy,
    /// The same: the number may be proof enough.
    Trusting(Expected),
    /// The answer to a look that was sent right behind its creation, or is the first after it.
    FirstLook {
        notes_busy: bool,
    },
    /// The answer to the request by which it watches whoever is ahead.
    SettingWatch,
    Watching,
    /// The note and whether its own node is there, after whoever was ahead has gone.
    Note,
    /// The answer who is there of those ahead, and of its own.
    Probing,
    /// A listing, after whoever was ahead has gone.
    Relisting,
    Holding,
}

/// What a place does next.
#[derive(Debug)]
pub(super) enum Move {
    Wait,
    Ask(Ask),
    Hold,
}

impl Place {
    pub(super) fn new(session: usize, waiter: usize) -> Place {
        Place {
            session,
            waiter,
            number: None,
            czxid: 0,
            phase: Phase::Busy,
            ahead: Predecessors::nobody(),
            predecessor: 0,
            before: None,
            knows_incarnation: false,
            follower: None,
            is_passed: false,
            grant: None,
            is_gone: false,
        }
    }

    /// The number that the server has given to it.
    pub(super) fn number(&self) -> u32 {
        self.number.expect("BUG: a place without a number is in the queue")
    }

    fn asks(&mut self, phase: Phase, ask: Ask) -> Move {
        self.phase = phase;
        Move::Ask(ask)
    }
}

impl Drain {
    /// Sends the creation of a place, with the look that belongs to it.
    pub(super) fn enqueue(&mut self, place: usize) {
        let session = &self.sessions[self.places[place].session];
        let opening = match self.recipe {
            _ if session.is_busy => None,
            Recipe::Handoff => Some(FirstRequests::Look),
            Recipe::Naive | Recipe::Mutex | Recipe::Cohort => {
                Some(session.number_proof.first_requests(session.watched()))
            }
        };
        self.send(place, Ask::Create);
        let look = if self.recipe == Recipe::Handoff { Ask::Note } else { Ask::List };
        self.places[place].phase = match opening {
            None => Phase::Busy,
            Some(FirstRequests::Nothing(expected)) => Phase::Trusting(expected),
            Some(FirstRequests::Look) => {
                self.send(place, look);
                Phase::FirstLook { notes_busy: false }
            }
            Some(FirstRequests::LookAndWatch) => {
                self.send(place, look);
                self.send(place, Ask::WatchParent);
                Phase::FirstLook { notes_busy: false }
            }
        };
    }

    /// What a place does with an answer.
    pub(super) fn answered(&mut self, place: usize, answer: Answer) -> Move {
        match answer {
            Answer::Created { number, czxid } => self.created(place, number, czxid),
            Answer::Listed(listing) => self.listed(place, listing),
            Answer::Noted(noted) => self.noted(place, noted),
            Answer::ParentWatched => {
                let session = self.places[place].session;
                self.sessions[session].watches_parent = true;
                Move::Wait
            }
            Answer::Watching => self.watching(place),
            Answer::Gone => {
                self.places[place].before = None;
                let session = self.places[place].session;
                self.sessions[session].is_busy = false;
                self.look_again(place)
            }
            Answer::Present(present) => self.present(place, &present),
            Answer::Alone(_) | Answer::Deleted => unreachable!("BUG: these are no answers to who waits"),
        }
    }

    /// What a place does when it is notified that the one it watches has gone.
    pub(super) fn notified(&mut self, place: usize) -> Move {
        match self.places[place].phase {
            Phase::Watching => self.look_again(place),
            // The lock was passed on to it before.
            _ => Move::Wait,
        }
    }

    fn created(&mut self, place: usize, number: u32, czxid: i64) -> Move {
        (self.places[place].number, self.places[place].czxid) = (Some(number), czxid);
        self.is_numbered(place, number);
        let session = &self.sessions[self.places[place].session];
        match self.places[place].phase {
            Phase::Trusting(expected) if expected.proves(self.own(place), session.watched()) => {
                self.places[place].knows_incarnation = true;
                self.step(place)
            }
            Phase::Trusting(_) => self.places[place].asks(Phase::FirstLook { notes_busy: false }, Ask::List),
            Phase::Busy => match self.directly_ahead(place) {
                Some(ahead) => {
                    self.places[place].ahead = ahead;
                    self.places[place].before = self.member_before(place);
                    self.step(place)
                }
                None => self.places[place].asks(Phase::FirstLook { notes_busy: true }, Ask::List),
            },
            _ => Move::Wait,
        }
    }

    /// The one directly ahead, if its name is known without a look.
    fn directly_ahead(&self, place: usize) -> Option<Predecessors> {
        if self.recipe == Recipe::Handoff {
            return Some(self.number_before(place));
        }
        let before = self.member_before(place)?;
        let name = name(self.recipe, self.places[before].number());
        Some(Predecessors::directly(sequence(&name), name))
    }

    fn number_before(&self, place: usize) -> Predecessors {
        Predecessors::number_before(self.own(place), |number| format!("lock-{number}"))
    }

    fn own(&self, place: usize) -> Sequence {
        sequence(&name(self.recipe, self.places[place].number()))
    }

    fn listed(&mut self, place: usize, listing: Listing) -> Move {
        let (recipe, number) = (self.recipe, self.places[place].number());
        self.places[place].ahead = ahead_in(recipe, listing, number);
        self.places[place].knows_incarnation = true;
        if self.places[place].phase == (Phase::FirstLook { notes_busy: true }) {
            let is_busy = !self.places[place].ahead.is_nobody();
            let session = self.places[place].session;
            self.sessions[session].is_busy = is_busy;
        }
        self.step(place)
    }

    fn noted(&mut self, place: usize, noted: ParentState) -> Move {
        let (own, czxid) = (self.own(place), self.places[place].czxid);
        self.places[place].knows_incarnation = true;
        if self.places[place].phase != Phase::Note {
            let ahead = if noted.has_only_child(czxid) { Predecessors::nobody() } else { self.number_before(place) };
            self.places[place].ahead = ahead;
            return self.step(place);
        }
        let predecessor = sequence(&name(self.recipe, self.places[place].predecessor));
        if noted.passes(predecessor, own, czxid) { self.hold(place) } else { self.look_by_names(place) }
    }

    fn watching(&mut self, place: usize) -> Move {
        let session = self.places[place].session;
        self.sessions[session].is_busy = true;
        self.places[place].phase = Phase::Watching;
        if self.places[place].before.is_none() {
            self.places[place].before = self.member_before(place);
        }
        if let Some(before) = self.places[place].before {
            self.places[place].knows_incarnation |= self.places[before].knows_incarnation;
            self.places[before].follower = Some(place);
        }
        Move::Wait
    }

    /// Whoever is ahead has gone.
    fn look_again(&mut self, place: usize) -> Move {
        self.places[place].ahead.pop();
        match self.recipe {
            Recipe::Handoff => {
                let number = self.places[place].number();
                self.places[place].asks(Phase::Note, Ask::NoteBeside(number))
            }
            Recipe::Naive | Recipe::Mutex | Recipe::Cohort => self.look_by_names(place),
        }
    }

    /// Asks for those that were seen ahead before, or lists the queue anew.
    fn look_by_names(&mut self, place: usize) -> Move {
        let recipe = self.recipe;
        if let Some(before) = self.places[place].before.take() {
            self.places[place].knows_incarnation |= self.places[before].knows_incarnation;
        }
        let floor = self.sessions[self.places[place].session].floor;
        let contender = &mut self.places[place];
        if let Some(floor) = floor.filter(|_| contender.knows_incarnation) {
            contender.ahead.raise(sequence(&name(recipe, floor)));
        }
        if !contender.ahead.is_complete() || !contender.ahead.is_cheap_to_probe() {
            return contender.asks(Phase::Relisting, Ask::List);
        }
        let ahead = contender.ahead.names().map(|name| number(sequence(name)));
        let asked: Vec<u32> = ahead.chain([contender.number()]).collect();
        contender.asks(Phase::Probing, Ask::Probe(asked))
    }

    fn present(&mut self, place: usize, present: &[bool]) -> Move {
        let Some((own, ahead)) = present.split_last() else { unreachable!("BUG: nobody was asked for") };
        assert!(own, "BUG: the node of a simulated waiter has gone");
        self.places[place].ahead.keep(ahead);
        self.step(place)
    }

    /// Watches the nearest of those ahead, or holds if there is nobody.
    fn step(&mut self, place: usize) -> Move {
        if self.places[place].ahead.is_nobody() {
            return self.hold(place);
        }
        let contender = &mut self.places[place];
        let Some(predecessor) = contender.ahead.predecessor().map(|(sequence, _)| number(sequence)) else {
            return contender.asks(Phase::Relisting, Ask::List);
        };
        contender.predecessor = predecessor;
        contender.asks(Phase::SettingWatch, Ask::Watch(predecessor))
    }

    fn hold(&mut self, place: usize) -> Move {
        self.places[place].phase = Phase::Holding;
        Move::Hold
    }

    /// What a grant tells the others of the session.
    pub(super) fn note_grant(&mut self, place: usize) {
        let sequence = self.own(place);
        let recipe = self.recipe;
        let Place { session, is_passed, knows_incarnation, .. } = self.places[place];
        self.places[place].phase = Phase::Holding;
        if is_passed || !knows_incarnation {
            return;
        }
        let grant = Grant { parent: INCARNATION, sequence };
        self.sessions[session].floor = Some(self.places[place].number());
        self.sessions[session].number_proof.granted(grant);
        if recipe != Recipe::Handoff {
            self.places[place].grant = Some(grant);
        }
    }
}

/// Who is ahead of the contender `own` by a listing.
fn ahead_in(recipe: Recipe, listing: Listing, own: u32) -> Predecessors {
    let nearest = listing.first.max(own.saturating_sub(WINDOW));
    let names: Vec<String> = (nearest..own).map(|number| name(recipe, number)).collect();
    let ahead = names.iter().map(|name| (sequence(name), name.as_str())).collect();
    Predecessors::new(ahead, listing.len() as usize)
}

/// Numbers of nodes stay far below where they would wrap.
fn number(sequence: Sequence) -> u32 {
    u32::try_from(sequence.get()).expect("BUG: a simulated number has wrapped")
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use zk_recipes_protocol::names::Names;
    use zk_recipes_protocol::queue::Queue;

    use super::*;

    proptest! {
        #[test]
        fn the_nearest_of_a_listing_decide_as_all_of_it_does(first in 1_u32..50, ahead in 0_u32..200, behind in 0_u32..200) {
            let own = first + ahead;
            let listing = Listing { first, end: own + 1 + behind };
            let names: Vec<String> = (listing.first..listing.end).map(|number| name(Recipe::Mutex, number)).collect();
            let queue = Queue::from_children(&names, Names::MUTEX);
            prop_assert_eq!(Some(ahead_in(Recipe::Mutex, listing, own)), queue.ahead_of(&name(Recipe::Mutex, own)));
        }
    }
}
