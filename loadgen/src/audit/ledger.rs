//! The audit of a sale by its ledger and orders alone, without what buyers were told.

use std::collections::BTreeSet;

use serde::Serialize;

use crate::audit::balance::{Balance, Holders, SaleBooks, clamped};
use crate::audit::layout::StockRows;
use crate::audit::orders::OrderRow;
use crate::audit::unchecked::Unchecked;

/// A sale of the ledger.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SaleRow {
    /// The SKU.
    pub goods_no: i64,
    /// The number of the sale.
    pub sale: i64,
    /// When it started (RFC 3339); unknown without a row in the ledger.
    pub started_at: Option<String>,
    /// Units that it began with; unknown without a row in the ledger.
    pub stock_initial: Option<i64>,
    /// Units that were left when it ended, or are left now if it is on.
    pub stock_final: Option<i64>,
    /// Most units that one buyer may have; absent without such a limit.
    pub per_buyer: Option<i64>,
    /// Whether it is on.
    pub is_on: bool,
}

/// The findings of one sale.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct SaleAudit {
    /// The SKU.
    pub goods_no: i64,
    /// The number of the sale.
    pub sale: i64,
    /// When it started (RFC 3339).
    pub started_at: Option<String>,
    /// Whether it is on: its figures may change.
    pub is_on: bool,
    /// The strategies that wrote its orders.
    pub strategies: Vec<String>,
    /// Units that it began with.
    pub stock_initial: Option<i64>,
    /// Units that were left.
    pub stock_final: Option<i64>,
    /// Orders.
    pub orders: u64,
    /// Units sold: the sum of the quantities of the orders.
    pub sold: i64,
    /// Units sold beyond the initial stock; absent when that is unknown.
    pub oversold: Option<i64>,
    /// Initial − final − sold. Negative: orders whose deduction was overwritten. Positive: stock gone without an order.
    pub lost_updates: Option<i64>,
    /// Orders that left the same number of units as an earlier order: the same unit was sold twice.
    pub double_sales: u64,
    /// Orders that do not begin with the units that the previous order left, or that their transaction did not write in
    /// the order of their numbers. Absent if the orders do not say how many units they left.
    pub out_of_sequence: Option<u64>,
    /// Orders with a lower fencing token than an earlier order. Absent without tokens, if the permits are unknown, and
    /// for a lock with several permits, whose holders may write in any order.
    pub tokens_out_of_order: Option<u64>,
    /// Orders that a batch sold after the order of a buyer that arrived later. Absent without two known arrivals in a batch.
    pub overtaken_in_batch: Option<u64>,
    /// Buyers that have more units than one buyer may have. Absent without such a limit.
    pub over_limit: Option<u64>,
    /// Units whose rows disagree with the orders or with the ledger. Absent if the stock lies in the row of the SKU.
    pub misplaced: Option<u64>,
    /// What disagrees, a sentence each.
    pub misplaced_why: Vec<String>,
    /// What could not be checked, a line each.
    pub unchecked: Vec<String>,
    /// The same as counts.
    #[serde(skip)]
    pub(crate) gaps: Unchecked,
}

impl SaleAudit {
    /// Audits a sale by its orders, and by the rows of its stock if it has rows of its own. `holders`: how many holders of its
    /// locks may write at once. `unknown`: what else could not be checked.
    pub fn of(
        sale: &SaleRow,
        holders: Holders,
        orders: &[OrderRow],
        rows: Option<&StockRows>,
        unknown: Unchecked,
    ) -> SaleAudit {
        let strategies: BTreeSet<&str> = orders.iter().map(|order| &*order.strategy).collect();
        let SaleRow { stock_initial: initial, stock_final: left, per_buyer, .. } = *sale;
        let balance = Balance::of(&SaleBooks { initial, left, per_buyer, holders, rows }, orders);
        let gaps = Unchecked::sum([&balance.unchecked, &unknown]);
        SaleAudit {
            goods_no: sale.goods_no,
            sale: sale.sale,
            started_at: sale.started_at.clone(),
            is_on: sale.is_on,
            strategies: strategies.into_iter().map(str::to_owned).collect(),
            stock_initial: sale.stock_initial,
            stock_final: sale.stock_final,
            orders: orders.len() as u64,
            sold: clamped(balance.sold),
            oversold: balance.oversold,
            lost_updates: balance.lost_updates,
            double_sales: balance.double_sales,
            out_of_sequence: balance.out_of_sequence,
            tokens_out_of_order: balance.tokens_out_of_order,
            overtaken_in_batch: balance.overtaken_in_batch,
            over_limit: sale.per_buyer.map(|_| balance.over_limit),
            misplaced: balance.misplaced.as_ref().map(|misplaced| misplaced.units),
            misplaced_why: balance.misplaced.map_or_else(Vec::new, |misplaced| misplaced.words),
            unchecked: gaps.words(),
            gaps,
        }
    }

    /// Tells whether something is wrong for certain.
    pub fn is_wrong(&self) -> bool {
        let is_found = |orders: Option<u64>| orders.unwrap_or(0) > 0;
        let stock = self.oversold.unwrap_or(0) > 0 || self.lost_updates.unwrap_or(0) != 0 || self.double_sales > 0;
        let orders = [self.out_of_sequence, self.tokens_out_of_order, self.overtaken_in_batch];
        let others = [self.over_limit, self.misplaced];
        stock || orders.into_iter().chain(others).any(is_found)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::audit::orders::tests as rows;

    fn sale(initial: Option<i64>, left: i64) -> SaleRow {
        let started_at = Some("2026-01-02T03:04:05Z".to_owned());
        let stock_final = Some(left);
        SaleRow { goods_no: 1, sale: 2, started_at, stock_initial: initial, stock_final, per_buyer: None, is_on: false }
    }

    fn audited(sale: &SaleRow, orders: &[OrderRow]) -> SaleAudit {
        SaleAudit::of(sale, Holders::One, orders, None, Unchecked::default())
    }

    /// Returns orders of one transaction each, from number 10 on, by the units that they left.
    fn orders<const N: usize>(remaining: [i64; N]) -> Vec<OrderRow> {
        let mut number = 9;
        rows::orders(remaining.map(|left| {
            number += 1;
            (number, number, left)
        }))
    }

    #[test]
    fn a_sale_whose_books_balance_is_not_wrong() {
        let audit = audited(&sale(Some(3), 1), &orders([2, 1]));
        assert!(!audit.is_wrong() && audit.unchecked.is_empty(), "{audit:?}");
        assert_eq!((audit.sold, audit.orders, audit.strategies.len()), (2, 2, 1));
    }

    #[test]
    fn more_than_there_was_and_units_sold_twice_are_wrong() {
        let audit = audited(&sale(Some(2), 0), &orders([1, 1, 0, 0]));
        assert_eq!((audit.oversold, audit.lost_updates, audit.double_sales), (Some(2), Some(-2), 2));
        assert!(audit.is_wrong());
    }

    #[test]
    fn units_that_are_skipped_are_wrong() {
        let audit = audited(&sale(Some(3), 1), &orders([2, 0]));
        assert_eq!((audit.out_of_sequence, audit.lost_updates, audit.is_wrong()), (Some(1), Some(0), true));
    }

    #[test]
    fn a_stock_near_the_largest_number_is_audited_rightly() {
        let mut largest = orders([0, 0]);
        largest.iter_mut().for_each(|order| order.quantity = i64::MAX);
        let audit = audited(&sale(Some(i64::MAX), 0), &largest);
        assert_eq!((audit.sold, audit.oversold, audit.lost_updates), (i64::MAX, Some(i64::MAX), Some(-i64::MAX)));
        assert!(audit.is_wrong());
        let right = audited(&sale(Some(i64::MAX), 0), &largest[..1]);
        assert_eq!((right.sold, right.oversold, right.lost_updates), (i64::MAX, Some(0), Some(0)));
        assert!(!right.is_wrong());
    }

    #[test]
    fn without_a_ledger_only_units_sold_twice_are_known() {
        let audit = audited(&sale(None, 0), &orders([1, 0]));
        assert_eq!((audit.oversold, audit.lost_updates, audit.is_wrong()), (None, None, false));
        assert_eq!(audit.unchecked, ["sales whose initial stock is missing in the ledger: 1"]);
        assert!(audited(&sale(None, 0), &orders([1, 1])).is_wrong());
    }

    #[test]
    fn tokens_that_fall_are_wrong_if_one_holder_may_write_at_once() {
        let mut fallen = orders([2, 1, 0]);
        fallen[0].token = Some((11, 1));
        let of = |holders| SaleAudit::of(&sale(Some(3), 0), holders, &fallen, None, Unchecked::default());
        assert_eq!((of(Holders::One).tokens_out_of_order, of(Holders::One).is_wrong()), (Some(1), true));
        assert_eq!((of(Holders::Several).is_wrong(), of(Holders::Several).unchecked.len()), (false, 0));
        assert_eq!((of(Holders::Unknown).is_wrong(), of(Holders::Unknown).unchecked.len()), (false, 1));
    }
}
