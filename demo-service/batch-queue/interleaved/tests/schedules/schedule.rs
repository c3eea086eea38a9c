//! Schedules with a planted mistake.

use campaign::Subject;
use interleaved::scene::Scene;
use planting::Mistake;

/// Runs the scenes of a seed. Returns the rule that one of them breaks: first that with one instance, which is easier to read.
pub(crate) fn broken_by(mistake: &Mistake, seed: u64) -> Option<&'static str> {
    let is_of_the_link = mistake.changes.iter().any(|change| change.file == "handed_over.rs");
    let scenes = if is_of_the_link { &[Scene::Several][..] } else { &[Scene::One, Scene::Several] };
    scenes.iter().find_map(|scene| scene.run(seed, None).broken)
}
