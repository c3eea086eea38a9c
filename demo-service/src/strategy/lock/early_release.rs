//! `zk-mutex-early-release`: a control, and the mistake of many tutorials. The lock is released before the commit, so
//! the next buyer reads the stock from before that commit.

use crate::strategy::attempt::{Attempt, note_order};
use crate::strategy::call::Call;
use crate::strategy::lock::held::{Held, LockKind};
use crate::strategy::lock::{Locks, ZkHold};
use crate::strategy::{Boxed, Decided, Decision, Strategy};

/// The strategy.
pub(in crate::strategy) struct ZkEarlyRelease {
    locks: Locks,
}

impl ZkEarlyRelease {
    pub(in crate::strategy) fn new(locks: Locks) -> Self {
        Self { locks }
    }

    async fn sell(&self, call: &Call, held: Held<'_, ZkHold>) -> Decision {
        let mut attempt = Attempt::begin(self.locks.context(), call, held.fences()).await?;
        let mut visit = held.visit(call);
        let written = held.run_part(
            call.until,
            Box::pin(async {
                let sold = attempt.overwrite().await?;
                attempt.write_order(sold).await
            }),
        );
        let written = written.await;
        held.release().await;
        let decision = match written {
            Ok(written) => attempt.commit(written).await,
            Err(failure) => attempt.end(Err(failure)).await,
        };
        note_order(&mut visit, &decision);
        decision
    }
}

impl Strategy for ZkEarlyRelease {
    fn purchase<'a>(&'a self, call: &'a Call) -> Boxed<'a, Decided<'a>> {
        Box::pin(async move {
            match self.locks.acquire_for(call).await {
                Ok(held) => call.decide(Box::pin(self.sell(call, held))).await,
                Err(failure) => Err(failure).into(),
            }
        })
    }
}
