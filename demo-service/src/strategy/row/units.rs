//! `pg-units`: a row for each unit. A purchase takes free units that nobody has locked (`for update skip locked`), so buyers of one
//! SKU meet nowhere.
//!
//! Each buyer of an instance begins where the buyer before it ended, and the instances begin at random units. So buyers seldom try
//! the same rows, and neighbours share the pages that they write.
//!
//! Skipped units may come back, if their purchase is rolled back. So nobody is told "sold out" because of them: a buyer who finds
//! too few, although enough are not taken for good, gives back what it has locked and begins again. Then it waits for the units in
//! the order of their numbers. As under `pg-conditional`, the business is done first.

use std::collections::HashMap;

use parking_lot::Mutex;
use tokio::time::Instant;

use crate::failure::{self, Failure};
use crate::sale::{GoodsNo, Order};
use crate::store::Taken;
use crate::strategy::attempt::{Attempt, Written, do_business_first};
use crate::strategy::call::Call;
use crate::strategy::context::Context;
use crate::strategy::{Boxed, Decided, Decision, Strategy};

/// The first buyer of an instance begins at one of this many units, by chance. In a smaller sale it begins at the first unit.
const FIRST_START_MAX: i64 = 1_000_000;

/// Sells units that have a row each.
pub(in crate::strategy) struct Units {
    context: Context,
    /// The unit at which the next buyer of a SKU begins.
    starts: Mutex<HashMap<GoodsNo, i64>>,
}

/// What a purchase does about units that others have locked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Locked {
    Skip,
    Await,
}

impl Units {
    pub(in crate::strategy) fn new(context: Context) -> Self {
        Self { context, starts: Mutex::default() }
    }

    async fn sell(&self, call: &Call) -> Decision {
        let business = do_business_first(&self.context, call).await?;
        let until = self.context.lock_until(call) + business;
        match self.attempt(call, until, Locked::Skip).await? {
            Ok(order) => Ok(order),
            Err(again) => {
                let order = self.attempt(call, until, again).await?;
                order.map_err(|_| Failure::of(&failure::OVERTAKEN))
            }
        }
    }

    /// Makes one attempt. If others have locked units that it needs, returns what the next attempt does about them.
    async fn attempt(&self, call: &Call, until: Instant, others: Locked) -> Result<Result<Order, Locked>, Failure> {
        let mut attempt = Attempt::begin_in_sales(&self.context, call, until).await?;
        let taken = self.take(&mut attempt, call, others).await;
        attempt.close_if_taken(taken).await
    }

    async fn take(
        &self,
        attempt: &mut Attempt<'_>,
        call: &Call,
        others: Locked,
    ) -> Result<Result<Written, Locked>, Failure> {
        let line = call.purchase.cart.lines()[0];
        let written = attempt.write_uncounted().await?;
        let taken = match others {
            Locked::Skip => {
                let start = self.start(line.goods_no, line.quantity.get());
                let taken = attempt.take_units(&written, start).await?;
                if let Taken::All { last } = taken {
                    self.ended(line.goods_no, start, last.into());
                }
                taken
            }
            Locked::Await => attempt.take_units_in_order(&written).await?,
        };
        match taken {
            Taken::All { .. } => Ok(Ok(written)),
            Taken::TooFew => Err(Failure::sold_out(line.goods_no)),
            Taken::Held | Taken::Scattered => Ok(Err(Locked::Await)),
        }
    }

    /// Returns the unit at which a buyer of that many units begins. The next buyer begins behind them.
    fn start(&self, goods_no: GoodsNo, quantity: i64) -> i64 {
        let mut starts = self.starts.lock();
        let next = starts.entry(goods_no).or_insert_with(|| rand::random_range(1..=FIRST_START_MAX));
        let start = *next;
        *next = start.saturating_add(quantity);
        start
    }

    /// Lets the next buyer begin behind the unit `last`, if a buyer that began at `start` has found it only beyond the next start, or
    /// at the beginning of the sale.
    fn ended(&self, goods_no: GoodsNo, start: i64, last: i64) {
        if let Some(next) = self.starts.lock().get_mut(&goods_no)
            && (last < start || last >= *next)
        {
            *next = last + 1;
        }
    }
}

impl Strategy for Units {
    fn purchase<'a>(&'a self, call: &'a Call) -> Boxed<'a, Decided<'a>> {
        call.decide(Box::pin(self.sell(call)))
    }
}
