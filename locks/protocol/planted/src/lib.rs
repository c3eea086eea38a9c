//! The protocol with planted [`mistakes`]. One mistake at a time can be switched on.

#![allow(warnings, clippy::all, reason = "the code is checked where it is written")]

pub mod mistakes;

use planting::Switch;

include!(concat!(env!("OUT_DIR"), "/root.rs"));

static PLANTED: Switch = Switch::off();

/// Switches this mistake on, or none.
///
/// # Panics
/// If there is no mistake of this name.
pub fn plant(mistake: Option<&str>) {
    PLANTED.turn(mistakes::all(), mistake);
}

fn is_planted(number: usize) -> bool {
    PLANTED.is_on(number)
}
