//! What the ledger of a sale says by itself, without anybody who remembers what buyers were told.

use std::collections::BTreeSet;

use serde::Serialize;

use crate::judge::audit::{clamped, double_sales_of};

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

/// An order of a sale.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LedgerOrder {
    /// The strategy that wrote it.
    pub strategy: String,
    /// How many units it is for.
    pub quantity: i64,
    /// Units left as the deduction saw it, where that was recorded.
    pub remaining: Option<i64>,
    /// The fencing token and its second part, where there was one.
    pub token: Option<(i64, i64)>,
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
    /// Orders with a fencing token below that of an order before them. No finding by itself: of a strategy with several
    /// permits, holders that are inside together may write in any order.
    pub tokens_out_of_order: u64,
}

impl SaleAudit {
    /// Audits a sale by its orders, in the order in which they were written.
    pub fn of(sale: &SaleRow, orders: &[LedgerOrder]) -> SaleAudit {
        let sold: i128 = orders.iter().map(|order| i128::from(order.quantity)).sum();
        let strategies: BTreeSet<&String> = orders.iter().map(|order| &order.strategy).collect();
        let initial = sale.stock_initial.map(i128::from);
        let lost = |initial: i128| Some(clamped(initial - i128::from(sale.stock_final?) - sold));
        SaleAudit {
            goods_no: sale.goods_no,
            sale: sale.sale,
            started_at: sale.started_at.clone(),
            is_on: sale.is_on,
            strategies: strategies.into_iter().cloned().collect(),
            stock_initial: sale.stock_initial,
            stock_final: sale.stock_final,
            orders: u64::try_from(orders.len()).unwrap_or(u64::MAX),
            sold: clamped(sold),
            oversold: initial.map(|initial| clamped((sold - initial).max(0))),
            lost_updates: initial.and_then(lost),
            double_sales: double_sales_of(orders.iter().filter_map(|order| order.remaining)),
            tokens_out_of_order: tokens_out_of_order(orders),
        }
    }

    /// Whether something is wrong for certain.
    pub fn is_wrong(&self) -> bool {
        self.oversold.unwrap_or(0) > 0 || self.lost_updates.unwrap_or(0) != 0 || self.double_sales > 0
    }
}

fn tokens_out_of_order(orders: &[LedgerOrder]) -> u64 {
    let mut highest = None;
    let mut found = 0;
    for token in orders.iter().filter_map(|order| order.token) {
        found += u64::from(highest.is_some_and(|highest| token < highest));
        highest = highest.max(Some(token));
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sale(initial: Option<i64>, left: i64) -> SaleRow {
        let started_at = Some("2026-01-02T03:04:05Z".to_owned());
        SaleRow { goods_no: 1, sale: 2, started_at, stock_initial: initial, stock_final: Some(left), is_on: false }
    }

    fn orders(remaining: &[i64]) -> Vec<LedgerOrder> {
        let order = |(token, remaining): (i64, &i64)| LedgerOrder {
            strategy: "zk-mutex".to_owned(),
            quantity: 1,
            remaining: Some(*remaining),
            token: Some((token, 0)),
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
    fn a_stock_near_the_largest_number_is_audited_rightly() {
        let mut largest = orders(&[1, 0]);
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
        of_two_permits.swap(0, 1);
        let audit = SaleAudit::of(&sale(Some(3), 0), &of_two_permits);
        assert_eq!((audit.tokens_out_of_order, audit.is_wrong()), (1, false));
    }
}
