//! Fuzz targets: properties of parsers that hold for any bytes.
//!
//! A target is a test in a module `fuzzed` beside its parser, so it reaches private functions. `cargo test` replays the inputs that are
//! kept in `__fuzz__/TARGET`. `make fuzz` builds the same tests with libFuzzer, which looks for further inputs.

#[cfg(fuzzing)]
mod engine;
#[cfg(not(fuzzing))]
mod replay;

#[cfg(fuzzing)]
use engine as run;
#[cfg(not(fuzzing))]
use replay as run;

use std::panic::RefUnwindSafe;

/// The folder with a folder for each target. In that, `corpus` has the kept inputs, and `crashes` has those that `make fuzz` found.
pub const INPUTS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/__fuzz__");

/// Makes a target: `property` panics for an input that breaks it.
///
/// # Panics
/// If the property does not hold for a kept input, or if no input is kept.
pub fn any_bytes(target: &str, property: impl Fn(&[u8]) + RefUnwindSafe) {
    run::target(target, property);
}

/// Makes a target whose parser takes text. Inputs that are not UTF-8 are passed over.
///
/// # Panics
/// As [`any_bytes`].
pub fn any_text(target: &str, property: impl Fn(&str) + RefUnwindSafe) {
    any_bytes(target, |bytes| {
        if let Ok(text) = std::str::from_utf8(bytes) {
            property(text);
        }
    });
}

/// Makes a target whose parser takes several texts. The input has them one after the other, each on a line of its own.
///
/// # Panics
/// As [`any_bytes`].
pub fn any_lines(target: &str, property: impl Fn(&[&str]) + RefUnwindSafe) {
    any_text(target, |text| property(&text.split('\n').collect::<Vec<_>>()));
}
