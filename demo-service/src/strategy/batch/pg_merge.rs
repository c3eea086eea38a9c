//! `pg-merge`: one transaction for all buyers of a SKU who arrived during the last one (group commit).
//!
//! A row lock lasts until the commit is on disk. So a SKU that is sold by one transaction a buyer sells at most one unit in
//! the time of a commit. Here a transaction locks the row, takes all buyers that wait in this instance by then, and
//! decides them in the order of their arrival. It writes the stock once and all orders with one statement, and commits. The
//! more buyers wait, the larger is the batch.

use std::future::pending;
use std::sync::Arc;

use tokio::time::Instant;

use super::{Begun, Next, Shop, Turn};
use crate::failure::Failure;
use crate::sale::GoodsNo;
use crate::store::{Isolation, LockWait};
use crate::strategy::attempt::within_grace;
use crate::strategy::call::Call;
use crate::strategy::context::Context;
use crate::strategy::{Boxed, Decided, Strategy};

/// The strategy.
pub(in crate::strategy) struct PgMerge {
    shop: Arc<Shop<RowLock>>,
}

/// The turn of the transaction that has locked the row. The commit ends it.
struct RowLock(Context);

impl PgMerge {
    pub(in crate::strategy) fn new(context: Context) -> Self {
        Self { shop: Shop::new(RowLock(context)) }
    }
}

impl Turn for RowLock {
    fn context(&self) -> &Context {
        &self.0
    }

    async fn begin(&self, goods_no: GoodsNo, _sale: i64, until: Instant) -> Result<Next<'_>, Failure> {
        let lock = async {
            let wait = LockWait { goods: vec![goods_no], until };
            let mut transaction = self.0.shared.store.begin(Isolation::ReadCommitted, Some(wait)).await?;
            let level = transaction.read_for_update(goods_no).await;
            match level.and_then(|level| level.ok_or_else(|| Failure::unknown_goods(goods_no))) {
                Ok(level) => {
                    let (lost, end) = (Box::pin(pending()), None);
                    Ok(Next::Sell(Box::new(Begun { transaction, level, fence: None, lost, end })))
                }
                Err(failure) => {
                    transaction.roll_back().await;
                    Err(failure)
                }
            }
        };
        within_grace(&self.0, until, lock).await
    }
}

impl Strategy for PgMerge {
    fn purchase<'a>(&'a self, call: &'a Call) -> Boxed<'a, Decided<'a>> {
        self.shop.purchase(call)
    }
}
