//! One batch: decided, written and committed, or not at all.

use crate::buyer::refuse;
use crate::{Buyer, Candidate, DecisionOf, Refusal, Worker};

/// The transaction that sells a batch. Either nobody else can write the stock of the SKU, or the write is refused if somebody else
/// has written it.
pub trait BatchTransaction<C: Candidate>: Send {
    /// Decides the batch, and writes what it sells. Returns for each buyer what the commit of its order sends, or `None` if it gets
    /// none.
    ///
    /// # Errors
    /// Why nothing is written. The purchases are not decided.
    fn write(&mut self, batch: &[Buyer<C>]) -> impl Future<Output = Result<Vec<Option<C::Sent>>, C::Refusal>> + Send;

    /// Commits what was written.
    ///
    /// # Errors
    /// Why nothing is committed, or why nobody knows.
    fn commit(&mut self) -> impl Future<Output = Result<(), C::Refusal>> + Send;

    /// Ends the transaction without a commit.
    fn roll_back(&mut self) -> impl Future<Output = ()> + Send;

    /// Returns the decision of each buyer. `committed` is the commit, whose outcome may be unknown. Without an order there was none
    /// to make, and it is `Ok`.
    fn decisions(&mut self, batch: &[Buyer<C>], committed: Result<(), C::Refusal>) -> Vec<DecisionOf<C>>;
}

/// Takes the next batch and sells it. Answers the batch, puts it back or divides it. If the row was locked until the first of them gave
/// up, buyers whose deadline has passed are refused as `late`.
///
/// # Cancel safety
/// Dropped, the buyers of the batch stay undecided. If their commit was noted, it may have been sent.
pub async fn sell<C: Candidate>(worker: &mut Worker<C>, transaction: &mut impl BatchTransaction<C>, late: &C::Refusal) {
    let mut batch = worker.take();
    batch.retain(Buyer::is_waiting);
    if batch.is_empty() {
        // All of them have gone while the transaction began.
        return transaction.roll_back().await;
    }
    match transact(&batch, transaction).await {
        Ok(decisions) => batch.into_iter().zip(decisions).for_each(|(buyer, decision)| buyer.answer(decision)),
        // The row was locked until the first of them gave up. The others wait for it again.
        Err(refusal) if refusal.is_lock_timeout() && earliest(&batch) <= C::now() => {
            worker.put_back(batch, late);
        }
        Err(refusal) if batch.len() == 1 || refusal.concerns_all() => refuse(batch, &refusal),
        // One purchase has stopped the batch: its key is in use elsewhere, for example, or its buyer gave up before the commit.
        Err(_) => worker.divide(batch),
    }
}

/// Decides a batch, writes it and commits. Returns a decision for each buyer, or why nothing was committed.
async fn transact<C: Candidate>(
    batch: &[Buyer<C>],
    transaction: &mut impl BatchTransaction<C>,
) -> Result<Vec<DecisionOf<C>>, C::Refusal> {
    let sent = match transaction.write(batch).await {
        Ok(sent) => sent,
        Err(refusal) => {
            transaction.roll_back().await;
            return Err(refusal);
        }
    };
    assert_eq!(sent.len(), batch.len(), "BUG: a transaction has not decided for each buyer");
    let sold = || batch.iter().zip(&sent).filter_map(|(buyer, sent)| Some((buyer, sent.as_ref()?)));
    if sold().next().is_none() {
        transaction.roll_back().await;
        return Ok(transaction.decisions(batch, Ok(())));
    }
    if !sold().all(|(buyer, sent)| buyer.note_sent(sent.clone())) {
        sold().for_each(|(buyer, _)| buyer.note_rollback());
        transaction.roll_back().await;
        return Err(C::Refusal::client_gone());
    }
    let committed = transaction.commit().await;
    if let Err(refusal) = &committed
        && !refusal.leaves_unknown()
    {
        sold().for_each(|(buyer, _)| buyer.note_rollback());
        return Err(refusal.clone());
    }
    Ok(transaction.decisions(batch, committed))
}

/// Returns when the first of the buyers of a batch gives up.
///
/// # Panics
/// If the batch has no buyer.
pub fn earliest<C: Candidate>(batch: &[Buyer<C>]) -> C::Instant {
    batch.iter().map(|buyer| buyer.request.until()).min().expect("BUG: a batch without a buyer")
}
