//! `pg-advisory`: an advisory lock of the database around read, decide and overwrite. The database releases the lock
//! at the end of the transaction.

use crate::failure::Failure;
use crate::store::Isolation;
use crate::strategy::attempt::Attempt;
use crate::strategy::call::Call;
use crate::strategy::context::Context;
use crate::strategy::{Boxed, Decision};
use crate::telemetry::clock::Moment;

/// Sells under the advisory lock of each SKU.
pub(in crate::strategy) fn sell<'a>(context: &'a Context, call: &'a Call) -> Boxed<'a, Decision> {
    Box::pin(async move {
        let asked = Moment::now();
        let until = context.lock_until(call);
        let locked = Box::pin(async {
            let mut attempt = Attempt::begin_to_wait(context, call, Isolation::ReadCommitted, until).await?;
            let locked = attempt.lock_advisory().await;
            // A failed lock keeps the attempt: its end rolls back and keeps the connection, and a drop would close it.
            Ok::<_, Failure>((attempt, locked))
        });
        let (mut attempt, locked) = context.metrics.waiting(locked).await?;
        let sold = match locked {
            Ok(()) => {
                attempt.enter(asked);
                attempt.overwrite().await
            }
            Err(failure) => Err(failure),
        };
        attempt.end(sold).await
    })
}
