//! `zk-rwlock`: buyers take the write lock, and a look takes the read lock.

use tokio::time::timeout_at;
use zk_recipes::{AnyLock, RwLock, Session};

use super::Locks;
use super::held::{LockKind, UnderLocks};
use crate::failure::Failure;
use crate::sale::{Goods, GoodsNo};
use crate::strategy::attempt::overwrite_alone;
use crate::strategy::call::Call;
use crate::strategy::{Boxed, Decided, Strategy};

/// The strategy.
pub(in crate::strategy) struct ZkReadWriteLock {
    write: UnderLocks<Locks>,
}

impl ZkReadWriteLock {
    pub(in crate::strategy) fn new(write: Locks) -> Self {
        Self { write: UnderLocks::new(write, overwrite_alone) }
    }

    async fn look(&self, goods_no: GoodsNo, call: &Call) -> Result<Option<Goods>, Failure> {
        let locks = &self.write.locks;
        let read_lock =
            |session: &Session, goods_no| Ok(AnyLock::from(RwLock::new(session, &locks.path(goods_no))?.read_lock()));
        let context = locks.context();
        let held = locks.acquire_by(&[goods_no], read_lock, context.lock_until(call), &call.client).await?;
        let looked = held.run_part(call.until, context.shared.store.look(goods_no)).await;
        // At the deadline, the release goes on in the background.
        timeout_at(call.until, held.release()).await.ok();
        looked
    }
}

impl Strategy for ZkReadWriteLock {
    fn purchase<'a>(&'a self, call: &'a Call) -> Boxed<'a, Decided<'a>> {
        self.write.purchase(call)
    }

    fn look_locked<'a>(
        &'a self,
        goods_no: GoodsNo,
        call: &'a Call,
    ) -> Option<Boxed<'a, Result<Option<Goods>, Failure>>> {
        Some(Box::pin(self.look(goods_no, call)))
    }
}
