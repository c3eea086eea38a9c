//! `zk-semaphore`: `pg-conditional` behind a semaphore. The permits bound how many buyers of a SKU are in the
//! database. The row decides, so nothing is oversold whatever happens to the permits.

use super::section::{Fences, Section, do_business_first};
use super::zk_hold::Locks;
use super::{Boxed, Call, Context, Decided, Decision, Strategy};
use crate::store::Isolation;

/// The strategy.
pub(super) struct ZkSemaphore {
    locks: Locks,
}

impl ZkSemaphore {
    pub(super) fn new(locks: Locks) -> Self {
        Self { locks }
    }

    async fn sell(&self, call: &Call, fences: Fences) -> Decision {
        let context = self.context();
        do_business_first(context, call).await?;
        let section = Section::begin_to_wait(context, call, Isolation::ReadCommitted, call.until).await?;
        let mut section = section.with_fences(fences);
        let sold = section.take().await;
        section.end(sold).await
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
