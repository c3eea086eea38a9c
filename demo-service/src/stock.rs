//! Stock keeping without any input or output: what may be sold, and what a sale leaves.

pub mod store;

use std::fmt;
use std::str::FromStr;

/// The number of one stock-keeping unit (SKU); always positive.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct GoodsNo(i64);

impl GoodsNo {
    /// The number as the database knows it.
    pub fn get(self) -> i64 {
        self.0
    }
}

impl fmt::Display for GoodsNo {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl FromStr for GoodsNo {
    type Err = InvalidGoodsNo;

    /// Accepts decimal digits only, so that one SKU has one spelling: `007` and `+7` are refused.
    fn from_str(text: &str) -> Result<Self, InvalidGoodsNo> {
        let canonical = text.bytes().all(|byte| byte.is_ascii_digit()) && !text.starts_with('0');
        match text.parse() {
            Ok(number) if canonical => Ok(Self(number)),
            _ => Err(InvalidGoodsNo),
        }
    }
}

impl TryFrom<i64> for GoodsNo {
    type Error = InvalidGoodsNo;

    fn try_from(number: i64) -> Result<Self, InvalidGoodsNo> {
        if number > 0 { Ok(Self(number)) } else { Err(InvalidGoodsNo) }
    }
}

/// The text names no SKU.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("goods_no must be a whole number from 1 to {max}, in digits only", max = i64::MAX)]
pub struct InvalidGoodsNo;

/// How many units are bought at once; always positive.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Quantity(i64);

impl Quantity {
    /// A single unit.
    pub const ONE: Self = Self(1);

    /// A quantity of `units`, or `None` when that is not positive.
    pub fn new(units: i64) -> Option<Self> {
        (units > 0).then_some(Self(units))
    }

    /// The number of units.
    pub fn get(self) -> i64 {
        self.0
    }
}

/// How many units a sale starts with; zero or more.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Stock(i64);

impl Stock {
    /// A stock of `units`, or `None` when that is negative.
    pub fn new(units: i64) -> Option<Self> {
        (units >= 0).then_some(Self(units))
    }

    /// The number of units.
    pub fn get(self) -> i64 {
        self.0
    }
}

/// One SKU as it stands: the sale it is in, what that sale began with, and what is left.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Goods {
    /// The SKU.
    pub goods_no: GoodsNo,
    /// Which sale this is; every reset starts the next.
    pub sale: i64,
    /// Units at the start of the sale.
    pub stock_initial: i64,
    /// Units left. A lost update makes this more than `stock_initial` minus the units ordered.
    pub on_hand: i64,
}

/// What a critical section reads before it decides.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Level {
    /// The sale that the stock belongs to. Only this sale may be written to.
    pub sale: i64,
    /// Units left.
    pub on_hand: i64,
    /// How often an optimistic deduction, or the start of a sale, has written the row.
    pub version: i64,
}

/// The answer of [`decide`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Decision {
    /// There is enough: sell, and leave `remaining` units.
    Sell {
        /// Units left after this sale; never negative.
        remaining: i64,
    },
    /// There is not enough for the whole quantity; part of it is never sold.
    SoldOut,
}

/// Decides a deduction of `quantity` units from `on_hand`. All of the quantity is sold, or nothing.
pub fn decide(on_hand: i64, quantity: Quantity) -> Decision {
    if on_hand >= quantity.get() { Decision::Sell { remaining: on_hand - quantity.get() } } else { Decision::SoldOut }
}

/// The fencing token of a hold, as the database knows it. Tokens are compared by both parts, in this order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Token {
    /// The number of the transaction that granted the lock.
    pub number: i64,
    /// How often it was handed over within a process since.
    pub handover: i64,
}

/// An order that has been committed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Order {
    /// Its number.
    pub order_id: i64,
    /// The strategy that guarded the deduction.
    pub strategy: String,
    /// The instance of the service that made it.
    pub instance: String,
    /// What was sold.
    pub lines: Vec<OrderLine>,
}

/// What an order has of one SKU.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OrderLine {
    /// The SKU.
    pub goods_no: i64,
    /// The sale that the units were taken from.
    pub sale: i64,
    /// How many units.
    pub quantity: i64,
    /// Units left, as far as the deduction could see. `None` in orders from before this was recorded.
    pub remaining: Option<i64>,
    /// The fencing token of the hold that guarded the deduction, where there was one.
    pub token: Option<Token>,
}

/// How a deduction ended when nothing failed. Only `Sold` took anything.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Outcome {
    /// The units were taken and the order is committed.
    Sold(Order),
    /// Not enough was left of this SKU.
    SoldOut(GoodsNo),
    /// There is no such SKU.
    UnknownGoods(GoodsNo),
    /// The sale that was read was over before it could be written to: a reset started the next one.
    SaleRestarted,
    /// Something was asked for under the idempotency key before: what came of that is the answer.
    Repeated,
    /// The idempotency key was used before, for another cart.
    KeyReused,
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn goods_numbers_have_one_spelling() {
        for (text, number) in [("1", 1), ("42", 42), ("9223372036854775807", i64::MAX)] {
            assert_eq!(text.parse::<GoodsNo>().map(GoodsNo::get), Ok(number), "{text}");
        }
        for text in ["", "0", "00", "01", "-1", "+1", " 1", "1 ", "1.0", "1e3", "٣", "x", "9223372036854775808"] {
            assert_eq!(text.parse::<GoodsNo>(), Err(InvalidGoodsNo), "{text:?}");
        }
    }

    #[test]
    fn a_quantity_is_positive_and_a_stock_is_not_negative() {
        assert_eq!(Quantity::new(1), Some(Quantity::ONE));
        assert_eq!(Quantity::new(0), None);
        assert_eq!(Quantity::new(-1), None);
        assert_eq!(Stock::new(0).map(Stock::get), Some(0));
        assert_eq!(Stock::new(-1), None);
    }

    #[test]
    fn decisions_at_the_edges() {
        for (on_hand, units, expected) in [
            (0, 1, Decision::SoldOut),
            (1, 1, Decision::Sell { remaining: 0 }),
            (2, 1, Decision::Sell { remaining: 1 }),
            (2, 3, Decision::SoldOut),
            (i64::MAX, i64::MAX, Decision::Sell { remaining: 0 }),
            (i64::MAX - 1, i64::MAX, Decision::SoldOut),
        ] {
            assert_eq!(decide(on_hand, Quantity::new(units).unwrap()), expected, "{units} of {on_hand}");
        }
    }

    proptest! {
        #[test]
        fn a_sale_conserves_units_and_a_refusal_means_too_few(on_hand in 0..=i64::MAX, units in 1..=i64::MAX) {
            match decide(on_hand, Quantity::new(units).unwrap()) {
                Decision::Sell { remaining } => {
                    prop_assert!(remaining >= 0);
                    prop_assert_eq!(i128::from(remaining) + i128::from(units), i128::from(on_hand));
                }
                Decision::SoldOut => prop_assert!(on_hand < units),
            }
        }

        #[test]
        fn deductions_one_after_another_never_sell_more_than_the_stock(
            stock in 0..200_i64,
            buyers in prop::collection::vec(1..20_i64, 0..100),
        ) {
            let (mut on_hand, mut sold) = (stock, 0);
            for units in buyers {
                if let Decision::Sell { remaining } = decide(on_hand, Quantity::new(units).unwrap()) {
                    sold += units;
                    on_hand = remaining;
                }
            }
            prop_assert_eq!(sold + on_hand, stock);
        }
    }
}
