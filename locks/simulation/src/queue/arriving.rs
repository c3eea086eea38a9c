//! What the server has sent to a session and the session has not delivered yet.

use std::vec;

use zk_recipes_protocol::names::Names;
use zk_recipes_protocol::session_queue::{ContenderId, Event};

use super::request::ModelRequest;

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) enum Arriving {
    Answer(Box<(ModelRequest, Event)>),
    Notification(Event),
}

/// Messages in the order in which the server sent them, as far as the order makes a difference.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(super) struct Arrivals(Vec<Arriving>);

/// The addressee of a message.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Addressee {
    /// A contender, which handles its answers in their order.
    Answered(ContenderId),
    /// A contender whose watch has fired. It may hear of that before it handles earlier answers.
    Notified(ContenderId),
    /// All contenders under these names. They learn that a watch of the lock's node is set.
    Watching(Names),
    /// The same contenders. They learn that the watch has fired, before they handle later answers.
    Disturbed(Names),
}

impl Arriving {
    pub(super) fn answer(request: ModelRequest, event: Event) -> Self {
        Self::Answer(Box::new((request, event)))
    }

    fn event(&self) -> &Event {
        match self {
            Self::Answer(answer) => &answer.1,
            Self::Notification(event) => event,
        }
    }

    fn addressee(&self) -> Addressee {
        match self {
            Self::Notification(Event::Fired { id, .. }) => Addressee::Notified(*id),
            Self::Notification(Event::ParentChanged(names)) => Addressee::Disturbed(*names),
            Self::Notification(event) => unreachable!("BUG: {event:?} is no notification"),
            Self::Answer(answer) => match answer.1 {
                Event::ParentWatchSet(names, _) => Addressee::Watching(names),
                _ => Addressee::Answered(answer.0.ask.contender().expect("BUG: an answer without a contender")),
            },
        }
    }

    /// Returns the contender that the message is for, if it is for one.
    pub(super) fn contender(&self) -> Option<ContenderId> {
        match self.addressee() {
            Addressee::Answered(id) | Addressee::Notified(id) => Some(id),
            Addressee::Watching(_) | Addressee::Disturbed(_) => None,
        }
    }

    /// Tells whether this message must be delivered before a `later` one.
    fn goes_before(&self, later: &Self) -> bool {
        match (self.addressee(), later.addressee()) {
            (Addressee::Answered(id), Addressee::Answered(later))
            | (Addressee::Notified(id), Addressee::Notified(later) | Addressee::Answered(later)) => id == later,
            // A watch has to be known before it can fire.
            (Addressee::Answered(id), Addressee::Notified(later)) => {
                id == later && matches!(self.event(), Event::WatchSet(..))
            }
            (Addressee::Watching(names), Addressee::Disturbed(later) | Addressee::Watching(later)) => names == later,
            (Addressee::Disturbed(_), _) => true,
            _ => false,
        }
    }
}

impl Arrivals {
    pub(super) fn push(&mut self, arriving: Arriving) {
        self.0.push(arriving);
        self.sort();
    }

    /// Returns the positions of the messages that may be delivered next.
    pub(super) fn deliverable(&self) -> impl Iterator<Item = usize> {
        (0..self.0.len()).filter(|i| !(0..*i).any(|first| self.goes_before(first, *i)))
    }

    fn goes_before(&self, first: usize, later: usize) -> bool {
        match self.0[first].addressee() {
            // No contender knows of the watch yet.
            Addressee::Disturbed(names)
                if self.0[..first].iter().any(|set| set.addressee() == Addressee::Watching(names)) =>
            {
                self.0[later].addressee() == Addressee::Disturbed(names)
            }
            _ => self.0[first].goes_before(&self.0[later]),
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns the requests whose answers have not been delivered.
    pub(super) fn answered(&self) -> impl Iterator<Item = &ModelRequest> {
        self.0.iter().filter_map(|arriving| match arriving {
            Arriving::Answer(answer) => Some(&answer.0),
            Arriving::Notification(_) => None,
        })
    }

    /// Returns the contender that a message is for, if it is for one.
    pub(super) fn recipient(&self, i: usize) -> Option<ContenderId> {
        self.0[i].contender()
    }

    /// Returns the contenders that a message is for.
    pub(super) fn contenders(&self) -> impl Iterator<Item = ContenderId> {
        self.0.iter().filter_map(Arriving::contender)
    }

    pub(super) fn take(&mut self, i: usize) -> Event {
        let event = self.0.remove(i).event().clone();
        self.sort();
        event
    }

    /// Sorts messages to different contenders, whose order makes no difference. States that differ only in that order
    /// become one.
    fn sort(&mut self) {
        for part in self
            .0
            .split_mut(|arriving| matches!(arriving.addressee(), Addressee::Watching(_) | Addressee::Disturbed(_)))
        {
            part.sort_by_key(Arriving::contender);
        }
    }
}

impl IntoIterator for Arrivals {
    type Item = Arriving;
    type IntoIter = vec::IntoIter<Arriving>;

    fn into_iter(self) -> Self::IntoIter {
        self.0.into_iter()
    }
}
