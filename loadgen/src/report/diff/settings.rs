//! Different settings and cut runs, which make a comparison unfair.

use stats::figures::percent;

use crate::error::Error;
use crate::report::Report;
use crate::trial::schedule::{CheckedShop, Schedule};

/// Lists the differences of two sides that do not depend on any figure.
pub(super) fn differences_of_sides(old: &[Report], new: &[Report]) -> Result<Vec<String>, Error> {
    let mut found = Vec::new();
    for (side, reports) in [("old", old), ("new", new)] {
        let Some(first) = reports.first() else { return Err(Error::Usage(format!("the {side} side has no run"))) };
        for (position, report) in reports.iter().enumerate() {
            let is_same = |other: &Report| {
                (&other.generated_at, other.schedule.seed) == (&report.generated_at, report.schedule.seed)
            };
            if reports[..position].iter().any(is_same) {
                let when = &report.generated_at;
                return Err(Error::Usage(format!("the {side} side has the run that ended at {when} twice")));
            }
            let mut of_run = [plan_differences(first, report), code_differences(first, report)].concat();
            of_run.extend(cut(report));
            let number = position + 1;
            found.extend(of_run.into_iter().map(|what| format!("run {number} of the {side} side: {what}")));
        }
    }
    found.extend(plan_differences(&old[0], &new[0]));
    if let (Some(was), Some(now)) = (profile(&old[0]), profile(&new[0])) {
        found.extend(differences([("profile of the build", was, now)]));
    }
    Ok(found)
}

/// Describes how a run was cut, if it was.
fn cut(report: &Report) -> Option<String> {
    let run = report.trials.len();
    let planned = report.schedule.len();
    let why = report.ended_early.as_ref().map_or_else(String::new, |ended| format!(": {}", ended.reason));
    (run < planned || report.ended_early.is_some()).then(|| format!("only {run} of {planned} trials were run{why}"))
}

/// Lists the settings that differ.
fn plan_differences(old: &Report, new: &Report) -> Vec<String> {
    let was = &old.schedule;
    let now = &new.schedule;
    if was.kind() != now.kind() {
        return differences([("what was measured", was.nouns().many.to_owned(), now.nouns().many.to_owned())]);
    }
    let number = |value: Option<u64>| value.map_or_else(|| "unknown".to_owned(), |value| value.to_string());
    let [many, one] = [was.nouns().many, was.nouns().one];
    let instances = if was.is_of_shops() { "addresses" } else { "instances" };
    differences([
        ("load", was.model_described.clone(), now.model_described.clone()),
        (many, strategies(old), strategies(new)),
        ("users", listed(&was.users), listed(&now.users)),
        (&format!("trials of each {one}"), was.trials.to_string(), now.trials.to_string()),
        ("stock", was.stock.to_string(), now.stock.to_string()),
        ("hazards", hazards(was), hazards(now)),
        ("SKUs", was.goods.to_string(), now.goods.to_string()),
        (instances, was.instances.to_string(), now.instances.to_string()),
        ("limits per buyer", limits(was), limits(now)),
        ("payers", payers(was), payers(now)),
        ("ZooKeeper sessions", number(was.zk_sessions_total), number(now.zk_sessions_total)),
        ("business time", text(&was.business_time), text(&now.business_time)),
        ("lock wait in ms", number(was.lock_wait_ms), number(now.lock_wait_ms)),
        ("most dropped arrivals", percent(was.limits.dropped_share_max), percent(now.limits.dropped_share_max)),
        ("most errors", percent(was.limits.errors_share_max), percent(now.limits.errors_share_max)),
        ("service arguments", was.service_args.join(" "), now.service_args.join(" ")),
    ])
}

fn code_differences(old: &Report, new: &Report) -> Vec<String> {
    differences([("code", old.environment.code(), new.environment.code())])
}

/// Differences of the machine, the servers and the load generator.
pub(super) fn environment_differences(old: &Report, new: &Report) -> Vec<String> {
    let was = &old.environment;
    let now = &new.environment;
    let settings = |report: &Report| {
        let settings = report.environment.postgres_settings.iter();
        settings.map(|setting| format!("{}={}", setting.name, setting.value)).collect::<Vec<_>>().join(" ")
    };
    differences([
        ("loadgen", was.loadgen_version.clone(), now.loadgen_version.clone()),
        ("processor", text(&was.cpu_model), text(&now.cpu_model)),
        ("cores", was.cpu_count.to_string(), now.cpu_count.to_string()),
        ("kernel", text(&was.kernel), text(&now.kernel)),
        ("Postgres", text(&was.postgres_version), text(&now.postgres_version)),
        ("Postgres settings", settings(old), settings(new)),
        ("ZooKeeper", text(&was.zookeeper_version), text(&now.zookeeper_version)),
        ("Redis", text(&was.redis_version), text(&now.redis_version)),
        ("ZooKeeper servers", was.zookeeper_servers.len().to_string(), now.zookeeper_servers.len().to_string()),
    ])
}

/// Returns the profile of the build. `None` if the service did not tell.
fn profile(report: &Report) -> Option<String> {
    let mut profiles: Vec<&str> = report.environment.service.iter().map(|build| build.profile.as_str()).collect();
    profiles.dedup();
    (!profiles.is_empty()).then(|| profiles.join(", "))
}

fn strategies(report: &Report) -> String {
    let mut names: Vec<&str> = report.results.iter().map(|result| result.strategy.as_str()).collect();
    names.sort_unstable();
    names.dedup();
    names.join(", ")
}

/// Describes how buyers pay in two steps.
fn payers(schedule: &Schedule) -> String {
    schedule.habits.map_or_else(|| "all pay at once".to_owned(), |habits| habits.describe())
}

fn hazards(schedule: &Schedule) -> String {
    schedule.hazards_described().unwrap_or_else(|| "none".to_owned())
}

/// Lists the limits per buyer of the shops that files describe.
fn limits(schedule: &Schedule) -> String {
    let of = |shop: &CheckedShop| Some(format!("{} of {}", shop.per_buyer?, shop.name));
    schedule.shops.iter().filter_map(of).collect::<Vec<_>>().join(", ")
}

fn listed(users: &[u32]) -> String {
    users.iter().map(u32::to_string).collect::<Vec<_>>().join(", ")
}

fn text(value: &Option<String>) -> String {
    value.clone().unwrap_or_else(|| "unknown".to_owned())
}

fn differences<const N: usize>(pairs: [(&str, String, String); N]) -> Vec<String> {
    let differing = pairs.into_iter().filter(|(_, was, now)| was != now);
    differing.map(|(what, was, now)| format!("{what} was {was:?} and is {now:?}")).collect()
}
