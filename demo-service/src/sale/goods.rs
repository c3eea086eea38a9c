//! What is sold: SKUs, quantities, and the sale that a SKU is in.

use std::fmt;
use std::str::FromStr;

/// The number of one stock-keeping unit (SKU); always positive.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct GoodsNo(i64);

impl GoodsNo {
    /// Returns the number, as the database stores it.
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

/// The text or number is not the number of a SKU.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("goods_no must be a whole number from 1 to {max}, in digits only", max = i64::MAX)]
pub struct InvalidGoodsNo;

/// How many units are bought at once; always positive.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Quantity(i64);

impl Quantity {
    /// A single unit.
    pub const ONE: Self = Self(1);

    /// Makes a quantity, or returns `None` if `units` is not positive.
    pub fn new(units: i64) -> Option<Self> {
        (units > 0).then_some(Self(units))
    }

    /// Returns the number of units.
    pub fn get(self) -> i64 {
        self.0
    }
}

/// How many units a sale starts with; zero or more.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Stock(i64);

impl Stock {
    /// Makes a stock, or returns `None` if `units` is negative.
    pub fn new(units: i64) -> Option<Self> {
        (units >= 0).then_some(Self(units))
    }

    /// Returns the number of units.
    pub fn get(self) -> i64 {
        self.0
    }
}

/// What a new sale starts with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NewStock {
    /// This many units.
    Units(Stock),
    /// The units that the current sale has left.
    Remaining,
}

/// What may write a sale.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Guard {
    /// The family of strategies that may write the sale. They exclude each other.
    pub family: String,
    /// The strategy of purchases that name no strategy.
    pub strategy: String,
}

/// One SKU as it stands: its sale, what the sale began with, and what is left.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Goods {
    /// The SKU.
    pub goods_no: GoodsNo,
    /// The number of the sale. Every reset starts the next sale.
    pub sale: i64,
    /// Units at the start of the sale.
    pub stock_initial: i64,
    /// Units left. A lost update makes this more than `stock_initial` minus the units ordered.
    pub on_hand: i64,
    /// What may write the sale; `None` until the first purchase claims it.
    pub guard: Option<Guard>,
    /// Most units of the sale that one buyer may have; `None` without such a limit.
    pub per_buyer: Option<Quantity>,
}

#[cfg(test)]
mod tests {
    use super::*;

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
}
