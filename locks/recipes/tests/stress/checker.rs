//! The judge of a run: finds holds of one lock that excluded each other and overlapped. Pure: times are arguments.
//!
//! # Why a finding is never a false alarm
//!
//! All contenders, faults and this judge share one process and one monotonic clock, so any two times can be compared.
//!
//! * **A definite hold** is the interval from `first` to `last`. A contender reads the clock after its acquire has
//!   returned and before it asks the guard for its state. If the guard then says `Held` or `Suspect`, the time is noted: in
//!   both states nobody else holds, as the library promises. A hold that is lost never turns back, so the hold was valid at
//!   every instant from the first noted time to the last. A release or a drop begins after the last noted time.
//! * **A node that was deleted by hand** ends the definite hold at the moment before the delete was sent. A delete without
//!   an answer counts as sent and applied. A hold whose first noted time is later is not definite at all, as the grant may
//!   have been decided before the delete. A hold goes by the transaction that created its node, which is its token; so the
//!   later holders of a cohort by the same node are not definite either.
//! * **Touching intervals** do not overlap: only an instant that is inside both is a finding.
//!
//! # A waiter whose node is gone
//!
//! A waiter must not be granted after its node was deleted by hand. That is judged only if all of these are true:
//!
//! * the delete was answered;
//! * another contender that excludes the waiter, and whose token is lower, held definitely at the time of the answer or
//!   later. Its node was ahead of the waiter's, so no look from before the delete can have decided the grant;
//! * no other node of the waiter's session was ahead of it just before the delete. A session may pass its hold on to a
//!   waiter whose node is gone, while an earlier node of the session stands in the queue.
//!
//! # Tokens
//!
//! Of two definite holds that exclude each other the later one must have the greater token. Nothing is said of holds that may
//! share the lock, and of holds that are not definite.

#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, HashMap, HashSet};
use std::fmt;
use std::time::Duration;

/// How long a hold is kept after its end to be compared with others. Far longer than any hold of a run lasts.
const KEPT: Duration = Duration::from_secs(90);

/// A time since the start of the run.
pub(crate) type Time = Duration;

/// The contenders that may hold a lock together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Rule {
    /// Nobody.
    Exclusive,
    /// Readers.
    ReadersShare,
    /// At most this number of holders.
    Permits(usize),
}

/// A hold as far as it is certain.
#[derive(Clone, Debug)]
pub(crate) struct CertainHold {
    pub(crate) lock: &'static str,
    pub(crate) who: String,
    /// The number of the holder's session.
    pub(crate) session_number: usize,
    pub(crate) node: String,
    /// The transaction that created the node, and the number of the hand-over.
    pub(crate) token: (i64, i64),
    pub(crate) is_reader: bool,
    /// The first and the last time at which it was certainly held.
    pub(crate) first: Time,
    pub(crate) last: Time,
}

impl fmt::Display for CertainHold {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { lock, who, node, token: (czxid, handover), first, last, .. } = self;
        write!(f, "{who} held {lock} by {node} with token {czxid}.{handover} from {first:?} to {last:?}")
    }
}

/// What must not happen, and the holds that it happened to.
#[derive(Clone, Debug)]
pub(crate) struct Violation {
    pub(crate) what: Breach,
    pub(crate) holds: Vec<CertainHold>,
}

/// What must not happen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Breach {
    Overlap,
    TokenRegression,
    GrantWithoutNode,
}

/// A delete that was sent by hand.
#[derive(Clone, Copy, Debug)]
struct Deletion {
    sent: Time,
    answered: Option<Time>,
    may_be_passed_on: bool,
}

/// The holds of a run, and the nodes that were deleted by hand.
#[derive(Debug)]
pub(crate) struct History {
    rules: BTreeMap<&'static str, Rule>,
    open: HashMap<u64, CertainHold>,
    closed: HashMap<&'static str, Vec<CertainHold>>,
    next_id: u64,
    deletions: HashMap<i64, Deletion>,
    deleted_paths: HashSet<String>,
}

impl History {
    pub(crate) fn new(rules: impl IntoIterator<Item = (&'static str, Rule)>) -> Self {
        Self {
            rules: rules.into_iter().collect(),
            open: HashMap::new(),
            closed: HashMap::new(),
            next_id: 0,
            deletions: HashMap::new(),
            deleted_paths: HashSet::new(),
        }
    }

    /// Notes a hold that was seen. Returns its number, which `extend` and `close` take.
    pub(crate) fn open(&mut self, hold: CertainHold) -> u64 {
        self.next_id += 1;
        self.open.insert(self.next_id, hold);
        self.next_id
    }

    /// Notes that a hold was certain at a later time.
    pub(crate) fn extend(&mut self, id: u64, at: Time) {
        if let Some(hold) = self.open.get_mut(&id) {
            hold.last = hold.last.max(at);
        }
    }

    /// Notes that nothing more will be known of a hold, and compares it with all others of the lock.
    pub(crate) fn close(&mut self, id: u64) -> Vec<Violation> {
        let Some(hold) = self.open.remove(&id) else { return Vec::new() };
        let lock = hold.lock;
        let violations = self.judge(&hold);
        let closed = self.closed.entry(lock).or_default();
        closed.retain(|other| other.last + KEPT >= hold.last);
        closed.push(hold);
        violations
    }

    /// Notes that a delete by hand is about to be sent, and whether the session of the node may pass a hold on to it.
    pub(crate) fn deleting(&mut self, czxid: i64, path: &str, at: Time, may_be_passed_on: bool) {
        let new = Deletion { sent: at, answered: None, may_be_passed_on };
        self.deletions.entry(czxid).or_insert(new).may_be_passed_on |= may_be_passed_on;
        self.deleted_paths.insert(path.to_owned());
    }

    /// Notes that a delete by hand was confirmed.
    pub(crate) fn deleted(&mut self, czxid: i64, at: Time) {
        if let Some(deletion) = self.deletions.get_mut(&czxid) {
            deletion.answered = Some(at);
        }
    }

    /// Returns whether a delete by hand was ever sent for a node of this path.
    pub(crate) fn was_deleted(&self, path: &str) -> bool {
        self.deleted_paths.contains(path)
    }

    fn judge(&self, hold: &CertainHold) -> Vec<Violation> {
        let rule = self.rules[hold.lock];
        let violation = |what, others: &[&CertainHold]| {
            let holds = others.iter().copied().chain([hold]).cloned().collect();
            Violation { what, holds }
        };
        let mut found = Vec::new();
        let Some((first, last)) = self.definite(hold) else {
            if let Some(other) = self.is_granted_without_node(rule, hold) {
                found.push(violation(Breach::GrantWithoutNode, &[other]));
            }
            return found;
        };
        let closed = || self.closed.get(hold.lock).into_iter().flatten();
        if let Rule::Permits(permits) = rule {
            let together = closed().filter_map(|other| self.definite(other).map(|interval| (other, interval)));
            let together: Vec<_> = together.filter(|(_, (from, to))| *from < last && first < *to).collect();
            for at in together.iter().map(|(_, (from, _))| first.max(*from)) {
                let others = together.iter().filter(|(_, (from, to))| *from <= at && at < *to);
                let others: Vec<&CertainHold> = others.map(|(other, _)| *other).collect();
                if others.len() + 1 > permits {
                    found.push(violation(Breach::Overlap, &others));
                    break;
                }
            }
            return found;
        }
        for other in closed().filter(|other| excludes(rule, hold, other)) {
            let Some((from, to)) = self.definite(other) else { continue };
            if from < last && first < to {
                found.push(violation(Breach::Overlap, &[other]));
            } else if (to < first && other.token >= hold.token) || (last < from && hold.token >= other.token) {
                found.push(violation(Breach::TokenRegression, &[other]));
            }
        }
        found
    }

    /// Returns the interval in which a hold was certain, if there is one.
    fn definite(&self, hold: &CertainHold) -> Option<(Time, Time)> {
        match self.deletions.get(&hold.token.0) {
            None => Some((hold.first, hold.last)),
            Some(deletion) if deletion.sent <= hold.first => None,
            Some(deletion) => Some((hold.first, hold.last.min(deletion.sent))),
        }
    }

    /// Returns the contender behind which this one still waited when its node was gone, if all of that is certain.
    fn is_granted_without_node(&self, rule: Rule, hold: &CertainHold) -> Option<&CertainHold> {
        let deletion = self.deletions.get(&hold.token.0)?;
        let answered = deletion.answered.filter(|answered| *answered < hold.first && !deletion.may_be_passed_on)?;
        let others = self.closed.get(hold.lock).into_iter().flatten().chain(self.open.values());
        let mut others = others.filter(|other| other.lock == hold.lock && excludes(rule, hold, other));
        others.find(|other| {
            other.token.0 < hold.token.0 && self.definite(other).is_some_and(|(_, last)| last >= answered)
        })
    }
}

/// Returns whether two holds of one lock must not meet.
fn excludes(rule: Rule, one: &CertainHold, other: &CertainHold) -> bool {
    match rule {
        Rule::Exclusive => true,
        Rule::ReadersShare => !(one.is_reader && other.is_reader),
        Rule::Permits(_) => false,
    }
}
