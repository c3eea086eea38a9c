//! Our locks and those of Apache Curator and kazoo contend for the same paths on a real ZooKeeper.
//!
//! The rivals are programs of `tests/interop`, where a README says how they are driven.

use zk_recipes::{Parents, Session, SessionConfig};

use crate::support::Lab;

mod counter;
mod exclusion;
mod leader_latch;
mod mutex;
mod participants;
mod read_write;
mod revocation;
mod rival;
mod semaphore;

/// Returns a session whose locks have parents that stay, as kazoo makes them once an object and fails when they are gone.
async fn kazoo_session(lab: &Lab) -> Session {
    let config = SessionConfig::default().with_parents(Parents::Persistent);
    Session::connect(lab.connect_string(), config).await.unwrap()
}
