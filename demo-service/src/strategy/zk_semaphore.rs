//! `zk-semaphore`: `pg-conditional` behind a semaphore. Its permits bound how many buyers of a SKU are in the database; the
//! row decides, so nothing is oversold whatever happens to the permits.

use super::section::Section;
use super::zk_hold::Locks;
use super::{Boxed, Call, Context, Decided, Decision, Strategy};
use crate::sale::{GoodsNo, Token};
use crate::store::Isolation;

/// The strategy.
pub(super) struct ZkSemaphore {
    locks: Locks,
}

impl ZkSemaphore {
    pub(super) fn new(locks: Locks) -> Self {
        Self { locks }
    }

    async fn sell(&self, call: &Call, tokens: &[(GoodsNo, Token)]) -> Decision {
        let section = Section::begin(self.context(), call, Isolation::ReadCommitted).await?;
        let mut section = section.with_tokens(tokens);
        let sold = section.take().await;
        section.end(sold).await
    }
}

impl Strategy for ZkSemaphore {
    fn purchase<'a>(&'a self, call: &'a Call) -> Boxed<'a, Decided<'a>> {
        Box::pin(async move {
            let held = match self.locks.acquire(call).await {
                Ok(held) => held,
                Err(failure) => return Err(failure).into(),
            };
            let decision = held.run(call, Box::pin(self.sell(call, held.tokens()))).await;
            held.release_behind(call, decision)
        })
    }

    fn context(&self) -> &Context {
        self.locks.context()
    }
}
