//! The identity of an ensemble: a random name that the servers keep.

use std::fmt;

use uuid::Uuid;
use zookeeper_client::Error as ClientError;

use crate::error::Error;
use crate::node;
use crate::session::Session;
use crate::session::replies::retry_lost_reply;

/// Upper bound of the bytes of an identity.
const BYTES_MAX: usize = 64;

/// The identity of an ensemble and a chroot: the data of one persistent node.
///
/// Fencing tokens are numbers of transactions. Two ensembles count their transactions independently, so their tokens must not be
/// compared, and their locks do not exclude each other. A store that checks tokens can keep the identity of the ensemble that
/// they come from, and refuse clients of any other.
///
/// A server that is restored from a snapshot has the identity of the server that wrote the snapshot.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct EnsembleId(String);

impl EnsembleId {
    /// Returns the identity as text: 1 to 64 visible ASCII characters.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }

    fn of(data: &[u8], path: &str) -> Result<Self, Error> {
        let is_id = (1..=BYTES_MAX).contains(&data.len()) && data.iter().all(u8::is_ascii_graphic);
        if !is_id {
            return Err(Error::NotAnEnsembleId { path: path.to_owned(), length: data.len() });
        }
        Ok(Self(data.iter().copied().map(char::from).collect()))
    }
}

impl fmt::Display for EnsembleId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl Session {
    /// Returns the identity that is kept in the node at `path`. If the node is missing, creates it with a random identity, and its
    /// missing parents as [`SessionConfig::parents`](crate::SessionConfig::parents) says.
    ///
    /// ```no_run
    /// # async fn example(session: zk_recipes::Session) -> Result<(), zk_recipes::Error> {
    /// println!("tokens of ensemble {}", session.ensemble_id("/shop/ensemble").await?);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// [`Error::InvalidPath`], [`Error::SessionEnded`], [`Error::NotAuthorized`] or [`Error::Refused`].
    /// [`Error::NotAnEnsembleId`] if the data of the node is something else.
    ///
    /// # Cancel safety
    /// It only reads, unless the node is missing: then it may have been created.
    pub async fn ensemble_id(&self, path: &str) -> Result<EnsembleId, Error> {
        node::validate_path(path)?;
        let drawn = Uuid::new_v4().to_string();
        loop {
            match retry_lost_reply(|| self.wire().data(path)).await {
                Ok((data, _)) => return EnsembleId::of(&data, path),
                Err(ClientError::NoNode) => {
                    // Another client may have created the node first, with another identity. So the node is read again.
                    self.remote().create_persistent(path, drawn.as_bytes()).await?;
                }
                Err(error) => return Err(self.remote().explain("read", path, error)),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn data_of_another_kind_is_no_identity() {
        let of = |data: &[u8]| EnsembleId::of(data, "/ensemble").map(|id| id.to_string()).ok();
        assert_eq!(of(b"5c0e-1").as_deref(), Some("5c0e-1"));
        assert_eq!(of(&[b'x'; BYTES_MAX]).map(|id| id.len()), Some(BYTES_MAX));
        for data in [&b""[..], b"two words", b"line\n", &[0, 0, 0, 3], &[b'x'; BYTES_MAX + 1]] {
            assert_eq!(of(data), None, "{data:?}");
        }
    }
}
