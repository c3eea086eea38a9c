//! What a shop sold, by the answers to a load and by the books after it.

use buyers::load::LoadResult;
use reqwest::Client;
use tracing::{Instrument as _, debug_span};

use super::before::BooksBefore;
use super::rest::{Rest, rest};
use crate::audit::shop::{ShopBook, ShopFacts};
use crate::audit::trial::Audit;
use crate::error::Error;
use crate::shop::Shop;
use crate::trial::run::{Conditions, FinishedTrial, Seen, record};
use crate::trial::schedule::ScheduledTrial;

/// Waits until the books are at rest, and audits what buyers were told. Beside the buyers of the load, up to `unlogged` others may have
/// bought. Returns the finished trial.
pub(in crate::trial) async fn judged(
    shop: &Shop,
    client: &Client,
    (conditions, scheduled): (&Conditions, ScheduledTrial<'_>),
    bought: LoadResult,
    (before, unlogged): (&BooksBefore<'_>, u64),
) -> Result<FinishedTrial, Error> {
    let of = |books: &ShopBook| Audit::of_shop(&ShopFacts { unlogged, ..facts(shop, &bought, books) });
    let found = rest(shop, client, before, |books| of(books).is_clean()).instrument(debug_span!("rest")).await?;
    let Rest { books, settled } = found;
    let mut unseen = unseen(shop, &bought, &books);
    unseen.extend(before.unseen(shop));
    let seen = Seen {
        audit: of(&books),
        evidence: Some(books.evidence()),
        books_read: Some(books.read()),
        unseen,
        settled,
        left_out: contradiction(&books).into_iter().collect(),
        ..Seen::default()
    };
    Ok(record(conditions, scheduled, bought, seen))
}

fn facts<'a>(shop: &Shop, bought: &'a LoadResult, books: &'a ShopBook) -> ShopFacts<'a> {
    let tally = &bought.tally;
    ShopFacts {
        stock: i64::from(shop.stock),
        per_buyer: shop.per_buyer,
        sold_to: tally.told.first().map_or(&[], |told| &told.sold_to),
        answers: tally.answers(),
        unlogged: 0,
        books,
    }
}

/// Lists what nothing could show in this trial.
fn unseen(shop: &Shop, bought: &LoadResult, books: &ShopBook) -> Vec<String> {
    let mut unseen = shop.unseen();
    let sold_to = bought.tally.told.first().map_or(&[][..], |told| &told.sold_to);
    let without_number = sold_to.iter().filter(|receipt| receipt.order.is_none()).count();
    if shop.tells_orders() && without_number > 0 {
        unseen.push("orders by their numbers: not every answer that sold has a number".to_owned());
    }
    if books.orders_in_database.is_some() && !ShopFacts::share_numbers(sold_to, books) {
        unseen.push("orders by their numbers: those of the answers are not those of the database".to_owned());
    }
    unseen
}

/// Tells that a page and the database say different things. The database counts.
fn contradiction(books: &ShopBook) -> Option<String> {
    let (page, database) = books.left_on_page.zip(books.left_in_database)?;
    (page != database)
        .then(|| format!("the stock by the page, which says {page}: the database says {database}, and counts"))
}
