//! The server: the lock's node, its children with their names, sessions and data, and the transactions that made them.

use std::collections::HashMap;

use zk_recipes_protocol::names::{Mode, Names};

use super::contender::{Claim, Client, Phase, Search};

/// A transaction. Only the order and the equality of transactions matter, so states are compared with the transactions
/// numbered anew (`State::renumber`).
pub(super) type Zxid = u8;

/// A transaction that made no node which is there.
const NONE: Zxid = 0;

/// The last number that contenders accept. The numbers between it and the last that servers give are left out.
pub(super) const ACCEPTED_LAST: i32 = 2_099_999_999;

/// How a child of the lock's node is named.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Naming {
    /// `_c_<uuid>-lock-<number>`. The index of the contender stands for the uuid.
    Protected,
    /// `lock-<number>`.
    Numbered,
    /// A persistent child that is no contender.
    Foreign,
}

/// A node as its creation was answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Made {
    pub(super) czxid: Zxid,
    pub(super) number: i32,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Node {
    pub(super) czxid: Zxid,
    /// The contender whose mark is in its name or its data.
    pub(super) mark: u8,
    pub(super) naming: Naming,
    pub(super) number: i32,
    pub(super) session: u8,
    /// Whether somebody has overwritten its data, as a revocation does.
    pub(super) overwritten: bool,
}

impl Node {
    pub(super) fn made(&self) -> Made {
        Made { czxid: self.czxid, number: self.number }
    }

    pub(super) fn name(&self) -> String {
        match self.naming {
            Naming::Protected => format!("_c_{}-{}", self.mark, numbered(self.number)),
            Naming::Numbered => numbered(self.number),
            Naming::Foreign => "foreign".to_owned(),
        }
    }
}

/// The name of a node that is nothing but the marker and a number.
pub(super) fn numbered(number: i32) -> String {
    format!("{}{number:010}", Names::MUTEX.marker(Mode::Exclusive))
}

/// The lock's node by one read of its data.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Parent {
    pub(super) czxid: Zxid,
    /// The number of the last holder that left a note, and the lock's node that the note names.
    pub(super) note: Option<(i32, Zxid)>,
    /// The version of the data.
    pub(super) version: u8,
    /// The transaction that created or deleted a child last.
    pub(super) changed: Zxid,
    pub(super) children: u8,
}

/// What may still go wrong.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(super) struct Faults {
    /// Replies that are lost: to a `create` and to a deletion.
    pub(super) creates_lost: u8,
    pub(super) deletes_lost: u8,
    /// Nodes whose data somebody overwrites.
    pub(super) overwrites: u8,
    /// Nodes of contenders that do not hold, which somebody deletes.
    pub(super) deletions: u8,
    /// Contenders that give up.
    pub(super) cancels: u8,
    /// How often somebody deletes the lock's node when it is empty, and creates it again, with its old data or with none.
    pub(super) new_parents: u8,
    /// Sessions that expire.
    pub(super) expiries: u8,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct State {
    pub(super) parent: Parent,
    /// The number of the next child.
    next: i32,
    pub(super) nodes: Vec<Node>,
    pub(super) clients: Vec<Client>,
    /// The nodes that a claim has adopted, for good.
    pub(super) adopted: Vec<Zxid>,
    /// For each session the number before which nobody is any more, and the lock's node that it is of.
    pub(super) floors: [Option<(Zxid, i32)>; 2],
    pub(super) left: Faults,
    /// Whether a contender was granted whose node was not there.
    pub(super) granted_without_node: bool,
    /// Whether a contender was told that somebody has deleted its node.
    pub(super) told_deleted: bool,
}

impl State {
    /// A lock's node whose next child has the number `next`. An older note is one of an earlier node of the path.
    pub(super) fn new(
        clients: Vec<Client>,
        next: i32,
        older_note: Option<i32>,
        has_foreign: bool,
        left: Faults,
    ) -> Self {
        let parent =
            Parent { czxid: 2, note: older_note.map(|number| (number, 1)), version: 0, changed: NONE, children: 0 };
        let mut state = Self {
            parent,
            next,
            nodes: vec![],
            clients,
            adopted: vec![],
            floors: [None; 2],
            left,
            granted_without_node: false,
            told_deleted: false,
        };
        if has_foreign {
            let foreign =
                Node { czxid: 3, mark: 0, naming: Naming::Foreign, number: 0, session: u8::MAX, overwritten: false };
            state.nodes.push(foreign);
        }
        state.renumber();
        state
    }

    pub(super) fn has(&self, czxid: Zxid) -> bool {
        self.node(czxid).is_some()
    }

    pub(super) fn node(&self, czxid: Zxid) -> Option<Node> {
        self.nodes.iter().copied().find(|node| node.czxid == czxid)
    }

    pub(super) fn names(&self) -> Vec<String> {
        self.nodes.iter().map(Node::name).collect()
    }

    fn next_zxid(&mut self) -> Zxid {
        let mut last = NONE;
        self.visit(&mut |zxid| last = last.max(*zxid));
        last + 1
    }

    /// Creates the node of a contender. `None` if its name is in use: the last number is given again and again.
    pub(super) fn create(&mut self, i: usize, naming: Naming) -> Option<Made> {
        let czxid = self.next_zxid();
        let (mark, session) = (u8::try_from(i).expect("BUG: too many contenders"), self.clients[i].session);
        let node = Node { czxid, mark, naming, number: self.next, session, overwritten: false };
        if self.nodes.iter().any(|other| other.name() == node.name()) {
            return None;
        }
        self.next = match self.next {
            ACCEPTED_LAST => i32::MAX,
            number => number.saturating_add(1),
        };
        self.nodes.push(node);
        self.parent.changed = czxid;
        Some(node.made())
    }

    /// Deletes the nodes that `goes` picks, and returns whether there were any.
    pub(super) fn delete(&mut self, goes: impl Fn(&Node) -> bool) -> bool {
        let before = self.nodes.len();
        self.nodes.retain(|node| !goes(node));
        let any_goes = self.nodes.len() < before;
        if any_goes {
            self.parent.changed = NONE;
        }
        any_goes
    }

    /// Deletes the lock's node, which is empty, and creates it again.
    pub(super) fn begin_anew(&mut self, keeps_data: bool) {
        let czxid = self.next_zxid();
        let note = self.parent.note.filter(|_| keeps_data);
        self.parent = Parent { czxid, note, version: 0, changed: NONE, children: 0 };
        self.next = 0;
    }

    /// Whether a claim of the session, other than that of contender `i`, has taken the node, or any claim has adopted it.
    pub(super) fn is_taken(&self, i: usize, czxid: Zxid) -> bool {
        let session = self.clients[i].session;
        let others = self.clients.iter().enumerate().filter(|(other, client)| *other != i && client.session == session);
        self.adopted.contains(&czxid) || others.into_iter().any(|(_, client)| client.has_taken(czxid))
    }

    /// Tells a contender that its node is missing: an error. Whatever has the name by now is not its node.
    pub(super) fn fail(&mut self, i: usize) {
        self.told_deleted = true;
        self.clients[i].doubt();
        self.clients[i].give_up();
    }

    /// Every transaction that is remembered anywhere.
    fn visit(&mut self, see: &mut impl FnMut(&mut Zxid)) {
        let parent = |parent: &mut Parent, see: &mut dyn FnMut(&mut Zxid)| {
            see(&mut parent.czxid);
            see(&mut parent.changed);
            parent.note.iter_mut().for_each(|(_, of_node)| see(of_node));
        };
        parent(&mut self.parent, see);
        self.nodes.iter_mut().for_each(|node| see(&mut node.czxid));
        self.adopted.iter_mut().for_each(&mut *see);
        self.floors.iter_mut().flatten().for_each(|(incarnation, _)| see(incarnation));
        for client in &mut self.clients {
            client.incarnation.iter_mut().for_each(&mut *see);
            if let Claim::Named { node, note, .. } = &mut client.claim {
                see(&mut node.czxid);
                note.iter_mut().for_each(|(incarnation, _)| see(incarnation));
            }
            match &mut client.phase {
                Phase::Create { old: Some(look), .. } | Phase::CheckOwn(look) => parent(look, see),
                Phase::Looking(made) | Phase::AnsweredAlone(made) => see(&mut made.czxid),
                Phase::Sleep(czxid) => see(czxid),
                Phase::Answered(made, look) => {
                    see(&mut made.czxid);
                    look.iter_mut().for_each(|look| parent(look, see));
                }
                Phase::Search(Search { unread, marked, overwritten, adopting, old, .. }) => {
                    unread.iter_mut().flatten().for_each(&mut *see);
                    overwritten.iter_mut().chain(marked).chain(adopting).for_each(|node| see(&mut node.czxid));
                    old.iter_mut().for_each(|look| parent(look, see));
                }
                _ => {}
            }
        }
    }

    /// Numbers the transactions anew, and forgets what nobody can come back to.
    pub(super) fn renumber(&mut self) {
        self.parent.children = u8::try_from(self.nodes.len()).expect("BUG: too many nodes");
        let mut adopted = std::mem::take(&mut self.adopted);
        let mut floors = std::mem::take(&mut self.floors);
        let mut used = vec![];
        self.visit(&mut |zxid| used.push(*zxid));
        adopted.retain(|czxid| used.contains(czxid));
        adopted.sort_unstable();
        floors.iter_mut().for_each(|floor| *floor = floor.filter(|(incarnation, _)| used.contains(incarnation)));
        (self.adopted, self.floors) = (adopted, floors);
        used.retain(|zxid| *zxid != NONE);
        used.sort_unstable();
        used.dedup();
        let ranks: HashMap<Zxid, Zxid> = used.into_iter().zip(1..).collect();
        self.visit(&mut |zxid| *zxid = ranks.get(zxid).copied().unwrap_or(NONE));
    }
}
