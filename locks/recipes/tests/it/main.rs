//! The recipes against a real ZooKeeper.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking, in its helpers too")]

mod acl;
mod adopted_nodes;
mod cancel;
mod cancellation;
mod cohort;
mod conformance;
mod contract;
mod crowd;
mod curator_names;
mod deadline;
mod ensemble_id;
mod example;
mod handoff;
mod handover;
mod interop;
mod known_faults;
mod leader_latch;
mod logs;
mod lost_replies;
mod multi;
mod no_two_holders;
mod node_data;
mod numbers;
mod owner;
mod participants;
mod proof_of_life;
mod read_write;
mod reaper;
mod revocation;
mod rooms;
mod semaphore;
mod send_sync;
mod session;
mod support;
mod throttled;
mod traffic;
mod uncontended;
mod waiter;
mod watch;
