//! The pure decisions of the locks, for the benches and for simulations. There is no promise of stability.

pub use crate::leases::{Leases, Verdict as LeasesVerdict};
pub use crate::liveness::{Event, Liveness};
pub use crate::node::{Mode, Names, Sequence};
pub use crate::queue::{Contender, Queue, Verdict};
