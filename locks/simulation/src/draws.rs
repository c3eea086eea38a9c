//! Models drawn at random: more users, sessions and faults than a search of all states can have.

use rand::RngExt;
use rand::rngs::ChaCha8Rng;
use zk_recipes_protocol::session_queue::Batching;

use super::cohort::{self, CohortModel};
use super::naive::{self, NaiveModel};
use super::permits::{self, PermitsModel};
use super::queue::{self, Data, QueueModel};

/// A model that can be drawn.
pub trait Drawn {
    /// Draws users, sessions, faults and settings.
    fn draw(draws: &mut ChaCha8Rng) -> Self;
}

/// How many kinds of faults a model has, and how often each may happen. With few kinds, two faults of one kind meet more often.
struct Amount {
    /// The share of kinds that are there, in tenths.
    kinds: u32,
    times: u8,
}

impl Amount {
    fn draw(draws: &mut ChaCha8Rng) -> Self {
        Self { kinds: one_of(draws, &[2, 5, 9]), times: one_of(draws, &[1, 3]) }
    }

    /// Draws how many faults of one kind there are.
    fn of(&self, draws: &mut ChaCha8Rng, most: u8) -> u8 {
        if draws.random_ratio(self.kinds, 10) { draws.random_range(0..=most) * self.times } else { 0 }
    }
}

/// Draws zero in one half of the models, and 0 to `most` in the other.
fn few(draws: &mut ChaCha8Rng, most: u8) -> u8 {
    if draws.random() { draws.random_range(0..=most) } else { 0 }
}

fn one_in(draws: &mut ChaCha8Rng, times: u32) -> bool {
    draws.random_ratio(1, times)
}

fn one_of<T: Copy>(draws: &mut ChaCha8Rng, from: &[T]) -> T {
    from[draws.random_range(0..from.len())]
}

/// Draws contenders of one session that find their nodes by the data, which somebody overwrites. Their mistakes need only two of them, and
/// no other faults in between.
fn overwritten(draws: &mut ChaCha8Rng) -> QueueModel {
    let users = vec![(queue::Program::Handoff, 0); draws.random_range(2..=3)];
    let faults = queue::Faults {
        cuts: draws.random_range(1..=2),
        overwrites: draws.random_range(1..=3),
        drops: few(draws, 1),
        ..queue::Faults::NONE
    };
    QueueModel::new(&users, faults)
}

impl Drawn for QueueModel {
    fn draw(draws: &mut ChaCha8Rng) -> Self {
        if one_in(draws, 12) {
            return overwritten(draws);
        }
        use queue::Program::{Downgrade, Handoff, Lead, Lock, Place, Read, TryHandoff, TryLock, Write};
        let mixtures: [&[queue::Program]; 6] = [
            &[Lock],
            &[Lock, TryLock, Place],
            &[Handoff],
            &[Handoff, TryHandoff, Lock, Place],
            &[Read, Write, Downgrade],
            &[Lead],
        ];
        let mixture = one_of(draws, &mixtures);
        let sessions = one_of(draws, &[1, 1, 2, 3, 5]);
        let most: u32 = one_of(draws, &[2, 3, 6, 14]);
        let mut users = Vec::new();
        for _ in 0..draws.random_range(most.div_ceil(2)..=most) {
            let program = one_of(draws, mixture);
            let session = draws.random_range(0..sessions);
            // It reads while the user before it writes.
            users.extend((program == Downgrade).then_some((Write, session)));
            users.push((program, session));
        }
        let amount = Amount::draw(draws);
        let faults = queue::Faults {
            cuts: amount.of(draws, 4),
            throttles: amount.of(draws, 4),
            refusals: amount.of(draws, 3),
            expiries: amount.of(draws, 3),
            drops: amount.of(draws, 6),
            deletions: amount.of(draws, 4),
            overwrites: amount.of(draws, 4),
            new_parents: amount.of(draws, 4),
            parents_gone: amount.of(draws, 2),
        };
        let near_the_end = 2_100_000_000 - draws.random_range(0..8);
        let is_of_mutex = mixture.iter().all(|program| !matches!(program, Read | Write | Downgrade | Lead));
        let holds_before = if mixture.contains(&Lock) { one_of(draws, &[0, 0, 3]) } else { 0 };
        Self {
            returns: few(draws, 8),
            connects_again: true,
            has_followers: draws.random(),
            holds_before,
            first_number: if one_in(draws, 12) { one_of(draws, &[near_the_end, i32::MAX]) } else { 0 },
            first_number_anew: draws.random_range(0..4),
            data: if one_in(draws, 6) { one_of(draws, &[Data::NoteOf(1, 99), Data::Foreign]) } else { Data::None },
            has_foreign: one_in(draws, 8),
            has_curator: is_of_mutex && one_in(draws, 3),
            batching: Batching { waiters_per_contender: one_of(draws, &[1, 2, 4]) },
            ..Self::new(&users, faults)
        }
    }
}

impl Drawn for NaiveModel {
    fn draw(draws: &mut ChaCha8Rng) -> Self {
        use naive::Program::{Lock, Try};
        let sessions = draws.random_range(1..=4);
        let most = one_of(draws, &[3, 6, 14]);
        let users: Vec<_> = (0..draws.random_range(1..=most))
            .map(|_| (one_of(draws, &[Lock, Lock, Try]), draws.random_range(0..sessions)))
            .collect();
        let amount = Amount::draw(draws);
        let faults = naive::Faults {
            replies: amount.of(draws, 6),
            throttles: amount.of(draws, 4),
            refusals: amount.of(draws, 3),
            expiries: amount.of(draws, 3),
            drops: amount.of(draws, 6),
            overwrites: amount.of(draws, 4),
            deletions: amount.of(draws, 4),
            parents_gone: amount.of(draws, 3),
        };
        Self { returns: few(draws, 8), connects_again: true, ..Self::new(&users, faults) }
    }
}

impl Drawn for PermitsModel {
    fn draw(draws: &mut ChaCha8Rng) -> Self {
        use permits::Program::{Take, Try};
        let permits = draws.random_range(1..=6);
        let wanted_most = draws.random_range(1..=permits);
        let most = one_of(draws, &[3, 6, 12]);
        let program = |draws: &mut ChaCha8Rng| {
            let wanted = draws.random_range(1..=wanted_most);
            if one_in(draws, 4) { Try(wanted) } else { Take(wanted) }
        };
        let programs: Vec<_> = (0..draws.random_range(1..=most)).map(|_| program(draws)).collect();
        // Once somebody has deleted a lease lock, attempts for several permits may wait for each other. And after the number was lowered,
        // too many permits may be held. The file `leases.rs` of the protocol says why.
        let amount = Amount::draw(draws);
        let lease_locks = if wanted_most == 1 { amount.of(draws, 3) } else { 0 };
        // Nobody may wait for more permits than are left.
        let lowered_most = u8::try_from(permits - wanted_most).unwrap_or(u8::MAX).min(3);
        let faults = permits::Faults {
            replies: amount.of(draws, 4),
            throttles: amount.of(draws, 4),
            expiries: amount.of(draws, 3),
            drops: amount.of(draws, 4),
            leases: amount.of(draws, 4),
            lease_locks,
            lowered: if lease_locks == 0 { few(draws, lowered_most) } else { 0 },
        };
        Self { returns: few(draws, 8), ..Self::new(&programs, permits, faults) }
    }
}

impl Drawn for CohortModel {
    fn draw(draws: &mut ChaCha8Rng) -> Self {
        use cohort::Program::{Lock, Try};
        let most = one_of(draws, &[3, 6, 12]);
        let programs: Vec<_> =
            (0..draws.random_range(1..=most)).map(|_| one_of(draws, &[Lock, Lock, Lock, Try])).collect();
        let faults = cohort::Faults {
            drops: draws.random(),
            losses: one_in(draws, 3),
            deletions: few(draws, 3),
            slow: few(draws, 3),
            requests: few(draws, 3),
        };
        let max_handovers = one_of(draws, &[0, 1, 2, 8]);
        Self { returns: few(draws, 8), max_handovers, lingers: draws.random(), ..Self::new(&programs, faults) }
    }
}
