//! What every command for shops that files describe tells the judge: each shop is a strategy of its own, which is expected to sell
//! exactly its stock.

use buyers::model::LoadModel;
use program::Progress;

use crate::lab::strategy::{Mechanism, Promise, Strategy, Wakes};
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
        name: shop.name.clone(),
        promise: Promise::NeverOversells,
        mechanism: Mechanism::None,
        family: shop.name.clone(),
        wakes: Wakes::None,
        summary: format!("the shop at {}", shop.urls().join(" and ")),
        permits: None,
        headline: false,
        build: None,
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
