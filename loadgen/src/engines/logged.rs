//! What a log has.

use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

/// The columns that the exported plan for JMeter adds to a log, and `check` to its own.
///
/// `trial` is the number of the trial. `intended` is the intended start in milliseconds since 1970, with a fraction. `buyer` is the
/// number of the buyer, and `order` the number of the order. An unknown value is empty.
pub const JTL_COLUMNS: [&str; 5] = ["trial", "intended", "outcome", "buyer", "order"];

/// The end of the label of a request that buys nothing, such as a sign-up. Such a line is left out.
pub const NO_PURCHASE: &str = ": no purchase";

/// A log of an engine.
#[derive(Debug, Clone, PartialEq)]
pub struct EngineLog {
    /// The file.
    pub path: PathBuf,
    /// The engine and its format.
    pub format: LogFormat,
    /// The unit in which the log has its times.
    pub resolution: Duration,
    /// Whether the engine read the answers and logged what they meant. If not, statuses tell the outcomes.
    pub answers_seen: bool,
    /// The requests, in the order of the file.
    pub requests: Vec<LoggedRequest>,
}

/// A request to buy, as an engine logged it. A purchase of several requests is one.
#[derive(Debug, Clone, PartialEq)]
pub struct LoggedRequest {
    /// The name of the shop, or the name that the engine gave the request.
    pub label: Arc<str>,
    /// The number of the trial.
    pub trial: Option<u32>,
    /// When the buyer wanted to buy.
    pub intended: Option<SystemTime>,
    /// When the first request was sent.
    pub started: SystemTime,
    /// The time from the first request to the last byte of the last answer.
    pub duration: Duration,
    /// What the buyer was told. `None`: the status does not tell it, and the answer is not in the log.
    pub outcome: Option<LoggedOutcome>,
    /// The status of the last answer. `None`: there was none.
    pub status: Option<u16>,
    /// The number of the buyer.
    pub buyer: Option<String>,
    /// The number of the order.
    pub order: Option<String>,
}

/// What a buyer was told, as a log has it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LoggedOutcome {
    /// The buyer has a unit.
    Sold,
    /// Nothing was left.
    SoldOut,
    /// The buyer has as many units as one buyer may have.
    OverLimit,
    /// The buyer did not pay a reservation in time.
    Unpaid,
    /// The shop did not serve the buyer.
    Refused,
    /// There was no answer, or one without a meaning.
    Error,
    /// The answer or the outcome did not come in time.
    Timeout,
}

impl LoggedOutcome {
    /// Reads the word of a log.
    pub(super) fn of(word: &str) -> Option<LoggedOutcome> {
        match word {
            "sold" => Some(LoggedOutcome::Sold),
            "sold_out" => Some(LoggedOutcome::SoldOut),
            "over_limit" => Some(LoggedOutcome::OverLimit),
            "unpaid" => Some(LoggedOutcome::Unpaid),
            "refused" => Some(LoggedOutcome::Refused),
            "error" => Some(LoggedOutcome::Error),
            "timeout" => Some(LoggedOutcome::Timeout),
            _ => None,
        }
    }
}

/// The engine that wrote a log, and its format.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LogFormat {
    /// JMeter, as CSV.
    Jtl,
    /// k6, as lines of JSON.
    K6Json,
    /// k6, as CSV.
    K6Csv,
    /// Locust, by the listener of an exported file.
    Locust,
}

impl fmt::Display for LogFormat {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            LogFormat::Jtl => "JMeter or loadgen",
            LogFormat::K6Json => "k6 (JSON)",
            LogFormat::K6Csv => "k6 (CSV)",
            LogFormat::Locust => "Locust",
        })
    }
}
