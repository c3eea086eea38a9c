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

use rand::SeedableRng;
use rand::rngs::ChaCha8Rng;
use weather::cohort::CohortModel;
use weather::draws::Drawn;
use weather::model::Model;
use weather::naive::NaiveModel;
use weather::permits::PermitsModel;
use weather::queue::QueueModel;
use weather::walk::{Walk, walk};
use zk_recipes_protocol::mistakes::Mistake;

/// Walks through the model of the machine that has the mistake.
pub(crate) fn walk_by(mistake: &Mistake, seed: u64) -> Walk {
    fn one<M: Model + Drawn>(seed: u64) -> Walk {
        walk(&M::draw(&mut ChaCha8Rng::seed_from_u64(seed)), seed, |_, _| {})
    }
    match mistake.changes[0].file.split(['/', '.']).next() {
        Some("naive") => one::<NaiveModel>(seed),
        Some("permits" | "leases") => one::<PermitsModel>(seed),
        Some("cohort") => one::<CohortModel>(seed),
        _ => one::<QueueModel>(seed),
    }
}
