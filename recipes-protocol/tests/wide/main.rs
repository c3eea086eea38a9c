//! The model with more contenders and faults than every test run has time for: `make check-model`.

#![allow(clippy::unwrap_used, reason = "a test may fail")]

#[path = "../protocol/model"]
mod model {
    pub(crate) mod world;
}

use model::world::Program::Lock;
use model::world::{Faults, Lab};

#[test]
fn three_contenders_of_one_session_stand_the_end_of_a_connection() {
    Lab::new(&[(Lock, 0), (Lock, 0), (Lock, 0)], Faults::CUT).check(1_758_551);
}
