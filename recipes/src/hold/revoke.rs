//! Asking a contender to give a lock back. Nothing is forced: who is asked decides.

use crate::error::Error;
use crate::node;
use crate::session::Session;
use crate::session::replies::retry_lost_reply;
use zookeeper_client::Error as ClientError;

/// What Curator's `Revoker` writes.
pub(crate) const REQUEST: &[u8] = b"__REVOKE__";

/// Asks the contender whose node is at `node_path`, holder or waiter, for the lock back, in the way of Curator's
/// `Revoker`. A node that is gone needs no asking.
///
/// [`participants`](crate::participants) tells the paths of the nodes. The request replaces the node's data.
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
/// [`Error::InvalidPath`], [`Error::SessionEnded`], [`Error::NotAuthorized`] when the node's ACL does not let this session
/// write, or [`Error::Refused`].
///
/// # Cancel safety
/// Dropped, the request may have been made or not.
#[doc(alias = "Revoker")]
#[doc(alias = "attemptRevoke")]
pub async fn revoke(session: &Session, node_path: &str) -> Result<(), Error> {
    node::validate_path(node_path)?;
    match retry_lost_reply(|| session.wire().set_data(node_path, REQUEST, None)).await {
        Ok(_) | Err(ClientError::NoNode) => Ok(()),
        Err(error) => Err(session.remote().explain("write", node_path, error)),
    }
}

/// Tells a contender when somebody asks for its lock, by [`revoke`] or by Curator's `Revoker`. Made by
/// [`LockGuard::revocation`](crate::LockGuard::revocation) and [`Waiter::revocation`](crate::Waiter::revocation).
///
/// It does not matter when it is made: a request that came before is seen, too. It keeps the session open, as a guard
/// does.
#[doc(alias = "Revocable")]
#[derive(Clone, Debug)]
pub struct Revocation {
    session: Session,
    path: String,
    /// The transaction that created the node, where other contenders' nodes have the same path.
    czxid: Option<i64>,
}

impl Revocation {
    /// Of the contender whose node this is. `czxid`: the transaction that created the node, where the path alone does not
    /// tell it from others.
    pub(crate) fn of(session: &Session, path: &str, czxid: Option<i64>) -> Self {
        Self { session: session.clone(), path: path.to_owned(), czxid }
    }

    /// The path of the contender's node.
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
    /// [`Error::NodeDeleted`] once the contender's node is gone, after its own release as well. [`Error::SessionEnded`],
    /// [`Error::NotAuthorized`] or [`Error::Refused`].
    ///
    /// # Cancel safety
    /// Nothing is lost, the watch is taken back; call it again.
    pub async fn requested(&self) -> Result<(), Error> {
        let deleted = || Error::NodeDeleted { path: self.path.clone() };
        loop {
            match retry_lost_reply(|| self.session.wire().watch(&self.path)).await {
                Ok((_, stat, _)) if self.czxid.is_some_and(|czxid| czxid != stat.czxid) => return Err(deleted()),
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
