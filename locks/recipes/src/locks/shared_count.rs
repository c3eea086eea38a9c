//! A number that clients share.

use std::fmt;
use std::future::Future;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use zookeeper_client::{Error as ClientError, Stat};

use crate::error::Error;
use crate::node;
use crate::session::Session;
use crate::session::backoff::Backoff;
use crate::session::replies::retry_lost_reply;
use crate::session::wire::Watch;

/// A number that many clients read, set and follow, for example the number of permits of a [`Semaphore`](crate::Semaphore).
///
/// It is the data of one persistent node: four bytes, the highest first, as Apache Curator's `SharedCount` writes them. The first
/// call that reads a missing node creates it, with the seed. The node stays when all clients are gone.
///
/// Once this object or a clone has seen the node, the seed does not count any more. If somebody then deletes the node, reads fail
/// with [`Error::CountDeleted`] until somebody [sets](Self::set) the count. Otherwise a count that was lowered would be the seed
/// again. An object that was made later cannot know that there was a node, and creates it with its seed. So lower a count, and do
/// not delete it.
///
/// Cheap to clone.
///
/// # Cost
///
/// While the node exists, each call sends one request. A client that follows the count is notified once of a change, and then
/// reads the count again.
///
/// ```no_run
/// # async fn example(session: zk_recipes::Session) -> Result<(), zk_recipes::Error> {
/// use zk_recipes::SharedCount;
///
/// let count = SharedCount::new(&session, "/counts/permits", 3)?;
/// // Adds one. If somebody changes the count meanwhile, reads it again.
/// let mut seen = count.get().await?;
/// let more = loop {
///     match count.try_set(seen, seen.value + 1).await? {
///         Some(written) => break written,
///         None => seen = count.get().await?,
///     }
/// };
/// // The next change needs no read.
/// count.try_set(more, more.value - 1).await?;
/// # Ok(())
/// # }
/// ```
#[doc(alias = "SharedCountReader")]
#[doc(alias = "SharedValue")]
#[derive(Clone)]
pub struct SharedCount {
    inner: Arc<CountInner>,
}

struct CountInner {
    session: Session,
    path: String,
    seed: i32,
    /// Whether the node existed at some time.
    is_known: AtomicBool,
}

/// A count as it was at one moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub struct VersionedCount {
    /// The count.
    pub value: i32,
    /// The number of times that it was set since its node was created.
    pub version: i32,
}

impl fmt::Debug for SharedCount {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SharedCount").field("path", &self.inner.path).finish_non_exhaustive()
    }
}

impl SharedCount {
    /// Returns the count at `path`. If its node never existed, it is created with `seed`. Missing parents are created with the node,
    /// as [`SessionConfig::parents`](crate::SessionConfig::parents) says.
    ///
    /// # Errors
    /// [`Error::InvalidPath`]. Nothing is sent.
    pub fn new(session: &Session, path: &str, seed: i32) -> Result<Self, Error> {
        node::validate_path(path)?;
        let session = session.clone();
        let path = path.to_owned();
        let inner = CountInner { session, path, seed, is_known: AtomicBool::new(false) };
        Ok(Self { inner: Arc::new(inner) })
    }

    /// Returns the path of the node.
    #[must_use]
    pub fn path(&self) -> &str {
        &self.inner.path
    }

    /// Returns the session of the count.
    #[must_use]
    pub fn session(&self) -> &Session {
        &self.inner.session
    }

    /// Returns the current count, as the session's server knows it. The server may lag behind others.
    ///
    /// # Errors
    /// [`Error::SessionEnded`], [`Error::NotAuthorized`] or [`Error::Refused`]. [`Error::NotACount`] if the data of the node is
    /// something else. [`Error::CountDeleted`] if somebody deleted the node.
    ///
    /// # Cancel safety
    /// It only reads, unless the node never existed: then it may have been created.
    #[doc(alias = "getCount")]
    #[doc(alias = "getVersionedValue")]
    pub async fn get(&self) -> Result<VersionedCount, Error> {
        let wire = self.inner.session.wire();
        let path = self.path();
        let (data, stat) = self.read(|| wire.data(path)).await?;
        self.count(&data, &stat)
    }

    /// Sets the count to `value` without a check of the old count, and returns what was written. The last call to set it wins. If
    /// a reply is lost, the count is set once more. A missing node is created.
    ///
    /// # Errors
    /// [`Error::SessionEnded`], [`Error::NotAuthorized`] or [`Error::Refused`]. Data that is no count is overwritten.
    ///
    /// # Cancel safety
    /// If the future is dropped, it is unknown whether the count was set.
    #[doc(alias = "setCount")]
    pub async fn set(&self, value: i32) -> Result<VersionedCount, Error> {
        let CountInner { session, path, .. } = &*self.inner;
        let data = value.to_be_bytes();
        loop {
            match retry_lost_reply(|| session.wire().set_data(path, &data, None)).await {
                Ok(stat) => {
                    self.note_node();
                    return Ok(VersionedCount { value, version: stat.version });
                }
                Err(ClientError::NoNode) => {
                    let is_created = session.remote().create_persistent(path, &data).await?;
                    self.note_node();
                    // If another client created the node, it may have another value, so the next round sets it.
                    if is_created {
                        return Ok(VersionedCount { value, version: 0 });
                    }
                }
                Err(error) => return Err(session.remote().explain("set", path, error)),
            }
        }
    }

    /// Sets the count, unless somebody has set it since `previous` was read or written. Returns what was written, so the next
    /// `try_set` needs no read. Returns `None` if somebody has set it.
    ///
    /// If the node is deleted and created again, its versions begin at zero again. So if somebody deletes it by hand, a change
    /// may go unnoticed.
    ///
    /// # Errors
    /// [`Error::SessionEnded`], [`Error::NotAuthorized`], [`Error::Refused`], [`Error::NotACount`] or [`Error::CountDeleted`].
    /// [`Error::Indeterminate`] if the reply was lost with the connection and the count has been changed: perhaps by this call,
    /// perhaps by another client.
    ///
    /// # Cancel safety
    /// If the future is dropped, it is unknown whether the count was set.
    #[doc(alias = "trySetCount")]
    #[doc(alias = "compare_exchange")]
    pub async fn try_set(&self, previous: VersionedCount, value: i32) -> Result<Option<VersionedCount>, Error> {
        let CountInner { session, path, .. } = &*self.inner;
        let mut is_reply_lost = false;
        let mut backoff = Backoff::to_repeat();
        loop {
            match session.wire().set_data(path, &value.to_be_bytes(), Some(previous.version)).await {
                // If an earlier attempt without a reply had been applied, the version would differ by now.
                Ok(stat) => return Ok(Some(VersionedCount { value, version: stat.version })),
                Err(ClientError::ConnectionLoss) => {
                    is_reply_lost = true;
                    backoff.pause().await;
                }
                Err(ClientError::Throttled) => backoff.pause().await,
                Err(ClientError::BadVersion | ClientError::NoNode) if !is_reply_lost => return Ok(None),
                Err(ClientError::BadVersion) => {
                    let found = self.get().await?;
                    return if is_of_another(previous, value, found) { Ok(None) } else { Err(self.indeterminate()) };
                }
                Err(ClientError::NoNode) => return Err(self.indeterminate()),
                Err(error) => return Err(session.remote().explain("set", path, error)),
            }
        }
    }

    /// Waits until the count has been set since `seen` was read. Returns the count then. Counts that were replaced before this
    /// call reads again are skipped.
    ///
    /// ```no_run
    /// # async fn example(count: zk_recipes::SharedCount) -> Result<(), zk_recipes::Error> {
    /// let mut seen = count.get().await?;
    /// loop {
    ///     println!("there are {} now", seen.value);
    ///     seen = count.changed(seen).await?;
    /// }
    /// # }
    /// ```
    ///
    /// # Errors
    /// As [`get`](Self::get).
    ///
    /// # Cancel safety
    /// Nothing is lost: the next call with the same `seen` returns the change.
    #[doc(alias = "SharedCountListener")]
    pub async fn changed(&self, seen: VersionedCount) -> Result<VersionedCount, Error> {
        loop {
            let (found, watch) = self.watch().await?;
            if found != seen {
                return Ok(found);
            }
            watch.fired().await;
        }
    }

    /// Returns the current count, and a watch that fires with its next change.
    pub(crate) async fn watch(&self) -> Result<(VersionedCount, Watch), Error> {
        let wire = self.inner.session.wire();
        let path = self.path();
        let (data, stat, watch) = self.read(|| wire.watch(path)).await?;
        Ok((self.count(&data, &stat)?, watch))
    }

    /// Tells whether nobody has set the count since it was `seen`. The answer is the leader's, and a quorum has committed it.
    ///
    /// A node that was deleted and created again may have the same version: see [`try_set`](Self::try_set).
    pub(crate) async fn is_current(&self, seen: VersionedCount) -> Result<bool, Error> {
        let CountInner { session, path, .. } = &*self.inner;
        let is_current = retry_lost_reply(|| session.wire().has_version(path, seen.version)).await;
        is_current.map_err(|error| session.remote().explain("check", path, error))
    }

    /// Returns the answer to a read. If the node never existed, creates it first.
    async fn read<T, F>(&self, mut request: impl FnMut() -> F) -> Result<T, Error>
    where
        F: Future<Output = Result<T, ClientError>>,
    {
        let CountInner { session, path, seed, is_known } = &*self.inner;
        loop {
            match retry_lost_reply(&mut request).await {
                Ok(answer) => {
                    self.note_node();
                    return Ok(answer);
                }
                Err(ClientError::NoNode) if is_known.load(Ordering::Relaxed) => {
                    return Err(Error::CountDeleted { path: path.clone() });
                }
                Err(ClientError::NoNode) => {
                    session.remote().create_persistent(path, &seed.to_be_bytes()).await?;
                    self.note_node();
                }
                Err(error) => return Err(session.remote().explain("read", path, error)),
            }
        }
    }

    fn count(&self, data: &[u8], stat: &Stat) -> Result<VersionedCount, Error> {
        let Ok(bytes) = data.try_into() else {
            return Err(Error::NotACount { path: self.path().to_owned(), length: data.len() });
        };
        Ok(VersionedCount { value: i32::from_be_bytes(bytes), version: stat.version })
    }

    fn note_node(&self) {
        self.inner.is_known.store(true, Ordering::Relaxed);
    }

    fn indeterminate(&self) -> Error {
        Error::Indeterminate { path: self.path().to_owned() }
    }
}

/// Tells whether only another client can have set the count that was found. If so, the attempt to set `value` after `previous`
/// was refused.
fn is_of_another(previous: VersionedCount, value: i32, found: VersionedCount) -> bool {
    found.version == previous.version.wrapping_add(1) && found.value != value
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn another_value_in_the_next_version_proves_that_a_set_failed() {
        let count = |value, version| VersionedCount { value, version };
        for (previous, value, found, expected) in [
            (count(5, 1), 6, count(7, 2), true),
            // Ours, or the same value from another client.
            (count(5, 1), 6, count(6, 2), false),
            // Ours may have come in between.
            (count(5, 1), 6, count(7, 3), false),
            // The node was created anew.
            (count(5, 4), 6, count(7, 0), false),
            (count(5, i32::MAX), 6, count(7, i32::MIN), true),
        ] {
            assert_eq!(is_of_another(previous, value, found), expected, "{previous:?} {value} {found:?}");
        }
    }
}
