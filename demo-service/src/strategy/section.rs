//! The critical section that the locks guard: read, decide, do business, overwrite, commit.

use std::sync::OnceLock;
use std::time::Duration;

use tokio::time::{Instant, timeout_at};
use tracing::warn;

use super::{Context, Deduction};
use crate::error::{Failure, Progress};
use crate::stock::store::{NewOrder, SaleTransaction, TransactionId};
use crate::stock::{Decision, Outcome, Sold, decide};

/// How far the transaction of a section has come. It outlives the section, so that whoever stops it can tell whether
/// the commit had been sent.
#[derive(Debug, Default)]
pub struct Progression {
    committing: OnceLock<TransactionId>,
}

/// The pause before a transaction is asked after again.
const SETTLE_POLL: Duration = Duration::from_millis(20);

impl Progression {
    /// How far the transaction has come.
    pub fn get(&self) -> Progress {
        if self.committing.get().is_some() { Progress::Committing } else { Progress::Open }
    }
}

/// Deducts in one transaction that reads the stock, decides, lets the business time pass and overwrites the stock with
/// what it had read minus the quantity. Only a lock around all of it makes that right. Where the outcome is unknown,
/// the lock must be kept until it is [settled](settle).
///
/// # Errors
/// A [`Failure`]; unless it is [`Failure::OutcomeUnknown`], nothing was written.
///
/// # Cancel safety
/// Dropped, nothing was written if `progression` is still [`Progress::Open`]; else the outcome is unknown.
pub async fn read_modify_write(
    context: &Context,
    strategy: &'static str,
    deduction: Deduction,
    began: Instant,
    token: Option<i64>,
    progression: &Progression,
) -> Result<Outcome, Failure> {
    let Deduction { goods_no, quantity } = deduction;
    let section = async {
        let mut transaction = context.store.begin().await?;
        let Some(level) = transaction.read(goods_no).await? else { return Ok(Outcome::UnknownGoods) };
        let Decision::Sell { remaining } = decide(level.on_hand, quantity) else { return Ok(Outcome::SoldOut) };
        context.hold.pass().await;
        if !transaction.overwrite(goods_no, level.sale, remaining).await? {
            return Ok(Outcome::SaleRestarted);
        }
        let instance = &context.instance;
        let order = NewOrder { goods_no, sale: level.sale, quantity, strategy, instance, token };
        let written = transaction.insert_order(order).await?;
        commit(transaction, written.transaction, progression).await?;
        Ok(Outcome::Sold(Sold { order_id: written.order_id, sale: level.sale, remaining, token }))
    };
    bounded(began, context.db_timeout, progression, section).await
}

/// Waits until a commit that was not answered is over. Until then the lock must be kept: the next holder would read the
/// stock from before the commit and overwrite the one from after it. What came of the commit stays unknown; this is
/// only about when.
///
/// It waits as long as the database says that the commit is under way, for which Postgres has no time limit. Where the
/// database cannot be asked, it gives up after twice the database timeout: a commit that has not arrived by then never
/// will, as the server ends an idle transaction after one.
///
/// # Cancel safety
/// Dropped, only the waiting ends.
pub async fn settle(context: &Context, progression: &Progression) {
    let Some(transaction) = progression.committing.get() else { return };
    let patience = 2 * context.db_timeout;
    let mut heard = Instant::now();
    loop {
        match context.store.is_over(transaction).await {
            Ok(true) => return,
            Ok(false) => heard = Instant::now(),
            Err(error) if heard.elapsed() >= patience => {
                warn!(?transaction, %error, "a commit was not answered, and the database could not be asked after it");
                return;
            }
            Err(_) => {}
        }
        tokio::time::sleep(SETTLE_POLL).await;
    }
}

/// Commits, having noted that from here on a failure leaves the outcome open. The last step of every section.
///
/// # Errors
/// Whatever the driver says.
///
/// # Cancel safety
/// Dropped, the outcome is unknown.
pub async fn commit(
    transaction: SaleTransaction,
    id: TransactionId,
    progression: &Progression,
) -> Result<(), sqlx::Error> {
    progression.committing.get_or_init(|| id);
    transaction.commit().await
}

/// Runs a section until `db_timeout` after the deduction began, so that a long wait for a lock leaves it less, and
/// names its failures. The statements have bounds of their own, on the server; this one also holds when the server does
/// not answer at all.
///
/// # Errors
/// A [`Failure`]; unless it is [`Failure::OutcomeUnknown`], nothing was written.
///
/// # Cancel safety
/// That of the section.
pub async fn bounded<T>(
    began: Instant,
    db_timeout: Duration,
    progression: &Progression,
    section: impl Future<Output = Result<T, sqlx::Error>>,
) -> Result<T, Failure> {
    match timeout_at(began + db_timeout, section).await {
        Ok(result) => result.map_err(|error| Failure::of_database(error, progression.get())),
        Err(_) => Err(Failure::of_database_timeout(db_timeout, progression.get())),
    }
}
