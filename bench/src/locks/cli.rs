//! The command line.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::time::Duration;

use clap::builder::PossibleValuesParser;
use clap::{Args, Parser, Subcommand};
use program::{Epilogue, Exit};

use crate::implementation::Implementation;
use crate::schedule::Load;

fn epilogue() -> Epilogue {
    Epilogue::default()
        .examples(&[
            ("measures everything, in almost half an hour", "bench-peers"),
            (
                "shows in four minutes that all of it works",
                "bench-peers --reps 1 --window 500ms --contenders 1,30,300 --waiters 0",
            ),
        ])
        .environment(&[("CURATOR_CLASSPATH", "jars of Apache Curator [default: those of Debian's packages]")])
        .note(
            "Writes bench-peers.md, bench-peers.json and bench-peers.svg, the chart, into the folder of --out. \
             bench/src/locks/README.md describes the method.",
        )
        .note("TIME is a number with its unit: 500ms or 2s.")
        .exit_status(&[
            (Exit::Passed, "; the report names what exceeded its bounds"),
            (Exit::Failed, ": an implementation failed, or a waiter was not served exactly once"),
            (Exit::Setup, ""),
            (Exit::Usage, ""),
            (Exit::Interrupted, ""),
        ])
}

/// Compares our locks with those of Apache Curator, kazoo and zookeeper-client, on one throwaway ZooKeeper server.
#[derive(Debug, Parser)]
#[command(name = "bench-peers", version, max_term_width = 100, disable_help_subcommand = true, after_help = epilogue().to_string())]
pub(crate) struct Cli {
    #[command(subcommand)]
    pub(crate) command: Option<Command>,
    #[command(flatten)]
    pub(crate) settings: Settings,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Contends for locks as the lines of standard input say
    #[command(hide = true)]
    Worker,
}

/// The settings of a run.
#[derive(Clone, Debug, Args)]
pub(crate) struct Settings {
    /// Number of timed repetitions, after one that warms up and before one that counts bytes
    #[arg(long, value_name = "N", default_value_t = 5, value_parser = clap::value_parser!(u16).range(1..=1000), allow_negative_numbers = true)]
    reps: u16,
    /// Time for which the hand-overs of each measurement are counted
    #[arg(long, value_name = "TIME", default_value = "2s", value_parser = parse_window)]
    pub(crate) window: Duration,
    /// Numbers of contenders
    #[arg(
        long,
        value_name = "N,…",
        value_delimiter = ',',
        default_value = "1,30,300,1500",
        value_parser = clap::value_parser!(u32).range(1..=5000),
        allow_negative_numbers = true
    )]
    contenders: Vec<u32>,
    /// Rates of an open load, in acquires per second, which show the waits of newcomers; 0 leaves it out
    #[arg(
        long,
        value_name = "N,…",
        value_delimiter = ',',
        default_value = "150,500",
        value_parser = parse_rate,
        allow_negative_numbers = true
    )]
    rates: Vec<u32>,
    /// Implementations to measure [default: all]
    #[arg(long, value_name = "NAME,…", value_delimiter = ',', value_parser = names())]
    only: Vec<String>,
    /// Seed of the order of the measurements
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub(crate) seed: u64,
    /// Number of waiters that queue for one lock at once and are then served in one go; 0 leaves that out
    #[arg(long, value_name = "N", default_value_t = 20_000, value_parser = clap::value_parser!(u32).range(..=100_000), allow_negative_numbers = true)]
    pub(crate) waiters: u32,
    /// Folder to write the report into
    #[arg(long, value_name = "DIR", default_value = "target")]
    pub(crate) out: PathBuf,
}

impl Settings {
    /// Returns the number of timed repetitions.
    pub(crate) fn reps(&self) -> usize {
        self.reps.into()
    }

    /// Returns the numbers of contenders, then the rates of acquires, each in ascending order and once.
    pub(crate) fn loads(&self) -> Vec<Load> {
        let contenders = self.contenders.iter().map(|contenders| Load::Contenders(*contenders));
        let rates = self.rates.iter().filter(|rate| **rate > 0).map(|rate| Load::Rate(*rate));
        contenders.chain(rates).collect::<BTreeSet<_>>().into_iter().collect()
    }

    /// Returns the number of acquires that are timed at each rate: those that arrive within a window at the highest
    /// one. So the quantiles of all rates stand on equally many waits.
    pub(crate) fn timed_arrivals(&self) -> u32 {
        let highest = self.rates.iter().max().copied().unwrap_or(0);
        let arrivals = self.window.as_millis() * u128::from(highest) / 1000;
        u32::try_from(arrivals).unwrap_or(u32::MAX).max(1)
    }

    /// Returns the chosen implementations, in the order of the report.
    pub(crate) fn implementations(&self) -> Vec<Implementation> {
        let is_wanted = |implementation: &Implementation| {
            self.only.is_empty() || self.only.iter().any(|name| name == implementation.name())
        };
        Implementation::all().into_iter().filter(is_wanted).collect()
    }
}

fn names() -> PossibleValuesParser {
    PossibleValuesParser::new(Implementation::all().into_iter().map(Implementation::name))
}

fn parse_rate(text: &str) -> Result<u32, String> {
    match text.parse() {
        Ok(rate @ 0..=100_000) => Ok(rate),
        _ if text.is_empty() => Ok(0),
        _ => Err("write a whole number of acquires per second, at most 100000".to_owned()),
    }
}

fn parse_window(text: &str) -> Result<Duration, String> {
    let window =
        humantime::parse_duration(text).map_err(|error| format!("{error}; write a time such as 500ms or 2s"))?;
    if (Duration::from_millis(1)..=Duration::from_secs(3600)).contains(&window) {
        Ok(window)
    } else {
        Err("the window must be from 1ms to 1h long".to_owned())
    }
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

    fn settings(args: &[&str]) -> Settings {
        Cli::try_parse_from(["bench-peers"].iter().chain(args)).unwrap().settings
    }

    #[test]
    fn the_command_line_is_consistent() {
        Cli::command().debug_assert();
    }

    #[test]
    fn the_defaults_measure_everything() {
        let settings = settings(&[]);
        assert_eq!(settings.implementations(), Implementation::all());
        let loads = [1, 30, 300, 1500].map(Load::Contenders).into_iter().chain([150, 500].map(Load::Rate));
        assert_eq!(settings.loads(), loads.collect::<Vec<_>>());
        assert_eq!((settings.reps(), settings.window, settings.waiters), (5, Duration::from_secs(2), 20_000));
        assert_eq!(settings.out, PathBuf::from("target"));
    }

    #[test]
    fn contenders_are_measured_in_ascending_order_and_once() {
        let settings = settings(&["--contenders", "30,1,30", "--rates", "0"]);
        assert_eq!(settings.loads(), [1, 30].map(Load::Contenders));
    }

    #[test]
    fn no_rate_or_a_rate_of_zero_leaves_the_open_load_out() {
        for rates in ["0", "", "0,0"] {
            assert_eq!(settings(&["--contenders", "1", "--rates", rates]).loads(), [Load::Contenders(1)], "{rates:?}");
        }
    }

    #[test]
    fn all_rates_time_what_arrives_in_a_window_at_the_highest() {
        assert_eq!(settings(&[]).timed_arrivals(), 1000);
        assert_eq!(settings(&["--rates", "3000,20", "--window", "100ms"]).timed_arrivals(), 300);
        assert_eq!(settings(&["--rates", "20", "--window", "1ms"]).timed_arrivals(), 1);
    }

    #[test]
    fn implementations_keep_the_order_of_the_report() {
        let names: Vec<_> =
            settings(&["--only", "mutex,raw"]).implementations().into_iter().map(Implementation::name).collect();
        assert_eq!(names, ["raw", "mutex"]);
    }

    #[test]
    fn impossible_values_are_refused() {
        for args in [
            ["--reps", "0"],
            ["--reps", "-1"],
            ["--window", "0s"],
            ["--window", "soon"],
            ["--contenders", "0"],
            ["--contenders", "1,x"],
            ["--only", "redis"],
            ["--waiters", "100001"],
            ["--rates", "-1"],
            ["--rates", "100,fast"],
            ["--rates", "100001"],
        ] {
            let error = Cli::try_parse_from(["bench-peers"].iter().chain(&args)).unwrap_err().to_string();
            assert!(error.contains("invalid value"), "{args:?}: {error}");
        }
    }
}
