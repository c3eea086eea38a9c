//! The faults that exist.

use std::fmt;

use program::did_you_mean;
use serde::{Deserialize, Serialize};
use wildmatch::WildMatch;

/// Where something goes wrong.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Site {
    /// Between a client process and one ZooKeeper server, or all of them.
    ZookeeperLink,
    /// Between an instance of the service and Postgres.
    PostgresLink,
    /// Between a client process and Redis.
    RedisLink,
    /// Between the buyers and an instance.
    BuyersLink,
    /// A ZooKeeper server, or all of them.
    Zookeeper,
    /// The Postgres server.
    Postgres,
    /// The Redis server.
    Redis,
    /// An instance of the service.
    Instance,
    /// A process whose contenders ask for locks.
    Contender,
    /// The nodes of the locks in ZooKeeper.
    Nodes,
}

/// What goes wrong there.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Harm {
    /// Connections are closed, and may be made again.
    Cut,
    /// Connections are closed and refused.
    Unreachable,
    /// Connections stay open, and nothing arrives until the fault ends.
    Silent,
    /// Only requests do not arrive until then.
    RequestsHeld,
    /// Only replies do not arrive until then.
    RepliesHeld,
    /// Requests arrive, and their replies never do.
    RepliesLost,
    /// Each reply may be lost, and its connection is closed then.
    Resets,
    /// Everything arrives late.
    Slow,
    /// Everything arrives late, by different times.
    Jittery,
    /// Few bytes pass in a second.
    Narrow,
    /// Sessions are replaced by new ones when they connect again.
    SessionsReplaced,
    /// The process is killed, and started again when the fault ends.
    Killed,
    /// The process is told to stop, and started again when the fault ends.
    Stopped,
    /// The process stands still until the fault ends.
    Frozen,
    /// The process is killed, and started again at another address.
    Moved,
    /// The server loses its links to the other servers, and notices.
    Isolated,
    /// Nothing arrives on its links to the other servers.
    Silenced,
    /// The other servers lose their links to it, and it notices only the silence.
    HalfOpen,
    /// All that the server exchanges with the other servers arrives late.
    Slowed,
    /// It is told to stop and started again with other timeouts, and with its own ones when the fault ends.
    OtherTimeouts,
    /// Its processes crash, and it recovers from its log.
    Crashed,
    /// It ends the connections of the service.
    ConnectionsEnded,
    /// Its defaults change, and it ends the connections of the service.
    OtherDefaults,
    /// Somebody else locks the table of orders.
    OrdersLocked,
    /// No commit ends, as the copy that it waits for is gone.
    CommitsHeld,
    /// Its disk takes nothing more, and it is started again when the fault ends.
    DiskFull,
    /// Its wall clock is an hour ahead or behind at most, until the fault ends.
    ClockStepped,
    /// Somebody deletes them, with the node above them.
    Deleted,
    /// Somebody deletes them, and makes those without a session anew, with their old data.
    Remade,
}

/// A fault: its name is its site and its harm.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Fault {
    /// Where it strikes.
    pub site: Site,
    /// What it does there.
    pub harm: Harm,
}

/// A pattern that names no fault.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("there is no fault {pattern:?}{meant}; --list-faults lists all")]
pub struct UnknownFault {
    pattern: String,
    /// A similar name, as a question.
    meant: String,
}

const OF_LINKS: &[Harm] = &[
    Harm::Cut,
    Harm::Unreachable,
    Harm::Silent,
    Harm::RequestsHeld,
    Harm::RepliesHeld,
    Harm::RepliesLost,
    Harm::Resets,
    Harm::Slow,
    Harm::Jittery,
    Harm::Narrow,
];

impl Site {
    /// All sites.
    pub const ALL: [Site; 10] = [
        Site::ZookeeperLink,
        Site::PostgresLink,
        Site::RedisLink,
        Site::BuyersLink,
        Site::Zookeeper,
        Site::Postgres,
        Site::Redis,
        Site::Instance,
        Site::Contender,
        Site::Nodes,
    ];

    /// Returns the beginning of the names of its faults.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Site::ZookeeperLink => "zookeeper-link",
            Site::PostgresLink => "postgres-link",
            Site::RedisLink => "redis-link",
            Site::BuyersLink => "buyers-link",
            Site::Zookeeper => "zookeeper",
            Site::Postgres => "postgres",
            Site::Redis => "redis",
            Site::Instance => "instance",
            Site::Contender => "contender",
            Site::Nodes => "nodes",
        }
    }

    /// Returns what can go wrong there.
    fn harms(self) -> impl Iterator<Item = Harm> {
        let (of_links, own): (&[Harm], &[Harm]) = match self {
            Site::ZookeeperLink => (OF_LINKS, &[Harm::SessionsReplaced]),
            Site::PostgresLink | Site::RedisLink | Site::BuyersLink => (OF_LINKS, &[]),
            Site::Zookeeper => (
                &[],
                &[
                    Harm::Killed,
                    Harm::Stopped,
                    Harm::Frozen,
                    Harm::Isolated,
                    Harm::Silenced,
                    Harm::HalfOpen,
                    Harm::Slowed,
                    Harm::OtherTimeouts,
                    Harm::DiskFull,
                    Harm::ClockStepped,
                ],
            ),
            Site::Postgres => (
                &[],
                &[
                    Harm::Crashed,
                    Harm::Stopped,
                    Harm::ConnectionsEnded,
                    Harm::OtherDefaults,
                    Harm::Frozen,
                    Harm::OrdersLocked,
                    Harm::CommitsHeld,
                    Harm::DiskFull,
                ],
            ),
            Site::Redis => (&[], &[Harm::Killed, Harm::Frozen]),
            Site::Instance => (&[], &[Harm::Killed, Harm::Stopped, Harm::Frozen, Harm::Moved, Harm::OtherTimeouts]),
            Site::Contender => (&[], &[Harm::Killed, Harm::Stopped, Harm::Frozen]),
            Site::Nodes => (&[], &[Harm::Deleted, Harm::Remade]),
        };
        of_links.iter().chain(own).copied()
    }

    /// Tells whether it belongs to one client process: the process itself, or its links.
    #[must_use]
    pub fn is_of_process(self) -> bool {
        !matches!(self, Site::Zookeeper | Site::Postgres | Site::Redis | Site::Nodes)
    }

    /// Tells whether it exists only where there is a Redis.
    #[must_use]
    pub fn needs_redis(self) -> bool {
        matches!(self, Site::Redis | Site::RedisLink)
    }
}

impl Harm {
    /// Returns the end of the names of its faults.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Harm::Cut => "cut",
            Harm::Unreachable => "unreachable",
            Harm::Silent => "silent",
            Harm::RequestsHeld => "requests-held",
            Harm::RepliesHeld => "replies-held",
            Harm::RepliesLost => "replies-lost",
            Harm::Resets => "resets",
            Harm::Slow => "slow",
            Harm::Jittery => "jittery",
            Harm::Narrow => "narrow",
            Harm::SessionsReplaced => "sessions-replaced",
            Harm::Killed => "killed",
            Harm::Stopped => "stopped",
            Harm::Frozen => "frozen",
            Harm::Moved => "moved",
            Harm::Isolated => "isolated",
            Harm::Silenced => "silenced",
            Harm::HalfOpen => "half-open",
            Harm::Slowed => "slowed",
            Harm::OtherTimeouts => "other-timeouts",
            Harm::Crashed => "crashed",
            Harm::ConnectionsEnded => "connections-ended",
            Harm::OtherDefaults => "other-defaults",
            Harm::OrdersLocked => "orders-locked",
            Harm::CommitsHeld => "commits-held",
            Harm::DiskFull => "disk-full",
            Harm::ClockStepped => "clock-stepped",
            Harm::Deleted => "deleted",
            Harm::Remade => "remade",
        }
    }

    /// Tells whether it is over as soon as it has begun.
    #[must_use]
    pub fn is_instant(self) -> bool {
        matches!(self, Harm::Cut | Harm::Crashed | Harm::ConnectionsEnded | Harm::Deleted | Harm::Remade)
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}-{}", self.site.name(), self.harm.name())
    }
}

impl Fault {
    /// Returns all faults of some sites.
    pub fn at(sites: &[Site]) -> impl Iterator<Item = Fault> {
        sites.iter().flat_map(|site| site.harms().map(|harm| Fault { site: *site, harm }))
    }

    /// Returns the faults of these sites that match one of these patterns, such as `postgres-*`.
    ///
    /// # Errors
    ///
    /// [`UnknownFault`] if a pattern matches none. It names a similar fault.
    pub fn matching(sites: &[Site], patterns: &[String]) -> Result<Vec<Fault>, UnknownFault> {
        let names: Vec<(String, Fault)> = Fault::at(sites).map(|fault| (fault.to_string(), fault)).collect();
        let wild: Vec<WildMatch> = patterns.iter().map(|pattern| WildMatch::new(pattern)).collect();
        for (pattern, wild) in patterns.iter().zip(&wild) {
            if !names.iter().any(|(name, _)| wild.matches(name)) {
                let meant = did_you_mean(pattern, names.iter().map(|(name, _)| name.as_str()));
                return Err(UnknownFault { pattern: pattern.clone(), meant });
            }
        }
        let is_meant = |name: &str| wild.iter().any(|wild| wild.matches(name));
        Ok(names.into_iter().filter(|(name, _)| is_meant(name)).map(|(_, fault)| fault).collect())
    }
}

impl Serialize for Fault {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Fault {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let name = String::deserialize(deserializer)?;
        let unknown = || serde::de::Error::custom(format!("there is no fault {name:?}"));
        Fault::at(&Site::ALL).find(|fault| fault.to_string() == name).ok_or_else(unknown)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pattern_names_faults_and_a_wrong_one_a_similar_fault() {
        let names = |patterns: &[&str]| {
            let patterns: Vec<String> = patterns.iter().map(|pattern| (*pattern).to_owned()).collect();
            Fault::matching(&Site::ALL, &patterns).map(|faults| faults.iter().map(Fault::to_string).collect::<Vec<_>>())
        };
        assert_eq!(names(&["redis-*", "instance-killed"]).unwrap().len(), 10 + 2 + 1);
        assert_eq!(names(&["*"]).unwrap().len(), Fault::at(&Site::ALL).count());
        let refused = names(&["instance-kiled"]).unwrap_err().to_string();
        assert!(refused.contains("instance-killed"), "{refused}");
    }

    #[test]
    fn each_fault_has_a_name_of_its_own() {
        for fault in Fault::at(&Site::ALL) {
            let text = serde_json::to_string(&fault).unwrap();
            assert_eq!(serde_json::from_str::<Fault>(&text).unwrap(), fault);
        }
    }
}
