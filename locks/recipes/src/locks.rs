//! The recipes, with the shared count, the list of participants and the lock of any recipe.

pub(crate) mod any_lock;
pub(crate) mod cohort;
pub(crate) mod handoff;
pub(crate) mod leader_latch;
pub(crate) mod multi;
pub(crate) mod mutex;
pub(crate) mod naive;
pub(crate) mod participants;
pub(crate) mod read_write;
pub(crate) mod semaphore;
pub(crate) mod semaphore_mutex;
pub(crate) mod shared_count;
