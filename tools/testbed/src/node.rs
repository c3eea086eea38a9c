//! A look at one node of ZooKeeper.

use zookeeper_client::{Client, Error as ClientError};

use crate::Error;

/// Returns the data of a node, or `None` if the servers have no such node. `connect_string` may end with a chroot. `user` is
/// `user:password`, if only that user may read the node.
///
/// # Errors
///
/// [`Error::NotAuthorized`] when only another user may read the node, [`Error::ZooKeeper`] when no server is reachable.
///
/// # Cancel safety
///
/// It only reads.
pub async fn node_data(connect_string: &str, path: &str, user: Option<&str>) -> Result<Option<Vec<u8>>, Error> {
    let connector = Client::connector().with_fail_eagerly();
    let connector = match user {
        Some(user) => connector.with_auth("digest", user.as_bytes()),
        None => connector,
    };
    let read = async { connector.connect(connect_string).await?.get_data(path).await };
    match read.await {
        Ok((data, _)) => Ok(Some(data)),
        Err(ClientError::NoNode) => Ok(None),
        Err(ClientError::NoAuth | ClientError::AuthFailed) => {
            Err(Error::NotAuthorized { path: path.to_owned(), servers: connect_string.to_owned() })
        }
        Err(source) => Err(Error::ZooKeeper { action: format!("read {path} at {connect_string}"), source }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::TestChroot;

    #[tokio::test]
    async fn a_node_is_read_or_missing_or_out_of_reach() {
        let chroot = TestChroot::create().await.unwrap();
        assert_eq!(node_data(chroot.connect_string(), "/", None).await.unwrap(), Some(Vec::new()));
        assert_eq!(node_data(chroot.connect_string(), "/nowhere", Some("a:b")).await.unwrap(), None);
        let error = node_data("127.0.0.1:1", "/nowhere", None).await.unwrap_err();
        assert_eq!(error.to_string(), "could not read /nowhere at 127.0.0.1:1");
    }
}
