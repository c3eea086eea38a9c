//! Requests on their way to a server.

use zk_recipes_protocol::names::Naming;
use zk_recipes_protocol::session_queue::{
    Ask, Event, Failure, Found, Made, NotCreated, NotDeleted, Seen, Viewpoint, Wish,
};

/// A request on its way, with what the shell knows of its contender.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct ModelRequest {
    pub(super) ask: Ask,
    pub(super) own: Option<Made>,
    pub(super) wish: Option<Wish>,
    pub(super) viewpoint: Option<Viewpoint>,
    pub(super) progress: Progress,
}

/// The progress of a request that takes several steps.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) enum Progress {
    Fresh,
    /// The look has overtaken its `create`, and has seen this.
    Seen(Seen),
    /// The `create` was applied, and its look was not.
    Created(Made),
    /// These nodes are still to be read, the next one last.
    Searching {
        left: Vec<String>,
        found: Found,
    },
}

/// The next step of a search, which several contenders may take together.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum SearchStep {
    List(Naming),
    Read(String),
}

/// How a server declines a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Decline {
    /// It has too much to do.
    Throttled,
    /// It refuses the request, as for a user without the permission.
    Refused,
}

impl ModelRequest {
    /// Tells whether contenders of one session may share it.
    pub(super) fn is_shared(&self) -> bool {
        matches!(self.ask, Ask::List(_) | Ask::Find(_))
    }

    /// Returns what a queue is told if the server declines the rest of the request. `None` if the shell repeats it.
    pub(super) fn declined(&self, decline: Decline) -> Option<Event> {
        let is_throttled = decline == Decline::Throttled;
        let failure = if is_throttled { Failure::Throttled } else { Failure::Refused { is_certain: true } };
        match (&self.ask, &self.progress) {
            (Ask::Create(id, ..), Progress::Created(made)) => {
                Some(Event::Created(*id, Ok((made.clone(), Seen::Nothing))))
            }
            (Ask::Create(id, ..), _) => Some(Event::Created(*id, Err(NotCreated::Failed(failure)))),
            (Ask::Delete(id, _), _) => Some(Event::Deleted(*id, Err(NotDeleted::Failed(failure)))),
            _ if is_throttled => None,
            (Ask::CreateParents(id), _) => Some(Event::ParentsCreated(*id, Err(failure))),
            (Ask::Find(id), _) => Some(Event::Found(*id, Err(failure))),
            (Ask::List(id), _) => Some(Event::Listed(*id, Err(failure))),
            (Ask::ReadNote(id) | Ask::ReadNoteBeside(id), _) => Some(Event::NoteRead(*id, Err(failure))),
            (Ask::CheckOwn(id), _) => Some(Event::OwnChecked(*id, Err(failure))),
            (Ask::Watch(id, _), _) => Some(Event::WatchSet(*id, Err(failure))),
            (Ask::WatchParent(_, names), _) => Some(Event::ParentWatchSet(*names, None)),
            (Ask::Identify(id, _), _) => Some(Event::Identified(*id, Err(failure))),
            _ => None,
        }
    }

    /// Returns the next step, if it is of a search.
    pub(super) fn next_of_search(&self) -> Option<SearchStep> {
        match (&self.ask, &self.progress) {
            (Ask::Find(_), Progress::Searching { left, .. }) => left.last().cloned().map(SearchStep::Read),
            (Ask::Find(_), _) => self.wish.as_ref().map(|wish| SearchStep::List(wish.naming)),
            _ => None,
        }
    }

    /// Tells whether a follower has to know all changes before it answers the next step.
    pub(super) fn is_current(&self) -> bool {
        match (&self.ask, &self.progress) {
            (Ask::Create(..), Progress::Created(_)) | (Ask::Find(_), Progress::Searching { .. }) => false,
            (ask, _) => matches!(
                ask,
                Ask::Create(..) | Ask::CreateParents(_) | Ask::Delete(..) | Ask::Find(_) | Ask::Identify(..)
            ),
        }
    }
}
