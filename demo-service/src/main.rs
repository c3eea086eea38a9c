//! `demo-service`: command line, logs, signals, exit status.

use std::process::ExitCode;

use demo_service::config::{Config, EXIT_USAGE};
use demo_service::error::SetupError;
use demo_service::telemetry::start_logging;
use tokio::signal::unix::{Signal, SignalKind, signal};

/// Exit status when the service cannot start.
const EXIT_SETUP: u8 = 3;

#[tokio::main]
async fn main() -> ExitCode {
    let config = match Config::parse_from_env(std::env::args_os()) {
        Ok(config) => config,
        Err(stop) => {
            // Nothing is left to do when even the usage cannot be written.
            stop.print().ok();
            return if stop.use_stderr() { EXIT_USAGE.into() } else { ExitCode::SUCCESS };
        }
    };
    match run(config).await {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("demo-service: {}", error.to_string().replace('\n', " "));
            EXIT_SETUP.into()
        }
    }
}

async fn run(config: Config) -> Result<(), SetupError> {
    start_logging(config.log_format)?;
    let interrupt = signal(SignalKind::interrupt()).map_err(SetupError::Signals)?;
    let terminate = signal(SignalKind::terminate()).map_err(SetupError::Signals)?;
    demo_service::run(config, either(interrupt, terminate)).await
}

async fn either(mut one: Signal, mut other: Signal) {
    tokio::select! {
        _ = one.recv() => {}
        _ = other.recv() => {}
    }
}
