//! A model of one server: the lock's node with its children, the watches of the sessions, and the answers.

use std::collections::{BTreeMap, BTreeSet};

use zk_recipes_protocol::names::{self, EXHAUSTED_FROM, Mode, Names, Naming, Sequence};
use zk_recipes_protocol::queue::Queue;
use zk_recipes_protocol::release_note::{ParentState, note};
use zk_recipes_protocol::session_queue::{
    Ask, ContenderId, DeleteCondition, Event, Failure, FirstLook, Found, Made, NewNode, NotCreated, NotDeleted,
    QueueListing, Seen, Viewpoint, Wish,
};
use zk_recipes_protocol::stat::{ParentCzxid, Stat};

/// A session, by its index.
pub(super) type SessionNo = usize;

/// A child of the lock's node.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct Child {
    pub(super) czxid: i64,
    /// The session that owns it, if it is one of ours.
    pub(super) owner: Option<SessionNo>,
    /// The contender that wrote its data, unless the data was overwritten.
    pub(super) mark: Option<ContenderId>,
}

/// The lock's node.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Parent {
    pub(super) czxid: i64,
    pzxid: i64,
    version: i32,
    data: Vec<u8>,
    next_number: i32,
}

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

impl ModelRequest {
    /// Tells whether contenders of one session may share it.
    pub(super) fn is_shared(&self) -> bool {
        matches!(self.ask, Ask::List(_) | Ask::Find(_))
    }

    /// Returns what a queue is told if the server throttles the rest of the request. `None` if the shell repeats it.
    pub(super) fn throttled(&self) -> Option<Event> {
        match (&self.ask, &self.progress) {
            (Ask::Create(id, ..), Progress::Created(made)) => {
                Some(Event::Created(*id, Ok((made.clone(), Seen::Nothing))))
            }
            (Ask::Create(id, ..), _) => Some(Event::Created(*id, Err(NotCreated::Failed(Failure::Throttled)))),
            (Ask::Delete(id, _), _) => Some(Event::Deleted(*id, Err(NotDeleted::Failed(Failure::Throttled)))),
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
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct ModelServer {
    zxid: i64,
    pub(super) parent: Parent,
    pub(super) children: BTreeMap<String, Child>,
    /// The watches of children. They fire when a child is deleted or overwritten.
    watches: BTreeSet<(String, SessionNo, ContenderId)>,
    /// The watches of the lock's node.
    parent_watches: BTreeSet<(SessionNo, Names)>,
}

/// Notifications, each with the session that gets it.
pub(super) type Notifications = Vec<(SessionNo, Event)>;

impl ModelServer {
    pub(super) fn new(first_number: i32) -> Self {
        let parent = Parent { czxid: 1, pzxid: 1, version: 0, data: Vec::new(), next_number: first_number };
        let children = BTreeMap::new();
        let watches = BTreeSet::new();
        let parent_watches = BTreeSet::new();
        Self { zxid: 1, parent, children, watches, parent_watches }
    }

    /// Carries out a request of a session. Returns its answer, unless the request takes another step, and the notifications that
    /// it causes.
    pub(super) fn apply(&mut self, session: SessionNo, request: &mut ModelRequest) -> (Option<Event>, Notifications) {
        let mut told = Vec::new();
        let own = || request.own.as_ref().expect("BUG: the request is of a contender without a node");
        let event = match &request.ask {
            Ask::Create(id, new, look) => {
                let id = *id;
                let new = new.clone();
                let look = *look;
                return (self.create(session, id, request, &new, look), told);
            }
            Ask::Find(id) => return (self.find(session, *id, request), told),
            Ask::CreateParents(id) => Event::ParentsCreated(*id, Ok(())),
            Ask::List(id) => Event::Listed(*id, Ok(Some(self.list(request)))),
            Ask::ReadNote(id) => Event::NoteRead(*id, Ok(Some(self.state()))),
            Ask::ReadNoteBeside(id) => {
                let state = self.state();
                Event::NoteRead(*id, Ok(self.has(own()).then_some(state)))
            }
            Ask::CheckOwn(id) => Event::OwnChecked(*id, Ok(self.has(own()))),
            Ask::Watch(id, name) => {
                let czxid = self.children.get(name).map(|child| child.czxid);
                if czxid.is_some() {
                    self.watches.insert((name.clone(), session, *id));
                }
                Event::WatchSet(*id, Ok(czxid))
            }
            Ask::WatchParent(_, names) => {
                self.parent_watches.insert((session, *names));
                Event::ParentWatchSet(*names, Some(ParentCzxid(self.parent.czxid)))
            }
            Ask::Identify(id, name) => Event::Identified(*id, Ok(self.children.get(name).map(|child| child.czxid))),
            Ask::Delete(id, condition) => Event::Deleted(*id, self.delete_if(&own().name, condition, &mut told)),
            Ask::Prove(_) | Ask::Pause(..) | Ask::Lose(_) | Ask::Tell(_) | Ask::Warn(_) => {
                unreachable!("BUG: the shell sends {:?}", request.ask)
            }
        };
        (Some(event), told)
    }

    fn has(&self, own: &Made) -> bool {
        self.children.get(&own.name).is_some_and(|child| child.czxid == own.czxid)
    }

    /// Creates a node. Looks in a second step, unless the look came first.
    fn create(
        &mut self,
        session: SessionNo,
        id: ContenderId,
        request: &mut ModelRequest,
        new: &NewNode,
        look: FirstLook,
    ) -> Option<Event> {
        if let Progress::Created(made) = &request.progress {
            let seen = self.look(look, &ModelRequest { own: Some(made.clone()), ..request.clone() });
            return Some(Event::Created(id, Ok((made.clone(), seen))));
        }
        let wish = request.wish.as_ref().expect("BUG: a create without a contender");
        let sequence = match new {
            NewNode::Numbered => self.next_number(),
            NewNode::Beside(sequence) => *sequence,
        };
        let name = format!("{}{sequence}", prefix(session, id, wish));
        if self.children.contains_key(&name) {
            return Some(Event::Created(id, Err(NotCreated::NoNumber)));
        }
        self.zxid += 1;
        self.parent.pzxid = self.zxid;
        self.children.insert(name.clone(), Child { czxid: self.zxid, owner: Some(session), mark: Some(id) });
        let made = Made { name, czxid: self.zxid, is_ours: true };
        match std::mem::replace(&mut request.progress, Progress::Fresh) {
            Progress::Seen(seen) => Some(Event::Created(id, Ok((made, seen)))),
            _ if look == FirstLook::None => Some(Event::Created(id, Ok((made, Seen::Nothing)))),
            _ => {
                request.progress = Progress::Created(made);
                None
            }
        }
    }

    /// Returns the next number. Skips the numbers near the last one, which is given again and again.
    fn next_number(&mut self) -> Sequence {
        let number = self.parent.next_number;
        self.parent.next_number = if number >= EXHAUSTED_FROM - 1 { i32::MAX } else { number + 1 };
        Sequence::new(number)
    }

    /// Returns what a look behind a `create` shows.
    pub(super) fn look(&self, look: FirstLook, request: &ModelRequest) -> Seen {
        match look {
            FirstLook::None => Seen::Nothing,
            FirstLook::List => Seen::Listed(self.list(request)),
            FirstLook::Note => Seen::Note(self.state()),
        }
    }

    /// Finds the nodes of a `create` whose reply was lost, by their names or by their data. Reads the data of one node per step.
    fn find(&self, session: SessionNo, id: ContenderId, request: &mut ModelRequest) -> Option<Event> {
        let wish = request.wish.as_ref().expect("BUG: a search without a contender");
        let prefix = prefix(session, id, wish);
        let is_marked = |name: &str| match wish.naming {
            Naming::Protected => name.starts_with(&prefix),
            Naming::Numbered => names::is_numbered(name, &prefix),
        };
        let made = |name: &str, child: &Child| Made { name: name.to_owned(), czxid: child.czxid, is_ours: true };
        let mut ours = self.children.iter().filter(|(name, child)| child.owner == Some(session) && is_marked(name));
        if wish.naming == Naming::Protected {
            let marked = ours.next().map(|(name, child)| made(name, child));
            return Some(Event::Found(id, Ok(Found { marked, overwritten: Vec::new() })));
        }
        let Progress::Searching { left, found } = &mut request.progress else {
            let left: Vec<String> = ours.rev().map(|(name, _)| name.clone()).collect();
            let is_over = left.is_empty();
            request.progress = Progress::Searching { left, found: Found::default() };
            return is_over.then(|| Event::Found(id, Ok(Found::default())));
        };
        if let Some((name, child)) = left.pop().and_then(|name| self.children.get_key_value(&name)) {
            // The node of this name may belong to another session by now.
            match child.mark {
                _ if child.owner != Some(session) => {}
                Some(mark) if mark == id => found.marked = Some(made(name, child)),
                Some(_) => {}
                None => found.overwritten.push(made(name, child)),
            }
        }
        (found.marked.is_some() || left.is_empty()).then(|| Event::Found(id, Ok(found.clone())))
    }

    /// Returns the nodes that keep the contender of the node `own` from holding.
    pub(super) fn barring(&self, own: &str, names: Names) -> impl Iterator<Item = &Child> {
        let (own_mode, own) = names.parse(own).expect("BUG: the node of a contender is none");
        let bars = move |name: &str| {
            let (mode, other) = names.parse(name)?;
            Some(other.queue_cmp(own).is_lt() && (mode == Mode::Exclusive || own_mode == Mode::Exclusive))
        };
        self.children.iter().filter(move |(name, _)| bars(name).unwrap_or_default()).map(|(_, child)| child)
    }

    fn list(&self, request: &ModelRequest) -> QueueListing {
        let viewpoint = request.viewpoint.as_ref().expect("BUG: a listing without a contender");
        let queue = Queue::from_children(self.children.keys(), viewpoint.names);
        let own = request.own.as_ref().map(|own| own.name.clone());
        Viewpoint { own, ..viewpoint.clone() }.see(&queue, &self.stat())
    }

    fn state(&self) -> ParentState {
        ParentState::new(&self.parent.data, &self.stat())
    }

    fn stat(&self) -> Stat {
        let Parent { czxid, pzxid, version, .. } = self.parent;
        let num_children = self.children.len().try_into().expect("BUG: too many nodes");
        Stat { czxid, pzxid, version, num_children }
    }

    fn delete_if(
        &mut self,
        name: &str,
        condition: &DeleteCondition,
        told: &mut Notifications,
    ) -> Result<(), NotDeleted> {
        if !self.children.contains_key(name) {
            return Err(NotDeleted::NoNode);
        }
        match condition {
            DeleteCondition::None => {}
            DeleteCondition::Beside(other) if self.children.contains_key(other) => {}
            DeleteCondition::Noted(left) if left.version == self.parent.version => {
                self.parent.data = left.data();
                self.parent.version = left.version + 1;
                self.notify_of_parent(told);
            }
            DeleteCondition::Beside(_) | DeleteCondition::Noted(_) => return Err(NotDeleted::Unmet),
        }
        self.delete(name, told);
        Ok(())
    }

    /// Deletes a child.
    pub(super) fn delete(&mut self, name: &str, told: &mut Notifications) {
        self.zxid += 1;
        self.parent.pzxid = self.zxid;
        self.children.remove(name);
        self.notify(name, true, told);
    }

    fn notify(&mut self, name: &str, is_gone: bool, told: &mut Notifications) {
        let fired: Vec<_> = self.watches.iter().filter(|(watched, ..)| watched == name).cloned().collect();
        for watch in fired {
            self.watches.remove(&watch);
            told.push((watch.1, Event::Fired { id: watch.2, is_gone }));
        }
    }

    fn notify_of_parent(&mut self, told: &mut Notifications) {
        let watches = std::mem::take(&mut self.parent_watches);
        told.extend(watches.into_iter().map(|(session, names)| (session, Event::ParentChanged(names))));
    }

    /// Overwrites the data of a child, as a revocation does.
    pub(super) fn overwrite(&mut self, name: &str, told: &mut Notifications) {
        if let Some(child) = self.children.get_mut(name) {
            child.mark = None;
        }
        self.notify(name, false, told);
    }

    /// Deletes the lock's node, which has no children, and creates it again, with its old data or with none. Other contenders
    /// may have come and left in the new node, so its `next_number` is an argument.
    pub(super) fn begin_anew(&mut self, keeps_data: bool, next_number: i32, told: &mut Notifications) {
        self.zxid += 1;
        let data = if keeps_data { self.parent.data.clone() } else { Vec::new() };
        self.parent = Parent { czxid: self.zxid, pzxid: self.zxid, version: 0, data, next_number };
        self.notify_of_parent(told);
    }

    /// Ends the watches of a session, as the end of its connection does.
    pub(super) fn unwatch(&mut self, session: SessionNo) -> Notifications {
        let of_session: Vec<_> = self.watches.iter().filter(|watch| watch.1 == session).cloned().collect();
        let mut told: Notifications = Vec::new();
        for watch in of_session {
            self.watches.remove(&watch);
            told.push((session, Event::Fired { id: watch.2, is_gone: false }));
        }
        let of_parent: Vec<_> = self.parent_watches.iter().filter(|watch| watch.0 == session).copied().collect();
        for watch in of_parent {
            self.parent_watches.remove(&watch);
            told.push((session, Event::ParentChanged(watch.1)));
        }
        told
    }

    /// Deletes the nodes of a session that has expired.
    pub(super) fn expire(&mut self, session: SessionNo) -> Notifications {
        let mut told = self.unwatch(session);
        told.clear();
        let of_session = self.children.iter().filter(|(_, child)| child.owner == Some(session));
        let names: Vec<String> = of_session.map(|(name, _)| name.clone()).collect();
        names.iter().for_each(|name| self.delete(name, &mut told));
        told
    }

    /// Writes the note of a holder. It names the lock's node `of_node`, which may be another one than this.
    pub(super) fn leave_note(&mut self, released: i32, of_node: i64) {
        self.parent.data = note(Sequence::new(released), ParentCzxid(of_node));
    }

    /// Creates the node of a contender of Apache Curator. Returns its name.
    pub(super) fn add_curators(&mut self) -> String {
        let name = format!("_c_curator-lock-{}", self.next_number());
        self.zxid += 1;
        self.parent.pzxid = self.zxid;
        self.children.insert(name.clone(), Child { czxid: self.zxid, owner: None, mark: None });
        name
    }

    /// Adds a child that stays and is no contender.
    pub(super) fn add_foreign(&mut self) {
        self.zxid += 1;
        self.parent.pzxid = self.zxid;
        self.children.insert("foreign".to_owned(), Child { czxid: self.zxid, owner: None, mark: None });
    }
}

/// Returns the beginning of the name of a contender's node. Session and contender stand for the uuid.
pub(super) fn prefix(session: SessionNo, id: ContenderId, wish: &Wish) -> String {
    let marker = wish.names.marker(wish.mode);
    match wish.naming {
        Naming::Protected => format!("_c_{session}-{id:?}-{marker}"),
        Naming::Numbered => marker.to_owned(),
    }
}
