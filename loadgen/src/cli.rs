//! The command line, and the settings that it makes together with presets, a plan file and the environment.

mod export;
mod load;
mod plan_file;
mod preset;
mod service;
mod values;

use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, Parser, Subcommand};
use clap_complete::Shell;

pub(crate) use self::export::ExportArgs;
use self::load::LoadArgs;
pub(crate) use self::service::BUYERS_MAX_MIN;
use self::service::ServiceArgs;
use self::values::{parse_report, parse_url};
use crate::error::Error;
use crate::settings::{CompareSettings, ServiceSettings, UpSettings};
use crate::simulate::SimulateArgs;

// Lines that fit a terminal of 80 columns, as clap knows no indentation when it breaks them.
const EXIT_CODES: &str = "\
Exit codes:
    0  every strategy kept its promise, and every threshold held
    1  a threshold was crossed, a regression was found, or a strategy that must
       oversell did not: the load was too weak to prove anything
    2  a strategy broke its promise
    3  set-up or infrastructure failed, or so many buyers were refused or failed
       that units were left
    4  the load generator was the bottleneck
   64  wrong usage
  130  interrupted (Ctrl-C, SIGTERM)

However it ends, the trials that were run are reported.";

const AUDIT_EXIT_CODES: &str = "\
Exit codes:
    0  every sale sold what there was, and every lock excluded
    2  a sale or a lock did not, be it of a strategy that has to oversell
    3  the database or an instance does not answer
   64  wrong usage
  130  interrupted (Ctrl-C, SIGTERM)";

/// Compares ways of guarding the stock of a flash sale, on real servers.
#[derive(Debug, Parser)]
#[command(name = "loadgen", version, max_term_width = 100, after_help = EXIT_CODES)]
pub(crate) struct Cli {
    #[command(subcommand)]
    pub(crate) command: Command,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Run every strategy under the same load, audit what was sold, and write a report
    #[command(after_help = EXIT_CODES)]
    Compare(CompareArgs),
    /// Run one strategy, audit what it sold, and write a report
    #[command(after_help = EXIT_CODES)]
    Run(RunArgs),
    /// Make the pages of a report again from its report.json
    Report(ReportArgs),
    /// Tell whether a second run is worse than the first; exit code 1 if it is
    Diff(DiffArgs),
    /// Audit every sale in a database, from its ledger and orders alone
    #[command(after_help = AUDIT_EXIT_CODES)]
    Audit(AuditArgs),
    /// Predict the herd, the traffic and the time of many waiters
    Simulate(SimulateArgs),
    /// Write the same load for JMeter or k6
    ///
    /// Nothing is started, and nothing is connected to. What is written is one trial. Flags of `compare` that are not listed
    /// here are accepted and ignored.
    Export(ExportArgs),
    /// Start the servers and the service, and keep them until Ctrl-C
    Up(UpArgs),
    /// Print the strategies that the service knows
    Strategies(StrategiesArgs),
    /// Print the script that completes this command line in a shell
    Completions(CompletionsArgs),
}

#[derive(Debug, Args)]
pub(crate) struct CompareArgs {
    /// Strategies to compare, or all [default: those that the service calls its headline]
    #[arg(long, value_name = "NAME", value_delimiter = ',')]
    strategies: Option<Vec<String>>,
    #[command(flatten)]
    load: LoadArgs,
}

#[derive(Debug, Args)]
pub(crate) struct RunArgs {
    /// The strategy; `loadgen strategies` lists them
    #[arg(value_name = "STRATEGY")]
    strategy: String,
    #[command(flatten)]
    load: LoadArgs,
}

#[derive(Debug, Args)]
pub(crate) struct ReportArgs {
    /// The report.json of an earlier comparison
    #[arg(value_name = "FILE", value_parser = parse_report, required_unless_present = "schema")]
    pub(crate) file: Option<PathBuf>,
    /// Folder of the pages [default: that of the file]
    #[arg(long, value_name = "DIR", requires = "file")]
    pub(crate) out: Option<PathBuf>,
    /// Add what `loadgen simulate --json FILE` wrote, here and to the report.json
    #[arg(long, value_name = "FILE", requires = "file")]
    pub(crate) simulation: Option<PathBuf>,
    /// Print the JSON Schema of report.json instead
    #[arg(long, conflicts_with_all = ["file", "out"])]
    pub(crate) schema: bool,
}

#[derive(Debug, Args)]
pub(crate) struct DiffArgs {
    /// The report.json of the first run
    #[arg(value_name = "OLD", value_parser = parse_report)]
    pub(crate) old: PathBuf,
    /// The report.json of the second run
    #[arg(value_name = "NEW", value_parser = parse_report)]
    pub(crate) new: PathBuf,
    /// Compare runs that were asked for different things
    #[arg(long)]
    pub(crate) anyway: bool,
}

#[derive(Debug, Args)]
pub(crate) struct AuditArgs {
    /// The database
    #[arg(long, value_name = "URL", env = "DATABASE_URL", hide_env_values = true)]
    pub(crate) database_url: String,
    /// Only the sales of this SKU
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(i64).range(1..))]
    pub(crate) goods_no: Option<i64>,
    /// Only this sale of the SKU
    #[arg(long, value_name = "N", requires = "goods_no")]
    pub(crate) sale: Option<i64>,
    /// Base URLs of the instances, whose history of critical sections is checked too; needs ADMIN_TOKEN in the environment
    #[arg(long, value_name = "URL", value_delimiter = ',', value_parser = parse_url)]
    pub(crate) target: Vec<String>,
    /// Print the findings as JSON
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, Args)]
pub(crate) struct UpArgs {
    #[command(flatten)]
    service: ServiceArgs,
    /// Buyers that an instance works on at once [default: 2048]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=20_000))]
    users: Option<u32>,
    /// How long a buyer waits for the lock before the service refuses [default: 5s]
    #[arg(long, value_name = "TIME", value_parser = values::parse_positive_time)]
    lock_wait: Option<Duration>,
    /// Port of the first instance, the others take the next ones [default: any free ports]
    #[arg(long, value_name = "PORT", value_parser = clap::value_parser!(u16).range(1..))]
    port: Option<u16>,
    /// The first SKU to put on sale; each strategy gets one, in the order of `loadgen strategies`
    #[arg(
        long,
        value_name = "N",
        default_value_t = 1,
        value_parser = clap::value_parser!(i64).range(1..=i64::MAX - 1000)
    )]
    goods_no: i64,
    /// Units on sale of each SKU
    #[arg(long, value_name = "N", default_value_t = 100, value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    stock: u32,
}

#[derive(Debug, Args)]
pub(crate) struct StrategiesArgs {
    /// Base URL of a running instance, instead of starting one
    #[arg(long, value_name = "URL", value_parser = parse_url)]
    pub(crate) target: Option<String>,
    /// The program of the service [default: demo-service beside this program]
    #[arg(long, value_name = "PATH", conflicts_with = "target")]
    pub(crate) demo_service: Option<PathBuf>,
}

#[derive(Debug, Args)]
pub(crate) struct CompletionsArgs {
    /// The shell
    #[arg(value_name = "SHELL")]
    pub(crate) shell: Shell,
}

impl CompareArgs {
    /// Fills in the plan file, the preset and the environment.
    ///
    /// # Errors
    ///
    /// [`Error::Usage`] when something is missing or contradicts something else.
    pub(crate) fn resolve(self) -> Result<CompareSettings, Error> {
        self.load.resolve(self.strategies)
    }
}

impl RunArgs {
    /// Fills in the plan file, the preset and the environment.
    ///
    /// # Errors
    ///
    /// [`Error::Usage`] when something is missing or contradicts something else.
    pub(crate) fn resolve(self) -> Result<CompareSettings, Error> {
        self.load.resolve(Some(vec![self.strategy]))
    }
}

impl UpArgs {
    /// Fills in the defaults.
    ///
    /// # Errors
    ///
    /// [`Error::Usage`] when the ports do not fit.
    pub(crate) fn resolve(self) -> Result<UpSettings, Error> {
        // A lab that is tried by hand has the service's own deadline, and a session for a handful of waiters.
        let lock_wait = self.lock_wait.unwrap_or(Duration::from_secs(5));
        let mut service = self.service;
        service.zk_sessions = service.zk_sessions.or(Some(32));
        Ok(UpSettings {
            service: service.resolve(self.users.unwrap_or(1), lock_wait, self.port)?,
            goods_no: self.goods_no,
            stock: self.stock,
        })
    }
}

impl StrategiesArgs {
    /// The smallest service that can list its strategies.
    ///
    /// # Errors
    ///
    /// None, as every choice is made here.
    pub(crate) fn service(&self) -> Result<ServiceSettings, Error> {
        let smallest = ServiceArgs {
            instances: Some(1),
            zk_sessions: Some(1),
            hold: Some("0ms".to_owned()),
            demo_service: self.demo_service.clone(),
        };
        smallest.resolve(1, Duration::from_secs(5), None)
    }
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

    #[test]
    fn the_command_line_is_consistent() {
        Cli::command().debug_assert();
    }
}
