//! `zk-mutex`, `zk-multi`, `zk-handoff`, `zk-cohort`, `zk-cohort-linger`, `zk-naive`, `zk-semaphore-mutex` and `zk-rwlock`: a
//! lock in ZooKeeper around read, decide and overwrite. Only the lock keeps two purchases apart, so they are safe only as
//! long as the ZooKeeper session lives.

use tokio::time::timeout_at;
use zk_recipes::{AnyLock, RwLock, Session};

use crate::failure::Failure;
use crate::sale::{Goods, GoodsNo, Line, Quantity};
use crate::strategy::attempt::overwrite_alone;
use crate::strategy::call::Call;
use crate::strategy::context::Context;
use crate::strategy::lock::Locks;
use crate::strategy::{Boxed, Decided, Strategy};

/// The strategy, for any exclusive lock.
pub(in crate::strategy) struct ZkLock {
    locks: Locks,
}

impl ZkLock {
    pub(in crate::strategy) fn new(locks: Locks) -> Self {
        Self { locks }
    }
}

impl Strategy for ZkLock {
    fn purchase<'a>(&'a self, call: &'a Call) -> Boxed<'a, Decided<'a>> {
        Box::pin(self.locks.purchase(call, |fences| overwrite_alone(self.context(), call, fences)))
    }

    fn context(&self) -> &Context {
        self.locks.context()
    }
}

/// `zk-rwlock`: buyers take the write lock, and a look takes the read lock.
pub(in crate::strategy) struct ZkReadWriteLock {
    write: ZkLock,
}

impl ZkReadWriteLock {
    pub(in crate::strategy) fn new(write: Locks) -> Self {
        Self { write: ZkLock::new(write) }
    }

    async fn look_locked(&self, goods_no: GoodsNo, call: &Call) -> Result<Option<Goods>, Failure> {
        let locks = &self.write.locks;
        let read_lock =
            |session: &Session, goods_no| Ok(AnyLock::from(RwLock::new(session, &locks.path(goods_no))?.read_lock()));
        let line = Line { goods_no, quantity: Quantity::ONE };
        let held = locks.acquire_by(&[line], read_lock, call).await?;
        let looked = held.guard(call, self.context().shared.store.look(goods_no)).await;
        // At the deadline, the release goes on in the background.
        timeout_at(call.until, held.release()).await.ok();
        looked
    }
}

impl Strategy for ZkReadWriteLock {
    fn purchase<'a>(&'a self, call: &'a Call) -> Boxed<'a, Decided<'a>> {
        self.write.purchase(call)
    }

    fn look<'a>(&'a self, goods_no: GoodsNo, call: &'a Call) -> Boxed<'a, Result<Option<Goods>, Failure>> {
        Box::pin(self.look_locked(goods_no, call))
    }

    fn context(&self) -> &Context {
        self.write.context()
    }
}
