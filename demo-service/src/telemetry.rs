//! What the service says about itself: logs, metrics, and the history of critical sections.

pub mod clock;
pub mod history;

mod locks;
mod metrics;
mod process;
mod seldom;

pub use locks::{LockMetrics, Waiting, in_acquire_span};
pub use metrics::{Levels, Metrics, Outcomes, PoolMetrics, QUEUED, REPEATED, RateLimited, SOLD};

use std::io::IsTerminal;
use std::time::Instant;

use tracing::{debug, error, warn};
use tracing_subscriber::EnvFilter;

use self::seldom::Seldom;
use crate::failure::{ALL, Failure, Logged};
use crate::setup_error::SetupError;

/// The log filter if `RUST_LOG` is not set. The libraries would log a line for each of up to a thousand sessions, and
/// for each statement that waits long for a row. Such waits are normal in this service.
const FILTER_DEFAULT: &str = "info,sqlx=error,zk_recipes=warn,zookeeper_client=warn";

/// How log lines look.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum LogFormat {
    /// For people.
    Text,
    /// One JSON object a line.
    Json,
}

/// Starts logging to standard error, with the filter of `RUST_LOG`. Only the first call in a process has an effect.
///
/// # Errors
/// [`SetupError::LogFilter`] if `RUST_LOG` is not a filter.
pub fn start_logging(format: LogFormat) -> Result<(), SetupError> {
    let filter = std::env::var(EnvFilter::DEFAULT_ENV).ok().filter(|filter| !filter.is_empty());
    let filter = EnvFilter::builder().parse(filter.as_deref().unwrap_or(FILTER_DEFAULT));
    let filter = filter.map_err(SetupError::LogFilter)?;
    let stderr = std::io::stderr;
    let subscriber = tracing_subscriber::fmt().with_env_filter(filter).with_writer(stderr);
    // This fails only if there is a subscriber already. That subscriber stays.
    match format {
        LogFormat::Text => subscriber.with_ansi(stderr().is_terminal()).try_init().ok(),
        LogFormat::Json => subscriber.json().flatten_event(true).try_init().ok(),
    };
    Ok(())
}

/// Logs a failure at the level of its kind. The span around the call names the request.
pub fn log_failure(failure: &Failure) {
    // One of each kind for the process, because all of its instances share the log.
    static TOLD: [Seldom; ALL.len()] = [const { Seldom::new() }; ALL.len()];
    let told = || ALL.iter().position(|kind| failure.is(kind)).and_then(|kind| TOLD[kind].ask(Instant::now()));
    match failure.kind().logged {
        Logged::Debug => debug!(%failure, "a request was refused"),
        Logged::WarnSeldom => match told() {
            Some(0) => warn!(%failure, "a request failed"),
            Some(untold) => warn!(%failure, untold, "requests fail"),
            None => debug!(%failure, "a request failed"),
        },
        Logged::Warn => warn!(%failure, "a request failed"),
        Logged::Error => error!(%failure, "a request failed"),
    }
}
