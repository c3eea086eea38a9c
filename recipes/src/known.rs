//! What the contenders of one session know together of the queue at one path.

use std::collections::HashSet;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use crate::node::Sequence;

/// Shared by all contenders of a session at a path. It only spares requests: whoever finds nothing here asks the server.
#[derive(Debug, Default)]
pub(crate) struct Known {
    floor: Mutex<Option<Floor>>,
    taken: Mutex<HashSet<i64>>,
    /// Whether the last contender that watched another found it there.
    is_busy: AtomicBool,
    /// Who has joined the queue last.
    joined: Mutex<Option<Joined>>,
}

/// A contender of the session as the next of it may meet it in the queue.
#[derive(Clone, Debug)]
pub(crate) struct Joined {
    pub(crate) sequence: Sequence,
    pub(crate) name: String,
    /// The transaction that created its node.
    pub(crate) czxid: i64,
    /// Which node of the path its number is of, once it knows.
    pub(crate) incarnation: Arc<OnceLock<i64>>,
}

/// All contenders before this number have gone.
#[derive(Clone, Copy, Debug)]
struct Floor {
    /// Which node the numbers are of: they begin anew when the lock's node is deleted and created again.
    incarnation: i64,
    sequence: Sequence,
}

/// A node, by the transaction that created it, that is taken for that of one claim and so of no other.
#[derive(Debug)]
pub(crate) struct Taken {
    known: Arc<Known>,
    czxid: i64,
}

impl Known {
    /// Notes that a contender who wants the lock alone was granted it, and so nobody is before it.
    pub(crate) fn granted(&self, incarnation: i64, sequence: Sequence) {
        let mut floor = lock(&self.floor);
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
        let floor = lock(&self.floor).filter(|floor| floor.incarnation == incarnation)?;
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

    /// Notes who has joined the queue, and returns who did before.
    pub(crate) fn join(&self, joined: Joined) -> Option<Joined> {
        lock(&self.joined).replace(joined)
    }

    /// Takes a node for a claim, until that lets it go. `None` if another claim has taken it.
    pub(crate) fn take(self: &Arc<Self>, czxid: i64) -> Option<Arc<Taken>> {
        let is_free = lock(&self.taken).insert(czxid);
        is_free.then(|| Arc::new(Taken { known: Arc::clone(self), czxid }))
    }
}

impl Drop for Taken {
    fn drop(&mut self) {
        lock(&self.known.taken).remove(&self.czxid);
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // Nothing panics while it is locked.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sequence(number: i32) -> Sequence {
        Sequence::parse(&format!("lock-{number:010}"), "lock-").unwrap()
    }

    #[test]
    fn the_floor_only_rises_until_the_numbers_begin_anew() {
        let known = Known::default();
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
        let known = Known::default();
        known.granted(1, sequence(i32::MAX));
        known.granted(1, sequence(i32::MIN));
        assert_eq!(known.floor(1), Some(sequence(i32::MIN)));
    }

    #[test]
    fn a_node_is_taken_once_until_all_that_know_of_it_let_it_go() {
        let known = Arc::new(Known::default());
        let taken = known.take(7).unwrap();
        let same = Arc::clone(&taken);
        assert!(known.take(7).is_none());
        drop(taken);
        assert!(known.take(7).is_none());
        drop(same);
        assert!(known.take(7).is_some());
    }
}
