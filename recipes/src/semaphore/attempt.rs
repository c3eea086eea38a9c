//! One attempt to take permits of a semaphore: arm, create, list, decide, watch, and give the turn to the next.

use futures_util::future::try_join_all;
use tracing::warn;
use zookeeper_client::CreateMode;

use super::{Listing, Semaphore};
use crate::acquire::{self, Deadline};
use crate::claim::{self, Claim, Remains};
use crate::error::Error;
use crate::guard::{Hold, LockGuard};
use crate::leases::{Leases, Verdict};
use crate::node::{self, Mode, Names};
use crate::session::Session;
use crate::token::FencingToken;

/// What an acquire has on the server so far. Dropped, it goes to the reaper in the order of the fields: a lease without
/// a turn keeps everybody waiting.
pub(super) struct Attempt<'a> {
    semaphore: &'a Semaphore,
    leases: Vec<Lease>,
    turn: Option<Claim>,
}

struct Lease {
    claim: Claim,
    prefix: String,
    /// None until it is created.
    token: Option<FencingToken>,
}

impl<'a> Attempt<'a> {
    pub(super) fn new(semaphore: &'a Semaphore, turn: Option<Claim>) -> Self {
        Self { semaphore, leases: Vec::new(), turn }
    }

    /// Adds our leases and waits until all of them hold. Returns the count of losses from before the listing that
    /// granted, so that a loss in between is the hold's.
    pub(super) async fn wait_for_room(&mut self, wanted: usize) -> Result<u64, Error> {
        let inner = &*self.semaphore.inner;
        loop {
            self.create(wanted).await?;
            // Without a watch at first: there may be no contention, and who was woken is usually granted.
            let listing = inner.list().await?;
            match self.verdict(&listing) {
                Verdict::Granted => return Ok(listing.losses),
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

    /// Takes the turn and our leases unless somebody is in the way. Returns the count of losses as
    /// [`wait_for_room`](Self::wait_for_room) does.
    pub(super) async fn try_once(&mut self, wanted: usize) -> Result<Option<u64>, Error> {
        let inner = &*self.semaphore.inner;
        let listing = inner.list().await?;
        if !inner.leases(&listing).have_room_for(wanted, listing.permits) {
            return Ok(None);
        }
        let Some(turn) = inner.turns.try_acquire(Mode::Exclusive).await? else { return Ok(None) };
        self.turn = Some(turn.into_claim());
        self.create(wanted).await?;
        let listing = inner.list().await?;
        Ok((self.verdict(&listing) == Verdict::Granted).then_some(listing.losses))
    }

    /// Creates as many leases as we lack, in one flight.
    async fn create(&mut self, wanted: usize) -> Result<(), Error> {
        let (session, parent) = (self.semaphore.session(), &self.semaphore.inner.leases);
        let present = self.leases.len();
        self.leases.resize_with(wanted, || Lease::new(session, parent));
        let created = self.leases[present..].iter_mut().map(|lease| lease.create(self.semaphore));
        try_join_all(created).await.map(drop)
    }

    fn verdict(&self, listing: &Listing) -> Verdict {
        let own: Vec<&str> = self.leases.iter().map(Lease::name).collect();
        self.semaphore.inner.leases(listing).verdict(&own, listing.permits)
    }

    fn forget_missing(&mut self, listing: &Listing) {
        let leases = Leases::from_children(&listing.children);
        self.leases.retain(|lease| leases.contain(lease.name()));
    }

    /// Gives the turn to the next and makes holds of the leases. They are ours whatever becomes of the turn: when giving
    /// it back fails or takes longer than there is time, the reaper goes on.
    pub(super) async fn grant(mut self, losses: u64, deadline: Deadline) -> Vec<LockGuard> {
        if let Some(turn) = &mut self.turn {
            match deadline.bound(turn.remove()).await {
                None | Some(Ok(_) | Err(Error::SessionEnded { .. })) => {}
                Some(Err(error)) => {
                    warn!(path = turn.path(), %error, "could not give back the turn, which keeps the next waiting");
                }
            }
        }
        self.leases.into_iter().map(|lease| LockGuard::new(lease.into_hold(losses))).collect()
    }

    /// Gives up: our nodes are gone when this returns `Ok`.
    pub(super) async fn withdraw(mut self) -> Result<(), Error> {
        let Some(turn) = &mut self.turn else { return Ok(()) };
        let leases = self.leases.iter_mut().map(|lease| lease.claim.remove());
        let removal = async {
            try_join_all(leases).await?;
            turn.remove().await.map(drop)
        };
        claim::withdrawal(self.semaphore.session(), self.semaphore.path(), removal).await
    }
}

impl Lease {
    fn new(session: &Session, parent: &str) -> Self {
        let prefix = node::protected_prefix(Names::LEASES.marker(Mode::Shared));
        let remains = Remains::Unnamed { parent: parent.to_owned(), prefix: prefix.clone() };
        Self { claim: Claim::new(session, remains), prefix, token: None }
    }

    async fn create(&mut self, semaphore: &Semaphore) -> Result<(), Error> {
        let path = node::child(&semaphore.inner.leases, &self.prefix);
        let (claim, mode) = (&mut self.claim, CreateMode::EphemeralSequential);
        let created =
            acquire::create_protected(semaphore.session(), claim, &path, &self.prefix, mode, &semaphore.node_data);
        let (_, stat) = created.await?;
        self.token = Some(FencingToken::new(stat.czxid));
        Ok(())
    }

    fn name(&self) -> &str {
        node::name(self.claim.path())
    }

    fn into_hold(self, losses: u64) -> Hold {
        let token = self.token.unwrap_or_else(|| unreachable!("BUG: a lease was granted before it was created"));
        Hold::new(self.claim, token, losses)
    }
}
