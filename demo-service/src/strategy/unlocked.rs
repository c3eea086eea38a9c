//! No lock but the database's own, or none at all.

use std::time::Duration;

use super::access::Access;
use super::section::{Section, Stop};
use super::{Call, Context, Deducting, DeductionStrategy, Looking};
use crate::purchase::Purchase;
use crate::stock::{GoodsNo, Outcome};

/// The longest pause before the second attempt; it doubles with each further one, up to [`PAUSE_MAX`].
const PAUSE_MIN: Duration = Duration::from_millis(1);
const PAUSE_MAX: Duration = Duration::from_millis(100);

struct Unlocked {
    context: Context,
    access: Access,
}

/// Makes the strategy that deducts by `access`.
pub(super) fn build(context: Context, access: Access) -> Box<dyn DeductionStrategy> {
    Box::new(Unlocked { context, access })
}

impl Unlocked {
    /// Tries until nobody came between, with pauses of random lengths, so that those who met once do not meet again.
    async fn attempts(&self, section: &Section<'_>, call: Call<'_>) -> Result<Outcome, Stop> {
        let mut pause_max = PAUSE_MIN;
        for _ in 1..self.context.attempts_max {
            match section.attempt().await {
                Err(stop) if is_overtaken(&stop) => section.reopen(),
                ended => return ended,
            }
            self.context.metrics.count_retry();
            let pause = rand::random_range(Duration::ZERO..=pause_max);
            call.wait(tokio::time::sleep(pause)).await?;
            pause_max = (pause_max * 2).min(PAUSE_MAX);
        }
        section.attempt().await.map_err(|stop| if is_overtaken(&stop) { Stop::Overtaken } else { stop })
    }
}

/// Whether somebody else came between, and another attempt may succeed. The database says so by a serialization failure
/// or by breaking a deadlock; either way it has rolled back.
fn is_overtaken(stop: &Stop) -> bool {
    match stop {
        Stop::Overtaken => true,
        Stop::Database(error) => {
            let code = error.as_database_error().and_then(|refusal| refusal.code());
            matches!(code.as_deref(), Some("40001" | "40P01"))
        }
        _ => false,
    }
}

impl DeductionStrategy for Unlocked {
    fn deduct<'a>(&'a self, purchase: &'a Purchase, call: Call<'a>) -> Deducting<'a> {
        Box::pin(async move {
            let section = Section::new(&self.context, self.access, purchase, call);
            // There is no lock to keep, so an unknown outcome is not settled.
            section.bounded(self.attempts(&section, call)).await.into()
        })
    }

    fn look<'a>(&'a self, goods_no: GoodsNo, call: Call<'a>) -> Looking<'a> {
        Box::pin(self.context.look(goods_no, call))
    }
}
