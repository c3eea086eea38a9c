//! `pg-buckets`: the stock of a SKU lies in several rows, and a purchase takes its units out of one of them.
//!
//! The nearest bucket comes first: each buyer of an instance begins at the bucket behind the one of the buyer before, and goes on
//! around the ring. A bucket that is locked or has too few units is passed over. If all that have enough are locked, the buyer waits
//! for the first of them. If none has enough, but all together have, it locks them all and takes the units out of several. So "sold
//! out" is told only if the sum is too small.
//!
//! All buckets are locked for such a purchase only, because nobody else can buy meanwhile: if each buyer who finds them locked
//! locked them all again, they would stay locked. As under `pg-conditional`, the business is done first.

use std::sync::atomic::{AtomicU32, Ordering};

use tokio::time::Instant;

use crate::failure::{self, Failure};
use crate::sale::Order;
use crate::store::{BUCKETS_MAX, Taken};
use crate::strategy::attempt::{Attempt, Written, do_business_first};
use crate::strategy::call::Call;
use crate::strategy::context::Context;
use crate::strategy::{Boxed, Decided, Decision, Strategy};

/// Sells units that lie in buckets.
pub(in crate::strategy) struct Buckets {
    context: Context,
    /// Counts the purchases of the instance, from a random number on.
    purchases: AtomicU32,
}

/// The buckets from which a purchase may take its units.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum BucketChoice {
    /// One that nobody has locked.
    Free,
    /// One, which it waits for.
    First,
    /// All of them, which it waits for.
    All,
}

impl Buckets {
    pub(in crate::strategy) fn new(context: Context) -> Self {
        Self { context, purchases: AtomicU32::new(rand::random()) }
    }

    async fn sell(&self, call: &Call) -> Decision {
        let business = do_business_first(&self.context, call).await?;
        let until = self.context.lock_until(call) + business;
        let mut choice = BucketChoice::Free;
        // Each attempt is a transaction of its own: one that has taken nothing may have locked buckets out of order.
        loop {
            match self.attempt(call, until, choice).await? {
                Ok(order) => return Ok(order),
                Err(_) if choice == BucketChoice::All => return Err(Failure::of(&failure::OVERTAKEN)),
                Err(wider) => choice = wider,
            }
        }
    }

    /// Makes one attempt. If it finds too few units within its choice, returns the choice of the next one.
    async fn attempt(
        &self,
        call: &Call,
        until: Instant,
        choice: BucketChoice,
    ) -> Result<Result<Order, BucketChoice>, Failure> {
        let mut attempt = Attempt::begin_in_sales(&self.context, call, until).await?;
        let taken = self.take(&mut attempt, call, choice).await;
        attempt.close_if_taken(taken).await
    }

    async fn take(
        &self,
        attempt: &mut Attempt<'_>,
        call: &Call,
        choice: BucketChoice,
    ) -> Result<Result<Written, BucketChoice>, Failure> {
        let written = attempt.write_uncounted().await?;
        let taken = match choice {
            BucketChoice::Free => {
                let own = self.purchases.fetch_add(1, Ordering::Relaxed) % BUCKETS_MAX + 1;
                attempt.take_from_free_bucket(&written, own).await?
            }
            BucketChoice::First => attempt.take_from_first_bucket(&written).await?,
            BucketChoice::All => attempt.take_from_buckets(&written).await?,
        };
        match taken {
            Taken::All { .. } => Ok(Ok(written)),
            Taken::TooFew => Err(Failure::sold_out(call.purchase.cart.lines()[0].goods_no)),
            Taken::Held => Ok(Err(BucketChoice::First)),
            Taken::Scattered => Ok(Err(BucketChoice::All)),
        }
    }
}

impl Strategy for Buckets {
    fn purchase<'a>(&'a self, call: &'a Call) -> Boxed<'a, Decided<'a>> {
        call.decide(Box::pin(self.sell(call)))
    }
}
