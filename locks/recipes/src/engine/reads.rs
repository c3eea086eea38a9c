//! The reads of one path whose answers contenders of the session share.

use std::collections::BTreeMap;
use std::sync::Arc;

use parking_lot::Mutex;
use tokio::runtime::Handle;
use zk_recipes_protocol::names::Names;
use zk_recipes_protocol::queue::Queue;
use zk_recipes_protocol::session_queue::Found;
use zk_recipes_protocol::stat::Stat;
use zookeeper_client::Error as ClientError;

use super::finding::{self, Numbered};
use super::mark::Mark;
use super::shared_reads::SharedReads;
use crate::session::remote::Remote;
use crate::session::replies::retry_lost_reply;
use crate::session::wire;

/// A listing of the lock's node. The contenders that share it read it once, because each of them would parse all names.
#[derive(Debug)]
pub(super) struct Listing {
    pub(super) queue: Queue<String>,
    /// The stat of the lock's node.
    pub(super) parent: Stat,
}

/// The reads of the contenders of one session at one path. All clones share them.
#[derive(Clone, Debug)]
pub(super) struct Reads {
    runtime: Handle,
    /// By the names that say which children are contenders.
    listings: Arc<Mutex<BTreeMap<Names, Arc<SharedReads<Listing>>>>>,
    names: Arc<SharedReads<Vec<String>>>,
    numbered: Arc<SharedReads<Numbered>>,
}

impl Reads {
    /// Returns the reads of a session that lives on this runtime.
    pub(super) fn new(runtime: &Handle) -> Self {
        Self {
            runtime: runtime.clone(),
            listings: Arc::default(),
            names: Arc::new(SharedReads::new(runtime)),
            numbered: Arc::new(SharedReads::new(runtime)),
        }
    }

    pub(super) async fn list(&self, remote: &Remote, parent: &str, names: Names) -> Result<Arc<Listing>, ClientError> {
        let of = remote.clone();
        let at = parent.to_owned();
        let list = async move {
            let (children, stat) = retry_lost_reply(|| of.wire().children_and_stat(&at)).await?;
            Ok(Listing { queue: Queue::from_children(children, names), parent: wire::seen(&stat) })
        };
        self.listings_under(names).read(remote, list).await
    }

    fn listings_under(&self, names: Names) -> Arc<SharedReads<Listing>> {
        let mut listings = self.listings.lock();
        Arc::clone(listings.entry(names).or_insert_with(|| Arc::new(SharedReads::new(&self.runtime))))
    }

    /// Finds the node that a `create` with a lost reply may have made.
    pub(super) async fn find(&self, remote: &Remote, parent: &str, mark: &Mark) -> Result<Found, ClientError> {
        let of = remote.clone();
        let at = parent.to_owned();
        if mark.is_in_data() {
            let numbered = self.numbered.read(remote, async move { finding::numbered(&of, &at).await }).await?;
            return Ok(numbered.find(mark));
        }
        let names = self.names.read(remote, async move { finding::sorted_names(&of, &at).await }).await?;
        finding::find_by_name(remote, parent, &names, mark).await
    }
}
