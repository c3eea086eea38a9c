//! What each exchange with the server costs in requests and bytes, as the library counts them.

use stats::median;
use zk_recipes_protocol::names::{Names, Sequence};
use zk_recipes_protocol::wire_size;

use crate::{PARENT, Point, Recipe, ns_to_ms};

/// The length of a uuid as text.
const UUID: usize = 36;
/// The length of the prefix `_c_<uuid>-`, which identifies a contender's node.
const MARK: usize = 3 + UUID + 1;

/// The bytes of the ACL of a node that is open to anyone.
const OPEN_ACL: usize = wire_size::acl_entry("world".len(), "anyone".len());

/// Requests and bytes in both directions.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Exchange {
    pub(crate) requests: u64,
    pub(crate) bytes: u64,
}

/// Returns the name of the contender with this number. It has the length and the form of a real name.
pub(crate) fn name(recipe: Recipe, number: u32) -> String {
    match recipe {
        Recipe::Handoff => format!("lock-{number:010}"),
        Recipe::Naive | Recipe::Mutex | Recipe::Cohort => format!("_c_{:0>UUID$}-lock-{number:010}", ""),
    }
}

/// Returns the number in the name of a contender.
pub(crate) fn sequence(name: &str) -> Sequence {
    let (_, sequence) = Names::MUTEX.parse(name).expect("BUG: a simulated contender has no contender's name");
    sequence
}

/// Returns the same number as an unsigned one. Simulated numbers stay far below the wrap.
pub(crate) fn number(name: &str) -> u32 {
    u32::try_from(sequence(name).get()).expect("BUG: a simulated number has wrapped")
}

/// The costs of the exchanges of one recipe.
#[derive(Debug, Clone)]
pub(crate) struct Costs {
    pub(crate) create: Exchange,
    /// A `create` that is refused because the node exists.
    pub(crate) create_refused: Exchange,
    /// A read of a contender's node, or of the one node of the naive lock.
    pub(crate) watch: Exchange,
    /// Any read of a node that is missing.
    pub(crate) gone: Exchange,
    /// A read of the data of the lock's node, without the data.
    pub(crate) note: Exchange,
    /// A listing without children.
    pub(crate) list: Exchange,
    /// Bytes of each child in a listing.
    pub(crate) child_bytes: u64,
    /// A check whether a contender's node exists, if it does.
    pub(crate) stat: Exchange,
    /// The same for the lock's node.
    pub(crate) stat_parent: Exchange,
    pub(crate) delete: Exchange,
    /// A deletion with a note, without the bytes of the note.
    pub(crate) delete_noted: Exchange,
    /// A deletion on condition that another node exists.
    pub(crate) delete_beside: Exchange,
    pub(crate) notification: Exchange,
}

impl Costs {
    pub(crate) fn of(recipe: Recipe) -> Costs {
        let parent = PARENT.len() + "/0001".len();
        let name = name(recipe, 1);
        let (path, node_data) = match recipe {
            Recipe::Naive => (parent, UUID),
            Recipe::Handoff => (parent + 1 + name.len(), MARK),
            Recipe::Mutex | Recipe::Cohort => (parent + 1 + name.len(), 0),
        };
        // The `create` of a sequential node sends the name without the number.
        let created = match recipe {
            Recipe::Naive => path,
            Recipe::Mutex | Recipe::Handoff | Recipe::Cohort => path - "0000000001".len(),
        };
        let read = |of: usize, reply: usize| exchange(wire_size::read(of), reply);
        let deletion = wire_size::delete(path);
        let transaction = |with: usize, reply: usize| {
            exchange(wire_size::transaction(deletion, with), wire_size::transaction(0, reply))
        };
        Costs {
            create: exchange(wire_size::create(created, node_data, OPEN_ACL), wire_size::created(path)),
            create_refused: exchange(wire_size::create(created, node_data, OPEN_ACL), 0),
            watch: read(path, wire_size::data(node_data)),
            gone: read(path, 0),
            note: read(parent, wire_size::data(0)),
            list: read(parent, wire_size::children::<&str>(&[]) + wire_size::STAT),
            child_bytes: wire_size::string(name.len()) as u64,
            stat: read(path, wire_size::STAT),
            stat_parent: read(parent, wire_size::STAT),
            delete: exchange(deletion, 0),
            delete_noted: transaction(wire_size::set_data(parent, 0), wire_size::STAT),
            delete_beside: transaction(wire_size::check(path), 0),
            notification: Exchange { requests: 0, bytes: wire_size::notification(path) as u64 },
        }
    }
}

/// Returns the exchange of a request and its reply, with records of these sizes.
fn exchange(request: usize, reply: usize) -> Exchange {
    Exchange { requests: 1, bytes: (wire_size::request(request) + wire_size::reply(reply)) as u64 }
}

/// The exchanges so far.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct ExchangeTally {
    pub(crate) notifications: u64,
    pub(crate) requests: u64,
    pub(crate) bytes: u64,
}

impl ExchangeTally {
    /// Returns the point of a drain with these exchanges and times.
    pub(crate) fn point(self, waiters: u32, sessions: u32, handovers_ms: &[f64], drain_ns: u64) -> Point {
        let ExchangeTally { notifications, requests, bytes } = self;
        let handover_ms = median(handovers_ms);
        Point { waiters, sessions, notifications, requests, bytes, handover_ms, drain_ms: ns_to_ms(drain_ns) }
    }

    /// Adds `times` exchanges of one kind.
    pub(crate) fn add(&mut self, times: u64, exchange: Exchange) {
        self.requests += times * exchange.requests;
        self.bytes += times * exchange.bytes;
    }

    /// Adds a notification for each of these connections, and its bytes for each of their watchers.
    pub(crate) fn notify(&mut self, connections: u64, watchers: u64, notification: Exchange) {
        self.notifications += connections;
        self.bytes += watchers * notification.bytes;
    }
}
