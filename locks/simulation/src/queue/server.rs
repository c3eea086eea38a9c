//! The servers: a leader, which carries out the requests, and followers, which come to know of its changes later.
//!
//! Without followers, every session is connected to the leader. Otherwise each session has a follower of its own, which answers its
//! reads and fires its watches. Before a follower answers a write, a `sync` or a proof, it has applied all changes up to it.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::mem;

use zk_recipes_protocol::names::{EXHAUSTED_FROM, Names, Sequence};
use zk_recipes_protocol::session_queue::{
    Ask, ContenderId, DeleteCondition, Event, FirstLook, Made, NewNode, NotCreated, NotDeleted, Seen,
};
use zk_recipes_protocol::stat::ParentCzxid;

use super::request::{ModelRequest, Progress};
use super::search::prefix;
use super::tree::{Child, Committed, Parent, Tree};

/// A session, by its index.
pub(super) type SessionNo = usize;

/// Notifications, each with the session that gets it.
pub(super) type Notifications = Vec<(SessionNo, Event)>;

/// A server that answers one session, and the changes that it does not know yet.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Follower {
    tree: Tree,
    behind: VecDeque<Committed>,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct ModelServer {
    zxid: i64,
    pub(super) leader: Tree,
    /// The watches of children. They fire when a child is deleted or overwritten.
    watches: BTreeSet<(String, SessionNo, ContenderId)>,
    /// The watches of the lock's node.
    parent_watches: BTreeSet<(SessionNo, Names)>,
    /// The follower of each session that lives. Empty: there are no followers.
    followers: Vec<Option<Follower>>,
    /// The next number of a lock's node that is created again.
    first_number_anew: i32,
}

impl ModelServer {
    pub(super) fn new(first_number: i32, first_number_anew: i32) -> Self {
        let leader = Tree { parent: Some(Parent::new(1, Vec::new(), first_number)), children: BTreeMap::new() };
        let watches = BTreeSet::new();
        let parent_watches = BTreeSet::new();
        Self { zxid: 1, leader, watches, parent_watches, followers: Vec::new(), first_number_anew }
    }

    /// Gives each of the first sessions a follower. Later sessions get theirs by `attach`.
    pub(super) fn follow(&mut self, sessions: usize) {
        (0..sessions).for_each(|_| self.attach());
    }

    /// Gives the next session a follower that knows everything.
    pub(super) fn attach(&mut self) {
        self.followers.push(Some(Follower { tree: self.leader.clone(), behind: VecDeque::new() }));
    }

    pub(super) fn has_followers(&self) -> bool {
        !self.followers.is_empty()
    }

    fn follower(&self, session: SessionNo) -> Option<&Follower> {
        self.followers.get(session)?.as_ref()
    }

    /// Tells whether the server of a session lags behind.
    pub(super) fn lags(&self, session: SessionNo) -> bool {
        self.follower(session).is_some_and(|follower| !follower.behind.is_empty())
    }

    /// Lets the follower of a session apply the next change.
    pub(super) fn catch_up(&mut self, session: SessionNo, told: &mut Notifications) {
        if let Some(Some(Follower { tree, behind })) = self.followers.get_mut(session)
            && let Some(change) = behind.pop_front()
        {
            tree.apply(&change);
            self.fire(&change, |other| other == session, told);
        }
    }

    /// Lets the follower of a session apply all changes.
    pub(super) fn catch_up_fully(&mut self, session: SessionNo, told: &mut Notifications) {
        while self.lags(session) {
            self.catch_up(session, told);
        }
    }

    /// Returns what the server of a session knows.
    pub(super) fn seen_by(&self, session: SessionNo) -> &Tree {
        self.follower(session).map_or(&self.leader, |follower| &follower.tree)
    }

    /// Commits a change. Sessions that are connected to the leader hear of it at once.
    fn commit(&mut self, change: Committed, told: &mut Notifications) {
        self.leader.apply(&change);
        for follower in self.followers.iter_mut().flatten() {
            follower.behind.push_back(change.clone());
        }
        // Its own follower fires the watches of a session later.
        let followed: Vec<bool> = self.followers.iter().map(Option::is_some).collect();
        self.fire(&change, |session| followed.get(session) != Some(&true), told);
    }

    /// Fires the watches of some sessions that a change concerns.
    fn fire(&mut self, change: &Committed, is_told: impl Fn(SessionNo) -> bool, told: &mut Notifications) {
        match change {
            Committed::Delete(name, _) | Committed::Overwrite(name) => {
                let is_gone = matches!(change, Committed::Delete(..));
                self.watches.retain(|(watched, session, id)| {
                    let fires = watched == name && is_told(*session);
                    if fires {
                        told.push((*session, Event::Fired { id: *id, is_gone }));
                    }
                    !fires
                });
            }
            Committed::Note(_) | Committed::NewParent(_) | Committed::NoParent => {
                self.parent_watches.retain(|(session, names)| {
                    let fires = is_told(*session);
                    if fires {
                        told.push((*session, Event::ParentChanged(*names)));
                    }
                    !fires
                });
            }
            Committed::Create(..) => {}
        }
    }

    /// Carries out a request of a session. Returns its answer, unless the request takes another step, and the notifications that
    /// it causes.
    pub(super) fn apply(&mut self, session: SessionNo, request: &mut ModelRequest) -> (Option<Event>, Notifications) {
        let mut told = Vec::new();
        let is_current = request.is_current();
        let event = self.answer(session, request, &mut told);
        if is_current {
            self.catch_up_fully(session, &mut told);
        }
        (event, told)
    }

    fn answer(&mut self, session: SessionNo, request: &mut ModelRequest, told: &mut Notifications) -> Option<Event> {
        let own = || request.own.as_ref().expect("BUG: the request is of a contender without a node");
        let tree = self.seen_by(session);
        Some(match &request.ask {
            Ask::Create(id, new, look) => {
                let id = *id;
                let new = new.clone();
                let look = *look;
                return self.create(session, id, request, &new, look, told);
            }
            Ask::Find(id) => return self.find(session, *id, request),
            Ask::CreateParents(id) => {
                let id = *id;
                self.create_parent(told);
                Event::ParentsCreated(id, Ok(()))
            }
            Ask::List(id) => Event::Listed(*id, Ok(tree.list(request))),
            Ask::ReadNote(id) => Event::NoteRead(*id, Ok(tree.state())),
            Ask::ReadNoteBeside(id) => {
                let state = tree.state();
                Event::NoteRead(*id, Ok(state.filter(|_| tree.has(own()))))
            }
            Ask::CheckOwn(id) => Event::OwnChecked(*id, Ok(tree.has(own()))),
            Ask::Watch(id, name) => {
                let czxid = tree.children.get(name).map(|child| child.czxid);
                if czxid.is_some() {
                    self.watches.insert((name.clone(), session, *id));
                }
                Event::WatchSet(*id, Ok(czxid))
            }
            Ask::WatchParent(_, names) => {
                let czxid = tree.parent.as_ref().map(|parent| ParentCzxid(parent.czxid));
                if czxid.is_some() {
                    self.parent_watches.insert((session, *names));
                }
                Event::ParentWatchSet(*names, czxid)
            }
            Ask::Identify(id, name) => {
                Event::Identified(*id, Ok(self.leader.children.get(name).map(|child| child.czxid)))
            }
            Ask::Delete(id, condition) => Event::Deleted(*id, self.delete_if(&own().name, condition, told)),
            Ask::Prove(_) | Ask::Pause(..) | Ask::Lose(_) | Ask::Tell(_) | Ask::Warn(_) => {
                unreachable!("BUG: the shell sends {:?}", request.ask)
            }
        })
    }

    /// Creates a node. Looks in a second step, unless the look came first.
    fn create(
        &mut self,
        session: SessionNo,
        id: ContenderId,
        request: &mut ModelRequest,
        new: &NewNode,
        look: FirstLook,
        told: &mut Notifications,
    ) -> Option<Event> {
        if let Progress::Created(made) = &request.progress {
            let seen = self.look(session, look, &ModelRequest { own: Some(made.clone()), ..request.clone() });
            return Some(Event::Created(id, Ok((made.clone(), seen))));
        }
        let wish = request.wish.as_ref().expect("BUG: a create without a contender");
        if self.leader.parent.is_none() {
            return Some(Event::Created(id, Err(NotCreated::NoParent)));
        }
        let sequence = match new {
            NewNode::Numbered => self.next_number(),
            NewNode::Beside(sequence) => *sequence,
        };
        let name = format!("{}{sequence}", prefix(session, id, wish));
        if self.leader.children.contains_key(&name) {
            return Some(Event::Created(id, Err(NotCreated::NoNumber)));
        }
        let czxid = self.add_child(&name, Some(session), Some(id), told);
        let made = Made { name, czxid, is_ours: true };
        match mem::replace(&mut request.progress, Progress::Fresh) {
            Progress::Seen(seen) => Some(Event::Created(id, Ok((made, seen)))),
            _ if look == FirstLook::None => Some(Event::Created(id, Ok((made, Seen::Nothing)))),
            _ => {
                request.progress = Progress::Created(made);
                None
            }
        }
    }

    fn add_child(
        &mut self,
        name: &str,
        owner: Option<SessionNo>,
        mark: Option<ContenderId>,
        told: &mut Notifications,
    ) -> i64 {
        self.zxid += 1;
        let child = Child { czxid: self.zxid, owner, mark };
        self.commit(Committed::Create(name.to_owned(), child), told);
        self.zxid
    }

    /// Returns the next number. Skips the numbers near the last one, which is given again and again.
    fn next_number(&mut self) -> Sequence {
        let parent = self.leader.parent.as_mut().expect("BUG: a number without the lock's node");
        let number = parent.next_number;
        parent.next_number = if number >= EXHAUSTED_FROM - 1 { i32::MAX } else { number + 1 };
        Sequence::new(number)
    }

    /// Returns what a look behind a `create` shows.
    pub(super) fn look(&self, session: SessionNo, look: FirstLook, request: &ModelRequest) -> Seen {
        let tree = self.seen_by(session);
        match look {
            FirstLook::None => Seen::Nothing,
            FirstLook::List => tree.list(request).map_or(Seen::Nothing, Seen::Listed),
            FirstLook::Note => tree.state().map_or(Seen::Nothing, Seen::Note),
        }
    }

    fn delete_if(
        &mut self,
        name: &str,
        condition: &DeleteCondition,
        told: &mut Notifications,
    ) -> Result<(), NotDeleted> {
        let Tree { parent, children } = &self.leader;
        if !children.contains_key(name) {
            return Err(NotDeleted::NoNode);
        }
        match condition {
            DeleteCondition::None => {}
            DeleteCondition::Beside(other) if children.contains_key(other) => {}
            DeleteCondition::Noted(left) if parent.as_ref().is_some_and(|parent| parent.version == left.version) => {
                self.commit(Committed::Note(left.data()), told);
            }
            DeleteCondition::Beside(_) | DeleteCondition::Noted(_) => return Err(NotDeleted::Unmet),
        }
        self.delete(name, told);
        Ok(())
    }

    /// Deletes a child.
    pub(super) fn delete(&mut self, name: &str, told: &mut Notifications) {
        self.zxid += 1;
        self.commit(Committed::Delete(name.to_owned(), self.zxid), told);
    }

    /// Overwrites the data of a child, as a revocation does.
    pub(super) fn overwrite(&mut self, name: &str, told: &mut Notifications) {
        self.commit(Committed::Overwrite(name.to_owned()), told);
    }

    /// Deletes the lock's node, which has no children, and creates it again, with its old data or with none. Other contenders
    /// may have come and left in the new node, so its numbers need not begin with the first.
    pub(super) fn begin_anew(&mut self, keeps_data: bool, told: &mut Notifications) {
        self.zxid += 1;
        let old = self.leader.parent.as_ref().filter(|_| keeps_data);
        let data = old.map(|parent| parent.data.clone()).unwrap_or_default();
        self.commit(Committed::NewParent(Parent::new(self.zxid, data, self.first_number_anew)), told);
    }

    /// Deletes the lock's node, which has no children.
    pub(super) fn delete_parent(&mut self, told: &mut Notifications) {
        self.zxid += 1;
        self.commit(Committed::NoParent, told);
    }

    fn create_parent(&mut self, told: &mut Notifications) {
        if self.leader.parent.is_none() {
            self.begin_anew(false, told);
        }
    }

    /// Ends the watches of a session, as the end of its connection does.
    pub(super) fn unwatch(&mut self, session: SessionNo) -> Notifications {
        let mut told: Notifications = Vec::new();
        self.watches.retain(|(_, of, id)| {
            if *of == session {
                told.push((session, Event::Fired { id: *id, is_gone: false }));
            }
            *of != session
        });
        self.parent_watches.retain(|(of, names)| {
            if *of == session {
                told.push((session, Event::ParentChanged(*names)));
            }
            *of != session
        });
        told
    }

    /// Deletes the nodes of a session that has expired.
    pub(super) fn expire(&mut self, session: SessionNo) -> Notifications {
        self.unwatch(session);
        if let Some(follower) = self.followers.get_mut(session) {
            *follower = None;
        }
        let mut told = Vec::new();
        let of_session = self.leader.children.iter().filter(|(_, child)| child.owner == Some(session));
        let names: Vec<String> = of_session.map(|(name, _)| name.clone()).collect();
        names.iter().for_each(|name| self.delete(name, &mut told));
        told
    }

    /// Sets the data of the lock's node, before any session is there.
    pub(super) fn write(&mut self, data: Vec<u8>) {
        if let Some(parent) = &mut self.leader.parent {
            parent.data = data;
        }
    }

    /// Creates the node of a contender of Apache Curator. Returns its name.
    pub(super) fn add_curators(&mut self, told: &mut Notifications) -> String {
        self.create_parent(told);
        let name = format!("_c_curator-lock-{}", self.next_number());
        self.add_child(&name, None, None, told);
        name
    }

    /// Adds a child that stays and is no contender.
    pub(super) fn add_foreign(&mut self) {
        self.add_child("foreign", None, None, &mut Vec::new());
    }
}
