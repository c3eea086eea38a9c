//! The plan of a comparison: what is compared, in which order, and under which settings.

use testbed::Counters;

use crate::config::settings::{CompareSettings, LoadSettings};
use crate::error::Error;
use crate::judge::thresholds::Threshold;
use crate::lab::source::Source;
use crate::lab::stack::Stack;
use crate::lab::strategy::Strategy;
use crate::trial::plan::{Plan, Subject, blocks};

/// Draws the order of the trials, and records the settings.
pub(super) async fn draw(settings: &CompareSettings, stack: &Stack, strategies: &[Strategy]) -> Result<Plan, Error> {
    let seed = settings.seed.unwrap_or_else(rand::random);
    let load = &settings.load;
    let subjects = subjects(load, strategies);
    ensure_something_is_compared(load, strategies, &subjects)?;
    let (hold, lock_wait, zk_sessions_total, service_args) = match &settings.source {
        Source::Start(service) => {
            let total = u64::from(service.zk_sessions) * u64::from(service.instances);
            (Some(service.hold.clone()), Some(service.lock_wait), Some(total), service.args.clone())
        }
        Source::Target(_) => {
            let sessions = Counters::sum(stack.service.metrics().await?.counters).get("zookeeper_sessions");
            (None, None, sessions, Vec::new())
        }
    };
    Ok(Plan {
        seed,
        model: load.model,
        model_described: load.model.describe(load.users.last().copied().unwrap_or(0)),
        users: load.users.clone(),
        stock: load.stock,
        goods_no: load.goods_no,
        goods: load.goods,
        trials: settings.trials,
        instances: stack.service.urls().len(),
        zk_sessions_total,
        hold,
        lock_wait_ms: lock_wait.map(|wait| u64::try_from(wait.as_millis()).unwrap_or(u64::MAX)),
        service_args,
        limits: settings.limits,
        blocks: blocks(&subjects, settings.warm_up, settings.trials, seed),
    })
}

/// Refuses a comparison of nothing, and a threshold for nothing that is compared.
fn ensure_something_is_compared(
    load: &LoadSettings,
    strategies: &[Strategy],
    subjects: &[Subject],
) -> Result<(), Error> {
    if subjects.is_empty() {
        let remedy = "give fewer --users, or another users-max in the plan";
        return Err(Error::Usage(format!(
            "users-max of the plan or the preset leaves no strategy to compare: {remedy}"
        )));
    }
    let concerns =
        |threshold: &Threshold| subjects.iter().any(|subject| threshold.is_about(&subject.strategy, subject.users));
    let Some(idle) = load.thresholds.iter().find(|threshold| !concerns(threshold)) else { return Ok(()) };
    let names: Vec<&str> = strategies.iter().map(|strategy| strategy.name.as_str()).collect();
    let users: Vec<String> = load.users.iter().map(u32::to_string).collect();
    Err(Error::Usage(format!(
        "the threshold {:?} is about nothing that is compared: {} with {} users",
        idle.rule(),
        names.join(", "),
        users.join(", ")
    )))
}

/// Every strategy with every number of users that `users_max` allows it.
fn subjects(load: &LoadSettings, strategies: &[Strategy]) -> Vec<Subject> {
    let is_allowed = |strategy: &Strategy, users: u32| {
        load.users_max.iter().all(|(pattern, users_max)| !pattern.matches(&strategy.name) || users <= *users_max)
    };
    let of = |strategy: &Strategy| {
        let name = strategy.name.clone();
        let levels: Vec<u32> = load.users.iter().copied().filter(|users| is_allowed(strategy, *users)).collect();
        levels.into_iter().map(move |users| Subject { strategy: name.clone(), users })
    };
    strategies.iter().flat_map(of).collect()
}
