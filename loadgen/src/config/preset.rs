//! Settings for a purpose.

use std::time::Duration;

use clap::ValueEnum;
use serde::Deserialize;

/// Settings for a purpose.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum Preset {
    /// 300 users for 100 units: some two minutes
    Quick,
    /// The classic JMeter plan, 1500 users for 100 units, a session each: some twenty minutes
    Jmeter,
    /// The ZooKeeper locks with 10 to 300 users and a session each: how many a release wakes
    Herd,
    /// The safe strategies with 10 to 1500 users, the herd up to 300: how they scale
    Scale,
}

/// What a preset chooses.
pub(super) struct Choice {
    pub(super) strategies: Option<&'static [&'static str]>,
    pub(super) users: &'static [u32],
    pub(super) users_max: Option<(&'static str, u32)>,
    pub(super) trials: u32,
    pub(super) lock_wait: Duration,
}

impl Preset {
    pub(super) fn choice(self) -> Choice {
        // So many trials that a strategy that sold too much in none of them does so in fewer than 26 % of all, with 95 %
        // confidence, and that the sold carry a p99.
        let quick =
            Choice { strategies: None, users: &[300], users_max: None, trials: 10, lock_wait: Duration::from_mins(1) };
        // The herd of 1500 naive waiters drains in time of order N², and no buyer is to be refused for it.
        let lock_wait = Duration::from_mins(5);
        match self {
            Preset::Quick => quick,
            Preset::Jmeter => Choice { users: &[1500], lock_wait, ..quick },
            Preset::Herd => Choice {
                strategies: Some(&["zk-naive", "zk-mutex", "zk-handoff", "zk-cohort"]),
                users: &[10, 30, 100, 300],
                ..quick
            },
            Preset::Scale => Choice {
                strategies: Some(&["zk-naive", "zk-mutex", "zk-handoff", "zk-cohort", "pg-conditional", "pg-row-lock"]),
                users: &[10, 30, 100, 300, 1000, 1500],
                users_max: Some(("zk-naive", 300)),
                lock_wait,
                ..quick
            },
        }
    }
}
