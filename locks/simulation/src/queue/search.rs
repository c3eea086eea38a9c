//! The search for the node of a `create` whose reply was lost.

use zk_recipes_protocol::names::{self, Naming};
use zk_recipes_protocol::session_queue::{ContenderId, Event, Found, Made, Wish};

use super::request::{ModelRequest, Progress};
use super::server::{ModelServer, SessionNo};
use super::tree::Child;

impl ModelServer {
    /// Finds the nodes of a `create` whose reply was lost, by their names or by their data. Reads the data of one node per step.
    pub(super) fn find(&self, session: SessionNo, id: ContenderId, request: &mut ModelRequest) -> Option<Event> {
        let wish = request.wish.as_ref().expect("BUG: a search without a contender");
        let prefix = prefix(session, id, wish);
        let is_marked = |name: &str| match wish.naming {
            Naming::Protected => name.starts_with(&prefix),
            Naming::Numbered => names::is_numbered(name, &prefix),
        };
        let made = |name: &str, child: &Child| Made { name: name.to_owned(), czxid: child.czxid, is_ours: true };
        let Progress::Searching { left, found } = &mut request.progress else {
            // The `sync` before it brings the follower up to date.
            let children = self.leader.children.iter();
            let mut ours = children.filter(|(name, child)| child.owner == Some(session) && is_marked(name));
            if wish.naming == Naming::Protected {
                let marked = ours.next().map(|(name, child)| made(name, child));
                return Some(Event::Found(id, Ok(Found { marked, overwritten: Vec::new() })));
            }
            let left: Vec<String> = ours.rev().map(|(name, _)| name.clone()).collect();
            let is_over = left.is_empty();
            request.progress = Progress::Searching { left, found: Found::default() };
            return is_over.then(|| Event::Found(id, Ok(Found::default())));
        };
        if let Some((name, child)) = left.pop().and_then(|name| self.seen_by(session).children.get_key_value(&name)) {
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
}

/// Returns the beginning of the name of a contender's node. Session and contender stand for the uuid.
pub(super) fn prefix(session: SessionNo, id: ContenderId, wish: &Wish) -> String {
    let marker = wish.names.marker(wish.mode);
    match wish.naming {
        Naming::Protected => format!("_c_{session}-{id:?}-{marker}"),
        Naming::Numbered => marker.to_owned(),
    }
}
