//! `pg-conditional`: no lock but the row's own. One update takes the units if enough are left at that instant.
//!
//! The update names the sale, so a late purchase cannot take units of the next sale. The business is done before the
//! transaction begins, after a look at the stock. The look refuses a buyer who comes too late before the business
//! time. So the business of many buyers runs concurrently, and none of them keeps a connection meanwhile. This is a
//! fair picture of a real service only if that service also does its business first and takes the stock last.

use crate::store::Isolation;
use crate::strategy::attempt::{Attempt, do_business_first};
use crate::strategy::call::Call;
use crate::strategy::context::Context;
use crate::strategy::{Boxed, Decision};
use crate::telemetry::clock::Moment;

/// Sells by one update for each SKU.
pub(in crate::strategy) fn sell<'a>(context: &'a Context, call: &'a Call) -> Boxed<'a, Decision> {
    Box::pin(async move {
        let business = do_business_first(context, call).await?;
        // The deadline limits the wait for the lock. The business is no part of that wait.
        let until = context.lock_until(call) + business;
        let mut attempt = Attempt::begin_to_wait(context, call, Isolation::ReadCommitted, until).await?;
        let asked = Moment::now();
        let sold = attempt.take().await;
        if sold.is_ok() {
            attempt.enter(asked);
        }
        attempt.end(sold).await
    })
}
