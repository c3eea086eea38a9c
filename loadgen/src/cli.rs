//! The command line, and the settings that it makes together with presets and the environment.

use std::env;
use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, Parser, Subcommand, ValueEnum};

use crate::error::Error;
use crate::settings::{CompareSettings, ServiceSettings, Source, TargetSettings, UpSettings};

const EXIT_CODES: &str = "\
Exit codes:
    0  every strategy kept its promise
    1  a strategy that must oversell did not: the load was too weak to prove anything
    2  a strategy broke its promise
    3  set-up or infrastructure failed, or so many buyers were refused or failed that units were left
    4  the load generator was the bottleneck
   64  wrong usage
  130  interrupted (Ctrl-C, SIGTERM); `compare` still reports the trials that were run";

/// An instance works on at least so many purchases at once, as one does that is started by hand.
const BUYERS_MAX_MIN: u32 = 2048;

/// Compares ways of guarding the stock of a flash sale, on real servers.
#[derive(Debug, Parser)]
#[command(name = "loadgen", version, after_help = EXIT_CODES)]
pub(crate) struct Cli {
    #[command(subcommand)]
    pub(crate) command: Command,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Run every strategy under the same burst of buyers, audit what was sold, and write a report
    #[command(after_help = EXIT_CODES)]
    Compare(CompareArgs),
    /// Start the servers and the service, and keep them until Ctrl-C
    Up(UpArgs),
    /// Print the strategies that the service knows
    Strategies(StrategiesArgs),
}

/// How the service is started.
#[derive(Debug, Clone, Args)]
pub(crate) struct ServiceArgs {
    /// Instances of the service [default: 3]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=64))]
    instances: Option<u16>,
    /// ZooKeeper sessions of each instance [default: one a user; up: 32]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=20_000))]
    zk_sessions: Option<u32>,
    /// Business time inside the critical section, fixed or uniform: 2ms, 1ms..5ms [default: 2ms]
    #[arg(long, value_name = "TIME", value_parser = parse_hold)]
    hold: Option<String>,
    /// How long a buyer waits for the lock before the service refuses; a target has its own limit, beside which this
    /// one only bounds how long the client waits for an answer [default: 60s, jmeter 5m; up: 5s]
    #[arg(long, value_name = "TIME", value_parser = parse_positive_time)]
    lock_wait: Option<Duration>,
    /// The program of the service [default: demo-service beside this program]
    #[arg(long, value_name = "PATH")]
    demo_service: Option<PathBuf>,
}

/// A service that is running already.
#[derive(Debug, Clone, Args)]
pub(crate) struct TargetArgs {
    /// Base URLs of running instances, instead of starting any; needs ADMIN_TOKEN in the environment
    #[arg(
        long,
        value_name = "URL",
        value_delimiter = ',',
        value_parser = parse_url,
        conflicts_with_all = ["instances", "zk_sessions", "hold", "demo_service"]
    )]
    target: Option<Vec<String>>,
    /// The database of the target [default: DATABASE_URL]
    #[arg(long, value_name = "URL", requires = "target")]
    database_url: Option<String>,
    /// The ZooKeeper connect string of the target [default: ZOOKEEPER_CONNECT]
    #[arg(long, value_name = "HOST:PORT", requires = "target")]
    zookeeper: Option<String>,
}

#[derive(Debug, Args)]
pub(crate) struct CompareArgs {
    #[command(flatten)]
    target: TargetArgs,
    #[command(flatten)]
    service: ServiceArgs,
    /// Settings for a purpose; flags given beside it win
    #[arg(long, value_enum, default_value = "quick")]
    preset: Preset,
    /// Strategies to compare, or all [default: those that the service calls its headline]
    #[arg(long, value_name = "NAME", value_delimiter = ',')]
    strategies: Option<Vec<String>>,
    /// Buyers, all at the same instant, one purchase each [default: 300]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=20_000))]
    users: Option<u32>,
    /// Units on sale [default: 100]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    stock: Option<u32>,
    /// Trials of each strategy; a p99 needs 1000 sold in all, as 10 trials of 100 units make [default: 10, jmeter 3]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1000))]
    trials: Option<u32>,
    /// Seed of the order of the trials [default: a random one, which the report names]
    #[arg(long, value_name = "N")]
    seed: Option<u32>,
    /// The SKU to sell
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(i64).range(1..))]
    goods_no: i64,
    /// Folder of the report; one of an earlier comparison is removed from it at the start
    #[arg(long, value_name = "DIR", default_value = "report")]
    report: PathBuf,
    /// No progress on stderr
    #[arg(long)]
    quiet: bool,
}

#[derive(Debug, Args)]
pub(crate) struct UpArgs {
    #[command(flatten)]
    service: ServiceArgs,
    /// Port of the first instance, the others take the next ones [default: any free ports]
    #[arg(long, value_name = "PORT", value_parser = clap::value_parser!(u16).range(1..))]
    port: Option<u16>,
    /// The SKU to put on sale
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(i64).range(1..))]
    goods_no: i64,
    /// Units on sale
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

/// Settings for a purpose.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Preset {
    /// 300 users for 100 units: about a minute
    Quick,
    /// The classic JMeter plan, 1500 users for 100 units, one session each: several minutes, too few sold for a p99
    Jmeter,
}

impl Preset {
    fn users(self) -> u32 {
        match self {
            Preset::Quick => 300,
            Preset::Jmeter => 1500,
        }
    }

    fn trials(self) -> u32 {
        match self {
            // So many that a strategy that sold too much in none of them does so in fewer than 26 % of all, with 95 %
            // confidence, and that the sold carry a p99.
            Preset::Quick => 10,
            Preset::Jmeter => 3,
        }
    }

    fn lock_wait(self) -> Duration {
        match self {
            Preset::Quick => Duration::from_secs(60),
            // The herd of 1500 naive waiters drains in time of order N², and no buyer is to be refused for it.
            Preset::Jmeter => Duration::from_secs(300),
        }
    }
}

impl ServiceArgs {
    /// Settings for so many users at once.
    fn resolve(self, users: u32, lock_wait: Duration, port: Option<u16>) -> Result<ServiceSettings, Error> {
        let instances = self.instances.unwrap_or(3);
        if let Some(port) = port
            && port.checked_add(instances - 1).is_none()
        {
            return Err(Error::Usage(format!("--port {port} leaves no room for {instances} instances below 65536")));
        }
        Ok(ServiceSettings {
            instances,
            zk_sessions: self.zk_sessions.unwrap_or_else(|| users.div_ceil(u32::from(instances))),
            hold: self.hold.unwrap_or_else(|| "2ms".to_owned()),
            lock_wait,
            buyers_max: users.max(BUYERS_MAX_MIN),
            demo_service: self.demo_service,
            port,
        })
    }
}

impl TargetArgs {
    /// The running service, if one was named; `variable` reads the environment.
    fn resolve(self, variable: impl Fn(&str) -> Option<String>) -> Result<Option<TargetSettings>, Error> {
        let Some(urls) = self.target else { return Ok(None) };
        let needed = |value: Option<String>, flag: &str, name: &str| {
            let missing = || Error::Usage(format!("--target needs {flag}{name} in the environment"));
            value.or_else(|| variable(name)).filter(|value| !value.is_empty()).ok_or_else(missing)
        };
        Ok(Some(TargetSettings {
            urls,
            database_url: needed(self.database_url, "--database-url, or ", "DATABASE_URL")?,
            zookeeper: needed(self.zookeeper, "--zookeeper, or ", "ZOOKEEPER_CONNECT")?,
            admin_token: needed(None, "", "ADMIN_TOKEN")?,
        }))
    }
}

impl CompareArgs {
    /// Fills in the preset and the environment.
    ///
    /// # Errors
    ///
    /// [`Error::Usage`] when something is missing.
    pub(crate) fn resolve(self) -> Result<CompareSettings, Error> {
        let users = self.users.unwrap_or_else(|| self.preset.users());
        let lock_wait = self.service.lock_wait.unwrap_or_else(|| self.preset.lock_wait());
        let source = match self.target.resolve(|name| env::var(name).ok())? {
            Some(target) => Source::Target(target),
            None => Source::Start(self.service.resolve(users, lock_wait, None)?),
        };
        Ok(CompareSettings {
            source,
            strategies: self.strategies,
            users,
            stock: self.stock.unwrap_or(100),
            trials: self.trials.unwrap_or(self.preset.trials()),
            seed: self.seed,
            goods_no: self.goods_no,
            lock_wait,
            report: self.report,
            quiet: self.quiet,
        })
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
        let lock_wait = self.service.lock_wait.unwrap_or(Duration::from_secs(5));
        let mut service = self.service;
        service.zk_sessions = service.zk_sessions.or(Some(32));
        Ok(UpSettings {
            service: service.resolve(1, lock_wait, self.port)?,
            goods_no: self.goods_no,
            stock: self.stock,
        })
    }
}

impl StrategiesArgs {
    /// The smallest service that can list its strategies.
    pub(crate) fn service(&self) -> ServiceSettings {
        ServiceSettings {
            instances: 1,
            zk_sessions: 1,
            hold: "0ms".to_owned(),
            lock_wait: Duration::from_secs(5),
            buyers_max: BUYERS_MAX_MIN,
            demo_service: self.demo_service.clone(),
            port: None,
        }
    }
}

fn parse_time(text: &str) -> Result<Duration, String> {
    humantime::parse_duration(text).map_err(|error| format!("{error}; write a time such as 2ms or 1m30s"))
}

fn parse_positive_time(text: &str) -> Result<Duration, String> {
    let time = parse_time(text)?;
    if time.is_zero() { Err("the time must be longer than zero".to_owned()) } else { Ok(time) }
}

/// Checks a time or a range of times, and leaves it as the service reads it.
fn parse_hold(text: &str) -> Result<String, String> {
    match text.split_once("..") {
        None => parse_time(text).map(|_| ())?,
        Some((shortest, longest)) if parse_time(shortest)? > parse_time(longest)? => {
            return Err("the range ends before it begins".to_owned());
        }
        Some(_) => {}
    }
    Ok(text.to_owned())
}

/// Checks a base URL, and takes the slash off its end.
fn parse_url(text: &str) -> Result<String, String> {
    let url = reqwest::Url::parse(text).map_err(|error| format!("{error}; write http://HOST:PORT"))?;
    if url.scheme() != "http" || url.host().is_none() || url.query().is_some() {
        return Err("not a base URL; write http://HOST:PORT".to_owned());
    }
    Ok(text.trim_end_matches('/').to_owned())
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

    fn compare(args: &[&str]) -> CompareSettings {
        let cli = Cli::try_parse_from(["loadgen", "compare"].iter().chain(args)).unwrap();
        let Command::Compare(args) = cli.command else { unreachable!("the subcommand is compare") };
        args.resolve().unwrap()
    }

    fn started(settings: &CompareSettings) -> &ServiceSettings {
        match &settings.source {
            Source::Start(service) => service,
            Source::Target(target) => unreachable!("{target:?} was not asked for"),
        }
    }

    fn refusal(args: &[&str]) -> String {
        Cli::try_parse_from(["loadgen"].iter().chain(args)).unwrap_err().to_string()
    }

    #[test]
    fn the_command_line_is_consistent() {
        Cli::command().debug_assert();
    }

    #[test]
    fn the_defaults_are_the_quick_preset() {
        let settings = compare(&[]);
        assert_eq!((settings.users, settings.stock, settings.trials, settings.goods_no), (300, 100, 10, 1));
        assert_eq!(settings.report, PathBuf::from("report"));
        let service = started(&settings);
        assert_eq!((service.instances, service.zk_sessions, service.hold.as_str()), (3, 100, "2ms"));
        assert_eq!(service.lock_wait, Duration::from_secs(60));
    }

    #[test]
    fn the_jmeter_preset_is_fifteen_hundred_users_with_a_session_each() {
        let settings = compare(&["--preset", "jmeter"]);
        assert_eq!((settings.users, settings.stock), (1500, 100));
        assert_eq!(started(&settings).zk_sessions, 500);
    }

    #[test]
    fn flags_win_over_the_preset_wherever_they_stand() {
        let settings = compare(&["--users", "40", "--preset", "jmeter", "--lock-wait", "9s", "--instances", "2"]);
        assert_eq!((settings.users, settings.lock_wait), (40, Duration::from_secs(9)));
        assert_eq!((started(&settings).instances, started(&settings).zk_sessions), (2, 20));
    }

    #[test]
    fn sessions_are_rounded_up_to_one_a_user() {
        assert_eq!(started(&compare(&["--users", "31"])).zk_sessions, 11);
    }

    #[test]
    fn strategies_and_targets_are_separated_by_commas() {
        assert_eq!(compare(&["--strategies", "a,b"]).strategies, Some(vec!["a".to_owned(), "b".to_owned()]));
    }

    #[test]
    fn a_target_takes_what_is_missing_from_the_environment() {
        let args = TargetArgs {
            target: Some(vec!["http://127.0.0.1:1".to_owned()]),
            database_url: None,
            zookeeper: Some("z:1".to_owned()),
        };
        let target = args.clone().resolve(|name| Some(format!("<{name}>"))).unwrap().unwrap();
        assert_eq!(target.database_url, "<DATABASE_URL>");
        assert_eq!((target.zookeeper.as_str(), target.admin_token.as_str()), ("z:1", "<ADMIN_TOKEN>"));
        let error = args.resolve(|_| None).unwrap_err().to_string();
        assert_eq!(error, "--target needs --database-url, or DATABASE_URL in the environment");
    }

    #[test]
    fn what_only_a_started_service_has_cannot_be_asked_of_a_target() {
        for flag in [["--instances", "2"], ["--zk-sessions", "2"], ["--hold", "2ms"], ["--demo-service", "x"]] {
            let text = refusal(&["compare", "--target", "http://a:1", flag[0], flag[1]]);
            assert!(text.contains("cannot be used with"), "{text}");
        }
    }

    #[test]
    fn impossible_values_are_refused() {
        for args in [
            ["compare", "--users", "0"],
            ["compare", "--stock", "0"],
            ["compare", "--trials", "0"],
            ["compare", "--instances", "0"],
            ["compare", "--goods-no", "0"],
            ["compare", "--hold", "5ms..1ms"],
            ["compare", "--hold", "soon"],
            ["compare", "--lock-wait", "0s"],
            ["compare", "--target", "ftp://a"],
            ["compare", "--preset", "none"],
            ["up", "--port", "0"],
        ] {
            assert!(refusal(&args).contains("invalid value"), "{args:?}");
        }
    }

    #[test]
    fn holds_are_a_time_or_a_range() {
        for hold in ["0ms", "2ms", "1ms..5ms", "3ms..3ms"] {
            assert_eq!(parse_hold(hold).unwrap(), hold);
        }
    }

    #[test]
    fn ports_that_do_not_fit_are_refused() {
        let cli = Cli::try_parse_from(["loadgen", "up", "--port", "65534"]).unwrap();
        let Command::Up(args) = cli.command else { unreachable!("the subcommand is up") };
        assert!(args.resolve().unwrap_err().to_string().contains("no room for 3 instances"));
    }
}
