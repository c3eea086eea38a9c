//! What guards the deductions of a strategy: the column of its rounds in the tables of `loadgen torture`.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::lab::strategy::{Mechanism, Promise, Strategy};

/// What guards the deductions of a strategy.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Kind {
    /// Nothing that holds: the strategy is a control.
    Control,
    /// A lock in ZooKeeper alone.
    ZookeeperLock,
    /// A lock in ZooKeeper, whose late holders the row refuses.
    ZookeeperFenced,
    /// A lock in Redis alone.
    RedisLock,
    /// A lock in Redis, whose late holders the row refuses.
    RedisFenced,
    /// A script in Redis, and a stream that carries the orders.
    RedisGate,
    /// Postgres alone.
    Postgres,
}

impl Kind {
    /// All kinds, in the order of the columns.
    pub(crate) const ALL: [Kind; 7] = [
        Kind::Control,
        Kind::ZookeeperLock,
        Kind::ZookeeperFenced,
        Kind::RedisLock,
        Kind::RedisFenced,
        Kind::RedisGate,
        Kind::Postgres,
    ];

    /// Returns what guards the deductions of this strategy.
    pub(crate) fn of(strategy: &Strategy) -> Kind {
        let never_oversells = strategy.promise == Promise::NeverOversells;
        if strategy.promise.is_of_control() {
            return Kind::Control;
        }
        match strategy.mechanism {
            Mechanism::None | Mechanism::Process => Kind::Control,
            Mechanism::Zookeeper if never_oversells => Kind::ZookeeperFenced,
            Mechanism::Zookeeper => Kind::ZookeeperLock,
            Mechanism::Redis if strategy.is_gate() => Kind::RedisGate,
            Mechanism::Redis if never_oversells => Kind::RedisFenced,
            Mechanism::Redis => Kind::RedisLock,
            Mechanism::Postgres => Kind::Postgres,
        }
    }

    /// Tells whether an instance holds a session or a node in ZooKeeper while it sells.
    pub(crate) fn needs_session(self) -> bool {
        matches!(self, Kind::ZookeeperLock | Kind::ZookeeperFenced)
    }

    /// Tells whether it needs Redis.
    pub(crate) fn needs_redis(self) -> bool {
        matches!(self, Kind::RedisLock | Kind::RedisFenced | Kind::RedisGate)
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Kind::Control => "controls",
            Kind::ZookeeperLock => "ZooKeeper lock",
            Kind::ZookeeperFenced => "ZooKeeper and the row",
            Kind::RedisLock => "Redis lock",
            Kind::RedisFenced => "Redis lock and the row",
            Kind::RedisGate => "Redis gate",
            Kind::Postgres => "Postgres",
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lab::strategy::Wakes;
    use crate::lab::strategy::tests::strategy;

    #[test]
    fn a_strategy_is_of_the_kind_of_its_guard() {
        let of = |promise, mechanism| Kind::of(&strategy("s", promise, mechanism, Wakes::None));
        assert_eq!(of(Promise::NeverOversells, Mechanism::Postgres), Kind::Postgres);
        assert_eq!(of(Promise::ExceedsLimit, Mechanism::Postgres), Kind::Control);
        assert_eq!(of(Promise::Oversells, Mechanism::Zookeeper), Kind::Control, "an early release guards nothing");
        assert_eq!(of(Promise::NeverOversells, Mechanism::Zookeeper), Kind::ZookeeperFenced);
        assert_eq!(of(Promise::SafeWhileSessionLives, Mechanism::Zookeeper), Kind::ZookeeperLock);
        assert_eq!(of(Promise::NeverOversells, Mechanism::Redis), Kind::RedisGate, "it has no critical section");
        let fenced = strategy("s", Promise::NeverOversells, Mechanism::Redis, Wakes::None);
        assert_eq!(Kind::of(&Strategy { permits: Some(1), ..fenced }), Kind::RedisFenced);
    }
}
