//! What guards the deductions of a strategy: the column of its rounds in the tables of `loadgen torture`.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::lab::strategy::{Mechanism, Promise, Strategy};

/// What guards the deductions of a strategy.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Technique {
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

impl Technique {
    /// All kinds, in the order of the columns.
    pub(crate) const ALL: [Technique; 7] = [
        Technique::Control,
        Technique::ZookeeperLock,
        Technique::ZookeeperFenced,
        Technique::RedisLock,
        Technique::RedisFenced,
        Technique::RedisGate,
        Technique::Postgres,
    ];

    /// Returns what guards the deductions of this strategy.
    pub(crate) fn of(strategy: &Strategy) -> Technique {
        let never_oversells = strategy.promise == Promise::NeverOversells;
        if strategy.promise.is_of_control() {
            return Technique::Control;
        }
        match strategy.mechanism {
            Mechanism::None | Mechanism::Process => Technique::Control,
            Mechanism::Zookeeper if never_oversells => Technique::ZookeeperFenced,
            Mechanism::Zookeeper => Technique::ZookeeperLock,
            Mechanism::Redis if strategy.is_gate() => Technique::RedisGate,
            Mechanism::Redis if never_oversells => Technique::RedisFenced,
            Mechanism::Redis => Technique::RedisLock,
            Mechanism::Postgres => Technique::Postgres,
        }
    }

    /// Tells whether an instance holds a session or a node in ZooKeeper while it sells.
    pub(crate) fn needs_session(self) -> bool {
        matches!(self, Technique::ZookeeperLock | Technique::ZookeeperFenced)
    }

    /// Tells whether it needs Redis.
    pub(crate) fn needs_redis(self) -> bool {
        matches!(self, Technique::RedisLock | Technique::RedisFenced | Technique::RedisGate)
    }
}

impl fmt::Display for Technique {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Technique::Control => "controls",
            Technique::ZookeeperLock => "ZooKeeper lock",
            Technique::ZookeeperFenced => "ZooKeeper and the row",
            Technique::RedisLock => "Redis lock",
            Technique::RedisFenced => "Redis lock and the row",
            Technique::RedisGate => "Redis gate",
            Technique::Postgres => "Postgres",
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
        let of = |promise, mechanism| Technique::of(&strategy("s", promise, mechanism, Wakes::None));
        assert_eq!(of(Promise::NeverOversells, Mechanism::Postgres), Technique::Postgres);
        assert_eq!(of(Promise::ExceedsLimit, Mechanism::Postgres), Technique::Control);
        assert_eq!(of(Promise::Oversells, Mechanism::Zookeeper), Technique::Control, "an early release guards nothing");
        assert_eq!(of(Promise::NeverOversells, Mechanism::Zookeeper), Technique::ZookeeperFenced);
        assert_eq!(of(Promise::SafeWhileSessionLives, Mechanism::Zookeeper), Technique::ZookeeperLock);
        assert_eq!(of(Promise::NeverOversells, Mechanism::Redis), Technique::RedisGate, "it has no critical section");
        let fenced = strategy("s", Promise::NeverOversells, Mechanism::Redis, Wakes::None);
        assert_eq!(Technique::of(&Strategy { permits: Some(1), ..fenced }), Technique::RedisFenced);
    }
}
