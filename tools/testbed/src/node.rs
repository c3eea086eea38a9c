//! A look at one node of ZooKeeper.

use zookeeper_client::{Acls, Client, CreateMode, Error as ClientError};

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

/// Deletes all nodes below a node, as somebody may by hand, but not the child with the path `spared`. If there is no such node, nothing is
/// deleted.
///
/// # Errors
///
/// [`Error::ZooKeeper`] when no server is reachable, or one refuses.
///
/// # Cancel safety
///
/// Some of the nodes may be deleted.
pub async fn delete_below(connect_string: &str, path: &str, spared: &str) -> Result<(), Error> {
    let delete = async {
        let client = Client::connector().with_fail_eagerly().connect(connect_string).await?;
        for child in children_of(&client, path).await?.into_iter().filter(|child| child != spared) {
            delete_tree(&client, &child).await?;
        }
        Ok(())
    };
    delete.await.map_err(|source| Error::ZooKeeper {
        action: format!("delete the nodes below {path} at {connect_string}"),
        source,
    })
}

/// Returns the nodes below a node that belong to no session, each with its data, parents before their children. Nothing is returned of the
/// child with the path `spared`.
///
/// # Errors
///
/// [`Error::ZooKeeper`] when no server is reachable, or one refuses.
///
/// # Cancel safety
///
/// It only reads.
pub async fn lasting_below(connect_string: &str, path: &str, spared: &str) -> Result<Vec<(String, Vec<u8>)>, Error> {
    let read = async {
        let client = Client::connector().with_fail_eagerly().connect(connect_string).await?;
        let mut lasting = Vec::new();
        let mut pending: Vec<String> = children_of(&client, path).await?;
        pending.retain(|child| child != spared);
        while let Some(node) = pending.pop() {
            match client.get_data(&node).await {
                Ok((data, stat)) if is_lasting(stat.ephemeral_owner) => lasting.push((node.clone(), data)),
                Ok(_) | Err(ClientError::NoNode) => continue,
                Err(error) => return Err(error),
            }
            pending.extend(children_of(&client, &node).await?);
        }
        Ok(lasting)
    };
    read.await.map_err(|source| Error::ZooKeeper {
        action: format!("read the nodes below {path} at {connect_string}"),
        source,
    })
}

/// Makes nodes with these data, as somebody may who restores them. They are persistent. One that exists gets the data, and one whose parent is
/// missing is left out.
///
/// # Errors
///
/// [`Error::ZooKeeper`] when no server is reachable, or one refuses.
///
/// # Cancel safety
///
/// Some of the nodes may be missing.
pub async fn restore_nodes(connect_string: &str, nodes: &[(String, Vec<u8>)]) -> Result<(), Error> {
    let make = async {
        let client = Client::connector().with_fail_eagerly().connect(connect_string).await?;
        for (node, data) in nodes {
            make(&client, node, data).await?;
        }
        Ok(())
    };
    make.await.map_err(|source| Error::ZooKeeper { action: format!("restore nodes at {connect_string}"), source })
}

/// Tells whether a node belongs to no session: it has no owner, or it is a container.
fn is_lasting(ephemeral_owner: i64) -> bool {
    matches!(ephemeral_owner, 0 | i64::MIN)
}

/// Makes a persistent node, or writes its data if somebody was faster. Nothing is made without its parent.
async fn make(client: &Client, node: &str, data: &[u8]) -> Result<(), ClientError> {
    let options = CreateMode::Persistent.with_acls(Acls::anyone_all());
    let made = match client.create(node, data, &options).await {
        Err(ClientError::NodeExists) => client.set_data(node, data, None).await.map(drop),
        made => made.map(drop),
    };
    match made {
        Err(ClientError::NoNode) => Ok(()),
        made => made,
    }
}

/// Deletes `root` and all below it, also while sessions of the test still add to it or their ephemeral nodes vanish.
pub(crate) async fn delete_tree(client: &Client, root: &str) -> Result<(), ClientError> {
    let mut pending = vec![root.to_owned()];
    while let Some(path) = pending.last() {
        match client.delete(path, None).await {
            Ok(()) | Err(ClientError::NoNode) => {
                pending.pop();
            }
            Err(ClientError::NotEmpty) => {
                // The parent stays on the stack, and is tried again after its children.
                let children = children_of(client, path).await?;
                pending.extend(children);
            }
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

/// Returns the paths of the children of a node. One that is not there has none.
async fn children_of(client: &Client, path: &str) -> Result<Vec<String>, ClientError> {
    match client.list_children(path).await {
        Err(ClientError::NoNode) => Ok(Vec::new()),
        children => Ok(children?.into_iter().map(|child| format!("{path}/{child}")).collect()),
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

    #[tokio::test]
    async fn nodes_are_deleted_with_their_children_and_one_is_spared() {
        let chroot = TestChroot::create().await.unwrap();
        let client = Client::connect(chroot.connect_string()).await.unwrap();
        let options = CreateMode::Persistent.with_acls(Acls::anyone_all());
        for path in ["/a", "/a/kept", "/a/kept/too", "/a/b", "/a/b/c", "/a/b/c/d"] {
            client.create(path, &[], &options).await.unwrap();
        }
        delete_below(chroot.connect_string(), "/a", "/a/kept").await.unwrap();
        delete_below(chroot.connect_string(), "/nowhere", "/").await.unwrap();
        assert_eq!(client.list_children("/a").await.unwrap(), ["kept"]);
        assert_eq!(client.list_children("/a/kept").await.unwrap(), ["too"]);
    }

    #[tokio::test]
    async fn nodes_without_a_session_are_restored() {
        let chroot = TestChroot::create().await.unwrap();
        let client = Client::connect(chroot.connect_string()).await.unwrap();
        let make = async |path: &str, data: &[u8], mode: CreateMode| {
            client.create(path, data, &mode.with_acls(Acls::anyone_all())).await.unwrap()
        };
        make("/a", b"", CreateMode::Persistent).await;
        make("/a/kept", b"", CreateMode::Persistent).await;
        let (before, _) = make("/a/b", b"old", CreateMode::Container).await;
        make("/a/b/c", b"older", CreateMode::Persistent).await;
        make("/a/b/of-a-session", b"", CreateMode::Ephemeral).await;
        let lasting = lasting_below(chroot.connect_string(), "/a", "/a/kept").await.unwrap();
        delete_below(chroot.connect_string(), "/a", "/a/kept").await.unwrap();
        restore_nodes(chroot.connect_string(), &lasting).await.unwrap();
        assert_eq!(client.list_children("/a/b").await.unwrap(), ["c"]);
        assert_eq!(client.get_data("/a/b/c").await.unwrap().0, b"older");
        let (data, stat) = client.get_data("/a/b").await.unwrap();
        assert!(data == b"old" && stat.czxid > before.czxid && stat.ephemeral_owner == 0, "{stat:?}");
    }
}
