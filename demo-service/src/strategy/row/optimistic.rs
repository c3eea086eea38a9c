//! `pg-optimistic` and `pg-serializable`: no lock. A purchase that was overtaken between its read and its write
//! fails, and is repeated. At isolation level read committed, the version of the row shows that the purchase was
//! overtaken. At serializable, the database detects it.

use std::time::Duration;

use crate::failure::{self, Failure};
use crate::store::Isolation;
use crate::strategy::attempt::Attempt;
use crate::strategy::call::Call;
use crate::strategy::context::Context;
use crate::strategy::{Boxed, Decision};

/// The longest pause before the second attempt. It doubles with each attempt, up to [`PAUSE_MAX`].
const PAUSE_MIN: Duration = Duration::from_millis(1);
const PAUSE_MAX: Duration = Duration::from_millis(100);

/// Sells at read committed. The version of the row shows that a purchase was overtaken.
pub(in crate::strategy) fn read_committed<'a>(context: &'a Context, call: &'a Call) -> Boxed<'a, Decision> {
    Box::pin(sell(context, call, Isolation::ReadCommitted))
}

/// Sells at serializable. The database detects that a purchase was overtaken.
pub(in crate::strategy) fn serializable<'a>(context: &'a Context, call: &'a Call) -> Boxed<'a, Decision> {
    Box::pin(sell(context, call, Isolation::Serializable))
}

/// Makes at most `attempts_max` attempts, until no other purchase overtakes one. The pauses have random lengths,
/// so that purchases that collided do not collide again.
async fn sell(context: &Context, call: &Call, isolation: Isolation) -> Decision {
    let mut pause_max = PAUSE_MIN;
    for _ in 1..context.shared.settings.attempts_max {
        match attempt(context, call, isolation).await {
            Err(failure) if failure.is(&failure::OVERTAKEN) => {}
            decision => return decision,
        }
        context.metrics.count_retry();
        call.wait(tokio::time::sleep(rand::random_range(Duration::ZERO..=pause_max))).await?;
        pause_max = (pause_max * 2).min(PAUSE_MAX);
    }
    let last = attempt(context, call, isolation).await;
    last.map_err(|failure| if failure.is(&failure::OVERTAKEN) { given_up(context) } else { failure })
}

async fn attempt(context: &Context, call: &Call, isolation: Isolation) -> Decision {
    let mut attempt = Attempt::begin_to_wait(context, call, isolation, call.until).await?;
    let sold = match attempt.read().await {
        Ok(levels) => attempt.overwrite_unchanged(&levels).await,
        Err(failure) => Err(failure),
    };
    attempt.end(sold).await
}

fn given_up(context: &Context) -> Failure {
    let attempts = context.shared.settings.attempts_max;
    let detail = format!("other buyers came first in each of {attempts} attempts; nothing was written");
    Failure::new(&failure::OVERTAKEN, detail)
}
