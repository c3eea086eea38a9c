//! What load is put on the service: flags over a plan file over a preset.

use std::env;
use std::ops::RangeInclusive;
use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use wildmatch::WildMatch;

use super::plan_file::{PlanFile, ServiceTable};
use super::preset::Preset;
use super::service::{ServiceArgs, TargetArgs};
use super::values::{parse_positive_time, parse_rate};
use crate::config::settings::{CompareSettings, Source};
use crate::error::Error;
use crate::judge::thresholds::{Threshold, metric_names};
use crate::load::model::{Arrivals, LoadModel};

const USERS: RangeInclusive<i64> = 1..=20_000;
const STOCK: RangeInclusive<i64> = 1..=100_000_000;
/// The intervals of more than that take longer than it is worth.
const TRIALS: RangeInclusive<i64> = 1..=200;
const GOODS: RangeInclusive<i64> = 1..=1000;

/// What is run, and where the report goes.
#[derive(Debug, Args)]
pub(crate) struct LoadArgs {
    #[command(flatten, next_help_heading = "Service")]
    target: TargetArgs,
    #[command(flatten, next_help_heading = "Service")]
    service: ServiceArgs,
    #[command(flatten, next_help_heading = "Load")]
    shape: ShapeArgs,
    #[command(flatten, next_help_heading = "Trials")]
    trials: TrialArgs,
    #[command(flatten, next_help_heading = "Report")]
    report: ReportArgs,
}

/// What the buyers do.
#[derive(Debug, Args)]
struct ShapeArgs {
    /// Settings for a purpose; a plan file and flags win over it [default: quick]
    #[arg(long, value_enum)]
    preset: Option<Preset>,
    /// A TOML file of settings, those of flags and others; flags win over it
    #[arg(long, value_name = "FILE")]
    plan: Option<PathBuf>,
    /// Buyers; several numbers for how it scales [default: 300]
    #[arg(long, value_name = "N", value_delimiter = ',', value_parser = clap::value_parser!(u32).range(USERS))]
    users: Option<Vec<u32>>,
    /// Units on sale of each SKU [default: 100]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(STOCK))]
    stock: Option<u32>,
    /// SKUs on sale; buyers take them in turn [default: 1]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(GOODS))]
    goods: Option<u32>,
    /// The first SKU [default: 1]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(i64).range(1..=i64::MAX - 1000))]
    goods_no: Option<i64>,
    /// Buyers come one after another within this time, instead of all at the same instant
    #[arg(long, value_name = "TIME", value_parser = parse_positive_time, conflicts_with = "rate")]
    ramp_up: Option<Duration>,
    /// Buyers buy again and again for this time, instead of once
    #[arg(long, value_name = "TIME", value_parser = parse_positive_time)]
    duration: Option<Duration>,
    /// Requests arrive at this rate a second whatever became of those before (an open model), at most --users of them in
    /// flight; for --duration [default: 10s]
    #[arg(long, value_name = "N", value_parser = parse_rate)]
    rate: Option<f64>,
    /// How the arrivals of --rate are spaced [default: poisson]
    #[arg(long, value_enum)]
    arrivals: Option<Arrivals>,
    /// How long a buyer waits for the lock before the service refuses; a target has its own limit, beside which this
    /// one only bounds how long the client waits for an answer [default: 60s, jmeter and scale 5m]
    #[arg(long, value_name = "TIME", value_parser = parse_positive_time)]
    lock_wait: Option<Duration>,
}

/// How often, and in which order.
#[derive(Debug, Args)]
struct TrialArgs {
    /// Trials of each strategy, after one that warms up: 6 give an interval, 10 a ranking; a p99 needs 1000 units sold in
    /// all [default: 10]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(TRIALS))]
    trials: Option<u32>,
    /// No trials that warm up
    #[arg(long)]
    no_warm_up: bool,
    /// Seed of the order of the trials and of the arrivals [default: a random one, which the report names]
    #[arg(long, value_name = "N")]
    seed: Option<u32>,
}

/// What is made of it.
#[derive(Debug, Args)]
struct ReportArgs {
    #[arg(long = "threshold", value_name = "RULE", value_parser = Threshold::parse, help = threshold_help())]
    thresholds: Vec<Threshold>,
    /// Folder of the report; one of an earlier comparison is removed from it before the first trial
    #[arg(long, value_name = "DIR", default_value = "report")]
    report: PathBuf,
    /// Print a line a strategy as JMeter's summariser does, for tools that read it
    #[arg(long)]
    jmeter_summary: bool,
    /// No progress on stderr
    #[arg(long)]
    quiet: bool,
}

fn threshold_help() -> String {
    format!(
        "A rule that must hold, or the exit code is 1, such as 'zk-mutex p99<250ms', 'zk-* oversold==0' or \
         'zk-naive@1500 goodput>=50'. Metrics: {}",
        metric_names()
    )
}

impl LoadArgs {
    /// Fills in the plan file, the preset and the environment.
    ///
    /// # Errors
    ///
    /// [`Error::Usage`] when something is missing or contradicts something else.
    pub(crate) fn resolve(self, strategies: Option<Vec<String>>) -> Result<CompareSettings, Error> {
        self.resolve_with(strategies, |name| env::var(name).ok())
    }

    /// The same with `variable` as the environment.
    ///
    /// # Errors
    ///
    /// Those of [`LoadArgs::resolve`].
    pub(crate) fn resolve_with(
        self,
        strategies: Option<Vec<String>>,
        variable: impl Fn(&str) -> Option<String>,
    ) -> Result<CompareSettings, Error> {
        let LoadArgs { target, service: service_flags, shape, trials, report } = self;
        let file = shape.plan.as_deref().map(PlanFile::read).transpose()?.unwrap_or_default();
        let choice = shape.preset.or(file.preset).unwrap_or(Preset::Quick).choice();
        let model = model(
            shape.ramp_up.or(file.ramp_up.filter(|_| shape.rate.is_none())),
            shape.duration.or(file.duration),
            shape.rate.or(file.rate.filter(|_| shape.ramp_up.is_none())),
            shape.arrivals.or(file.arrivals),
        )?;
        let users = checked(shape.users.or(file.users).unwrap_or_else(|| choice.users.to_vec()))?;
        let lock_wait = shape.lock_wait.or(file.lock_wait).unwrap_or(choice.lock_wait);
        let most_users = users.iter().max().copied().unwrap_or(1);
        let ServiceTable { instances, zk_sessions, hold, args } = file.service;
        let source = match target.resolve(variable)? {
            Some(target) => Source::Target(target),
            None => {
                let service = ServiceArgs {
                    instances: service_flags.instances.or(within("service.instances", instances, 1..=64)?),
                    zk_sessions: service_flags.zk_sessions.or(within("service.zk-sessions", zk_sessions, USERS)?),
                    hold: service_flags.hold.or(hold),
                    demo_service: service_flags.demo_service,
                };
                let mut service = service.resolve(most_users, lock_wait, None)?;
                service.args = args;
                Source::Start(service)
            }
        };
        let named = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect();
        let limits = file.users_max.into_iter();
        let users_max: Vec<(String, u32)> = match choice.users_max {
            Some((name, users)) if limits.len() == 0 => vec![(name.to_owned(), users)],
            _ => limits.collect(),
        };
        let mut thresholds = report.thresholds;
        for rule in &file.thresholds {
            let wrong = |what| Error::Usage(format!("a threshold of the plan is wrong: {what}"));
            thresholds.push(Threshold::parse(rule).map_err(wrong)?);
        }
        Ok(CompareSettings {
            source,
            strategies: strategies.or(file.strategies).or_else(|| choice.strategies.map(named)),
            users,
            users_max: users_max.into_iter().map(|(name, users)| (WildMatch::new(&name), users)).collect(),
            model,
            stock: shape.stock.or(within("stock", file.stock, STOCK)?).unwrap_or(100),
            goods_no: shape.goods_no.or(within("goods-no", file.goods_no, 1..=i64::MAX - 1000)?).unwrap_or(1),
            goods: shape.goods.or(within("goods", file.goods, GOODS)?).unwrap_or(1),
            trials: trials.trials.or(within("trials", file.trials, TRIALS)?).unwrap_or(choice.trials),
            warm_up: !trials.no_warm_up && file.warm_up.unwrap_or(true),
            seed: trials.seed.or(file.seed),
            lock_wait,
            thresholds,
            report: report.report,
            jmeter_summary: report.jmeter_summary,
            quiet: report.quiet,
        })
    }
}

/// The load model that these settings make.
fn model(
    ramp_up: Option<Duration>,
    duration: Option<Duration>,
    rate: Option<f64>,
    arrivals: Option<Arrivals>,
) -> Result<LoadModel, Error> {
    let ms = |time: Duration| u64::try_from(time.as_millis()).unwrap_or(u64::MAX);
    match (rate, ramp_up, duration) {
        (Some(rate_per_s), None, duration) => {
            let rate_per_s = super::values::parse_rate(&rate_per_s.to_string())
                .map_err(|what| Error::Usage(format!("rate: {what}")))?;
            let duration_ms = ms(duration.unwrap_or(Duration::from_secs(10)));
            Ok(LoadModel::Open { rate_per_s, arrivals: arrivals.unwrap_or(Arrivals::Poisson), duration_ms })
        }
        (None, ..) if arrivals.is_some() => Err(Error::Usage("arrivals are those of a rate; give --rate".to_owned())),
        (None, Some(ramp_up), Some(duration)) if ramp_up >= duration => {
            Err(Error::Usage("--ramp-up must be shorter than --duration, of which it is a part".to_owned()))
        }
        (Some(_), Some(_), _) => {
            Err(Error::Usage("a rate and a ramp-up exclude each other: arrivals have their own pace".to_owned()))
        }
        (None, ramp_up, Some(duration)) => {
            Ok(LoadModel::Loop { duration_ms: ms(duration), ramp_up_ms: ramp_up.map_or(0, ms) })
        }
        (None, Some(ramp_up), None) => Ok(LoadModel::Ramp { ramp_up_ms: ms(ramp_up) }),
        (None, None, None) => Ok(LoadModel::Burst),
    }
}

/// The numbers of users, each once and in order.
fn checked(mut users: Vec<u32>) -> Result<Vec<u32>, Error> {
    users.sort_unstable();
    users.dedup();
    for number in &users {
        within("users", Some(*number), USERS)?;
    }
    if users.is_empty() { Err(Error::Usage("users: at least one number is needed".to_owned())) } else { Ok(users) }
}

/// A value of a plan file, which clap has not checked.
fn within<T: Copy + Into<i64>>(name: &str, value: Option<T>, range: RangeInclusive<i64>) -> Result<Option<T>, Error> {
    match value {
        Some(value) if !range.contains(&value.into()) => {
            let (value, start, end) = (value.into(), range.start(), range.end());
            Err(Error::Usage(format!("{name}: {value} is not in {start}..={end}")))
        }
        value => Ok(value),
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use clap::Parser;

    use super::*;
    use crate::commands::{Cli, Command};
    use crate::config::settings::ServiceSettings;
    use crate::config::values::parse_hold;

    fn resolve(args: &[&str]) -> Result<CompareSettings, Error> {
        let cli = Cli::try_parse_from(["loadgen", "compare"].iter().chain(args)).unwrap();
        let Command::Compare(args) = cli.command else { unreachable!("the subcommand is compare") };
        args.resolve()
    }

    fn compare(args: &[&str]) -> CompareSettings {
        resolve(args).unwrap()
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
    fn the_defaults_are_the_quick_preset() {
        let settings = compare(&[]);
        assert_eq!((settings.users.as_slice(), settings.stock, settings.trials), (&[300][..], 100, 10));
        assert_eq!((settings.goods_no, settings.goods, settings.model), (1, 1, LoadModel::Burst));
        assert_eq!(settings.report, PathBuf::from("report"));
        let service = started(&settings);
        assert_eq!((service.instances, service.zk_sessions, service.hold.as_str()), (3, 100, "2ms"));
        assert_eq!(service.lock_wait, Duration::from_secs(60));
    }

    #[test]
    fn the_jmeter_preset_is_fifteen_hundred_users_with_a_session_each() {
        let settings = compare(&["--preset", "jmeter"]);
        assert_eq!((settings.users.as_slice(), settings.stock), (&[1500][..], 100));
        assert_eq!(started(&settings).zk_sessions, 500);
    }

    #[test]
    fn the_scale_preset_spares_the_herd_its_largest_numbers() {
        let settings = compare(&["--preset", "scale"]);
        assert_eq!(settings.users.last(), Some(&1500));
        let (pattern, users_max) = &settings.users_max[0];
        assert!(pattern.matches("zk-naive") && !pattern.matches("zk-mutex"));
        assert_eq!(*users_max, 300);
    }

    #[test]
    fn flags_win_over_the_preset_wherever_they_stand() {
        let settings = compare(&["--users", "40", "--preset", "jmeter", "--lock-wait", "9s", "--instances", "2"]);
        assert_eq!((settings.users.as_slice(), settings.lock_wait), (&[40][..], Duration::from_secs(9)));
        assert_eq!((started(&settings).instances, started(&settings).zk_sessions), (2, 20));
    }

    #[test]
    fn flags_win_over_a_plan_file_and_that_over_its_preset() {
        let folder = tempfile::tempdir().unwrap();
        let plan = |text: &str, args: &[&str]| {
            let path = folder.path().join("plan.toml");
            fs::write(&path, text).unwrap();
            resolve(&[&["--plan", path.to_str().unwrap()][..], args].concat())
        };
        let text = "preset = \"jmeter\"\nusers = [20, 10, 20]\nstock = 7\n[service]\nargs = [\"--permits\", \"8\"]";
        let settings = plan(text, &["--stock", "9"]).unwrap();
        assert_eq!((settings.users.as_slice(), settings.stock), (&[10, 20][..], 9));
        assert_eq!(settings.lock_wait, Duration::from_mins(5));
        assert_eq!(started(&settings).args, ["--permits", "8"]);
        for (text, expected) in [
            ("stock = 0", "stock: 0 is not in 1..=100000000"),
            ("users = []", "users: at least one number is needed"),
            ("rate = 1.0\nramp-up = \"1s\"", "a rate and a ramp-up exclude each other"),
            ("rate = -1.0", "rate: the rate must be above 0"),
            ("arrivals = \"constant\"", "arrivals are those of a rate"),
            ("ramp-up = \"2s\"\nduration = \"2s\"", "--ramp-up must be shorter than --duration"),
            ("thresholds = [\"zk-mutex\"]", "a threshold of the plan is wrong: a metric is expected here"),
        ] {
            let refused = plan(text, &[]).unwrap_err().to_string();
            assert!(refused.contains(expected), "{refused}");
        }
    }

    #[test]
    fn the_model_follows_from_the_flags() {
        let model = |args: &[&str]| compare(args).model;
        assert_eq!(model(&["--ramp-up", "1s"]), LoadModel::Ramp { ramp_up_ms: 1000 });
        assert_eq!(model(&["--duration", "3s"]), LoadModel::Loop { duration_ms: 3000, ramp_up_ms: 0 });
        let both = model(&["--duration", "3s", "--ramp-up", "1s"]);
        assert_eq!(both, LoadModel::Loop { duration_ms: 3000, ramp_up_ms: 1000 });
        let open = |arrivals, duration_ms| LoadModel::Open { rate_per_s: 50.5, arrivals, duration_ms };
        assert_eq!(model(&["--rate", "50.5"]), open(Arrivals::Poisson, 10_000));
        let constant = model(&["--rate", "50.5", "--arrivals", "constant", "--duration", "2s"]);
        assert_eq!(constant, open(Arrivals::Constant, 2000));
    }

    #[test]
    fn strategies_and_targets_are_separated_by_commas() {
        assert_eq!(compare(&["--strategies", "a,b"]).strategies, Some(vec!["a".to_owned(), "b".to_owned()]));
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
            ["compare", "--users", "10,x"],
            ["compare", "--stock", "0"],
            ["compare", "--goods", "0"],
            ["compare", "--trials", "0"],
            ["compare", "--instances", "0"],
            ["compare", "--goods-no", "0"],
            ["compare", "--hold", "5ms..1ms"],
            ["compare", "--hold", "soon"],
            ["compare", "--hold", "5s"],
            ["compare", "--hold", "1s..5s"],
            ["compare", "--lock-wait", "0s"],
            ["compare", "--rate", "0"],
            ["compare", "--rate", "nan"],
            ["compare", "--duration", "500us"],
            ["compare", "--lock-wait", "18446744073709551615s"],
            ["compare", "--threshold", "zk-mutex p99=1s"],
            ["compare", "--target", "ftp://a"],
            ["compare", "--preset", "none"],
            ["up", "--port", "0"],
        ] {
            assert!(refusal(&args).contains("invalid value"), "{args:?}");
        }
    }

    #[test]
    fn holds_are_a_time_or_a_range() {
        for hold in ["0ms", "2ms", "1ms..5ms", "3ms..3ms", "4s"] {
            assert_eq!(parse_hold(hold).unwrap(), hold);
        }
    }
}
