//! Limits how many purchases wait for locks of the database. A purchase that waits keeps a connection. Without
//! limits, the buyers of one SKU would take every connection, and all other requests would wait for them.

use std::collections::HashMap;
use std::sync::{Arc, Weak};

use parking_lot::Mutex;
use tokio::sync::{AcquireError, OwnedSemaphorePermit, Semaphore};

use crate::sale::GoodsNo;

/// The size of the table of SKUs at which the SKUs without buyers are removed.
const FORGET_AFTER: usize = 1024;

/// The permits to wait for a lock. At most three quarters of the connections, rounded down, may wait. At most half of
/// the connections, rounded up, may wait for one SKU. Both numbers are at least 1.
pub(super) struct Waiters {
    all: Arc<Semaphore>,
    of_one_max: usize,
    of_one: Mutex<HashMap<GoodsNo, Weak<Semaphore>>>,
}

/// The right to wait for a lock of the database.
pub(super) struct Waiter {
    _of_each: Vec<OwnedSemaphorePermit>,
    _of_all: OwnedSemaphorePermit,
}

impl Waiters {
    /// Makes the permits for a pool of `connections_max` connections.
    pub(super) fn new(connections_max: u32) -> Self {
        let (all, of_one_max) = limits(connections_max);
        Self { all: Arc::new(Semaphore::new(all)), of_one_max, of_one: Mutex::default() }
    }

    /// Waits for the permits of a purchase: one for each of its SKUs, then one of the total. Permits are granted in
    /// the order of arrival. `goods` must be sorted by number. Otherwise two carts could wait for each other.
    pub(super) async fn acquire(&self, goods: &[GoodsNo]) -> Result<Waiter, AcquireError> {
        let mut of_each = Vec::with_capacity(goods.len());
        for goods_no in goods {
            of_each.push(self.of_one(*goods_no).acquire_owned().await?);
        }
        Ok(Waiter { _of_each: of_each, _of_all: Arc::clone(&self.all).acquire_owned().await? })
    }

    fn of_one(&self, goods_no: GoodsNo) -> Arc<Semaphore> {
        // Looked up and inserted under one lock, because two semaphores of one SKU would double its limit.
        let mut of_one = self.of_one.lock();
        if let Some(semaphore) = of_one.get(&goods_no).and_then(Weak::upgrade) {
            return semaphore;
        }
        if of_one.len() >= FORGET_AFTER {
            of_one.retain(|_, semaphore| semaphore.strong_count() > 0);
        }
        let semaphore = Arc::new(Semaphore::new(self.of_one_max));
        of_one.insert(goods_no, Arc::downgrade(&semaphore));
        semaphore
    }

    /// Closes the total. A purchase that waits for a permit of the total fails at once. A purchase that waits for a
    /// permit of a SKU fails when it gets that permit.
    pub(super) fn close(&self) {
        self.all.close();
    }
}

/// Returns how many purchases may wait at a time, and how many of them for one SKU.
fn limits(connections_max: u32) -> (usize, usize) {
    let all = (connections_max - connections_max.div_ceil(4)).max(1);
    (all as usize, connections_max.div_ceil(2).min(all) as usize)
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt;

    use super::*;

    // S92
    #[test]
    fn waiters_leave_a_quarter_free_and_those_of_one_sku_half() {
        for (connections, expected) in
            [(1, (1, 1)), (2, (1, 1)), (3, (2, 2)), (4, (3, 2)), (5, (3, 3)), (8, (6, 4)), (20, (15, 10))]
        {
            assert_eq!(limits(connections), expected, "of {connections}");
        }
    }

    // S92
    #[test]
    fn buyers_of_one_sku_let_those_of_another_one_wait() {
        let waiters = Waiters::new(20);
        let [hot, other] = ["1", "2"].map(|number| number.parse::<GoodsNo>().unwrap());
        let of_hot: Vec<_> = (0..20).filter_map(|_| waiters.acquire(&[hot]).now_or_never()).collect();
        assert_eq!(of_hot.len(), 10);
        let of_other: Vec<_> = (0..20).filter_map(|_| waiters.acquire(&[other]).now_or_never()).collect();
        assert_eq!(of_other.len(), 5);
        drop(of_other);
        let of_carts: Vec<_> = (0..20).filter_map(|_| waiters.acquire(&[hot, other]).now_or_never()).collect();
        assert_eq!(of_carts.len(), 0, "a cart counts for each of its SKUs");
        drop(of_hot);
        assert!(waiters.acquire(&[hot]).now_or_never().is_some());
    }

    #[test]
    fn a_sku_that_nobody_buys_is_forgotten() {
        let waiters = Waiters::new(2);
        for number in 1..=2 * i64::try_from(FORGET_AFTER).unwrap() {
            waiters.acquire(&[number.try_into().unwrap()]).now_or_never().unwrap().unwrap();
        }
        assert!(waiters.of_one.lock().len() <= FORGET_AFTER);
    }
}
