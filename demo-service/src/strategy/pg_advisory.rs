//! `pg-advisory`: an advisory lock of the database around read, decide and overwrite. The database releases the lock
//! at the end of the transaction.

use super::section::Section;
use super::{Boxed, Call, Context, Decided, Decision, Strategy};
use crate::failure::Failure;
use crate::store::Isolation;
use crate::telemetry::clock::Moment;

/// The strategy.
pub(super) struct PgAdvisory {
    context: Context,
}

impl PgAdvisory {
    pub(super) fn new(context: Context) -> Self {
        Self { context }
    }

    async fn sell(&self, call: &Call) -> Decision {
        let (asked, until) = (Moment::now(), self.context.lock_until(call));
        let locked = Box::pin(async {
            let mut section = Section::begin_to_wait(&self.context, call, Isolation::ReadCommitted, until).await?;
            let locked = section.lock_advisory().await;
            Ok::<_, Failure>((section, locked))
        });
        let (mut section, locked) = self.context.metrics.waiting(locked).await?;
        let sold = match locked {
            Ok(()) => {
                section.enter(asked);
                section.overwrite().await
            }
            Err(failure) => Err(failure),
        };
        section.end(sold).await
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
