//! Room for the nodes of a session.
//!
//! At the end of a session the servers delete all its nodes by one transaction, which lists their paths. If the transaction is longer
//! than `jute.maxbuffer` allows, a single server never starts again on its data, and the servers of an ensemble exit or keep dead
//! nodes (ZOOKEEPER-4306). Servers since 3.5.7 allow twice that length, and earlier ones 1024 bytes more. So a contender takes room for
//! its nodes before it creates them, and gives the room back once they are gone. Without room, it waits in memory, in the order of
//! arrival.
//!
//! A holder needs no more room, so it releases sooner or later. But a holder may wait for another lock, whose contender needs room, and
//! the waiters for the first lock may have taken all of it. So an eighth of the room is a reserve, for one contender of each lock. The
//! permits of one acquire, and all locks of a `MultiLock`, take their room together. Otherwise several of them could wait for each
//! other with a part each.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::sync::Arc;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::error::Error;
use crate::session::weak_map::WeakMap;

/// The room of a session, in bytes.
#[derive(Debug)]
pub(crate) struct Rooms {
    session_id: i64,
    common: Pool,
    reserve: Pool,
    /// The seat of each lock in the reserve, by its path.
    seats: WeakMap<String, Semaphore>,
}

#[derive(Debug)]
struct Pool {
    max: u32,
    free: Arc<Semaphore>,
}

/// Room for nodes. A drop gives it back, so it lives as long as the nodes.
#[derive(Debug)]
pub(crate) struct Room {
    bytes: OwnedSemaphorePermit,
    /// The lock's seat in the reserve, if the bytes are from there.
    seat: Option<Arc<OwnedSemaphorePermit>>,
}

/// Room for several acquires, by session.
#[derive(Debug, Default)]
pub(crate) struct TakenRooms(BTreeMap<i64, Room>);

tokio::task_local! {
    /// Room that was taken for several acquires of this task.
    static TAKEN: RefCell<TakenRooms>;
}

impl Pool {
    fn new(max: u32) -> Self {
        Self { max, free: Arc::new(Semaphore::new(max as usize)) }
    }

    fn try_take(&self, bytes: u32) -> Option<OwnedSemaphorePermit> {
        Arc::clone(&self.free).try_acquire_many_owned(bytes).ok()
    }

    async fn take(&self, bytes: u32) -> OwnedSemaphorePermit {
        let taken = Arc::clone(&self.free).acquire_many_owned(bytes).await;
        taken.unwrap_or_else(|_| unreachable!("BUG: nobody closes the room of a session"))
    }
}

impl Rooms {
    pub(crate) fn new(session_id: i64, bytes_max: u32) -> Self {
        let reserve = bytes_max / 8;
        Self {
            session_id,
            common: Pool::new(bytes_max - reserve),
            reserve: Pool::new(reserve),
            seats: WeakMap::default(),
        }
    }

    /// Returns what an acquire at `path` must say if it can never have that much room.
    fn check(&self, path: &str, bytes: usize) -> Result<u32, Error> {
        let fits = u32::try_from(bytes).ok().filter(|bytes| *bytes <= self.common.max);
        fits.ok_or_else(|| self.refusal(path, bytes))
    }

    fn refusal(&self, path: &str, bytes: usize) -> Error {
        Error::NoRoom { path: path.to_owned(), bytes, bytes_max: self.common.max as usize }
    }

    fn try_take(&self, path: &str, bytes: u32) -> Option<Room> {
        if let Some(bytes) = self.common.try_take(bytes) {
            return Some(Room { bytes, seat: None });
        }
        let seat = self.seat(path).try_acquire_owned().ok()?;
        Some(Room { bytes: self.reserve.try_take(bytes)?, seat: Some(Arc::new(seat)) })
    }

    fn seat(&self, path: &str) -> Arc<Semaphore> {
        self.seats.at(path.to_owned(), || Semaphore::new(1))
    }

    async fn take(&self, path: &str, bytes: u32) -> Room {
        let reserved = async {
            let Ok(seat) = self.seat(path).acquire_owned().await else {
                unreachable!("BUG: nobody closes the seat of a lock")
            };
            Room { bytes: self.reserve.take(bytes).await, seat: Some(Arc::new(seat)) }
        };
        tokio::select! {
            biased;
            // The reserve is for locks that find no room here, so it is tried second.
            bytes = self.common.take(bytes) => Room { bytes, seat: None },
            // More than the whole reserve would wait for ever, and keep the lock's seat meanwhile.
            room = reserved, if bytes <= self.reserve.max => room,
        }
    }

    /// Returns room for the nodes of one acquire of the lock at `path`. Waits for it, unless this is a `try`.
    pub(crate) async fn room(&self, path: &str, bytes: usize, is_try: bool) -> Result<Room, Error> {
        if let Some(room) = self.lent(bytes) {
            return Ok(room);
        }
        let count = self.check(path, bytes)?;
        match self.try_take(path, count) {
            Some(room) => Ok(room),
            None if is_try => Err(self.refusal(path, bytes)),
            None => Ok(self.take(path, count).await),
        }
    }

    /// Returns room that this task has taken before.
    fn lent(&self, bytes: usize) -> Option<Room> {
        TAKEN.try_with(|taken| taken.borrow_mut().0.get_mut(&self.session_id)?.split(bytes)).ok().flatten()
    }
}

impl Room {
    /// Takes the part for some of the nodes out. `None` if there is less room.
    pub(crate) fn split(&mut self, bytes: usize) -> Option<Self> {
        let bytes = self.bytes.split(bytes)?;
        Some(Self { bytes, seat: self.seat.clone() })
    }
}

impl TakenRooms {
    pub(crate) fn add(&mut self, session_id: i64, room: Room) {
        self.0.insert(session_id, room);
    }

    /// Runs the acquires, which take their room from here first.
    pub(crate) async fn lend<T>(self, acquires: impl Future<Output = T>) -> T {
        TAKEN.scope(RefCell::new(self), acquires).await
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn one_contender_of_each_lock_finds_room_behind_a_crowd() {
        let rooms = Rooms::new(1, 800);
        let crowd = rooms.take("/a", 700).await;
        let first = rooms.try_take("/a", 50).unwrap();
        assert!(rooms.try_take("/a", 50).is_none(), "the lock has its seat in the reserve");
        let other = rooms.try_take("/b", 50).unwrap();
        drop(first);
        assert!(rooms.try_take("/b", 50).is_none());
        assert!(rooms.try_take("/a", 50).is_some());
        drop((crowd, other));
        assert!(rooms.try_take("/b", 700).is_some());
    }

    #[tokio::test]
    async fn a_seat_is_free_once_all_parts_of_its_room_are_given_back() {
        let rooms = Rooms::new(1, 800);
        let _crowd = rooms.take("/a", 700).await;
        let mut room = rooms.try_take("/a", 60).unwrap();
        let part = room.split(20).unwrap();
        drop(room);
        assert!(rooms.try_take("/a", 10).is_none());
        drop(part);
        assert!(rooms.try_take("/a", 10).is_some());
    }

    #[test]
    fn more_than_the_room_of_a_session_is_refused() {
        assert!(matches!(Rooms::new(1, 800).check("/a", 701), Err(Error::NoRoom { bytes: 701, bytes_max: 700, .. })));
    }
}
