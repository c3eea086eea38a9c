//! A mutex in the memory of the instance.

use std::collections::HashMap;
use std::sync::Arc;

use tokio::sync::{Mutex, OwnedMutexGuard};
use tokio::time::{Instant, timeout};

use super::access::Access;
use super::section::Section;
use super::{Call, Context, Deducting, DeductionStrategy, Ended, Looking};
use crate::clock::Moment;
use crate::error::Failure;
use crate::purchase::Purchase;
use crate::stock::GoodsNo;

struct LocalMutex {
    context: Context,
    /// One a SKU that was ever bought here. Unknown SKUs are refused before they come here, so it does not outgrow the
    /// table of goods.
    mutexes: parking_lot::Mutex<HashMap<GoodsNo, Arc<Mutex<()>>>>,
}

/// Makes the strategy.
pub(super) fn build(context: Context) -> Box<dyn DeductionStrategy> {
    Box::new(LocalMutex { context, mutexes: parking_lot::Mutex::default() })
}

impl LocalMutex {
    fn mutex(&self, goods_no: GoodsNo) -> Arc<Mutex<()>> {
        Arc::clone(self.mutexes.lock().entry(goods_no).or_default())
    }

    /// Waits for the mutexes of a cart, all within the time for the lock.
    async fn acquire(&self, purchase: &Purchase, call: Call<'_>) -> Result<Vec<OwnedMutexGuard<()>>, Failure> {
        let acquire = async {
            let mut held = Vec::new();
            for line in purchase.cart.in_order(self.context.lock_order) {
                held.push(self.mutex(line.goods_no).lock_owned().await);
            }
            held
        };
        let acquire = call.wait(timeout(self.context.lock_wait_left(call), acquire));
        let acquired = self.context.metrics.waiting(acquire).await;
        acquired.map_err(|_| Failure::ClientGone)?.map_err(|_| self.context.lock_timeout())
    }

    async fn deduct_guarded<'a>(&'a self, purchase: &'a Purchase, call: Call<'a>) -> Ended<'a> {
        let asked = Moment::now();
        let held = match self.acquire(purchase, call).await {
            Ok(held) => held,
            Err(failure) => return Err(failure).into(),
        };
        let granted = Instant::now();
        let section = Section::new(&self.context, Access::Overwrite, purchase, call).guarded(asked, Vec::new());
        let result = section.run().await;
        let metrics = &self.context.metrics;
        if matches!(result, Err(Failure::OutcomeUnknown(_))) {
            return Ended::with_aftermath(result, async move {
                section.settle().await;
                metrics.record_hold(granted.elapsed());
                drop(held);
            });
        }
        metrics.record_hold(granted.elapsed());
        drop(held);
        result.into()
    }
}

impl DeductionStrategy for LocalMutex {
    fn deduct<'a>(&'a self, purchase: &'a Purchase, call: Call<'a>) -> Deducting<'a> {
        Box::pin(self.deduct_guarded(purchase, call))
    }

    fn look<'a>(&'a self, goods_no: GoodsNo, call: Call<'a>) -> Looking<'a> {
        Box::pin(self.context.look(goods_no, call))
    }
}
