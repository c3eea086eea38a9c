//! The recipes of `zk_recipes`, as strategies use them.

use std::time::Duration;

use zk_recipes::{CohortMutex, HandoffMutex, Mutex, NaiveLock, RwLock, Semaphore, SemaphoreMutex};

use super::MakeLock;

/// How long an instance keeps the lock of a SKU after a purchase.
const LINGER: Duration = Duration::from_secs(1);

pub(in crate::strategy) const NAIVE: MakeLock = |session, path, _| NaiveLock::new(session, path).map(Into::into);
pub(in crate::strategy) const MUTEX: MakeLock = |session, path, _| Mutex::new(session, path).map(Into::into);
pub(in crate::strategy) const HANDOFF: MakeLock = |session, path, _| HandoffMutex::new(session, path).map(Into::into);
pub(in crate::strategy) const COHORT: MakeLock = |session, path, _| CohortMutex::new(session, path).map(Into::into);
pub(in crate::strategy) const COHORT_LINGER: MakeLock =
    |session, path, _| Ok(CohortMutex::new(session, path)?.with_linger(LINGER).into());
pub(in crate::strategy) const WRITE_LOCK: MakeLock =
    |session, path, _| RwLock::new(session, path).map(|lock| lock.write_lock().into());
pub(in crate::strategy) const SEMAPHORE: MakeLock =
    |session, path, permits| Semaphore::new(session, path, permits).map(Into::into);
pub(in crate::strategy) const SEMAPHORE_MUTEX: MakeLock =
    |session, path, _| SemaphoreMutex::new(session, path).map(Into::into);
