//! The limit per buyer of a sale.

use std::collections::BTreeMap;

use crate::audit::orders::OrderRow;

/// The units of each buyer, by the orders of a sale.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct UnitsOfBuyers<'a> {
    units: BTreeMap<&'a str, i128>,
    /// Orders that do not say who has bought.
    pub(crate) unnamed: u64,
}

impl<'a> UnitsOfBuyers<'a> {
    /// Adds the orders up by buyer.
    pub(crate) fn of(orders: &'a [OrderRow]) -> UnitsOfBuyers<'a> {
        let mut all = UnitsOfBuyers { units: BTreeMap::new(), unnamed: 0 };
        for order in orders {
            match &order.buyer {
                Some(buyer) => *all.units.entry(buyer).or_default() += i128::from(order.quantity),
                None => all.unnamed += 1,
            }
        }
        all
    }

    /// Counts the buyers that have more units than one buyer may have.
    pub(crate) fn over(&self, per_buyer: i64) -> u64 {
        self.units.values().filter(|units| **units > i128::from(per_buyer)).count() as u64
    }

    /// Tells whether a buyer may have another unit.
    pub(crate) fn has_room(&self, buyer: &str, per_buyer: i64) -> bool {
        self.units.get(buyer).copied().unwrap_or_default() < i128::from(per_buyer)
    }
}
