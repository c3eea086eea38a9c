//! What an audit could not check: neither found wrong nor found right.

use std::collections::{BTreeMap, HashMap, HashSet};

use crate::audit::history::Section;
use crate::audit::orders::OrderRow;

/// What was missing for a check.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Gap {
    /// Sales whose initial stock is missing in the ledger.
    Beginning,
    /// Sales whose final stock is missing in the ledger.
    End,
    /// Orders that do not say how many units they left.
    Remaining,
    /// Orders that do not say who has bought, in a sale with a limit per buyer.
    Buyer,
    /// Orders whose transaction is unknown.
    Transaction,
    /// Orders under an older token, where the number of permits is unknown.
    Permits,
    /// Orders whose section the history does not have.
    Section,
    /// Orders of instances that were not asked.
    Instance,
    /// Sections that the instances had dropped.
    Record,
    /// Instances whose history could not be read.
    History,
    /// Instances that are not, or may not be, the ones that were asked earlier.
    Identity,
    /// Instances that have no common clock.
    Clock,
    /// Trials that had not come to rest.
    Rest,
    /// Units that reservations held when everything else was at rest.
    Held,
    /// Hazards that did not strike.
    Strike,
}

impl Gap {
    /// Tells whether it is one of the history of the locks, and not of the books.
    fn is_of_history(self) -> bool {
        matches!(self, Gap::Section | Gap::Instance | Gap::Record | Gap::History | Gap::Identity | Gap::Clock)
    }

    fn describe(self) -> &'static str {
        match self {
            Gap::Beginning => "sales whose initial stock is missing in the ledger",
            Gap::End => "sales whose final stock is missing in the ledger",
            Gap::Remaining => "orders that do not say how many units they left",
            Gap::Buyer => "orders that do not say who has bought, in a sale with a limit per buyer",
            Gap::Transaction => "orders whose transaction is unknown, as after a restore of the database",
            Gap::Permits => "orders under an older token, of a strategy whose permits are unknown without --target",
            Gap::Section => "orders without their section in the history",
            Gap::Instance => "orders of instances that no URL names",
            Gap::Record => "sections that the instances no longer have; raise their --history",
            Gap::History => "instances whose history could not be read",
            Gap::Identity => "instances that were restarted, share a URL, or do not identify themselves",
            Gap::Clock => "instances without a common clock",
            Gap::Rest => "trials that had not come to rest",
            Gap::Held => {
                "units that reservations still held at the end; start the service with --reservation-ttl 2s, or let all buyers pay"
            }
            Gap::Strike => {
                "hazards that did not strike before the load was over or the stock was gone; give a longer --duration, or another --stock"
            }
        }
    }
}

/// How much could not be checked, by the missing fact.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Unchecked(BTreeMap<Gap, u64>);

impl FromIterator<(Gap, u64)> for Unchecked {
    /// Adds up what was missing. A count of zero is no gap.
    fn from_iter<I: IntoIterator<Item = (Gap, u64)>>(gaps: I) -> Self {
        let mut sums = BTreeMap::new();
        for (gap, count) in gaps.into_iter().filter(|(_, count)| *count > 0) {
            *sums.entry(gap).or_insert(0) += count;
        }
        Unchecked(sums)
    }
}

impl Unchecked {
    /// Adds up what several audits could not check.
    pub fn sum<'a>(all: impl IntoIterator<Item = &'a Unchecked>) -> Unchecked {
        all.into_iter().flat_map(|one| one.0.iter().map(|(gap, count)| (*gap, *count))).collect()
    }

    /// Returns the gaps but for those of the history of the locks.
    pub fn of_books(&self) -> Unchecked {
        let is_of_books = |(gap, _): &(&Gap, &u64)| !gap.is_of_history();
        Unchecked(self.0.iter().filter(is_of_books).map(|(gap, count)| (*gap, *count)).collect())
    }

    /// Tells whether everything was checked.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Describes what was missing, a line each.
    pub fn words(&self) -> Vec<String> {
        self.0.iter().map(|(gap, count)| format!("{}: {count}", gap.describe())).collect()
    }
}

/// Counts the orders that need a section in the history and have none. Every order of a strategy with permits needs the
/// section of its hold, with its token. Orders of one batch need theirs because it says when their buyers arrived, unless
/// their tickets do.
pub fn without_section(orders: &[&OrderRow], sections: &[Section], permits: Option<u32>) -> u64 {
    let mut batches: HashMap<i64, u64> = HashMap::new();
    orders.iter().filter_map(|order| order.transaction).for_each(|batch| *batches.entry(batch).or_default() += 1);
    let is_of_batch =
        |order: &&&OrderRow| order.arrival.is_none() && order.transaction.is_some_and(|batch| batches[&batch] > 1);
    let told: HashSet<_> = sections.iter().filter_map(|section| Some((section.order_id?, section.token))).collect();
    let needs = orders.iter().filter(|order| permits.is_some() || is_of_batch(order));
    needs.filter(|order| !told.contains(&(order.order_id, order.token))).count() as u64
}

// C2
#[cfg(test)]
mod tests {
    use super::*;
    use crate::audit::orders::tests::orders;

    fn sections<const N: usize>(of: [(i64, i64); N]) -> Vec<Section> {
        let section = |(order_id, token)| Section {
            goods_no: 1,
            token: Some((token, 0)),
            asked_ns: Some(0),
            entered_ns: 1,
            left_ns: 2,
            order_id: Some(order_id),
        };
        of.map(section).to_vec()
    }

    #[test]
    fn every_order_under_a_lock_needs_its_section() {
        let orders = orders([(1, 7, 4), (2, 8, 3), (3, 9, 2)]);
        let orders: Vec<&OrderRow> = orders.iter().collect();
        let without = |sections: &[Section]| without_section(&orders, sections, Some(1));
        assert_eq!(without(&[]), 3, "an empty history is no clean one");
        assert_eq!(without(&sections([(1, 7), (3, 9)])), 1, "half a history is none either");
        assert_eq!(without(&sections([(1, 7), (2, 8), (3, 9)])), 0);
        assert_eq!(without(&sections([(1, 7), (2, 8), (3, 10)])), 1, "the token of the order was lowered");
        assert_eq!(without_section(&orders, &[], None), 0, "sections may overlap, so none is needed");
    }

    #[test]
    fn the_orders_of_a_batch_need_to_say_when_their_buyers_arrived() {
        let orders = orders([(1, 7, 4), (2, 7, 3), (3, 9, 2)]);
        let orders: Vec<&OrderRow> = orders.iter().collect();
        assert_eq!(without_section(&orders, &[], None), 2);
        assert_eq!(without_section(&orders, &sections([(1, 7), (2, 7)]), None), 0);
        let tickets: Vec<OrderRow> =
            orders.iter().map(|order| OrderRow { arrival: Some(5), ..(*order).clone() }).collect();
        assert_eq!(without_section(&tickets.iter().collect::<Vec<_>>(), &[], None), 0, "their tickets say it");
    }

    #[test]
    fn gaps_are_added_up_by_kind() {
        let one: Unchecked = [(Gap::Remaining, 1), (Gap::Section, 0)].into_iter().collect();
        let other: Unchecked = [(Gap::Remaining, 2), (Gap::Clock, 1)].into_iter().collect();
        let sum = Unchecked::sum([&one, &other, &Unchecked::default()]);
        let expected = ["orders that do not say how many units they left: 3", "instances without a common clock: 1"];
        assert_eq!(sum.words(), expected);
        assert!(!sum.is_empty() && Unchecked::default().is_empty());
        assert_eq!(sum.of_books().words(), expected[..1], "the clock is one of the history");
    }
}
