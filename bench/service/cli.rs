//! The command line.

use std::path::PathBuf;

use clap::{Args, Parser, Subcommand};

const AFTER_HELP: &str = "\
Needs wrk, and pgbench beside the Postgres server or in PATH. The report goes to standard output; bench/README.md says how it is measured.

Exit codes:
    0  everything was measured
    1  what wrk or pgbench counted is not what was ordered, which the report says
    3  a server, a program or the machine did not do its part
   64  wrong usage
  130  interrupted (Ctrl-C, SIGTERM)";

/// Measures the service over HTTP beside pgbench and beside a bare handler of axum, a hot stock beside its two floors, and the
/// load generator beside wrk, on throwaway servers.
#[derive(Debug, Parser)]
#[command(name = "bench-service", version, after_help = AFTER_HELP)]
pub(crate) struct Cli {
    #[command(subcommand)]
    pub(crate) command: Option<Command>,
    #[command(flatten)]
    pub(crate) settings: Settings,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Serve the handler that looks at nothing
    #[command(hide = true)]
    Bare,
}

/// What is measured, and how.
#[derive(Clone, Debug, Args)]
pub(crate) struct Settings {
    /// Repetitions that count, beside one that warms up
    #[arg(long, value_name = "N", default_value_t = 5, value_parser = clap::value_parser!(u16).range(1..=1000), allow_negative_numbers = true)]
    pub(crate) reps: u16,
    /// Seconds of each measurement
    #[arg(long, value_name = "N", default_value_t = 3, value_parser = clap::value_parser!(u16).range(1..=3600), allow_negative_numbers = true)]
    pub(crate) seconds: u16,
    /// Numbers of buyers, who have a connection each to the service, and that as many to Postgres
    #[arg(
        long,
        value_name = "N,…",
        value_delimiter = ',',
        default_value = "1,2,4,8,16",
        value_parser = clap::value_parser!(u16).range(1..=100),
        allow_negative_numbers = true
    )]
    pub(crate) buyers: Vec<u16>,
    /// Numbers of connections that buy a hot stock, which is sold by pg-merge and by what stands beside it
    #[arg(
        long,
        value_name = "N,…",
        value_delimiter = ',',
        default_value = "30,300,1500",
        value_parser = clap::value_parser!(u16).range(1..=2000),
        allow_negative_numbers = true
    )]
    pub(crate) crowds: Vec<u16>,
    /// Numbers of those who look at the stock
    #[arg(
        long,
        value_name = "N,…",
        value_delimiter = ',',
        default_value = "16,64,256",
        value_parser = clap::value_parser!(u16).range(1..=1000),
        allow_negative_numbers = true
    )]
    pub(crate) lookers: Vec<u16>,
    /// Numbers of users of our load generator, and of connections of wrk beside it
    #[arg(
        long,
        value_name = "N,…",
        value_delimiter = ',',
        default_value = "4,16,64",
        value_parser = clap::value_parser!(u16).range(1..=1000),
        allow_negative_numbers = true
    )]
    pub(crate) users: Vec<u16>,
    /// The program of the service, with loadgen beside it [default: demo-service beside this program]
    #[arg(long, value_name = "PATH")]
    pub(crate) demo_service: Option<PathBuf>,
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
            [["--reps", "0"], ["--seconds", "-1"], ["--buyers", "101"], ["--crowds", "2001"], ["--lookers", "16,x"]]
        {
            let error = Cli::try_parse_from(["bench-service"].iter().chain(&args)).unwrap_err().to_string();
            assert!(error.contains("invalid value"), "{args:?}: {error}");
        }
    }
}
