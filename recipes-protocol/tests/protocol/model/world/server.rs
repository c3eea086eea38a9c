//! One server: the lock's node with its children, the sessions' watches, and what it answers.

use std::collections::{BTreeMap, BTreeSet};

use zk_recipes_protocol::names::{Names, Naming, Sequence};
use zk_recipes_protocol::release_note::{ParentState, note};
use zk_recipes_protocol::session_queue::{
    Ask, Condition, ContenderId, Event, FirstLook, Found, Listed, Made, NewNode, NotCreated, NotDeleted, Seen,
    Viewpoint, Wish,
};
use zk_recipes_protocol::stat::{ParentCzxid, Stat};

/// A session, by its index.
pub(super) type SessionNo = usize;

/// A child of the lock's node.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct Child {
    pub(super) czxid: i64,
    /// The session that owns it; none of a node that stays.
    pub(super) owner: Option<SessionNo>,
    /// The contender that wrote its data, unless they were overwritten.
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

/// A request as it is on its way, with what the shell knows of its contender.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Request {
    pub(super) ask: Ask,
    pub(super) own: Option<Made>,
    pub(super) wish: Option<Wish>,
    pub(super) viewpoint: Option<Viewpoint>,
    /// The answer to a `create` that was applied, and whose look was not.
    pub(super) created: Option<Event>,
    /// What the look has seen that has overtaken its `create`.
    pub(super) seen: Option<Seen>,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Server {
    zxid: i64,
    pub(super) parent: Parent,
    pub(super) children: BTreeMap<String, Child>,
    /// Who is told when a child is deleted.
    watches: BTreeSet<(String, SessionNo, ContenderId)>,
    /// Who is told when the lock's node changes.
    parent_watches: BTreeSet<(SessionNo, Names)>,
}

/// Notifications, each with the session that gets it.
pub(super) type Notifications = Vec<(SessionNo, Event)>;

impl Server {
    pub(super) fn new(first_number: i32) -> Self {
        let parent = Parent { czxid: 1, pzxid: 1, version: 0, data: Vec::new(), next_number: first_number };
        let (children, watches, parent_watches) = (BTreeMap::new(), BTreeSet::new(), BTreeSet::new());
        Self { zxid: 1, parent, children, watches, parent_watches }
    }

    /// Carries a request of a session out. Returns its answer, and whom it notifies.
    pub(super) fn apply(&mut self, session: SessionNo, request: &Request) -> (Event, Notifications) {
        let mut told = Vec::new();
        let own = || request.own.as_ref().expect("BUG: the request is of a contender without a node");
        let event = match &request.ask {
            Ask::Create(id, new, _) => Event::Created(*id, self.create(session, *id, request, new)),
            Ask::CreateParents(id) => Event::ParentsCreated(*id, Ok(())),
            Ask::Find(id) => Event::Found(*id, Ok(self.find(session, *id, request))),
            Ask::List(id) => Event::Listed(*id, Ok(Some(self.list(request)))),
            Ask::ReadNote(id) => Event::NoteRead(*id, Ok(Some(self.state()))),
            Ask::ReadNoteBeside(id) => {
                let state = self.state();
                Event::NoteRead(*id, Ok(self.has(own()).then_some(state)))
            }
            Ask::Probe(id, names) => {
                let present = names.iter().map(|name| self.children.contains_key(name)).collect();
                Event::Probed(*id, Ok((present, self.has(own()))))
            }
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
        (event, told)
    }

    fn has(&self, own: &Made) -> bool {
        self.children.get(&own.name).is_some_and(|child| child.czxid == own.czxid)
    }

    fn create(
        &mut self,
        session: SessionNo,
        id: ContenderId,
        request: &Request,
        new: &NewNode,
    ) -> Result<(Made, Seen), NotCreated> {
        let wish = request.wish.as_ref().expect("BUG: a node for nobody");
        let sequence = match new {
            NewNode::Numbered => {
                self.parent.next_number += 1;
                Sequence::new(self.parent.next_number - 1)
            }
            NewNode::Beside(sequence) => *sequence,
        };
        let name = format!("{}{sequence}", prefix(session, id, wish));
        self.zxid += 1;
        self.parent.pzxid = self.zxid;
        self.children.insert(name.clone(), Child { czxid: self.zxid, owner: Some(session), mark: Some(id) });
        Ok((Made { name, czxid: self.zxid, is_ours: true }, Seen::Nothing))
    }

    /// What a look behind a `create` shows.
    pub(super) fn look(&self, look: FirstLook, request: &Request) -> Seen {
        match look {
            FirstLook::None => Seen::Nothing,
            FirstLook::List => Seen::Listed(self.list(request)),
            FirstLook::Note => Seen::Note(self.state()),
        }
    }

    fn find(&self, session: SessionNo, id: ContenderId, request: &Request) -> Found {
        let wish = request.wish.as_ref().expect("BUG: a search for nobody");
        let prefix = prefix(session, id, wish);
        let made = |(name, child): (&String, &Child)| Made { name: name.clone(), czxid: child.czxid, is_ours: true };
        let ours = || self.children.iter().filter(|(_, child)| child.owner == Some(session));
        if wish.naming == Naming::Protected {
            let marked = ours().find(|(name, _)| name.starts_with(&prefix)).map(made);
            return Found { marked, overwritten: Vec::new() };
        }
        let numbered = || ours().filter(|(name, _)| name.starts_with(&prefix));
        let marked = numbered().find(|(_, child)| child.mark == Some(id)).map(made);
        let overwritten = numbered().filter(|(_, child)| child.mark.is_none()).map(made).collect();
        Found { marked, overwritten }
    }

    fn list(&self, request: &Request) -> Listed {
        let viewpoint = request.viewpoint.as_ref().expect("BUG: a listing for nobody");
        let names: Vec<&String> = self.children.keys().collect();
        let own = request.own.as_ref().map(|own| own.name.clone());
        Viewpoint { own, ..viewpoint.clone() }.see(&names, &self.stat())
    }

    fn state(&self) -> ParentState {
        ParentState::new(&self.parent.data, &self.stat())
    }

    fn stat(&self) -> Stat {
        let Parent { czxid, pzxid, version, .. } = self.parent;
        let num_children = self.children.len().try_into().expect("BUG: too many nodes");
        Stat { czxid, pzxid, version, num_children, ..Stat::default() }
    }

    fn delete_if(&mut self, name: &str, condition: &Condition, told: &mut Notifications) -> Result<(), NotDeleted> {
        if !self.children.contains_key(name) {
            return Err(NotDeleted::NoNode);
        }
        match condition {
            Condition::None => {}
            Condition::Beside(other) if self.children.contains_key(other) => {}
            Condition::Noted(left) if left.version == self.parent.version => {
                (self.parent.data, self.parent.version) = (left.data(), left.version + 1);
                self.notify_of_parent(told);
            }
            Condition::Beside(_) | Condition::Noted(_) => return Err(NotDeleted::Unmet),
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
            told.push((watch.1, Event::Fired(watch.2, is_gone)));
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

    /// Deletes the lock's node, which has no children, and creates it again, with its old data or with none.
    pub(super) fn begin_anew(&mut self, keeps_data: bool, told: &mut Notifications) {
        self.zxid += 1;
        let data = if keeps_data { self.parent.data.clone() } else { Vec::new() };
        self.parent = Parent { czxid: self.zxid, pzxid: self.zxid, version: 0, data, next_number: 0 };
        self.notify_of_parent(told);
    }

    /// Ends the watches of a session, as the end of its connection does.
    pub(super) fn unwatch(&mut self, session: SessionNo) -> Notifications {
        let of_session: Vec<_> = self.watches.iter().filter(|watch| watch.1 == session).cloned().collect();
        let mut told: Notifications = Vec::new();
        for watch in of_session {
            self.watches.remove(&watch);
            told.push((session, Event::Fired(watch.2, false)));
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

    /// The holder's note that an older version of the library, or an earlier lock's node, has left.
    pub(super) fn leave_note(&mut self, released: i32, of_node: i64) {
        self.parent.data = note(Sequence::new(released), of_node);
    }

    /// Adds a child that stays and is no contender.
    pub(super) fn add_foreign(&mut self) {
        self.zxid += 1;
        self.parent.pzxid = self.zxid;
        self.children.insert("foreign".to_owned(), Child { czxid: self.zxid, owner: None, mark: None });
    }
}

/// What the name of a node begins with that a contender creates. Session and contender stand for the uuid.
pub(super) fn prefix(session: SessionNo, id: ContenderId, wish: &Wish) -> String {
    let marker = wish.names.marker(wish.mode);
    match wish.naming {
        Naming::Protected => format!("_c_{session}-{id:?}-{marker}"),
        Naming::Numbered => marker.to_owned(),
    }
}
