//! What a trial really sold, judged from the database and from what the clients were told.

use std::collections::BTreeSet;

use serde::Serialize;

/// An order row of the sale under audit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct OrderRow {
    pub(crate) order_id: i64,
    pub(crate) quantity: i64,
}

/// Everything that the audit of one trial looks at.
#[derive(Debug, Clone)]
pub(crate) struct Evidence<'a> {
    /// Units on hand when the sale began.
    pub(crate) stock_initial: i64,
    /// Units on hand after the sale.
    pub(crate) stock_final: i64,
    /// All orders of the sale.
    pub(crate) orders: &'a [OrderRow],
    /// Order numbers in the 200 answers, one for each buyer who was told "sold".
    pub(crate) confirmed: &'a [i64],
    /// Buyers who were told "sold out".
    pub(crate) sold_out: u64,
    /// Buyers who got no answer that says what became of their order: errors and timeouts.
    pub(crate) unanswered: u64,
}

/// The findings of one trial.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub(crate) struct Audit {
    /// Units sold: the sum of the quantities of the orders.
    pub(crate) sold: i64,
    /// Units sold beyond the initial stock.
    pub(crate) oversold: i64,
    /// Units left although at least as many buyers as units had a decision (sold or sold out). Buyers who were
    /// refused or unanswered decided nothing, so the units they left are not held against the strategy.
    pub(crate) undersold: i64,
    /// Initial − final − sold. Negative: orders whose deduction was overwritten. Positive: stock gone without an order.
    pub(crate) lost_updates: i64,
    /// Orders no buyer was told of, as far as buyers without an answer explain them.
    pub(crate) indeterminate: u64,
    /// Orders no buyer was told of and no missing answer explains: sold behind a refusal.
    pub(crate) orders_unexplained: u64,
    /// Buyers told "sold" with an order that is not in the database, or that another buyer was told as well.
    pub(crate) confirmations_unfounded: u64,
}

impl Audit {
    /// Balances the books of one trial.
    pub(crate) fn of(evidence: &Evidence<'_>) -> Audit {
        let sold: i64 = evidence.orders.iter().map(|order| order.quantity).sum();
        let recorded: BTreeSet<i64> = evidence.orders.iter().map(|order| order.order_id).collect();
        let confirmed: BTreeSet<i64> = evidence.confirmed.iter().copied().collect();

        let founded = confirmed.intersection(&recorded).count();
        let untold = count(recorded.difference(&confirmed).count());
        let indeterminate = untold.min(evidence.unanswered);

        let decided = count(evidence.confirmed.len()) + evidence.sold_out;
        let demand_met_stock = i64::try_from(decided).is_ok_and(|n| n >= evidence.stock_initial);

        Audit {
            sold,
            oversold: (sold - evidence.stock_initial).max(0),
            undersold: if demand_met_stock { (evidence.stock_initial - sold).max(0) } else { 0 },
            lost_updates: evidence.stock_initial - evidence.stock_final - sold,
            indeterminate,
            orders_unexplained: untold - indeterminate,
            confirmations_unfounded: count(evidence.confirmed.len() - founded),
        }
    }

    /// Whether the orders are exactly those that the buyers were told of, the indeterminate ones apart.
    pub(crate) fn ledger_balanced(&self) -> bool {
        self.orders_unexplained == 0 && self.confirmations_unfounded == 0
    }

    /// Whether nothing at all is wrong with the trial.
    pub(crate) fn is_clean(&self) -> bool {
        self.oversold == 0 && self.undersold == 0 && self.lost_updates == 0 && self.ledger_balanced()
    }
}

/// A length as a count; a `usize` always fits in 64 bits on the platforms that Rust supports.
fn count(length: usize) -> u64 {
    u64::try_from(length).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn orders(ids: impl IntoIterator<Item = i64>) -> Vec<OrderRow> {
        ids.into_iter().map(|order_id| OrderRow { order_id, quantity: 1 }).collect()
    }

    fn audit(stock: (i64, i64), orders: &[OrderRow], confirmed: &[i64], sold_out: u64, unanswered: u64) -> Audit {
        Audit::of(&Evidence { stock_initial: stock.0, stock_final: stock.1, orders, confirmed, sold_out, unanswered })
    }

    #[test]
    fn a_sale_that_sells_exactly_its_stock_is_clean() {
        let audit = audit((3, 0), &orders([7, 8, 9]), &[9, 7, 8], 5, 0);
        assert!(audit.is_clean(), "{audit:?}");
        assert_eq!(audit.sold, 3);
    }

    #[test]
    fn more_orders_than_stock_is_oversold_and_shows_the_lost_updates() {
        let audit = audit((2, 0), &orders([1, 2, 3, 4, 5]), &[1, 2, 3, 4, 5], 0, 0);
        assert_eq!((audit.oversold, audit.undersold, audit.lost_updates), (3, 0, -3));
        assert!(audit.ledger_balanced() && !audit.is_clean());
    }

    #[test]
    fn units_left_although_a_buyer_was_told_sold_out_are_undersold() {
        let audit = audit((5, 3), &orders([1, 2]), &[1, 2], 4, 0);
        assert_eq!((audit.undersold, audit.lost_updates), (3, 0));
        assert!(!audit.is_clean());
    }

    #[test]
    fn units_that_too_few_buyers_wanted_are_not_undersold() {
        assert!(audit((5, 3), &orders([1, 2]), &[1, 2], 0, 0).is_clean());
    }

    #[test]
    fn units_that_refused_buyers_left_are_not_undersold() {
        // Two of twenty got the lock in time; the rest were refused, which is neither "sold" nor "sold out".
        assert!(audit((5, 3), &orders([1, 2]), &[1, 2], 0, 0).is_clean());
    }

    #[test]
    fn stock_that_went_without_an_order_is_a_positive_lost_update() {
        assert_eq!(audit((5, 2), &orders([1, 2]), &[1, 2], 0, 0).lost_updates, 1);
    }

    #[test]
    fn an_order_behind_a_client_error_is_indeterminate_and_no_fault() {
        let audit = audit((5, 2), &orders([1, 2, 3]), &[1, 2], 0, 4);
        assert_eq!((audit.indeterminate, audit.orders_unexplained), (1, 0));
        assert!(audit.is_clean());
    }

    #[test]
    fn an_order_behind_a_refusal_unbalances_the_ledger() {
        let audit = audit((5, 2), &orders([1, 2, 3]), &[1, 2], 0, 0);
        assert_eq!((audit.indeterminate, audit.orders_unexplained), (0, 1));
        assert!(!audit.ledger_balanced());
    }

    #[test]
    fn a_confirmation_without_an_order_unbalances_the_ledger() {
        assert_eq!(audit((5, 4), &orders([1]), &[1, 99], 0, 0).confirmations_unfounded, 1);
    }

    #[test]
    fn one_order_told_to_two_buyers_unbalances_the_ledger() {
        assert_eq!(audit((5, 4), &orders([1]), &[1, 1], 0, 0).confirmations_unfounded, 1);
    }

    #[test]
    fn quantities_are_summed_and_not_counted() {
        let audit = audit((5, 0), &[OrderRow { order_id: 1, quantity: 5 }], &[1], 3, 0);
        assert_eq!(audit.sold, 5);
    }

    proptest! {
        #[test]
        fn every_order_is_told_indeterminate_or_unexplained(
            recorded in prop::collection::btree_set(0_i64..50, 0..30),
            confirmed in prop::collection::btree_set(0_i64..50, 0..30),
            unanswered in 0_u64..10,
        ) {
            let confirmed: Vec<i64> = confirmed.into_iter().collect();
            let audit = audit((10, 0), &orders(recorded.iter().copied()), &confirmed, 0, unanswered);
            let told = confirmed.iter().filter(|id| recorded.contains(id)).count() as u64;
            prop_assert_eq!(told + audit.indeterminate + audit.orders_unexplained, recorded.len() as u64);
            prop_assert_eq!(told + audit.confirmations_unfounded, confirmed.len() as u64);
            prop_assert!(audit.oversold == 0 || audit.undersold == 0);
        }
    }
}
