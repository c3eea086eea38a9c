//! `pg-row-lock`: the read locks the row (`select … for no key update`) until the commit.

use crate::failure::Failure;
use crate::store::Isolation;
use crate::strategy::attempt::Attempt;
use crate::strategy::call::Call;
use crate::strategy::context::Context;
use crate::strategy::{Boxed, Decided, Decision, Strategy};
use crate::telemetry::clock::Moment;

/// The strategy.
pub(in crate::strategy) struct PgRowLock {
    context: Context,
}

impl PgRowLock {
    pub(in crate::strategy) fn new(context: Context) -> Self {
        Self { context }
    }

    async fn sell(&self, call: &Call) -> Decision {
        let (asked, until) = (Moment::now(), self.context.lock_until(call));
        let locked = Box::pin(async {
            let mut attempt = Attempt::begin_to_wait(&self.context, call, Isolation::ReadCommitted, until).await?;
            let levels = attempt.read_for_update().await;
            Ok::<_, Failure>((attempt, levels))
        });
        let (mut attempt, levels) = self.context.metrics.waiting(locked).await?;
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
    }
}

impl Strategy for PgRowLock {
    fn purchase<'a>(&'a self, call: &'a Call) -> Boxed<'a, Decided<'a>> {
        call.decide(self.sell(call))
    }

    fn context(&self) -> &Context {
        &self.context
    }
}
