//! What is known before the first trial at a shop: mistakes that can be found without it, the schedule, the environment.

use std::time::Duration;

use buyers::shop::RequestBudget;
use program::Progress;
use stats::figures::{count, things};

use crate::commands::before::ensure_enough_is_sold;
use crate::commands::shops::{TrialsAtShops, announce, ensure_comparable, ensure_rules, strategy};
use crate::commands::trials::{OnTrial, Prepared};
use crate::config::check::CheckSettings;
use crate::config::load::at_once;
use crate::error::Error;
use crate::lab::environment::Environment;
use crate::lab::stack::ensure_files;
use crate::lab::strategy::Strategy;
use crate::shop::Shop;
use crate::trial::any::{ShopOnTrial, buyers_needed};
use crate::trial::schedule::{Subject, blocks};

/// Refuses shops that cannot be checked together, and loads that they or this machine cannot have.
///
/// # Errors
///
/// [`Error::Usage`] with what is wrong and the remedy.
pub(super) fn ensure(settings: &CheckSettings, shops: &[Shop]) -> Result<(), Error> {
    ensure_comparable(shops)?;
    ensure_rules(&settings.thresholds, shops, &settings.users)?;
    let users_max = settings.users.last().copied().unwrap_or(1);
    ensure_strong(settings, shops, users_max)?;
    ensure_figures(settings, shops)?;
    // The number of the arrivals of an open model depends on the seed a little.
    let buyers = buyers_needed(&settings.model, users_max, u64::from(settings.seed.unwrap_or_default()));
    for people in shops.iter().filter_map(|shop| shop.people.as_ref()) {
        people.ensure(buyers)?;
    }
    let trials = u64::from(settings.trials) + u64::from(settings.warm_up);
    let of_trial = |users: u32| buyers_needed(&settings.model, users, 0) as u64;
    let purchases = settings.model.requests_per_buyer();
    let of_shops: u64 = shops.iter().map(|shop| shop.requests_of_a_buyer(purchases) as u64).sum();
    let requests = trials * of_shops * settings.users.iter().map(|users| of_trial(*users)).sum::<u64>();
    if requests > settings.requests_max {
        return Err(Error::Usage(format!(
            "the check would send at least {}, and the most are {}; give fewer --users or --trials, or a larger --requests-max",
            things(requests, "request"),
            count(settings.requests_max)
        )));
    }
    if settings.model.starts_together() {
        ensure_files(at_once(&settings.model, users_max), &[])?;
    }
    Ok(())
}

/// Refuses a rule about a figure that needs more sold units than the trials of a right shop can have.
fn ensure_figures(settings: &CheckSettings, shops: &[Shop]) -> Result<(), Error> {
    for rule in &settings.thresholds {
        let rows = shops.iter().flat_map(|shop| settings.users.iter().map(move |users| (shop, *users)));
        let of_trial = |(shop, users): (&Shop, u32)| {
            let most = at_once(&settings.model, users)
                .min(shop.per_buyer.map_or(u32::MAX, |limit| users.saturating_mul(limit)));
            let wanted = if settings.model.is_one_shot() { most } else { u32::MAX };
            u64::from(shop.stock.min(wanted))
        };
        let fewest = rows.filter(|(shop, users)| rule.is_about(&shop.name, *users)).map(of_trial).min();
        ensure_enough_is_sold(rule, settings.trials, fewest.unwrap_or(u64::MAX), "more stock in the shop file")?;
    }
    Ok(())
}

/// Refuses a load that cannot show that a shop sells wrongly, if only the answers are seen.
fn ensure_strong(settings: &CheckSettings, shops: &[Shop], users_max: u32) -> Result<(), Error> {
    let purchases = at_once(&settings.model, users_max);
    let is_blind = |shop: &&Shop| !shop.books.are_any() && purchases <= shop.stock;
    let Some(shop) = shops.iter().find(is_blind).filter(|_| settings.model.is_one_shot()) else { return Ok(()) };
    Err(Error::Usage(format!(
        "{} cannot buy more than the {} of {}, and without [books] nothing else can show a fault; raise --users above {}, or lower \
         stock",
        things(users_max, "user"),
        things(shop.stock, "unit"),
        shop.name,
        shop.stock
    )))
}

/// Draws the schedule of the trials at these shops.
pub(super) fn prepare(settings: &CheckSettings, shops: Vec<Shop>, progress: &Progress) -> Result<Prepared, Error> {
    let strategies: Vec<Strategy> = shops.iter().map(strategy).collect();
    let of_users = |users: &u32| strategies.iter().map(|strategy| Subject::of(strategy, *users)).collect::<Vec<_>>();
    let mut subjects: Vec<Subject> = settings.users.iter().flat_map(of_users).collect();
    subjects.sort_by_key(|subject| strategies.iter().position(|strategy| strategy.name == subject.strategy));
    let urls: Vec<String> = shops.iter().flat_map(Shop::urls).collect();
    let environment = Environment::of_shops(&urls);
    let seed = settings.seed.unwrap_or_else(rand::random);
    let plan = TrialsAtShops {
        seed,
        model: Some(settings.model),
        model_described: settings.model.describe(settings.users.last().copied().unwrap_or(0)),
        users: settings.users.clone(),
        trials: settings.trials,
        limits: settings.limits,
        logs: Vec::new(),
        blocks: blocks(&subjects, settings.warm_up, settings.trials, seed),
    };
    let schedule = plan.at(&shops);
    announce(&shops, progress);
    let budget = RequestBudget::of(settings.requests_max);
    let of = |shop| ShopOnTrial::of(shop, settings.stop_share, budget.clone());
    Ok(Prepared {
        on_trial: OnTrial::Shops(shops.into_iter().map(of).collect::<Result<_, _>>()?),
        strategies,
        schedule,
        environment,
        thresholds: settings.thresholds.clone(),
        goods_nos: vec![0],
        lock_wait: Duration::ZERO,
    })
}
