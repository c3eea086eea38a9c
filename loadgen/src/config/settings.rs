//! What each command gets: settings without open choices.

use std::path::PathBuf;
use std::time::Duration;

use buyers::habits::PaymentHabits;
use buyers::model::LoadModel;
use wildmatch::WildMatch;

use crate::judge::metrics::TableWidth;
use crate::judge::thresholds::Threshold;
use crate::lab::hazard::Hazard;
use crate::lab::source::{ServiceSettings, Source};
use crate::trial::goose::GooseFormat;
use crate::trial::schedule::Limits;

/// The load, for this program or for another engine.
#[derive(Debug, Clone)]
pub(crate) struct LoadSettings {
    pub(crate) strategies: Option<Vec<String>>,
    /// Numbers of users, each once and in order.
    pub(crate) users: Vec<u32>,
    /// The largest number of users of the strategies that match a pattern.
    pub(crate) users_max: Vec<(WildMatch, u32)>,
    pub(crate) model: LoadModel,
    pub(crate) stock: u32,
    /// Most units that one buyer may have of each SKU.
    pub(crate) per_buyer: Option<u32>,
    /// How buyers pay if the strategy sells in two steps.
    pub(crate) habits: PaymentHabits,
    pub(crate) goods_no: i64,
    pub(crate) goods: u32,
    /// How long a buyer may wait for the lock; the client waits a little longer for its answer.
    pub(crate) lock_wait: Duration,
    pub(crate) thresholds: Vec<Threshold>,
    /// The hazards that strike the strategies.
    pub(crate) hazards: Vec<Hazard>,
}

impl LoadSettings {
    /// Tells whether `users-max` allows a strategy this number of users.
    pub(crate) fn allows(&self, strategy: &str, users: u32) -> bool {
        self.users_max.iter().all(|(pattern, users_max)| !pattern.matches(strategy) || users <= *users_max)
    }
}

/// The settings of `compare` and `run`.
#[derive(Debug, Clone)]
pub(crate) struct CompareSettings {
    pub(crate) source: Source,
    pub(crate) load: LoadSettings,
    pub(crate) trials: u32,
    pub(crate) warm_up: bool,
    pub(crate) seed: Option<u32>,
    pub(crate) limits: Limits,
    pub(crate) report: ReportSettings,
}

/// What is written about the trials, and where.
#[derive(Debug, Clone)]
pub(crate) struct ReportSettings {
    pub(crate) folder: PathBuf,
    pub(crate) request_log: RequestLog,
    /// How much of the table the terminal shows.
    pub(crate) column: TableWidth,
    /// Whether JMeter's summariser lines are printed.
    pub(crate) jmeter_summary: bool,
    /// The format of goose's own reports, if they are wanted.
    pub(crate) goose_report: Option<GooseFormat>,
    pub(crate) quiet: bool,
    /// Whether a shop that sold wrongly is tried again, for the fewest buyers that make it do so.
    pub(crate) reproduction: bool,
}

impl ReportSettings {
    /// Returns the settings of a command that writes files of its own into this folder.
    pub(crate) fn in_folder(folder: PathBuf) -> ReportSettings {
        ReportSettings {
            folder,
            request_log: RequestLog::Off,
            column: TableWidth::Narrow,
            jmeter_summary: false,
            goose_report: None,
            quiet: true,
            reproduction: false,
        }
    }
}

/// Which requests are logged one by one, and where.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum RequestLog {
    /// None.
    Off,
    /// The requests of trials with up to [`RequestLog::REQUESTS_MAX`], in the folder of the report.
    InReport,
    /// All of them, in this file.
    At(PathBuf),
}

impl RequestLog {
    /// The most requests of a trial that are kept in memory for a log that the user did not ask for: 150 MB.
    pub(crate) const REQUESTS_MAX: usize = 1_000_000;

    /// Returns the most requests of a trial that are logged. A trial with more is not logged at all.
    pub(crate) fn requests_max(&self) -> usize {
        match self {
            RequestLog::Off => 0,
            RequestLog::InReport => Self::REQUESTS_MAX,
            RequestLog::At(_) => usize::MAX,
        }
    }
}

/// The settings of `export`.
#[derive(Debug, Clone)]
pub(crate) struct ExportSettings {
    /// Of a running service, an engine needs only the base URLs of the instances.
    pub(crate) source: Source<Vec<String>>,
    pub(crate) load: LoadSettings,
}

/// The settings of `up`.
#[derive(Debug, Clone)]
pub(crate) struct UpSettings {
    pub(crate) service: ServiceSettings,
    /// The SKU of the first strategy; the others get the next ones.
    pub(crate) goods_no: i64,
    /// Units on sale of each SKU.
    pub(crate) stock: u32,
    /// The file for other shells.
    pub(crate) env: Option<PathBuf>,
}
