//! What every command for shops that files describe tells the judge: each shop is a strategy of its own, which is expected to sell
//! exactly its stock.

use buyers::model::LoadModel;
use program::Progress;

use crate::commands::before::idle;
use crate::error::Error;
use crate::judge::thresholds::Threshold;
use crate::lab::strategy::{Answers, Mechanism, Promise, Strategy, Wakes};
use crate::shop::Shop;
use crate::trial::schedule::{Block, CheckedShop, JudgedLog, Limits, Schedule};

/// The trials at some shops.
pub(super) struct TrialsAtShops {
    pub(super) seed: u32,
    pub(super) model: Option<LoadModel>,
    pub(super) model_described: String,
    pub(super) users: Vec<u32>,
    pub(super) trials: u32,
    pub(super) limits: Limits,
    pub(super) logs: Vec<JudgedLog>,
    pub(super) blocks: Vec<Block>,
}

impl TrialsAtShops {
    /// Makes the schedule of these trials.
    pub(super) fn at(self, shops: &[Shop]) -> Schedule {
        let checked = |shop: &Shop| CheckedShop {
            name: shop.name.clone(),
            urls: shop.urls(),
            per_buyer: shop.per_buyer,
            unseen: shop.unseen(),
        };
        Schedule {
            seed: self.seed,
            model: self.model,
            model_described: self.model_described,
            users: self.users,
            stock: shops.first().map_or(0, |shop| shop.stock),
            per_buyer: None,
            habits: None,
            hazards: Vec::new(),
            goods_no: 0,
            goods: 1,
            trials: self.trials,
            builds: Vec::new(),
            shops: shops.iter().map(checked).collect(),
            logs: self.logs,
            instances: shops.iter().map(|shop| shop.urls.len()).max().unwrap_or(1),
            zk_sessions_total: None,
            business_time: None,
            lock_wait_ms: None,
            service_args: Vec::new(),
            limits: self.limits,
            blocks: self.blocks,
        }
    }
}

/// Makes a shop a strategy of its own.
pub(super) fn strategy(shop: &Shop) -> Strategy {
    Strategy {
        answers: Answers::default(),
        name: shop.name.clone(),
        promise: Promise::NeverOversells,
        mechanism: Mechanism::None,
        family: shop.name.clone(),
        wakes: Wakes::None,
        summary: format!("the shop at {}", shop.urls().join(" and ")),
        permits: None,
        headline: false,
        two_steps: false,
        build: None,
        hazard: None,
    }
}

/// Shows what the files of shops have carried out beside requests: commands and statements.
pub(super) fn announce(shops: &[Shop], progress: &Progress) {
    for shop in shops {
        for task in [Some(&shop.sale), shop.clean.as_ref()].into_iter().flatten() {
            if let Some(told) = task.told() {
                progress.stage(&shop.secrets.hide(&format!("{} {told}", shop.name)));
            }
        }
    }
}

/// Refuses shops that cannot be judged together.
///
/// # Errors
///
/// [`Error::Usage`] with what is wrong and the remedy.
pub(super) fn ensure_comparable(shops: &[Shop]) -> Result<(), Error> {
    for (number, shop) in shops.iter().enumerate() {
        if shops[..number].iter().any(|other| other.name == shop.name) {
            let name = &shop.name;
            return Err(Error::Usage(format!("two shops are named {name:?}; give each its own name in [shop]")));
        }
    }
    if let Some(other) = shops.iter().find(|shop| shop.stock != shops[0].stock) {
        let first = &shops[0];
        return Err(Error::Usage(format!(
            "{} has stock = {}, and {} has stock = {}; shops are compared with the same stock",
            first.name, first.stock, other.name, other.stock
        )));
    }
    Ok(())
}

/// Refuses a rule that is about none of these shops and numbers of users. It would be met by nothing.
///
/// # Errors
///
/// [`Error::Usage`] with the names of the shops.
pub(super) fn ensure_rules(rules: &[Threshold], shops: &[Shop], users: &[u32]) -> Result<(), Error> {
    let names = || shops.iter().map(|shop| shop.name.as_str());
    let is_idle = |rule: &&Threshold| !names().any(|name| users.iter().any(|users| rule.is_about(name, *users)));
    rules.iter().find(is_idle).map_or(Ok(()), |rule| Err(idle(rule, users, names())))
}
