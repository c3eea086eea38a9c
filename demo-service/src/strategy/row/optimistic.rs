//! `pg-optimistic` and `pg-serializable`: no lock. A purchase that was overtaken between its read and its write
//! fails, and is repeated. At isolation level read committed, the version of the row shows that the purchase was
//! overtaken. At serializable, the database detects it.

use std::time::Duration;

use crate::failure::{self, Failure};
use crate::store::Isolation;
use crate::strategy::attempt::Attempt;
use crate::strategy::call::Call;
use crate::strategy::context::Context;
use crate::strategy::{Boxed, Decided, Decision, Strategy};

/// The longest pause before the second attempt. It doubles with each attempt, up to [`PAUSE_MAX`].
const PAUSE_MIN: Duration = Duration::from_millis(1);
const PAUSE_MAX: Duration = Duration::from_millis(100);

/// The strategy, at either isolation level.
pub(in crate::strategy) struct PgOptimistic {
    context: Context,
    isolation: Isolation,
}

impl PgOptimistic {
    pub(in crate::strategy) fn new(context: Context, isolation: Isolation) -> Self {
        Self { context, isolation }
    }

    /// Makes at most `attempts_max` attempts, until no other purchase overtakes one. The pauses have random lengths,
    /// so that purchases that collided do not collide again.
    async fn sell(&self, call: &Call) -> Decision {
        let mut pause_max = PAUSE_MIN;
        for _ in 1..self.context.shared.settings.attempts_max {
            match self.attempt(call).await {
                Err(failure) if failure.is(&failure::OVERTAKEN) => {}
                decision => return decision,
            }
            self.context.metrics.count_retry();
            call.wait(tokio::time::sleep(rand::random_range(Duration::ZERO..=pause_max))).await?;
            pause_max = (pause_max * 2).min(PAUSE_MAX);
        }
        self.attempt(call)
            .await
            .map_err(|failure| if failure.is(&failure::OVERTAKEN) { self.given_up() } else { failure })
    }

    async fn attempt(&self, call: &Call) -> Decision {
        let mut attempt = Attempt::begin_to_wait(&self.context, call, self.isolation, call.until).await?;
        let sold = match attempt.read().await {
            Ok(levels) => attempt.overwrite_unchanged(&levels).await,
            Err(failure) => Err(failure),
        };
        attempt.end(sold).await
    }

    fn given_up(&self) -> Failure {
        let detail = format!(
            "other buyers came first in each of {} attempts; nothing was written",
            self.context.shared.settings.attempts_max
        );
        Failure::new(&failure::OVERTAKEN, detail)
    }
}

impl Strategy for PgOptimistic {
    fn purchase<'a>(&'a self, call: &'a Call) -> Boxed<'a, Decided<'a>> {
        call.decide(self.sell(call))
    }

    fn context(&self) -> &Context {
        &self.context
    }
}
