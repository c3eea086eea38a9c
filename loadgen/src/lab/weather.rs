//! Weather: faults of links, servers and instances while buyers buy. A seed draws them, so that a run can be made again with the same
//! choices. What meets what depends on the machine.

pub(crate) mod fault;
pub(crate) mod forecast;
pub(crate) mod storm;
