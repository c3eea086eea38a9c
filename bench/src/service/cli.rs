//! The command line.

use std::path::PathBuf;

use clap::{Args, Parser, Subcommand};
use program::{Epilogue, Exit};

fn epilogue() -> Epilogue {
    Epilogue::default()
        .examples(&[
            ("measures everything, in fourteen minutes", "bench-service"),
            ("takes one short repetition of few sizes", "bench-service --reps 1 --window 1s --buyers 1,8 --crowds 300"),
        ])
        .note(
            "Needs wrk, and pgbench beside the Postgres server or in PATH. The report goes to standard output. bench/README.md \
             describes the method.",
        )
        .note("TIME is a number with its unit, in whole seconds: 3s or 1m.")
        .exit_status(&[
            (Exit::Passed, ""),
            (Exit::Failed, ": wrk or pgbench counted other sales than there are orders"),
            (Exit::Setup, ""),
            (Exit::Usage, ""),
            (Exit::Interrupted, ""),
        ])
}

/// Compares the service over HTTP with pgbench and a bare handler of axum, a hot stock with its two floors, and the
/// load generator with wrk, on throwaway servers.
#[derive(Debug, Parser)]
#[command(name = "bench-service", version, max_term_width = 100, disable_help_subcommand = true, after_help = epilogue().to_string())]
pub(crate) struct Cli {
    #[command(subcommand)]
    pub(crate) command: Option<Command>,
    #[command(flatten)]
    pub(crate) settings: ServiceBenchSettings,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Serves the handler that looks at nothing
    #[command(hide = true)]
    Bare,
}

/// The settings of a run.
#[derive(Clone, Debug, Args)]
pub(crate) struct ServiceBenchSettings {
    /// Number of timed repetitions, after one that warms up
    #[arg(long, value_name = "N", default_value_t = 5, value_parser = clap::value_parser!(u16).range(1..=1000), allow_negative_numbers = true)]
    pub(crate) reps: u16,
    /// Time of each measurement
    #[arg(long = "window", value_name = "TIME", default_value = "3s", value_parser = parse_seconds)]
    pub(crate) seconds: u16,
    /// Numbers of buyers. Each has a connection to the service, which has as many connections to Postgres
    #[arg(
        long,
        value_name = "N,…",
        value_delimiter = ',',
        default_value = "1,2,4,8,16",
        value_parser = clap::value_parser!(u16).range(1..=100),
        allow_negative_numbers = true
    )]
    pub(crate) buyers: Vec<u16>,
    /// Numbers of connections that buy a hot stock from each strategy
    #[arg(
        long,
        value_name = "N,…",
        value_delimiter = ',',
        default_value = "30,300,1500",
        value_parser = clap::value_parser!(u16).range(1..=2000),
        allow_negative_numbers = true
    )]
    pub(crate) crowds: Vec<u16>,
    /// Numbers of connections that look at the stock
    #[arg(
        long,
        value_name = "N,…",
        value_delimiter = ',',
        default_value = "16,64,256",
        value_parser = clap::value_parser!(u16).range(1..=1000),
        allow_negative_numbers = true
    )]
    pub(crate) lookers: Vec<u16>,
    /// Numbers of users of loadgen, and of connections of wrk
    #[arg(
        long,
        value_name = "N,…",
        value_delimiter = ',',
        default_value = "4,16,64",
        value_parser = clap::value_parser!(u16).range(1..=1000),
        allow_negative_numbers = true
    )]
    pub(crate) users: Vec<u16>,
    /// Program of the service, with loadgen beside it [default: demo-service beside this program]
    #[arg(long, value_name = "FILE")]
    pub(crate) demo_service: Option<PathBuf>,
}

/// Parses the time of a measurement. wrk and pgbench take whole seconds.
fn parse_seconds(text: &str) -> Result<u16, String> {
    let time = humantime::parse_duration(text).map_err(|error| format!("{error}; write a time such as 3s"))?;
    let seconds = u16::try_from(time.as_secs()).ok().filter(|seconds| (1..=3600).contains(seconds));
    seconds.filter(|_| time.subsec_nanos() == 0).ok_or_else(|| "write whole seconds, from 1s to 1h".to_owned())
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

    #[test]
    fn the_command_line_is_consistent() {
        Cli::command().debug_assert();
    }

    #[test]
    fn impossible_values_are_refused() {
        for args in
            [["--reps", "0"], ["--window", "500ms"], ["--buyers", "101"], ["--crowds", "2001"], ["--lookers", "16,x"]]
        {
            let error = Cli::try_parse_from(["bench-service"].iter().chain(&args)).unwrap_err().to_string();
            assert!(error.contains("invalid value"), "{args:?}: {error}");
        }
    }
}
