//! Requests to give a lock back. The contender that is asked decides: nothing is forced.

use crate::error::Error;
use crate::node;
use crate::session::Session;
use crate::session::replies::retry_lost_reply;
use zookeeper_client::Error as ClientError;

/// The data that Curator's `Revoker` writes.
pub(crate) const REQUEST: &[u8] = b"__REVOKE__";

/// Asks the contender with the node at `node_path` to give its lock or its place back, as Curator's `Revoker` does. The contender
/// may be a holder or a waiter. If the node is gone, the call succeeds.
///
/// [`participants`](crate::participants) returns the paths of the nodes. The request replaces the node's data.
///
/// ```no_run
/// # async fn example(session: zk_recipes::Session) -> Result<(), zk_recipes::Error> {
/// for participant in zk_recipes::participants(&session, "/locks/goods-1").await? {
///     if participant.is_holder {
///         zk_recipes::revoke(&session, &participant.path).await?;
///     }
/// }
/// # Ok(())
/// # }
/// ```
///
/// # Errors
/// [`Error::InvalidPath`], [`Error::SessionEnded`] or [`Error::Refused`]. [`Error::NotAuthorized`] if the node's ACL does not let
/// this session write.
///
/// # Cancel safety
/// If the future is dropped, it is unknown whether the request was made.
#[doc(alias = "Revoker")]
#[doc(alias = "attemptRevoke")]
pub async fn revoke(session: &Session, node_path: &str) -> Result<(), Error> {
    node::validate_path(node_path)?;
    match retry_lost_reply(|| session.wire().set_data(node_path, REQUEST, None)).await {
        Ok(_) | Err(ClientError::NoNode) => Ok(()),
        Err(error) => Err(session.remote().explain("write", node_path, error)),
    }
}

/// A handle that reports when somebody asks a contender for its lock, by [`revoke`] or by Curator's `Revoker`. Made by
/// [`LockGuard::revocation`](crate::LockGuard::revocation) and [`Waiter::revocation`](crate::Waiter::revocation).
///
/// It may be made at any time, because it also reports a request that came before. It keeps the session open, as a guard does.
#[doc(alias = "Revocable")]
#[derive(Clone, Debug)]
pub struct Revocation {
    session: Session,
    path: String,
    /// The transaction that created the node. Another contender's node may have the same path.
    czxid: i64,
}

impl Revocation {
    /// Returns the revocation of the contender with this node. `czxid`: the transaction that created the node.
    pub(crate) fn of(session: &Session, path: &str, czxid: i64) -> Self {
        Self { session: session.clone(), path: path.to_owned(), czxid }
    }

    /// Returns the path of the contender's node.
    #[must_use]
    pub fn node_path(&self) -> &str {
        &self.path
    }

    /// Waits until somebody has asked for the lock.
    ///
    /// ```no_run
    /// # async fn example(held: zk_recipes::LockGuard) -> Result<(), zk_recipes::Error> {
    /// # async fn next_step() {}
    /// let revocation = held.revocation();
    /// tokio::select! {
    ///     asked = revocation.requested() => asked?,
    ///     () = async { loop { next_step().await } } => {}
    /// }
    /// held.release().await
    /// # }
    /// ```
    ///
    /// # Errors
    /// [`Error::NodeDeleted`] once the contender's node is gone, even after its own release. [`Error::SessionEnded`],
    /// [`Error::NotAuthorized`] or [`Error::Refused`].
    ///
    /// # Cancel safety
    /// Nothing is lost, and the watch is removed: call it again.
    pub async fn requested(&self) -> Result<(), Error> {
        let deleted = || Error::NodeDeleted { path: self.path.clone() };
        loop {
            match retry_lost_reply(|| self.session.wire().watch(&self.path)).await {
                Ok((_, stat, _)) if stat.czxid != self.czxid => return Err(deleted()),
                Ok((data, ..)) if data == REQUEST => return Ok(()),
                Ok((.., watch)) => {
                    watch.fired().await;
                }
                Err(ClientError::NoNode) => return Err(deleted()),
                Err(error) => return Err(self.session.remote().explain("watch", &self.path, error)),
            }
        }
    }
}
