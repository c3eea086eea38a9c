//! What a trial really sold, by the database and by the answers to the clients.

use std::collections::{BTreeMap, BTreeSet};

pub use buyers::sample::Receipt;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::audit::balance::{Balance, Holders, clamped};
use crate::audit::orders::OrderRow;
use crate::audit::unchecked::Unchecked;

/// Everything that the audit of one trial looks at.
#[derive(Debug, Clone, Default)]
pub struct Evidence<'a> {
    /// Units on hand when the sale began.
    pub stock_initial: i64,
    /// Units on hand after the sale.
    pub stock_final: i64,
    /// Number of holders that the lock admits at once; absent if sections may overlap.
    pub permits: Option<u32>,
    /// All orders of the sale.
    pub orders: &'a [OrderRow],
    /// The 200 answers, one for each buyer who was told "sold".
    pub confirmed: &'a [Receipt],
    /// Buyers who were told "sold out".
    pub sold_out: u64,
    /// Buyers who were refused with the promise that nothing was written.
    pub refused: u64,
    /// Buyers who got no answer about their order: errors and timeouts.
    pub unanswered: u64,
}

/// The findings of one trial.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Audit {
    /// Units sold: the sum of the quantities of the orders.
    pub sold: i64,
    /// Units sold beyond the initial stock.
    pub oversold: i64,
    /// Wanted units that were left although a buyer was told that nothing was left, or although enough buyers had a
    /// decision to take them all.
    pub undersold: i64,
    /// Wanted units that were left because too many buyers had no decision: they were refused, or never learnt the fate of
    /// their order. The trial then proves nothing, for or against the strategy.
    pub unsold_undecided: i64,
    /// Initial − final − sold. Negative: orders whose deduction was overwritten. Positive: stock gone without an order.
    pub lost_updates: i64,
    /// Orders that left the same number of units as an earlier order: the same unit was sold twice.
    pub double_sales: u64,
    /// Orders that do not begin with the units that the previous order left, or that their transaction did not write in
    /// the order of their numbers. Absent if the orders do not say how many units they left.
    pub out_of_sequence: Option<u64>,
    /// Orders with a lower fencing token than an earlier order. Absent without tokens, and for a lock with several
    /// permits, whose holders may write in any order.
    pub tokens_out_of_order: Option<u64>,
    /// Orders that a batch sold after the order of a buyer that arrived later. Absent without two known arrivals in a batch.
    pub overtaken_in_batch: Option<u64>,
    /// Orders that no buyer was told of, as far as buyers without an answer explain them.
    pub indeterminate: u64,
    /// Orders that no buyer was told of and no missing answer explains: sold despite a refusal.
    pub orders_unexplained: u64,
    /// Buyers told "sold" with an order that is not in the database.
    pub confirmations_unfounded: u64,
    /// Buyers told "sold" with the same order as another buyer.
    pub confirmations_repeated: u64,
    /// Buyers told another SKU, another quantity or another number of units left than their order has.
    pub confirmations_wrong: u64,
    /// Orders of the trial without lines.
    pub orders_without_lines: u64,
}

impl Audit {
    /// Balances the books of one trial. Returns what could not be checked as well.
    pub fn of(evidence: &Evidence<'_>) -> (Audit, Unchecked) {
        let first = Some(evidence.stock_initial);
        let last = Some(evidence.stock_final);
        let balance = Balance::of(first, last, Holders::of(evidence.permits), evidence.orders);
        let sold = balance.sold;
        let initial = i128::from(evidence.stock_initial);
        let recorded: BTreeMap<i64, &OrderRow> = evidence.orders.iter().map(|order| (order.order_id, order)).collect();
        let confirmed: BTreeSet<i64> = evidence.confirmed.iter().map(|receipt| receipt.order_id).collect();

        let unfounded = evidence.confirmed.iter().filter(|receipt| !recorded.contains_key(&receipt.order_id)).count();
        let is_wrong = |receipt: &&Receipt| {
            recorded.get(&receipt.order_id).is_some_and(|order| {
                (order.goods_no, order.quantity, order.remaining)
                    != (receipt.goods_no, receipt.quantity, receipt.remaining)
            })
        };
        let untold = recorded.keys().filter(|order_id| !confirmed.contains(*order_id)).count() as u64;
        let indeterminate = untold.min(evidence.unanswered);

        let decided = evidence.confirmed.len() as u64 + evidence.sold_out;
        let buyers = decided + evidence.refused + evidence.unanswered;
        let wanted = initial.min(i128::from(buyers));
        // No unit comes back within a sale, so "sold out" is untrue while units are left.
        let enough_decided = evidence.sold_out > 0 || i128::from(decided) >= wanted;
        let left = clamped((wanted - sold).max(0));

        let audit = Audit {
            sold: clamped(sold),
            oversold: balance.oversold.unwrap_or(0),
            undersold: if enough_decided { left } else { 0 },
            unsold_undecided: if enough_decided { 0 } else { left },
            lost_updates: balance.lost_updates.unwrap_or(0),
            double_sales: balance.double_sales,
            out_of_sequence: balance.out_of_sequence,
            tokens_out_of_order: balance.tokens_out_of_order,
            overtaken_in_batch: balance.overtaken_in_batch,
            indeterminate,
            orders_unexplained: untold - indeterminate,
            confirmations_unfounded: unfounded as u64,
            confirmations_repeated: (evidence.confirmed.len() - confirmed.len()) as u64,
            confirmations_wrong: evidence.confirmed.iter().filter(is_wrong).count() as u64,
            orders_without_lines: 0,
        };
        (audit, balance.unchecked)
    }

    /// Adds up the findings of several SKUs.
    pub fn sum(audits: impl IntoIterator<Item = Audit>) -> Audit {
        audits.into_iter().fold(Audit::default(), |sum, one| Audit {
            sold: sum.sold.saturating_add(one.sold),
            oversold: sum.oversold.saturating_add(one.oversold),
            undersold: sum.undersold.saturating_add(one.undersold),
            unsold_undecided: sum.unsold_undecided.saturating_add(one.unsold_undecided),
            // Units lost at one SKU do not balance units gained at another one: both are wrong.
            lost_updates: if sum.lost_updates.signum() * one.lost_updates.signum() < 0 {
                let is_larger = one.lost_updates.unsigned_abs() > sum.lost_updates.unsigned_abs();
                if is_larger { one.lost_updates } else { sum.lost_updates }
            } else {
                sum.lost_updates.saturating_add(one.lost_updates)
            },
            double_sales: sum.double_sales + one.double_sales,
            out_of_sequence: sum_of_known(sum.out_of_sequence, one.out_of_sequence),
            tokens_out_of_order: sum_of_known(sum.tokens_out_of_order, one.tokens_out_of_order),
            overtaken_in_batch: sum_of_known(sum.overtaken_in_batch, one.overtaken_in_batch),
            indeterminate: sum.indeterminate + one.indeterminate,
            orders_unexplained: sum.orders_unexplained + one.orders_unexplained,
            confirmations_unfounded: sum.confirmations_unfounded + one.confirmations_unfounded,
            confirmations_repeated: sum.confirmations_repeated + one.confirmations_repeated,
            confirmations_wrong: sum.confirmations_wrong + one.confirmations_wrong,
            orders_without_lines: sum.orders_without_lines + one.orders_without_lines,
        })
    }

    /// Tells whether the orders agree with what the buyers were told, indeterminate orders apart.
    pub fn ledger_balanced(&self) -> bool {
        let confirmations = [self.confirmations_unfounded, self.confirmations_repeated, self.confirmations_wrong];
        self.orders_unexplained == 0 && self.orders_without_lines == 0 && confirmations == [0; 3]
    }

    /// Tells whether nothing at all is wrong with the trial. Units that undecided buyers left are no wrong.
    pub fn is_clean(&self) -> bool {
        let stock = self.oversold == 0 && self.undersold == 0 && self.lost_updates == 0 && self.double_sales == 0;
        stock && self.is_in_sequence() && self.ledger_balanced()
    }

    /// Tells whether no order is out of sequence, as far as that is known.
    pub fn is_in_sequence(&self) -> bool {
        self.out_of_sequence.unwrap_or(0) == 0
    }
}

/// Adds two figures, as far as they are known.
fn sum_of_known(sum: Option<u64>, one: Option<u64>) -> Option<u64> {
    sum.zip(one).map_or(sum.or(one), |(sum, one)| Some(sum + one))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::audit::orders::tests as rows;

    fn orders(ids: impl IntoIterator<Item = i64>) -> Vec<OrderRow> {
        ids.into_iter().map(|order_id| order(order_id, 1)).collect()
    }

    fn order(order_id: i64, quantity: i64) -> OrderRow {
        let order = rows::orders([(order_id, order_id, 0)]).swap_remove(0);
        OrderRow { quantity, remaining: None, token: None, ..order }
    }

    fn audit(stock: (i64, i64), orders: &[OrderRow], confirmed: &[i64], sold_out: u64, unanswered: u64) -> Audit {
        audit_with_refused(stock, orders, confirmed, sold_out, (0, unanswered))
    }

    fn audit_with_refused(
        (stock_initial, stock_final): (i64, i64),
        orders: &[OrderRow],
        confirmed: &[i64],
        sold_out: u64,
        (refused, unanswered): (u64, u64),
    ) -> Audit {
        let permits = Some(1);
        let confirmed = &receipts(orders, confirmed);
        let evidence =
            Evidence { stock_initial, stock_final, permits, orders, confirmed, sold_out, refused, unanswered };
        Audit::of(&evidence).0
    }

    /// Returns what buyers are told of these orders. Of a missing order, they are told of one unit.
    fn receipts(orders: &[OrderRow], order_ids: &[i64]) -> Vec<Receipt> {
        let receipt = |order_id: &i64| {
            let told = orders.iter().find(|order| order.order_id == *order_id);
            let (quantity, remaining) = told.map_or((1, None), |order| (order.quantity, order.remaining));
            Receipt { order_id: *order_id, goods_no: 1, quantity, remaining }
        };
        order_ids.iter().map(receipt).collect()
    }

    #[test]
    fn a_sale_that_sells_exactly_its_stock_is_clean() {
        let audit = audit((3, 0), &orders([7, 8, 9]), &[9, 7, 8], 5, 0);
        assert!(audit.is_clean(), "{audit:?}");
        assert_eq!(audit.sold, 3);
    }

    #[test]
    fn more_orders_than_stock_are_oversold_and_lost_updates() {
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
    fn even_few_buyers_are_undersold_if_one_was_told_sold_out() {
        assert_eq!(audit((5, 3), &orders([1, 2]), &[1, 2], 1, 0).undersold, 1);
    }

    #[test]
    fn units_that_undecided_buyers_left_are_not_undersold() {
        // Two of twenty were granted the lock in time. All others were refused or failed, so they have no decision.
        for undecided in [(18, 0), (0, 18), (9, 9)] {
            let audit = audit_with_refused((5, 3), &orders([1, 2]), &[1, 2], 0, undecided);
            assert_eq!((audit.undersold, audit.unsold_undecided), (0, 3), "{undecided:?}");
            assert!(audit.is_clean());
        }
    }

    #[test]
    fn refusals_do_not_matter_once_the_stock_is_sold() {
        let audit = audit_with_refused((2, 0), &orders([1, 2]), &[1, 2], 0, (18, 3));
        assert_eq!((audit.undersold, audit.unsold_undecided), (0, 0));
    }

    #[test]
    fn refusals_do_not_excuse_units_that_enough_decided_buyers_left() {
        let audit = audit_with_refused((5, 3), &orders([1, 2]), &[1, 2], 4, (1, 0));
        assert_eq!((audit.undersold, audit.unsold_undecided), (3, 0));
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
        let audit = audit((5, 4), &orders([1]), &[1, 1], 0, 0);
        assert_eq!((audit.confirmations_unfounded, audit.confirmations_repeated), (0, 1));
        assert!(!audit.ledger_balanced());
    }

    #[test]
    fn a_receipt_unlike_its_order_unbalances_the_ledger() {
        let orders = with_tokens([7]);
        let told = Receipt { order_id: 1, goods_no: 1, quantity: 1, remaining: Some(8) };
        let wrong = |receipt: Receipt| {
            let orders = &orders;
            let confirmed = &[receipt];
            let audit =
                Audit::of(&Evidence { stock_initial: 9, stock_final: 8, orders, confirmed, ..Evidence::default() }).0;
            assert_eq!(audit.ledger_balanced(), audit.confirmations_wrong == 0);
            audit.confirmations_wrong
        };
        assert_eq!(wrong(told), 0);
        assert_eq!(wrong(Receipt { goods_no: 2, ..told }), 1);
        assert_eq!(wrong(Receipt { quantity: 2, ..told }), 1);
        assert_eq!(wrong(Receipt { remaining: Some(7), ..told }), 1);
        assert_eq!(wrong(Receipt { remaining: None, ..told }), 1);
    }

    #[test]
    fn two_orders_that_left_as_many_units_sold_the_same_one() {
        let left = |remaining: [i64; 4]| -> Vec<OrderRow> {
            (1..).zip(remaining).map(|(id, left)| OrderRow { remaining: Some(left), ..order(id, 1) }).collect()
        };
        assert_eq!(audit((4, 0), &left([3, 2, 1, 0]), &[1, 2, 3, 4], 0, 0).double_sales, 0);
        let sold_twice = audit((4, 1), &left([3, 3, 3, 1]), &[1, 2, 3, 4], 0, 0);
        assert_eq!(sold_twice.double_sales, 2);
        assert!(!sold_twice.is_clean());
    }

    /// Returns orders that each left one unit less, with this token.
    fn with_tokens(tokens: impl IntoIterator<Item = i64>) -> Vec<OrderRow> {
        let order = |(id, token)| OrderRow { remaining: Some(9 - id), token: Some((token, 0)), ..order(id, 1) };
        (1..).zip(tokens).map(order).collect()
    }

    #[test]
    fn an_order_that_is_out_of_sequence_is_no_clean_sale() {
        let mut orders = with_tokens([1, 2, 3]);
        assert!(audit((9, 6), &orders, &[1, 2, 3], 0, 0).is_clean());
        orders[2].remaining = Some(4);
        let skipped = audit((9, 6), &orders, &[1, 2, 3], 0, 0);
        assert_eq!((skipped.out_of_sequence, skipped.double_sales, skipped.is_clean()), (Some(1), 0, false));
    }

    #[test]
    fn known_findings_of_several_skus_are_added_up() {
        let out_of_sequence = Some(2);
        let tokens_out_of_order = Some(1);
        let overtaken_in_batch = Some(3);
        let known = Audit { out_of_sequence, tokens_out_of_order, overtaken_in_batch, ..Audit::default() };
        let sum = Audit::sum([known, Audit::default(), known]);
        let found = (sum.out_of_sequence, sum.tokens_out_of_order, sum.overtaken_in_batch);
        assert_eq!(found, (Some(4), Some(2), Some(6)));
        assert_eq!(Audit::sum([Audit::default()]).out_of_sequence, None);
    }

    #[test]
    fn a_unit_lost_here_does_not_make_up_for_one_gained_there() {
        let lost = audit((5, 5), &orders([1]), &[1], 0, 0);
        let gained = audit((5, 2), &orders([2]), &[2], 0, 0);
        assert_eq!((lost.lost_updates, gained.lost_updates), (-1, 2));
        assert_eq!(Audit::sum([lost, gained]).lost_updates, 2);
        assert_eq!(Audit::sum([lost, lost]).lost_updates, -2);
        assert_eq!(Audit::sum([lost, gained]).sold, 2);
    }

    #[test]
    fn quantities_are_summed_and_not_counted() {
        assert_eq!(audit((5, 0), &[order(1, 5)], &[1], 3, 0).sold, 5);
    }

    #[test]
    fn sums_beyond_64_bits_keep_their_sign() {
        let largest = [order(1, i64::MAX), order(2, i64::MAX)];
        let sold_twice = audit((i64::MAX, 0), &largest, &[1, 2], 0, 0);
        assert_eq!((sold_twice.sold, sold_twice.oversold), (i64::MAX, i64::MAX));
        assert_eq!(sold_twice.lost_updates, -i64::MAX);
        assert!(!sold_twice.is_clean());
        let sum = Audit::sum([sold_twice, sold_twice]);
        assert_eq!((sum.sold, sum.oversold, sum.lost_updates), (i64::MAX, i64::MAX, i64::MIN));
        let gained = audit((0, i64::MIN), &[], &[], 0, 0);
        assert_eq!(Audit::sum([sum, gained]).lost_updates, i64::MIN, "the wrong that is farther from zero");
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
            prop_assert_eq!(audit.confirmations_repeated, 0);
            prop_assert!(audit.oversold == 0 || audit.undersold == 0);
        }
    }
}
