//! One attempt to take permits of a semaphore. It carries out the asks of its state machine.

use std::mem;
use std::sync::atomic::Ordering;
use std::time::Duration;

use futures_util::future::join_all;
use tracing::{Instrument, debug_span, warn};
use zk_recipes_protocol::names::{Mode, Names, Sequence};
use zk_recipes_protocol::permits::{Ask, Event, Flight, Outcome, Permits};
use zk_recipes_protocol::session_queue::Made;
use zookeeper_client::{CreateMode, Error as ClientError};

use super::leases::Leases;
use super::permits::Number;
use super::{FreePermits, Semaphore};
use crate::acquire::Deadline;
use crate::engine::{Contender, find_unnamed};
use crate::error::{Error, chain};
use crate::guard::LockGuard;
use crate::hold::held::Hold;
use crate::hold::node_claim::{NamedNode, NodeClaim};
use crate::node;
use crate::session::backoff::Backoff;
use crate::session::liveness::proof::Proof;
use crate::session::remote::made;
use crate::session::replies::is_refusal;
use crate::session::rooms::Room;
use crate::session::wire::REQUESTS_MAX;
use crate::token::FencingToken;

/// An attempt, with everything that it has on the server so far. If it is dropped, the reaper deletes all of it.
pub(super) struct Attempt<'a> {
    semaphore: &'a Semaphore,
    permits: Permits,
    wanted: usize,
    /// How long a `try` waits for answers. `None`: the attempt waits for the grant.
    try_within: Option<Duration>,
    /// The beginning of the names of all its leases.
    prefix: String,
    turn: Option<Contender>,
    /// The number of permits of the last look.
    number: Option<Number>,
    /// The room of its nodes. Taken before the turn, so that no attempt waits for room while others wait for its turn.
    room: Option<Room>,
    /// The watches of the last look.
    watches: Option<FreePermits>,
    proof: Option<Proof>,
    backoff: Backoff,
}

impl<'a> Attempt<'a> {
    pub(super) fn new(semaphore: &'a Semaphore, wanted: usize, try_within: Option<Duration>) -> Self {
        let has_parent = semaphore.inner.parent_seen.load(Ordering::Relaxed);
        Self {
            semaphore,
            wanted,
            permits: Permits::new(wanted, try_within.is_some(), REQUESTS_MAX, has_parent),
            try_within,
            prefix: node::protected_prefix(Names::LEASES.marker(Mode::Shared)),
            turn: None,
            number: None,
            room: None,
            watches: None,
            proof: None,
            backoff: Backoff::to_repeat(),
        }
    }

    /// Takes the permits. `None` if another contender was in the way, or the deadline came first. Our nodes are gone then.
    pub(super) async fn take(mut self, deadline: Deadline) -> Result<Option<Vec<LockGuard>>, Error> {
        match deadline.bound(self.take_room()).await {
            Some(taken) => taken?,
            None => return Ok(None),
        }
        loop {
            if let Some(outcome) = self.permits.outcome() {
                return match self.failure(outcome) {
                    Some(error) => Err(error),
                    None => self.withdraw().await.map(|()| None),
                };
            }
            match self.permits.ask() {
                Ask::Hold => return Ok(Some(self.guards())),
                ask => match self.carry_out(ask, deadline).await {
                    Some(event) => self.permits.on(event?),
                    None => self.permits.leave(),
                },
            }
        }
    }

    /// Takes the room of the turn and of all leases.
    async fn take_room(&mut self) -> Result<(), Error> {
        let bytes = self.semaphore.inner.room(self.wanted);
        let (session, path) = (self.semaphore.session(), self.semaphore.path());
        self.room = Some(session.room(path, bytes, self.try_within.is_some()).await?);
        Ok(())
    }

    /// Takes the part of a node out of the attempt's room.
    fn room_for(&mut self, bytes: usize) -> Option<Room> {
        self.room.as_mut().and_then(|room| room.split(bytes))
    }

    fn turn_room(&mut self) -> Option<Room> {
        let bytes = self.semaphore.inner.turns.node_room(Mode::Exclusive);
        self.room_for(bytes)
    }

    /// Carries out an ask. `None` if the deadline came first.
    async fn carry_out(&mut self, ask: Ask, deadline: Deadline) -> Option<Result<Event, Error>> {
        match ask {
            // If it returns without the turn, it has left nothing behind.
            Ask::TakeTurn => Some(self.take_turn(deadline).await),
            // The leases hold even if the turn cannot be given back in time. The reaper then deletes its node.
            Ask::LeaveTurn => {
                self.leave_turn(deadline).await;
                Some(Ok(Event::TurnLeft))
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
            Ask::TryTurn => {
                let room = self.turn_room();
                self.turn = inner.turns.try_turn(room).instrument(debug_span!("turn")).await?;
                Event::Turn(self.turn.is_some())
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
                let known = self.permits.leases().iter().map(|lease| lease.name.as_str()).collect();
                let found = find_unnamed(remote, parent, &self.prefix, &known).await;
                let found = found.map_err(|error| remote.explain("list", parent, error))?;
                Event::Found(found.iter().map(|(path, stat)| made(remote, path, stat)).collect())
            }
            Ask::Prove => self.prove().await?,
            Ask::TakeTurn | Ask::LeaveTurn | Ask::Delete(_) | Ask::Hold | Ask::End(_) => {
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

    async fn take_turn(&mut self, deadline: Deadline) -> Result<Event, Error> {
        let room = self.turn_room();
        self.turn = self.semaphore.inner.turns.take_turn(room, deadline).instrument(debug_span!("turn")).await?;
        Ok(Event::Turn(self.turn.is_some()))
    }

    async fn leave_turn(&mut self, deadline: Deadline) {
        let Some(mut turn) = self.turn.take() else { return };
        match deadline.bound(turn.leave(false)).await {
            None | Some(Ok(_) | Err(Error::SessionEnded { .. })) => {}
            Some(Err(error)) => {
                warn!(
                    lock = self.semaphore.path(),
                    node = turn.path(),
                    error = chain(&error),
                    "could not give back the turn, which keeps the next waiting"
                );
            }
        }
    }

    /// Sends requests for leases together and waits for all answers.
    async fn create(&mut self, count: usize) -> Result<Event, Error> {
        let Semaphore { inner, node_data, .. } = self.semaphore;
        let session = self.semaphore.session();
        let path = node::child(&inner.leases, &self.prefix);
        let create = || session.wire().create(&path, node_data, CreateMode::EphemeralSequential);
        let answers = join_all(std::iter::repeat_with(create).take(count)).await;
        let (flight, failure) = land(answers, |(path, stat)| made(session.remote(), &path, &stat));
        inner.parent_seen.store(!flight.is_parent_missing, Ordering::Relaxed);
        match failure {
            None => Ok(Event::Created(flight)),
            Some(error) => {
                // The leases that were created are known now, and the attempt deletes them.
                self.permits.on(Event::Created(flight));
                Err(out_of_numbers(&inner.leases, &error)
                    .unwrap_or_else(|| session.remote().explain("create", &path, error)))
            }
        }
    }

    /// Returns the error of an outcome, if it is a failure.
    fn failure(&self, outcome: Outcome) -> Option<Error> {
        let parent = &self.semaphore.inner.leases;
        match outcome {
            Outcome::InTheWay => None,
            // The deadline came first.
            Outcome::Left => self.try_within.map(|within| Error::NoAnswer { within }),
            Outcome::NotOwned => Some(Error::NodeDeleted { path: parent.clone() }),
            Outcome::NumbersExhausted(number) => {
                Some(Error::NumbersExhausted { path: parent.clone(), number: number.get() })
            }
        }
    }

    /// Converts the leases into guards, in the order of their tokens.
    fn guards(&mut self) -> Vec<LockGuard> {
        let Semaphore { inner, .. } = self.semaphore;
        let numbers: Vec<_> = self.permits.numbers().collect();
        numbers.into_iter().for_each(|number| node::note_supply(&inner.leases, number, &inner.low_numbers_reported));
        let proof = self.proof.take().unwrap_or_else(|| unreachable!("BUG: permits were granted without a proof"));
        let mut leases = self.permits.take_leases();
        leases.sort_unstable_by_key(|lease| lease.czxid);
        let session = self.semaphore.session();
        let guard = |Made { name, czxid, .. }: Made| {
            let lock = inner.path.clone();
            let path = node::child(&inner.leases, &name);
            let room = self.room_for(inner.lease_room());
            let claim = NodeClaim::new(session, NamedNode { lock, path, _room: room });
            LockGuard::new(Hold::of_node(claim, FencingToken::new(czxid), proof.clone()))
        };
        leases.into_iter().map(guard).collect()
    }

    /// Gives up. When this returns `Ok`, our nodes are gone.
    async fn withdraw(mut self) -> Result<(), Error> {
        let Some(leases) = self.give_up() else { return Ok(()) };
        NodeClaim::new(self.semaphore.session(), leases).withdraw().await
    }

    /// Returns what the attempt has or may have on the server. The caller must delete it.
    fn give_up(&mut self) -> Option<Leases> {
        self.permits.leave();
        let turn = self.turn.take().and_then(Contender::into_place);
        let permits = mem::replace(&mut self.permits, Permits::ended());
        (turn.is_some() || !permits.is_ended()).then(|| Leases {
            lock: self.semaphore.inner.path.clone(),
            parent: self.semaphore.inner.leases.clone(),
            prefix: mem::take(&mut self.prefix),
            permits,
            turn,
            _room: self.room.take(),
        })
    }
}

impl Drop for Attempt<'_> {
    fn drop(&mut self) {
        if let Some(leases) = self.give_up() {
            self.semaphore.session().abandon(Box::new(leases), None);
        }
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
