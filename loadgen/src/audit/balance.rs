//! Whether the books of one sale balance. Both `audit` and a comparison judge by this.

use crate::audit::layout::{Misplaced, StockRows};
use crate::audit::limit::UnitsOfBuyers;
use crate::audit::orders::{OrderRow, Sequence};
use crate::audit::unchecked::{Gap, Unchecked};

/// The number of lock holders of a sale that may write at once.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Holders {
    /// One, or one batch: tokens grow from order to order.
    One,
    /// Several permits: their holders may write in any order.
    Several,
    /// Unknown: no instance was asked.
    Unknown,
}

impl Holders {
    /// Returns the holders under a strategy with these permits. `None`: its sections may overlap, as the sections of a batch
    /// do.
    pub fn of(permits: Option<u32>) -> Holders {
        if permits.is_none_or(|permits| permits == 1) { Holders::One } else { Holders::Several }
    }
}

/// What the books of a sale have beside its orders.
#[derive(Debug, Clone, Copy)]
pub(crate) struct SaleBooks<'a> {
    /// Units that it began with.
    pub(crate) initial: Option<i64>,
    /// Units that were left.
    pub(crate) left: Option<i64>,
    /// Most units that one buyer may have, if there is such a limit.
    pub(crate) per_buyer: Option<i64>,
    /// How many holders of its locks may write at once.
    pub(crate) holders: Holders,
    /// The rows of its stock, if it does not lie in the row of the SKU. Then those are judged instead of the sequence of the orders,
    /// and nothing is missing in it.
    pub(crate) rows: Option<&'a StockRows>,
}

/// The findings in the books of one sale.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Balance {
    /// Units sold: the sum of the quantities of the orders.
    pub(crate) sold: i128,
    /// Units sold beyond the initial stock; unknown if that is.
    pub(crate) oversold: Option<i64>,
    /// Initial − final − sold; unknown if one of them is.
    pub(crate) lost_updates: Option<i64>,
    /// Orders that left the same number of units as an earlier order.
    pub(crate) double_sales: u64,
    /// Orders that do not continue the sequence of the sale.
    pub(crate) out_of_sequence: Option<u64>,
    /// Orders with a lower fencing token than an earlier order.
    pub(crate) tokens_out_of_order: Option<u64>,
    /// Orders that a batch sold after the order of a buyer that arrived later.
    pub(crate) overtaken_in_batch: Option<u64>,
    /// Buyers that have more units than one buyer may have.
    pub(crate) over_limit: u64,
    /// How the rows of the stock disagree with the rest, if the stock lies in rows of its own.
    pub(crate) misplaced: Option<Misplaced>,
    /// Facts that the books lack.
    pub(crate) unchecked: Unchecked,
}

impl Balance {
    /// Balances the books of a sale by its orders.
    pub(crate) fn of(books: &SaleBooks<'_>, orders: &[OrderRow]) -> Balance {
        let SaleBooks { initial, left, per_buyer, holders, rows } = *books;
        // Held units are not sold, and nobody has lost them.
        let left = left.map(|left| left.saturating_add(rows.map_or(0, StockRows::held)));
        let sold: i128 = orders.iter().map(|order| i128::from(order.quantity)).sum();
        let lost = |(initial, left): (i64, i64)| clamped(i128::from(initial) - i128::from(left) - sold);
        let sequence = Sequence::of(initial, orders);
        let of_older_tokens = sequence.tokens_out_of_order;
        let needed = if rows.is_some() { &[] } else { orders };
        let lacking = |lacks: fn(&OrderRow) -> bool| needed.iter().filter(|order| lacks(order)).count() as u64;
        let buyers = per_buyer.map(|per_buyer| (UnitsOfBuyers::of(orders), per_buyer));
        let gaps = [
            (Gap::Buyer, buyers.as_ref().map_or(0, |(buyers, _)| buyers.unnamed)),
            (Gap::Beginning, u64::from(initial.is_none())),
            (Gap::End, u64::from(left.is_none())),
            (Gap::Remaining, lacking(|order| order.remaining.is_none())),
            (Gap::Transaction, lacking(|order| order.transaction.is_none())),
            (Gap::Permits, of_older_tokens.filter(|_| holders == Holders::Unknown).unwrap_or(0)),
        ];
        Balance {
            sold,
            oversold: initial.map(|initial| clamped((sold - i128::from(initial)).max(0))),
            lost_updates: initial.zip(left).map(lost),
            double_sales: sequence.double_sales,
            out_of_sequence: sequence.out_of_sequence,
            tokens_out_of_order: of_older_tokens.filter(|_| holders == Holders::One),
            overtaken_in_batch: sequence.overtaken_in_batch,
            over_limit: buyers.map_or(0, |(buyers, per_buyer)| buyers.over(per_buyer)),
            misplaced: rows.map(|rows| rows.misplaced(initial, left)),
            unchecked: gaps.into_iter().collect(),
        }
    }
}

/// Fits a figure of the books into 64 bits. A sum of quantities near 2^63 may need 128 bits. It becomes the largest or the
/// smallest figure of 64 bits, and keeps its sign.
pub(crate) fn clamped(units: i128) -> i64 {
    i64::try_from(units).unwrap_or(if units < 0 { i64::MIN } else { i64::MAX })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::audit::orders::tests::orders;

    fn of(initial: Option<i64>, left: Option<i64>, holders: Holders, orders: &[OrderRow]) -> Balance {
        Balance::of(&SaleBooks { initial, left, per_buyer: None, holders, rows: None }, orders)
    }

    fn gaps(balance: &Balance) -> Vec<String> {
        balance.unchecked.words()
    }

    #[test]
    fn books_that_say_everything_leave_nothing_unchecked() {
        let balance = of(Some(5), Some(3), Holders::Unknown, &orders([(1, 7, 4), (2, 8, 3)]));
        assert_eq!((balance.oversold, balance.lost_updates, balance.out_of_sequence), (Some(0), Some(0), Some(0)));
        assert!(balance.unchecked.is_empty(), "{balance:?}");
    }

    #[test]
    fn a_ledger_without_a_row_leaves_the_stock_unchecked() {
        let balance = of(None, None, Holders::One, &orders([(1, 7, 4)]));
        assert_eq!((balance.oversold, balance.lost_updates), (None, None));
        assert_eq!(gaps(&balance).len(), 2, "{balance:?}");
    }

    #[test]
    fn one_order_without_its_units_left_is_told() {
        let mut orders = orders([(1, 7, 4), (2, 8, 3)]);
        orders[0].remaining = None;
        let balance = of(Some(5), Some(3), Holders::One, &orders);
        assert_eq!(balance.out_of_sequence, None);
        assert_eq!(gaps(&balance), ["orders that do not say how many units they left: 1"]);
        // Where the units lie in rows, the rows say it.
        let rows = StockRows::Buckets { stock_initial: 5, on_hand: 2, beyond: 0 };
        let rows = Some(&rows);
        let books = SaleBooks { initial: Some(5), left: Some(3), per_buyer: None, holders: Holders::One, rows };
        let balance = Balance::of(&books, &orders);
        assert_eq!((gaps(&balance).len(), balance.misplaced.map(|misplaced| misplaced.units)), (0, Some(1)));
    }

    #[test]
    fn a_buyer_with_too_many_units_is_found() {
        let mut orders = orders([(1, 7, 4), (2, 8, 3), (3, 9, 2)]);
        let books = SaleBooks { initial: Some(5), left: Some(2), per_buyer: None, holders: Holders::One, rows: None };
        let of = |orders: &[OrderRow], per_buyer| Balance::of(&SaleBooks { per_buyer, ..books }, orders);
        assert_eq!(
            gaps(&of(&orders, Some(1))),
            ["orders that do not say who has bought, in a sale with a limit per buyer: 3"]
        );
        for (order, buyer) in orders.iter_mut().zip(["ann", "bob", "ann"]) {
            order.buyer = Some(buyer.into());
        }
        assert_eq!((of(&orders, Some(1)).over_limit, of(&orders, Some(2)).over_limit), (1, 0));
        assert_eq!((of(&orders, None).over_limit, of(&orders, Some(1)).unchecked.is_empty()), (0, true));
    }

    #[test]
    fn tokens_that_fall_are_wrong_under_one_permit_alone() {
        let mut orders = orders([(1, 7, 4), (2, 8, 3)]);
        orders[1].token = Some((6, 0));
        let under = |holders| of(Some(5), Some(3), holders, &orders);
        assert_eq!(under(Holders::One).tokens_out_of_order, Some(1));
        assert_eq!((under(Holders::Several).tokens_out_of_order, gaps(&under(Holders::Several)).len()), (None, 0));
        assert_eq!((under(Holders::Unknown).tokens_out_of_order, gaps(&under(Holders::Unknown)).len()), (None, 1));
        // The sections of a batch overlap, and its orders have one token.
        let holders = [None, Some(1), Some(2)].map(Holders::of);
        assert_eq!(holders, [Holders::One, Holders::One, Holders::Several]);
    }

    #[test]
    fn restored_orders_accuse_no_batch() {
        // Two transactions numbered their orders in either order, and a restore gave both orders one transaction.
        let mut restored = orders([(2, 7, 4), (1, 7, 3)]);
        assert_eq!(of(Some(5), Some(3), Holders::One, &restored).out_of_sequence, Some(1));
        for order in &mut restored {
            order.transaction = None;
            order.token = None;
        }
        let balance = of(Some(5), Some(3), Holders::One, &restored);
        assert_eq!((balance.out_of_sequence, balance.overtaken_in_batch), (Some(0), None));
        assert!(gaps(&balance)[0].starts_with("orders whose transaction is unknown"), "{balance:?}");
    }
}
