//! The one acquire loop of every queue-shaped recipe: arm, create, look, decide, watch.

mod wait;

use std::sync::atomic::AtomicBool;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use futures_util::future::{join, join3};
use zk_recipes_protocol::names::{Mode, Names, Naming, Sequence};
use zk_recipes_protocol::number_proof::FirstRequests;
use zk_recipes_protocol::predecessors::Predecessors;
use zk_recipes_protocol::queue::Queue;
use zk_recipes_protocol::release_note::{Note, ParentState};
use zk_recipes_protocol::stat::ParentCzxid;
use zookeeper_client::{CreateMode, Error as ClientError, Stat};

use crate::claim::{Claim, Created};
use crate::deadline::Deadline;
use crate::error::Error;
use crate::guard::Hold;
use crate::kept_watch::KeptWatch;
use crate::known::Known;
use crate::mark::Mark;
use crate::node;
use crate::options::validate_node_data;
use crate::pulse::Proof;
use crate::relay::{Baton, Member, Membership};
use crate::remains::Remains;
use crate::session::Session;
use crate::taken::TakenNodes;
use crate::token::FencingToken;
use crate::wire::{self, retry_lost_reply};

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
#[derive(Debug)]
pub(crate) struct Seen {
    /// Who bars its way; nobody when it holds.
    ahead: Predecessors,
    /// The one directly ahead, if it is of our session and so known without a look.
    before: Option<Arc<Member>>,
    /// What that one has passed on.
    baton: Option<Baton>,
    /// The version of the data of the lock's node, if they are ours to overwrite.
    noted_version: Option<i32>,
}

/// The answer to the look that is sent right behind the creation of a node.
enum Look {
    Children(Vec<String>, Stat),
    Noted(ParentState),
}

impl Seen {
    fn new(ahead: Predecessors, noted_version: Option<i32>) -> Self {
        Self { ahead, before: None, baton: None, noted_version }
    }
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
    taken: Arc<TakenNodes>,
    foreign_reported: AtomicBool,
    low_numbers_reported: AtomicBool,
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
            taken: session.taken(parent),
            foreign_reported: AtomicBool::new(false),
            low_numbers_reported: AtomicBool::new(false),
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
            self.known.arrivals.turn().await;
            let (place, seen) = self.enqueue(&mut claim, &prefix).await?;
            let (seen, proof) = self.wait_for_grant(&place, seen).await?;
            Ok((place, seen, proof))
        });
        match granted.await {
            Some(Ok((place, seen, proof))) => Ok(Some(self.hold(claim, &place, seen, proof))),
            Some(Err(error)) => Err(claim.failed(error)),
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
            if !seen.ahead.is_nobody() {
                return Ok(None);
            }
            let proof = self.prove().await?;
            Ok(Some((place, seen, proof)))
        };
        match Deadline::after(within).bound(attempt).await {
            Some(Ok(Some((place, seen, proof)))) => Ok(Some(self.hold(claim, &place, seen, proof))),
            Some(Ok(None)) => claim.withdraw().await.map(|()| None),
            Some(Err(error)) => Err(claim.failed(error)),
            None => Err(Error::NoAnswer { within }),
        }
    }

    /// Takes a place in the queue without waiting for the grant.
    pub(crate) async fn take_place(&self, mode: Mode) -> Result<(Claim, Place), Error> {
        let (mut claim, prefix) = self.claim(mode);
        let created = self.create(&mut claim, &prefix, CreateMode::EphemeralSequential).await?;
        let place = self.place(&mut claim, &created)?;
        Ok((claim, place))
    }

    /// Waits for the grant of a place that has been taken, however long ago. `None` when the deadline came first; the node
    /// is gone then.
    pub(crate) async fn granted(
        &self,
        mut claim: Claim,
        place: Place,
        deadline: Deadline,
    ) -> Result<Option<Hold>, Error> {
        let granted = async { self.wait_for_grant(&place, self.look(&place).await?).await };
        match deadline.bound(granted).await {
            Some(Ok((seen, proof))) => Ok(Some(self.hold(claim, &place, seen, proof))),
            Some(Err(error)) => Err(claim.failed(error)),
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
                let (mark, taken) = (node::protected_prefix(""), Arc::clone(&self.taken));
                (Mark::Data { marker, mark, taken }, marker.to_owned())
            }
        };
        let remains = Remains::Unnamed { parent: self.parent.clone(), mark };
        (Claim::new(&self.session, remains), prefix)
    }

    /// What was granted.
    pub(crate) fn hold(&self, mut claim: Claim, place: &Place, seen: Seen, proof: Proof) -> Hold {
        claim.note_granted();
        match (seen.baton, place.incarnation.get()) {
            // The one ahead has yet to go.
            (Some(baton), _) => claim.inherit(baton),
            (None, Some(incarnation)) if place.mode == Mode::Exclusive => {
                let parting = self.known.granted(*incarnation, place.sequence);
                if self.is_proved_by_numbers() {
                    claim.will_tell(parting);
                }
            }
            _ => {}
        }
        if let (Naming::Numbered, Some(version), Some(incarnation)) =
            (self.naming, seen.noted_version, place.incarnation.get().copied())
        {
            claim.will_note(Note { incarnation, released: place.sequence, version });
        }
        Hold::new(claim, place.token, proof)
    }

    /// Creates our node, with the server's next number, and looks at what is ahead of it in the same flight.
    pub(crate) async fn enqueue(&self, claim: &mut Claim, prefix: &str) -> Result<(Place, Seen), Error> {
        let create = self.create(claim, prefix, CreateMode::EphemeralSequential);
        if self.known.is_busy() {
            // What is seen now would only be the names of those ahead, or the note of a holder long before us. If nobody
            // is ahead after all, this costs a round trip.
            let created = create.await?;
            let place = self.place(claim, &created)?;
            let seen = match self.directly_ahead(&place) {
                Some(ahead) => Seen { before: self.before(&place), ..Seen::new(ahead, None) },
                None => {
                    let seen = self.look(&place).await?;
                    self.known.note_busy(!seen.ahead.is_nobody());
                    seen
                }
            };
            return Ok((place, seen));
        }
        let keeps_watch = match self.first_requests() {
            FirstRequests::Nothing(expected) => {
                let created = create.await?;
                let place = self.place(claim, &created)?;
                let seen = match self.known.proves(expected, place.sequence) {
                    Some(ParentCzxid(incarnation)) => {
                        place.incarnation.get_or_init(|| incarnation);
                        Seen::new(Predecessors::nobody(), None)
                    }
                    None => self.look(&place).await?,
                };
                return Ok((place, seen));
            }
            FirstRequests::LookAndWatch => true,
            FirstRequests::Look => false,
        };
        // Sent in this order, unless the connection comes back in between.
        let (created, look) = match self.naming {
            Naming::Protected => {
                let look = self.session.wire().children_and_stat(&self.parent);
                let (created, look, ()) = join3(create, look, self.keep_watch(keeps_watch)).await;
                (created?, look.map(|(children, stat)| Look::Children(children, stat)))
            }
            Naming::Numbered => {
                let (created, look) = join(create, self.session.wire().data(&self.parent)).await;
                (created?, look.map(|(data, stat)| Look::Noted(ParentState::new(&data, &wire::seen(&stat)))))
            }
        };
        let place = self.place(claim, &created)?;
        // A look counts only if it shows that our node had been created: a second `create` may have made it, and when the
        // connection comes back, the look may overtake the first one.
        let own = created.stat.czxid;
        let seen = match look {
            Ok(Look::Children(children, stat)) if stat.pzxid >= own => self.see(&place, &children, &stat, None)?,
            Ok(Look::Noted(noted)) if noted.is_since(own) => self.see_noted(&place, &noted),
            _ => self.look(&place).await?,
        };
        Ok((place, seen))
    }

    /// Whether the number of a contender of ours may prove that it holds: it wants the lock alone, nobody comes in ahead of
    /// others later, and no note disturbs the watch of the lock's node.
    fn is_proved_by_numbers(&self) -> bool {
        self.naming == Naming::Protected && !self.names.may_downgrade()
    }

    fn first_requests(&self) -> FirstRequests {
        if self.is_proved_by_numbers() { self.known.first_requests() } else { FirstRequests::Look }
    }

    /// Watches the lock's node from now on, if the opening says so: the session's next contenders then know that it is
    /// still the same node.
    async fn keep_watch(&self, is_wanted: bool) {
        if is_wanted && let Ok((_, stat, watch)) = self.session.wire().watch(&self.parent).await {
            self.known.keep(KeptWatch::new(stat.czxid, watch));
        }
    }

    /// Looks at what is ahead for the first time.
    pub(crate) async fn look(&self, place: &Place) -> Result<Seen, Error> {
        match self.naming {
            Naming::Protected => self.list_ahead(place, None).await,
            Naming::Numbered => Ok(self.see_noted(place, &self.read_note(place).await?)),
        }
    }

    /// The place of a node that was created. Others of the session know of it from now on.
    fn place(&self, claim: &mut Claim, created: &Created) -> Result<Place, Error> {
        let name = node::name(&created.path).to_owned();
        let (mode, sequence) = self.contender(&name);
        node::check_supply(&self.parent, sequence, &self.low_numbers_reported)?;
        let incarnation = Arc::default();
        // Whoever shares the lock waits for some of those ahead only.
        if !self.names.may_downgrade() {
            let member = Member::new(sequence, name.clone(), created.stat.czxid, Arc::clone(&incarnation));
            claim.join(Membership::new(&self.known, member));
        }
        Ok(Place { name, token: FencingToken::new(created.stat.czxid), mode, sequence, incarnation })
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

    pub(crate) async fn list(&self) -> Result<Vec<String>, Error> {
        list(&self.session, &self.parent).await
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
