//! `zk-semaphore`: `pg-conditional` behind a semaphore. The permits bound how many buyers of a SKU are in the
//! database. The row decides, so nothing is oversold whatever happens to the permits.

use crate::store::Isolation;
use crate::strategy::attempt::{Attempt, Fences, do_business_first};
use crate::strategy::call::Call;
use crate::strategy::context::Context;
use crate::strategy::{Boxed, Decision};

/// Sells by one update for each SKU, with a permit.
pub(in crate::strategy) fn sell<'a>(context: &'a Context, call: &'a Call, fences: Fences) -> Boxed<'a, Decision> {
    Box::pin(async move {
        do_business_first(context, call).await?;
        let attempt = Attempt::begin_to_wait(context, call, Isolation::ReadCommitted, call.until).await?;
        let mut attempt = attempt.with_fences(fences);
        let sold = attempt.take().await;
        attempt.end(sold).await
    })
}
