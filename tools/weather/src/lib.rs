//! Weather for real servers, links and processes: the faults that exist, which of them a seed draws, and how they strike.
//!
//! A campaign names the [sites](Site) that it has, lets a seed [draw] faults for them, and lets these [strike](storm). It tells each
//! fault how to begin and how to end by a [`Stand`]. What links and ZooKeeper servers have in common is here: [`disturb`],
//! [`begin_at_ensemble`] and [`end_at_ensemble`].

mod fault;
mod forecast;
mod servers;
mod storm;

pub use fault::{Fault, Harm, Site, UnknownFault};
pub use forecast::{CALM, ComingFault, Targets, VERSION, draw, draws_of, parse_seed, written};
pub use servers::{begin_at_ensemble, disturb, end_at_ensemble};
pub use storm::{NEVER_BEGAN, Stand, Struck, storm};
