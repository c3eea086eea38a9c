//! One attempt to take permits of a semaphore: create, list, decide, watch, and give the turn to the next.

use std::collections::HashSet;
use std::mem;
use std::sync::atomic::Ordering;

use futures_util::future::join_all;
use tracing::warn;
use zk_recipes_protocol::leases::Verdict;
use zk_recipes_protocol::names::{Mode, Names};
use zookeeper_client::{CreateMode, Error as ClientError, Stat};

use super::leases::Leases;
use super::{Listing, Semaphore};
use crate::deadline::Deadline;
use crate::engine::{Contender, find_unnamed, is_ours};
use crate::error::Error;
use crate::hold::guard::{Hold, LockGuard};
use crate::hold::node_claim::{NodeClaim, OwnNode};
use crate::hold::token::FencingToken;
use crate::node;
use crate::session::Session;
use crate::session::backoff::Backoff;
use crate::session::liveness_cell::Proof;
use crate::session::wire::{REQUESTS_MAX, is_refusal};

/// What an acquire has on the server so far. Dropped, it goes to the reaper as a whole.
pub(super) struct Attempt<'a> {
    semaphore: &'a Semaphore,
    /// What the names of all our leases begin with.
    prefix: String,
    leases: Vec<Lease>,
    /// Whether there may be leases of ours whose names we do not know.
    unnamed: bool,
    turn: Option<Contender>,
}

struct Lease {
    path: String,
    token: FencingToken,
}

/// What became of several `create`s that were sent together.
#[derive(Debug, Default, PartialEq, Eq)]
struct Flight {
    is_reply_lost: bool,
    is_parent_missing: bool,
    /// The first that failed for another reason.
    failure: Option<ClientError>,
    /// Whether it is known of each what became of it.
    is_certain: bool,
}

impl Flight {
    /// Sorts the answers; those that have made a node are given to `created`.
    fn land<T>(answers: impl IntoIterator<Item = Result<T, ClientError>>, mut created: impl FnMut(T)) -> Self {
        let mut flight = Self { is_certain: true, ..Self::default() };
        for answer in answers {
            match answer {
                Ok(node) => created(node),
                Err(ClientError::NoNode) => flight.is_parent_missing = true,
                Err(error) => {
                    flight.is_certain &= is_refusal(&error);
                    if error == ClientError::ConnectionLoss {
                        flight.is_reply_lost = true;
                    } else {
                        flight.failure.get_or_insert(error);
                    }
                }
            }
        }
        flight
    }
}

impl<'a> Attempt<'a> {
    pub(super) fn new(semaphore: &'a Semaphore, turn: Option<Contender>) -> Self {
        let prefix = node::protected_prefix(Names::LEASES.marker(Mode::Shared));
        Self { semaphore, prefix, leases: Vec::new(), unnamed: false, turn }
    }

    /// Adds our leases and waits until all of them hold. Returns a proof that the session lives.
    pub(super) async fn wait_for_room(&mut self, wanted: usize) -> Result<Proof, Error> {
        let inner = &*self.semaphore.inner;
        inner.permits.reach(wanted, self.semaphore.session()).await?;
        loop {
            self.create(wanted).await?;
            // Without a watch at first: there may be no contention, and who was woken is usually granted.
            let listing = inner.list().await?;
            match self.verdict(&listing) {
                Verdict::Granted => return self.prove().await,
                // Somebody deleted them. The turn is still ours.
                Verdict::Missing => self.forget_missing(&listing),
                Verdict::Full => {
                    let (listing, room) = inner.list_and_watch().await?;
                    if self.verdict(&listing) == Verdict::Full {
                        room.changed().await;
                    }
                }
            }
        }
    }

    /// Takes the turn and our leases unless somebody is in the way. Returns what [`wait_for_room`](Self::wait_for_room)
    /// returns.
    pub(super) async fn try_once(&mut self, wanted: usize) -> Result<Option<Proof>, Error> {
        let inner = &*self.semaphore.inner;
        let listing = inner.list().await?;
        if !inner.leases(&listing).have_room_for(wanted, listing.permits) {
            return Ok(None);
        }
        let Some(turn) = inner.turns.try_acquire(Mode::Exclusive).await? else { return Ok(None) };
        self.turn = Some(turn.into_contender());
        self.create(wanted).await?;
        let listing = inner.list().await?;
        if self.verdict(&listing) == Verdict::Granted { self.prove().await.map(Some) } else { Ok(None) }
    }

    /// Waits for a proof that the session lives, which a listing is not.
    async fn prove(&self) -> Result<Proof, Error> {
        let session = self.semaphore.session();
        session.remote().prove().await.map_err(|error| session.remote().explain("write", self.semaphore.path(), error))
    }

    /// Creates as many leases as we lack, and their parent where it is missing, whatever replies are lost on the way.
    async fn create(&mut self, wanted: usize) -> Result<(), Error> {
        let inner = &*self.semaphore.inner;
        let (session, parent) = (self.semaphore.session(), &inner.leases);
        let mut backoff = Backoff::after_lost_reply();
        while self.leases.len() < wanted {
            let lacking = wanted - self.leases.len();
            // Where the parent is missing every request would be in vain: ask once.
            let count = if inner.parent_seen.load(Ordering::Relaxed) { lacking.min(REQUESTS_MAX) } else { 1 };
            let flight = self.send(count).await?;
            if let Some(error) = flight.failure {
                return Err(session.remote().explain("create", &node::child(parent, &self.prefix), error));
            }
            if flight.is_reply_lost {
                backoff.pause().await;
                self.find_unnamed().await?;
            }
            if flight.is_parent_missing {
                let created = session.wire().create_parents(parent).await;
                created.map_err(|error| session.remote().explain("create", parent, error))?;
            }
            inner.parent_seen.store(true, Ordering::Relaxed);
        }
        self.leases
            .iter()
            .filter_map(|lease| Names::LEASES.parse(node::name(&lease.path)))
            .try_for_each(|(_, number)| node::check_supply(parent, number, &inner.low_numbers_reported))
    }

    /// Sends `count` requests for leases together and waits for all answers.
    async fn send(&mut self, count: usize) -> Result<Flight, Error> {
        let Semaphore { inner, node_data } = self.semaphore;
        let session = self.semaphore.session();
        let path = node::child(&inner.leases, &self.prefix);
        let create = || session.wire().create(&path, node_data, CreateMode::EphemeralSequential);
        // Before the first is sent: from now on there may be leases.
        self.unnamed = true;
        let answers = join_all(std::iter::repeat_with(create).take(count)).await;
        let mut created = Vec::new();
        let flight = Flight::land(answers, |node| created.push(node));
        self.unnamed = !flight.is_certain;
        let foreign = created.iter().find(|(_, stat)| !is_ours(stat, session.id())).map(|(path, _)| path.clone());
        self.note(created);
        // The server answers for nodes that it has just made, so this would be a proxy's or a server's fault.
        foreign.map_or(Ok(flight), |path| Err(Error::NodeDeleted { path }))
    }

    /// Looks for the leases whose names were in replies that did not come.
    async fn find_unnamed(&mut self) -> Result<(), Error> {
        let (session, parent) = (self.semaphore.session(), &self.semaphore.inner.leases);
        let known = self.leases.iter().map(|lease| node::name(&lease.path)).collect();
        let found = find_unnamed(session.remote(), parent, &self.prefix, &known).await;
        self.note(found.map_err(|error| session.remote().explain("list", parent, error))?);
        self.unnamed = false;
        Ok(())
    }

    fn note(&mut self, created: Vec<(String, Stat)>) {
        let lease = |(path, stat): (String, Stat)| Lease { path, token: FencingToken::new(stat.czxid) };
        self.leases.extend(created.into_iter().map(lease));
    }

    fn verdict(&self, listing: &Listing) -> Verdict {
        let own: HashSet<&str> = self.leases.iter().map(|lease| node::name(&lease.path)).collect();
        self.semaphore.inner.leases(listing).verdict(&own, listing.permits)
    }

    fn forget_missing(&mut self, listing: &Listing) {
        let present: HashSet<&str> = listing.children.iter().map(String::as_str).collect();
        self.leases.retain(|lease| present.contains(node::name(&lease.path)));
    }

    /// Gives the turn to the next and makes holds of the leases, in the order of their tokens. They are ours whatever
    /// becomes of the turn: when giving it back fails or takes longer than there is time, the reaper goes on.
    pub(super) async fn grant(mut self, proof: &Proof, deadline: Deadline) -> Vec<LockGuard> {
        if let Some(turn) = &mut self.turn {
            match deadline.bound(turn.leave(false)).await {
                None | Some(Ok(_) | Err(Error::SessionEnded { .. })) => {}
                Some(Err(error)) => {
                    warn!(path = turn.path(), %error, "could not give back the turn, which keeps the next waiting");
                }
            }
        }
        let mut leases = mem::take(&mut self.leases);
        leases.sort_unstable_by_key(|lease| lease.token);
        let session = self.semaphore.session();
        leases.into_iter().map(|lease| lease.into_guard(session, proof)).collect()
    }

    /// Gives up: our nodes are gone when this returns `Ok`.
    pub(super) async fn withdraw(mut self) -> Result<(), Error> {
        let Some(leases) = self.take_leases() else { return Ok(()) };
        NodeClaim::armed(self.semaphore.session(), leases).withdraw().await
    }

    /// What there is, or may be, for whoever sees to its deletion from now on.
    fn take_leases(&mut self) -> Option<Leases> {
        let turn = self.turn.take().and_then(Contender::into_place);
        let leases = mem::take(&mut self.leases);
        let unnamed = mem::take(&mut self.unnamed);
        (turn.is_some() || unnamed || !leases.is_empty()).then(|| Leases {
            parent: self.semaphore.inner.leases.clone(),
            prefix: self.prefix.clone(),
            named: leases.into_iter().map(|lease| lease.path).collect(),
            unnamed,
            turn,
        })
    }
}

impl Drop for Attempt<'_> {
    fn drop(&mut self) {
        if let Some(leases) = self.take_leases() {
            self.semaphore.session().abandon(leases);
        }
    }
}

impl Lease {
    fn into_guard(self, session: &Session, proof: &Proof) -> LockGuard {
        let claim = NodeClaim::armed(session, OwnNode::Named { path: self.path });
        LockGuard::new(Hold::of_node(claim, self.token, proof.clone()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn land(answers: &[Result<u8, ClientError>]) -> (Vec<u8>, Flight) {
        let mut created = Vec::new();
        let flight = Flight::land(answers.to_vec(), |node| created.push(node));
        (created, flight)
    }

    #[test]
    fn leases_that_were_created_are_noted_whatever_became_of_the_others() {
        let (created, flight) = land(&[Ok(1), Err(ClientError::ConnectionLoss), Err(ClientError::NoAuth), Ok(2)]);
        assert_eq!(created, [1, 2]);
        assert!(flight.is_reply_lost && !flight.is_certain && !flight.is_parent_missing);
        assert_eq!(flight.failure, Some(ClientError::NoAuth));
    }

    #[test]
    fn only_after_answers_that_rule_out_a_node_there_is_nothing_to_look_for() {
        for (answers, is_certain) in [
            (vec![Ok(1), Ok(2)], true),
            (vec![Err(ClientError::NoNode), Err(ClientError::NoNode)], true),
            (vec![Ok(1), Err(ClientError::NoAuth)], true),
            (vec![Ok(1), Err(ClientError::ConnectionLoss)], false),
            (vec![Err(ClientError::SessionExpired)], false),
            (vec![Err(ClientError::NoAuth), Err(ClientError::ConnectionLoss)], false),
        ] {
            let (_, flight) = land(&answers);
            assert_eq!(flight.is_certain, is_certain, "{answers:?}");
            assert_eq!(flight.is_parent_missing, answers.contains(&Err(ClientError::NoNode)), "{answers:?}");
        }
    }
}
