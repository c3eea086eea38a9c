//! The slots of an instance: how many purchases it works on at once.

use std::sync::Arc;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// A bound of the purchases that are worked on at once.
pub struct Slots {
    permits: Arc<Semaphore>,
    max: u32,
}

/// The right to work on one purchase. Clones share it: a purchase may outlive its request. The last one frees it.
#[derive(Clone)]
pub struct Slot {
    _permit: Arc<OwnedSemaphorePermit>,
}

/// The right to work on the purchases of a batch. Dropped, it frees those that are left.
pub struct SlotsOfBatch(OwnedSemaphorePermit);

impl Slots {
    /// Makes `max` slots.
    pub fn new(max: u32) -> Self {
        Self { permits: Arc::new(Semaphore::new(max as usize)), max }
    }

    /// Takes a slot, or returns `None` if none is free.
    pub fn try_take(&self) -> Option<Slot> {
        let permit = Arc::clone(&self.permits).try_acquire_owned().ok()?;
        Some(Slot { _permit: Arc::new(permit) })
    }

    /// Takes slots for a batch, `count` at most. Returns `None` if none is free, or if another batch takes some at the same time.
    pub fn try_take_up_to(&self, count: usize) -> Option<SlotsOfBatch> {
        let count = u32::try_from(count.min(self.permits.available_permits())).ok().filter(|count| *count > 0)?;
        Arc::clone(&self.permits).try_acquire_many_owned(count).ok().map(SlotsOfBatch)
    }

    /// Returns how many slots are taken.
    pub fn taken(&self) -> u32 {
        u32::try_from(self.permits.available_permits()).map_or(0, |free| self.max.saturating_sub(free))
    }
}

impl SlotsOfBatch {
    /// Returns how many slots are left of it.
    pub fn count(&self) -> usize {
        self.0.num_permits()
    }

    /// Frees one.
    pub fn free_one(&mut self) {
        drop(self.0.split(1));
    }
}
