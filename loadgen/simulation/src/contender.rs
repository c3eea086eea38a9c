//! One contender of the simulation. The protocol's [`SessionQueue`](zk_recipes_protocol::session_queue::SessionQueue)
//! decides what it does. This module turns asks into requests, and answers into events.

use zk_recipes_protocol::names::{Mode, Names, Naming};
use zk_recipes_protocol::queue::Predecessor;
use zk_recipes_protocol::session_queue::{
    Ask, ContenderId, DeleteCondition, Event, FirstLook, Made, NewNode, NotDeleted, Pause, QueueListing, Seen, Wish,
    WishKind,
};

use crate::Recipe;
use crate::costs::{name, number, sequence};
use crate::server::{Leave, Listing, PARENT, Reply, Request};

/// A contender, and what it has sent.
#[derive(Debug)]
pub(crate) struct SimulatedContender {
    /// The index of its session.
    pub(crate) session: usize,
    pub(crate) id: ContenderId,
    /// The number of its node, once it has one.
    number: Option<u32>,
    /// The look that was sent right behind its `create`.
    look: FirstLook,
    /// The transaction that created its node, until the look is answered.
    czxid: Option<i64>,
}

/// The result of an ask.
#[derive(Debug)]
pub(crate) enum Deed {
    Send(Vec<Request>),
    /// An answer that needs no request.
    Answer(Event),
    /// The contender waits for its batch, and is told when the wait is over.
    Join,
    /// The state of the contender has changed.
    Notice,
}

/// Returns what a contender of a recipe wants.
pub(crate) fn wish(recipe: Recipe) -> Wish {
    let naming = if recipe == Recipe::Handoff { Naming::Numbered } else { Naming::Protected };
    Wish { mode: Mode::Exclusive, naming, names: Names::MUTEX, kind: WishKind::Wait }
}

impl SimulatedContender {
    pub(crate) fn new(session: usize, id: ContenderId) -> SimulatedContender {
        SimulatedContender { session, id, number: None, look: FirstLook::None, czxid: None }
    }

    /// Returns the number that the server has given to its node.
    pub(crate) fn number(&self) -> u32 {
        self.number.expect("BUG: a contender without a number is in the queue")
    }

    /// Carries out an ask.
    pub(crate) fn carry_out(&mut self, ask: Ask) -> Deed {
        let requests = match ask {
            Ask::Create(_, NewNode::Numbered, look) => {
                self.look = look;
                match look {
                    FirstLook::None => vec![Request::Create],
                    FirstLook::List => vec![Request::Create, Request::List],
                    FirstLook::Note => vec![Request::Create, Request::Note],
                }
            }
            Ask::List(_) => vec![Request::List],
            Ask::ReadNote(_) => vec![Request::Note],
            Ask::ReadNoteBeside(_) => vec![Request::NoteBeside(self.number())],
            Ask::Watch(_, name) => vec![Request::Watch(number(&name))],
            Ask::WatchParent(..) => vec![Request::WatchParent],
            Ask::Delete(_, condition) => {
                let leave = match condition {
                    DeleteCondition::None => Leave::Nothing,
                    DeleteCondition::Noted(note) => Leave::Note(Box::new(note)),
                    DeleteCondition::Beside(other) => Leave::Beside(number(&other)),
                };
                vec![Request::Delete(self.number(), leave)]
            }
            // A session that was answered just now has proved that it lives.
            Ask::Prove(id) => return Deed::Answer(Event::Proved(id, Ok(()))),
            Ask::Tell(_) => return Deed::Notice,
            Ask::Pause(_, Pause::Join) => return Deed::Join,
            Ask::Create(..)
            | Ask::CreateParents(_)
            | Ask::Find(_)
            | Ask::Identify(..)
            | Ask::CheckOwn(_)
            | Ask::Pause(..)
            | Ask::Lose(_)
            | Ask::Warn(_) => unreachable!("BUG: {ask:?} in a queue in which nothing fails"),
        };
        Deed::Send(requests)
    }

    /// Turns an answer into an event for the queue. Returns `None` if the event needs a second answer.
    pub(crate) fn hear(&mut self, recipe: Recipe, answer: Reply) -> Option<Event> {
        let id = self.id;
        Some(match answer {
            Reply::Created { number, czxid } => {
                self.number = Some(number);
                if self.look != FirstLook::None {
                    // The queue is told of the node together with what the look has shown.
                    self.czxid = Some(czxid);
                    return None;
                }
                Event::Created(id, Ok((made(recipe, number, czxid), Seen::Nothing)))
            }
            Reply::Listed { listing, changed } => {
                let listed = listed(recipe, listing, changed, self.number());
                match self.czxid.take() {
                    Some(czxid) => Event::Created(id, Ok((made(recipe, self.number(), czxid), Seen::Listed(listed)))),
                    None => Event::Listed(id, Ok(Some(listed))),
                }
            }
            Reply::Noted(state) => match (self.czxid.take(), state) {
                (Some(czxid), Some(state)) => {
                    Event::Created(id, Ok((made(recipe, self.number(), czxid), Seen::Note(state))))
                }
                (_, state) => Event::NoteRead(id, Ok(state)),
            },
            Reply::ParentWatched => Event::ParentWatchSet(Names::MUTEX, Some(PARENT)),
            Reply::Watching(czxid) => Event::WatchSet(id, Ok(czxid)),
            Reply::Deleted(is_done) => Event::Deleted(id, if is_done { Ok(()) } else { Err(NotDeleted::Unmet) }),
            Reply::Others { .. } => unreachable!("BUG: the queue has not asked for others"),
        })
    }
}

/// Returns the node of this number, as its contender knows it.
fn made(recipe: Recipe, number: u32, czxid: i64) -> Made {
    Made { name: name(recipe, number), czxid, is_ours: true }
}

/// Returns a listing as the contender `own` sees it.
fn listed(recipe: Recipe, listing: Listing, changed: i64, own: u32) -> QueueListing {
    // In a drain the nodes are deleted in the order of their creation, so the nearest is the number before.
    let is_own_present = listing.has(own);
    let predecessor = (is_own_present && listing.first < own).then(|| {
        let name = name(recipe, own - 1);
        Predecessor { sequence: sequence(&name), name }
    });
    QueueListing {
        parent: PARENT,
        changed,
        is_own_present,
        predecessor,
        has_beside: false,
        admits: listing.len() == 0,
        foreign: None,
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use zk_recipes_protocol::queue::Queue;
    use zk_recipes_protocol::session_queue::Viewpoint;
    use zk_recipes_protocol::stat::Stat;

    use super::*;

    proptest! {
        #[test]
        fn the_nearest_of_a_listing_decide_as_all_of_it_does(
            recipe in prop::sample::select(&[Recipe::Mutex, Recipe::Handoff][..]), first in 1_u32..50, len in 0_u32..300,
            own in 1_u32..350, changed in any::<i64>(),
        ) {
            let listing = Listing { first, end: first + len };
            let names: Vec<String> = (listing.first..listing.end).map(|number| name(recipe, number)).collect();
            let parent = Stat { czxid: PARENT.0, pzxid: changed, ..Stat::default() };
            let own_name = Some(name(recipe, own));
            let viewpoint = Viewpoint { names: Names::MUTEX, mode: Mode::Exclusive, own: own_name, beside: None };
            prop_assert_eq!(listed(recipe, listing, changed, own), viewpoint.see(&Queue::from_children(&names, Names::MUTEX), &parent));
        }
    }
}
