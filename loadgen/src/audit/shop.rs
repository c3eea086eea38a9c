//! What a shop that a file describes really sold: by its answers, its pages and its database. The answers are always there.
//! The books are there as far as the file says how they are read, and the best of them counts.

use std::collections::{BTreeMap, BTreeSet};

use buyers::sample::{ByOutcome, ShopReceipt};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::audit::trial::Audit;

/// What a finding stands on, the weakest first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Evidence {
    /// The statuses in the log of another engine, which has no answers.
    Statuses,
    /// The answers to the buyers alone.
    Answers,
    /// The answers, and pages of the shop with its stock or its orders.
    Pages,
    /// The answers, and the shop's database.
    Database,
}

impl Evidence {
    /// Describes the evidence in a few words.
    pub fn describe(self) -> &'static str {
        match self {
            Evidence::Statuses => "by statuses alone, answers not seen",
            Evidence::Answers => "by answers alone",
            Evidence::Pages => "by the shop's own pages",
            Evidence::Database => "by the database",
        }
    }
}

/// An order, as the database of a shop has it.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct ShopOrder {
    /// Its number.
    pub number: Option<String>,
    /// Its buyer.
    pub buyer: Option<String>,
    /// Its units.
    pub units: i64,
}

/// The books of a shop at one moment, as far as they can be read.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ShopBook {
    /// Units left, by a page.
    pub left_on_page: Option<i64>,
    /// Number of orders, by a page.
    pub orders_on_page: Option<i64>,
    /// Units left, by the database.
    pub left_in_database: Option<i64>,
    /// The orders, by the database.
    pub orders_in_database: Option<Vec<ShopOrder>>,
}

/// Which books of a shop were read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct BooksRead {
    /// The units left.
    pub stock: bool,
    /// The orders, or their number.
    pub orders: bool,
}

impl ShopBook {
    /// Tells what of the books was read.
    pub fn read(&self) -> BooksRead {
        BooksRead { stock: self.left().is_some(), orders: self.order_count().is_some() }
    }

    /// Returns the best evidence that these books are.
    pub fn evidence(&self) -> Evidence {
        if self.left_in_database.is_some() || self.orders_in_database.is_some() {
            Evidence::Database
        } else if self.left_on_page.is_some() || self.orders_on_page.is_some() {
            Evidence::Pages
        } else {
            Evidence::Answers
        }
    }

    /// Returns the units left, by the best book that has them.
    pub fn left(&self) -> Option<i64> {
        self.left_in_database.or(self.left_on_page)
    }

    /// Returns the number of orders, by the best book that has them.
    pub fn order_count(&self) -> Option<i64> {
        let in_database =
            self.orders_in_database.as_ref().map(|orders| i64::try_from(orders.len()).unwrap_or(i64::MAX));
        in_database.or(self.orders_on_page)
    }

    /// Removes what was there before the sale, such as orders that its reset has left.
    #[must_use]
    pub fn without(mut self, before: &ShopBook) -> ShopBook {
        self.orders_on_page = self.orders_on_page.zip(before.orders_on_page).map(|(now, was)| now - was);
        if let (Some(orders), Some(old)) = (&mut self.orders_in_database, &before.orders_in_database) {
            let mut old: BTreeMap<&ShopOrder, usize> = old.iter().fold(BTreeMap::new(), |mut counts, order| {
                *counts.entry(order).or_default() += 1;
                counts
            });
            orders.retain(|order| match old.get_mut(order) {
                Some(count) if *count > 0 => {
                    *count -= 1;
                    false
                }
                _ => true,
            });
        }
        self
    }
}

/// All that the audit of one sale of a shop looks at.
#[derive(Debug, Clone)]
pub struct ShopFacts<'a> {
    /// Units that were put on sale.
    pub stock: i64,
    /// The most units that one buyer may have.
    pub per_buyer: Option<u32>,
    /// Answers that sold a unit.
    pub sold_to: &'a [ShopReceipt],
    /// The numbers of the buyers that were told that they have as many units as one buyer may have.
    pub over_limit: &'a [usize],
    /// Purchases by outcome.
    pub answers: ByOutcome<u64>,
    /// Buyers that may exist beside those of the answers: there may be a log that nobody named.
    pub unlogged: u64,
    /// The books after the sale, without what was there before.
    pub books: &'a ShopBook,
}

impl ShopFacts<'_> {
    /// Tells whether the numbers of the orders that buyers were told can be those of the database. Not if there are numbers on
    /// both sides, and not one is the same.
    pub fn share_numbers(sold_to: &[ShopReceipt], books: &ShopBook) -> bool {
        let told: BTreeSet<&str> = sold_to.iter().filter_map(|receipt| receipt.order.as_deref()).collect();
        let orders = books.orders_in_database.as_deref().unwrap_or_default();
        let mut booked = orders.iter().filter_map(|order| order.number.as_deref()).peekable();
        told.is_empty() || booked.peek().is_none() || booked.any(|number| told.contains(number))
    }
}

/// What was told, each unit once.
struct TellingSales {
    /// Units that buyers were told they have.
    units: i64,
    /// The numbers of the orders, as far as answers have them.
    numbers: BTreeSet<String>,
    /// Buyers told an order that another buyer was told, too.
    repeated: u64,
    /// Buyers that were told more units than one buyer may have.
    over_limit: u64,
    /// Buyers that were told that they have as many units as one buyer may have, and were told fewer.
    denied: u64,
}

impl TellingSales {
    fn of(facts: &ShopFacts<'_>) -> TellingSales {
        // A buyer that asks twice may be told the same order twice.
        let mut buyers_of: BTreeMap<&str, BTreeSet<usize>> = BTreeMap::new();
        let mut units_of: BTreeMap<usize, u64> = BTreeMap::new();
        let mut units = 0;
        for ShopReceipt { buyer, order } in facts.sold_to {
            let is_new = order.as_deref().is_none_or(|order| buyers_of.entry(order).or_default().insert(*buyer));
            if is_new {
                units += 1;
                *units_of.entry(*buyer).or_default() += 1;
            }
        }
        let limit = facts.per_buyer.map_or(u64::MAX, u64::from);
        TellingSales {
            units,
            numbers: buyers_of.keys().map(|number| (*number).to_owned()).collect(),
            repeated: buyers_of.values().map(|buyers| buyers.len() as u64 - 1).sum(),
            over_limit: units_of.values().filter(|units| **units > limit).count() as u64,
            denied: facts
                .over_limit
                .iter()
                .collect::<BTreeSet<_>>()
                .into_iter()
                // Without a known limit, it is at least one.
                .filter(|buyer| units_of.get(buyer).copied().unwrap_or(0) < facts.per_buyer.map_or(1, u64::from))
                .count() as u64,
        }
    }
}

/// What is wrong between the orders of the books and the answers.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct Mismatch {
    /// Buyers told of no order.
    unfounded: u64,
    /// Orders that no buyer was told of.
    untold: u64,
}

impl Audit {
    /// Audits one sale of a shop that a file describes. Every purchase asks for one unit.
    pub fn of_shop(facts: &ShopFacts<'_>) -> Audit {
        let ShopFacts { stock, answers, books, .. } = *facts;
        let told = TellingSales::of(facts);
        let orders = books.orders_in_database.as_deref();
        let booked = orders.map(|orders| orders.iter().map(|order| order.units).fold(0_i64, i64::saturating_add));
        let booked = booked.or(books.orders_on_page);
        let sold = booked.unwrap_or(told.units);
        let may_have_bought = answers.failed().saturating_add(facts.unlogged);
        let unanswered = i64::try_from(may_have_bought).unwrap_or(i64::MAX);
        // Without books, a buyer without an answer may have a unit.
        let unknown = if booked.is_some() { 0 } else { unanswered };
        let left_wrong = books.left().map_or(0, |left| -left);
        let lost = books.left().map_or(0, |left| beyond(stock - left - sold, unknown));
        let mismatch = mismatch(&told, facts);
        let indeterminate = mismatch.untold.min(may_have_bought);
        // A buyer with all that one buyer may have wants nothing more. A buyer that was told so and has less did want a unit.
        let wishes = answers.total() - answers.over_limit + told.denied;
        let decided = told.units.saturating_add(i64::try_from(answers.sold_out + told.denied).unwrap_or(i64::MAX));
        let wanted = stock.min(i64::try_from(wishes).unwrap_or(i64::MAX));
        let enough_decided = facts.unlogged == 0 && (answers.sold_out > 0 || decided >= wanted);
        let unsold = wanted.saturating_sub(sold).saturating_sub(unknown).max(0);
        Audit {
            sold,
            oversold: (sold - stock).max(left_wrong).max(0),
            undersold: if enough_decided { unsold } else { 0 },
            unsold_undecided: if enough_decided { 0 } else { (wanted - sold).max(0) },
            lost_updates: lost,
            indeterminate,
            orders_unexplained: mismatch.untold - indeterminate,
            confirmations_unfounded: mismatch.unfounded,
            confirmations_repeated: told.repeated,
            confirmations_wrong: orders
                .map_or(0, |orders| orders.iter().filter(|order| order.units != 1).count() as u64),
            over_limit: told.over_limit.max(orders.map_or(0, |orders| over_limit(orders, facts.per_buyer))),
            ..Audit::default()
        }
    }
}

/// Returns by how much a difference lies outside 0 to `most`.
fn beyond(difference: i64, most: i64) -> i64 {
    if difference > most { difference - most } else { difference.min(0) }
}

/// Compares the orders of the books with those that were told: by number if both sides have all of them, or else by count.
fn mismatch(told: &TellingSales, facts: &ShopFacts<'_>) -> Mismatch {
    let books = facts.books;
    let numbers = |orders: &[ShopOrder]| -> Option<BTreeSet<String>> {
        orders.iter().map(|order| order.number.clone()).collect()
    };
    let booked = books.orders_in_database.as_deref().and_then(numbers);
    let has_every_number = i64::try_from(told.numbers.len()).is_ok_and(|numbers| numbers == told.units);
    let are_comparable = has_every_number && ShopFacts::share_numbers(facts.sold_to, books);
    if let (Some(booked), true) = (booked, are_comparable) {
        return Mismatch {
            unfounded: told.numbers.difference(&booked).count() as u64,
            untold: booked.difference(&told.numbers).count() as u64,
        };
    }
    let Some(orders) = books.order_count() else { return Mismatch::default() };
    Mismatch {
        unfounded: u64::try_from(told.units - orders).unwrap_or(0),
        untold: u64::try_from(orders - told.units).unwrap_or(0),
    }
}

/// Counts the buyers of the database that have more units than one buyer may have.
fn over_limit(orders: &[ShopOrder], per_buyer: Option<u32>) -> u64 {
    let Some(limit) = per_buyer.map(i64::from) else { return 0 };
    let mut units_of: BTreeMap<&str, i64> = BTreeMap::new();
    for order in orders {
        if let Some(buyer) = &order.buyer {
            *units_of.entry(buyer).or_default() += order.units;
        }
    }
    units_of.values().filter(|units| **units > limit).count() as u64
}

#[cfg(test)]
mod tests;
