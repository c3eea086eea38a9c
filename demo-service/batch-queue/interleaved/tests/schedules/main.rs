//! The schedules that have found the planted mistakes find them again, and thousands of others keep all rules.

#![allow(clippy::unwrap_used, reason = "a test may fail")]

mod schedule;

use std::collections::BTreeSet;
use std::sync::Mutex;

use campaign::{Subject, run_all};
use clap::ValueEnum;
use interleaved::scene::Scene;
use interleaved::{mistakes, plant};
use planting::seeds::{self, FoundMistake};
use schedule::broken_by;

/// Held by each test, because the mistake that is switched on is one for the whole process.
static PLANTING: Mutex<()> = Mutex::new(());

// S124
#[test]
fn each_planted_mistake_is_found_by_its_seed() {
    let _planting = PLANTING.lock().unwrap();
    let found: Vec<_> = seeds::read(include_str!("seeds.txt")).collect();
    let named = found.iter().map(|found| found.mistake).collect::<BTreeSet<_>>();
    let names = mistakes::all().map(|mistake| mistake.name).collect::<BTreeSet<_>>();
    assert_eq!(named, names, "make seeds writes seeds.txt again");
    for FoundMistake { seed, rule, mistake, .. } in found {
        let planted = mistakes::all().find(|planted| planted.name == mistake).unwrap();
        plant(Some(mistake));
        let broken = broken_by(planted, seed);
        plant(None);
        assert_eq!(broken, Some(rule), "seed {seed} no longer finds that {mistake}");
        assert_eq!(broken_by(planted, seed), None, "seed {seed} finds a mistake that is not planted");
    }
}

/// The rarest sights take tens of thousands of schedules, which `make schedules` has time for.
// S124
#[test]
fn every_scene_keeps_its_rules_in_thousands_of_schedules() {
    let _planting = PLANTING.lock().unwrap();
    for scene in Scene::value_variants() {
        let tally = run_all(0..3_000, scene.sights(), |seed| scene.run(seed, None), || false);
        assert_eq!((tally.broken.first(), tally.runs), (None, 3_000), "{scene:?}");
        let unseen: Vec<&str> = tally.unseen().collect();
        assert!(unseen.len() <= 1, "{scene:?} has not reached {unseen:#?}");
    }
}

#[test]
fn a_seed_replays_its_schedule() {
    let _planting = PLANTING.lock().unwrap();
    for scene in Scene::value_variants() {
        let told = |seed| {
            let mut told = String::new();
            let run = scene.run(seed, Some(&mut |line| told += &line));
            (run, told)
        };
        assert_eq!(told(7), told(7), "{scene:?}");
        assert_ne!(told(7).1, told(8).1, "{scene:?}");
    }
}
