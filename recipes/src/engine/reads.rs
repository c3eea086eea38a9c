//! The reads of one path whose answers contenders of the session share.

use std::sync::Arc;

use tokio::runtime::Handle;
use zk_recipes_protocol::session_queue::Found;
use zookeeper_client::{Error as ClientError, Stat};

use super::finding::{self, Numbered};
use super::mark::Mark;
use super::shared_reads::SharedReads;
use crate::session::remote::Remote;
use crate::session::replies::retry_lost_reply;

/// The children of the lock's node, and its stat.
type Listing = (Vec<String>, Stat);

/// The reads of the contenders of one session at one path. All clones share them.
#[derive(Clone, Debug)]
pub(super) struct Reads {
    listings: Arc<SharedReads<Listing>>,
    names: Arc<SharedReads<Vec<String>>>,
    numbered: Arc<SharedReads<Numbered>>,
}

impl Reads {
    /// Returns the reads of a session that lives on this runtime.
    pub(super) fn new(runtime: &Handle) -> Self {
        Self {
            listings: Arc::new(SharedReads::new(runtime)),
            names: Arc::new(SharedReads::new(runtime)),
            numbered: Arc::new(SharedReads::new(runtime)),
        }
    }

    pub(super) async fn list(&self, remote: &Remote, parent: &str) -> Result<Arc<Listing>, ClientError> {
        let (of, at) = (remote.clone(), parent.to_owned());
        let list = async move { retry_lost_reply(|| of.wire().children_and_stat(&at)).await };
        self.listings.read(remote, list).await
    }

    /// Finds the node that a `create` with a lost reply may have made.
    pub(super) async fn find(&self, remote: &Remote, parent: &str, mark: &Mark) -> Result<Found, ClientError> {
        let (of, at) = (remote.clone(), parent.to_owned());
        if mark.is_in_data() {
            let numbered = self.numbered.read(remote, async move { finding::numbered(&of, &at).await }).await?;
            return Ok(numbered.find(mark));
        }
        let names = self.names.read(remote, async move { finding::sorted_names(&of, &at).await }).await?;
        finding::find_by_name(remote, parent, &names, mark).await
    }
}
