//! What the service says about itself: logs and metrics.

mod cpu;
mod locks;
mod metrics;
mod seldom;

pub use cpu::cpu_time;
pub use locks::LockMetrics;
pub use metrics::{Levels, Metrics, Outcomes};

use std::io::IsTerminal;
use std::time::Instant;

use tracing::{debug, warn};
use tracing_subscriber::EnvFilter;

use self::seldom::Seldom;
use crate::config::LogFormat;
use crate::error::{Failure, SetupError};

/// What is logged when `RUST_LOG` does not say. The libraries below have a line for every one of maybe a thousand
/// sessions, and for every statement that waits for a row, which is what this service is about.
const FILTER_DEFAULT: &str = "info,sqlx=error,zk_recipes=warn,zookeeper_client=warn";

/// Starts logging to standard error, as much as `RUST_LOG` says. The first call of a process counts.
///
/// # Errors
/// [`SetupError::LogFilter`] when `RUST_LOG` is not a filter.
pub fn start_logging(format: LogFormat) -> Result<(), SetupError> {
    let filter = std::env::var(EnvFilter::DEFAULT_ENV).ok().filter(|filter| !filter.is_empty());
    let filter = EnvFilter::builder().parse(filter.as_deref().unwrap_or(FILTER_DEFAULT));
    let filter = filter.map_err(SetupError::LogFilter)?;
    let stderr = std::io::stderr;
    let subscriber = tracing_subscriber::fmt().with_env_filter(filter).with_writer(stderr);
    // It fails only when there is a subscriber already, which then goes on.
    match format {
        LogFormat::Text => subscriber.with_ansi(stderr().is_terminal()).try_init().ok(),
        LogFormat::Json => subscriber.json().flatten_event(true).try_init().ok(),
    };
    Ok(())
}

/// Warns that the database is away, for all requests that meet that within some seconds once.
pub fn warn_of_database_outage(failure: &Failure) {
    // The log is that of the process, too.
    static TOLD: Seldom = Seldom::new();
    match TOLD.ask(Instant::now()) {
        Some(0) => warn!(%failure, "a request failed"),
        Some(untold) => warn!(%failure, untold, "requests fail"),
        None => debug!(%failure, "a request failed"),
    }
}
