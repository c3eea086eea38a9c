//! What a seed draws: which faults come when, where they strike, and how long they last.

use std::time::Duration;

use rand::rngs::ChaCha8Rng;
use rand::seq::IndexedRandom as _;
use rand::{RngExt, SeedableRng};

use crate::fault::{Fault, Site};

/// Version of the draws. A seed draws other faults in another version.
pub const VERSION: u32 = 4;

/// When the first fault comes.
const FIRST: Duration = Duration::from_secs(1);
/// The shortest time of a fault that lasts.
const LASTS_MIN: Duration = Duration::from_millis(50);
/// The pause after a fault: long enough to see whether the sale goes on.
pub const CALM: [Duration; 2] = [Duration::from_millis(500), Duration::from_secs(4)];
/// How many of a hundred faults have a second one beside them.
const PAIRS_PERCENT: u32 = 30;

/// A fault that is to come.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ComingFault {
    /// What strikes.
    pub fault: Fault,
    /// When it begins, from the start of the round on.
    pub begins: Duration,
    /// When it ends, from there on.
    pub ends: Duration,
    /// The client process that it strikes, itself or by its links, counted from zero.
    pub process: usize,
    /// The ZooKeeper server that it strikes, or all.
    pub server: Option<usize>,
    /// How bad it is, from 0 to 1: how slow, how narrow.
    pub strength: f64,
    /// Whether no other fault comes beside it.
    pub is_alone: bool,
}

impl ComingFault {
    /// Returns which of a number of ZooKeeper servers it strikes.
    pub fn servers(&self, size: usize) -> impl Iterator<Item = usize> + use<> {
        let struck = self.server;
        (0..size).filter(move |server| struck.is_none_or(|struck| struck == *server))
    }
}

/// What a round is made of.
#[derive(Debug, Clone, Copy)]
pub struct Targets<'a> {
    /// The faults to choose from, of which there is at least one.
    pub faults: &'a [Fault],
    /// Client processes, at least one.
    pub processes: usize,
    /// ZooKeeper servers.
    pub servers: usize,
    /// No fault begins later.
    pub length: Duration,
    /// No fault lasts longer.
    pub lasts_max: Duration,
    /// The shortest and the longest pause after a fault.
    pub calm: [Duration; 2],
}

/// Returns the draws of a seed.
#[must_use]
pub fn draws_of(seed: u64) -> ChaCha8Rng {
    ChaCha8Rng::seed_from_u64(seed)
}

/// Writes a seed with the version of its draws: `v4-7`.
#[must_use]
pub fn written(seed: u64) -> String {
    format!("v{VERSION}-{seed}")
}

/// Reads a seed: a number, or one with the version of its draws.
///
/// # Errors
///
/// What to write instead. A seed of another version is an error, too.
pub fn parse_seed(text: &str) -> Result<u64, String> {
    let (version, seed) = match text.strip_prefix('v').and_then(|text| text.split_once('-')) {
        Some((version, seed)) => (version.parse().ok(), seed),
        None => (Some(VERSION), text),
    };
    let seed = seed
        .parse::<u32>()
        .map_err(|_| format!("write a whole number from 0 to 4294967295, or such as {}", written(7)))?;
    match version {
        Some(VERSION) => Ok(u64::from(seed)),
        _ => Err(format!(
            "this seed is of another version, and this program draws other faults by it: v{VERSION}-{seed}"
        )),
    }
}

/// Draws the faults of a round, in the order in which they begin.
pub fn draw(draws: &mut ChaCha8Rng, targets: &Targets<'_>) -> Vec<ComingFault> {
    let mut coming = Vec::new();
    let mut begins = FIRST;
    while begins < targets.length {
        let Some(first) = targets.faults.choose(draws) else { break };
        let others: Vec<Fault> = targets.faults.iter().filter(|other| !meet(first, other)).copied().collect();
        let second = others.choose(draws).filter(|_| draws.random_ratio(PAIRS_PERCENT, 100));
        let is_alone = second.is_none();
        let mut last = begins;
        for fault in [Some(first), second].into_iter().flatten() {
            let lasts =
                if fault.harm.is_instant() { Duration::ZERO } else { between(draws, [LASTS_MIN, targets.lasts_max]) };
            let server = draws.random_range(0..=targets.servers);
            coming.push(ComingFault {
                fault: *fault,
                begins,
                ends: begins + lasts,
                process: draws.random_range(0..targets.processes),
                server: (server < targets.servers).then_some(server),
                strength: draws.random(),
                is_alone,
            });
            last = last.max(begins + lasts);
        }
        begins = last + between(draws, targets.calm);
    }
    coming
}

/// Tells whether two faults would undo each other: both strike one server, one process, or one kind of link. Somebody who deletes nodes needs
/// a server.
fn meet(one: &Fault, other: &Fault) -> bool {
    let is_between = |here, there| one.site == here && other.site == there;
    one.site == other.site || is_between(Site::Nodes, Site::Zookeeper) || is_between(Site::Zookeeper, Site::Nodes)
}

/// Draws a time. Short ones are as likely as long ones ten times as long.
fn between(draws: &mut ChaCha8Rng, [shortest, longest]: [Duration; 2]) -> Duration {
    let [low, high] = [shortest, longest].map(|time| time.as_secs_f64().ln());
    Duration::from_secs_f64(draws.random_range(low..=high).exp())
}

#[cfg(test)]
mod tests {
    use super::*;

    const FIRST_OF_SEED_7: [&str; 4] =
        ["zookeeper-link-narrow", "postgres-link-narrow", "buyers-link-replies-held", "nodes-remade"];

    fn drawn(seed: u64) -> Vec<ComingFault> {
        let faults: Vec<Fault> = Fault::at(&Site::ALL).collect();
        let length = Duration::from_secs(30);
        let lasts_max = Duration::from_secs(8);
        draw(&mut draws_of(seed), &Targets { faults: &faults, processes: 2, servers: 3, length, lasts_max, calm: CALM })
    }

    #[test]
    fn a_seed_draws_the_same_faults_again() {
        assert_eq!(drawn(7), drawn(7));
        assert_ne!(drawn(7), drawn(8));
    }

    #[test]
    fn the_draws_are_those_of_this_version() {
        // If this fails, seeds draw other rounds than before: count VERSION up.
        let first: Vec<String> = drawn(7).iter().take(4).map(|coming| coming.fault.to_string()).collect();
        assert_eq!(first, FIRST_OF_SEED_7);
    }

    #[test]
    fn a_seed_of_another_version_is_refused() {
        assert_eq!((parse_seed("7"), parse_seed(&written(7))), (Ok(7), Ok(7)));
        assert!(parse_seed("v9-7").unwrap_err().contains("another version"));
        assert!(parse_seed("x").unwrap_err().contains("whole number"));
    }

    #[test]
    fn faults_that_come_together_strike_different_sites() {
        for seed in 0..200 {
            let coming = drawn(seed);
            assert!(!coming.is_empty());
            for pair in coming.windows(2).filter(|pair| pair[0].begins == pair[1].begins) {
                assert_ne!(pair[0].fault.site, pair[1].fault.site, "seed {seed}");
            }
            assert!(coming.iter().all(|fault| fault.begins < Duration::from_secs(30)), "seed {seed}");
        }
    }

    #[test]
    fn every_fault_is_drawn_sooner_or_later() {
        let seen: std::collections::BTreeSet<_> = (0..300).flat_map(drawn).map(|coming| coming.fault).collect();
        assert_eq!(seen.len(), Fault::at(&Site::ALL).count());
    }
}
