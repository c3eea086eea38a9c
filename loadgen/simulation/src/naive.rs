//! The naive lock, by rounds: all waiters watch one node. A release notifies them, all ask, one of them holds, and the
//! others watch again before the holder releases. The counts are exact. The simulation of a round takes the same time for
//! any number of waiters.

use rand::SeedableRng;
use rand::rngs::ChaCha8Rng;
use rand::seq::SliceRandom;

use crate::costs::{Costs, ExchangeTally};
use crate::latency::SimulatedTimes;
use crate::{LatencyModel, Point, Recipe, ns_to_ms};

/// Simulates a drain of `waiters` over `sessions`. The seed decides the order in which they hold.
pub(crate) fn drain(waiters: u32, sessions: u32, seed: u32, model: &LatencyModel) -> Point {
    let sessions = sessions.min(waiters).max(1);
    let costs = Costs::of(Recipe::Naive);
    let times = SimulatedTimes::of(model);
    let mut tally = ExchangeTally::default();
    // The first waiter holds at once. The others find the node and watch it.
    tally.add(1, costs.create);
    tally.add(u64::from(waiters - 1), costs.create_refused);
    tally.add(u64::from(waiters - 1), costs.watch);

    let mut order: Vec<u32> = (1..waiters).collect();
    order.shuffle(&mut ChaCha8Rng::seed_from_u64(u64::from(seed)));
    let mut waiting_of = vec![0_u32; sessions as usize];
    order.iter().for_each(|waiter| waiting_of[(waiter % sessions) as usize] += 1);
    let mut connections = waiting_of.iter().filter(|waiting| **waiting > 0).count() as u64;

    let mut handovers_ms = Vec::with_capacity(order.len());
    let mut drain_ns = 0;
    for (waiting, winner) in (1..=u64::from(waiters - 1)).rev().zip(order) {
        tally.add(1, costs.delete);
        tally.notify(connections, waiting, costs.notification);
        tally.add(1, costs.create);
        tally.add(waiting - 1, costs.create_refused);
        tally.add(waiting - 1, costs.watch);
        let round = Round::of(waiting, times);
        handovers_ms.push(ns_to_ms(round.granted_ns));
        drain_ns += round.all_back_ns;
        let of_session = &mut waiting_of[(winner % sessions) as usize];
        *of_session -= 1;
        // A session is notified as long as one of its waiters watches.
        connections -= u64::from(*of_session == 0);
    }
    tally.add(1, costs.delete);
    drain_ns += 2 * times.way_ns + times.commit_ns + times.message_ns;
    tally.point(waiters, sessions, &handovers_ms, drain_ns)
}

/// The times of a round, from the call of the release on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Round {
    /// The time until one of the woken waiters holds.
    granted_ns: u64,
    /// The time until all others watch again.
    all_back_ns: u64,
}

impl Round {
    /// Returns the round of a release with this number of waiters.
    fn of(waiting: u64, times: SimulatedTimes) -> Round {
        let SimulatedTimes { way_ns, commit_ns, message_ns, wake_ns, .. } = times;
        // The deletion is applied, then all waiters are notified one after the other. The first of them asks before the
        // last one is notified.
        let deleted_ns = way_ns + commit_ns + message_ns;
        let notified_ns = message_ns + ((waiting - 1) * wake_ns).max(2 * way_ns);
        let granted_ns = deleted_ns + notified_ns + commit_ns + message_ns + way_ns;
        if waiting == 1 {
            return Round { granted_ns, all_back_ns: granted_ns };
        }
        // Each of the others is refused, and reads the node of the new holder.
        let in_vain_ns = 2 * (waiting - 1) * message_ns;
        Round { granted_ns, all_back_ns: granted_ns + in_vain_ns + 2 * way_ns }
    }
}
