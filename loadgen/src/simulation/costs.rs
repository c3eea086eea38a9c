//! What each exchange with the server costs in requests and bytes, by the library's own counters.

use zk_recipes::internals::{
    Counters, Names, STAT, Sequence, check_len, children_reply_len, create_reply_len, create_request_len,
    data_reply_len, delete_request_len, read_request_len, set_data_request_len, string_len, transaction_len,
};

use super::{PARENT, Recipe};

/// A uuid, as text.
const UUID: usize = 36;
/// The prefix `_c_<uuid>-` by which a contender finds its node again.
const MARK: usize = 3 + UUID + 1;

/// Requests and bytes in both directions.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Exchange {
    pub(super) requests: u64,
    pub(super) bytes: u64,
}

/// The name of the contender of this number, as long as a real one, and parsed as one.
pub(super) fn name(recipe: Recipe, number: u32) -> String {
    match recipe {
        Recipe::Handoff => format!("lock-{number:010}"),
        Recipe::Naive | Recipe::Mutex | Recipe::Cohort => format!("_c_{:0>UUID$}-lock-{number:010}", ""),
    }
}

/// The number in the name of a contender.
pub(super) fn sequence(name: &str) -> Sequence {
    let (_, sequence) = Names::MUTEX.parse(name).expect("BUG: a simulated contender has no contender's name");
    sequence
}

/// The costs of the exchanges of one recipe.
#[derive(Debug, Clone)]
pub(super) struct Costs {
    pub(super) create: Exchange,
    /// A `create` that finds the node there.
    pub(super) create_refused: Exchange,
    /// A read of a contender's node, or of the one node of the naive lock.
    pub(super) watch: Exchange,
    /// Any read of a node that is missing.
    pub(super) gone: Exchange,
    /// A read of the data of the lock's node, without the data.
    pub(super) note: Exchange,
    /// A listing of nobody.
    pub(super) list: Exchange,
    /// Bytes of each child in a listing.
    pub(super) child_bytes: u64,
    /// A look whether a contender is there that is.
    pub(super) stat: Exchange,
    /// The same for the lock's node.
    pub(super) stat_parent: Exchange,
    pub(super) delete: Exchange,
    /// A deletion with a note for whoever comes next, without the note.
    pub(super) delete_noted: Exchange,
    /// A deletion on condition that another node is there.
    pub(super) delete_beside: Exchange,
    pub(super) notification: Exchange,
}

impl Costs {
    pub(super) fn of(recipe: Recipe) -> Costs {
        let parent = PARENT.len() + "/0001".len();
        let name = name(recipe, 1);
        let (path, node_data) = match recipe {
            Recipe::Naive => (parent, UUID),
            Recipe::Handoff => (parent + 1 + name.len(), MARK),
            Recipe::Mutex | Recipe::Cohort => (parent + 1 + name.len(), 0),
        };
        // All prefixes of sequential nodes are as long as their names without the number.
        let created = match recipe {
            Recipe::Naive => path,
            Recipe::Mutex | Recipe::Handoff | Recipe::Cohort => path - "0000000001".len(),
        };
        let read = |of: usize, reply: usize| exchange(read_request_len(of), reply);
        let deletion = delete_request_len(path);
        let transaction =
            |with: usize, reply: usize| exchange(transaction_len(deletion, with), transaction_len(0, reply));
        Costs {
            create: exchange(create_request_len(created, node_data), create_reply_len(path)),
            create_refused: exchange(create_request_len(created, node_data), 0),
            watch: read(path, data_reply_len(node_data)),
            gone: read(path, 0),
            note: read(parent, data_reply_len(0)),
            list: read(parent, children_reply_len::<&str>(&[]) + STAT),
            child_bytes: string_len(name.len()) as u64,
            stat: read(path, STAT),
            stat_parent: read(parent, STAT),
            delete: exchange(deletion, 0),
            delete_noted: transaction(set_data_request_len(parent, 0), STAT),
            delete_beside: transaction(check_len(path), 0),
            notification: {
                let counters = Counters::default();
                counters.notified(path);
                Exchange { requests: 0, bytes: counters.totals().bytes_received }
            },
        }
    }
}

/// What the library counts for a request and a reply with records of so many bytes.
fn exchange(request: usize, reply: usize) -> Exchange {
    let counters = Counters::default();
    counters.sent(request);
    counters.received(reply);
    let totals = counters.totals();
    Exchange { requests: totals.requests, bytes: totals.bytes_sent + totals.bytes_received }
}

/// What was exchanged so far.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Tally {
    pub(super) notifications: u64,
    pub(super) requests: u64,
    pub(super) bytes: u64,
}

impl Tally {
    /// Adds so many exchanges of one kind.
    pub(super) fn add(&mut self, times: u64, exchange: Exchange) {
        self.requests += times * exchange.requests;
        self.bytes += times * exchange.bytes;
    }

    /// Adds notifications that so many connections got, for so many who watch.
    pub(super) fn notify(&mut self, connections: u64, watchers: u64, notification: Exchange) {
        self.notifications += connections;
        self.bytes += watchers * notification.bytes;
    }
}
