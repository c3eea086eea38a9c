//! A trial at a shop that a file describes. What it sold is judged by its answers, and by its books as far as the file says how
//! they are read.

pub(super) mod before;
pub(super) mod judged;
mod rest;
mod sign_up;

use std::iter;
use std::sync::atomic::{AtomicU64, Ordering};

use buyers::load::{LoadResult, Purchase};
use buyers::model::LoadModel;
use buyers::scenario::ScenarioPurchase;
use buyers::shop::{RequestBudget, ShopPurchase};
use reqwest::Client;
use stats::figures::{count, percent, things};
use tracing::{Instrument as _, debug_span, instrument};

use self::before::BooksBefore;
use self::judged::judged;
use self::sign_up::sign_up;
use crate::audit::shop::{Evidence, ShopBook};
use crate::audit::trial::Audit;
use crate::error::Error;
use crate::shop::{self, Shop};
use crate::trial::record::Trial;
use crate::trial::run::{Conditions, FinishedTrial};
use crate::trial::schedule::ScheduledTrial;

/// A shop, ready to be tried.
pub(crate) struct ShopOnTrial {
    pub(crate) shop: Shop,
    client: Client,
    /// A trial with a larger share of failed purchases ends the check.
    stop_share: f64,
    budget: RequestBudget,
    /// Buyers that signed up, in all trials.
    signed_up: AtomicU64,
    /// Purchases that were told as sold, in all trials.
    sold: AtomicU64,
}

impl ShopOnTrial {
    /// Makes a shop ready. A trial in which a larger share of purchases fails ends the check.
    ///
    /// # Errors
    ///
    /// The certificate of the shop file cannot be read.
    pub(crate) fn of(shop: Shop, stop_share: f64, budget: RequestBudget) -> Result<ShopOnTrial, Error> {
        let client = shop::client(&shop)?;
        Ok(ShopOnTrial { shop, client, stop_share, budget, signed_up: AtomicU64::new(0), sold: AtomicU64::new(0) })
    }

    /// Returns the name of the shop.
    pub(crate) fn name(&self) -> &str {
        &self.shop.name
    }
}

/// Returns how many buyers a trial needs: one for each user of a closed model, and one for each arrival of an open one.
pub(crate) fn buyers_needed(model: &LoadModel, users: u32, seed: u64) -> usize {
    match model {
        LoadModel::Open { .. } => model.arrivals(seed).count(),
        LoadModel::Burst { .. } | LoadModel::Ramp { .. } | LoadModel::Loop { .. } => {
            usize::try_from(users).unwrap_or(usize::MAX)
        }
    }
}

/// Runs one trial: puts the stock on sale, signs the buyers up, lets them buy, waits until the books are at rest, and audits
/// them.
#[instrument(skip_all, fields(block = scheduled.block, shop = tried.shop.name, users = scheduled.subject.users))]
pub(crate) async fn trial(
    tried: &ShopOnTrial,
    conditions: &Conditions,
    scheduled: ScheduledTrial<'_>,
) -> Result<FinishedTrial, Error> {
    let ShopOnTrial { shop, client, .. } = tried;
    let before = put_on_sale(shop, client).instrument(debug_span!("put on sale")).await?;
    let needed = buyers_needed(&conditions.model, scheduled.subject.users, conditions.seed_of(scheduled));
    let purchase = purchase(tried, needed, &conditions.model).instrument(debug_span!("sign up")).await?;
    ensure_still(tried, &before).instrument(debug_span!("look again")).await?;
    let load = conditions.load(scheduled, purchase, shop.purchase_within());
    let bought = buyers::run(load).instrument(debug_span!("load")).await?;
    tried.sold.fetch_add(bought.tally.answers().sold, Ordering::Relaxed);
    if tried.budget.is_spent() {
        let text = "the check has sent the greatest number of requests; allow more by --requests-max";
        return Err(Error::Shop(text.to_owned()));
    }
    ensure_served(tried, &bought)?;
    ensure_restored(shop, &bought)?;
    let before = BooksBefore::Known(&before);
    let finished = judged(shop, client, (conditions, scheduled), bought, (&before, 0, true)).await?;
    ensure_stock_moves(shop, &finished.trial)?;
    Ok(finished)
}

/// Makes the purchase of this many buyers, who are signed up. A buyer that sends several requests at once is several users with one
/// session. A scenario signs its buyers up itself, before its rendezvous.
async fn purchase(tried: &ShopOnTrial, needed: usize, model: &LoadModel) -> Result<Purchase, Error> {
    let ShopOnTrial { shop, client, budget, .. } = tried;
    if let Some(scenario) = shop.scenario.clone() {
        let clients = (0..needed).map(|_| shop::client_of_user(shop)).collect::<Result<_, _>>()?;
        return Ok(Purchase::Scenario(ScenarioPurchase { scenario, urls: shop.urls.clone(), clients }));
    }
    let customers = sign_up(shop, client, needed).await?;
    let of_sign_up = shop.script.sign_up.requests.len();
    budget.spend((needed * of_sign_up) as u64);
    tried.signed_up.fetch_add(if of_sign_up > 0 { needed as u64 } else { 0 }, Ordering::Relaxed);
    let users = customers.into_iter().flat_map(|customer| iter::repeat_n(customer, model.requests_per_buyer()));
    let customers = users.collect();
    let script = shop.script.clone().into();
    let purchase = ShopPurchase::of(client.clone(), script, shop.urls.clone(), budget.clone(), customers);
    Ok(Purchase::Shop(purchase))
}

/// Does what the files of the shops say is to be done after the last trial. Returns what the check has left at each shop.
///
/// # Errors
///
/// The first part that fails, after all others were tried.
pub(crate) async fn clean(all: &[ShopOnTrial]) -> Result<Vec<String>, Error> {
    let mut left = Vec::new();
    let mut failed = None;
    for tried in all {
        let ShopOnTrial { shop, client, signed_up, sold, .. } = tried;
        let signed_up = match &shop.scenario {
            Some(scenario) => format!("what the scenario {:?} does before it buys", scenario.name),
            None => things(count(signed_up.load(Ordering::Relaxed)), "sign-up"),
        };
        let sold = things(count(sold.load(Ordering::Relaxed)), "purchase");
        let cleaned = match &shop.clean {
            Some(task) => {
                let cleaned = shop::carry_out(task, "[clean]", shop, client, None).await;
                failed = failed.or(cleaned.err());
                "then [clean] was carried out"
            }
            None => "its file has no [clean]",
        };
        left.push(format!("made at {}: {signed_up} and {sold}; {cleaned}", shop.name));
    }
    failed.map_or(Ok(left), Err)
}

/// Carries out `[sale]`, and makes sure that the books have the stock that is put on sale. Returns the books.
///
/// # Errors
///
/// [`Error::Reset`] if the books have another stock afterwards, and errors of the shop.
pub(crate) async fn put_on_sale(shop: &Shop, client: &Client) -> Result<ShopBook, Error> {
    shop::carry_out(&shop.sale, "[sale]", shop, client, None).await?;
    let book = shop::book(shop, client, None).await?;
    let expected = i64::from(shop.stock);
    let sources = [("the page of [books]", book.left_on_page), ("the database", book.left_in_database)];
    for (source, left) in sources {
        if let Some(left) = left.filter(|left| *left != expected) {
            return Err(Error::Reset(format!(
                "{}: {source} has {} after [sale], and [shop] has stock = {expected}; let [sale] restore the stock, or \
                 correct stock",
                shop.name,
                things(left, "unit")
            )));
        }
    }
    Ok(book)
}

/// Makes sure that the books are still what they were: nobody has bought yet.
async fn ensure_still(tried: &ShopOnTrial, before: &ShopBook) -> Result<(), Error> {
    let now = shop::book(&tried.shop, &tried.client, None).await?;
    if now == *before {
        return Ok(());
    }
    let words = |book: &ShopBook| {
        let left = book.left().map(|left| format!("{} left", things(left, "unit")));
        let orders = book.order_count().map(|orders| things(orders, "order"));
        left.into_iter().chain(orders).collect::<Vec<_>>().join(", ")
    };
    Err(Error::Reset(format!(
        "the books of {} changed before anybody bought: {}, then {}; nobody else may buy meanwhile, and [buyers] may take no \
         stock",
        tried.shop.name,
        words(before),
        words(&now)
    )))
}

/// Ends the check if the stock on a page has not moved although units were sold. Two buyers that race still take one.
fn ensure_stock_moves(shop: &Shop, trial: &Trial) -> Result<(), Error> {
    let Audit { sold, oversold, lost_updates, .. } = trial.audit;
    if trial.evidence != Some(Evidence::Pages) || sold == 0 || oversold > 0 || lost_updates != -sold {
        return Ok(());
    }
    Err(Error::Reset(format!(
        "{}: the page of [books] stock still has all {} after {} sold; name a page that is not cached, wait longer by quiet, or remove \
         stock",
        shop.name,
        things(shop.stock, "unit"),
        if sold == 1 { "1 was".to_owned() } else { format!("{sold} were") }
    )))
}

/// Ends the check if everything was sold out from the beginning. Where books show the stock, it was compared before the load.
fn ensure_restored(shop: &Shop, bought: &LoadResult) -> Result<(), Error> {
    let answers = bought.tally.answers();
    if shop.books.have_stock() || answers.sold > 0 || answers.sold_out == 0 {
        return Ok(());
    }
    Err(Error::Reset(format!(
        "{}: nothing was sold after [sale], and {} told \"sold out\"; let [sale] restore {}, and look at its answers by --dry-run",
        shop.name,
        if answers.sold_out == 1 {
            "1 buyer was".to_owned()
        } else {
            format!("{} were", things(count(answers.sold_out), "buyer"))
        },
        things(shop.stock, "unit")
    )))
}

/// Ends the check if too many purchases failed: it would only load a shop that is down.
fn ensure_served(tried: &ShopOnTrial, bought: &LoadResult) -> Result<(), Error> {
    let answers = bought.tally.answers();
    let share = stats::as_f64(answers.failed()) / stats::as_f64(answers.total().max(1));
    if share <= tried.stop_share {
        return Ok(());
    }
    let problems = bought.tally.problems.join("; ");
    Err(Error::Shop(format!(
        "{} of the {} at {} failed, and the check ends at {}: {problems}; look at the shop, name such answers in [buy], or allow more by --stop-at",
        percent(share),
        things(answers.total(), "purchase"),
        tried.shop.name,
        percent(tried.stop_share)
    )))
}
