//! A load as every engine needs it.

use std::time::Duration;

use reqwest::Url;

use crate::config::service::BUYERS_MAX_MIN;
use crate::config::settings::{CompareSettings, ServiceSettings, Source};
use crate::error::Error;
use crate::lab::strategy::ALL;
use crate::trial::run::ANSWER_GRACE;

/// Where an instance is taken to be when no target is named: where `up --port 8080` starts one.
const DEFAULT_TARGET: &str = "http://127.0.0.1:8080";

/// Pairs of an instance and a SKU that can be listed; an engine keeps the list for every single user.
const PLACES_MAX: usize = 1000;

/// A load as every engine needs it.
pub(super) struct Load<'a> {
    pub(super) settings: &'a CompareSettings,
    pub(super) instances: Vec<Instance>,
    /// What is run one after another, each on stock of its own; at least one.
    pub(super) runs: Vec<Run>,
}

/// Where an instance answers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Instance {
    pub(super) host: String,
    pub(super) port: u16,
    /// What comes before the paths of the service, without a slash at its end.
    pub(super) prefix: String,
}

/// One number of users with one strategy.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Run {
    pub(super) users: u32,
    /// Without it, the strategy of the sale.
    pub(super) strategy: Option<String>,
}

impl<'a> Load<'a> {
    /// # Errors
    ///
    /// [`Error::Usage`] when no engine could run it.
    pub(super) fn of(settings: &'a CompareSettings) -> Result<Self, Error> {
        let urls = match &settings.source {
            Source::Start(_) => &vec![DEFAULT_TARGET.to_owned()],
            Source::Target(target) => &target.urls,
        };
        let instances = urls.iter().map(|url| Instance::of(url)).collect::<Result<Vec<_>, _>>()?;
        let load = Load { settings, instances, runs: runs(settings)? };
        match load.places().len() {
            places if places > PLACES_MAX => Err(Error::Usage(format!(
                "{places} pairs of an instance and a SKU are too many to be listed; \
                 with fewer --goods or --target there are at most {PLACES_MAX}"
            ))),
            _ => Ok(load),
        }
    }

    /// What is run unless an engine is told another: the first strategy with the largest number of users.
    pub(super) fn first_run(&self) -> Run {
        let most = self.runs.iter().map(|run| run.users).max();
        self.runs.iter().find(|run| Some(run.users) == most).cloned().unwrap_or(Run { users: 1, strategy: None })
    }

    /// For each of the requests that follow one another, over and over, the number of its instance and its SKU: buyers
    /// take turns in the instances, and rounds of them in the SKUs.
    pub(super) fn places(&self) -> Vec<(usize, i64)> {
        let goods = self.settings.goods_no..self.settings.goods_no + i64::from(self.settings.goods);
        goods.flat_map(|goods_no| (0..self.instances.len()).map(move |instance| (instance, goods_no))).collect()
    }

    /// How long a buyer waits for an answer.
    pub(super) fn answer_within(&self) -> Duration {
        self.settings.lock_wait + ANSWER_GRACE
    }

    /// The SKUs on sale, in words.
    pub(super) fn goods(&self) -> String {
        let CompareSettings { stock, goods_no, goods, .. } = self.settings;
        match goods {
            1 => format!("{stock} units of SKU {goods_no}"),
            _ => format!("{stock} units of each of the SKUs {goods_no} to {}", goods_no + i64::from(*goods) - 1),
        }
    }

    /// The commands that put the stock on sale again, to be pasted into a shell: one for each strategy that is run.
    pub(super) fn resets(&self) -> Vec<String> {
        let mut strategies: Vec<_> = self.runs.iter().map(|run| run.strategy.as_deref()).collect();
        strategies.dedup();
        strategies.into_iter().map(|strategy| self.reset(strategy)).collect()
    }

    /// The command for this strategy. Without one, the service puts its default strategy on the sale.
    fn reset(&self, strategy: Option<&str>) -> String {
        let CompareSettings { stock, goods_no, goods, .. } = self.settings;
        let strategy = strategy.map_or_else(String::new, |strategy| format!(",\"strategy\":\"{strategy}\""));
        let Some(Instance { host, port, prefix }) = self.instances.first() else { return String::new() };
        let put = |goods_no: &str| {
            format!(
                "curl -X PUT -H \"Authorization: Bearer $ADMIN_TOKEN\" -H 'Content-Type: application/json' \
                 -d '{{\"stock\":{stock}{strategy}}}' \"http://{host}:{port}{prefix}/admin/goods/{goods_no}\""
            )
        };
        match goods {
            1 => put(&goods_no.to_string()),
            _ => {
                let last = goods_no + i64::from(*goods) - 1;
                format!("for goods in $(seq {goods_no} {last}); do {}; done", put("$goods"))
            }
        }
    }

    /// What a run that `setting` gives another strategy needs of the sale.
    pub(super) fn reset_for(&self, setting: &str) -> String {
        let stock = self.settings.stock;
        format!(
            "A sale is sold by the strategy that its PUT names: a run with {setting}=NAME needs \
             -d '{{\"stock\":{stock},\"strategy\":\"NAME\"}}'."
        )
    }

    /// How the service is started for this load, unless one was named that runs.
    pub(super) fn start(&self) -> Option<String> {
        let Source::Start(service) = &self.settings.source else { return None };
        let ServiceSettings { instances, zk_sessions, hold, .. } = service;
        let sessions = (zk_sessions * u32::from(*instances)).min(20_000);
        let hold = hold.replace(char::is_whitespace, "");
        let lock_wait = humantime::format_duration(self.settings.lock_wait).to_string().replace(' ', "");
        let CompareSettings { stock, goods_no, .. } = self.settings;
        let users = match self.first_run().users {
            most if most > BUYERS_MAX_MIN => format!(" --users {most}"),
            _ => String::new(),
        };
        Some(format!(
            "loadgen up --port 8080 --instances 1 --zk-sessions {sessions} --hold {hold} --lock-wait {lock_wait} \
             --goods-no {goods_no} --stock {stock}{users}"
        ))
    }

    /// What this program does and the engines do not, for what is written.
    pub(super) fn not_done(&self) -> Vec<String> {
        let mut lines = vec![
            "One run is one trial. Nothing puts the stock on sale again, repeats, compares strategies in turns, or audits \
             what was really sold; the last can be had afterwards: loadgen audit."
                .to_owned(),
        ];
        if self.settings.model.begins_together() {
            lines.push("Users connect when they first buy; those of loadgen compare are connected before.".to_owned());
        }
        if let Source::Start(service) = &self.settings.source
            && service.instances > 1
        {
            lines.push(format!(
                "One instance is asked, where loadgen compare would start {}; those that run can be named with --target.",
                service.instances
            ));
        }
        if let Source::Start(service) = &self.settings.source
            && !service.args.is_empty()
        {
            let args = service.args.join(" ");
            lines.push(format!(
                "loadgen up gives the service no further arguments, so these are to be given by hand: {args}."
            ));
        }
        if self.runs.iter().all(|run| run.strategy.is_none()) {
            lines.push(
                "No strategy is named, so the sale's own sells, where loadgen compare would try one after another; \
                 loadgen strategies lists them."
                    .to_owned(),
            );
        }
        lines
    }
}

impl Instance {
    fn of(url: &str) -> Result<Instance, Error> {
        let wrong = |what: &str| Error::Usage(format!("a target {what}; write http://HOST:PORT"));
        let parsed = Url::parse(url).map_err(|error| wrong(&format!("cannot be read ({error})")))?;
        let host = parsed.host_str().ok_or_else(|| wrong("has no host"))?.to_owned();
        if !parsed.username().is_empty() || parsed.password().is_some() {
            return Err(wrong(&format!("on {host} has credentials, which are not to be written into files")));
        }
        let port = parsed.port_or_known_default().unwrap_or(80);
        Ok(Instance { host, port, prefix: parsed.path().trim_end_matches('/').to_owned() })
    }
}

/// Every strategy with every number of users that it is to be tried with.
fn runs(settings: &CompareSettings) -> Result<Vec<Run>, Error> {
    let named = settings.strategies.as_deref().filter(|named| *named != [ALL]).unwrap_or_default();
    // They go into addresses, expressions and commands of other programs, so nothing else is let through.
    let is_name = |name: &str| !name.is_empty() && name.chars().all(|c| c.is_ascii_alphanumeric() || "-_".contains(c));
    if let Some(wrong) = named.iter().find(|name| !is_name(name)) {
        return Err(Error::Usage(format!("no strategy is named {wrong:?}; `loadgen strategies` lists them")));
    }
    let strategies: Vec<Option<&String>> = if named.is_empty() { vec![None] } else { named.iter().map(Some).collect() };
    let is_tried = |strategy: Option<&String>, users: u32| {
        let name = strategy.map_or("", String::as_str);
        settings.users_max.iter().all(|(pattern, users_max)| !pattern.matches(name) || users <= *users_max)
    };
    let mut runs = Vec::new();
    for strategy in strategies {
        let users = settings.users.iter().filter(|users| is_tried(strategy, **users));
        runs.extend(users.map(|users| Run { users: *users, strategy: strategy.cloned() }));
    }
    if runs.is_empty() {
        return Err(Error::Usage("users-max leaves no strategy to be tried with these --users".to_owned()));
    }
    Ok(runs)
}
