//! Buyers at real servers on this machine.

mod bodies;
mod dry_run;
mod purchases;
mod queue;
mod redirects;
mod shop;
