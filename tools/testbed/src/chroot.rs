//! A ZooKeeper namespace for one test.

use std::env;
use std::io;

use program::FromSystem as _;
use tokio::sync::OnceCell;
use uuid::Uuid;
use zookeeper_client::{Acls, Client, CreateMode, Error as ClientError};

use crate::lasting::clean_up;
use crate::node::delete_tree;
use crate::{Error, ZooKeeper, ZooKeeperConfig};

/// One throwaway server per process. Statics are never dropped: its guard sees the end of the process.
static SHARED: OnceCell<ZooKeeper> = OnceCell::const_new();

/// An empty namespace of its own, named `/seckill-test-` and a random number.
///
/// It is made on the server of the environment variable `ZOOKEEPER_CONNECT`, which may have a chroot itself. Without
/// the variable, it is made on a throwaway server that the whole process shares. Dropping the value deletes the tree
/// from a lasting server, which blocks. A throwaway server is deleted as a whole.
///
/// # Examples
///
/// ```no_run
/// # async fn example() -> Result<(), Box<dyn std::error::Error>> {
/// let chroot = testbed::TestChroot::create().await?;
/// let client = zookeeper_client::Client::connect(chroot.connect_string()).await?;
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct TestChroot {
    path: String,
    connect_string: String,
    /// The server to delete the tree from, when it outlives this process.
    lasting_server: Option<String>,
}

impl TestChroot {
    /// Creates a namespace.
    ///
    /// # Errors
    ///
    /// Those of [`ZooKeeper::start`] without `ZOOKEEPER_CONNECT`; [`Error::System`] when no host name of it resolves;
    /// [`Error::ZooKeeper`] when its server is not reachable or refuses, a chroot of its own that does not exist included.
    ///
    /// # Cancel safety
    ///
    /// On a lasting server an empty node may be left.
    pub async fn create() -> Result<Self, Error> {
        match env::var("ZOOKEEPER_CONNECT").ok().filter(|connect_string| !connect_string.is_empty()) {
            Some(connect_string) => Self::made_on(connect_string.trim_end_matches('/'), true).await,
            None => Self::create_on(shared().await?).await,
        }
    }

    /// Creates a namespace on a throwaway server, which ends with the server.
    ///
    /// # Errors
    ///
    /// [`Error::System`] or [`Error::ZooKeeper`] when the server is not reachable or refuses.
    ///
    /// # Cancel safety
    ///
    /// An empty node may be left.
    pub async fn create_on(server: &ZooKeeper) -> Result<Self, Error> {
        Self::made_on(&server.connect_string(), false).await
    }

    async fn made_on(server: &str, is_lasting: bool) -> Result<Self, Error> {
        let path = format!("/seckill-test-{}", Uuid::new_v4().simple());
        let whose = if is_lasting { ", the server of ZOOKEEPER_CONNECT" } else { "" };
        let resolved = resolve(server).await;
        resolved.map_err(Error::system(format!("resolve the host names of {server}{whose}")))?;
        create_node(server, &path)
            .await
            .map_err(|source| Error::ZooKeeper { action: format!("create {path} at {server}{whose}"), source })?;
        let connect_string = format!("{server}{path}");
        Ok(Self { path, connect_string, lasting_server: is_lasting.then(|| server.to_owned()) })
    }

    /// Returns the connect string of the namespace: `host:port/chroot`.
    #[must_use]
    pub fn connect_string(&self) -> &str {
        &self.connect_string
    }
}

impl Drop for TestChroot {
    fn drop(&mut self) {
        let Some(server) = self.lasting_server.take() else { return };
        let path = &self.path;
        clean_up(&format!("{path} on {server}"), async { delete_tree(&connect(&server).await?, path).await });
    }
}

async fn shared() -> Result<&'static ZooKeeper, Error> {
    SHARED.get_or_try_init(|| ZooKeeper::start(ZooKeeperConfig::default())).await
}

async fn connect(server: &str) -> Result<Client, ClientError> {
    Client::connector().with_fail_eagerly().connect(server).await
}

/// Checks that a host of a connect string has an address. The client library does not say which one has none.
async fn resolve(server: &str) -> io::Result<()> {
    let hosts = server.split('/').next().unwrap_or_default();
    let mut resolved = Ok(());
    for host in hosts.split(',') {
        let has_port = host.rsplit_once(':').is_some_and(|(_, port)| port.parse::<u16>().is_ok());
        let address = if has_port { host.to_owned() } else { format!("{host}:2181") };
        resolved = tokio::net::lookup_host(address).await.map(drop);
        if resolved.is_ok() {
            break;
        }
    }
    resolved
}

async fn create_node(server: &str, path: &str) -> Result<(), ClientError> {
    let options = CreateMode::Persistent.with_acls(Acls::anyone_all());
    connect(server).await?.create(path, &[], &options).await.map(|_| ())
}
