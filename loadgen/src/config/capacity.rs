//! The flags of a search for a capacity.

use std::path::PathBuf;
use std::time::Duration;

use buyers::model::{Arrivals, LoadModel};
use clap::Args;
use stats::capacity::{Goal, width_for};

use super::check::{CheckSettings, REQUESTS_MAX};
use super::comparison::{ComparisonArgs, TargetArgs};
use super::load::LoadArgs;
use super::plan::PlanLayer;
use super::service::ServiceFlags;
use super::settings::{CompareSettings, ReportSettings};
use super::values::{Sessions, Stock, Users, parse_rate, parse_share, parse_time};
use crate::error::Error;
use crate::judge::capacity::HeldRule;
use crate::trial::schedule::Limits;

/// The lowest and the highest rate of a search, unless flags name others.
const RATES: [f64; 2] = [10.0, 10_000.0];
/// How far the interval reaches above and below its middle, as a share of it.
const MARGIN: f64 = 0.05;

/// What is searched for, and within which bounds.
#[derive(Debug, Clone, Args)]
pub(crate) struct SearchArgs {
    /// Rule that the rate must hold: 'p99<250ms' or 'errors<0.1%'. May be given several times: each has a capacity of its own.
    /// Refused, failed and dropped requests count as lost
    #[arg(long = "until", value_name = "RULE", value_parser = HeldRule::parse, required = true)]
    rules: Vec<HeldRule>,
    /// Lowest rate that is tried, in purchases a second: the search begins there [default: 10]
    #[arg(long, value_name = "N", value_parser = parse_rate)]
    lowest: Option<f64>,
    /// Highest rate that is tried [default: 10000]
    #[arg(long, value_name = "N", value_parser = parse_rate)]
    highest: Option<f64>,
    /// How far the interval may reach above and below its middle [default: 5%]
    #[arg(long, value_name = "SHARE", value_parser = parse_share)]
    margin: Option<f64>,
    /// Length of the trials that decide [default: twice the shortest that the rule allows, and 2s at least]
    #[arg(long, value_name = "TIME", value_parser = parse_time)]
    length: Option<Duration>,
    /// Spacing of the purchases [default: poisson]
    #[arg(long, value_enum)]
    arrivals: Option<Arrivals>,
    /// The most requests of the whole search [default: 1000000]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    requests_max: Option<u64>,
    /// Folder to write capacity.json and capacity.md into
    #[arg(long, value_name = "DIR", default_value = "report")]
    out: PathBuf,
    /// Shows no progress on standard error
    #[arg(long)]
    quiet: bool,
}

/// The service of the lab whose capacity is searched.
#[derive(Debug, Args)]
pub(crate) struct LabArgs {
    /// Strategies of the lab whose capacity is searched
    #[arg(
        long,
        value_name = "STRATEGY,…",
        value_delimiter = ',',
        required_unless_present = "shops",
        help_heading = "Service"
    )]
    strategies: Option<Vec<String>>,
    #[command(flatten, next_help_heading = "Service")]
    pub(crate) target: TargetArgs,
    #[command(flatten, next_help_heading = "Service")]
    service: ServiceFlags,
    /// Time that the service lets a user wait for the lock [default: 1m]
    #[arg(long, value_name = "TIME", value_parser = parse_time, help_heading = "Service")]
    lock_wait: Option<Duration>,
    /// Purchases that may be under way at a time. One that comes beyond is dropped, and lost [default: 1000]
    #[arg(long, value_name = "N", help_heading = "Search")]
    users: Option<Users>,
}

/// The most units on sale, so that no trial sells out.
const STOCK: i64 = 100_000_000;
/// ZooKeeper sessions of each instance, unless a flag names others: the users of an open model take turns.
const SESSIONS: i64 = 32;

impl LabArgs {
    /// Returns how many purchases may be under way at a time.
    pub(crate) fn users(&self) -> u32 {
        self.users.map_or(USERS, Users::get)
    }

    /// Fills in the defaults.
    pub(crate) fn resolve(self) -> Result<CompareSettings, Error> {
        let users = Users::new(Some(i64::from(self.users()))).map_err(Error::Usage)?;
        let mut service = self.service;
        service.zk_sessions = service.zk_sessions.or(Sessions::new(Some(SESSIONS)).ok());
        let flags = PlanLayer {
            users: Some(vec![users]),
            stock: Stock::new(Some(STOCK)).ok(),
            lock_wait: self.lock_wait,
            service,
            ..<PlanLayer as confique::Layer>::empty()
        };
        let load = LoadArgs { plan: None, flags };
        ComparisonArgs::of_search(self.target, load, self.strategies)
    }
}

/// Purchases that may be under way at a time.
const USERS: u32 = 1000;

/// The settings of a search.
#[derive(Debug, Clone)]
pub(crate) struct SearchSettings {
    pub(crate) rules: Vec<HeldRule>,
    pub(crate) goals: Vec<Goal>,
    pub(crate) lowest: f64,
    pub(crate) highest: f64,
    pub(crate) arrivals: Arrivals,
    pub(crate) requests_max: u64,
    pub(crate) folder: PathBuf,
    pub(crate) quiet: bool,
}

impl SearchArgs {
    /// Fills in the defaults.
    pub(crate) fn resolve(self) -> Result<SearchSettings, Error> {
        let width = width_for(self.margin.unwrap_or(MARGIN));
        let goals = self.rules.iter().map(|rule| rule.goal(width, self.length));
        Ok(SearchSettings {
            goals: goals.collect::<Result<_, _>>().map_err(Error::Usage)?,
            rules: self.rules,
            lowest: self.lowest.unwrap_or(RATES[0]),
            highest: self.highest.unwrap_or(RATES[1]),
            arrivals: self.arrivals.unwrap_or(Arrivals::Poisson),
            requests_max: self.requests_max.unwrap_or(REQUESTS_MAX),
            folder: self.out,
            quiet: self.quiet,
        })
    }
}

impl SearchSettings {
    /// Returns the settings of the trials at shops. Only the lowest rate is sure to be tried.
    pub(crate) fn for_shops(&self, users: u32) -> CheckSettings {
        let length = self.goals.iter().map(|goal| goal.length).max().unwrap_or_default();
        CheckSettings {
            users: vec![users],
            model: LoadModel::Open {
                rate_per_s: self.lowest,
                arrivals: self.arrivals,
                duration_ms: u64::try_from(length.as_millis()).unwrap_or(u64::MAX),
            },
            trials: 1,
            warm_up: false,
            seed: None,
            limits: Limits { dropped_share_max: 1.0, errors_share_max: 1.0 },
            requests_max: self.requests_max,
            // Most requests may fail at a rate that is too high.
            stop_share: 1.0,
            thresholds: Vec::new(),
            report: ReportSettings::in_folder(self.folder.clone()),
        }
    }
}
