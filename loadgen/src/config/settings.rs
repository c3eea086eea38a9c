//! What the commands are to do, every choice made.

use std::path::PathBuf;
use std::time::Duration;

use wildmatch::WildMatch;

use crate::judge::thresholds::Threshold;
use crate::load::model::LoadModel;

/// What `compare` is to do, every choice made.
#[derive(Debug, Clone)]
pub(crate) struct CompareSettings {
    pub(crate) source: Source,
    pub(crate) strategies: Option<Vec<String>>,
    /// Numbers of users.
    pub(crate) users: Vec<u32>,
    /// Strategies that are tried with fewer users than the others, and with how many at most.
    pub(crate) users_max: Vec<(WildMatch, u32)>,
    pub(crate) model: LoadModel,
    pub(crate) stock: u32,
    pub(crate) goods_no: i64,
    pub(crate) goods: u32,
    pub(crate) trials: u32,
    pub(crate) warm_up: bool,
    pub(crate) seed: Option<u32>,
    /// How long a buyer may wait for the lock; the client waits a little longer for its answer.
    pub(crate) lock_wait: Duration,
    pub(crate) thresholds: Vec<Threshold>,
    pub(crate) report: PathBuf,
    /// Whether JMeter's summariser lines are printed.
    pub(crate) jmeter_summary: bool,
    pub(crate) quiet: bool,
}

/// Where the service comes from.
#[derive(Debug, Clone)]
pub(crate) enum Source {
    Start(ServiceSettings),
    Target(TargetSettings),
}

/// How to start the service.
#[derive(Debug, Clone)]
pub(crate) struct ServiceSettings {
    pub(crate) instances: u16,
    pub(crate) zk_sessions: u32,
    pub(crate) hold: String,
    pub(crate) lock_wait: Duration,
    /// Purchases that an instance works on at once; it sheds those beyond them.
    pub(crate) buyers_max: u32,
    /// Critical sections that an instance keeps the record of.
    pub(crate) history: u32,
    /// Further arguments.
    pub(crate) args: Vec<String>,
    pub(crate) demo_service: Option<PathBuf>,
    /// Port of the first instance; any free ones without it.
    pub(crate) port: Option<u16>,
}

/// A service that is running.
#[derive(Debug, Clone)]
pub(crate) struct TargetSettings {
    pub(crate) urls: Vec<String>,
    pub(crate) database_url: String,
    pub(crate) zookeeper: String,
    pub(crate) admin_token: String,
}

/// What `up` is to do.
#[derive(Debug, Clone)]
pub(crate) struct UpSettings {
    pub(crate) service: ServiceSettings,
    /// The SKU of the first strategy; the others get the next ones.
    pub(crate) goods_no: i64,
    /// Units on sale of each SKU.
    pub(crate) stock: u32,
}
