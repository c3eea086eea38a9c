//! An order that was promised to its buyer, before it is written.

use super::decision::{Order, OrderLine};
use super::goods::Quantity;
use super::purchase::Purchase;

/// An order that was promised at a gate. Its number is given, and its row is written later, or refused.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PromisedOrder {
    /// The number of the order.
    pub order_id: i64,
    /// The sale to which the purchase was admitted.
    pub sale: i64,
    /// What was promised. The cart has one line.
    pub purchase: Purchase,
    /// Units left at the gate.
    pub remaining: i64,
    /// The instance of the service that gave the promise.
    pub instance: String,
}

impl PromisedOrder {
    /// Returns whether a gate can have promised the order. Another program may have written what Redis has.
    pub fn is_possible(&self) -> bool {
        self.order_id > 0 && self.remaining >= 0 && !self.instance.is_empty()
    }

    /// Returns how many units were promised.
    pub fn quantity(&self) -> Quantity {
        self.purchase.cart.lines()[0].quantity
    }

    /// Returns the order as its buyer is told of it. `strategy` is the one that gave the promise.
    pub fn order(&self, strategy: &str) -> Order {
        let line = self.purchase.cart.lines()[0];
        let line = OrderLine {
            goods_no: line.goods_no.get(),
            sale: self.sale,
            quantity: line.quantity.get(),
            remaining: Some(self.remaining),
            token: None,
        };
        let instance = self.instance.clone();
        Order { order_id: self.order_id, strategy: strategy.to_owned(), instance, lines: vec![line] }
    }
}
