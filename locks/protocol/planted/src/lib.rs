//! The protocol with planted [`mistakes`]. One mistake at a time can be switched on.

#![allow(warnings, clippy::all, reason = "the code is checked where it is written")]

pub mod mistakes;

use std::sync::atomic::{AtomicUsize, Ordering};

include!(concat!(env!("OUT_DIR"), "/protocol.rs"));

/// The active mistake: its position in the list, from 1 on. 0: none.
static PLANTED: AtomicUsize = AtomicUsize::new(0);

/// Switches this mistake on, or none.
///
/// # Panics
/// If there is no mistake of this name.
pub fn plant(mistake: Option<&str>) {
    let number = |name| {
        let place = mistakes::all().position(|mistake| mistake.name == name);
        place.unwrap_or_else(|| panic!("there is no mistake {name:?}")) + 1
    };
    PLANTED.store(mistake.map_or(0, number), Ordering::SeqCst);
}

fn is_planted(number: usize) -> bool {
    PLANTED.load(Ordering::Relaxed) == number
}
