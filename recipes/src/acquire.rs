//! The one acquire loop of every queue-shaped recipe: arm, create, list, decide, watch.

use std::future::Future;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use tokio::time::Instant;
use tracing::warn;
use zookeeper_client::{CreateMode, Error as ClientError, Stat};

use crate::claim::{self, Claim, Remains};
use crate::error::Error;
use crate::guard::LockGuard;
use crate::node;
use crate::queue::{Queue, Verdict};
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

/// A place that a contender has taken in the queue.
#[derive(Debug)]
struct Place {
    /// The name of its node, without the parent.
    name: String,
    token: FencingToken,
}

/// The queue of one lock: sequential nodes below one parent.
#[derive(Debug)]
pub(crate) struct LockQueue {
    session: Session,
    parent: String,
    lock_name: &'static str,
    foreign_reported: AtomicBool,
}

impl LockQueue {
    pub(crate) fn new(session: &Session, parent: &str, lock_name: &'static str) -> Result<Self, Error> {
        node::validate(parent)?;
        Ok(Self {
            session: session.clone(),
            parent: parent.to_owned(),
            lock_name,
            foreign_reported: AtomicBool::new(false),
        })
    }

    /// Queues up and waits for the grant. `None` when the deadline came first; the node is gone then.
    pub(crate) async fn acquire(&self, deadline: Deadline) -> Result<Option<LockGuard>, Error> {
        let (mut claim, prefix) = self.claim();
        let granted = deadline.bound(async {
            let place = self.enqueue(&mut claim, &prefix).await?;
            let losses = self.wait_for_grant(&place).await?;
            Ok::<_, Error>((place.token, losses))
        });
        match granted.await {
            Some(Ok((token, losses))) => Ok(Some(LockGuard::new(claim, token, losses))),
            Some(Err(error)) => Err(error),
            None => claim.withdraw().await.map(|()| None),
        }
    }

    /// Takes the lock if nobody is ahead. Reads first: a lock that is taken costs one read and no write.
    pub(crate) async fn try_acquire(&self) -> Result<Option<LockGuard>, Error> {
        // Not longer than a hold would survive without an answer.
        let within = self.session.timeout() / 2;
        let (mut claim, prefix) = self.claim();
        let attempt = async {
            if !Queue::from_children(&self.list().await?, self.lock_name).is_empty() {
                return Ok(None);
            }
            let place = self.enqueue(&mut claim, &prefix).await?;
            let losses = self.session.liveness().losses();
            let children = self.list().await?;
            match self.verdict(&children, &place)? {
                None => Ok(Some((place.token, losses))),
                Some(_) => Ok(None),
            }
        };
        match Deadline::after(within).bound(attempt).await {
            Some(Ok(Some((token, losses)))) => Ok(Some(LockGuard::new(claim, token, losses))),
            Some(Ok(None)) => claim.withdraw().await.map(|()| None),
            Some(Err(error)) => Err(error),
            None => Err(Error::NoAnswer { within }),
        }
    }

    fn claim(&self) -> (Claim, String) {
        let prefix = node::protected_prefix(self.lock_name);
        let remains = Remains::Unnamed { parent: self.parent.clone(), prefix: prefix.clone() };
        (Claim::new(&self.session, remains), prefix)
    }

    /// Creates our node, and the parent where it is missing, whatever replies are lost on the way.
    async fn enqueue(&self, claim: &mut Claim, prefix: &str) -> Result<Place, Error> {
        let wire = self.session.wire();
        let path = node::child(&self.parent, prefix);
        claim.arm();
        let (path, stat) = loop {
            match wire.create(&path, &[], CreateMode::EphemeralSequential).await {
                Ok(created) => break created,
                Err(ClientError::NoNode) => wire
                    .create_containers(&self.parent)
                    .await
                    .map_err(|error| self.session.explain("create", &self.parent, error))?,
                Err(ClientError::ConnectionLoss) => {
                    let found = claim::find_unnamed(wire, self.session.id(), &self.parent, prefix).await;
                    if let Some(ours) = found.map_err(|error| self.session.explain("list", &self.parent, error))? {
                        break ours;
                    }
                }
                Err(error) => return Err(self.session.explain("create", &path, error)),
            }
        };
        claim.name(path.clone());
        self.place(path, &stat)
    }

    fn place(&self, path: String, stat: &Stat) -> Result<Place, Error> {
        if !claim::is_ours(stat, self.session.id()) {
            // The server answers for the node that it has just made, so this would be a proxy's or a server's fault;
            // a grant from such a node could be taken from us at any time.
            return Err(Error::NodeDeleted { path });
        }
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
        let queue = Queue::from_children(children, self.lock_name);
        self.report_foreign(&queue);
        match queue.verdict(&place.name) {
            Verdict::Granted => Ok(None),
            Verdict::Behind { predecessor } => Ok(Some(predecessor)),
            Verdict::Missing => Err(Error::NodeDeleted { path: node::child(&self.parent, &place.name) }),
        }
    }

    async fn list(&self) -> Result<Vec<String>, Error> {
        match retry_lost_reply(|| self.session.wire().children(&self.parent)).await {
            Ok(children) => Ok(children),
            Err(ClientError::NoNode) => Ok(Vec::new()),
            Err(error) => Err(self.session.explain("list", &self.parent, error)),
        }
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
