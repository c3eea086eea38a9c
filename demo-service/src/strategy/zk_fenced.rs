//! `zk-mutex-fenced`, `zk-handoff-fenced` and `zk-cohort-fenced`: a lock in ZooKeeper, and a fence in the row. The read
//! raises the fence to the token of the hold, and the write checks it. A holder that was overtaken cannot write, so nothing
//! is oversold whatever happens to processes and networks.
//!
//! The fence is raised in a transaction of its own, before the business time: otherwise its row lock would guard the
//! purchase better than the lock that is to be measured.

use super::section::{Section, fenced, writable};
use super::zk_hold::Locks;
use super::{Boxed, Call, Context, Decided, Decision, Strategy};
use crate::failure::Failure;
use crate::sale::{GoodsNo, Level, Token};
use crate::store::Isolation;

/// The strategy, for any exclusive lock.
pub(super) struct ZkFenced {
    locks: Locks,
}

impl ZkFenced {
    pub(super) fn new(locks: Locks) -> Self {
        Self { locks }
    }

    async fn sell(&self, call: &Call, tokens: &[(GoodsNo, Token)]) -> Decision {
        let levels = self.raise_fences(call, tokens).await?;
        let section = Section::begin(self.context(), call, Isolation::ReadCommitted).await?;
        let mut section = section.with_tokens(tokens);
        let sold = section.overwrite_fenced(&levels).await;
        section.end(sold).await
    }

    /// Reads what is left of each SKU, in the order of the SKUs, and raises its fence.
    async fn raise_fences(&self, call: &Call, tokens: &[(GoodsNo, Token)]) -> Result<Vec<Level>, Failure> {
        let mut tokens = tokens.to_vec();
        tokens.sort_unstable_by_key(|(goods_no, _)| *goods_no);
        let mut levels = Vec::with_capacity(tokens.len());
        for (goods_no, token) in tokens {
            // A client that has gone raises no fence.
            let level = call.wait(self.context().store.raise_fence(goods_no, token)).await??;
            levels.push(writable(self.context(), goods_no, Some(level.ok_or_else(fenced)?))?);
        }
        Ok(levels)
    }
}

impl Strategy for ZkFenced {
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
