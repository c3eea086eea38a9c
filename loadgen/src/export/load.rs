//! The load that every engine gets: instances, SKUs, strategies and numbers of users.

use std::fmt;

use reqwest::Url;

use crate::config::service::BUYERS_MAX_MIN;
use crate::config::settings::{ExportSettings, LoadSettings};
use crate::error::Error;
use crate::judge::thresholds::Threshold;
use crate::lab::source::{ServiceSettings, Source};
use crate::trial::lab::ANSWER_GRACE;

/// The instance to load when no target is named: `loadgen up --port 8080` starts it.
const DEFAULT_TARGET: &str = "http://127.0.0.1:8080";

/// Upper bound of the pairs of an instance and a SKU. JMeter keeps the list of them once per thread.
const TARGETS_MAX: usize = 1000;

/// The error of an export without a strategy.
const NO_STRATEGY: &str = "a run sells by one strategy, and none is named; write --strategies zk-mutex, or several names \
                           of which `loadgen strategies` has a list";

/// The load of a comparison.
pub(super) struct ExportedLoad<'a> {
    pub(super) settings: &'a LoadSettings,
    source: &'a Source<Vec<String>>,
    pub(super) instances: Vec<InstanceAddress>,
    /// The runs, one after another, each on new stock. Never empty.
    pub(super) runs: Vec<ExportedRun>,
}

/// The address of an instance.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct InstanceAddress {
    pub(super) host: String,
    pub(super) port: u16,
    /// The path before the paths of the service, without a slash at its end.
    pub(super) prefix: String,
}

/// One strategy with one number of users.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct ExportedRun {
    pub(super) users: u32,
    pub(super) strategy: String,
}

/// An instance and a SKU to buy there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct PurchaseTarget<'a> {
    pub(super) instance: &'a InstanceAddress,
    /// The number of the instance, counted from 1.
    pub(super) number: usize,
    pub(super) goods_no: i64,
}

/// The arguments of `loadgen up` for a load.
pub(super) struct Up {
    pub(super) zk_sessions: u32,
    pub(super) business_time: String,
    pub(super) lock_wait: String,
    /// `None` if the default of `loadgen up` is enough.
    pub(super) users: Option<u32>,
}

impl<'a> ExportedLoad<'a> {
    pub(super) fn of(settings: &'a ExportSettings) -> Result<Self, Error> {
        let ExportSettings { source, load: settings } = settings;
        if settings.per_buyer.is_some() || settings.model.requests_per_buyer() > 1 {
            return Err(Error::Usage(
                "an exported load does not name its buyers; remove per-buyer and requests-per-buyer, or run loadgen compare".to_owned(),
            ));
        }
        let urls = match source {
            Source::Start(_) => &vec![DEFAULT_TARGET.to_owned()],
            Source::Target(urls) => urls,
        };
        let instances = urls.iter().map(|url| InstanceAddress::of(url)).collect::<Result<Vec<_>, _>>()?;
        let load = ExportedLoad { settings, source, instances, runs: runs(settings)? };
        match load.targets().len() {
            targets if targets > TARGETS_MAX => Err(Error::Usage(format!(
                "{targets} pairs of an instance and a SKU are more than the upper bound of {TARGETS_MAX}; \
                 use fewer --goods or --target"
            ))),
            _ => Ok(load),
        }
    }

    /// Returns the run that an exported file does by default: the first strategy with the largest number of users.
    pub(super) fn first_run(&self) -> ExportedRun {
        let most = self.runs.iter().map(|run| run.users).max();
        let first = self.runs.iter().find(|run| Some(run.users) == most);
        first.cloned().unwrap_or_else(|| ExportedRun { users: 1, strategy: String::new() })
    }

    /// Returns the SKUs on sale.
    pub(super) fn goods(&self) -> Vec<i64> {
        (self.settings.goods_no..=self.last_goods_no()).collect()
    }

    pub(super) fn last_goods_no(&self) -> i64 {
        self.settings.goods_no + i64::from(self.settings.goods) - 1
    }

    /// Returns the targets that successive requests go to, over and over: every instance with the first SKU, then every
    /// instance with the next one.
    pub(super) fn targets(&self) -> Vec<PurchaseTarget<'_>> {
        let at = |goods_no| {
            let instances = self.instances.iter().zip(1..);
            instances.map(move |(instance, number)| PurchaseTarget { instance, number, goods_no })
        };
        self.goods().into_iter().flat_map(at).collect()
    }

    /// Returns how long a buyer waits for an answer, in milliseconds.
    pub(super) fn answer_within_ms(&self) -> u128 {
        (self.settings.lock_wait + ANSWER_GRACE).as_millis()
    }

    /// Returns the strategies of the runs, each once.
    pub(super) fn strategies(&self) -> Vec<&str> {
        let mut strategies: Vec<_> = self.runs.iter().map(|run| run.strategy.as_str()).collect();
        strategies.dedup();
        strategies
    }

    /// Returns the thresholds as they were given.
    pub(super) fn thresholds(&self) -> Vec<&'a str> {
        self.settings.thresholds.iter().map(Threshold::rule).collect()
    }

    /// Returns the arguments of the command that starts the service for this load. `None` if the targets run already.
    pub(super) fn up(&self) -> Option<Up> {
        let service = self.service()?;
        let users = self.first_run().users;
        Some(Up {
            zk_sessions: (service.zk_sessions * u32::from(service.instances)).min(20_000),
            business_time: service.business_time.replace(char::is_whitespace, ""),
            lock_wait: humantime::format_duration(self.settings.lock_wait).to_string().replace(' ', ""),
            users: (users > BUYERS_MAX_MIN).then_some(users),
        })
    }

    /// Returns the number of instances that `loadgen compare` starts, if there are several.
    pub(super) fn instances_started(&self) -> Option<u16> {
        self.service().map(|service| service.instances).filter(|instances| *instances > 1)
    }

    /// Returns the arguments of the service that `loadgen up` does not have, on one line.
    pub(super) fn further_args(&self) -> Option<String> {
        let args = self.service()?.args.join(" ");
        // A line separator would end a comment, and XML has no control characters.
        let is_line = |c: char| !c.is_control() && !['\u{2028}', '\u{2029}'].contains(&c);
        let args: String = args.chars().map(|c| if is_line(c) { c } else { ' ' }).collect();
        (!args.is_empty()).then_some(args)
    }

    fn service(&self) -> Option<&'a ServiceSettings> {
        match self.source {
            Source::Start(service) => Some(service),
            Source::Target(_) => None,
        }
    }
}

impl InstanceAddress {
    fn of(url: &str) -> Result<InstanceAddress, Error> {
        let wrong = |what: &str| Error::Usage(format!("a target {what}; write http://HOST:PORT"));
        let parsed = Url::parse(url).map_err(|error| wrong(&format!("cannot be read ({error})")))?;
        let host = parsed.host_str().ok_or_else(|| wrong("has no host"))?.to_owned();
        if !parsed.username().is_empty() || parsed.password().is_some() {
            return Err(wrong(&format!("on {host} has credentials, which must not be written to a file")));
        }
        // Hosts become part of expressions and shell commands, so no other characters may pass.
        if !host.chars().all(|c| c.is_ascii_alphanumeric() || "-._:[]".contains(c)) {
            return Err(wrong(&format!("has {host:?} as its host, which is not a host name")));
        }
        let port = parsed.port_or_known_default().unwrap_or(80);
        let prefix = parsed.path().trim_end_matches('/');
        // These characters have a meaning in shell commands, scripts and lists.
        let prefix = prefix.replace('\'', "%27").replace('$', "%24").replace(',', "%2C");
        Ok(InstanceAddress { host, port, prefix })
    }
}

/// The base URL.
impl fmt::Display for InstanceAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let InstanceAddress { host, port, prefix } = self;
        write!(f, "http://{host}:{port}{prefix}")
    }
}

/// Lists every strategy with every number of users that `users-max` allows it.
fn runs(settings: &LoadSettings) -> Result<Vec<ExportedRun>, Error> {
    let named = settings.strategies.as_deref().unwrap_or_default();
    // Names become part of URLs, expressions and shell commands, so no other characters may pass.
    let is_name = |name: &str| name.chars().all(|c| c.is_ascii_alphanumeric() || "-_".contains(c));
    if let Some(wrong) = named.iter().find(|name| !is_name(name)) {
        return Err(Error::Usage(format!("the strategy {wrong:?} has a character that an exported file cannot have")));
    }
    if named.is_empty() {
        return Err(Error::Usage(NO_STRATEGY.to_owned()));
    }
    let mut runs = Vec::new();
    for strategy in named {
        let users = settings.users.iter().filter(|users| settings.allows(strategy, **users));
        runs.extend(users.map(|users| ExportedRun { users: *users, strategy: strategy.clone() }));
    }
    if runs.is_empty() {
        return Err(Error::Usage("users-max excludes every strategy with these --users".to_owned()));
    }
    Ok(runs)
}
