//! `pg-advisory`: an advisory lock of the database around read, decide and overwrite. The database releases the lock
//! at the end of the transaction.

use crate::failure::Failure;
use crate::store::Isolation;
use crate::strategy::attempt::Attempt;
use crate::strategy::call::Call;
use crate::strategy::context::Context;
use crate::strategy::{Boxed, Decided, Decision, Strategy};
use crate::telemetry::clock::Moment;

/// The strategy.
pub(in crate::strategy) struct PgAdvisory {
    context: Context,
}

impl PgAdvisory {
    pub(in crate::strategy) fn new(context: Context) -> Self {
        Self { context }
    }

    async fn sell(&self, call: &Call) -> Decision {
        let (asked, until) = (Moment::now(), self.context.lock_until(call));
        let locked = Box::pin(async {
            let mut attempt = Attempt::begin_to_wait(&self.context, call, Isolation::ReadCommitted, until).await?;
            let locked = attempt.lock_advisory().await;
            Ok::<_, Failure>((attempt, locked))
        });
        let (mut attempt, locked) = self.context.metrics.waiting(locked).await?;
        let sold = match locked {
            Ok(()) => {
                attempt.enter(asked);
                attempt.overwrite().await
            }
            Err(failure) => Err(failure),
        };
        attempt.end(sold).await
    }
}

impl Strategy for PgAdvisory {
    fn purchase<'a>(&'a self, call: &'a Call) -> Boxed<'a, Decided<'a>> {
        call.decide(self.sell(call))
    }

    fn context(&self) -> &Context {
        &self.context
    }
}
