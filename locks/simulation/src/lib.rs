//! The machines of the locks in simulated weather.
//!
//! A [`model`] is a machine of [`zk_recipes_protocol`] with simulated servers, users and faults. There is one for each machine:
//!
//! * [`queue`]: the queue locks.
//! * [`naive`]: the lock with one node.
//! * [`permits`]: the semaphore.
//! * [`cohort`]: the contenders of a process that share one place in the queue.
//! * [`clocks`]: the proof of life.
//!
//! The tests search all states of small models. [`walk`] takes random paths through large ones, which [`draws`] makes up. A
//! [`campaign`] takes very many of them.

pub mod clocks;
pub mod cohort;
pub mod draws;
pub mod machine;
pub mod model;
pub mod naive;
pub mod permits;
pub mod queue;
pub mod walk;

#[cfg(test)]
mod bounded;
#[cfg(test)]
mod check;
#[cfg(test)]
mod count_to_ten;
#[cfg(test)]
mod endless;
