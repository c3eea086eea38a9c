//! Takes random walks until each planted mistake is found, and writes the seeds and the numbers of walks to `seeds.txt`.

mod walker;

use std::io;
use std::path::Path;

use walker::walk_by;
use zk_recipes_protocol::{mistakes, plant};

/// The number of walks after which a search gives up.
const WALKS_MAX: u64 = 4_000_000;

fn main() -> io::Result<()> {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/walks/seeds.txt");
    planting::seeds::search(&file, mistakes::all(), WALKS_MAX, plant, |mistake, seed| walk_by(mistake, seed).broken)
}
