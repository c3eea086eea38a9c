//! The orders of a sale, and the sequence in which they sold its units.
//!
//! Writes of one stock come one after the other. So each order begins with the units that the order before it left. A
//! transaction that writes several orders, a batch, writes them one after the other, and numbers them in that order.

use std::cmp::Reverse;
use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::audit::history::Token;

/// An order of a sale.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct OrderRow {
    /// Its number.
    pub order_id: i64,
    /// The SKU.
    pub goods_no: i64,
    /// The transaction that wrote it. Unknown after a restore, which writes many orders in one transaction.
    pub transaction: Option<i64>,
    /// Its units.
    pub quantity: i64,
    /// The strategy that wrote it. Its orders share the name, as there are millions of them.
    pub strategy: Arc<str>,
    /// The instance that wrote it.
    pub instance: Arc<str>,
    /// The buyer, where that was recorded.
    pub buyer: Option<Arc<str>>,
    /// Units left after the deduction, where that was recorded.
    pub remaining: Option<i64>,
    /// The fencing token, where there was one.
    pub token: Option<Token>,
    /// The number of its ticket, or when its buyer arrived at the instance that sold it in a batch, if a history tells. Arrivals of
    /// one transaction can be compared: times are of one clock.
    pub arrival: Option<u64>,
}

impl OrderRow {
    /// Fills in the arrival that a history tells, unless the order has a ticket.
    pub fn arrives_as(&mut self, arrivals: &HashMap<i64, u64>) {
        self.arrival = self.arrival.or_else(|| arrivals.get(&self.order_id).copied());
    }
}

/// Finds the first order that no buyer of this trial asked for. Each buyer asks for one unit, sold by this strategy.
pub fn foreign_order<'a>(orders: &'a [OrderRow], strategy: &str) -> Option<&'a OrderRow> {
    orders.iter().find(|order| order.quantity != 1 || *order.strategy != *strategy)
}

/// The findings in the sequence of a sale.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Sequence {
    /// Orders that left the same number of units as an earlier order: the same unit was sold twice.
    pub(crate) double_sales: u64,
    /// Orders that do not continue the sequence. Unknown if an order does not say how many units it left.
    pub(crate) out_of_sequence: Option<u64>,
    /// Orders with a lower fencing token than an earlier order. Unknown without tokens.
    pub(crate) tokens_out_of_order: Option<u64>,
    /// Orders that their transaction sold after the order of a buyer that arrived later. Unknown without two known arrivals in
    /// one transaction.
    pub(crate) overtaken_in_batch: Option<u64>,
}

impl Sequence {
    /// Judges the orders of a sale that began with `stock_initial` units, if that is known.
    pub(crate) fn of(stock_initial: Option<i64>, orders: &[OrderRow]) -> Sequence {
        let mut sold: Vec<&OrderRow> = orders.iter().collect();
        // Units fall as they are sold, so this is the order of the sales. The numbers of the orders may differ from it.
        sold.sort_unstable_by_key(|order| (order.remaining.map(Reverse), order.order_id));
        Sequence {
            double_sales: double_sales(&sold),
            out_of_sequence: out_of_sequence(stock_initial, &sold),
            tokens_out_of_order: tokens_out_of_order(&sold),
            overtaken_in_batch: overtaken_in_batch(&sold),
        }
    }
}

fn double_sales(sold: &[&OrderRow]) -> u64 {
    let is_double = |pair: &&[&OrderRow]| pair[0].remaining.is_some() && pair[0].remaining == pair[1].remaining;
    sold.windows(2).filter(is_double).count() as u64
}

/// Counts the orders that do not continue the sequence. A unit that was sold twice is no gap.
fn out_of_sequence(stock_initial: Option<i64>, sold: &[&OrderRow]) -> Option<u64> {
    let mut found = 0;
    let mut transactions = BTreeSet::new();
    let mut left = stock_initial;
    let mut before = None::<&OrderRow>;
    for &order in sold {
        let remaining = order.remaining?;
        if before.is_some_and(|before| before.remaining == order.remaining) {
            continue;
        }
        let begins_with = i128::from(remaining) + i128::from(order.quantity);
        let continues = left.is_none_or(|left| i128::from(left) == begins_with);
        // A transaction writes all of its orders at once, so one that comes back is out of turn.
        let is_in_turn = match (order.transaction, before) {
            (None, _) => true,
            (now, Some(before)) if before.transaction == now => before.order_id < order.order_id,
            (Some(transaction), _) => transactions.insert(transaction),
        };
        found += u64::from(!(continues && is_in_turn));
        left = Some(remaining);
        before = Some(order);
    }
    Some(found)
}

fn tokens_out_of_order(sold: &[&OrderRow]) -> Option<u64> {
    let mut highest = None;
    let mut found = 0;
    for token in sold.iter().filter_map(|order| order.token) {
        found += u64::from(highest.is_some_and(|highest| token < highest));
        highest = highest.max(Some(token));
    }
    highest.map(|_| found)
}

fn overtaken_in_batch(sold: &[&OrderRow]) -> Option<u64> {
    let mut latest_arrivals = HashMap::new();
    let mut found = None;
    for (transaction, arrival) in sold.iter().filter_map(|order| Some((order.transaction?, order.arrival?))) {
        if let Some(latest) = latest_arrivals.get_mut(&transaction) {
            *found.get_or_insert(0) += u64::from(arrival < *latest);
            *latest = arrival.max(*latest);
        } else {
            latest_arrivals.insert(transaction, arrival);
        }
    }
    found
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// Returns orders by number, transaction and units left. Each is for one unit, under a token with the number of its transaction.
    pub(crate) fn orders<const N: usize>(rows: [(i64, i64, i64); N]) -> Vec<OrderRow> {
        let order = |(order_id, transaction, left)| OrderRow {
            order_id,
            goods_no: 1,
            transaction: Some(transaction),
            quantity: 1,
            strategy: "zk-merge".into(),
            instance: "lab-1".into(),
            buyer: None,
            remaining: Some(left),
            token: Some((transaction, 0)),
            arrival: None,
        };
        rows.into_iter().map(order).collect()
    }

    fn out_of_sequence<const N: usize>(rows: [(i64, i64, i64); N]) -> u64 {
        Sequence::of(Some(5), &orders(rows)).out_of_sequence.unwrap()
    }

    #[test]
    fn an_order_of_another_strategy_or_quantity_is_foreign() {
        let mut asked = orders([(1, 7, 4), (2, 7, 3)]);
        assert_eq!(foreign_order(&asked, "zk-merge"), None);
        assert_eq!(foreign_order(&asked, "pg-merge"), Some(&asked[0]));
        asked[1].quantity = 2;
        assert_eq!(foreign_order(&asked, "zk-merge"), Some(&asked[1]));
    }

    // C8
    #[test]
    fn batches_are_in_sequence_in_whatever_order_they_are_read() {
        let batches = orders([(4, 8, 1), (1, 7, 4), (3, 7, 2), (2, 7, 3)]);
        let found = Sequence::of(Some(5), &batches);
        assert_eq!((found.double_sales, found.out_of_sequence, found.tokens_out_of_order), (0, Some(0), Some(0)));
        assert_eq!(Sequence::of(None, &batches[..1]).out_of_sequence, Some(0), "the initial stock is unknown");
    }

    // C8
    #[test]
    fn a_batch_that_drops_an_order_leaves_a_gap() {
        assert_eq!(out_of_sequence([(1, 7, 4), (3, 7, 2)]), 1, "in its middle");
        assert_eq!(out_of_sequence([(1, 7, 4), (2, 7, 3), (4, 8, 1)]), 1, "its last one");
        assert_eq!(out_of_sequence([(2, 7, 3)]), 1, "the first one of the sale");
    }

    // C8
    #[test]
    fn a_quantity_is_taken_from_what_the_order_before_left() {
        let mut of_two = orders([(1, 7, 3), (2, 8, 2)]);
        of_two[0].quantity = 2;
        assert_eq!(Sequence::of(Some(5), &of_two).out_of_sequence, Some(0));
        of_two[1].quantity = i64::MAX;
        assert_eq!(Sequence::of(Some(5), &of_two).out_of_sequence, Some(1));
    }

    // C8
    #[test]
    fn the_numbers_of_a_batch_grow_as_the_units_fall() {
        assert_eq!(out_of_sequence([(1, 7, 4), (3, 7, 3), (2, 7, 2)]), 1);
        assert_eq!(out_of_sequence([(2, 7, 4), (1, 8, 3)]), 0, "transactions may number their orders in any order");
    }

    // C8
    #[test]
    fn no_other_transaction_sells_amid_a_batch() {
        assert_eq!(out_of_sequence([(1, 7, 4), (2, 8, 3), (3, 7, 2)]), 1);
    }

    #[test]
    fn a_unit_that_is_sold_twice_is_counted_once() {
        let found = Sequence::of(Some(5), &orders([(1, 7, 4), (2, 8, 4), (3, 9, 4), (4, 10, 3)]));
        assert_eq!((found.double_sales, found.out_of_sequence), (2, Some(0)));
    }

    // C8
    #[test]
    fn tokens_are_compared_in_the_order_of_the_units_sold() {
        let tokens = |tokens: [(i64, i64); 4]| {
            let mut orders = orders([(4, 1, 4), (3, 2, 3), (2, 3, 2), (1, 4, 1)]);
            orders.iter_mut().zip(tokens).for_each(|(order, token)| order.token = Some(token));
            Sequence::of(Some(5), &orders).tokens_out_of_order
        };
        assert_eq!(tokens([(3, 0), (3, 0), (3, 1), (4, 0)]), Some(0), "several batches of one term");
        assert_eq!(tokens([(3, 0), (5, 0), (4, 0), (4, 0)]), Some(2));
        assert_eq!(tokens([(3, 0), (3, 1), (3, 0), (4, 0)]), Some(1));
    }

    // C6
    #[test]
    fn a_batch_sells_in_the_order_of_arrival() {
        let overtaken = |arrivals: [Option<u64>; 5]| {
            let mut orders = orders([(1, 7, 4), (2, 7, 3), (3, 7, 2), (4, 8, 1), (5, 8, 0)]);
            orders.iter_mut().zip(arrivals).for_each(|(order, arrival)| order.arrival = arrival);
            Sequence::of(Some(5), &orders).overtaken_in_batch
        };
        let [t1, t2, t3] = [Some(1), Some(2), Some(3)];
        assert_eq!(overtaken([t1, t2, t2, t1, t3]), Some(0), "another batch may be of another instance");
        assert_eq!(overtaken([t3, t1, t2, t1, t1]), Some(2));
        assert_eq!(overtaken([t3, None, t2, None, t1]), Some(1), "an order without a record is passed over");
        assert_eq!(overtaken([t3, None, None, t2, None]), None, "nothing to compare");
    }

    #[test]
    fn what_was_not_recorded_is_unknown() {
        let mut unrecorded = orders([(1, 7, 4), (2, 7, 4)]);
        for order in &mut unrecorded {
            order.remaining = None;
            order.token = None;
        }
        let found = Sequence::of(Some(5), &unrecorded);
        assert_eq!((found.double_sales, found.out_of_sequence, found.tokens_out_of_order), (0, None, None));
        assert_eq!(Sequence::of(Some(5), &[]).out_of_sequence, Some(0));
    }
}
