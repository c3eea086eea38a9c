//! `pg-row-lock`: the read locks the row (`select … for no key update`) until the commit.

use crate::failure::Failure;
use crate::store::Isolation;
use crate::strategy::attempt::Attempt;
use crate::strategy::call::Call;
use crate::strategy::context::Context;
use crate::strategy::{Boxed, Decision};
use crate::telemetry::clock::Moment;

/// Sells under the lock of each row.
pub(in crate::strategy) fn sell<'a>(context: &'a Context, call: &'a Call) -> Boxed<'a, Decision> {
    Box::pin(async move {
        let asked = Moment::now();
        let until = context.lock_until(call);
        let locked = Box::pin(async {
            let mut attempt = Attempt::begin_to_wait(context, call, Isolation::ReadCommitted, until).await?;
            let levels = attempt.read_for_update().await;
            Ok::<_, Failure>((attempt, levels))
        });
        let (mut attempt, levels) = context.metrics.waiting(locked).await?;
        let sold = match levels {
            Ok(levels) => {
                attempt.enter(asked);
                // While the row is locked, nobody else writes it. The version is incremented for other strategies of
                // the family, which check it.
                attempt.overwrite_unchanged(&levels).await
            }
            Err(failure) => Err(failure),
        };
        attempt.end(sold).await
    })
}
