//! The server of the simulation: it takes requests in turns from its connections, makes the writes among them durable
//! together, and answers one after the other.

use std::collections::{HashMap, VecDeque};

use zk_recipes_protocol::release_note::{ParentState, note};
use zk_recipes_protocol::stat::{ParentCzxid, Stat};

use super::costs::{Costs, Exchange, Tally, name, sequence};
use super::model::Times;
use super::{LatencyModel, Recipe};

/// Which node of the path the lock's is. It is there before the drain begins.
pub(super) const INCARNATION: ParentCzxid = ParentCzxid(1);

/// What a place in the queue asks of the server.
#[derive(Debug, Clone)]
pub(super) enum Ask {
    Create,
    List,
    /// The data of the lock's node.
    Note,
    /// The same, and whether this one is there, in one flight.
    NoteBeside(u32),
    /// The data of the lock's node, and a watch on it.
    WatchParent,
    Watch(u32),
    /// Whether these are there, in one flight.
    Probe(Vec<u32>),
    /// Whether this one is there, and the only one, in one flight.
    Alone(u32),
    Delete(u32, Leave),
}

/// What a release leaves, or on what condition it deletes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Leave {
    Nothing,
    Note,
    /// Another node of the session, to whom the lock was passed on.
    Beside,
}

/// What the server answers.
#[derive(Debug, Clone)]
pub(super) enum Answer {
    Created { number: u32, czxid: i64 },
    Listed(Listing),
    Noted(ParentState),
    ParentWatched,
    Watching,
    Gone,
    Present(Vec<bool>),
    Alone(bool),
    Deleted,
}

/// A listing. In a drain nodes go in the order in which they came, so that its two ends say which are there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Listing {
    pub(super) first: u32,
    /// The one after the last.
    pub(super) end: u32,
}

/// What came of the requests that the server served together.
#[derive(Debug, Default)]
pub(super) struct Served {
    /// When it is free again.
    pub(super) until_ns: u64,
    /// Answers by the place that asked, and when they leave.
    pub(super) answers: Vec<(u64, usize, Answer)>,
    /// Places that are notified that the one they watched has gone, and when.
    pub(super) notified: Vec<(u64, usize)>,
}

/// The server, and the nodes of one lock.
#[derive(Debug)]
pub(super) struct Server {
    recipe: Recipe,
    costs: Costs,
    times: Times,
    pub(super) tally: Tally,
    /// What has come of each connection, and the connections of which something has, in turns.
    lines: HashMap<usize, VecDeque<(usize, Ask)>>,
    ready: VecDeque<usize>,
    /// Numbers from the first to before the last are there; whoever went before the drain had number 0.
    there: Listing,
    watchers: HashMap<u32, usize>,
    noted: Vec<u8>,
    zxid: i64,
    changed: i64,
}

impl Server {
    pub(super) fn new(recipe: Recipe, model: &LatencyModel) -> Server {
        let noted = match recipe {
            Recipe::Handoff => note(sequence(&name(recipe, 0)), INCARNATION.0),
            Recipe::Naive | Recipe::Mutex | Recipe::Cohort => Vec::new(),
        };
        Server {
            recipe,
            costs: Costs::of(recipe),
            times: Times::of(model),
            tally: Tally::default(),
            lines: HashMap::new(),
            ready: VecDeque::new(),
            there: Listing { first: 1, end: 1 },
            watchers: HashMap::new(),
            noted,
            zxid: INCARNATION.0,
            changed: INCARNATION.0,
        }
    }

    /// Takes in a request.
    pub(super) fn arrive(&mut self, connection: usize, place: usize, ask: Ask) {
        let line = self.lines.entry(connection).or_default();
        if line.is_empty() {
            self.ready.push_back(connection);
        }
        line.push_back((place, ask));
    }

    pub(super) fn has_work(&self) -> bool {
        !self.ready.is_empty()
    }

    /// Serves all that has come: one packet of each connection in turn, reads that no write is before at once, all else
    /// once the writes are durable.
    pub(super) fn serve(&mut self, now_ns: u64) -> Served {
        let mut served = Served { until_ns: now_ns, ..Served::default() };
        let mut is_flushed = false;
        while let Some(connection) = self.ready.pop_front() {
            let Some(line) = self.lines.get_mut(&connection) else { continue };
            let Some((place, ask)) = line.pop_front() else { continue };
            if line.is_empty() {
                self.lines.remove(&connection);
            } else {
                self.ready.push_back(connection);
            }
            if matches!(ask, Ask::Create | Ask::Delete(..)) && !std::mem::replace(&mut is_flushed, true) {
                served.until_ns += self.times.commit_ns;
            }
            self.apply(place, ask, &mut served);
        }
        served
    }

    fn apply(&mut self, place: usize, ask: Ask, served: &mut Served) {
        let (mut messages, mut children) = (1, 0);
        let (exchange, answer) = match ask {
            Ask::Create => {
                let (number, czxid) = (self.there.end, self.change());
                self.there.end += 1;
                (self.costs.create, Answer::Created { number, czxid })
            }
            Ask::List => {
                children = u64::from(self.there.len());
                self.tally.bytes += children * self.costs.child_bytes;
                (self.costs.list, Answer::Listed(self.there))
            }
            Ask::Note => (self.costs.note, self.note()),
            Ask::NoteBeside(number) => {
                messages = 2;
                self.tally.add(1, if self.there.has(number) { self.costs.stat } else { self.costs.gone });
                (self.costs.note, self.note())
            }
            Ask::WatchParent => (self.costs.note, Answer::ParentWatched),
            Ask::Watch(number) if self.there.has(number) => {
                self.watchers.insert(number, place);
                (self.costs.watch, Answer::Watching)
            }
            Ask::Watch(_) => (self.costs.gone, Answer::Gone),
            Ask::Probe(numbers) => {
                messages = numbers.len() as u64;
                let present: Vec<bool> = numbers.into_iter().map(|number| self.there.has(number)).collect();
                let found = present.iter().filter(|is_there| **is_there).count() as u64;
                self.tally.add(found, self.costs.stat);
                self.tally.add(messages - found, self.costs.gone);
                (Exchange::default(), Answer::Present(present))
            }
            Ask::Alone(number) => {
                messages = 2;
                self.tally.add(1, self.costs.stat_parent);
                (self.costs.stat, Answer::Alone(self.there.len() == 1 && self.there.has(number)))
            }
            Ask::Delete(number, leave) => (self.delete(number, leave, served), Answer::Deleted),
        };
        self.tally.add(1, exchange);
        served.until_ns += messages * self.times.message_ns + self.times.children_ns(children);
        served.answers.push((served.until_ns, place, answer));
    }

    fn delete(&mut self, number: u32, leave: Leave, served: &mut Served) -> Exchange {
        debug_assert_eq!(number, self.there.first, "nodes go in the order in which they came");
        self.there.first = self.there.first.max(number + 1);
        self.change();
        if let Some(watcher) = self.watchers.remove(&number) {
            self.tally.notify(1, 1, self.costs.notification);
            served.until_ns += self.times.message_ns;
            served.notified.push((served.until_ns, watcher));
        }
        match leave {
            Leave::Nothing => self.costs.delete,
            Leave::Beside => self.costs.delete_beside,
            Leave::Note => {
                self.noted = note(sequence(&name(self.recipe, number)), INCARNATION.0);
                self.tally.bytes += self.noted.len() as u64;
                self.costs.delete_noted
            }
        }
    }

    fn note(&mut self) -> Answer {
        self.tally.bytes += self.noted.len() as u64;
        Answer::Noted(ParentState::new(&self.noted, &self.stat()))
    }

    /// The transaction of a child that comes or goes.
    fn change(&mut self) -> i64 {
        self.zxid += 1;
        self.changed = self.zxid;
        self.zxid
    }

    /// The stat of the lock's node.
    fn stat(&self) -> Stat {
        let num_children = i32::try_from(self.there.len()).expect("BUG: more nodes than a server can number");
        Stat { czxid: INCARNATION.0, pzxid: self.changed, num_children, ..Stat::default() }
    }
}

impl Listing {
    pub(super) fn len(self) -> u32 {
        self.end - self.first
    }

    fn has(self, number: u32) -> bool {
        (self.first..self.end).contains(&number)
    }
}
