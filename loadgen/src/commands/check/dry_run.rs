//! A dry run: the stock is put on sale, one buyer buys, and everything is shown.

use std::process::ExitCode;
use std::sync::Arc;

use buyers::script::{Customer, Decision, Doubt, Exchange, Meaning, ShopOutcome};
use program::Exit;
use reqwest::Client;
use stats::figures::things;

use super::remedy::remedy;
use super::transcript::Transcript;
use crate::audit::shop::ShopBook;
use crate::error::Error;
use crate::output::Output;
use crate::shop::{self, Shop};

/// Runs through a shop with one buyer.
///
/// # Errors
///
/// [`Error::Shop`] when a request fails before the purchase, or when the answer to the purchase has no meaning.
pub(super) async fn run(shop: &Shop, output: &mut Output) -> Result<ExitCode, Error> {
    if let Some(people) = &shop.people {
        people.ensure(1)?;
    }
    let client = shop::client(shop)?;
    let mut transcript = Transcript::new(output, &shop.secrets);
    let units = things(shop.stock, "unit");
    transcript.line(&format!("{} at {}, {units} on sale", shop.name, shop.urls().join(" and ")));
    put_on_sale(shop, &client, &mut transcript).await?;
    if shop.books.have_stock() {
        let book = read_books(shop, &client, &mut transcript).await?;
        compare(&book, i64::from(shop.stock), "after [sale]", &mut transcript);
    }
    let decision = buy(shop, &client, &mut transcript).await?;
    let conclusion = conclusion(shop, &decision, &mut transcript);
    if shop.books.are_any() {
        let book = read_books(shop, &client, &mut transcript).await?;
        let sold = i64::from(matches!(decision.outcome, ShopOutcome::Sold { .. }));
        compare(&book, i64::from(shop.stock) - sold, "after the purchase", &mut transcript);
        tell_orders(&book, &mut transcript);
    }
    transcript.heading("not checked by one buyer:");
    for gap in gaps(shop, &transcript) {
        transcript.line(&format!("* {gap}"));
    }
    transcript.finish()?;
    conclusion.map(|()| Exit::Passed.into())
}

/// Carries out `[sale]`. What is not a request is printed before it runs.
async fn put_on_sale(shop: &Shop, client: &Client, transcript: &mut Transcript<'_>) -> Result<(), Error> {
    transcript.heading("[sale] puts the stock on sale");
    if let Some(told) = shop.sale.told() {
        transcript.line(&told);
    }
    let mut observe = |exchange: &Exchange| transcript.exchange(exchange);
    shop::carry_out(&shop.sale, "[sale]", shop, client, Some(&mut observe)).await
}

/// Signs the first buyer up, and lets it buy.
async fn buy(shop: &Shop, client: &Client, transcript: &mut Transcript<'_>) -> Result<Decision, Error> {
    let secrets = Arc::new(shop.secrets.names().clone());
    let mut customer = Customer::new(0, shop.values_of(0)).with_secrets(secrets);
    let mut client = client.clone();
    if !shop.script.sign_up.requests.is_empty() {
        transcript.heading("[buyers] signs buyer 0 up");
        let mut observe = |exchange: &Exchange| transcript.exchange(exchange);
        let signed_up = customer.sign_up(&shop.script, &mut client, Some(&mut observe)).await;
        signed_up
            .map_err(|error| Error::Shop(shop.secrets.hide(&format!("buyer 0 could not sign up: {}", error.cause))))?;
    }
    transcript.heading("[buy] lets buyer 0 buy");
    let mut observe = |exchange: &Exchange| transcript.exchange(exchange);
    Ok(customer.purchase(&shop.script, &mut client, Some(&mut observe)).await)
}

/// Says what the buyer was told. Returns an error if that is unknown.
fn conclusion(shop: &Shop, decision: &Decision, transcript: &mut Transcript<'_>) -> Result<(), Error> {
    let told = match (&decision.outcome, &shop.script.order) {
        (ShopOutcome::Sold { order: Some(order) }, _) => format!("sold, as order {order}"),
        (ShopOutcome::Sold { order: None }, None) => "sold".to_owned(),
        (ShopOutcome::Sold { order: None }, Some(source)) => {
            format!("sold, but no answer has the number of the order at {source}; correct order in [buy]")
        }
        (ShopOutcome::SoldOut, _) => {
            "sold out, although the stock was just put on sale; does [sale] restore it, and does the \
                                      answer mean this?"
                .to_owned()
        }
        (ShopOutcome::OverLimit, _) => {
            "over the limit per buyer, although the buyer has nothing; does [sale] delete the orders of earlier sales, and does \
             the answer mean this?"
                .to_owned()
        }
        (ShopOutcome::Refused, _) => "refused, although nobody else buys; does the answer mean this?".to_owned(),
        (ShopOutcome::Unknown(doubt), _) => return Err(unknown(shop, doubt, transcript)),
    };
    transcript.heading(&format!("buyer 0 was told: {told}"));
    Ok(())
}

fn unknown(shop: &Shop, doubt: &Doubt, transcript: &mut Transcript<'_>) -> Error {
    let meanings = &shop.script.meanings;
    let last = transcript.last();
    let remedy = last.and_then(|(origin, answer)| remedy(doubt, origin, answer, meanings)).unwrap_or_default();
    transcript.heading("it is unknown what buyer 0 was told");
    Error::Shop(shop.secrets.hide(&format!("the purchase has no known outcome: {doubt}{remedy}")))
}

/// Reads the books, and shows each request for a page.
async fn read_books(shop: &Shop, client: &Client, transcript: &mut Transcript<'_>) -> Result<ShopBook, Error> {
    transcript.heading("[books] are read");
    let mut observe = |exchange: &Exchange| transcript.exchange(exchange);
    shop::book(shop, client, Some(&mut observe)).await
}

/// Says what is left, and whether it is what should be left.
fn compare(book: &ShopBook, expected: i64, when: &str, transcript: &mut Transcript<'_>) {
    for (source, left) in [("the page", book.left_on_page), ("the database", book.left_in_database)] {
        let Some(left) = left else { continue };
        let doubt = if left == expected { String::new() } else { format!(", and {expected} should be") };
        transcript.line(&format!("{source} says: {} left {when}{doubt}", things(left, "unit")));
    }
}

fn tell_orders(book: &ShopBook, transcript: &mut Transcript<'_>) {
    if let Some(orders) = book.orders_on_page {
        transcript.line(&format!("the page says: {}", things(orders, "order")));
    }
    if let Some(orders) = &book.orders_in_database {
        let units: i64 = orders.iter().map(|order| order.units).sum();
        let count = things(orders.len(), "order");
        transcript.line(&format!("the database says: {count} of {}", things(units, "unit")));
    }
}

/// Lists what a dry run did not see.
fn gaps(shop: &Shop, transcript: &Transcript<'_>) -> Vec<String> {
    let may_queue = !shop.script.meanings.queued.is_empty();
    let has_limit = !shop.script.meanings.over_limit.is_empty();
    let meanings = [
        ("sold", Meaning::Sold, true),
        ("sold-out", Meaning::SoldOut, true),
        ("over-limit", Meaning::OverLimit, has_limit),
        ("refused", Meaning::Refused, true),
        ("queued", Meaning::Queued, may_queue),
    ];
    let unseen = meanings.iter().filter(|(_, meaning, may_be)| *may_be && !transcript.has_seen(*meaning));
    let unseen: Vec<_> = unseen.map(|(name, _, _)| *name).collect();
    let mut gaps = vec![format!("whether the shop has answers that match {}", unseen.join(", "))];
    gaps.extend(shop.unseen());
    if shop.clean.is_some() {
        gaps.push("[clean], which a dry run does not carry out".to_owned());
    }
    gaps
}
