//! A mutex in the memory of the instance.

use std::collections::HashMap;
use std::sync::{Arc, PoisonError};

use tokio::sync::Mutex;

use super::section::{Progression, read_modify_write};
use super::{Context, Deducting, Deduction, DeductionStrategy, registry::Entry};
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
}

impl DeductionStrategy for LocalMutex {
    fn deduct(&self, deduction: Deduction) -> Deducting<'_> {
        Box::pin(async move {
            let mutex = self.mutex(deduction.goods_no);
            let waited = self.context.lock_wait;
            let held = self.context.timed(tokio::time::timeout(waited, mutex.lock())).await;
            let held = held.map_err(|_| Failure::LockTimeout { waited })?;
            let progression = Progression::default();
            let outcome = read_modify_write(&self.context, self.entry.name, deduction, None, &progression).await;
            drop(held);
            outcome
        })
    }
}
