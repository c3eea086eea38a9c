//! The service as a process: command line, logs, signals, exit status.

use std::future::pending;
use std::io;
use std::process::ExitCode;

use tokio::signal::unix::{Signal, SignalKind, signal};
use tracing::warn;

use crate::config::Config;
use crate::setup_error::SetupError;
use crate::telemetry::start_logging;

/// Runs the program. A binary that polled the service itself would compile all of it a second time.
///
/// # Panics
/// If the runtime cannot be started.
#[tokio::main]
pub async fn main() -> ExitCode {
    let config = match Config::parse_from_env(std::env::args_os()) {
        Ok(config) => config,
        Err(stop) => return program::print_usage(&stop),
    };
    match run(config).await {
        // A purchase whose commit was not answered may still run. The end of the runtime would drop it and release
        // its lock. `exit` skips that: the lock lives until ZooKeeper expires the session.
        Ok(()) => std::process::exit(0),
        Err(error) => {
            program::tell(format_args!("demo-service: {}", error.to_string().replace('\n', " ")));
            error.exit().into()
        }
    }
}

async fn run(config: Config) -> Result<(), SetupError> {
    start_logging(config.log_format)?;
    let mut stops = Stops::listen().map_err(SetupError::Signals)?;
    let shutdown = async move {
        stops.next().await;
        // A shell and the kernel each send `SIGHUP` when a terminal closes: that is one request to stop.
        stops.hangup = None;
        // A second signal ends the process without waiting.
        tokio::spawn(async move {
            let status = stops.next().await;
            warn!(
                "told to stop again: what has begun is cut off, and its locks end when their sessions or their time is over"
            );
            std::process::exit(status);
        });
    };
    crate::run(config, shutdown).await
}

/// The signals that stop the service.
struct Stops {
    interrupt: Signal,
    terminate: Signal,
    /// `None` if `SIGHUP` does not stop the service.
    hangup: Option<Signal>,
}

impl Stops {
    /// Listens for the signals. A `SIGHUP` that is ignored, as under `nohup`, stays ignored.
    fn listen() -> io::Result<Self> {
        let hangup = (!program::is_hangup_ignored()).then(|| signal(SignalKind::hangup())).transpose()?;
        Ok(Self { interrupt: signal(SignalKind::interrupt())?, terminate: signal(SignalKind::terminate())?, hangup })
    }

    /// Waits for the next signal. Returns the exit status of a process that this signal ends.
    async fn next(&mut self) -> i32 {
        let hangup = async {
            match &mut self.hangup {
                Some(hangup) => hangup.recv().await,
                None => pending().await,
            }
        };
        let kind = tokio::select! {
            _ = self.interrupt.recv() => SignalKind::interrupt(),
            _ = self.terminate.recv() => SignalKind::terminate(),
            _ = hangup => SignalKind::hangup(),
        };
        128 + kind.as_raw_value()
    }
}
