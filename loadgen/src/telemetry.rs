//! The log: a line at the end of each phase of a trial, with the time that the phase took.

use std::env;
use std::io::IsTerminal as _;

use tracing_subscriber::EnvFilter;
use tracing_subscriber::fmt::format::FmtSpan;

use crate::error::Error;

/// Logs to standard error what `RUST_LOG` asks for, such as `loadgen=debug`. Without it nothing is logged.
pub(crate) fn start() -> Result<(), Error> {
    let Some(filter) = env::var(EnvFilter::DEFAULT_ENV).ok().filter(|filter| !filter.is_empty()) else { return Ok(()) };
    let filter = EnvFilter::builder().parse(filter).map_err(|error| {
        Error::Usage(format!("RUST_LOG is not a log filter: {error}; write for instance loadgen=debug"))
    })?;
    let is_terminal = std::io::stderr().is_terminal();
    let log = tracing_subscriber::fmt().with_env_filter(filter).with_writer(std::io::stderr).with_ansi(is_terminal);
    // Only the first call in a process has an effect.
    let _ = log.with_span_events(FmtSpan::CLOSE).try_init();
    Ok(())
}
