//! The flags of a comparison, which `compare` and `run` share.

use std::env;
use std::path::PathBuf;

use clap::Args;

use super::load::{LoadArgs, Resolved, refuse_comparison_settings};
use super::service;
use super::settings::{CompareSettings, ReportSettings};
use super::trials::{ReportFlags, TrialArgs};
use super::values::{one_or_two_programs, one_program, parse_url, program_parser};
use crate::error::Error;
use crate::lab::source::{Program, Source, TargetSettings};

/// What is measured, how often, and where the report goes.
#[derive(Debug, Args)]
pub(crate) struct ComparisonArgs {
    #[command(flatten, next_help_heading = "Service")]
    pub(crate) target: TargetArgs,
    #[command(flatten, next_help_heading = "Load")]
    load: LoadArgs,
    #[command(flatten, next_help_heading = "Trials")]
    trials: TrialArgs,
    #[command(flatten, next_help_heading = "Report")]
    report: ReportFlags,
}

/// Which service is measured: one that is started, or one that runs already.
#[derive(Debug, Clone, Default, Args)]
pub(crate) struct TargetArgs {
    /// Program of the service [default: demo-service beside this program]. Of two builds, as in --demo-service base=FILE
    /// --demo-service head=FILE, `compare` judges the second against the first, in pairs of trials
    #[arg(long, value_name = "[NAME=]FILE", value_parser = program_parser())]
    demo_service: Vec<Program>,
    /// Base URLs of instances that run already [default: some are started]. Needs ADMIN_TOKEN in the environment
    #[arg(
        long,
        value_name = "URL,…",
        value_delimiter = ',',
        value_parser = parse_url,
        conflicts_with = "demo_service",
        conflicts_with_all = service::FLAGS
    )]
    pub(crate) target: Option<Vec<String>>,
    /// Postgres server and database of the target [env: DATABASE_URL]
    #[arg(long, value_name = "URL", requires = "target")]
    database_url: Option<String>,
    /// ZooKeeper servers of the target, with the chroot at the end if there is one [env: ZOOKEEPER_CONNECT]
    #[arg(long, value_name = "HOST:PORT,…", requires = "target")]
    zookeeper: Option<String>,
}

impl ComparisonArgs {
    /// Fills in the plan file, the preset, the defaults and the environment.
    pub(crate) fn resolve(self, strategies: Option<Vec<String>>) -> Result<CompareSettings, Error> {
        let ComparisonArgs { target, mut load, trials, report } = self;
        trials.put_into(&mut load.flags);
        let Resolved { load, mut service, trials, warm_up, seed, limits } = load.resolve(strategies)?;
        service.programs = one_or_two_programs(target.demo_service.clone())?;
        let source = match target.resolve(|name| env::var(name).ok())? {
            Some(target) => Source::Target(target),
            None => Source::Start(service),
        };
        let report = report.resolve(&load.model)?;
        Ok(CompareSettings { source, load, trials, warm_up, seed, limits, report })
    }

    /// Returns the settings for a search, which makes the trials and a report of its own.
    pub(super) fn of_search(
        target: TargetArgs,
        load: LoadArgs,
        strategies: Option<Vec<String>>,
    ) -> Result<CompareSettings, Error> {
        let Resolved { load, mut service, seed, limits, .. } = load.resolve(strategies)?;
        refuse_comparison_settings(&load, "a search for the capacity", "has buyers that pay")?;
        service.programs = one_program(target.demo_service.clone(), "capacity")?;
        let source = match target.resolve(|name| env::var(name).ok())? {
            Some(target) => Source::Target(target),
            None => Source::Start(service),
        };
        let report = ReportSettings::in_folder(PathBuf::new());
        Ok(CompareSettings { source, load, trials: 1, warm_up: false, seed, limits, report })
    }
}

impl TargetArgs {
    /// Returns the running service, if one was named. `variable` reads the environment.
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
            zookeeper_user: variable("ZOOKEEPER_AUTH").filter(|user| !user.is_empty()),
            admin_token: needed(None, "", "ADMIN_TOKEN")?,
        }))
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::time::Duration;

    use clap::Parser;

    use super::*;
    use crate::commands::{Cli, Command};
    use crate::config::settings::RequestLog;
    use crate::lab::hazard::Hazard;
    use crate::lab::source::ServiceSettings;
    use crate::trial::goose::GooseFormat;
    use buyers::model::{Arrivals, LoadModel};

    fn resolve(args: &[&str]) -> Result<CompareSettings, Error> {
        let cli = Cli::try_parse_from(["loadgen", "compare"].iter().chain(args)).unwrap();
        let Command::Compare(args) = cli.command else { unreachable!("the subcommand is compare") };
        args.resolve()
    }

    fn compare(args: &[&str]) -> CompareSettings {
        resolve(args).unwrap()
    }

    /// Returns the settings of a plan with these flags, or why they are refused.
    fn plan(text: &str, args: &[&str]) -> Result<CompareSettings, String> {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("plan.toml");
        fs::write(&path, text).unwrap();
        let settings = resolve(&[&["--plan", path.to_str().unwrap()][..], args].concat());
        settings.map_err(|error| error.to_string().replace(path.to_str().unwrap(), "plan.toml"))
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
        let CompareSettings { load, trials, warm_up, report, .. } = &compare(&[]);
        assert_eq!((load.users.as_slice(), load.stock, *trials, *warm_up), (&[300][..], 100, 10, true));
        assert_eq!((load.goods_no, load.goods, load.model), (1, 1, LoadModel::BURST));
        assert_eq!(report.folder, PathBuf::from("report"));
        let settings = compare(&[]);
        let service = started(&settings);
        assert_eq!((service.instances, service.zk_sessions, service.business_time.as_str()), (3, 100, "2ms"));
        assert_eq!(service.lock_wait, Duration::from_secs(60));
    }

    #[test]
    fn the_jmeter_preset_has_1500_users_with_a_session_each() {
        let settings = compare(&["--preset", "jmeter"]);
        assert_eq!((settings.load.users.as_slice(), settings.load.stock), (&[1500][..], 100));
        assert_eq!(started(&settings).zk_sessions, 500);
    }

    #[test]
    fn the_scale_preset_spares_the_herd_its_largest_numbers() {
        let load = compare(&["--preset", "scale"]).load;
        assert_eq!(load.users.last(), Some(&1500));
        let (pattern, users_max) = &load.users_max[0];
        assert!(pattern.matches("zk-naive") && !pattern.matches("zk-mutex"));
        assert_eq!(*users_max, 300);
    }

    #[test]
    fn flags_win_over_the_preset_wherever_they_stand() {
        let settings = compare(&["--users", "40", "--preset", "jmeter", "--lock-wait", "9s", "--instances", "2"]);
        assert_eq!((settings.load.users.as_slice(), settings.load.lock_wait), (&[40][..], Duration::from_secs(9)));
        assert_eq!((started(&settings).instances, started(&settings).zk_sessions), (2, 20));
    }

    #[test]
    fn flags_win_over_a_plan_and_the_plan_over_its_preset() {
        let text = "preset = \"jmeter\"\nusers = [20, 10, 20]\nstock = 7\nwarm-up = true\ntrials = 3\nseed = 5\n\
                    thresholds = [\"* p99<1s\"]\n[service]\ninstances = 2\nargs = [\"--permits\", \"8\"]";
        let flags = ["--stock", "9", "--no-warm-up", "--trials", "4", "--threshold", "* oversold==0"];
        let settings = plan(text, &flags).unwrap();
        assert_eq!((settings.load.users.as_slice(), settings.load.stock), (&[10, 20][..], 9));
        assert_eq!((settings.trials, settings.warm_up, settings.seed), (4, false, Some(5)));
        assert_eq!((settings.load.lock_wait, settings.load.thresholds.len()), (Duration::from_mins(5), 2));
        assert_eq!(
            (started(&settings).instances, &*started(&settings).args),
            (2, &["--permits", "8"].map(String::from)[..])
        );
        assert_eq!(plan("users = 7", &[]).unwrap().load.users, [7]);
        assert_eq!(plan(text, &["--preset", "quick"]).unwrap().load.lock_wait, Duration::from_mins(1));
    }

    #[test]
    fn one_arrival_in_a_hundred_may_be_dropped_by_default() {
        let allowed = |settings: CompareSettings| settings.limits.dropped_share_max;
        let errors = |settings: CompareSettings| settings.limits.errors_share_max;
        assert_eq!(errors(plan("errors-max = \"2%\"", &[]).unwrap()), 0.02);
        assert_eq!(errors(plan("errors-max = \"2%\"", &["--errors-max", "0%"]).unwrap()), 0.0);
        assert_eq!(allowed(compare(&[])), 0.01);
        assert_eq!(allowed(plan("dropped-max = \"5 %\"", &[]).unwrap()), 0.05);
        assert_eq!(allowed(plan("dropped-max = \"5%\"", &["--dropped-max", "0%"]).unwrap()), 0.0);
    }

    #[test]
    fn requests_are_logged_unless_they_are_too_many() {
        let logged = |args: &[&str]| compare(args).report.request_log;
        assert_eq!((logged(&[]), logged(&[]).requests_max()), (RequestLog::InReport, 1_000_000));
        assert_eq!((logged(&["--no-request-log"]), RequestLog::Off.requests_max()), (RequestLog::Off, 0));
        let named = logged(&["--request-log", "all.jtl"]);
        assert_eq!((named.requests_max(), named), (usize::MAX, RequestLog::At("all.jtl".into())));
        let both = refusal(&["compare", "--request-log", "all.jtl", "--no-request-log"]);
        assert!(both.contains("cannot be used with"), "{both}");
    }

    #[test]
    fn a_hazard_that_is_named_twice_strikes_once() {
        let load = compare(&["--hazards", "stream-trimmed,redis-killed,stream-trimmed"]).load;
        assert_eq!(load.hazards, [Hazard::RedisKilled, Hazard::StreamTrimmed]);
    }

    #[test]
    fn the_model_follows_from_the_flags() {
        let model = |args: &[&str]| compare(args).load.model;
        assert_eq!(model(&["--ramp-up", "1s"]), LoadModel::Ramp { ramp_up_ms: 1000, requests_per_buyer: 1 });
        assert_eq!(model(&["--duration", "3s"]), LoadModel::Loop { duration_ms: 3000, ramp_up_ms: 0 });
        let both = model(&["--duration", "3s", "--ramp-up", "1s"]);
        assert_eq!(both, LoadModel::Loop { duration_ms: 3000, ramp_up_ms: 1000 });
        let open = |arrivals, duration_ms| LoadModel::Open { rate_per_s: 50.5, arrivals, duration_ms };
        assert_eq!(model(&["--rate", "50.5"]), open(Arrivals::Poisson, 10_000));
        let constant = model(&["--rate", "50.5", "--arrivals", "constant", "--duration", "2s"]);
        assert_eq!(constant, open(Arrivals::Constant, 2000));
    }

    #[test]
    fn goose_reports_closed_models_only() {
        assert_eq!(compare(&["--goose-report", "json"]).report.goose_report, Some(GooseFormat::Json));
        assert_eq!(compare(&["--duration", "1s", "--goose-report", "md"]).report.goose_report, Some(GooseFormat::Md));
        let refused = resolve(&["--rate", "5", "--goose-report", "html"]).unwrap_err().to_string();
        assert!(refused.ends_with("remove --goose-report, or the rate"), "{refused}");
    }

    #[test]
    fn strategies_and_targets_are_separated_by_commas() {
        assert_eq!(compare(&["--strategies", "a,b"]).load.strategies, Some(vec!["a".to_owned(), "b".to_owned()]));
    }

    #[test]
    fn flags_of_a_started_service_are_refused_for_a_target() {
        for flag in [["--instances", "2"], ["--zk-sessions", "2"], ["--business-time", "2ms"], ["--demo-service", "x"]]
        {
            let text = refusal(&["compare", "--target", "http://a:1", flag[0], flag[1]]);
            assert!(text.contains("cannot be used with"), "{text}");
        }
    }

    #[test]
    fn a_target_takes_what_is_missing_from_the_environment() {
        let args = TargetArgs {
            target: Some(vec!["http://127.0.0.1:1".to_owned()]),
            zookeeper: Some("z:1".to_owned()),
            ..TargetArgs::default()
        };
        let target = args.clone().resolve(|name| Some(format!("<{name}>"))).unwrap().unwrap();
        assert_eq!(target.database_url, "<DATABASE_URL>");
        assert_eq!((target.zookeeper.as_str(), target.admin_token.as_str()), ("z:1", "<ADMIN_TOKEN>"));
        let error = args.resolve(|_| None).unwrap_err().to_string();
        assert_eq!(error, "--target needs --database-url, or DATABASE_URL in the environment");
    }

    #[test]
    fn impossible_flags_are_refused() {
        for args in [
            ["compare", "--users", "0"],
            ["compare", "--users", "10,x"],
            ["compare", "--stock", "0"],
            ["compare", "--goods", "0"],
            ["compare", "--trials", "0"],
            ["compare", "--instances", "0"],
            ["compare", "--goods-no", "0"],
            ["compare", "--business-time", "5ms..1ms"],
            ["compare", "--business-time", "soon"],
            ["compare", "--business-time", "5s"],
            ["compare", "--business-time", "1s..5s"],
            ["compare", "--lock-wait", "0s"],
            ["compare", "--rate", "0"],
            ["compare", "--rate", "nan"],
            ["compare", "--duration", "500us"],
            ["compare", "--dropped-max", "0.01"],
            ["compare", "--dropped-max", "101%"],
            ["compare", "--errors-max", "1"],
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
    fn a_mistake_in_a_plan_is_told_with_its_line_and_a_remedy() {
        for (text, line, remedy) in [
            ("user = 3", "1 | user = 3", "unknown field `user`, expected one of `preset`, `strategies`, `users`"),
            ("[service]\nhost = 3", "2 | host = 3", "unknown field `host`, expected one of `instances`"),
            ("\nstock = 0", "2 | stock = 0", "write a whole number from 1 to 100000000"),
            ("users = [1, 0]", "1 | users = [1, 0]", "write a whole number from 1 to 20000"),
            ("users = []", "1 | users = []", "write at least one number of users"),
            ("users = \"many\"", "1 | users = ", "a number of users, or a list of them"),
            ("ramp-up = \"soon\"", "1 | ramp-up = ", "write a time such as 2ms or 1m30s"),
            ("ramp-up = 2", "1 | ramp-up = 2", "write a time in quotation marks, such as \"2s\""),
            ("rate = -1.0", "1 | rate = -1.0", "write requests per second: above 0"),
            ("thresholds = [\"zk-mutex\"]", "1 | thresholds = ", "a metric is expected here"),
            ("dropped-max = 0.01", "1 | dropped-max = 0.01", "write a share in quotation marks, such as \"1%\""),
            ("preset = \"slow\"", "1 | preset = ", "no preset \"slow\"; the presets are quick, jmeter, herd, scale"),
            ("[service]\nbusiness-time = \"5ms..1ms\"", "2 | business-time = ", "the range ends before it begins"),
            ("[service]\nhold = \"2ms\"", "2 | hold = ", "expected one of `instances`, `zk-sessions`, `business-time`"),
        ] {
            let refused = plan(text, &[]).unwrap_err();
            assert!(refused.starts_with("the plan plan.toml is wrong: "), "{refused}");
            assert!(refused.contains(line) && refused.contains(remedy), "{refused}");
        }
        let missing = resolve(&["--plan", "/nowhere.toml"]).unwrap_err().to_string();
        assert!(missing.starts_with("the plan /nowhere.toml cannot be read: "), "{missing}");
    }

    #[test]
    fn the_plan_in_the_documentation_can_be_read() {
        let using = include_str!("../../../docs/using.md");
        let text = using.split("```toml\n").nth(1).unwrap().split("```").next().unwrap();
        let settings = plan(text, &[]).unwrap();
        assert_eq!(settings.load.users, [10, 100, 1000]);
    }
}
