//! What the ledger of a sale says by itself, without anybody who remembers what buyers were told.

use std::collections::BTreeSet;

use serde::Serialize;

use crate::audit::orders::{OrderRow, Sequence, count};
use crate::audit::trial::clamped;

/// A sale of the ledger.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SaleRow {
    /// The SKU.
    pub goods_no: i64,
    /// The number of the sale.
    pub sale: i64,
    /// When it started (RFC 3339); unknown of one from before there was a ledger.
    pub started_at: Option<String>,
    /// Units that it began with; unknown of one from before there was a ledger.
    pub stock_initial: Option<i64>,
    /// Units that were left when it ended, or are left now if it is on.
    pub stock_final: Option<i64>,
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
    /// Orders that left as many units as an order before them did: the same unit was sold twice.
    pub double_sales: u64,
    /// Orders that do not begin with the units that the order before them left, or that one transaction did not write one
    /// after the other in the order of their numbers. Absent if the orders do not say how many units they left.
    pub out_of_sequence: Option<u64>,
    /// Orders with a lower fencing token than an order that was sold before. No finding by itself: holders of a
    /// strategy with several permits may write in any order.
    pub tokens_out_of_order: u64,
}

impl SaleAudit {
    /// Audits a sale by its orders.
    pub fn of(sale: &SaleRow, orders: &[OrderRow]) -> SaleAudit {
        let sold: i128 = orders.iter().map(|order| i128::from(order.quantity)).sum();
        let strategies: BTreeSet<&String> = orders.iter().map(|order| &order.strategy).collect();
        let initial = sale.stock_initial.map(i128::from);
        let sequence = Sequence::of(sale.stock_initial, orders);
        let lost = |initial: i128| Some(clamped(initial - i128::from(sale.stock_final?) - sold));
        SaleAudit {
            goods_no: sale.goods_no,
            sale: sale.sale,
            started_at: sale.started_at.clone(),
            is_on: sale.is_on,
            strategies: strategies.into_iter().cloned().collect(),
            stock_initial: sale.stock_initial,
            stock_final: sale.stock_final,
            orders: count(orders.len()),
            sold: clamped(sold),
            oversold: initial.map(|initial| clamped((sold - initial).max(0))),
            lost_updates: initial.and_then(lost),
            double_sales: sequence.double_sales,
            out_of_sequence: sequence.out_of_sequence,
            tokens_out_of_order: sequence.tokens_out_of_order.unwrap_or(0),
        }
    }

    /// Whether something is wrong for certain.
    pub fn is_wrong(&self) -> bool {
        let stock = self.oversold.unwrap_or(0) > 0 || self.lost_updates.unwrap_or(0) != 0;
        stock || self.double_sales > 0 || self.out_of_sequence.unwrap_or(0) > 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sale(initial: Option<i64>, left: i64) -> SaleRow {
        let started_at = Some("2026-01-02T03:04:05Z".to_owned());
        SaleRow { goods_no: 1, sale: 2, started_at, stock_initial: initial, stock_final: Some(left), is_on: false }
    }

    fn orders(remaining: &[i64]) -> Vec<OrderRow> {
        let order = |(token, remaining): (i64, &i64)| OrderRow {
            order_id: token,
            transaction: token,
            strategy: "zk-mutex".to_owned(),
            quantity: 1,
            remaining: Some(*remaining),
            token: Some((token, 0)),
            arrived_ns: None,
        };
        (10..).zip(remaining).map(order).collect()
    }

    #[test]
    fn a_sale_whose_books_balance_is_not_wrong() {
        let audit = SaleAudit::of(&sale(Some(3), 1), &orders(&[2, 1]));
        assert!(!audit.is_wrong(), "{audit:?}");
        assert_eq!((audit.sold, audit.orders, audit.strategies.len()), (2, 2, 1));
    }

    #[test]
    fn more_than_there_was_and_units_sold_twice_are_wrong() {
        let audit = SaleAudit::of(&sale(Some(2), 0), &orders(&[1, 1, 0, 0]));
        assert_eq!((audit.oversold, audit.lost_updates, audit.double_sales), (Some(2), Some(-2), 2));
        assert!(audit.is_wrong());
    }

    #[test]
    fn units_that_are_skipped_are_wrong() {
        let audit = SaleAudit::of(&sale(Some(3), 1), &orders(&[2, 0]));
        assert_eq!((audit.out_of_sequence, audit.lost_updates, audit.is_wrong()), (Some(1), Some(0), true));
    }

    #[test]
    fn a_stock_near_the_largest_number_is_audited_rightly() {
        let mut largest = orders(&[0, 0]);
        largest.iter_mut().for_each(|order| order.quantity = i64::MAX);
        let audit = SaleAudit::of(&sale(Some(i64::MAX), 0), &largest);
        assert_eq!((audit.sold, audit.oversold, audit.lost_updates), (i64::MAX, Some(i64::MAX), Some(-i64::MAX)));
        assert!(audit.is_wrong());
        let right = SaleAudit::of(&sale(Some(i64::MAX), 0), &largest[..1]);
        assert_eq!((right.sold, right.oversold, right.lost_updates), (i64::MAX, Some(0), Some(0)));
        assert!(!right.is_wrong());
    }

    #[test]
    fn of_a_sale_from_before_the_ledger_only_units_sold_twice_are_known() {
        let audit = SaleAudit::of(&sale(None, 0), &orders(&[1, 0]));
        assert_eq!((audit.oversold, audit.lost_updates, audit.is_wrong()), (None, None, false));
        assert!(SaleAudit::of(&sale(None, 0), &orders(&[1, 1])).is_wrong());
    }

    #[test]
    fn tokens_that_fall_are_counted_and_no_finding_by_themselves() {
        let mut of_two_permits = orders(&[2, 1, 0]);
        of_two_permits[0].token = Some((11, 1));
        let audit = SaleAudit::of(&sale(Some(3), 0), &of_two_permits);
        assert_eq!((audit.tokens_out_of_order, audit.is_wrong()), (1, false));
    }
}
