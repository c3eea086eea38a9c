//! Releases of a lock, and the notifications to expect of them.
//!
//! A *release* is a purchase that held a ZooKeeper lock and released it: every `sold`, `sold_out` and `over_limit` of a
//! strategy whose mechanism is `zookeeper`. After any other answer, it is unknown whether the purchase held the lock. A waiter that gives
//! up deletes its node and wakes its successor without ever having held the lock, and a holder that was refused did hold it.
//! A trial with such answers therefore has no number of releases, and no figure per release.

use buyers::sample::ByOutcome;
use stats::as_f64;

use crate::lab::strategy::{Mechanism, Wakes};
use crate::trial::schedule::Schedule;

/// Returns the number of releases of these purchases. `None` if one of them had no decision.
pub(crate) fn releases(mechanism: Mechanism, answers: &ByOutcome<u64>) -> Option<u64> {
    match mechanism {
        Mechanism::Zookeeper => {
            (answers.undecided() == 0).then_some(answers.sold + answers.sold_out + answers.over_limit)
        }
        Mechanism::None | Mechanism::Process | Mechanism::Redis | Mechanism::Postgres => Some(0),
    }
}

/// Returns the expected watch events of `contenders` that all wait before the first of them releases.
///
/// With `Wakes::One` each release but the last wakes its successor: N − 1. With `Wakes::All` each release wakes all that
/// still wait: N(N − 1)/2. A server notifies a connection only once, even if several contenders share it. So with fewer
/// `sessions` than waiters, each release wakes the sessions instead.
fn notifications_expected(wakes: Wakes, contenders: u64, sessions: Option<u64>) -> u64 {
    let sessions = sessions.unwrap_or(u64::MAX);
    match wakes {
        Wakes::None => 0,
        Wakes::One => contenders.saturating_sub(1),
        Wakes::All => (0..contenders).map(|waiting| waiting.min(sessions)).sum(),
    }
}

/// Returns the expected watch events of a burst of `users`: all, and those of each release. `None` for another load.
pub(crate) fn expected_of_burst(schedule: &Schedule, wakes: Wakes, users: u32) -> Option<(u64, f64)> {
    let model = schedule.model.filter(|model| model.is_burst())?;
    let requests = u64::from(users) * model.requests_per_buyer() as u64;
    let expected = notifications_expected(wakes, requests, schedule.zk_sessions_total);
    Some((expected, as_f64(expected) / as_f64(requests.max(1))))
}

#[cfg(test)]
mod tests {
    use buyers::model::LoadModel;

    use super::*;
    use crate::lab::counters::tests::snapshot;
    use crate::lab::traffic::Traffic;

    #[test]
    fn every_request_of_a_buyer_waits_for_its_turn() {
        let of = |model| {
            let schedule = Schedule { model: Some(model), ..crate::report::fixture::schedule() };
            expected_of_burst(&schedule, Wakes::One, 100)
        };
        assert_eq!(of(LoadModel::Burst { requests_per_buyer: 3 }), Some((299, 299.0 / 300.0)));
        assert_eq!(of(LoadModel::Ramp { ramp_up_ms: 1, requests_per_buyer: 3 }), None);
    }

    #[test]
    fn releases_are_known_only_when_every_buyer_had_a_decision() {
        let decided = ByOutcome { sold: 3, sold_out: 4, ..ByOutcome::default() };
        assert_eq!(releases(Mechanism::Zookeeper, &decided), Some(7));
        for undecided in [
            ByOutcome { refused: 1, ..decided },
            ByOutcome { error: 1, ..decided },
            ByOutcome { timeout: 1, ..decided },
        ] {
            assert_eq!(releases(Mechanism::Zookeeper, &undecided), None);
            assert_eq!(releases(Mechanism::Postgres, &undecided), Some(0));
        }
        let traffic = Traffic::between(&snapshot(&[], 0), &snapshot(&[], 30), None);
        assert_eq!((traffic.notifications_per_release(), traffic.client_notifications), (None, Some(30)));
    }

    #[test]
    fn expected_notifications_follow_from_who_is_woken() {
        assert_eq!(notifications_expected(Wakes::None, 1500, None), 0);
        assert_eq!(notifications_expected(Wakes::One, 1500, None), 1499);
        assert_eq!(notifications_expected(Wakes::All, 1500, None), 1_124_250);
        assert_eq!(notifications_expected(Wakes::All, 1500, Some(1500)), 1_124_250);
        assert_eq!(notifications_expected(Wakes::All, 4, Some(1)), 3);
        assert_eq!(notifications_expected(Wakes::All, 0, Some(1)), 0);
    }
}
