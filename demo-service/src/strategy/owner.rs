//! `zk-owner`: one instance owns a SKU. It remembers the stock, so a batch is one statement and a commit. All other instances
//! hand their buyers over to the owner, in batches.
//!
//! Each batch is written under the token of the owner's term. A later owner raises the fence before it reads the stock. After
//! that, the row refuses the batches of the earlier owner.
//!
//! An owner sells its batches one after the other. The update of the next batch would wait for the row until the commit of the
//! last one.

mod election;
mod hand_over;
mod reachable;
mod take_over;

use std::sync::Arc;

use batch_queue::Worker;
use futures_util::stream::BoxStream;
use tokio::sync::OwnedRwLockReadGuard;
use tokio::time::{Instant, timeout};

use self::election::{Elections, Owner, Term};
pub(crate) use self::reachable::until_reachable;
use super::batch::{BatchRequest, Batches, Begun, WriteRight, level_under_fence, sell};
use super::call::Call;
use super::context::Context;
use super::{Boxed, Decided, Strategy};
use crate::failure::{self, Failure};
use crate::instances::{Batch, BatchReply};
use crate::sale::GoodsNo;
use crate::store::Isolation;

/// The name of the strategy, of its family, and of the folder of its elections. Its instances hand purchases over to each other.
pub(crate) const NAME: &str = "zk-owner";

/// The strategy.
pub(super) struct ZkOwner {
    batches: Arc<Batches<Arc<Elections>>>,
}

impl ZkOwner {
    pub(super) fn new(context: Context) -> Self {
        Self { batches: Batches::new(context.clone(), Elections::new(context)) }
    }
}

impl Strategy for ZkOwner {
    fn purchase<'a>(&'a self, call: &'a Call) -> Boxed<'a, Decided<'a>> {
        self.batches.purchase(call)
    }

    fn take_over(&self, batch: Batch) -> Option<BoxStream<'static, BatchReply>> {
        take_over::take_over(&self.batches, batch)
    }
}

impl WriteRight for Arc<Elections> {
    async fn serve(&self, context: &Context, worker: &mut Worker<BatchRequest>) -> Result<(), Failure> {
        let goods_no = worker.sku();
        let sale = worker.sale();
        let until = worker.until();
        match context.until_closing(self.owner(goods_no, until)).await? {
            Owner::Here(term) => {
                let begin = begin(context, &term, goods_no, sale, until);
                let (in_progress, begun) = context.until_closing(begin).await?;
                if let Some(left) = sell(context, worker, begun, term.loss()).await {
                    term.note_level(goods_no, left);
                }
                // From here on the term may end.
                drop(in_progress);
            }
            Owner::At(owner) => {
                // From here on this instance waits for the other one.
                let away = worker.go_away();
                let permit = context.until_closing(self.permit(goods_no, until)).await?;
                // The owner may have changed meanwhile. Then the worker asks again.
                if self.is_at(goods_no, &owner) {
                    self.hand_over(worker, away, &owner, permit).await;
                }
            }
        }
        Ok(())
    }
}

/// Begins the transaction of a batch of a term, which does not end before the batch. Waits for the row until `until`.
async fn begin(
    context: &Context,
    term: &Term,
    goods_no: GoodsNo,
    sale: i64,
    until: Instant,
) -> Result<(OwnedRwLockReadGuard<()>, Begun), Failure> {
    let in_progress = term.join_batch().await;
    let begun = async {
        let level = match term.take_level(goods_no).filter(|level| level.sale >= sale) {
            Some(level) => level,
            None => level_under_fence(context, goods_no, sale, term.fence, until).await?,
        };
        let transaction = context.shared.store.begin(Isolation::ReadCommitted, None).await?;
        Ok(Begun { transaction, level, fence: Some(term.fence) })
    };
    let begun = tokio::select! {
        // If the term is lost, a refusal by the fence says nothing about the row.
        biased;
        lost = term.loss() => Err(lost),
        begun = timeout(context.shared.settings.db_timeout, begun) => {
            begun.unwrap_or_else(|_| Err(Failure::database_unavailable()))
        }
    };
    // Another instance may reach the database. A fence is no such reason: a term that is over was lost before a later one could
    // raise it. If this term is not over, the fence is of another ensemble, or of an earlier age of this one, and concerns its
    // SKU only.
    if begun.as_ref().is_err_and(|failure| failure.is(&failure::DATABASE_UNAVAILABLE)) {
        term.resign();
    }
    Ok((in_progress, begun?))
}
