//! The wait for a commit that was not answered.

use std::time::Duration;

use tokio::time::{Instant, sleep};
use tracing::warn;

use super::call::Call;
use super::context::Context;
use crate::store::Store;

/// The pause before the database is asked again whether a commit is over.
const PAUSE: Duration = Duration::from_millis(20);

/// The pause after a question without an answer, which may have cost a connection. [`silence`] counts in pauses of
/// this length.
const LONG_PAUSE: Duration = Duration::from_millis(100);

/// How often the log says that a lock is still kept.
const TELL_EVERY: Duration = Duration::from_secs(10);

/// Waits until a commit that was not answered is over. Until then the lock must be kept. Otherwise the next holder
/// would read the stock from before the commit, and overwrite the stock from after it. The outcome of the commit
/// stays unknown.
///
/// Postgres has no time limit for a commit, so the wait goes on as long as the database answers anything on any
/// connection. A refused question is asked again. If the database is silent for twice `--db-timeout`, the lock is
/// released. A commit that reached the server and outlasts that silence may collide with the next holder. Every
/// strategy whose row does not check the write has this gap.
pub(super) async fn settle(context: &Context, call: &Call) {
    let Some(order) = call.unanswered_order() else { return };
    let over = async {
        let mut told = Instant::now();
        loop {
            let pause = match context.shared.store.is_over(&order.transaction).await {
                Ok(true) => return,
                Ok(false) => PAUSE,
                Err(_) => LONG_PAUSE,
            };
            if told.elapsed() >= TELL_EVERY {
                told = Instant::now();
                warn!(order_id = order.order_id, "a lock is kept, because nobody can say that a commit is over");
            }
            sleep(pause).await;
        }
    };
    let patience = 2 * context.shared.settings.db_timeout;
    tokio::select! {
        biased;
        () = over => {}
        () = silence(&context.shared.store, patience) => {
            let order_id = order.order_id;
            warn!(order_id, ?patience, "a commit was not answered, and the database was silent: the lock is released");
        }
    }
}

/// Waits until the database has been silent for `patience` since this call. Each pause counts as [`LONG_PAUSE`],
/// however long it took. So a process that was stopped in the meantime listens again before it gives up.
async fn silence(store: &Store, patience: Duration) {
    let mut silent = Duration::ZERO;
    while silent < patience {
        sleep(LONG_PAUSE).await;
        silent = store.silent_for().min(silent + LONG_PAUSE);
    }
}
