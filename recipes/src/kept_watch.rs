//! A watch that is kept although nobody waits for it, to know that nothing has happened.

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

use futures_util::FutureExt;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::wire::{Fired, Watch};

/// How many bytes the paths of the watches that a session keeps may have: those of about a thousand locks. At a reconnect
/// the client library sets all its watches again, and version 0.11 loses the session when their paths have more than
/// 128 KiB together: it then sends two requests of one id, and cannot make out the second answer. The other half is for
/// watches that somebody waits for.
const PATH_BYTES_MAX: usize = 64 * 1024;

/// The room that a session has for such watches.
#[derive(Debug)]
pub(crate) struct KeptWatches {
    path_bytes: Arc<Semaphore>,
}

/// The room for one.
#[derive(Debug)]
pub(crate) struct Room {
    _path_bytes: OwnedSemaphorePermit,
}

/// A watch on a node. Dropped, it is taken back.
pub(crate) struct KeptWatch {
    incarnation: i64,
    fired: Pin<Box<dyn Future<Output = Fired> + Send>>,
    _room: Room,
}

impl Default for KeptWatches {
    fn default() -> Self {
        Self { path_bytes: Arc::new(Semaphore::new(PATH_BYTES_MAX)) }
    }
}

impl KeptWatches {
    /// Room for the watch of a node whose path, with the chroot, has so many bytes; `None` while too many others are kept.
    pub(crate) fn room(&self, path_len: usize) -> Option<Room> {
        let path_len = path_len.try_into().ok()?;
        let path_bytes = Arc::clone(&self.path_bytes).try_acquire_many_owned(path_len).ok()?;
        Some(Room { _path_bytes: path_bytes })
    }
}

impl KeptWatch {
    /// Keeps a watch that was set on the node of this `incarnation`.
    pub(crate) fn new(incarnation: i64, watch: Watch, room: Room) -> Self {
        Self { incarnation, fired: Box::pin(watch.fired()), _room: room }
    }

    /// Which node of the path is watched.
    pub(crate) fn incarnation(&self) -> i64 {
        self.incarnation
    }

    /// Whether it has fired, as far as the replies and notifications go that have come. Not to be asked again after that.
    pub(crate) fn has_fired(&mut self) -> bool {
        self.fired.as_mut().now_or_never().is_some()
    }
}

impl fmt::Debug for KeptWatch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("KeptWatch").field("incarnation", &self.incarnation).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn there_is_room_for_so_many_watches_and_again_once_one_is_dropped() {
        let kept = KeptWatches::default();
        let mut rooms: Vec<Room> = std::iter::from_fn(|| kept.room(64)).collect();
        assert_eq!(rooms.len(), PATH_BYTES_MAX / 64);
        rooms.pop();
        assert!(kept.room(65).is_none());
        assert!(kept.room(64).is_some());
    }
}
