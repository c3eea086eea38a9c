//! Walks of the models with a planted mistake.

#[path = "../../../../simulation/src"]
#[allow(dead_code, unreachable_pub, unused_imports, reason = "others use more of it")]
pub mod weather {
    pub mod cohort;
    pub mod draws;
    pub mod model;
    pub mod naive;
    pub mod permits;
    pub mod queue;
    pub mod walk;
}

use planting::Mistake;
use weather::cohort::CohortModel;
use weather::naive::NaiveModel;
use weather::permits::PermitsModel;
use weather::queue::QueueModel;
use weather::walk::{Walk, walk_by_seed};

/// Walks through the model of the machine that has the mistake.
pub(crate) fn walk_by(mistake: &Mistake, seed: u64) -> Walk {
    let file = mistake.changes[0].file;
    match file.split(['/', '.']).next() {
        Some("naive") => walk_by_seed::<NaiveModel>(seed, |_, _| {}),
        Some("permits" | "leases") => walk_by_seed::<PermitsModel>(seed, |_, _| {}),
        Some("cohort") => walk_by_seed::<CohortModel>(seed, |_, _| {}),
        Some("session_queue" | "queue" | "number_proof" | "release_note" | "names") => {
            walk_by_seed::<QueueModel>(seed, |_, _| {})
        }
        _ => panic!("no model walks through {file}, where {:?} is planted", mistake.name),
    }
}
