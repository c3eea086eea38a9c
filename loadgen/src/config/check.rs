//! The flags of the trials at shops that files describe.

use std::time::Duration;

use buyers::model::{Arrivals, LoadModel};
use clap::Args;

use super::layers::Layers;
use super::plan::PlanLayer;
use super::settings::ReportSettings;
use super::trials::{ReportFlags, TrialArgs};
use super::values::{PerBuyer, Users, parse_rate, parse_share, parse_time};
use crate::error::Error;
use crate::judge::metrics::metrics_of;
use crate::judge::thresholds::Threshold;
use crate::trial::schedule::Limits;

/// The share of failed purchases at which a check ends.
const STOP_AT: f64 = 0.5;
/// The most requests of a check.
pub(super) const REQUESTS_MAX: u64 = 1_000_000;

/// The load at a shop.
#[derive(Debug, Args)]
pub(crate) struct ShopLoadArgs {
    /// Numbers of users; several numbers show how the shop scales [default: 300]
    #[arg(long, value_name = "N,…", value_delimiter = ',')]
    users: Option<Vec<Users>>,
    /// Time within which users start one after another [default: all start at once]
    #[arg(long, value_name = "TIME", value_parser = parse_time, conflicts_with = "rate")]
    ramp_up: Option<Duration>,
    /// Time for which users buy again and again [default: each buys once]
    #[arg(long, value_name = "TIME", value_parser = parse_time)]
    duration: Option<Duration>,
    /// Requests that each buyer sends at the same instant, to try a limit per buyer [default: 1]
    #[arg(long, value_name = "N", conflicts_with_all = ["duration", "rate"])]
    requests_per_buyer: Option<PerBuyer>,
    /// Purchases per second, started on time even if earlier ones are unanswered (an open model). Each is of a buyer of its
    /// own. They last for --duration, or else for 10s. At most --users of them are under way [default: no rate]
    #[arg(long, value_name = "N", value_parser = parse_rate)]
    rate: Option<f64>,
    /// Spacing of the purchases of --rate [default: poisson]
    #[arg(long, value_enum)]
    arrivals: Option<Arrivals>,
    /// The most requests of the whole check, which is refused if it needs more [default: 1000000]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    requests_max: Option<u64>,
    /// Share of failed purchases in a trial that ends the check [default: 50%]
    #[arg(long, value_name = "SHARE", value_parser = parse_share)]
    stop_at: Option<f64>,
    /// Rule that must be met, or the exit status is 1: 'p99<250ms', or 'my-shop errors<1%' for one shop. May be given several
    /// times. docs/reports.md lists the metrics
    #[arg(long = "threshold", value_name = "RULE", value_parser = rule, help_heading = "Thresholds")]
    thresholds: Vec<Threshold>,
}

/// All flags of the trials at shops.
#[derive(Debug, Args)]
pub(crate) struct ShopTrialsArgs {
    #[command(flatten, next_help_heading = "Load")]
    load: ShopLoadArgs,
    #[command(flatten, next_help_heading = "Trials")]
    trials: TrialArgs,
    #[command(flatten, next_help_heading = "Report")]
    report: ReportFlags,
}

/// The settings of `check`, apart from the shops.
#[derive(Debug, Clone)]
pub(crate) struct CheckSettings {
    /// Numbers of users, each once and in order.
    pub(crate) users: Vec<u32>,
    pub(crate) model: LoadModel,
    pub(crate) trials: u32,
    pub(crate) warm_up: bool,
    pub(crate) seed: Option<u32>,
    pub(crate) limits: Limits,
    pub(crate) requests_max: u64,
    pub(crate) stop_share: f64,
    pub(crate) thresholds: Vec<Threshold>,
    pub(crate) report: ReportSettings,
}

impl ShopTrialsArgs {
    /// Fills in the defaults.
    pub(crate) fn resolve(self) -> Result<CheckSettings, Error> {
        let ShopTrialsArgs { load, trials, report } = self;
        let mut flags = PlanLayer {
            users: load.users,
            ramp_up: load.ramp_up,
            requests_per_buyer: load.requests_per_buyer,
            duration: load.duration,
            rate: load.rate,
            arrivals: load.arrivals,
            ..<PlanLayer as confique::Layer>::empty()
        };
        trials.put_into(&mut flags);
        let (plan, model) = Layers::of(flags, None)?.merge()?;
        let mut users: Vec<u32> = plan.users.into_iter().map(Users::get).collect();
        users.sort_unstable();
        users.dedup();
        Ok(CheckSettings {
            users,
            model,
            trials: plan.trials.get(),
            warm_up: plan.warm_up,
            seed: plan.seed,
            limits: Limits { dropped_share_max: plan.dropped_max, errors_share_max: plan.errors_max },
            requests_max: load.requests_max.unwrap_or(REQUESTS_MAX),
            stop_share: load.stop_at.unwrap_or(STOP_AT),
            thresholds: load.thresholds,
            report: report.resolve(&model)?,
        })
    }
}

/// Reads a rule. One that begins with a figure is about every shop.
pub(crate) fn rule(text: &str) -> Result<Threshold, String> {
    let metrics = metrics_of(false);
    let first: String = text.trim_start().chars().take_while(|c| c.is_ascii_alphanumeric() || *c == '_').collect();
    let about_all = metrics.iter().any(|metric| metric.key == first).then(|| format!("* {text}"));
    let threshold = Threshold::parse_by(&metrics, about_all.as_deref().unwrap_or(text))?;
    Ok(threshold.worded(text))
}
