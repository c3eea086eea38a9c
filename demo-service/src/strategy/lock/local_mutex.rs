//! `local-mutex`: a control. A mutex in the memory of the instance is held around read, decide and overwrite. Other
//! instances do not see the mutex.

use std::collections::HashMap;
use std::sync::Arc;

use tokio::sync::{Mutex, OwnedMutexGuard};
use tokio::time::{Instant, timeout_at};

use crate::failure::Failure;
use crate::sale::{GoodsNo, Receipt};
use crate::strategy::attempt::{Fences, note_order, overwrite_alone, visit};
use crate::strategy::call::Call;
use crate::strategy::context::Context;
use crate::strategy::settle::settle;
use crate::strategy::{Boxed, Decided, Strategy};
use crate::telemetry::clock::Moment;

/// The strategy.
pub(in crate::strategy) struct LocalMutex {
    context: Context,
    /// One mutex for each SKU that a purchase has asked for here. Unknown SKUs are refused before, so the map is
    /// never larger than the table of goods.
    mutexes: parking_lot::Mutex<HashMap<GoodsNo, Arc<Mutex<()>>>>,
}

impl LocalMutex {
    pub(in crate::strategy) fn new(context: Context) -> Self {
        Self { context, mutexes: parking_lot::Mutex::default() }
    }

    fn mutex(&self, goods_no: GoodsNo) -> Arc<Mutex<()>> {
        Arc::clone(self.mutexes.lock().entry(goods_no).or_default())
    }

    /// Waits for all mutexes of a cart, until the deadline for the lock.
    async fn acquire(&self, call: &Call) -> Result<Vec<OwnedMutexGuard<()>>, Failure> {
        let acquire = async {
            let mut held = Vec::new();
            for goods_no in call.purchase.cart.goods_in_order(self.context.shared.settings.lock_order) {
                held.push(self.mutex(goods_no).lock_owned().await);
            }
            held
        };
        let acquire = call.wait(timeout_at(self.context.lock_until(call), acquire));
        let acquired = self.context.metrics.waiting(acquire).await?;
        acquired.map_err(|_| self.context.lock_timeout())
    }
}

impl Strategy for LocalMutex {
    fn purchase<'a>(&'a self, call: &'a Call) -> Boxed<'a, Decided<'a>> {
        Box::pin(async move {
            let asked = Moment::now();
            let held = match self.acquire(call).await {
                Ok(held) => held,
                Err(failure) => return Err(failure).into(),
            };
            let granted = Instant::now();
            let fences = Fences::default();
            let mut visit = visit(&self.context, call.purchase.cart.lines(), &fences, asked);
            let decision = call.in_time(overwrite_alone(&self.context, call, fences)).await;
            note_order(&mut visit, &decision);
            // The section ends here. The wait for an unanswered commit keeps the mutex, and is no part of the section.
            drop(visit);
            let release = async move {
                settle(&self.context, call).await;
                self.context.metrics.record_hold(granted.elapsed());
                drop(held);
            };
            Decided { decision: decision.map(Receipt::Order), release: Some(Box::pin(release)) }
        })
    }
}
