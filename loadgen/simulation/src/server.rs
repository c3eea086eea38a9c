//! The server of the simulation. It takes requests in turns from its connections, makes the writes among them durable
//! together, and answers one after the other.

use std::collections::HashMap;

use zk_recipes_protocol::release_note::{Note, ParentState, note};
use zk_recipes_protocol::stat::{ParentCzxid, Stat};

use crate::costs::{Costs, Exchange, ExchangeTally, name, sequence};
use crate::latency::SimulatedTimes;
use crate::{LatencyModel, Recipe};

/// The transaction that created the lock's node, which exists before the drain begins.
pub(crate) const PARENT: ParentCzxid = ParentCzxid(1);

/// What a contender sends.
#[derive(Debug, Clone)]
pub(crate) enum Request {
    Create,
    List,
    /// The data of the lock's node.
    Note,
    /// The data of the lock's node, and whether this node exists, in one flight.
    NoteBeside(u32),
    /// The data of the lock's node, and a watch on it.
    WatchParent,
    Watch(u32),
    /// How many children the lock's node has and whether this node exists, in one flight.
    Others(u32),
    Delete(u32, Leave),
}

/// What a release leaves, or the condition of its deletion.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Leave {
    Nothing,
    Note(Box<Note>),
    /// The node of the session's contender that the lock was handed over to. It must exist.
    Beside(u32),
}

/// What the server answers.
#[derive(Debug, Clone)]
pub(crate) enum Reply {
    Created {
        number: u32,
        czxid: i64,
    },
    Listed {
        listing: Listing,
        changed: i64,
    },
    /// `None` if the node that was asked for is missing.
    Noted(Option<ParentState>),
    ParentWatched,
    /// The transaction that created the node; `None` if it is missing.
    Watching(Option<i64>),
    Others {
        children: u32,
        is_own_there: bool,
    },
    /// `false` if the condition was not met.
    Deleted(bool),
}

/// A listing. In a drain, nodes are deleted in the order of their creation. So the first and the last number say which
/// exist.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Listing {
    pub(crate) first: u32,
    /// The number after the last one.
    pub(crate) end: u32,
}

/// What the server sends to a contender.
#[derive(Debug)]
pub(crate) enum Packet {
    Reply(Reply),
    /// The node that the contender watched was deleted.
    Notification,
}

/// A request that has arrived at the server.
#[derive(Debug)]
struct Arrival {
    /// The number of requests that arrived from its connection before.
    round: u32,
    /// The position of its connection in the order of their first requests.
    connection: u32,
    contender: usize,
    request: Request,
}

/// The progress of the server with the requests that it serves together.
struct Serving<'a> {
    until_ns: u64,
    send: &'a mut dyn FnMut(u64, usize, Packet),
}

/// The server, and the nodes of one lock.
#[derive(Debug)]
pub(crate) struct Server {
    costs: Costs,
    times: SimulatedTimes,
    pub(crate) tally: ExchangeTally,
    /// Requests that have arrived and were not served yet.
    arrivals: Vec<Arrival>,
    /// The connections with requests in `arrivals`: their order, and the number of these requests.
    connections: HashMap<usize, (u32, u32)>,
    /// The nodes that exist. Number 0 belongs to a holder before the drain.
    there: Listing,
    /// The transaction that created each node, from number 0 on.
    czxids: Vec<i64>,
    watchers: HashMap<u32, usize>,
    noted: Vec<u8>,
    version: i32,
    zxid: i64,
    changed: i64,
}

impl Server {
    pub(crate) fn new(recipe: Recipe, model: &LatencyModel) -> Server {
        let noted = match recipe {
            Recipe::Handoff => note(sequence(&name(recipe, 0)), PARENT),
            Recipe::Naive | Recipe::Mutex | Recipe::Cohort => Vec::new(),
        };
        Server {
            costs: Costs::of(recipe),
            times: SimulatedTimes::of(model),
            tally: ExchangeTally::default(),
            arrivals: Vec::new(),
            connections: HashMap::new(),
            there: Listing { first: 1, end: 1 },
            czxids: vec![0],
            watchers: HashMap::new(),
            noted,
            version: 0,
            zxid: PARENT.0,
            changed: PARENT.0,
        }
    }

    /// Receives a request.
    pub(crate) fn arrive(&mut self, connection: usize, contender: usize, request: Request) {
        let order = u32::try_from(self.connections.len()).expect("BUG: more connections than waiters");
        let (connection, round) = self.connections.entry(connection).or_insert((order, 0));
        self.arrivals.push(Arrival { round: *round, connection: *connection, contender, request });
        *round += 1;
    }

    pub(crate) fn has_work(&self) -> bool {
        !self.arrivals.is_empty()
    }

    /// Serves all requests that have arrived: one packet of each connection in turn. Reads that no write precedes are
    /// answered at once, everything else once the writes are durable. `send` gets what leaves, in order: the time, the
    /// contender and the packet. Returns the time at which the server is free again.
    pub(crate) fn serve(&mut self, now_ns: u64, mut send: impl FnMut(u64, usize, Packet)) -> u64 {
        let mut serving = Serving { until_ns: now_ns, send: &mut send };
        let mut is_flushed = false;
        // Clearing the old map would take a time that depends on the largest size that it ever had.
        self.connections = HashMap::new();
        let mut arrivals = std::mem::take(&mut self.arrivals);
        arrivals.sort_unstable_by_key(|arrival| (arrival.round, arrival.connection));
        for Arrival { contender, request, .. } in arrivals {
            let is_write = matches!(request, Request::Create | Request::Delete(..));
            if is_write && !std::mem::replace(&mut is_flushed, true) {
                serving.until_ns += self.times.commit_ns;
            }
            self.apply(contender, request, &mut serving);
        }
        serving.until_ns
    }

    fn apply(&mut self, contender: usize, request: Request, serving: &mut Serving<'_>) {
        let mut messages = 1;
        let mut children = 0;
        let (exchange, answer) = match request {
            Request::Create => {
                let number = self.there.end;
                let czxid = self.change();
                self.there.end += 1;
                self.czxids.push(czxid);
                (self.costs.create, Reply::Created { number, czxid })
            }
            Request::List => {
                children = u64::from(self.there.len());
                self.tally.bytes += children * self.costs.child_bytes;
                (self.costs.list, Reply::Listed { listing: self.there, changed: self.changed })
            }
            Request::Note => (self.costs.note, Reply::Noted(Some(self.note()))),
            Request::NoteBeside(number) => {
                messages = 2;
                let is_there = self.look_for(number);
                (self.costs.note, Reply::Noted(Some(self.note()).filter(|_| is_there)))
            }
            Request::WatchParent => (self.costs.note, Reply::ParentWatched),
            Request::Watch(number) if self.there.has(number) => {
                self.watchers.insert(number, contender);
                (self.costs.watch, Reply::Watching(Some(self.czxids[number as usize])))
            }
            Request::Watch(_) => (self.costs.gone, Reply::Watching(None)),
            Request::Others(own) => {
                messages = 2;
                let is_own_there = self.look_for(own);
                (self.costs.stat_parent, Reply::Others { children: self.there.len(), is_own_there })
            }
            Request::Delete(number, leave) => {
                let (exchange, is_done) = self.delete(number, leave, serving);
                (exchange, Reply::Deleted(is_done))
            }
        };
        self.tally.add(1, exchange);
        serving.until_ns += messages * self.times.message_ns + self.times.children_ns(children);
        serving.send(contender, Packet::Reply(answer));
    }

    /// Tells whether a node exists, and counts the read.
    fn look_for(&mut self, number: u32) -> bool {
        let is_there = self.there.has(number);
        self.tally.add(1, if is_there { self.costs.stat } else { self.costs.gone });
        is_there
    }

    fn delete(&mut self, number: u32, leave: Leave, serving: &mut Serving<'_>) -> (Exchange, bool) {
        let exchange = match leave {
            Leave::Nothing => self.costs.delete,
            Leave::Beside(other) if self.there.has(other) => self.costs.delete_beside,
            Leave::Beside(_) => return (self.costs.delete_beside, false),
            Leave::Note(note) => {
                let data = note.data();
                // The request carries the note, whether it is written or not.
                self.tally.bytes += data.len() as u64;
                // ZooKeeper carries out a transaction whole or not at all, so a note of another version deletes
                // nothing.
                if note.version != self.version {
                    return (self.costs.delete_noted, false);
                }
                self.noted = data;
                self.version += 1;
                self.costs.delete_noted
            }
        };
        debug_assert_eq!(number, self.there.first, "nodes go in the order in which they came");
        self.there.first = self.there.first.max(number + 1);
        self.change();
        if let Some(watcher) = self.watchers.remove(&number) {
            self.tally.notify(1, 1, self.costs.notification);
            serving.until_ns += self.times.message_ns;
            serving.send(watcher, Packet::Notification);
        }
        (exchange, true)
    }

    fn note(&mut self) -> ParentState {
        self.tally.bytes += self.noted.len() as u64;
        ParentState::new(&self.noted, &self.stat())
    }

    /// Notes that a child was created or deleted. Returns the transaction.
    fn change(&mut self) -> i64 {
        self.zxid += 1;
        self.changed = self.zxid;
        self.zxid
    }

    /// Returns the stat of the lock's node.
    fn stat(&self) -> Stat {
        let num_children = i32::try_from(self.there.len()).expect("BUG: more nodes than a server can number");
        Stat { czxid: PARENT.0, pzxid: self.changed, version: self.version, num_children }
    }
}

impl Serving<'_> {
    fn send(&mut self, contender: usize, packet: Packet) {
        (self.send)(self.until_ns, contender, packet);
    }
}

impl Listing {
    pub(crate) fn len(self) -> u32 {
        self.end - self.first
    }

    pub(crate) fn has(self, number: u32) -> bool {
        (self.first..self.end).contains(&number)
    }
}
