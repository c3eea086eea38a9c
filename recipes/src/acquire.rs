//! The one acquire loop of every queue-shaped recipe: arm, create, list, decide, watch.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use futures_util::future::{join, try_join_all};
use tracing::warn;
use zookeeper_client::{CreateMode, Error as ClientError, Stat};

use crate::ahead::Ahead;
use crate::claim::{Claim, Created};
use crate::deadline::Deadline;
use crate::error::Error;
use crate::guard::Hold;
use crate::known::{Joined, Known};
use crate::mark::{Mark, Note};
use crate::node::{self, Mode, Names, Naming, Sequence};
use crate::options::validate_node_data;
use crate::queue::Queue;
use crate::released::{self, Noted};
use crate::remains::Remains;
use crate::session::Session;
use crate::token::FencingToken;
use crate::wire::{Fired, retry_lost_reply};

/// A place that a contender has taken in the queue.
#[derive(Clone, Debug)]
pub(crate) struct Place {
    /// The name of its node, without the parent.
    name: String,
    pub(crate) token: FencingToken,
    mode: Mode,
    sequence: Sequence,
    /// Which node of the path the number is of, for those of the session who come behind, once it is known.
    incarnation: Arc<OnceLock<i64>>,
}

/// What a contender saw when it looked at the queue last.
#[derive(Clone, Debug)]
pub(crate) struct Seen {
    /// Who bars its way; nobody when it holds.
    ahead: Ahead,
    /// The one directly ahead, if it is of our session and so known without a look.
    before: Option<Joined>,
    /// The session's count of losses before it looked, so that a loss in between is the hold's.
    losses: u64,
    /// The version of the data of the lock's node, if they are ours to overwrite.
    noted_version: Option<i32>,
}

/// The answer to the look that is sent right behind the creation of a node.
enum Look {
    Children(Vec<String>, Stat),
    Noted(Noted),
}

/// The queue of one lock: sequential nodes below one parent.
#[derive(Debug)]
pub(crate) struct LockQueue {
    session: Session,
    parent: String,
    names: Names,
    naming: Naming,
    node_data: Vec<u8>,
    known: Arc<Known>,
    foreign_reported: AtomicBool,
}

impl LockQueue {
    /// A queue of nodes that are named as Curator's.
    pub(crate) fn new(session: &Session, parent: &str, names: Names, node_data: Vec<u8>) -> Result<Self, Error> {
        Self::of(Naming::Protected, session, parent, names, node_data)
    }

    /// A queue in which the holder tells whoever comes next that it has released.
    pub(crate) fn with_handoff(
        session: &Session,
        parent: &str,
        names: Names,
        node_data: Vec<u8>,
    ) -> Result<Self, Error> {
        Self::of(Naming::Numbered, session, parent, names, node_data)
    }

    fn of(naming: Naming, session: &Session, parent: &str, names: Names, node_data: Vec<u8>) -> Result<Self, Error> {
        node::validate_path(parent)?;
        validate_node_data(&node_data)?;
        Ok(Self {
            session: session.clone(),
            parent: parent.to_owned(),
            names,
            naming,
            node_data,
            known: session.known(parent, names),
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

    pub(crate) fn naming(&self) -> Naming {
        self.naming
    }

    /// Queues up and waits for the grant. `None` when the deadline came first; the node is gone then.
    pub(crate) async fn acquire(&self, mode: Mode, deadline: Deadline) -> Result<Option<Hold>, Error> {
        let (mut claim, prefix) = self.claim(mode);
        let granted = deadline.bound(async {
            let (place, seen) = self.enqueue(&mut claim, &prefix).await?;
            let seen = self.wait_for_grant(&place, seen).await?;
            Ok((place, seen))
        });
        match granted.await {
            Some(Ok((place, seen))) => Ok(Some(self.hold(claim, &place, seen))),
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
            self.known.note_busy(false);
            let (place, mut seen) = self.enqueue(&mut claim, &prefix).await?;
            if self.naming == Naming::Numbered && !seen.ahead.is_nobody() {
                // The note leaves it open whether somebody is there.
                seen = self.list_ahead(&place, seen.noted_version).await?;
            }
            Ok(seen.ahead.is_nobody().then_some((seen, place)))
        };
        match Deadline::after(within).bound(attempt).await {
            Some(Ok(Some((seen, place)))) => Ok(Some(self.hold(claim, &place, seen))),
            Some(Ok(None)) => claim.withdraw().await.map(|()| None),
            Some(Err(error)) => Err(error),
            None => Err(Error::NoAnswer { within }),
        }
    }

    /// Takes a place in the queue without waiting for the grant.
    pub(crate) async fn take_place(&self, mode: Mode) -> Result<(Claim, Place), Error> {
        let (mut claim, prefix) = self.claim(mode);
        let place = self.place(&self.create(&mut claim, &prefix, CreateMode::EphemeralSequential).await?);
        Ok((claim, place))
    }

    /// Waits for the grant of a place that has been taken, however long ago. `None` when the deadline came first; the node
    /// is gone then.
    pub(crate) async fn granted(&self, claim: Claim, place: Place, deadline: Deadline) -> Result<Option<Hold>, Error> {
        let granted = async { self.wait_for_grant(&place, self.look(&place).await?).await };
        match deadline.bound(granted).await {
            Some(Ok(seen)) => Ok(Some(self.hold(claim, &place, seen))),
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
        let marker = self.names.marker(mode);
        let (mark, prefix) = match self.naming {
            Naming::Protected => {
                let prefix = node::protected_prefix(marker);
                (Mark::Name(prefix.clone()), prefix)
            }
            Naming::Numbered => {
                let mark = Mark::Data { mark: node::protected_prefix(""), known: Arc::clone(&self.known) };
                (mark, marker.to_owned())
            }
        };
        let remains = Remains::Unnamed { parent: self.parent.clone(), mark };
        (Claim::new(&self.session, remains), prefix)
    }

    /// What was granted.
    pub(crate) fn hold(&self, mut claim: Claim, place: &Place, seen: Seen) -> Hold {
        if let (Mode::Exclusive, Some(incarnation)) = (place.mode, place.incarnation.get()) {
            self.known.granted(*incarnation, place.sequence);
        }
        if let (Naming::Numbered, Some(version)) = (self.naming, seen.noted_version) {
            let (noted, data) = (self.parent.clone(), released::note(place.sequence));
            claim.will_note(Note { noted, data, version });
        }
        Hold::new(claim, place.token, seen.losses)
    }

    /// Creates our node, with the server's next number, and looks at what is ahead of it in the same flight.
    pub(crate) async fn enqueue(&self, claim: &mut Claim, prefix: &str) -> Result<(Place, Seen), Error> {
        let losses = self.session.liveness().losses();
        let create = self.create(claim, prefix, CreateMode::EphemeralSequential);
        if self.known.is_busy() {
            // What is seen now would only be the names of those ahead, or the note of a holder long before us. If nobody
            // is ahead after all, this costs a round trip.
            let place = self.place(&create.await?);
            let seen = match self.directly_ahead(&place) {
                Some((ahead, before)) => Seen { ahead, before, losses, noted_version: None },
                None => self.look(&place).await?,
            };
            return Ok((place, seen));
        }
        // Sent in this order, and answered in this order.
        let (created, look) = match self.naming {
            Naming::Protected => {
                let (created, look) = join(create, self.session.wire().children_and_stat(&self.parent)).await;
                (created?, look.map(|(children, stat)| Look::Children(children, stat)))
            }
            Naming::Numbered => {
                let (created, look) = join(create, self.session.wire().data(&self.parent)).await;
                (created?, look.map(|(data, stat)| Look::Noted(Noted::new(&data, &stat))))
            }
        };
        let place = self.place(&created);
        let seen = match look {
            Ok(Look::Children(children, stat)) if created.at_once => {
                self.see(&place, &children, &stat, None, losses)?
            }
            Ok(Look::Noted(noted)) if created.at_once => self.see_noted(&place, &noted, losses),
            // The node was created after the look, or the look went wrong.
            _ => self.look(&place).await?,
        };
        Ok((place, seen))
    }

    /// Looks at what is ahead for the first time.
    pub(crate) async fn look(&self, place: &Place) -> Result<Seen, Error> {
        let losses = self.session.liveness().losses();
        match self.naming {
            Naming::Protected => self.list_ahead(place, None).await,
            Naming::Numbered => Ok(self.see_noted(place, &self.read_note(place).await?, losses)),
        }
    }

    fn place(&self, created: &Created) -> Place {
        let name = node::name(&created.path).to_owned();
        let (mode, sequence) = self.contender(&name);
        Place { name, token: FencingToken::new(created.stat.czxid), mode, sequence, incarnation: Arc::default() }
    }

    /// Creates our node with the number of the node named `neighbour`, and returns its name.
    pub(crate) async fn create_beside(
        &self,
        claim: &mut Claim,
        prefix: &str,
        neighbour: &str,
    ) -> Result<String, Error> {
        let (_, sequence) = self.contender(neighbour);
        let created = self.create(claim, &format!("{prefix}{sequence}"), CreateMode::Ephemeral).await?;
        Ok(node::name(&created.path).to_owned())
    }

    async fn create(&self, claim: &mut Claim, name: &str, mode: CreateMode) -> Result<Created, Error> {
        let path = node::child(&self.parent, name);
        let data = match claim.mark() {
            Some(Mark::Data { mark, .. }) => [mark.as_bytes(), &self.node_data].concat(),
            _ => self.node_data.clone(),
        };
        claim.create(&path, &data, mode).await
    }

    /// What the name of a node of ours says.
    fn contender(&self, name: &str) -> (Mode, Sequence) {
        self.names.parse(name).expect("BUG: a node of ours is no contender")
    }

    /// Watches the nearest of those ahead until it has gone, and looks again, until nobody is ahead.
    pub(crate) async fn wait_for_grant(&self, place: &Place, mut seen: Seen) -> Result<Seen, Error> {
        while !seen.ahead.is_nobody() {
            let Some((predecessor, name)) = seen.ahead.predecessor() else {
                seen = self.list_ahead(place, seen.noted_version).await?;
                continue;
            };
            let name = name.to_owned();
            if self.watch(&name, &mut seen.before).await? == Fired::Deleted {
                seen.ahead.pop();
                seen = self.look_again(place, predecessor, seen).await?;
            }
        }
        Ok(seen)
    }

    /// Waits for a contender to go, or for something else to happen to it. Forgets what was known `before` of it without a
    /// look if its node turns out to be another.
    async fn watch(&self, name: &str, before: &mut Option<Joined>) -> Result<Fired, Error> {
        let path = node::child(&self.parent, name);
        match retry_lost_reply(|| self.session.wire().watch(&path)).await {
            Ok((_, stat, watch)) => {
                before.take_if(|before| before.czxid != stat.czxid);
                self.known.note_busy(true);
                Ok(watch.fired().await)
            }
            // It went before we looked.
            Err(ClientError::NoNode) => {
                *before = None;
                self.known.note_busy(false);
                Ok(Fired::Deleted)
            }
            Err(error) => Err(self.session.explain("watch", &path, error)),
        }
    }

    /// Looks at who is still ahead after the `predecessor` has gone: by what the last holder has left, by asking for the
    /// few that were seen before, or else by a listing.
    async fn look_again(&self, place: &Place, predecessor: Sequence, mut seen: Seen) -> Result<Seen, Error> {
        seen.losses = self.session.liveness().losses();
        if self.naming == Naming::Numbered {
            let noted = self.read_note(place).await?;
            seen.noted_version = noted.version_to_replace();
            place.incarnation.get_or_init(|| noted.incarnation);
            let is_admitted = noted.admits(predecessor, place.sequence, place.token.get());
            if is_admitted || noted.released.passes(predecessor, place.sequence) {
                // Others may have given up behind us. Then we have to ask for our own node, after the note.
                let is_there = is_admitted || self.are_present([place.name.as_str()].into_iter()).await? == [true];
                seen.ahead = Ahead::nobody();
                return if is_there { Ok(seen) } else { Err(self.node_deleted(place)) };
            }
        }
        if let Some(incarnation) = seen.before.take().and_then(|before| before.incarnation.get().copied()) {
            // Its node was there when ours was, too.
            place.incarnation.get_or_init(|| incarnation);
        }
        if let Some(floor) = place.incarnation.get().and_then(|incarnation| self.known.floor(*incarnation)) {
            seen.ahead.raise(floor);
        }
        // Whoever goes on in its own place was not seen before.
        if self.names.may_downgrade() || !seen.ahead.is_complete() || !seen.ahead.is_cheap_to_probe() {
            return self.list_ahead(place, seen.noted_version).await;
        }
        // Our own node last: if it is there when all ahead of it have gone, it holds.
        let present = self.are_present(seen.ahead.names().chain([place.name.as_str()])).await?;
        let Some((true, ahead)) = present.split_last() else {
            return Err(self.node_deleted(place));
        };
        seen.ahead.keep(ahead);
        Ok(seen)
    }

    /// Which of these nodes are there. Asked for in one flight, in this order; after a lost reply all of them again, as
    /// the order is what the answers are worth.
    async fn are_present(&self, names: impl Iterator<Item = &str>) -> Result<Vec<bool>, Error> {
        let paths: Vec<String> = names.map(|name| node::child(&self.parent, name)).collect();
        let stats = retry_lost_reply(|| try_join_all(paths.iter().map(|path| self.session.wire().stat(path)))).await;
        match stats {
            Ok(stats) => Ok(stats.iter().map(Option::is_some).collect()),
            Err(error) => Err(self.session.explain("read", &self.parent, error)),
        }
    }

    /// What the last holder has left.
    async fn read_note(&self, place: &Place) -> Result<Noted, Error> {
        match retry_lost_reply(|| self.session.wire().data(&self.parent)).await {
            Ok((data, stat)) => Ok(Noted::new(&data, &stat)),
            // It is there as long as our node is.
            Err(ClientError::NoNode) => Err(self.node_deleted(place)),
            Err(error) => Err(self.session.explain("read", &self.parent, error)),
        }
    }

    /// Who is ahead of us, by a listing.
    async fn list_ahead(&self, place: &Place, noted_version: Option<i32>) -> Result<Seen, Error> {
        let losses = self.session.liveness().losses();
        match retry_lost_reply(|| self.session.wire().children_and_stat(&self.parent)).await {
            Ok((children, stat)) => self.see(place, &children, &stat, noted_version, losses),
            Err(ClientError::NoNode) => Err(self.node_deleted(place)),
            Err(error) => Err(self.session.explain("list", &self.parent, error)),
        }
    }

    fn see(
        &self,
        place: &Place,
        children: &[String],
        stat: &Stat,
        noted_version: Option<i32>,
        losses: u64,
    ) -> Result<Seen, Error> {
        let queue = Queue::from_children(children, self.names);
        self.report_foreign(&queue);
        let ahead = queue.ahead_of(&place.name).ok_or_else(|| self.node_deleted(place))?;
        place.incarnation.get_or_init(|| stat.czxid);
        Ok(Seen { ahead, before: None, losses, noted_version })
    }

    fn see_noted(&self, place: &Place, noted: &Noted, losses: u64) -> Seen {
        let is_admitted = noted.admits(place.sequence.before(), place.sequence, place.token.get());
        let ahead = if is_admitted { Ahead::nobody() } else { self.number_before(place) };
        let noted_version = noted.version_to_replace();
        if noted_version.is_none() && !self.foreign_reported.swap(true, Ordering::Relaxed) {
            warn!(lock = self.parent, "the data of the lock's node are not ours: each hand-over needs a listing");
        }
        place.incarnation.get_or_init(|| noted.incarnation);
        Seen { ahead, before: None, losses, noted_version }
    }

    /// The one directly ahead, if its name is known without a look: by its number, or because it is of our session.
    fn directly_ahead(&self, place: &Place) -> Option<(Ahead, Option<Joined>)> {
        if self.naming == Naming::Numbered {
            return Some((self.number_before(place), None));
        }
        let Place { name, token, sequence, incarnation, .. } = place.clone();
        let last = self.known.join(Joined { sequence, name, czxid: token.get(), incarnation });
        // Whoever shares the lock waits for some of those ahead only.
        let before = last.filter(|last| last.sequence == sequence.before() && !self.names.may_downgrade())?;
        Some((Ahead::directly(before.sequence, before.name.clone()), Some(before)))
    }

    /// Whoever is ahead if it is one that leaves notes, too.
    fn number_before(&self, place: &Place) -> Ahead {
        let marker = self.names.marker(Mode::Exclusive);
        Ahead::number_before(place.sequence, |number| format!("{marker}{number}"))
    }

    fn node_deleted(&self, place: &Place) -> Error {
        Error::NodeDeleted { path: node::child(&self.parent, &place.name) }
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
