//! What a shop sold, by the answers to a load and by the books after it.

use buyers::load::LoadResult;
use buyers::model::LoadModel;
use buyers::script::Source;
use reqwest::Client;
use stats::figures::things;
use tracing::{Instrument as _, debug_span};

use super::before::BooksBefore;
use super::rest::{Rest, rest};
use crate::audit::shop::{Evidence, ShopBook, ShopFacts};
use crate::audit::trial::Audit;
use crate::error::Error;
use crate::shop::Shop;
use crate::trial::run::{Conditions, FinishedTrial, Seen, record};
use crate::trial::schedule::ScheduledTrial;

/// Waits until the books are at rest, and audits what buyers were told. Beside the buyers of the load, up to `unlogged` others may have
/// bought. `answers_seen` says whether the answers were there to be read. Returns the finished trial.
pub(in crate::trial) async fn judged(
    shop: &Shop,
    client: &Client,
    (conditions, scheduled): (&Conditions, ScheduledTrial<'_>),
    bought: LoadResult,
    (before, unlogged, answers_seen): (&BooksBefore<'_>, u64, bool),
) -> Result<FinishedTrial, Error> {
    let of = |books: &ShopBook| Audit::of_shop(&ShopFacts { unlogged, ..facts(shop, &bought, books) });
    let found = rest(shop, client, before, |books| of(books).is_clean()).instrument(debug_span!("rest")).await?;
    let Rest { books, settled } = found;
    let mut unseen = unseen(shop, &bought, &books, answers_seen);
    unseen.extend(before.unseen(shop));
    unseen.extend(limit_untouched(shop, &bought, (&conditions.model, scheduled.subject.users)));
    // Books show a race of purchases even if units are left at the end. Answers show only units that are too many.
    let proves_nothing = books.evidence() == Evidence::Answers;
    let too_few = too_few(shop, &bought);
    unseen.extend(all_alike(&bought).filter(|_| proves_nothing));
    unseen.extend(too_few.clone().filter(|_| !proves_nothing));
    let seen = Seen {
        audit: of(&books),
        evidence: Some(books.evidence()),
        books_read: Some(books.read()),
        unseen,
        settled,
        left_out: contradiction(&books).into_iter().collect(),
        ..Seen::default()
    };
    let mut finished = record(conditions, scheduled, bought, seen);
    finished.trial.unchecked.extend(too_few.filter(|_| proves_nothing));
    Ok(finished)
}

fn facts<'a>(shop: &Shop, bought: &'a LoadResult, books: &'a ShopBook) -> ShopFacts<'a> {
    let tally = &bought.tally;
    ShopFacts {
        stock: i64::from(shop.stock),
        per_buyer: shop.per_buyer,
        sold_to: tally.told.first().map_or(&[], |told| &told.sold_to),
        over_limit: tally.told.first().map_or(&[], |told| &told.over_limit),
        answers: tally.answers(),
        unlogged: 0,
        books,
    }
}

/// Lists what nothing could show in this trial.
fn unseen(shop: &Shop, bought: &LoadResult, books: &ShopBook, answers_seen: bool) -> Vec<String> {
    let mut unseen = shop.unseen();
    let sold_to = bought.tally.told.first().map_or(&[][..], |told| &told.sold_to);
    if shop.tells_orders() {
        let with_number = sold_to.iter().filter(|receipt| receipt.order.is_some()).count();
        let lacks = lacks_orders(shop.script.order.as_ref(), (with_number, sold_to.len()), answers_seen);
        unseen.extend(lacks.map(|why| format!("orders by their numbers: {why}")));
    }
    if books.orders_in_database.is_some() && !ShopFacts::share_numbers(sold_to, books) {
        unseen.push("orders by their numbers: those of the answers are not those of the database".to_owned());
    }
    unseen
}

/// Tells that no purchase can have gone beyond the limit per buyer: no buyer asked for more units. Users that buy again and again are
/// the same buyers.
fn limit_untouched(shop: &Shop, bought: &LoadResult, (model, users): (&LoadModel, u32)) -> Option<String> {
    let limit = shop.per_buyer?;
    let each_buys_once = matches!(model, LoadModel::Open { .. });
    let most_in_limit = u64::from(users) * u64::from(limit);
    (each_buys_once || bought.tally.answers().total() <= most_in_limit)
        .then(|| format!("the limit per buyer: no buyer asked for more than {}", things(limit, "unit")))
}

/// Tells that every answer was read as sold, as by a pattern that matches them all.
fn all_alike(bought: &LoadResult) -> Option<String> {
    let answers = bought.tally.answers();
    (answers.total() > 1 && answers.sold == answers.total()).then(|| {
        format!(
            "whether other answers mean something else: all {} were read as sold; if the shop has other pages of the same status, let \
             [buy] sold tell them apart",
            answers.total()
        )
    })
}

/// Tells that the purchases could not sell more units than there are.
fn too_few(shop: &Shop, bought: &LoadResult) -> Option<String> {
    let purchases = bought.tally.answers().total();
    (purchases <= u64::from(shop.stock)).then(|| {
        format!(
            "overselling: {} cannot sell more than {}; let more buyers come",
            things(purchases, "purchase"),
            things(shop.stock, "unit")
        )
    })
}

/// Says why orders cannot be compared by their numbers, which `with_number` of the answers that sold have. A scenario has no source.
fn lacks_orders(source: Option<&Source>, (with_number, sold): (usize, usize), answers_seen: bool) -> Option<String> {
    if with_number == sold {
        return None;
    }
    Some(match source {
        _ if !answers_seen => "the log has no answers, which would have them".to_owned(),
        None => "not every answer that sold has a number".to_owned(),
        Some(source) if with_number == 0 => {
            let what = if matches!(source, Source::Json(_)) { "path" } else { "name" };
            format!("no answer that sold has the order of order = \"{source}\": correct the {what}, or remove order")
        }
        Some(source) => format!("not every answer that sold has the order of order = \"{source}\""),
    })
}

/// Tells that a page and the database say different things. The database counts.
fn contradiction(books: &ShopBook) -> Option<String> {
    let (page, database) = books.left_on_page.zip(books.left_in_database)?;
    (page != database)
        .then(|| format!("the stock by the page, which says {page}: the database says {database}, and counts"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lacks(source: &str, with_number: usize) -> Option<String> {
        lacks_orders(Some(&Source::parse(source).unwrap()), (with_number, 10), true)
    }

    #[test]
    fn a_source_without_orders_is_asked_to_be_corrected() {
        for (source, what) in [("$.data.id", "path"), ("header:x-order", "name"), ("cookie:order", "name")] {
            let expected = format!(
                "no answer that sold has the order of order = \"{source}\": correct the {what}, or remove order"
            );
            assert_eq!(lacks(source, 0), Some(expected));
        }
    }

    #[test]
    fn a_source_without_some_orders_is_named() {
        let expected = "not every answer that sold has the order of order = \"$.id\"";
        assert_eq!(lacks("$.id", 9).as_deref(), Some(expected));
        assert_eq!(lacks("$.id", 10), None);
        assert_eq!(lacks_orders(None, (0, 0), true), None, "nothing was sold");
    }

    #[test]
    fn a_log_without_answers_asks_for_no_correction() {
        let source = Source::parse("$.id").unwrap();
        let told = lacks_orders(Some(&source), (0, 10), false);
        assert_eq!(told.as_deref(), Some("the log has no answers, which would have them"));
    }
}
