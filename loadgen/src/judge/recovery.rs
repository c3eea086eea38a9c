//! How soon after a fault a strategy can sell again, by its settings alone.

use weather::{Harm, Site};

use crate::lab::technique::Technique;
use crate::trial::round::{FaultRecord, TortureSettings};

/// What the next sale after a fault may have to wait for. The time of a purchase, of a new connection, of an election and of the start of
/// a process depends on the machine, so no floor contains it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Floor {
    /// The next buyer.
    Buyer,
    /// The end of a session that was lost at the beginning of the fault.
    LostSession,
    /// The end of sessions that the servers grant anew when they serve again.
    RenewedSession,
    /// The end of a lock in Redis whose holder is gone since the beginning of the fault.
    LostRedisLock,
    /// The end of a lock in Redis that was taken at the end of the fault, for nobody.
    LateRedisLock,
}

impl Floor {
    /// All of them.
    pub(crate) const ALL: [Floor; 5] =
        [Floor::Buyer, Floor::LostSession, Floor::RenewedSession, Floor::LostRedisLock, Floor::LateRedisLock];

    /// Returns what the next sale waits for after this fault.
    pub(crate) fn of(kind: Technique, record: &FaultRecord, settings: &TortureSettings) -> Floor {
        let Effect { ends_process, ends_session, parts } = Effect::of(record.fault.harm);
        let outlasts = record.ended_ms - record.begun_ms >= settings.session_timeout_ms;
        let is_apart = parts && outlasts && record.server.is_none();
        let is_redis_lock = matches!(kind, Technique::RedisLock | Technique::RedisFenced);
        // An instance forgets a lock that it may have, once twice the time to live is over.
        let is_forgotten = record.ended_ms - record.begun_ms >= 2.0 * settings.redis_lock_ttl_ms;
        let holds_requests = matches!(record.fault.harm, Harm::Silent | Harm::RequestsHeld | Harm::Frozen);
        match record.fault.site {
            Site::Instance if ends_process && kind.needs_session() => Floor::LostSession,
            Site::Instance if ends_process && is_redis_lock => Floor::LostRedisLock,
            Site::Redis | Site::RedisLink if is_redis_lock && is_forgotten && holds_requests => Floor::LateRedisLock,
            Site::ZookeeperLink if (is_apart || ends_session) && kind.needs_session() => Floor::LostSession,
            Site::Zookeeper if is_apart && kind.needs_session() => Floor::RenewedSession,
            Site::Instance
            | Site::ZookeeperLink
            | Site::Zookeeper
            | Site::PostgresLink
            | Site::Postgres
            | Site::RedisLink
            | Site::Redis
            | Site::BuyersLink
            | Site::Nodes
            // Rounds of the lab have none of these.
            | Site::Contender => Floor::Buyer,
        }
    }

    /// Returns the time from the end of this fault, in milliseconds.
    pub(crate) fn ms(self, record: &FaultRecord, settings: &TortureSettings) -> f64 {
        let TortureSettings { rate_per_s, instances, session_timeout_ms, tick_ms, redis_lock_ttl_ms, .. } = *settings;
        let lasted = record.ended_ms - record.begun_ms;
        let buyers_of = if record.fault.site.is_of_process() { f64::from(instances) } else { 1.0 };
        let waits = match self {
            Floor::Buyer => 0.0,
            Floor::LostSession => session_timeout_ms + tick_ms - lasted,
            Floor::RenewedSession => session_timeout_ms + tick_ms,
            Floor::LostRedisLock => redis_lock_ttl_ms - lasted,
            Floor::LateRedisLock => redis_lock_ttl_ms,
        };
        buyers_of * 1e3 / rate_per_s + waits.max(0.0)
    }

    /// Returns the formula.
    pub(crate) fn formula(self) -> &'static str {
        match self {
            Floor::Buyer => "instances / rate, or 1 / rate for a fault of a server",
            Floor::LostSession => "the same + max(0, session timeout + tick − length of the fault)",
            Floor::RenewedSession => "the same + session timeout + tick",
            Floor::LostRedisLock => "the same + max(0, time to live − length of the fault)",
            Floor::LateRedisLock => "the same + time to live",
        }
    }

    /// Returns to which faults it belongs, and why.
    pub(crate) fn reason(self) -> &'static str {
        match self {
            Floor::Buyer => {
                "Any fault not named below. When it ends, everything that it held arrives or is closed. So only the next buyer is missing."
            }
            Floor::LostSession => {
                "ZooKeeper locks, if an instance is killed or moved, if its session is replaced, or if it is cut off from all servers for \
                 longer than the session timeout. The node of the lost session keeps its position until the servers end the session, \
                 which they do at the next tick after the timeout."
            }
            Floor::RenewedSession => {
                "ZooKeeper locks, if all servers are gone for longer than the session timeout. The instances have given their sessions up. \
                 The servers that come back do not know that, and grant each session its whole timeout again."
            }
            Floor::LostRedisLock => {
                "Redis locks, if an instance is killed or moved. Nobody renews its lock, which Redis keeps for its time to live."
            }
            Floor::LateRedisLock => {
                "Redis locks, if Redis or a link to it holds requests back for longer than twice the time to live. A request for the lock that \
                 arrives so late takes it for an instance that has forgotten it."
            }
        }
    }
}

/// What a harm does to a holder of a lock.
struct Effect {
    /// The process of an instance ends without giving anything back.
    ends_process: bool,
    /// The session ends while its instance goes on.
    ends_session: bool,
    /// Those on both sides hear nothing of each other while it lasts.
    parts: bool,
}

impl Effect {
    fn of(harm: Harm) -> Effect {
        let none = Effect { ends_process: false, ends_session: false, parts: false };
        match harm {
            Harm::Killed | Harm::Moved => Effect { ends_process: true, parts: true, ..none },
            Harm::SessionsReplaced => Effect { ends_session: true, ..none },
            Harm::Unreachable
            | Harm::Silent
            | Harm::RequestsHeld
            | Harm::RepliesHeld
            | Harm::Stopped
            | Harm::Frozen
            | Harm::Isolated
            | Harm::Silenced
            | Harm::HalfOpen
            | Harm::DiskFull => Effect { parts: true, ..none },
            // Connections that come later are served.
            Harm::Cut
            | Harm::RepliesLost
            | Harm::Resets
            | Harm::Slow
            | Harm::Jittery
            | Harm::Narrow
            | Harm::Slowed
            | Harm::OtherTimeouts
            | Harm::OtherDefaults
            | Harm::Crashed
            | Harm::ConnectionsEnded
            | Harm::OrdersLocked
            | Harm::CommitsHeld
            | Harm::ClockStepped
            | Harm::Deleted
            | Harm::Remade => none,
        }
    }
}

#[cfg(test)]
mod tests {
    use weather::Fault;

    use super::*;
    use crate::lab::storm::SITES;

    #[test]
    fn a_floor_is_what_the_settings_leave_to_wait_for() {
        let settings = TortureSettings {
            rate_per_s: 100.0,
            instances: 2,
            session_timeout_ms: 3000.0,
            tick_ms: 2000.0,
            db_timeout_ms: 7000.0,
            redis_lock_ttl_ms: 30_000.0,
        };
        let floor = |fault: &str, lasted: f64, server: Option<usize>, kind: Technique| {
            let fault = Fault::matching(&SITES, &[fault.to_owned()]).unwrap()[0];
            let record = FaultRecord { fault, server, ..FaultRecord::example(lasted) };
            Floor::of(kind, &record, &settings).ms(&record, &settings)
        };
        let [lock, postgres] = [Technique::ZookeeperLock, Technique::Postgres];
        assert_eq!(floor("instance-killed", 1000.0, None, postgres), 20.0, "the next buyer of that instance");
        assert_eq!(floor("postgres-frozen", 1000.0, None, postgres), 10.0, "the next buyer of any instance");
        assert_eq!(floor("instance-killed", 1000.0, None, lock), 4020.0);
        assert_eq!(floor("instance-killed", 6000.0, None, lock), 20.0, "the session has ended meanwhile");
        assert_eq!(floor("instance-stopped", 1000.0, None, lock), 20.0, "an orderly end releases");
        assert_eq!(floor("instance-killed", 1000.0, None, Technique::RedisLock), 29_020.0);
        assert_eq!(floor("redis-link-silent", 61_000.0, None, Technique::RedisLock), 30_020.0);
        assert_eq!(floor("redis-link-silent", 59_000.0, None, Technique::RedisLock), 20.0, "it releases at once");
        assert_eq!(floor("zookeeper-link-silent", 4000.0, None, lock), 1020.0);
        assert_eq!(floor("zookeeper-link-silent", 4000.0, Some(0), lock), 20.0, "two servers are left");
        assert_eq!(floor("zookeeper-link-silent", 2000.0, None, lock), 20.0, "the session lives on");
        assert_eq!(floor("zookeeper-link-sessions-replaced", 2000.0, None, lock), 3020.0);
        assert_eq!(floor("zookeeper-killed", 4000.0, None, lock), 5010.0);
        assert_eq!(floor("zookeeper-killed", 4000.0, None, postgres), 10.0);
    }
}
