//! The one acquire loop of every queue-shaped recipe: arm, create, list, decide, watch.

use std::collections::HashSet;
use std::future::Future;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use tokio::time::Instant;
use tracing::warn;
use zookeeper_client::{CreateMode, Error as ClientError, Stat};

use crate::backoff::Backoff;
use crate::claim::{self, Claim, Remains};
use crate::error::Error;
use crate::guard::Hold;
use crate::node::{self, Mode, Names};
use crate::queue::{Queue, Verdict};
use crate::revoke;
use crate::session::Session;
use crate::token::FencingToken;
use crate::wire::retry_lost_reply;

/// One point in time that bounds everything an acquire does.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Deadline(Option<Instant>);

impl Deadline {
    pub(crate) fn never() -> Self {
        Self(None)
    }

    pub(crate) fn after(wait: Duration) -> Self {
        // A wait beyond what the clock can express is for ever.
        Self(Instant::now().checked_add(wait))
    }

    /// The output of `work`, or `None` when the deadline came first.
    pub(crate) async fn bound<F: Future>(self, work: F) -> Option<F::Output> {
        match self.0 {
            Some(instant) => tokio::time::timeout_at(instant, work).await.ok(),
            None => Some(work.await),
        }
    }
}

/// What a lock's contenders may be given beside the path. The default is what Curator's clients expect.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LockOptions {
    /// The data of our nodes, for whoever looks at the queue; see [`participants`](crate::participants). At most
    /// [`NODE_DATA_MAX`](Self::NODE_DATA_MAX) bytes, and not `__REVOKE__`, by which Curator's clients ask for a lock
    /// back.
    pub node_data: Vec<u8>,
    /// Whether the locks of kazoo, the Python client, are contenders, too. Its clients must then be told to wait for our
    /// nodes, by `extra_lock_patterns` or a subclass, and Curator's clients must stay away from the path.
    pub kazoo: bool,
}

impl LockOptions {
    /// How many bytes of data a lock's node may have. A server closes the connection of whoever sends it more than its
    /// `jute.maxbuffer` in one request, 1 MiB by default, without saying why; this leaves room for path and ACL. Keep it
    /// far smaller where many look at the queue.
    pub const NODE_DATA_MAX: usize = 1_000_000;
}

/// Checks the data that the nodes of a lock are to have.
pub(crate) fn validate_node_data(node_data: &[u8]) -> Result<(), Error> {
    let (length, limit) = (node_data.len(), LockOptions::NODE_DATA_MAX);
    if length > limit {
        Err(Error::NodeDataTooLong { length, limit })
    } else if node_data == revoke::REQUEST {
        Err(Error::NodeDataReserved)
    } else {
        Ok(())
    }
}

/// A place that a contender has taken in the queue.
#[derive(Clone, Debug)]
pub(crate) struct Place {
    /// The name of its node, without the parent.
    pub(crate) name: String,
    pub(crate) token: FencingToken,
}

/// The queue of one lock: sequential nodes below one parent.
#[derive(Debug)]
pub(crate) struct LockQueue {
    session: Session,
    parent: String,
    names: Names,
    node_data: Vec<u8>,
    foreign_reported: AtomicBool,
}

impl LockQueue {
    pub(crate) fn new(session: &Session, parent: &str, names: Names, node_data: Vec<u8>) -> Result<Self, Error> {
        node::validate_path(parent)?;
        validate_node_data(&node_data)?;
        Ok(Self {
            session: session.clone(),
            parent: parent.to_owned(),
            names,
            node_data,
            foreign_reported: AtomicBool::new(false),
        })
    }

    pub(crate) fn session(&self) -> &Session {
        &self.session
    }

    pub(crate) fn parent(&self) -> &str {
        &self.parent
    }

    pub(crate) fn names(&self) -> Names {
        self.names
    }

    /// Queues up and waits for the grant. `None` when the deadline came first; the node is gone then.
    pub(crate) async fn acquire(&self, mode: Mode, deadline: Deadline) -> Result<Option<Hold>, Error> {
        let (mut claim, prefix) = self.claim(mode);
        let granted = deadline.bound(async {
            let place = self.enqueue(&mut claim, &prefix).await?;
            let losses = self.wait_for_grant(&place).await?;
            Ok((place.token, losses))
        });
        match granted.await {
            Some(Ok((token, losses))) => Ok(Some(Hold::new(claim, token, losses))),
            Some(Err(error)) => Err(error),
            None => claim.withdraw().await.map(|()| None),
        }
    }

    /// Takes the lock if nobody is in the way. Reads first: a lock that is taken costs one read and no write.
    pub(crate) async fn try_acquire(&self, mode: Mode) -> Result<Option<Hold>, Error> {
        let within = self.answer_within();
        let (mut claim, prefix) = self.claim(mode);
        let attempt = async {
            if !Queue::from_children(&self.list().await?, self.names).admits(mode) {
                return Ok(None);
            }
            let place = self.enqueue(&mut claim, &prefix).await?;
            let losses = self.session.liveness().losses();
            let children = self.list().await?;
            Ok(self.verdict(&children, &place)?.is_none().then_some((place.token, losses)))
        };
        match Deadline::after(within).bound(attempt).await {
            Some(Ok(Some((token, losses)))) => Ok(Some(Hold::new(claim, token, losses))),
            Some(Ok(None)) => claim.withdraw().await.map(|()| None),
            Some(Err(error)) => Err(error),
            None => Err(Error::NoAnswer { within }),
        }
    }

    /// Takes a place in the queue without waiting for the grant.
    pub(crate) async fn take_place(&self, mode: Mode) -> Result<(Claim, Place), Error> {
        let (mut claim, prefix) = self.claim(mode);
        let place = self.enqueue(&mut claim, &prefix).await?;
        Ok((claim, place))
    }

    /// Waits for the grant of a place that has been taken. `None` when the deadline came first; the node is gone then.
    pub(crate) async fn granted(&self, claim: Claim, place: Place, deadline: Deadline) -> Result<Option<Hold>, Error> {
        match deadline.bound(self.wait_for_grant(&place)).await {
            Some(Ok(losses)) => Ok(Some(Hold::new(claim, place.token, losses))),
            Some(Err(error)) => Err(error),
            None => claim.withdraw().await.map(|()| None),
        }
    }

    /// For how long a `try` waits for answers: not longer than a hold would survive without one.
    pub(crate) fn answer_within(&self) -> Duration {
        self.session.timeout() / 2
    }

    /// A claim on a node that is about to be created, and the prefix of its name.
    pub(crate) fn claim(&self, mode: Mode) -> (Claim, String) {
        let prefix = node::protected_prefix(self.names.marker(mode));
        let remains = Remains::Unnamed { parent: self.parent.clone(), prefix: prefix.clone() };
        (Claim::new(&self.session, remains), prefix)
    }

    /// Creates our node, with the server's next number.
    async fn enqueue(&self, claim: &mut Claim, prefix: &str) -> Result<Place, Error> {
        self.create(claim, prefix, prefix, CreateMode::EphemeralSequential).await
    }

    /// Creates our node with the number of the node named `neighbour`.
    pub(crate) async fn create_beside(&self, claim: &mut Claim, prefix: &str, neighbour: &str) -> Result<Place, Error> {
        let (_, sequence) = self.names.parse(neighbour).expect("BUG: the node of a hold is no contender");
        self.create(claim, &format!("{prefix}{sequence}"), prefix, CreateMode::Ephemeral).await
    }

    async fn create(&self, claim: &mut Claim, name: &str, prefix: &str, mode: CreateMode) -> Result<Place, Error> {
        let path = node::child(&self.parent, name);
        let (path, stat) = create_protected(&self.session, claim, &path, prefix, mode, &self.node_data).await?;
        Ok(Place { name: node::name(&path).to_owned(), token: FencingToken::new(stat.czxid) })
    }

    /// Lists, decides and watches until the verdict is a grant. Returns the count of losses from before the listing
    /// that granted, so that a loss in between is the hold's.
    async fn wait_for_grant(&self, place: &Place) -> Result<u64, Error> {
        loop {
            let losses = self.session.liveness().losses();
            let children = self.list().await?;
            let Some(predecessor) = self.verdict(&children, place)? else {
                return Ok(losses);
            };
            let predecessor = node::child(&self.parent, predecessor);
            match retry_lost_reply(|| self.session.wire().watch(&predecessor)).await {
                Ok((.., watch)) => watch.fired().await,
                // It went between the listing and now.
                Err(ClientError::NoNode) => {}
                Err(error) => return Err(self.session.explain("watch", &predecessor, error)),
            }
        }
    }

    /// The predecessor to wait for, or `None` when we hold.
    fn verdict<'a>(&self, children: &'a [String], place: &Place) -> Result<Option<&'a str>, Error> {
        let queue = Queue::from_children(children, self.names);
        self.report_foreign(&queue);
        match queue.verdict(&place.name) {
            Verdict::Granted => Ok(None),
            Verdict::Behind { predecessor } => Ok(Some(predecessor)),
            Verdict::Missing => Err(Error::NodeDeleted { path: node::child(&self.parent, &place.name) }),
        }
    }

    pub(crate) async fn list(&self) -> Result<Vec<String>, Error> {
        list(&self.session, &self.parent).await
    }

    fn report_foreign(&self, queue: &Queue<'_>) {
        if let Some(child) = queue.foreign()
            && !self.foreign_reported.swap(true, Ordering::Relaxed)
        {
            warn!(
                lock = self.parent,
                child, "ignoring a child that is no contender; Apache Curator clients would queue behind it"
            );
        }
    }
}

/// The children of a node; none of a node that is missing.
pub(crate) async fn list(session: &Session, parent: &str) -> Result<Vec<String>, Error> {
    match retry_lost_reply(|| session.wire().children(parent)).await {
        Ok(children) => Ok(children),
        Err(ClientError::NoNode) => Ok(Vec::new()),
        Err(error) => Err(session.explain("list", parent, error)),
    }
}

/// Creates the node at `path`, whose name begins with `prefix`, and the parent where it is missing, whatever replies
/// are lost on the way. Returns the path with the number that the server appended, and the stat.
pub(crate) async fn create_protected(
    session: &Session,
    claim: &mut Claim,
    path: &str,
    prefix: &str,
    mode: CreateMode,
    data: &[u8],
) -> Result<(String, Stat), Error> {
    let (wire, parent) = (session.wire(), node::parent(path).unwrap_or("/"));
    claim.arm();
    let mut is_reply_lost = false;
    let mut backoff = Backoff::after_lost_reply();
    let (path, stat) = loop {
        let (error, refused) = match wire.create(path, data, mode).await {
            Ok(created) => break created,
            Err(ClientError::NoNode) => match wire.create_parents(parent).await {
                Ok(()) => continue,
                Err(error) => (session.explain("create", parent, error), true),
            },
            Err(ClientError::ConnectionLoss) => {
                is_reply_lost = true;
                backoff.pause().await;
                let found = claim::find_unnamed(wire, session.id(), parent, prefix, &HashSet::new()).await;
                match found.map(|found| found.into_iter().next()) {
                    Ok(Some(ours)) => break ours,
                    Ok(None) => continue,
                    Err(error) => (session.explain("list", parent, error), false),
                }
            }
            Err(error) => {
                let refused = claim::is_refusal(&error);
                (session.explain("create", path, error), refused)
            }
        };
        if refused && !is_reply_lost {
            claim.disarm();
        }
        return Err(error);
    };
    claim.name(path.clone());
    if !claim::is_ours(&stat, session.id()) {
        // The server answers for the node that it has just made, so this would be a proxy's or a server's fault; a
        // grant from such a node could be taken from us at any time.
        return Err(Error::NodeDeleted { path });
    }
    Ok((path, stat))
}
