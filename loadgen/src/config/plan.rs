//! The settings of a plan. Each stands here once: its key, its flag, its help, its type, its default.

use std::collections::BTreeMap;
use std::time::Duration;

use buyers::model::Arrivals;
use clap::Args;
use confique::Config;
use serde::de::Error as _;
use serde::{Deserialize, Deserializer};

use super::payers::PayersPlan;
use super::preset::Preset;
use super::service::ServicePlan;
use super::values::{GoodsCount, GoodsNo, PerBuyer, Stock, Trials, Users, parse_rate, parse_time, rate, share, time};
use crate::error::Error;
use crate::judge::metrics::METRICS;
use crate::judge::thresholds::{Threshold, metric_names};
use crate::lab::hazard::Hazard;

/// The settings of a plan, which flags override. `None`: no layer sets it, and it has no default.
///
/// Every setting that has no default here and is not optional has a value in each preset.
#[derive(Debug, Config)]
#[config(layer_attr(derive(Debug, Clone, Args)))]
#[config(layer_attr(serde(deny_unknown_fields, rename_all = "kebab-case")))]
pub(crate) struct PlanSettings {
    /// Built-in plan; your own plan and flags override it [default: quick]
    #[config(layer_attr(arg(long, value_enum)))]
    #[expect(dead_code, reason = "a layer is asked for its preset, before the layers are merged")]
    preset: Option<Preset>,
    /// Each command has an argument of its own for them.
    #[config(layer_attr(arg(skip)))]
    pub(super) strategies: Option<Vec<String>>,
    /// Numbers of users; several numbers show how the strategies scale [default: 300]
    #[config(deserialize_with = one_or_many, layer_attr(arg(long, value_name = "N,…", value_delimiter = ',')))]
    pub(super) users: Vec<Users>,
    /// The largest number of users of a strategy, by a pattern of its name with `*` and `?`.
    #[config(layer_attr(arg(skip)))]
    pub(super) users_max: Option<BTreeMap<String, Users>>,
    /// Units on sale of each SKU [default: 100]
    #[config(layer_attr(arg(long, value_name = "N")))]
    pub(super) stock: Stock,
    /// Most units of a SKU that one buyer may have; each request then says who buys [default: no limit]
    #[config(layer_attr(arg(long, value_name = "N")))]
    pub(super) per_buyer: Option<PerBuyer>,
    /// Requests that each buyer sends at the same instant [default: 1]
    #[config(layer_attr(arg(long, value_name = "N")))]
    pub(super) requests_per_buyer: Option<PerBuyer>,
    /// Hazards, each of which strikes the strategies that it can: for `compare` and `run` of a service that they start [default: none]
    #[config(default = [], layer_attr(arg(long, value_name = "HAZARD,…", value_delimiter = ',', value_enum)))]
    pub(super) hazards: Vec<Hazard>,
    /// Number of SKUs on sale, which users take in turns [default: 1]
    #[config(default = 1, layer_attr(arg(long, value_name = "N")))]
    pub(super) goods: GoodsCount,
    /// First SKU on sale [default: 1]
    #[config(default = 1, layer_attr(arg(long, value_name = "N")))]
    pub(super) goods_no: GoodsNo,
    /// Time within which users start one after another [default: all start at once]
    #[config(deserialize_with = time, layer_attr(arg(long, value_name = "TIME", value_parser = parse_time)))]
    pub(super) ramp_up: Option<Duration>,
    /// Time for which users buy again and again [default: each buys once]
    #[config(deserialize_with = time, layer_attr(arg(long, value_name = "TIME", value_parser = parse_time)))]
    pub(super) duration: Option<Duration>,
    /// Requests per second, started on time even if earlier ones are unanswered (an open model). They last for --duration,
    /// or else for 10s. At most --users of them are in flight [default: no rate]
    #[config(deserialize_with = rate, layer_attr(arg(long, value_name = "N", value_parser = parse_rate)))]
    pub(super) rate: Option<f64>,
    /// Spacing of the requests of --rate [default: poisson]
    #[config(layer_attr(arg(long, value_enum)))]
    pub(super) arrivals: Option<Arrivals>,
    /// Time that the service lets a user wait for the lock. A target keeps its own limit, so this time then only bounds
    /// the client's wait for an answer [default: 1m; presets jmeter and scale: 5m]
    #[config(deserialize_with = time, layer_attr(arg(long, value_name = "TIME", value_parser = parse_time)))]
    pub(super) lock_wait: Duration,
    /// `compare` and `run` have flags for it, for `warm_up`, for `seed`, for
    /// `dropped_max` and for `errors_max`.
    #[config(layer_attr(arg(skip)))]
    pub(super) trials: Trials,
    #[config(default = true, layer_attr(arg(skip)))]
    pub(super) warm_up: bool,
    #[config(layer_attr(arg(skip)))]
    pub(super) seed: Option<u32>,
    #[config(default = "1%", deserialize_with = share, layer_attr(arg(skip)))]
    pub(super) dropped_max: f64,
    #[config(default = "1%", deserialize_with = share, layer_attr(arg(skip)))]
    pub(super) errors_max: f64,
    #[config(default = [], layer_attr(arg(long = "threshold", help_heading = "Thresholds", help = threshold_help())))]
    #[config(layer_attr(arg(value_name = "RULE", value_parser = Threshold::parse)))]
    pub(super) thresholds: Vec<Threshold>,
    #[config(nested, layer_attr(command(flatten)))]
    pub(super) payers: PayersPlan,
    #[config(nested, layer_attr(command(flatten, next_help_heading = "Service")))]
    pub(super) service: ServicePlan,
}

/// What one layer sets: flags, a plan file, a preset, or the defaults.
pub(crate) type PlanLayer = <PlanSettings as Config>::Layer;

/// Reads the text of a plan. `origin` names the plan in an error.
pub(super) fn read(origin: &str, text: &str) -> Result<PlanLayer, Error> {
    toml::from_str(text).map_err(|error| Error::Usage(format!("{origin} is wrong: {}", error.to_string().trim_end())))
}

fn threshold_help() -> String {
    format!(
        "Rule that must be met, or the exit status is 1: 'zk-mutex p99<250ms', 'zk-* oversold==0' or \
         'zk-naive@1500 goodput>=50'. May be given several times. Metrics: {}",
        metric_names(METRICS)
    )
}

/// Reads one number of users, or a list of them.
fn one_or_many<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<Users>, D::Error> {
    // The numbers are checked later, because the error of an untagged type would hide theirs.
    #[derive(Deserialize)]
    #[serde(untagged, expecting = "a number of users, or a list of them")]
    enum OneOrMany {
        One(i64),
        Many(Vec<i64>),
    }
    let numbers = match OneOrMany::deserialize(deserializer)? {
        OneOrMany::One(users) => vec![users],
        OneOrMany::Many(users) if users.is_empty() => {
            return Err(D::Error::custom("write at least one number of users"));
        }
        OneOrMany::Many(users) => users,
    };
    numbers.into_iter().map(|users| Users::new(Some(users))).collect::<Result<_, _>>().map_err(D::Error::custom)
}

#[cfg(test)]
mod fuzzed;
