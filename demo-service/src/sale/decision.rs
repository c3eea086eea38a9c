//! What may be sold, and what a sale leaves. Nothing here does input or output.

use serde::{Deserialize, Serialize};

use super::goods::Quantity;

/// What a strategy reads of a SKU before it decides.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Level {
    /// The sale that the stock belongs to. Only this sale may be written.
    pub sale: i64,
    /// Units left.
    pub on_hand: i64,
    /// How often a strategy of the family `pg-row`, or the start of a sale, has written the row.
    pub version: i64,
    /// The family of strategies that may write the sale.
    pub guard: Option<String>,
    /// Most units of the sale that one buyer may have, if there is such a limit.
    pub per_buyer: Option<i64>,
}

impl Level {
    /// Returns the level after a write that leaves `on_hand` units.
    pub fn after(self, on_hand: i64) -> Self {
        Self { on_hand, ..self }
    }
}

/// Returns the units that a deduction leaves, or `None` if `on_hand` is too little for the whole quantity. A part of a
/// quantity is never sold.
pub fn remaining_after(on_hand: i64, quantity: Quantity) -> Option<i64> {
    (on_hand >= quantity.get()).then(|| on_hand - quantity.get())
}

/// The fencing token of a hold, as the database stores it. Tokens are compared by both parts, in this order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Token {
    /// The number of the transaction that granted the lock in ZooKeeper, or the count of the grants in Redis.
    pub number: i64,
    /// Hand-overs within a process since that grant.
    pub handover: i64,
}

/// What a hold writes into the row: a later hold has a greater token. The tokens of two ZooKeeper ensembles may be equal, and
/// those of a Redis that was restored, so the hold has a random identity, too.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Fence {
    /// The token of the hold.
    pub token: Token,
    /// The identity of the hold.
    pub hold: i64,
}

/// A committed order.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Order {
    /// Its number.
    pub order_id: i64,
    /// The strategy that decided the purchase.
    pub strategy: String,
    /// The instance of the service that wrote it.
    pub instance: String,
    /// What was sold.
    pub lines: Vec<OrderLine>,
}

/// One SKU of an order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct OrderLine {
    /// The SKU.
    pub goods_no: i64,
    /// The sale that the units were taken from.
    pub sale: i64,
    /// How many units.
    pub quantity: i64,
    /// Units left, as the strategy saw them. `None` if the order does not say it.
    pub remaining: Option<i64>,
    /// The fencing token of the hold, for a strategy whose lock gives one.
    pub token: Option<Token>,
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_part_of_a_quantity_is_never_sold() {
        for (on_hand, units, expected) in [
            (0, 1, None),
            (1, 1, Some(0)),
            (2, 1, Some(1)),
            (2, 3, None),
            (i64::MAX, i64::MAX, Some(0)),
            (i64::MAX - 1, i64::MAX, None),
        ] {
            assert_eq!(remaining_after(on_hand, Quantity::new(units).unwrap()), expected, "{units} of {on_hand}");
        }
    }

    proptest! {
        #[test]
        fn a_sale_conserves_units_and_a_refusal_means_too_few(on_hand in 0..=i64::MAX, units in 1..=i64::MAX) {
            match remaining_after(on_hand, Quantity::new(units).unwrap()) {
                Some(remaining) => {
                    prop_assert!(remaining >= 0);
                    prop_assert_eq!(i128::from(remaining) + i128::from(units), i128::from(on_hand));
                }
                None => prop_assert!(on_hand < units),
            }
        }

        #[test]
        fn deductions_one_after_another_never_sell_more_than_the_stock(
            stock in 0..200_i64,
            buyers in prop::collection::vec(1..20_i64, 0..100),
        ) {
            let mut on_hand = stock;
            let mut sold = 0;
            for units in buyers {
                if let Some(remaining) = remaining_after(on_hand, Quantity::new(units).unwrap()) {
                    sold += units;
                    on_hand = remaining;
                }
            }
            prop_assert_eq!(sold + on_hand, stock);
        }
    }
}
