//! `pg-merge`: a batch for each lock of the row (group commit).
//!
//! A row lock lasts until the commit is on disk. So a SKU that is sold by one transaction a buyer sells at most one unit in
//! the time of a commit. Here a transaction locks the row, takes all buyers that wait in this instance by then, and
//! decides them in the order of their arrival. It writes the stock once and all orders with one statement, and commits. The
//! more buyers wait, the larger is the batch.

use std::future::pending;

use batch_queue::Worker;

use super::{BatchRequest, Begun, WriteRight, sell};
use crate::failure::Failure;
use crate::store::{Isolation, LockWait};
use crate::strategy::attempt::within_grace;
use crate::strategy::context::Context;

/// The lock of the row is the right to write. The commit or the rollback ends it.
pub(in crate::strategy) struct PgMerge;

impl WriteRight for PgMerge {
    async fn serve(&self, context: &Context, worker: &mut Worker<BatchRequest>) -> Result<(), Failure> {
        let lock = within_grace(context, worker.until(), lock_row(context, worker));
        let begun = context.until_closing(lock).await?;
        sell(context, worker, begun, pending()).await;
        Ok(())
    }
}

/// Begins a transaction, and locks the row.
async fn lock_row(context: &Context, worker: &Worker<BatchRequest>) -> Result<Begun, Failure> {
    let goods_no = worker.sku();
    let until = worker.until();
    let wait = LockWait { goods: vec![goods_no], until, shares_sales: false };
    let mut transaction = context.shared.store.begin(Isolation::ReadCommitted, Some(wait)).await?;
    let level = transaction.read_for_update(goods_no).await;
    match level.and_then(|level| level.ok_or_else(|| Failure::unknown_goods(goods_no))) {
        Ok(level) => Ok(Begun { transaction, level, fence: None }),
        Err(failure) => {
            transaction.roll_back().await;
            Err(failure)
        }
    }
}
