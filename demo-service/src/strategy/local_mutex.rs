//! A mutex in the memory of the instance.

use std::collections::HashMap;
use std::sync::{Arc, PoisonError};

use tokio::sync::{Mutex, OwnedMutexGuard};
use tokio::time::{Instant, timeout};

use super::section::{Progression, read_modify_write, settle};
use super::{Context, Deducting, Deduction, DeductionStrategy, Ended, registry::Entry};
use crate::error::Failure;
use crate::stock::GoodsNo;

struct LocalMutex {
    entry: &'static Entry,
    context: Context,
    /// One a SKU that was ever bought here. Unknown SKUs are refused before they come here, so it does not outgrow the
    /// table of goods.
    mutexes: std::sync::Mutex<HashMap<GoodsNo, Arc<Mutex<()>>>>,
}

/// Makes the strategy.
pub(super) fn build(entry: &'static Entry, context: Context) -> Box<dyn DeductionStrategy> {
    Box::new(LocalMutex { entry, context, mutexes: std::sync::Mutex::default() })
}

impl LocalMutex {
    fn mutex(&self, goods_no: GoodsNo) -> Arc<Mutex<()>> {
        let mut mutexes = self.mutexes.lock().unwrap_or_else(PoisonError::into_inner);
        Arc::clone(mutexes.entry(goods_no).or_default())
    }

    async fn acquire(&self, goods_no: GoodsNo, began: Instant) -> Result<OwnedMutexGuard<()>, Failure> {
        let wait = self.context.lock_wait_left(began);
        let held = self.context.timed(timeout(wait, self.mutex(goods_no).lock_owned())).await;
        held.map_err(|_| Failure::LockTimeout { waited: self.context.lock_wait })
    }

    async fn deduct_guarded(&self, deduction: Deduction, began: Instant) -> Ended<'_> {
        let held = match self.acquire(deduction.goods_no, began).await {
            Ok(held) => held,
            Err(failure) => return Err(failure).into(),
        };
        let (context, name) = (&self.context, self.entry.name);
        let progression = Progression::default();
        let result = read_modify_write(context, name, deduction, began, None, &progression).await;
        if matches!(result, Err(Failure::OutcomeUnknown(_))) {
            return Ended::with_aftermath(result, async move {
                settle(context, &progression).await;
                drop(held);
            });
        }
        drop(held);
        result.into()
    }
}

impl DeductionStrategy for LocalMutex {
    fn deduct(&self, deduction: Deduction, began: Instant) -> Deducting<'_> {
        Box::pin(self.deduct_guarded(deduction, began))
    }
}
