//! What the contenders of one session know together of the queue at one path.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use parking_lot::Mutex;
use zk_recipes_protocol::names::Sequence;
use zk_recipes_protocol::number_proof::{Expected, FirstRequests, Grant, NumberProof};
use zk_recipes_protocol::stat::ParentCzxid;

use crate::arrivals::Arrivals;
use crate::kept_watch::KeptWatch;
use crate::relay::Member;

/// Shared by all contenders of a session at a path. It only spares requests: whoever finds nothing here asks the server.
#[derive(Debug, Default)]
pub(crate) struct Known {
    floor: Mutex<Option<Floor>>,
    /// Whether the last contender that watched another found it there.
    is_busy: AtomicBool,
    /// Who is in the queue, by number.
    members: Mutex<HashMap<Sequence, Arc<Member>>>,
    /// Who is about to join a long queue.
    pub(crate) arrivals: Arrivals,
    number_proof: Mutex<Watched>,
}

/// What the grants of the session say to its next contender, and the watch of the lock's node that this needs.
#[derive(Debug, Default)]
struct Watched {
    number_proof: NumberProof,
    watch: Option<KeptWatch>,
}

/// All contenders before this number have gone.
#[derive(Clone, Copy, Debug)]
struct Floor {
    /// Which node the numbers are of: they begin anew when the lock's node is deleted and created again.
    incarnation: i64,
    sequence: Sequence,
}

/// What to tell the others of a session when the holder of a grant lets go.
#[derive(Debug)]
pub(crate) struct Parting {
    known: Arc<Known>,
    grant: Grant,
}

impl Known {
    /// Notes that a contender who wants the lock alone was granted it, and so nobody is before it. What it returns is to be
    /// told when it lets go.
    pub(crate) fn granted(self: &Arc<Self>, incarnation: i64, sequence: Sequence) -> Parting {
        let grant = Grant { parent: ParentCzxid(incarnation), sequence };
        self.raise_floor(incarnation, sequence);
        self.number_proof.lock().number_proof.granted(grant);
        Parting { known: Arc::clone(self), grant }
    }

    fn raise_floor(&self, incarnation: i64, sequence: Sequence) {
        let mut floor = self.floor.lock();
        let is_news = floor.is_none_or(|floor| {
            let is_later = floor.sequence.queue_cmp(sequence).is_lt();
            floor.incarnation < incarnation || floor.incarnation == incarnation && is_later
        });
        if is_news {
            *floor = Some(Floor { incarnation, sequence });
        }
    }

    /// The number before which nobody is any more.
    pub(crate) fn floor(&self, incarnation: i64) -> Option<Sequence> {
        let floor = self.floor.lock().filter(|floor| floor.incarnation == incarnation)?;
        Some(floor.sequence)
    }

    /// Whether the next contender will probably find others ahead, so that a look right behind its creation is wasted.
    pub(crate) fn is_busy(&self) -> bool {
        self.is_busy.load(Ordering::Relaxed)
    }

    /// Notes whether a contender has found the one there that it was to watch.
    pub(crate) fn note_busy(&self, is_busy: bool) {
        self.is_busy.store(is_busy, Ordering::Relaxed);
    }

    /// Notes who has joined the queue.
    pub(crate) fn enter(&self, member: &Arc<Member>) {
        self.members.lock().insert(member.sequence, Arc::clone(member));
    }

    /// Notes who has left the queue.
    pub(crate) fn leave(&self, member: &Arc<Member>) {
        let mut members = self.members.lock();
        // The numbers may have begun anew.
        if members.get(&member.sequence).is_some_and(|other| Arc::ptr_eq(other, member)) {
            members.remove(&member.sequence);
        }
    }

    /// The contender of the session that has this number.
    pub(crate) fn member(&self, sequence: Sequence) -> Option<Arc<Member>> {
        self.members.lock().get(&sequence).cloned()
    }

    /// What a contender had best send with its `create`.
    pub(crate) fn first_requests(&self) -> FirstRequests {
        let mut watched = self.number_proof.lock();
        let parent = watched.parent();
        watched.number_proof.first_requests(parent)
    }

    /// Keeps a watch that was set on the lock's node.
    pub(crate) fn keep(&self, watch: KeptWatch) {
        let replaced = self.number_proof.lock().watch.replace(watch);
        drop(replaced);
    }

    /// The lock's node of a contender that holds by the number `own`, with which the server has just answered its `create`.
    pub(crate) fn proves(&self, expected: Expected, own: Sequence) -> Option<ParentCzxid> {
        let watched = self.number_proof.lock().parent();
        watched.filter(|_| expected.proves(own, watched))
    }
}

impl Watched {
    /// Which node of the path is known to be the lock's still. Forgets a watch that has fired.
    fn parent(&mut self) -> Option<ParentCzxid> {
        if self.watch.as_mut().is_some_and(KeptWatch::has_fired) {
            self.watch = None;
            self.number_proof.disturbed();
        }
        self.watch.as_ref().map(|watch| ParentCzxid(watch.incarnation()))
    }
}

impl Parting {
    /// Tells that the holder has let go.
    pub(crate) fn released(self) {
        self.known.number_proof.lock().number_proof.released(self.grant);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sequence(number: i32) -> Sequence {
        Sequence::parse(&format!("lock-{number:010}"), "lock-").unwrap()
    }

    #[test]
    fn the_floor_only_rises_until_the_numbers_begin_anew() {
        let known = Arc::new(Known::default());
        assert_eq!(known.floor(1), None);
        known.granted(1, sequence(7));
        known.granted(1, sequence(5));
        assert_eq!(known.floor(1), Some(sequence(7)));
        known.granted(2, sequence(0));
        assert_eq!(known.floor(2), Some(sequence(0)));
        assert_eq!(known.floor(1), None);
        known.granted(1, sequence(9));
        assert_eq!(known.floor(2), Some(sequence(0)), "what comes late of the earlier node says nothing of this one");
    }

    #[test]
    fn the_floor_follows_the_numbers_when_they_wrap() {
        let known = Arc::new(Known::default());
        known.granted(1, sequence(i32::MAX));
        known.granted(1, sequence(i32::MIN));
        assert_eq!(known.floor(1), Some(sequence(i32::MIN)));
    }
}
