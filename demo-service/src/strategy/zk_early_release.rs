//! `zk-mutex-early-release`: a control, and the mistake of many tutorials. The lock is released before the commit, so
//! the next buyer reads the stock from before that commit.

use super::section::{Section, note_order};
use super::zk_hold::{Held, Locks};
use super::{Boxed, Call, Context, Decided, Decision, Strategy};

/// The strategy.
pub(super) struct ZkEarlyRelease {
    locks: Locks,
}

impl ZkEarlyRelease {
    pub(super) fn new(locks: Locks) -> Self {
        Self { locks }
    }

    async fn sell(&self, call: &Call, held: Held<'_>) -> Decision {
        let mut section = Section::begin(self.context(), call, held.fences()).await?;
        let mut visit = held.visit(call);
        let written = held.guard(
            call,
            Box::pin(async {
                let sold = section.overwrite().await?;
                section.write_order(sold).await
            }),
        );
        let written = written.await;
        held.release().await;
        let decision = match written {
            Ok(written) => section.commit(written).await,
            Err(failure) => section.end(Err(failure)).await,
        };
        note_order(&mut visit, &decision);
        decision
    }
}

impl Strategy for ZkEarlyRelease {
    fn purchase<'a>(&'a self, call: &'a Call) -> Boxed<'a, Decided<'a>> {
        Box::pin(async move {
            let held = match self.locks.acquire(call).await {
                Ok(held) => held,
                Err(failure) => return Err(failure).into(),
            };
            call.decide(self.sell(call, held)).await
        })
    }

    fn context(&self) -> &Context {
        self.locks.context()
    }
}
