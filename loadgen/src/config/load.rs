//! The flags of the load, which every command that has a load takes.

use std::path::PathBuf;

use buyers::model::LoadModel;
use clap::Args;
use wildmatch::WildMatch;

use super::layers::Layers;
use super::payers::shorten_reservations;
use super::plan::PlanLayer;
use super::settings::LoadSettings;
use super::values::{PerBuyer, Users};
use crate::error::Error;
use crate::lab::source::ServiceSettings;
use crate::trial::schedule::Limits;

/// A plan file, and the flags that override it.
#[derive(Debug, Args)]
pub(crate) struct LoadArgs {
    /// Plan: a TOML file of settings, which flags override. The presets are examples, and docs/using.md lists the keys
    #[arg(long, value_name = "FILE")]
    pub(super) plan: Option<PathBuf>,
    #[command(flatten)]
    pub(super) flags: PlanLayer,
}

/// The settings after the merge of flags, plan file, preset and defaults.
pub(crate) struct Resolved {
    pub(crate) load: LoadSettings,
    /// The service for this load, if one is started.
    pub(crate) service: ServiceSettings,
    pub(super) trials: u32,
    pub(super) warm_up: bool,
    pub(super) seed: Option<u32>,
    pub(super) limits: Limits,
}

impl LoadArgs {
    /// Reads the plan file and the preset, and merges them with the flags.
    pub(crate) fn resolve(mut self, strategies: Option<Vec<String>>) -> Result<Resolved, Error> {
        self.flags.strategies = strategies;
        let (plan, model) = Layers::of(self.flags, self.plan.as_deref())?.merge()?;
        let mut users: Vec<u32> = plan.users.into_iter().map(Users::get).collect();
        users.sort_unstable();
        users.dedup();
        let most_users = users.last().copied().unwrap_or(1);
        // A hazard that is named twice would have two results of the same trials.
        let mut hazards = plan.hazards;
        hazards.sort_unstable();
        hazards.dedup();
        let limits = plan.users_max.into_iter().flatten();
        let habits = plan.payers.habits()?;
        let mut service = plan.service.start(at_once(&model, most_users), plan.lock_wait);
        shorten_reservations(&habits, &mut service.args);
        Ok(Resolved {
            service,
            trials: plan.trials.get(),
            warm_up: plan.warm_up,
            seed: plan.seed,
            limits: Limits { dropped_share_max: plan.dropped_max, errors_share_max: plan.errors_max },
            load: LoadSettings {
                strategies: plan.strategies,
                users,
                users_max: limits.map(|(pattern, users)| (WildMatch::new(&pattern), users.get())).collect(),
                model,
                stock: plan.stock.get(),
                per_buyer: plan.per_buyer.map(PerBuyer::get),
                habits,
                goods_no: plan.goods_no.get(),
                goods: plan.goods.get(),
                lock_wait: plan.lock_wait,
                thresholds: plan.thresholds,
                hazards,
            },
        })
    }
}

/// Refuses what only a comparison has: habits of payers, and hazards. `payers` says how the buyers of such a load pay.
pub(crate) fn refuse_comparison_settings(load: &LoadSettings, what: &str, payers: &str) -> Result<(), Error> {
    let refused = |keys: &str, why: &str| {
        Err(Error::Usage(format!("{keys} are for `compare` and `run`: {what} {why}; remove them")))
    };
    if !load.habits.are_good() {
        return refused("abandon, pay-late and pay-twice", payers);
    }
    if !load.hazards.is_empty() {
        return refused("hazards", "strikes no server");
    }
    Ok(())
}

/// Returns the requests that may be under way at once.
pub(crate) fn at_once(model: &LoadModel, users: u32) -> u32 {
    let users = usize::try_from(users).unwrap_or(usize::MAX);
    u32::try_from(model.users_of(users)).unwrap_or(u32::MAX)
}
