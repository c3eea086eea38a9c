//! Runs schedules until each planted mistake is found, and writes the seeds and the numbers of schedules to `seeds.txt`.

mod schedule;

use std::io;
use std::path::Path;

use interleaved::{mistakes, plant};
use schedule::broken_by;

/// The number of schedules after which a search gives up.
const SCHEDULES_MAX: u64 = 10_000;

fn main() -> io::Result<()> {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/schedules/seeds.txt");
    planting::seeds::search(&file, mistakes::all(), SCHEDULES_MAX, plant, broken_by)
}
