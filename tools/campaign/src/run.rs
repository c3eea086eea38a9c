//! One run of a subject.

use clap::ValueEnum;

/// What is run.
pub trait Subject: ValueEnum + PartialEq + Send + Sync + 'static {
    /// Returns what a run is made to reach, by the positions that [`Sights`] count.
    fn sights(&self) -> &'static [&'static str];

    /// Returns what [`Run::slowness`] counts, and how much of it is allowed.
    fn patience(&self) -> (&'static str, u64);

    /// Makes the run of a seed. Tells what happens in it, in lines, if it is to be told.
    fn run(&self, seed: u64, tell: Option<&mut dyn FnMut(String)>) -> Run;
}

/// A run and what it found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Run {
    /// The number of steps.
    pub steps: u64,
    /// How long something took that must not take long.
    pub slowness: u64,
    /// What it has seen.
    pub sights: Sights,
    /// The rule that it broke.
    pub broken: Option<&'static str>,
}

/// What a run has seen: a set of positions in [`Subject::sights`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sights(u64);

impl Sights {
    /// Notes a sight if `is_seen`.
    pub fn note(&mut self, is_seen: bool, sight: usize) {
        self.0 |= u64::from(is_seen) << sight;
    }

    /// Tells whether a sight was noted.
    #[must_use]
    pub fn has(self, sight: usize) -> bool {
        self.0 & (1 << sight) != 0
    }
}

/// Declares the sights of a subject: an enum of their positions, and their names.
#[macro_export]
macro_rules! sights {
    ($($sight:ident: $name:literal,)*) => {
        /// What a run is made to reach.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum Sight {
            $(#[doc = $name] $sight,)*
        }

        impl Sight {
            pub(crate) const NAMES: &'static [&'static str] = &[$($name,)*];
        }
    };
}

/// Declares the names of the rules of a subject.
#[macro_export]
macro_rules! rules {
    ($($rule:ident: $name:literal,)*) => {
        $(#[doc = concat!("The rule: ", $name, ".")] pub const $rule: &str = $name;)*
    };
}
