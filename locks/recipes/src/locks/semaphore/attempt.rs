//! One attempt to take permits of a semaphore. It carries out the asks of its state machine.

use std::sync::atomic::Ordering;
use std::time::Duration;

use futures_util::future::join_all;
use tracing::{Instrument, debug_span, warn};
use zk_recipes_protocol::names::{Mode, Names, Sequence};
use zk_recipes_protocol::permits::{Ask, AttemptOutcome, AttemptState, Event, Flight, Permits};
use zk_recipes_protocol::session_queue::Made;
use zookeeper_client::{CreateMode, Error as ClientError};

use super::limit::Number;
use super::nodes::{AttemptNodes, Lease};
use super::{FreePermits, Semaphore};
use crate::acquire::Deadline;
use crate::engine::Contender;
use crate::error::{Error, chain};
use crate::guard::LockGuard;
use crate::hold::{Claim, Grant, Hold};
use crate::node;
use crate::session::backoff::Backoff;
use crate::session::liveness::proof::Proof;
use crate::session::reaper::Leftover;
use crate::session::remote::made;
use crate::session::replies::is_refusal;
use crate::session::rooms::Room;
use crate::session::wire::REQUESTS_MAX;

/// An attempt to take permits.
pub(super) struct PermitAttempt<'a> {
    semaphore: &'a Semaphore,
    nodes: Claim<AttemptNodes>,
    /// How long a `try` waits for answers. `None`: the attempt waits for the grant.
    try_within: Option<Duration>,
    /// The number of permits of the last look.
    number: Option<Number>,
    /// The watches of the last look.
    watches: Option<FreePermits>,
    proof: Option<Proof>,
    backoff: Backoff,
}

/// Takes `wanted` permits. `try_within`: how long a `try` waits for answers. `None` if another contender was in the way, or the
/// deadline came first. Our nodes are gone then.
pub(super) async fn take(
    semaphore: &Semaphore,
    wanted: usize,
    try_within: Option<Duration>,
    deadline: Deadline,
) -> Result<Option<Vec<LockGuard>>, Error> {
    let inner = &*semaphore.inner;
    let session = semaphore.session();
    let room = session.room(&inner.path, inner.room(wanted), try_within.is_some());
    let Some(room) = deadline.bound(room).await else { return Ok(None) };
    let has_parent = inner.parent_seen.load(Ordering::Relaxed);
    let mut asks = Vec::new();
    let nodes = AttemptNodes {
        lock: inner.path.clone(),
        parent: inner.leases.clone(),
        prefix: node::protected_prefix(Names::LEASES.marker(Mode::Shared)),
        permits: Permits::enter(wanted, try_within.is_some(), REQUESTS_MAX, has_parent, &mut asks),
        lease_lock: None,
        room: room?,
    };
    let attempt = PermitAttempt {
        semaphore,
        nodes: Claim::new(session, nodes),
        try_within,
        number: None,
        watches: None,
        proof: None,
        backoff: Backoff::to_repeat(),
    };
    attempt.run(asks, deadline).await
}

impl PermitAttempt<'_> {
    async fn run(mut self, mut asks: Vec<Ask>, deadline: Deadline) -> Result<Option<Vec<LockGuard>>, Error> {
        loop {
            match self.nodes.permits.state() {
                AttemptState::Contending => {}
                AttemptState::Holding => return Ok(Some(self.guards())),
                AttemptState::Leaving(outcome) => match self.failure(outcome) {
                    Some(error) => return Err(error),
                    None => return self.nodes.withdraw().await.map(|()| None),
                },
            }
            let ask = asks.pop().expect("BUG: an attempt that contends asks for nothing");
            let event = self.carry_out(ask, deadline).await.unwrap_or(Ok(Event::Leaves))?;
            self.nodes.permits.on(event, &mut asks);
        }
    }

    fn lease_lock_room(&mut self) -> Option<Room> {
        let bytes = self.semaphore.inner.lease_lock.node_room(Mode::Exclusive);
        self.nodes.room.split(bytes)
    }

    /// Carries out an ask. `None` if the deadline came first.
    async fn carry_out(&mut self, ask: Ask, deadline: Deadline) -> Option<Result<Event, Error>> {
        match ask {
            // If it returns without the lease lock, it has left nothing behind.
            Ask::TakeLeaseLock => Some(self.take_lease_lock(deadline).await),
            // The leases hold even if the lease lock cannot be given back in time. The reaper then deletes its node.
            Ask::LeaveLeaseLock => {
                self.leave_lease_lock(deadline).await;
                Some(Ok(Event::LeaseLockLeft))
            }
            ask => deadline.bound(self.request(ask)).await,
        }
    }

    async fn request(&mut self, ask: Ask) -> Result<Event, Error> {
        let inner = &*self.semaphore.inner;
        let session = self.semaphore.session();
        let parent = &inner.leases;
        let remote = session.remote();
        Ok(match ask {
            Ask::Reach(wanted) => {
                inner.permits.reach(wanted, session).await?;
                Event::Reached
            }
            Ask::List => {
                let (children, number) = inner.list().await?;
                self.listed(children, number)
            }
            Ask::Watch => {
                let (children, number, watches) = inner.list_and_watch().await?;
                self.watches = Some(watches);
                self.listed(children, number)
            }
            Ask::Wait => {
                if let Some(watches) = self.watches.take() {
                    watches.changed().await;
                }
                Event::Changed
            }
            Ask::TryLeaseLock => {
                let room = self.lease_lock_room();
                let taken = inner.lease_lock.try_lease_lock(room).instrument(debug_span!("lease_lock")).await?;
                self.keep_lease_lock(taken)
            }
            Ask::Create(count) => self.create(count).await?,
            Ask::CreateParent => {
                let created = session.wire().create_parents(parent).await;
                created.map_err(|error| remote.explain("create", parent, error))?;
                Event::ParentCreated
            }
            Ask::Pause => {
                self.backoff.pause().await;
                Event::Paused
            }
            Ask::Find => {
                let found = self.nodes.find_unnamed(remote).await;
                found.map_err(|error| remote.explain("list", parent, error))?
            }
            Ask::Prove => self.prove().await?,
            Ask::TakeLeaseLock | Ask::LeaveLeaseLock | Ask::Delete(_) => {
                unreachable!("BUG: {ask:?} is no request of an acquire")
            }
        })
    }

    fn listed(&mut self, children: Vec<String>, number: Number) -> Event {
        self.number = Some(number);
        Event::Listed(children, number.permits())
    }

    /// Decides the grant. The leases before ours can only have become fewer since the listing. So the listing still counts if the
    /// number is the same.
    async fn prove(&mut self) -> Result<Event, Error> {
        let session = self.semaphore.session();
        let permits = &self.semaphore.inner.permits;
        let number = self.number.unwrap_or_else(|| unreachable!("BUG: permits are granted without a listing"));
        if !permits.is_still(number, session).await? {
            return Ok(Event::Changed);
        }
        let proof = session.remote().prove().await;
        self.proof = Some(proof.map_err(|error| session.remote().explain("write", self.semaphore.path(), error))?);
        Ok(Event::Proved)
    }

    async fn take_lease_lock(&mut self, deadline: Deadline) -> Result<Event, Error> {
        let room = self.lease_lock_room();
        let taken = self.semaphore.inner.lease_lock.take_lease_lock(room, deadline);
        let taken = taken.instrument(debug_span!("lease_lock")).await?;
        Ok(self.keep_lease_lock(taken))
    }

    fn keep_lease_lock(&mut self, taken: Option<Claim<Contender>>) -> Event {
        self.nodes.lease_lock = taken.and_then(Claim::into_left);
        Event::LeaseLock(self.nodes.lease_lock.is_some())
    }

    /// Gives the lease lock back. If that fails, it goes to the reaper by itself, without the leases.
    async fn leave_lease_lock(&mut self, deadline: Deadline) {
        let session = self.semaphore.session();
        let Some(lease_lock) = &mut self.nodes.lease_lock else { return };
        match deadline.bound(lease_lock.remove(session.remote(), false)).await {
            None | Some(Ok(_) | Err(Error::SessionEnded { .. })) => {}
            Some(Err(error)) => {
                warn!(
                    lock = self.semaphore.path(),
                    node = lease_lock.path(),
                    error = chain(&error),
                    "could not give back the lease lock, which keeps the next waiting"
                );
            }
        }
        // A dropped claim goes to the reaper unless its node is gone.
        drop(self.nodes.lease_lock.take().map(|lease_lock| Claim::new(session, lease_lock)));
    }

    /// Sends requests for leases together and waits for all answers.
    async fn create(&mut self, count: usize) -> Result<Event, Error> {
        let Semaphore { inner, node_data, .. } = self.semaphore;
        let session = self.semaphore.session();
        let path = node::child(&inner.leases, &self.nodes.prefix);
        let create = || session.wire().create(&path, node_data, CreateMode::EphemeralSequential);
        let answers = join_all(std::iter::repeat_with(create).take(count)).await;
        let (flight, failure) = land(answers, |(path, stat)| made(session.remote(), &path, &stat));
        inner.parent_seen.store(!flight.is_parent_missing, Ordering::Relaxed);
        match failure {
            None => Ok(Event::Created(flight)),
            Some(error) => {
                // The attempt ends here. The answers tell which leases it has to delete, and that it has no others.
                self.nodes.permits.on(Event::Leaves, &mut Vec::new());
                self.nodes.permits.on(Event::Created(flight), &mut Vec::new());
                Err(out_of_numbers(&inner.leases, &error)
                    .unwrap_or_else(|| session.remote().explain("create", &path, error)))
            }
        }
    }

    /// Returns the error of an outcome, if it is a failure.
    fn failure(&self, outcome: AttemptOutcome) -> Option<Error> {
        let parent = &self.semaphore.inner.leases;
        match outcome {
            AttemptOutcome::InTheWay => None,
            // The deadline came first.
            AttemptOutcome::Left => self.try_within.map(|within| Error::NoAnswer { within }),
            AttemptOutcome::NotOwned => Some(Error::NodeDeleted { path: parent.clone() }),
            AttemptOutcome::NumbersExhausted(number) => {
                Some(Error::NumbersExhausted { path: parent.clone(), number: number.get() })
            }
        }
    }

    /// Converts the leases into guards, in the order of their tokens.
    fn guards(&mut self) -> Vec<LockGuard> {
        let inner = &*self.semaphore.inner;
        let session = self.semaphore.session();
        let nodes = &mut *self.nodes;
        nodes
            .permits
            .numbers()
            .for_each(|number| node::note_supply(&inner.leases, number, &inner.low_numbers_reported));
        let proof = self.proof.take().unwrap_or_else(|| unreachable!("BUG: permits were granted without a proof"));
        let mut leases = nodes.permits.take_leases();
        leases.sort_unstable_by_key(|lease| lease.czxid);
        let guard = |Made { name, czxid, .. }: Made| {
            let path = node::child(&inner.leases, &name);
            let lease = Lease { lock: inner.path.clone(), path, _room: nodes.room.split(inner.lease_room()) };
            let grant = Grant { czxid, contender: None, proof: proof.clone() };
            LockGuard::new(Hold::new(Claim::new(session, lease), grant))
        };
        leases.into_iter().map(guard).collect()
    }
}

/// Returns the error if a lease has the name of another one. The leases of an attempt differ only by their numbers, and only the last
/// number is given twice.
fn out_of_numbers(leases: &str, error: &ClientError) -> Option<Error> {
    let exhausted = || Error::NumbersExhausted { path: leases.to_owned(), number: Sequence::LAST.get() };
    (*error == ClientError::NodeExists).then(exhausted)
}

/// Sorts the answers to `create`s that were sent together. Also returns the first failure that cannot be handled.
fn land<T>(answers: Vec<Result<T, ClientError>>, made: impl Fn(T) -> Made) -> (Flight, Option<ClientError>) {
    let mut flight = Flight::default();
    let mut failure = None;
    for answer in answers {
        match answer {
            Ok(node) => flight.made.push(made(node)),
            Err(ClientError::NoNode) => flight.is_parent_missing = true,
            Err(error) => {
                flight.has_unnamed |= !is_refusal(&error);
                if matches!(error, ClientError::ConnectionLoss | ClientError::Throttled) {
                    flight.is_to_repeat = true;
                } else {
                    failure.get_or_insert(error);
                }
            }
        }
    }
    (flight, failure)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn land_all(answers: &[Result<&str, ClientError>]) -> (Flight, Option<ClientError>) {
        land(answers.to_vec(), |name| Made { name: name.to_owned(), czxid: 1, is_ours: true })
    }

    #[test]
    fn created_leases_are_noted_whatever_became_of_the_others() {
        let (flight, failure) =
            land_all(&[Ok("1"), Err(ClientError::ConnectionLoss), Err(ClientError::NoAuth), Ok("2")]);
        assert_eq!(flight.made.iter().map(|made| made.name.as_str()).collect::<Vec<_>>(), ["1", "2"]);
        assert!(flight.is_to_repeat && flight.has_unnamed && !flight.is_parent_missing);
        assert_eq!(failure, Some(ClientError::NoAuth));
    }

    #[test]
    fn a_lease_that_exists_has_the_last_number() {
        let error = out_of_numbers("/leases", &ClientError::NodeExists);
        assert!(matches!(error, Some(Error::NumbersExhausted { number: i32::MAX, .. })), "{error:?}");
        assert!(out_of_numbers("/leases", &ClientError::NoAuth).is_none());
    }

    #[test]
    fn an_attempt_whose_answers_rule_out_a_node_looks_for_none() {
        for (answers, has_unnamed) in [
            (vec![Ok("1"), Ok("2")], false),
            (vec![Err(ClientError::NoNode), Err(ClientError::NoNode)], false),
            (vec![Ok("1"), Err(ClientError::NoAuth)], false),
            (vec![Ok("1"), Err(ClientError::ConnectionLoss)], true),
            (vec![Err(ClientError::SessionExpired)], true),
            (vec![Err(ClientError::NoAuth), Err(ClientError::ConnectionLoss)], true),
        ] {
            let (flight, _) = land_all(&answers);
            assert_eq!(flight.has_unnamed, has_unnamed, "{answers:?}");
            assert_eq!(flight.is_parent_missing, answers.contains(&Err(ClientError::NoNode)), "{answers:?}");
        }
    }
}
