//! Tests of the walks and the searches, by a model that counts to ten.

use campaign::Sights;
use rand::SeedableRng;
use rand::rngs::ChaCha8Rng;

use super::endless::find_endless_run;
use super::model::{Model, Rule};
use super::walk::{ENDS, SOUND, Told, walk};

/// A number that is to reach ten. A fault sets it back.
struct CountToTen {
    /// What happens at this number, instead of the next one.
    at: u32,
    then: Then,
}

enum Then {
    CountOn,
    StayForEver,
    Panic,
    End,
    TooMuch,
}

impl Model for CountToTen {
    type State = u32;
    type Action = bool;

    const SIGHTS: &'static [&'static str] = &["it is five"];
    const RULES: &'static [Rule<Self>] = &[Rule::new("it is ten at most", |_, state: &u32| *state <= 10)];
    const PATIENCE: u64 = 100;

    fn starts(&self) -> Vec<u32> {
        vec![0]
    }

    fn progress(&self, state: &u32, actions: &mut Vec<bool>) {
        let ends = *state == self.at && matches!(self.then, Then::End);
        actions.extend((*state < 10 && !ends).then_some(true));
    }

    fn faults(&self, state: &u32, actions: &mut Vec<bool>) {
        actions.extend((*state == 1).then_some(false));
    }

    fn step(&self, state: &mut u32, action: &bool) -> bool {
        *state = match (action, &self.then) {
            (false, _) => 0,
            (true, Then::StayForEver) if *state == self.at => *state,
            (true, Then::Panic) if *state == self.at => panic!("a mistake of the machine"),
            (true, Then::TooMuch) if *state == self.at => 11,
            (true, _) => *state + 1,
        };
        true
    }

    fn kind(action: &bool) -> usize {
        usize::from(*action)
    }

    fn visits(&self, _: &u32) -> u64 {
        1
    }

    fn is_over(&self, state: &u32) -> bool {
        *state == 10
    }

    fn sights(state: &u32) -> Sights {
        let mut sights = Sights::default();
        sights.note(*state >= 5, 0);
        sights
    }
}

fn broken(then: Then) -> Option<&'static str> {
    walk(&CountToTen { at: 7, then }, ChaCha8Rng::seed_from_u64(1), |_, _| {}).broken
}

#[test]
fn a_walk_ends_when_all_users_are_served() {
    let mut last = 0;
    let walk = walk(&CountToTen { at: 0, then: Then::CountOn }, ChaCha8Rng::seed_from_u64(1), |_, told| {
        if let Told::State(state) = told {
            last = *state;
        }
    });
    assert_eq!((walk.broken, last, walk.sights.has(0)), (None, 10, true));
}

#[test]
fn a_walk_that_never_ends_is_broken() {
    assert_eq!(broken(Then::StayForEver), Some(ENDS));
}

#[test]
fn a_walk_that_ends_before_all_are_served_is_broken() {
    assert_eq!(broken(Then::End), Some(ENDS));
}

#[test]
fn a_machine_that_panics_breaks_its_walk() {
    assert_eq!(broken(Then::Panic), Some(SOUND));
}

#[test]
fn a_broken_rule_ends_the_walk_and_is_named() {
    assert_eq!(broken(Then::TooMuch), Some("it is ten at most"));
}

#[test]
fn a_run_that_never_ends_is_found_by_a_search() {
    assert_eq!(find_endless_run(&CountToTen { at: 7, then: Then::StayForEver }), Some(7));
    assert_eq!(find_endless_run(&CountToTen { at: 7, then: Then::CountOn }), None);
}
