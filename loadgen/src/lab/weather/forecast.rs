//! What a seed draws: which faults come when, where they strike, and how long they last.

use std::time::Duration;

use rand::rngs::ChaCha8Rng;
use rand::seq::IndexedRandom as _;
use rand::{RngExt, SeedableRng};

use super::fault::Fault;

/// Version of the draws. A seed draws other faults in another version.
pub(crate) const VERSION: u32 = 1;

/// When the first fault comes.
const FIRST: Duration = Duration::from_secs(1);
/// The shortest and the longest time of a fault that lasts.
const LASTS: [Duration; 2] = [Duration::from_millis(50), Duration::from_secs(8)];
/// The pause after a fault: long enough to see whether the sale goes on.
const CALM: [Duration; 2] = [Duration::from_millis(500), Duration::from_secs(4)];
/// How many of a hundred rounds have a stock that does not last.
const SCARCE_PERCENT: u32 = 25;
/// How many of a hundred faults have a second one beside them.
const PAIRS_PERCENT: u32 = 30;

/// A fault that is to come. Times count from the release of the buyers.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct ComingFault {
    pub(crate) fault: Fault,
    pub(crate) begins: Duration,
    pub(crate) ends: Duration,
    /// The instance that it strikes, counted from zero.
    pub(crate) instance: usize,
    /// The ZooKeeper server that it strikes, or all.
    pub(crate) server: Option<usize>,
    /// How bad it is, from 0 to 1: how slow, how narrow.
    pub(crate) strength: f64,
    /// Whether no other fault comes beside it.
    pub(crate) is_alone: bool,
}

/// What a seed draws for a round.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Forecast {
    /// Whether the stock does not last.
    pub(crate) is_scarce: bool,
    /// Whether a buyer may have one unit only. Then each order names its buyer.
    pub(crate) is_limited: bool,
    /// The faults, in the order in which they begin.
    pub(crate) coming: Vec<ComingFault>,
}

/// What a round is made of.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Targets<'a> {
    /// The faults to choose from, of which there is at least one.
    pub(crate) faults: &'a [Fault],
    pub(crate) instances: usize,
    pub(crate) servers: usize,
    /// No fault begins later.
    pub(crate) length: Duration,
}

/// Writes a seed with the version of its draws: `v1-7`.
pub(crate) fn written(seed: u64) -> String {
    format!("v{VERSION}-{seed}")
}

/// Reads a seed: a number, or one with the version of its draws. A seed of another version is an error.
pub(crate) fn parse_seed(text: &str) -> Result<u64, String> {
    let (version, seed) = match text.strip_prefix('v').and_then(|text| text.split_once('-')) {
        Some((version, seed)) => (version.parse().ok(), seed),
        None => (Some(VERSION), text),
    };
    let seed =
        seed.parse::<u32>().map_err(|_| "write a whole number from 0 to 4294967295, or such as v1-7".to_owned())?;
    match version {
        Some(VERSION) => Ok(u64::from(seed)),
        _ => Err(format!(
            "this seed is of another version, and this program draws other faults by it: v{VERSION}-{seed}"
        )),
    }
}

/// Draws a round.
pub(crate) fn draw(seed: u64, targets: &Targets<'_>) -> Forecast {
    let mut draws = ChaCha8Rng::seed_from_u64(seed);
    let is_scarce = draws_percent(&mut draws, SCARCE_PERCENT);
    let is_limited = draws.random();
    let mut coming = Vec::new();
    let mut begins = FIRST;
    while begins < targets.length {
        let Some(first) = targets.faults.choose(&mut draws) else { break };
        let others: Vec<Fault> = targets.faults.iter().filter(|other| !meet(first, other)).copied().collect();
        let second = others.choose(&mut draws).filter(|_| draws_percent(&mut draws, PAIRS_PERCENT));
        let is_alone = second.is_none();
        let mut last = begins;
        for fault in [Some(first), second].into_iter().flatten() {
            let lasts = if fault.harm.is_instant() { Duration::ZERO } else { between(&mut draws, LASTS) };
            let server = draws.random_range(0..=targets.servers);
            coming.push(ComingFault {
                fault: *fault,
                begins,
                ends: begins + lasts,
                instance: draws.random_range(0..targets.instances),
                server: (server < targets.servers).then_some(server),
                strength: draws.random(),
                is_alone,
            });
            last = last.max(begins + lasts);
        }
        begins = last + between(&mut draws, CALM);
    }
    Forecast { is_scarce, is_limited, coming }
}

/// Tells whether two faults would undo each other: both strike one server, one instance, or one kind of link.
fn meet(one: &Fault, other: &Fault) -> bool {
    one.site == other.site
}

/// Draws a time. Short ones are as likely as long ones ten times as long.
fn between(draws: &mut ChaCha8Rng, [shortest, longest]: [Duration; 2]) -> Duration {
    let [low, high] = [shortest, longest].map(|time| time.as_secs_f64().ln());
    Duration::from_secs_f64(draws.random_range(low..=high).exp())
}

fn draws_percent(draws: &mut ChaCha8Rng, percent: u32) -> bool {
    draws.random_ratio(percent, 100)
}

#[cfg(test)]
mod tests {
    use super::*;

    const FIRST_OF_SEED_7: [&str; 4] =
        ["zookeeper-link-sessions-replaced", "redis-link-silent", "postgres-link-cut", "buyers-link-cut"];

    fn drawn(seed: u64) -> Forecast {
        let faults: Vec<Fault> = Fault::all().collect();
        draw(seed, &Targets { faults: &faults, instances: 2, servers: 3, length: Duration::from_secs(30) })
    }

    #[test]
    fn a_seed_draws_the_same_faults_again() {
        assert_eq!(drawn(7), drawn(7));
        assert_ne!(drawn(7), drawn(8));
    }

    #[test]
    fn the_draws_are_those_of_this_version() {
        // If this fails, seeds draw other rounds than before: count VERSION up.
        let first: Vec<String> = drawn(7).coming.iter().take(4).map(|coming| coming.fault.to_string()).collect();
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
            let coming = drawn(seed).coming;
            assert!(!coming.is_empty());
            for pair in coming.windows(2).filter(|pair| pair[0].begins == pair[1].begins) {
                assert_ne!(pair[0].fault.site, pair[1].fault.site, "seed {seed}");
            }
            assert!(coming.iter().all(|fault| fault.begins < Duration::from_secs(30)), "seed {seed}");
        }
    }

    #[test]
    fn every_fault_is_drawn_sooner_or_later() {
        let seen: std::collections::BTreeSet<_> =
            (0..300).flat_map(|seed| drawn(seed).coming).map(|coming| coming.fault).collect();
        assert_eq!(seen.len(), Fault::all().count());
    }
}
