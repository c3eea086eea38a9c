//! The schedule of a comparison: its subjects, their order and the settings.

use testbed::Counters;

use crate::config::settings::CompareSettings;
use crate::error::Error;
use crate::lab::service_program;
use crate::lab::source::{Program, Source};
use crate::lab::stack::Stack;
use crate::trial::schedule::{NamedBuild, Schedule, Subject, blocks};

/// Draws the order of the trials, and records the settings.
pub(super) async fn draw(settings: &CompareSettings, stack: &Stack, subjects: &[Subject]) -> Result<Schedule, Error> {
    let seed = settings.seed.unwrap_or_else(rand::random);
    let load = &settings.load;
    let (business_time, lock_wait, zk_sessions_total, service_args) = match &settings.source {
        Source::Start(service) => {
            let total = u64::from(service.zk_sessions) * u64::from(service.instances);
            (Some(service.business_time.clone()), Some(service.lock_wait), Some(total), service.args.clone())
        }
        Source::Target(_) => {
            let sessions = Counters::sum(stack.first().service.metrics().await?.counters).get("zookeeper_sessions");
            (None, None, sessions, Vec::new())
        }
    };
    Ok(Schedule {
        seed,
        model: Some(load.model),
        model_described: load.model.describe(load.users.last().copied().unwrap_or(0)),
        users: load.users.clone(),
        stock: load.stock,
        per_buyer: load.per_buyer,
        habits: Some(load.habits).filter(|habits| !habits.are_good()),
        hazards: load.hazards.clone(),
        goods_no: load.goods_no,
        goods: load.goods,
        trials: settings.trials,
        builds: builds(&settings.source)?,
        shops: Vec::new(),
        logs: Vec::new(),
        instances: stack.first().service.urls().len(),
        zk_sessions_total,
        business_time,
        lock_wait_ms: lock_wait.map(|wait| u64::try_from(wait.as_millis()).unwrap_or(u64::MAX)),
        service_args,
        limits: settings.limits,
        blocks: blocks(subjects, settings.warm_up, settings.trials, seed),
    })
}

/// Returns the two builds that are compared, if there are two.
fn builds(source: &Source) -> Result<Vec<NamedBuild>, Error> {
    let Source::Start(service) = source else { return Ok(Vec::new()) };
    let named = |program: &Program| {
        let name = program.name.clone()?;
        Some(service_program::find(program).map(|path| NamedBuild { name, program: path.display().to_string() }))
    };
    service.programs.iter().filter_map(named).collect()
}
