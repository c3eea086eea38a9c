//! `zk-semaphore`: `pg-conditional` behind a semaphore. The permits bound how many buyers of a SKU are in the
//! database. The row decides, so nothing is oversold whatever happens to the permits.

use crate::store::Isolation;
use crate::strategy::attempt::{Attempt, Fences, do_business_first};
use crate::strategy::call::Call;
use crate::strategy::context::Context;
use crate::strategy::lock::Locks;
use crate::strategy::{Boxed, Decided, Decision, Strategy};

/// The strategy.
pub(in crate::strategy) struct ZkSemaphore {
    locks: Locks,
}

impl ZkSemaphore {
    pub(in crate::strategy) fn new(locks: Locks) -> Self {
        Self { locks }
    }

    async fn sell(&self, call: &Call, fences: Fences) -> Decision {
        let context = self.context();
        do_business_first(context, call).await?;
        let attempt = Attempt::begin_to_wait(context, call, Isolation::ReadCommitted, call.until).await?;
        let mut attempt = attempt.with_fences(fences);
        let sold = attempt.take().await;
        attempt.end(sold).await
    }
}

impl Strategy for ZkSemaphore {
    fn purchase<'a>(&'a self, call: &'a Call) -> Boxed<'a, Decided<'a>> {
        Box::pin(self.locks.purchase(call, |fences| self.sell(call, fences)))
    }

    fn context(&self) -> &Context {
        self.locks.context()
    }
}
