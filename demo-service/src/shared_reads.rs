//! Shared reads. At most one read of a key runs at a time. Readers that arrive during a read share the next one,
//! because the current read may be older than what they know. So each reader sees everything that was committed
//! before it arrived.

use std::collections::HashMap;
use std::hash::Hash;
use std::sync::Arc;

use futures_util::FutureExt;
use futures_util::future::{BoxFuture, Shared, WeakShared};
use parking_lot::Mutex;
use tokio::sync::Mutex as AsyncMutex;
use tokio::task::yield_now;

/// The reads of each key.
pub(crate) struct SharedReads<K, V>(Mutex<HashMap<K, Readers<V>>>);

struct Readers<V> {
    /// Locked by the read that is running.
    running: Arc<AsyncMutex<()>>,
    /// The read that has not started yet, as long as somebody waits for it.
    next: Option<WeakShared<BoxFuture<'static, V>>>,
}

impl<K, V> Default for SharedReads<K, V> {
    fn default() -> Self {
        Self(Mutex::default())
    }
}

impl<K: Clone + Eq + Hash + Send + 'static, V: Clone + Send + Sync + 'static> SharedReads<K, V> {
    /// Returns the result of `read`, or the result of another reader's read that starts after this call. Calls `read`
    /// only in the first case: most readers of a crowd share a read, and the future of a statement is large.
    pub(crate) async fn read<F>(self: &Arc<Self>, key: K, read: impl FnOnce() -> F) -> V
    where
        F: Future<Output = V> + Send + 'static,
    {
        self.join(key, read).await
    }

    fn join<F>(self: &Arc<Self>, key: K, read: impl FnOnce() -> F) -> Shared<BoxFuture<'static, V>>
    where
        F: Future<Output = V> + Send + 'static,
    {
        let mut keys = self.0.lock();
        let new = || Readers { running: Arc::default(), next: None };
        let readers = keys.entry(key.clone()).or_insert_with(new);
        if let Some(next) = readers.next.as_ref().and_then(WeakShared::upgrade) {
            return next;
        }
        let running = Arc::clone(&readers.running);
        let reader = Reader { reads: Arc::clone(self), key, running: Some(Arc::clone(&running)) };
        let read = read();
        let alone = async move {
            // Declared first, so dropped last.
            let reader = reader;
            let _running = running.lock_owned().await;
            // Lets the tasks run that are ready, so that their readers still join this read.
            yield_now().await;
            // From here on, readers share the next read: this one may be older than what they know.
            if let Some(readers) = reader.reads.0.lock().get_mut(&reader.key) {
                readers.next = None;
            }
            read.await
        };
        let next = alone.boxed().shared();
        readers.next = next.downgrade();
        next
    }
}

/// One read of a key. The last read of a key removes the key from the map: clients may ask for any SKU number, so the
/// map must not keep all of them.
struct Reader<K: Eq + Hash, V> {
    reads: Arc<SharedReads<K, V>>,
    key: K,
    /// `None` only during the drop.
    running: Option<Arc<AsyncMutex<()>>>,
}

impl<K: Eq + Hash, V> Drop for Reader<K, V> {
    fn drop(&mut self) {
        let mut keys = self.reads.0.lock();
        let next = keys.get(&self.key).and_then(|readers| readers.next.as_ref()?.upgrade());
        drop(self.running.take());
        // A count of one is the map's own: no read of the key runs or waits for its turn.
        let is_last = keys.get(&self.key).is_some_and(|readers| Arc::strong_count(&readers.running) == 1);
        if is_last && next.is_none() {
            keys.remove(&self.key);
        }
        // `next` may be the last reference to a read. The drop of that read locks the map again.
        drop(keys);
        drop(next);
    }
}

#[cfg(test)]
mod tests {
    use std::future::pending;
    use std::sync::atomic::{AtomicU32, Ordering};

    use futures_util::future::join_all;
    use tokio::sync::Semaphore;

    use super::*;

    /// A value that changes. A read of it ends when the test lets it answer.
    struct Slow {
        value: AtomicU32,
        reads: AtomicU32,
        answers: Semaphore,
    }

    /// Shared reads of that value.
    struct SlowReads {
        slow: Arc<Slow>,
        shared: Arc<SharedReads<u8, u32>>,
    }

    impl SlowReads {
        fn new() -> Self {
            let slow = Slow { value: 0.into(), reads: 0.into(), answers: Semaphore::new(0) };
            Self { slow: Arc::new(slow), shared: Arc::default() }
        }

        /// Makes a reader that has arrived already.
        fn reader(&self, key: u8) -> Shared<BoxFuture<'static, u32>> {
            let slow = Arc::clone(&self.slow);
            self.shared.join(key, || async move {
                slow.reads.fetch_add(1, Ordering::SeqCst);
                let value = slow.value.load(Ordering::SeqCst);
                slow.answers.acquire().await.unwrap().forget();
                value
            })
        }

        /// Waits until `reads` reads have started. `reader` is the reader of the last of them.
        async fn started(&self, reads: u32, reader: &mut Shared<BoxFuture<'static, u32>>) {
            while self.reads() < reads {
                assert!(reader.now_or_never().is_none());
                yield_now().await;
            }
        }

        fn reads(&self) -> u32 {
            self.slow.reads.load(Ordering::SeqCst)
        }

        fn write(&self, value: u32) {
            self.slow.value.store(value, Ordering::SeqCst);
        }

        fn answer(&self, reads: usize) {
            self.slow.answers.add_permits(reads);
        }
    }

    // S18
    #[tokio::test]
    async fn readers_who_come_during_a_read_share_the_next_one() {
        let slow = SlowReads::new();
        let mut first = slow.reader(1);
        slow.started(1, &mut first).await;
        slow.write(7);
        let others: Vec<_> = (0..100).map(|_| slow.reader(1)).collect();
        slow.answer(2);
        assert_eq!((first.await, join_all(others).await), (0, vec![7; 100]));
        assert_eq!(slow.reads(), 2);
    }

    #[tokio::test]
    async fn readers_of_other_keys_do_not_wait() {
        let slow = SlowReads::new();
        let mut one = slow.reader(1);
        let mut other = slow.reader(2);
        slow.started(1, &mut one).await;
        slow.started(2, &mut other).await;
    }

    #[tokio::test]
    async fn a_shared_read_goes_on_when_its_first_reader_leaves() {
        let slow = SlowReads::new();
        let mut first = slow.reader(1);
        let other = first.clone();
        slow.started(1, &mut first).await;
        drop(first);
        slow.answer(1);
        assert_eq!((other.await, slow.reads()), (0, 1));
    }

    #[tokio::test]
    async fn a_read_that_everybody_has_left_delays_nobody() {
        let slow = SlowReads::new();
        let mut under_way = slow.reader(1);
        slow.started(1, &mut under_way).await;
        let mut next = slow.reader(1);
        assert!((&mut next).now_or_never().is_none());
        drop((under_way, next));
        slow.answer(1);
        assert!(slow.shared.0.lock().is_empty(), "keys that nobody reads are forgotten");
        assert_eq!((slow.reader(1).await, slow.reads()), (0, 2));
        assert!(slow.shared.join(1, pending).now_or_never().is_none(), "it was not answered by an old read");
    }
}
