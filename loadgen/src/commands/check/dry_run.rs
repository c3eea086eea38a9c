//! A dry run: the stock is put on sale, one buyer buys, and everything is shown.

use std::process::ExitCode;
use std::sync::Arc;

use buyers::script::{Customer, Decision, Doubt, Exchange, ShopOutcome};
use program::Exit;
use reqwest::Client;
use stats::figures::things;

use super::remedy::remedy;
use super::transcript::Transcript;
use crate::error::Error;
use crate::output::Output;
use crate::shop::{self, Shop, ShopBooks, Task};

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
    if has_stock(&shop.books) {
        let left = BooksSeen::read(shop, &client, &mut transcript).await?;
        left.compare(i64::from(shop.stock), "after [sale]", &mut transcript);
    }
    let decision = buy(shop, &client, &mut transcript).await?;
    let conclusion = conclusion(shop, &decision, &mut transcript);
    if has_any(&shop.books) {
        let seen = BooksSeen::read(shop, &client, &mut transcript).await?;
        let sold = i64::from(matches!(decision.outcome, ShopOutcome::Sold { .. }));
        seen.compare(i64::from(shop.stock) - sold, "after the purchase", &mut transcript);
        seen.tell_orders(&mut transcript);
    }
    transcript.heading("not checked by one buyer:");
    for gap in gaps(shop, &decision.outcome) {
        transcript.line(&format!("* {gap}"));
    }
    transcript.finish()?;
    conclusion.map(|()| Exit::Passed.into())
}

/// Carries out `[sale]`. What is not a request is printed before it runs.
async fn put_on_sale(shop: &Shop, client: &Client, transcript: &mut Transcript<'_>) -> Result<(), Error> {
    transcript.heading("[sale] puts the stock on sale");
    match &shop.sale {
        Task::Requests(_) => {}
        Task::Command(command) => transcript.line(&format!("runs: {}", command.text)),
        Task::Sql(sql) => {
            transcript.line(&format!("runs at {}: {}", sql.url.address(), sql.statements.join("; ")));
        }
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
        (ShopOutcome::Refused, _) => "refused, although nobody else buys; does the answer mean this?".to_owned(),
        (ShopOutcome::Unknown(doubt), _) => return Err(unknown(shop, doubt, transcript)),
    };
    transcript.heading(&format!("buyer 0 was told: {told}"));
    Ok(())
}

fn unknown(shop: &Shop, doubt: &Doubt, transcript: &mut Transcript<'_>) -> Error {
    let remedy = transcript.last().and_then(|(origin, answer)| remedy(doubt, origin, answer)).unwrap_or_default();
    transcript.heading("it is unknown what buyer 0 was told");
    Error::Shop(shop.secrets.hide(&format!("the purchase has no known outcome: {doubt}{remedy}")))
}

fn has_stock(books: &ShopBooks) -> bool {
    books.stock.is_some() || books.queries.as_ref().is_some_and(|queries| queries.stock.is_some())
}

fn has_any(books: &ShopBooks) -> bool {
    has_stock(books) || books.orders.is_some() || books.queries.is_some()
}

/// What the books of a shop say.
#[derive(Debug, Default)]
struct BooksSeen {
    /// Units left, each with the source that says so.
    left: Vec<(&'static str, i64)>,
    /// Orders and their units, each with the source that says so.
    orders: Vec<String>,
}

impl BooksSeen {
    async fn read(shop: &Shop, client: &Client, transcript: &mut Transcript<'_>) -> Result<BooksSeen, Error> {
        let ShopBooks { stock, orders, queries } = &shop.books;
        transcript.heading("[books] are read");
        let mut observe = |exchange: &Exchange| transcript.exchange(exchange);
        let mut seen = BooksSeen::default();
        if let Some(page) = stock {
            seen.left.push(("the page", shop::number_on(page, shop, client, Some(&mut observe)).await?));
        }
        if let Some(page) = orders {
            let count = shop::number_on(page, shop, client, Some(&mut observe)).await?;
            seen.orders.push(format!("the page says: {}", things(count, "order")));
        }
        let Some(queries) = queries else { return Ok(seen) };
        seen.left.extend(shop::stock_in(queries).await?.map(|left| ("the database", left)));
        if let Some(query) = &queries.orders {
            let booked = queries.url.orders(query).await?;
            let units: i64 = booked.iter().map(|order| order.quantity).sum();
            let orders = things(booked.len(), "order");
            seen.orders.push(format!("the database says: {orders} of {}", things(units, "unit")));
        }
        Ok(seen)
    }

    /// Says what is left, and whether it is what should be left.
    fn compare(&self, expected: i64, when: &str, transcript: &mut Transcript<'_>) {
        for (source, left) in &self.left {
            let doubt = if *left == expected { String::new() } else { format!(", and {expected} should be") };
            transcript.line(&format!("{source} says: {} left {when}{doubt}", things(*left, "unit")));
        }
    }

    fn tell_orders(&self, transcript: &mut Transcript<'_>) {
        self.orders.iter().for_each(|orders| transcript.line(orders));
    }
}

/// Lists what a dry run did not see.
fn gaps(shop: &Shop, outcome: &ShopOutcome) -> Vec<String> {
    let meanings = &shop.script.meanings;
    let unseen = [
        ("sold", !matches!(outcome, ShopOutcome::Sold { .. })),
        ("sold-out", *outcome != ShopOutcome::SoldOut),
        ("refused", *outcome != ShopOutcome::Refused),
        ("queued", !meanings.queued.is_empty()),
    ];
    let unseen: Vec<_> = unseen.into_iter().filter(|(_, is_unseen)| *is_unseen).map(|(name, _)| name).collect();
    let mut gaps = vec![format!("whether the shop has answers that match {}", unseen.join(", "))];
    let mut note = |is_missing: bool, gap: &str| {
        if is_missing {
            gaps.push(gap.to_owned());
        }
    };
    let queries = shop.books.queries.as_ref();
    note(!has_stock(&shop.books), "the units that are left: [books] has no stock");
    let has_orders = shop.books.orders.is_some() || queries.is_some_and(|queries| queries.orders.is_some());
    note(!has_orders, "the orders that were written: [books] has no orders");
    note(shop.script.order.is_none(), "whether an order number is told twice: [buy] has no order");
    note(shop.per_buyer.is_none(), "the limit per buyer: [shop] has no per-buyer");
    note(shop.clean.is_some(), "[clean], which a dry run does not carry out");
    gaps
}
